//! What the pages promise: both languages, a strict policy, no JavaScript needed.

use std::time::Duration;

use codehub_domain::{Desired, Phase};

use super::support::*;

#[tokio::test]
async fn pages_speak_english_and_korean_under_a_strict_policy() {
    let rig = Rig::with(Options { hold: Duration::from_millis(50), ..Options::default() }).await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    let english = rig.navigate(&["Accept-Language: en"]).await;
    let korean = rig.navigate(&["Accept-Language: ko-KR,ko;q=0.9,en;q=0.5"]).await;
    let dark = rig.navigate(&["Cookie: theme=dark; lang=ko"]).await;
    assert!(
        dark.contains("<html lang=\"ko\" data-theme=\"dark\">"),
        "what was chosen on the dashboard holds"
    );
    assert!(english.contains("<html lang=\"en\">") && english.contains("Starting your workspace"));
    assert!(korean.contains("<html lang=\"ko\">") && korean.contains("워크스페이스를 시작하고 있습니다"));
    for page in [english, korean] {
        let policy = header_of(&page, "content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert_eq!(page.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert!(!page.contains(" style=") && !page.contains("onclick") && !page.contains("http://"));
        assert_eq!(header_of(&page, "cache-control"), Some("no-store"));
        assert!(page.contains(&format!("data-follows=\"{}\"", workspace())));
    }
}

#[tokio::test]
async fn an_unreachable_workspace_gives_a_page_to_people_and_json_to_programs() {
    let rig = Rig::new().await;
    let page = rig.navigate(&["Accept-Language: ko"]).await;
    assert_eq!(status_of(&page), 502);
    assert!(page.contains("워크스페이스가 응답하지 않습니다"), "{page}");
    assert!(header_of(&page, "refresh").is_some());
    // It is said to run: following its events would reload without end.
    assert!(!page.contains("<script"));
    let answer = rig.get("/", &[]).await;
    assert_eq!(status_of(&answer), 502);
    assert!(body_of(&answer).contains("UPSTREAM_UNAVAILABLE"));
}
