//! Ports of a workspace at origins of their own: who gets there, what the programs see, and what counts as work.

use codehub_domain::{
    Desired, Phase, UserId,
    change::Change,
    ports::{PortActivity, PortHost, PortSettings, PortsPolicy, Visibility},
};
use codehub_upstream::NotDialled;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    origins::{NAVIGATE, cookie_set, domain, location, own, path_of},
    support::{
        COOKIE, Options, Rig, SESSION, TOKEN, Upstream, body_of, eventually, header_of, origin, owner,
        read_head, status_of, stranger, workspace,
    },
};
use crate::{activity::ActivityKind, appearance::Lang, gate::Listening};

const AT_PORT: &str = "Cookie: codehub_workspace=at-port; mine=1";
const THEIRS: &str = "Cookie: codehub_workspace=theirs";

fn host(port: u16) -> String {
    format!("{port}-{}", own())
}

/// A rig whose workspace has a program at port 3000, where its owner has a session.
async fn rig_with(program: &Upstream, options: Options) -> Rig {
    let rig = Rig::with(Options { origins: domain(), ..options }).await;
    // The IDE is somewhere else.
    *rig.gate.upstream.lock().unwrap() =
        Some(codehub_upstream::Upstream::at(std::net::SocketAddr::from(([127, 0, 0, 1], 8443))));
    rig.gate.ports.lock().unwrap().insert(3000, program.addr);
    for port in [3000, 3001, 8443] {
        rig.gate.enters("at-port", port, owner());
        rig.gate.enters("theirs", port, stranger());
    }
    rig
}

async fn rig(program: &Upstream) -> Rig {
    rig_with(program, Options::default()).await
}

impl super::support::FakeGate {
    fn enters(&self, secret: &str, port: u16, user: UserId) {
        self.entered.lock().unwrap().insert((origin(Some(port)), secret.into()), user);
    }

    fn says(&self, settings: PortSettings) {
        self.change(|view| {
            view.ports.retain(|known| known.port != settings.port);
            view.ports.push(settings);
        });
    }

    fn shares(&self, port: u16) {
        self.says(PortSettings { visibility: Visibility::SignedIn, ..PortSettings::of(port) });
    }
}

#[tokio::test]
async fn a_program_sees_its_browser_on_the_same_machine() {
    let program = Upstream::answering("Set-Cookie: a=b; Domain=apps.example\r\n").await;
    let rig = rig(&program).await;
    let origin = format!("Origin: http://{}", host(3000));
    let referer = format!("Referer: http://{}/page?x", host(3000));
    let lines = [AT_PORT, &origin, &referer, "X-Forwarded-Host: evil", "Forwarded: for=1.2.3.4"];
    let answer = rig.ask(&host(3000), "GET /a?b", &lines).await;
    assert_eq!(status_of(&answer), 200, "{answer}");
    let seen = body_of(&answer).to_ascii_lowercase();
    for line in ["get /a?b http/1.1", "host: localhost:3000", "origin: http://localhost:3000\r\n"] {
        assert!(seen.contains(line), "{line}: {seen}");
    }
    assert!(
        seen.contains("referer: http://localhost:3000/page?x") && seen.contains("cookie: mine=1"),
        "{seen}"
    );
    for line in ["forwarded", "at-port", "apps.example"] {
        assert!(!seen.contains(line), "{line}: {seen}");
    }
    assert_eq!(header_of(&answer, "set-cookie"), Some("a=b; Path=/"));
    assert_eq!(header_of(&answer, "x-robots-tag"), Some("noindex"));
    assert_eq!(header_of(&answer, "cross-origin-opener-policy"), None);
    let framed = format!("frame-ancestors 'self' http://{}", own());
    assert_eq!(header_of(&answer, "content-security-policy"), Some(framed.as_str()));

    // What is another's stays another's, and a program may be told the truth instead.
    let elsewhere = format!("http://{}.evil.example", host(3000));
    let referer = format!("Referer: {elsewhere}/");
    let seen = rig.ask(&host(3000), "GET /", &[AT_PORT, &referer]).await;
    assert!(seen.contains(&format!("referer: {elsewhere}/")), "{seen}");
    rig.gate.says(PortSettings { host: PortHost::Public, ..PortSettings::of(3000) });
    eventually("it is told", async || {
        let seen = rig.ask(&host(3000), "GET /", &[AT_PORT, &origin]).await;
        seen.contains(&format!("host: {}", host(3000)))
            && seen.contains(&format!("x-forwarded-host: {}", host(3000)))
            && seen.contains(&format!("origin: http://{}", host(3000)))
    })
    .await;
}

