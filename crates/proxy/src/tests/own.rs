//! What the proxy answers itself below `/w/{id}/.codehub/`: when the workspace sleeps, waking it, keeping it awake.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use codehub_domain::change::Change;
use codehub_domain::{
    Desired, Operation, Phase, Timestamp,
    limits::{LimitHit, LimitScope},
};
use jiff::SignedDuration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::support::*;
use crate::{
    activity::ActivityKind,
    appearance::{Lang, Theme},
    gate::{Sleep, Woken},
};

const ORIGIN: &str = "Origin: http://code.example.com";

/// The events of a page, as they come.
struct Page {
    stream: TcpStream,
    text: String,
}

impl Page {
    async fn open(rig: &Rig) -> Self {
        let mut stream = rig.connect().await;
        let request = head("GET", "/.codehub/events", &[&format!("Cookie: {COOKIE}")]);
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    /// Reads on until this has come; what came with it. `None` at the end of the stream.
    async fn hears(&mut self, what: &str) -> Option<String> {
        let reading = async {
            loop {
                if let Some(at) = self.text.find(what) {
                    let rest = self.text.split_off(at + what.len());
                    return Some(std::mem::replace(&mut self.text, rest));
                }
                let mut bytes = [0; 4096];
                match self.stream.read(&mut bytes).await.unwrap() {
                    0 => return None,
                    n => self.text.push_str(&String::from_utf8_lossy(&bytes[..n])),
                }
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(10), reading).await;
        heard.unwrap_or_else(|_| panic!("waited for {what}"))
    }
}

async fn post(rig: &Rig, path: &str, lines: &[&str]) -> String {
    let cookie = format!("Cookie: {COOKIE}");
    let lines: Vec<&str> = [&cookie, "Content-Length: 0"].into_iter().chain(lines.iter().copied()).collect();
    rig.send("POST", path, &lines).await
}

fn sleeps_in(rig: &Rig, seconds: i64) {
    let now = Timestamp::now();
    let stops_at = Some(now + SignedDuration::from_secs(seconds));
    *rig.gate.sleep.lock().unwrap() = Sleep { now, stops_at, ttl_seconds: 600 };
}

#[tokio::test]
async fn a_page_hears_how_its_workspace_is_and_that_is_no_activity() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    // So that the short way knows everything, and could forward it.
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    let before = rig.activity.cell(workspace()).age(ActivityKind::Http).unwrap();
    let_time_pass(Duration::from_millis(20)).await;
    let mut page = Page::open(&rig).await;
    let first = page.hears("\n\n").await.unwrap();
    assert!(first.contains("text/event-stream") && first.contains(r#""state":"running""#), "{first}");
    assert!(first.contains(r#""ttl_seconds":600,"stops_at":null"#), "{first}");
    let after = rig.activity.cell(workspace()).age(ActivityKind::Http).unwrap();
    assert!(after >= before + Duration::from_millis(20), "listening is nobody's work");

    rig.gate.change(|view| (view.operation, view.desired) = (Operation::Stopping, Desired::Standby));
    page.hears(r#""state":"stopping""#).await.unwrap();
    rig.gate.change(|view| (view.phase, view.operation) = (Phase::Standby, Operation::None));
    page.hears(r#""state":"asleep""#).await.unwrap();
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Running, Desired::Running));
    page.hears(r#""state":"running""#).await.unwrap();
    assert_eq!(rig.gate.wakes.load(SeqCst), 0, "listening wakes nobody");

    rig.gate.sessions.lock().unwrap().clear();
    rig.gate.tell(Change::Access { user: owner() });
    // Signed out: the answer ends.
    page.hears("0\r\n\r\n").await.unwrap();
}

#[tokio::test]
async fn sleep_is_announced_a_minute_before_and_taken_back() {
    let rig = Rig::new().await;
    sleeps_in(&rig, 62);
    let mut page = Page::open(&rig).await;
    page.hears(r#""stops_at":null"#).await.unwrap();
    assert_eq!(rig.gate.sleep_reads.load(SeqCst), 1);
    page.hears(r#""stops_at":"20"#).await.unwrap();
    assert_eq!(rig.gate.sleep_reads.load(SeqCst), 2, "nothing is asked before it may be news");
    sleeps_in(&rig, 690);
    page.hears(r#""stops_at":null"#).await.unwrap();
    // A lease that was given back is heard of, however far away sleep was.
    sleeps_in(&rig, 30);
    rig.gate.change(|view| view.held_until = Some(Timestamp::now()));
    page.hears(r#""stops_at":"20"#).await.unwrap();
}

#[tokio::test]
async fn a_short_ttl_is_not_announced_all_the_time() {
    let rig = Rig::new().await;
    sleeps_in(&rig, 9);
    rig.gate.sleep.lock().unwrap().ttl_seconds = 10;
    let mut page = Page::open(&rig).await;
    page.hears(r#""stops_at":null"#).await.unwrap();
    page.hears(r#""stops_at":"20"#).await.unwrap();
}

#[tokio::test]
async fn waking_is_asked_for_by_the_workspaces_own_page() {
    let rig = Rig::new().await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    for (lines, status) in [
        (&["Origin: https://evil.example"][..], 403),
        (&[][..], 403),
        (&[ORIGIN, "Sec-Purpose: prefetch"], 200),
    ] {
        let gate = rig.gate.clone();
        let waking = tokio::spawn(async move {
            while gate.wakes.load(SeqCst) == 0 {
                poll_every(Duration::from_millis(5)).await;
            }
            gate.change(|view| (view.phase, view.operation) = (Phase::Running, Operation::None));
        });
        let answer = post(&rig, "/.codehub/wake", lines).await;
        assert_eq!(status_of(&answer), status, "{answer}");
        assert_eq!(rig.gate.wakes.load(SeqCst), u32::from(status == 200));
        waking.abort();
    }
    assert!(rig.activity.cell(workspace()).age(ActivityKind::Http).is_some(), "somebody is there");
    let cookie = "Cookie: session=stranger-secret";
    assert_eq!(
        status_of(&rig.send("POST", "/.codehub/wake", &[cookie, ORIGIN, "Content-Length: 0"]).await),
        403
    );
    assert_eq!(status_of(&rig.send("POST", "/.codehub/wake", &[ORIGIN, "Content-Length: 0"]).await), 401);
    assert_eq!(status_of(&rig.get("/.codehub/wake", &[]).await), 405);
    assert_eq!(status_of(&rig.get("/.codehub/other", &[]).await), 404);
}

/// What an IDE that knows one address of its own offers as "start again" must lead to another origin.
#[tokio::test]
async fn the_way_to_the_dashboard_is_shown_even_asleep() {
    let rig = Rig::new().await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    for (path, to) in [
        ("/.codehub/dashboard", "/".to_owned()),
        ("/.codehub/workspace?from=/spawn/user", format!("/workspaces/{}", workspace())),
    ] {
        let answer = rig.get(path, &[]).await;
        assert_eq!(status_of(&answer), 303, "{answer}");
        let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_default();
        assert!(location.ends_with(&to), "{answer}");
    }
    assert_eq!(rig.gate.wakes.load(SeqCst), 0, "that wakes nothing");
}

#[tokio::test]
async fn waking_says_how_far_it_is_and_why_not() {
    let rig = Rig::with(Options { hold: Duration::from_millis(50), ..Options::default() }).await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    let answer = post(&rig, "/.codehub/wake", &[ORIGIN]).await;
    assert_eq!((status_of(&answer), body_of(&answer)), (202, r#"{"state":"starting"}"#));
    let hit = LimitHit { scope: LimitScope::User { limit: 1 }, running: Vec::new() };
    for (phase, woken, code) in [
        (Phase::Archived, Woken::Asked, "ARCHIVED"),
        (Phase::Pending, Woken::Asked, "NOT_STARTED"),
        (Phase::Error, Woken::Asked, "BROKEN"),
        (Phase::Standby, Woken::NeedsRecovery, "BROKEN"),
        (Phase::Standby, Woken::Limit(hit), "LIMIT_REACHED"),
    ] {
        *rig.gate.woken.lock().unwrap() = woken;
        rig.gate.change(|view| (view.phase, view.desired) = (phase, Desired::Standby));
        let answer = post(&rig, "/.codehub/wake", &[ORIGIN]).await;
        assert_eq!(status_of(&answer), 409, "{phase}");
        assert!(body_of(&answer).contains(code), "{phase}: {answer}");
    }
}

/// What was chosen with the account, else what this browser says; to the owner alone.
#[tokio::test]
async fn the_language_and_theme_of_the_person() {
    let rig = Rig::new().await;
    let cookie = format!("Cookie: {COOKIE}");
    let asked = async |line: &str| rig.send("GET", "/.codehub/appearance.js", &[&cookie, line]).await;
    let korean = "Accept-Language: ko-KR,ko;q=0.9";
    let answer = asked(korean).await;
    assert!(answer.to_lowercase().contains("content-type: text/javascript"), "{answer}");
    assert!(answer.contains(r#"{"language":"ko","theme":"auto"}"#), "{answer}");
    *rig.gate.appearance.lock().unwrap() = (Some(Lang::En), Some(Theme::Dark));
    let answer = asked(korean).await;
    assert!(answer.contains(r#"{"language":"en","theme":"dark"}"#), "{answer}");
    assert_eq!(status_of(&post(&rig, "/.codehub/appearance.js", &[ORIGIN]).await), 405);
}

#[tokio::test]
async fn keeping_awake() {
    let rig = Rig::new().await;
    assert_eq!(status_of(&post(&rig, "/.codehub/keep-awake", &[]).await), 403);
    assert_eq!(status_of(&post(&rig, "/.codehub/keep-awake", &[ORIGIN]).await), 200);
    assert_eq!(*rig.gate.kept_awake.lock().unwrap(), Ok(1));
    *rig.gate.kept_awake.lock().unwrap() = Err("the workspace is in ERROR: recover it first".into());
    let answer = post(&rig, "/.codehub/keep-awake", &[ORIGIN]).await;
    assert_eq!(status_of(&answer), 409);
    assert!(body_of(&answer).contains("recover it first"), "{answer}");
}
