//! A workspace at an origin of its own: hosts, the hand-over, and what may pass there.

use codehub_domain::{Phase, WorkspaceId, origins::Mode};

use super::support::{
    COOKIE, Options, Rig, TOKEN, Upstream, body_of, header_of, origin, status_of, stranger, workspace,
};

pub(super) const NAVIGATE: &str = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html";

pub(super) fn domain() -> Mode {
    Mode::Domain { name: "apps.example".into() }
}

pub(super) fn own() -> String {
    format!("{}.apps.example", workspace())
}

async fn rig(upstream: &Upstream) -> Rig {
    let rig = Rig::with(Options { origins: domain(), ..Options::default() }).await;
    rig.lead_to(upstream);
    rig
}

impl Rig {
    /// A request to this host, with these lines.
    pub(super) async fn ask(&self, host: &str, request: &str, lines: &[&str]) -> String {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        self.raw(format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n")).await
    }
}

pub(super) fn location(answer: &str) -> &str {
    header_of(answer, "location").unwrap_or_default()
}

/// Path and query of an address.
pub(super) fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").unwrap().1;
    &rest[rest.find('/').unwrap()..]
}

pub(super) fn cookie_set(answer: &str, name: &str) -> Option<String> {
    answer.lines().find_map(|line| {
        let value = line.strip_prefix("set-cookie: ")?;
        value.starts_with(name).then(|| value.split(';').next().unwrap().to_owned())
    })
}

#[tokio::test]
async fn a_host_names_a_workspace_and_everything_else_is_misdirected() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let id = workspace();
    let cookie = "Cookie: codehub_workspace=owner-secret; mine=1";
    let answer = rig.ask(&own(), "GET /a/b?c", &[cookie]).await;
    assert_eq!(status_of(&answer), 200, "{answer}");
    let seen = body_of(&answer);
    assert!(seen.starts_with("GET /a/b?c HTTP/1.1"), "{seen}");
    assert!(seen.contains("cookie: mine=1") && !seen.contains("owner-secret"), "{seen}");
    assert!(
        seen.contains(&format!("host: {}", own())) && seen.contains("x-forwarded-prefix: \r\n"),
        "{seen}"
    );
    for (name, value) in [
        ("content-security-policy", "frame-ancestors 'self'"),
        ("origin-agent-cluster", "?1"),
        ("cross-origin-opener-policy", "same-origin-allow-popups"),
    ] {
        assert_eq!(header_of(&answer, name), Some(value));
    }
    for foreign in [
        format!("{id}.evil.example"),
        format!("{id}.apps.example.evil.example"),
        format!("{id}.evilapps.example"),
        format!("{id}.apps.example."),
        format!("x.{id}.apps.example"),
        "x.apps.example".into(),
        "apps.example".into(),
    ] {
        assert_eq!(status_of(&rig.ask(&foreign, "GET /", &[cookie]).await), 421, "{foreign}");
    }
    assert_eq!(status_of(&rig.ask(&own().to_uppercase(), "GET /", &[cookie]).await), 200);
    let port = rig.ask(&format!("3000-{}", own()), "GET /", &[cookie]).await;
    assert_eq!(status_of(&port), 401, "the workspace's cookie is worth nothing at its ports");
    // The dashboard's paths are the program's there, but for ours.
    let health = rig.ask(&own(), "GET /healthz", &[cookie]).await;
    assert!(body_of(&health).starts_with("GET /healthz"));
    let api = rig.ask(&own(), "GET /api/v1/workspaces", &[cookie]).await;
    assert!(body_of(&api).starts_with("GET /api/v1/workspaces"));
    assert_eq!(body_of(&rig.ask("code.example.com", "GET /x", &[]).await), "the application");
}