/// What a page of the workspace is told next, up to this.
async fn heard(stream: &mut tokio::net::TcpStream, what: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(what) {
        let mut bytes = [0; 4096];
        let read = tokio::time::timeout(std::time::Duration::from_secs(10), stream.read(&mut bytes)).await;
        let read = read.unwrap_or_else(|_| panic!("waited for {what}: {heard}")).unwrap();
        assert_ne!(read, 0, "{what}: {heard}");
        heard.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    heard
}

#[tokio::test]
async fn a_page_of_the_workspace_hears_what_listens() {
    let program = Upstream::echoing_heads().await;
    let ports = PortsPolicy { denied: vec![22..=22], ..PortsPolicy::default() };
    let rig = rig_with(&program, Options { ports, ..Options::default() }).await;
    let listening = |port, label: &str| Listening { port, process: "node".into(), label: label.into() };
    let asks = async |path: &str| {
        let mut stream = rig.connect().await;
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: codehub_workspace={SESSION}\r\n\r\n", own());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    };
    let mut page = asks("/.codehub/events?ports").await;
    heard(&mut page, "event: ports\ndata: []\n\n").await;
    rig.gate.listening.send_replace(vec![listening(22, ""), listening(3000, "shop")]);
    let told = heard(&mut page, "event: ports\n").await;
    let url = format!("http://{}/", host(3000));
    let expected = format!(r#"[{{"label":"shop","port":3000,"process":"node","url":"{url}"}}]"#);
    assert!(told.contains(&expected), "{told}: those that are opened, and where");
    let mut other = asks("/.codehub/events").await;
    let told = heard(&mut other, r#""state":"running""#).await;
    assert!(!told.contains("ports"), "who does not ask is told nothing: {told}");
}

#[tokio::test]
async fn redirects_to_local_addresses_lead_to_the_ports_origins() {
    for (said, seen) in [
        ("http://localhost:3000/x?y", format!("http://{}/x?y", host(3000))),
        ("http://127.0.0.1:5000", format!("http://{}", host(5000))),
        ("https://[::1]:5000/", format!("http://{}/", host(5000))),
        ("//0.0.0.0:3000/", format!("http://{}/", host(3000))),
        ("/relative", "/relative".into()),
        ("http://localhost/", "http://localhost/".into()),
        ("https://example.com:3000/", "https://example.com:3000/".into()),
        ("http://localhost.evil.example:3000/", "http://localhost.evil.example:3000/".into()),
    ] {
        let program = Upstream::new(move |mut stream| async move {
            let _ = read_head(&mut stream).await;
            let answer = format!("HTTP/1.1 302 Found\r\nLocation: {said}\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        })
        .await;
        let rig = rig(&program).await;
        assert_eq!(location(&rig.ask(&host(3000), "GET /", &[AT_PORT]).await), seen, "{said}");
    }
}

#[tokio::test]
async fn somebody_is_handed_over_to_each_port_by_itself() {
    let program = Upstream::echoing_heads().await;
    let rig = rig(&program).await;
    let (id, session) = (workspace(), format!("Cookie: {COOKIE}"));
    let first = rig.ask(&host(3000), "GET /x?y=1", &[NAVIGATE]).await;
    let to = location(&first).to_owned();
    assert!(
        to.starts_with(&format!("http://code.example.com/open/{id}?port=3000&to=/x%3Fy%3D1&state=")),
        "{to}"
    );
    let nonce = cookie_set(&first, "codehub_nonce.").unwrap();
    let open = format!("GET {}", path_of(&to));
    let theirs = rig.ask("code.example.com", &open, &[NAVIGATE, "Cookie: session=stranger-secret"]).await;
    assert_eq!(status_of(&theirs), 403, "nobody shares it");
    let opened = rig.ask("code.example.com", &open, &[NAVIGATE, &session]).await;
    assert!(
        location(&opened).starts_with(&format!("http://{}/.codehub/enter?code=", host(3000))),
        "{opened}"
    );
    let (enter, nonce) = (format!("GET {}", path_of(location(&opened))), format!("Cookie: {nonce}"));
    for elsewhere in [own(), host(3001)] {
        let refused = rig.ask(&elsewhere, &enter, &[NAVIGATE, &nonce]).await;
        assert_eq!(status_of(&refused), 400, "it is good at its own origin only");
    }
    let entered = rig.ask(&host(3000), &enter, &[NAVIGATE, &nonce]).await;
    assert_eq!((status_of(&entered), location(&entered)), (303, "/x?y=1"), "{entered}");
    let cookie = format!("Cookie: {}", cookie_set(&entered, "codehub_workspace=").unwrap());
    assert_eq!(status_of(&rig.ask(&host(3000), "GET /", &[&cookie]).await), 200);
    for elsewhere in [own(), host(3001)] {
        assert_eq!(status_of(&rig.ask(&elsewhere, "GET /", &[&cookie]).await), 401, "{elsewhere}");
    }
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let by_token = rig.ask(&host(3000), "GET /", &[&bearer]).await;
    assert_eq!(status_of(&by_token), 200);
    assert!(!by_token.contains(TOKEN), "{by_token}");
    for wrong in ["0", "65536", "x", "+1", ""] {
        let open = format!("GET /open/{id}?port={wrong}");
        let answer = rig.ask("code.example.com", &open, &[NAVIGATE, &session]).await;
        assert_eq!(status_of(&answer), 400, "{wrong}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_get_nothing_at_a_port() {
    let program = Upstream::echoing_heads().await;
    let rig = rig(&program).await;
    let workspaces = format!("Origin: http://{}", own());
    let other_port = format!("Origin: http://{}", host(3001));
    for origin in [workspaces.as_str(), &other_port, "Origin: http://code.example.com", "Origin: null"] {
        let answer = rig.ask(&host(3000), "POST /", &[AT_PORT, origin, "Content-Length: 0"]).await;
        assert_eq!(status_of(&answer), 403, "{origin}");
        let upgrade = ["Connection: Upgrade", "Upgrade: websocket"];
        let answer = rig.ask(&host(3000), "GET /", &[AT_PORT, origin, upgrade[0], upgrade[1]]).await;
        assert_eq!(status_of(&answer), 403, "{origin}");
    }
    for site in ["same-site", "cross-site"] {
        let site = format!("Sec-Fetch-Site: {site}");
        let embedded = [AT_PORT, &site, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"];
        assert_eq!(status_of(&rig.ask(&host(3000), "GET /", &embedded).await), 403);
    }
    assert_eq!(program.connections.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing reached it");
    // None of what a workspace's own pages may ask for is there.
    for path in ["events", "wake", "keep-awake", "dashboard", "x"] {
        let origin = format!("Origin: http://{}", host(3000));
        for method in ["GET", "POST"] {
            let lines = [AT_PORT, origin.as_str(), "Content-Length: 0"];
            let answer = rig.ask(&host(3000), &format!("{method} /.codehub/{path}"), &lines).await;
            assert_eq!(status_of(&answer), 404, "{method} {path}");
        }
    }
    assert_eq!(rig.gate.kept_awake.lock().unwrap().clone(), Ok(0));
}

#[tokio::test]
async fn what_may_not_be_opened_is_not() {
    let program = Upstream::echoing_heads().await;
    let denying = PortsPolicy { denied: vec![3000..=3005], ..PortsPolicy::default() };
    let denied = rig_with(&program, Options { ports: denying, ..Options::default() }).await;
    assert_eq!(status_of(&denied.ask(&host(3000), "GET /", &[AT_PORT]).await), 403);
    let page = denied.ask(&host(3000), "GET /", &[AT_PORT, NAVIGATE]).await;
    assert!(status_of(&page) == 403 && page.contains("PORTS_DENIED"), "{page}");
    let off = PortsPolicy { on: false, ..PortsPolicy::default() };
    let off = rig_with(&program, Options { ports: off, ..Options::default() }).await;
    assert_eq!(status_of(&off.ask(&host(3000), "GET /", &[AT_PORT]).await), 404);
    assert_eq!(program.connections.load(std::sync::atomic::Ordering::SeqCst), 0);

    // The IDE's own: a share of it would be a shell.
    let rig = rig(&program).await;
    rig.gate.ports.lock().unwrap().insert(8443, program.addr);
    rig.gate.shares(8443);
    let ide = rig.ask(&host(8443), "GET /x", &[AT_PORT, NAVIGATE]).await;
    assert_eq!((status_of(&ide), location(&ide)), (307, format!("http://{}/", own()).as_str()), "{ide}");
    for cookie in [AT_PORT, THEIRS] {
        eventually("it is refused", async || {
            status_of(&rig.ask(&host(8443), "GET /x", &[cookie]).await) == 403
        })
        .await;
    }
    assert_eq!(program.connections.load(std::sync::atomic::Ordering::SeqCst), 0);
    // Where workspaces have no names, neither have ports: said where somebody asks for one.
    let paths = Rig::new().await;
    let session = format!("Cookie: {COOKIE}");
    let open = format!("GET /open/{}?port=3000", workspace());
    let page = paths.ask("code.example.com", &open, &[NAVIGATE, &session]).await;
    assert!(status_of(&page) == 404 && page.contains("PROXY_DOMAIN"), "{page}");
}

#[tokio::test]
async fn what_cannot_be_reached_is_explained() {
    let program = Upstream::echoing_heads().await;
    let rig = rig(&program).await;
    let page = rig.ask(&host(3001), "GET /", &[AT_PORT, NAVIGATE]).await;
    assert_eq!(status_of(&page), 502, "{page}");
    assert!(page.contains("Nothing listens on port 3001"), "{page}");
    assert!(page.contains(&format!("href=\"http://{}/\"", host(3000))), "what does listen is offered");
    assert!(page.contains("node &lt;x&gt;"), "{page}");
    // It asks again without being loaded again: that would be a visit, and keep the workspace awake.
    assert_eq!(header_of(&page, "refresh"), None);
    let asked = rig.ask(&host(3001), "HEAD /", &[AT_PORT, "Sec-Fetch-Mode: cors"]).await;
    assert_eq!((status_of(&asked), header_of(&asked, "x-codehub-port")), (502, Some("silent")));
    assert_eq!(
        rig.gate.looks.load(std::sync::atomic::Ordering::SeqCst),
        0,
        "the controller has nothing to do"
    );
    for (why, status, word) in [
        (NotDialled::TooMany, 503, "Too many"),
        (NotDialled::Nobody("restart the workspace".into()), 409, "containers"),
        (NotDialled::Unreachable("x".into()), 502, ""),
    ] {
        *rig.gate.not_dialled.lock().unwrap() = why;
        let page = rig.ask(&host(3001), "GET /", &[AT_PORT, NAVIGATE]).await;
        assert!(status_of(&page) == status && page.contains(word), "{page}");
    }
}

#[tokio::test]
async fn a_shared_port_is_open_to_people_until_it_is_not() {
    let program = Upstream::new(|mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let answer = if head.starts_with("GET /slow") {
                "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun".to_owned()
            } else {
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len())
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    let rig = rig(&program).await;
    let asks = async |cookie: &'static str| status_of(&rig.ask(&host(3000), "GET /", &[cookie]).await);
    assert_eq!((asks(THEIRS).await, asks(AT_PORT).await), (403, 200));
    rig.gate.shares(3000);
    eventually("it is shared", async || asks(THEIRS).await == 200).await;
    let seen = rig.ask(&host(3000), "GET /", &[THEIRS]).await;
    assert!(!body_of(&seen).contains("theirs"), "the program is told nothing of who asks: {seen}");
    rig.gate.enters("theirs", 3001, stranger());
    assert_eq!(status_of(&rig.ask(&host(3001), "GET /", &[THEIRS]).await), 403, "only this port is");
    assert_eq!(status_of(&rig.ask(&own(), "GET /", &[THEIRS]).await), 401);

    // A running answer ends with the right to it.
    let mut slow = rig.connect().await;
    let request = format!("GET /slow HTTP/1.1\r\nHost: {}\r\n{THEIRS}\r\n\r\n", host(3000));
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut begun = [0; 5];
    read_head(&mut slow).await.unwrap();
    slow.read_exact(&mut begun).await.unwrap();
    rig.gate.says(PortSettings::of(3000));
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), slow.read(&mut begun)).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    eventually("it is not any more", async || asks(THEIRS).await == 403).await;
    assert_eq!(asks(AT_PORT).await, 200);
}

#[tokio::test]
async fn who_is_let_in_no_more_is_told_so_in_their_own_language() {
    let program = Upstream::new(|mut stream| async move {
        read_head(&mut stream).await;
        let switch = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
        let _ = stream.write_all(switch).await;
        let _ = stream.read(&mut [0; 8]).await;
    })
    .await;
    let rig = rig(&program).await;
    rig.gate.shares(3000);
    let mut socket = rig.connect().await;
    let origin = format!("Origin: http://{}", host(3000));
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    let request =
        format!("GET / HTTP/1.1\r\nHost: {}\r\n{THEIRS}\r\n{origin}\r\n{upgrade}\r\n\r\n", host(3000));
    socket.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut socket).await.unwrap()), 101);
    rig.gate.says(PortSettings::of(3000));
    let mut said = Vec::new();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(5), socket.read_to_end(&mut said)).await;
    ended.unwrap().unwrap();
    assert_eq!(said, crate::websocket::frames::close_frame(1008, "not shared any more", false));

    let told = rig.ask(&host(3000), "GET /", &[THEIRS]).await;
    assert!(status_of(&told) == 403 && told.contains("not shared any more"), "{told}");
    let page = rig.ask(&host(3000), "GET /", &[THEIRS, NAVIGATE]).await;
    assert!(page.contains("This port is not shared any more"), "{page}");
    // Who was never let in comes by the dashboard.
    rig.gate.sessions.lock().unwrap().insert(b"stranger-secret".to_vec(), stranger());
    let open = format!("GET /open/{}?port=3000", workspace());
    let theirs = "Cookie: session=stranger-secret";
    let page = rig.ask("code.example.com", &open, &[theirs, NAVIGATE]).await;
    assert!(status_of(&page) == 403 && page.contains("This port is not shared<"), "{page}");

    // As their account says, whatever the browser prefers.
    *rig.gate.appearance.lock().unwrap() = (Some(Lang::Ko), None);
    let english = "Accept-Language: en";
    let page = rig.ask(&host(3000), "GET /", &[THEIRS, NAVIGATE, english]).await;
    assert!(page.contains("이 포트는 더 이상 공유되지 않습니다"), "{page}");
    let page = rig.ask(&host(3001), "GET /", &[AT_PORT, NAVIGATE, english]).await;
    assert!(status_of(&page) == 502 && page.contains("<html lang=\"ko\""), "{page}");
}

#[tokio::test]
async fn an_old_name_leads_to_the_port() {
    let program = Upstream::echoing_heads().await;
    let rig = rig(&program).await;
    let old = format!("3000--{}", own());
    let answer = rig.ask(&old, "GET /a?b=//c", &[]).await;
    let there = format!("http://{}/a?b=//c", host(3000));
    assert_eq!((status_of(&answer), location(&answer)), (307, there.as_str()), "{answer}");
    let answer = rig.ask(&old, "GET //evil.example/", &[]).await;
    assert_eq!(location(&answer), format!("http://{}/evil.example/", host(3000)));
    assert_eq!(status_of(&rig.ask(&old, "POST /", &["Content-Length: 0"]).await), 421);
    assert_eq!(program.connections.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_visitor_who_is_signed_out_is_gone() {
    let program = Upstream::echoing_heads().await;
    let rig = rig(&program).await;
    rig.gate.shares(3000);
    let asks = async || status_of(&rig.ask(&host(3000), "GET /", &[THEIRS]).await);
    eventually("it is shared", async || asks().await == 200).await;
    rig.gate.entered.lock().unwrap().remove(&(origin(Some(3000)), b"theirs".to_vec()));
    rig.gate.tell(Change::Access { user: stranger() });
    eventually("they are gone", async || asks().await == 401).await;
}

#[tokio::test]
async fn the_deployments_word_is_asked_at_every_request() {
    let program = Upstream::echoing_heads().await;
    let ports = PortsPolicy { share_max: Visibility::Owner, ..PortsPolicy::default() };
    let rig = rig_with(&program, Options { ports, ..Options::default() }).await;
    // Whoever wrote the row.
    rig.gate.views.lock().unwrap().get_mut(&workspace()).unwrap().ports =
        vec![PortSettings { visibility: Visibility::SignedIn, ..PortSettings::of(3000) }];
    assert_eq!(status_of(&rig.ask(&host(3000), "GET /", &[THEIRS]).await), 403);
    assert_eq!(status_of(&rig.ask(&host(3000), "GET /", &[AT_PORT]).await), 200);
}

#[tokio::test]
async fn owners_wake_and_others_do_not() {
    let program = Upstream::echoing_heads().await;
    let rig =
        rig_with(&program, Options { hold: std::time::Duration::from_millis(50), ..Options::default() })
            .await;
    rig.gate.shares(3000);
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    let theirs = rig.ask(&host(3000), "GET /", &[THEIRS, NAVIGATE]).await;
    assert!(status_of(&theirs) == 503 && theirs.contains("asleep"), "{theirs}");
    assert_eq!(status_of(&rig.ask(&host(3000), "GET /", &[AT_PORT]).await), 503);
    assert_eq!(rig.gate.wakes.load(std::sync::atomic::Ordering::SeqCst), 0);
    let mine = rig.ask(&host(3000), "GET /x", &[AT_PORT, NAVIGATE]).await;
    assert!(
        location(&mine).contains("?port=3000&to=/x&state="),
        "the waiting room is the dashboard's: {mine}"
    );
    assert_eq!(rig.gate.wakes.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_preview_that_is_left_open_is_no_work() {
    let program = Upstream::new(|mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            if head.contains("upgrade: websocket") {
                let _ = stream
                    .write_all(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
                    .await;
                // Text, both ways.
                let mut frame = [0; 8];
                while stream.read(&mut frame).await.is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(b"\x81\x02hi").await;
                }
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        }
    })
    .await;
    let rig = rig(&program).await;
    let cell = rig.activity.cell(workspace());
    let last = || ActivityKind::ALL.iter().filter_map(|kind| cell.age(*kind)).min();
    rig.ask(&host(3000), "GET /", &[AT_PORT, NAVIGATE]).await;
    rig.ask(&host(3000), "GET /poll?t=1", &[AT_PORT]).await;
    rig.ask(&host(3000), "GET /hmr", &[AT_PORT]).await;
    assert!(last().is_some(), "somebody opened it");
    super::support::let_time_pass(std::time::Duration::from_millis(60)).await;
    let before = std::time::Duration::from_millis(50);
    rig.ask(&host(3000), "GET /poll?t=2", &[AT_PORT]).await;
    let mut socket = rig.connect().await;
    let request = format!(
        "GET /hmr HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{AT_PORT}\r\n\r\n",
        host(3000)
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut socket).await.unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    socket.write_all(b"\x81\x82\0\0\0\0hi").await.unwrap();
    let mut frame = [0; 4];
    socket.read_exact(&mut frame).await.unwrap();
    assert_eq!(&frame, b"\x81\x02hi");
    assert!(last().unwrap() >= before, "polls and what a page is told are nobody's work");
    assert_eq!(cell.open_sockets(), 0, "nor does an open connection count");
    let form = format!("Origin: http://{}", host(3000));
    rig.ask(&host(3000), "POST /poll", &[AT_PORT, &form, "Content-Length: 0"]).await;
    assert!(last().unwrap() < before, "somebody who sends a form is there");

    rig.gate.says(PortSettings { activity: PortActivity::Never, ..PortSettings::of(3000) });
    rig.gate.change(|view| view.ports[0].activity = PortActivity::Never);
    super::support::let_time_pass(std::time::Duration::from_millis(60)).await;
    rig.ask(&host(3000), "GET /other", &[AT_PORT, NAVIGATE]).await;
    assert!(last().unwrap() >= before, "its owner said so");
}