#[tokio::test]
async fn every_request_of_a_connection_is_read_anew() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let mine =
        format!("GET /1 HTTP/1.1\r\nHost: {}\r\nCookie: codehub_workspace=owner-secret\r\n\r\n", own());
    let other: WorkspaceId = "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap();
    let theirs = format!(
        "GET /2 HTTP/1.1\r\nHost: {other}.apps.example\r\nCookie: codehub_workspace=owner-secret\r\n\r\n"
    );
    let end = "GET /3 HTTP/1.1\r\nHost: code.example.com\r\nConnection: close\r\n\r\n";
    // Twice each, so that what is remembered of the first is asked, too.
    let answer = rig.raw(format!("{mine}{mine}{mine}{theirs}{mine}{end}")).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 5, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 401 Unauthorized").count(), 1, "{answer}");
    assert!(!answer.contains("GET /2"), "another's never gets there");
}

#[tokio::test]
async fn a_visitor_is_handed_over_once() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let (id, session) = (workspace(), format!("Cookie: {COOKIE}"));
    // The dashboard's own session is worth nothing there.
    let first = rig.ask(&own(), "GET /x?y=1", &[NAVIGATE, &session]).await;
    assert_eq!(status_of(&first), 303, "{first}");
    assert_eq!(header_of(&first, "referrer-policy"), Some("no-referrer"));
    assert_eq!(header_of(&first, "cache-control"), Some("no-store"));
    let to = location(&first);
    assert!(to.starts_with(&format!("http://code.example.com/open/{id}?to=/x%3Fy%3D1&state=")), "{to}");
    let nonce = cookie_set(&first, "codehub_nonce.").unwrap();
    // Another tab keeps the nonce.
    let again = rig.ask(&own(), "GET /other", &[NAVIGATE, &format!("Cookie: {nonce}")]).await;
    assert_eq!(cookie_set(&again, "codehub_nonce.").as_ref(), Some(&nonce));
    assert_eq!(location(&again).split("state=").nth(1), to.split("state=").nth(1));

    let open = format!("GET {}", path_of(to));
    assert!(location(&rig.ask("code.example.com", &open, &[NAVIGATE]).await).starts_with("/login?next="));
    let theirs = rig.ask("code.example.com", &open, &[NAVIGATE, "Cookie: session=stranger-secret"]).await;
    assert_eq!(status_of(&theirs), 403);
    let opened = rig.ask("code.example.com", &open, &[NAVIGATE, &session]).await;
    let enter = location(&opened).to_owned();
    assert!(enter.starts_with(&format!("http://{}/.codehub/enter?code=", own())), "{opened}");
    assert_eq!(header_of(&opened, "referrer-policy"), Some("no-referrer"));

    let enter = format!("GET {}", path_of(&enter));
    let other = nonce.replace(|c: char| c.is_ascii_digit(), "0");
    for wrong in [vec![NAVIGATE], vec![NAVIGATE, &format!("Cookie: {other}")]] {
        let refused = rig.ask(&own(), &enter, &wrong).await;
        assert_eq!(status_of(&refused), 400, "{refused}");
        assert!(
            body_of(&refused).contains(&format!("http://code.example.com/open/{id}")),
            "a link, no redirect"
        );
    }
    // Another tab began at the same moment and was given one of its own.
    let nonce = format!("Cookie: codehub_nonce.00000000={}; {nonce}", "0".repeat(64));
    assert_eq!(status_of(&rig.ask(&own(), &enter, &[NAVIGATE, &nonce, "Sec-Purpose: prefetch"]).await), 503);
    let entered = rig.ask(&own(), &enter, &[NAVIGATE, &nonce]).await;
    assert_eq!((status_of(&entered), location(&entered)), (303, "/x?y=1"), "{entered}");
    let cookie = format!("Cookie: {}", cookie_set(&entered, "codehub_workspace").unwrap());
    assert_eq!(status_of(&rig.ask(&own(), &enter, &[NAVIGATE, &nonce]).await), 400, "once");
    assert_eq!(status_of(&rig.ask(&own(), "GET /x?y=1", &[NAVIGATE, &cookie]).await), 200);
    // It is worth nothing at the dashboard, nor at another origin.
    let there = rig
        .ask("code.example.com", &open, &[NAVIGATE, &cookie.replace("codehub_workspace", "session")])
        .await;
    assert!(location(&there).starts_with("/login"));
}

#[tokio::test]
async fn without_a_good_cookie_only_a_person_is_led_on() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    assert_eq!(status_of(&rig.ask(&own(), "GET /", &[]).await), 401);
    assert_eq!(status_of(&rig.ask(&own(), "POST /", &["Content-Length: 0"]).await), 401);
    assert_eq!(status_of(&rig.ask(&own(), "GET /", &[NAVIGATE, "Sec-Purpose: prefetch"]).await), 503);
    let embedded = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe";
    let cookie = "Cookie: codehub_workspace=owner-secret";
    for (lines, status) in [
        (vec![embedded, cookie], 403),
        (vec!["Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors", cookie], 403),
        (vec!["Sec-Fetch-Site: cross-site", NAVIGATE, cookie], 200),
    ] {
        assert_eq!(status_of(&rig.ask(&own(), "GET /", &lines).await), status, "{lines:?}");
    }
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(status_of(&rig.ask(&own(), "GET /", &[&bearer]).await), 200);
    assert_eq!(upstream.connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn only_its_own_pages_write_there() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let (cookie, own_origin) =
        ("Cookie: codehub_workspace=owner-secret", format!("Origin: http://{}", own()));
    for (origin, status) in [
        (own_origin.as_str(), 200),
        ("Origin: http://code.example.com", 403),
        ("Origin: http://01890a5d-ac96-774b-bcce-b302099a8058.apps.example", 403),
        ("Origin: null", 403),
        ("X: 1", 403),
    ] {
        let lines = [cookie, origin, "Content-Length: 0"];
        assert_eq!(status_of(&rig.ask(&own(), "POST /", &lines).await), status, "{origin}");
        let upgrade = [cookie, origin, "Upgrade: websocket", "Sec-WebSocket-Key: x"];
        let raw = upgrade.join("\r\n");
        let sent =
            format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close, upgrade\r\n{raw}\r\n\r\n", own());
        assert_eq!(status_of(&rig.raw(sent).await), status, "{origin}");
    }
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(status_of(&rig.ask(&own(), "POST /", &[&bearer, "Content-Length: 0"]).await), 200);
    // And none of its pages does anything with the dashboard, whatever it has.
    for lines in [
        vec![own_origin.as_str()],
        vec![&own_origin, &bearer],
        vec!["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"],
        vec!["Sec-Fetch-Site: cross-site", NAVIGATE],
    ] {
        let answer = rig.ask("code.example.com", "GET /api/v1/workspaces", &lines).await;
        assert_eq!(status_of(&answer), 403, "{lines:?} {answer}");
    }
    assert_eq!(
        status_of(&rig.ask("code.example.com", "GET /", &["Sec-Fetch-Site: cross-site", NAVIGATE]).await),
        200
    );
}

#[tokio::test]
async fn what_a_program_says_stays_on_its_origin() {
    let upstream = Upstream::answering(
        "Set-Cookie: a=1; Domain=example.com; Path=/\r\nSet-Cookie: codehub_workspace=x\r\n\
         Set-Cookie: CodeHub_nonce=x\r\nSet-Cookie: __Host-mine=1; Secure; Path=/\r\n\
         Clear-Site-Data: \"cookies\", \"storage\", \"*\"\r\nStrict-Transport-Security: max-age=1\r\n\
         Service-Worker-Allowed: /deep/\r\nCross-Origin-Opener-Policy: same-origin\r\n",
    )
    .await;
    let rig = rig(&upstream).await;
    for _ in 0..2 {
        let answer = rig.ask(&own(), "GET /", &["Cookie: codehub_workspace=owner-secret"]).await;
        let set: Vec<&str> =
            answer.lines().filter(|line| line.to_ascii_lowercase().starts_with("set-cookie")).collect();
        assert_eq!(set.len(), 2, "{set:?}");
        assert!(set[0].ends_with("a=1; Path=/") && set[1].contains("__Host-mine=1"), "{set:?}");
        assert_eq!(header_of(&answer, "clear-site-data"), Some("\"storage\""));
        assert_eq!(header_of(&answer, "service-worker-allowed"), Some("/deep/"));
        assert_eq!(header_of(&answer, "cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(header_of(&answer, "strict-transport-security"), None);
    }
}

#[tokio::test]
async fn the_waiting_room_is_on_the_dashboard() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let (id, session) = (workspace(), format!("Cookie: {COOKIE}"));
    let cookie = "Cookie: codehub_workspace=owner-secret";
    rig.gate.change(|view| {
        view.phase = Phase::Archived;
        view.desired = codehub_domain::Desired::Archived;
    });
    let open = format!("GET /open/{id}");
    let there = rig.ask(&own(), "GET /deep", &[NAVIGATE, cookie]).await;
    assert!(location(&there).starts_with(&format!("http://code.example.com/open/{id}?to=/deep")), "{there}");
    let page = rig.ask("code.example.com", &open, &[NAVIGATE, &session]).await;
    assert_eq!(status_of(&page), 502);
    assert!(body_of(&page).contains(&format!("value=\"/open/{id}?form\"")), "{page}");
    assert!(header_of(&page, "content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    // After a form no redirect leads to another origin.
    let after = rig.ask("code.example.com", &format!("{open}?form&to=%2Fx"), &[NAVIGATE, &session]).await;
    assert_eq!(status_of(&after), 200);
    assert_eq!(header_of(&after, "refresh"), Some(format!("0; url=/open/{id}?to=%2Fx").as_str()));
    // What nobody opened wakes nothing, here or there.
    rig.gate.change(|view| {
        view.phase = Phase::Standby;
        view.desired = codehub_domain::Desired::Standby;
    });
    let frame = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe";
    for (host, request) in [(own(), "GET /".to_owned()), ("code.example.com".into(), open.clone())] {
        for lines in [
            vec![frame, cookie, &session],
            vec![
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image",
                cookie,
                &session,
            ],
            vec![NAVIGATE, "Sec-Purpose: prefetch", cookie],
            vec!["Sec-Fetch-Mode: cors", cookie],
        ] {
            rig.ask(&host, &request, &lines).await;
        }
    }
    assert_eq!(rig.gate.wakes.load(std::sync::atomic::Ordering::SeqCst), 0);
    // Running again: without a state it goes on to the origin, which begins anew.
    rig.gate.change(|view| view.phase = Phase::Running);
    rig.gate.change(|view| view.desired = codehub_domain::Desired::Running);
    let opened =
        rig.ask("code.example.com", &format!("{open}?to=%2F%2Fevil.example"), &[NAVIGATE, &session]).await;
    assert_eq!(location(&opened), format!("http://{}/", own()));
}

#[tokio::test]
async fn old_links_lead_to_the_origin() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let id = workspace();
    let answer = rig.ask("code.example.com", &format!("GET /w/{id}/a?b=c"), &[]).await;
    assert_eq!((status_of(&answer), location(&answer)), (307, format!("http://{}/a?b=c", own()).as_str()));
    let write = rig.ask("code.example.com", &format!("POST /w/{id}/a"), &["Content-Length: 0"]).await;
    assert_eq!(status_of(&write), 421);
}

#[tokio::test]
async fn what_is_gone_leaves_nothing_in_the_browser() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let cookie = "Cookie: codehub_workspace=owner-secret";
    rig.gate.change(|view| view.deleted = true);
    let gone = rig.ask(&own(), "GET /", &[NAVIGATE, cookie]).await;
    assert_eq!(status_of(&gone), 404);
    assert_eq!(header_of(&gone, "clear-site-data"), Some("\"cache\", \"storage\""));
    assert!(body_of(&gone).contains("href=\"http://code.example.com/\""));
}

#[tokio::test]
async fn a_second_port_keeps_the_dashboard_apart() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::with(Options { origins: Mode::Port { port: 8081 }, ..Options::default() }).await;
    rig.lead_to(&upstream);
    let id = workspace();
    let cookie = format!("Cookie: session=owner-secret; codehub_workspace-{id}=owner-secret; a=b");
    for _ in 0..2 {
        let answer = rig
            .ask(
                "box.lan:8081".replace("box.lan", "10.0.0.5").as_str(),
                &format!("GET /w/{id}/x"),
                &[&cookie],
            )
            .await;
        assert_eq!(status_of(&answer), 200, "{answer}");
        assert!(body_of(&answer).contains("cookie: a=b\r\n"), "{answer}");
    }
    let session = "Cookie: session=owner-secret";
    let first = rig.ask("10.0.0.5:8081", &format!("GET /w/{id}/x"), &[NAVIGATE, session]).await;
    assert!(location(&first).starts_with(&format!("http://10.0.0.5/open/{id}?to=/x&state=")), "{first}");
    assert!(cookie_set(&first, &format!("codehub_nonce-{id}.")).is_some());
    // A page of a workspace could read what is answered there, with the dashboard's cookie.
    for path in ["/", "/api/v1/workspaces", "/login", "/metrics", "/readyz"] {
        let answer = rig.ask("10.0.0.5:8081", &format!("GET {path}"), &[session]).await;
        assert_eq!(status_of(&answer), 404, "{path}");
    }
    let check = rig.ask("10.0.0.5:8081", "GET /healthz", &[]).await;
    assert_eq!((status_of(&check), body_of(&check)), (200, "the application"));
}

#[tokio::test]
async fn a_right_that_ends_takes_the_origin_with_it() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let cookie = "Cookie: codehub_workspace=owner-secret";
    assert_eq!(status_of(&rig.ask(&own(), "GET /", &[cookie]).await), 200);
    rig.gate.entered.lock().unwrap().insert((origin(None), b"owner-secret".to_vec()), stranger());
    rig.gate.tell(codehub_domain::change::Change::Access { user: super::support::owner() });
    super::support::eventually("it is refused", async || {
        status_of(&rig.ask(&own(), "GET /", &[cookie]).await) == 403
    })
    .await;
}

/// Anybody may ask any origin which deployment it belongs to, and learns nothing they did not know.
#[tokio::test]
async fn every_origin_says_whose_it_is() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig(&upstream).await;
    let expected = format!("{}\n", crate::ping_answer("this deployment", "abc"));
    assert_eq!(expected.len(), 65);
    let nobody = own().replace("01890a5d", "11111111");
    for host in [own().as_str(), &nobody, "code.example.com"] {
        let answer = rig.ask(host, "GET /.codehub/ping?nonce=abc", &[]).await;
        assert_eq!((status_of(&answer), body_of(&answer)), (200, expected.as_str()), "{host}");
        let long = "x".repeat(65);
        for wrong in ["?nonce=", "", "?x=abc", &format!("?nonce={long}")] {
            let answer = rig.ask(host, &format!("GET /.codehub/ping{wrong}"), &[]).await;
            assert_eq!(status_of(&answer), 400, "{host} {wrong}");
        }
        assert_eq!(status_of(&rig.ask(host, "POST /.codehub/ping?nonce=abc", &[]).await), 400);
    }
    assert_eq!(status_of(&rig.ask("evil.example", "GET /.codehub/ping?nonce=abc", &[]).await), 421);
    assert_ne!(crate::ping_answer("this deployment", "abd"), crate::ping_answer("this deployment", "abc"));
    assert_eq!(upstream.connections.load(std::sync::atomic::Ordering::SeqCst), 0);
}
