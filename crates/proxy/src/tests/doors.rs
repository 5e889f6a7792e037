//! The doors of raw connections, one test for each way to stand in them: foreign hosts, pages of other sites, planted
//! cookies, slow bodies.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use bytes::Bytes;
use codehub_domain::{Desired, Phase};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::*;

fn cookie() -> String {
    format!("Cookie: {COOKIE}")
}

/// A request for this host, on a connection of its own.
fn for_host(path: &str, host: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {COOKIE}\r\n{lines}Connection: close\r\n\r\n")
}

#[tokio::test]
async fn a_foreign_host_is_answered_nothing() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let workspace = format!("/w/{}/", workspace());
    for path in [&workspace[..], "/", "/login", "/api/v1/workspaces", "/metrics", "/healthz/x"] {
        for (host, status) in [
            ("code.example.com", 200),
            ("CODE.example.com:8443", 200),
            ("127.0.0.1:1234", 200),
            ("evil.example", 421),
            ("code.example.com.", 421),
            ("code.example.com.evil.example", 421),
            ("x.code.example.com", 421),
        ] {
            let answer = rig.raw(for_host(path, host, "")).await;
            assert_eq!(status_of(&answer), status, "{path} at {host}: {answer}");
            assert_eq!(answer.contains("MISDIRECTED"), status == 421, "{answer}");
        }
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status_of(&rig.raw(for_host(path, "evil.example", "")).await), 200, "{path}");
    }
    assert_eq!(upstream.connections.load(SeqCst), 1, "nobody else got there");
    let page = rig.raw(for_host("/", "evil.example", "Sec-Fetch-Mode: navigate\r\n")).await;
    assert!(page.contains("text/html") && page.contains("HOSTS_ALLOWED"), "{page}");
}

/// One connection may carry several hosts: what is remembered of it is nobody else's.
#[tokio::test]
async fn the_host_is_read_for_every_request_of_a_connection() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    for (host, status) in [
        ("code.example.com", 200),
        ("code.example.com", 200),
        ("code.example.com", 200),
        ("evil.example", 421),
        ("code.example.com", 200),
        ("code.example.com.", 421),
    ] {
        let request = format!("GET /w/{}/ HTTP/1.1\r\nHost: {host}\r\nCookie: {COOKIE}\r\n\r\n", workspace());
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await.unwrap();
        assert_eq!(status_of(&head), status, "{host}: {head}");
        let length = header_of(&head, "content-length").unwrap().parse().unwrap();
        stream.read_exact(&mut vec![0; length]).await.unwrap();
    }
}

#[tokio::test]
async fn only_a_trusted_proxy_says_which_host_was_meant() {
    let path = format!("/w/{}/", workspace());
    let upstream = Upstream::echoing_heads().await;
    for (trusted, host, claimed, status) in [
        (false, "evil.example", "code.example.com", 421),
        (false, "code.example.com", "evil.example", 200),
        (true, "backend", "code.example.com", 200),
        (true, "code.example.com", "evil.example", 421),
        (true, "backend", "code.example.com, evil.example", 400),
    ] {
        let networks = if trusted { vec!["127.0.0.1/32".parse().unwrap()] } else { Vec::new() };
        let rig = Rig::with(Options { trusted: networks, ..Options::default() }).await;
        rig.lead_to(&upstream);
        let answer = rig.raw(for_host(&path, host, &format!("X-Forwarded-Host: {claimed}\r\n"))).await;
        assert_eq!(status_of(&answer), status, "{trusted} {host} {claimed}: {answer}");
    }
}

#[tokio::test]
async fn an_authority_beside_another_host_is_no_request() {
    let rig = Rig::new().await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(rig.connect().await))
            .await
            .unwrap();
    tokio::spawn(connection);
    for (authority, host, status) in [
        ("code.example.com", None, 200),
        ("code.example.com", Some("code.example.com"), 200),
        ("code.example.com", Some("evil.example"), 400),
        ("evil.example", Some("code.example.com"), 400),
        ("evil.example", None, 421),
    ] {
        let mut request = http::Request::get(format!("http://{authority}/"));
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{authority} {host:?}");
    }
}

#[tokio::test]
async fn an_address_in_the_request_line_beside_another_host_is_no_request() {
    let rig = Rig::new().await;
    for (target, host, status) in [
        ("http://code.example.com/", "code.example.com", 200),
        ("http://CODE.example.com/", "code.example.com", 200),
        ("http://code.example.com/", "evil.example", 400),
        ("http://evil.example/", "code.example.com", 400),
        ("http://evil.example/", "evil.example", 421),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = rig.raw(request).await;
        assert_eq!(status_of(&answer), status, "{target} {host}: {answer}");
    }
}

/// Whoever was given more cookies than we take gets rid of them, whatever the protocol.
#[tokio::test]
async fn too_many_cookies_are_cleared_in_http2_as_well() {
    let rig = Rig::new().await;
    let large = "x".repeat(4000);
    let many: Vec<String> = (0..180).map(|n| format!("large{n}={large}")).collect();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(rig.connect().await))
            .await
            .unwrap();
    tokio::spawn(connection);
    for (cookies, status) in [(&many[..1], 200), (&many[..], 431), (&many[..20], 431), (&many[..10], 200)] {
        let mut request = http::Request::get("http://code.example.com/");
        for cookie in cookies {
            request = request.header("cookie", cookie);
        }
        let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{} cookies", cookies.len());
        let clears = answer.headers().get("clear-site-data").map(|value| value.to_str().unwrap());
        assert_eq!(clears, (status == 431).then_some("\"cookies\""));
    }
}

/// The clock runs ahead whenever nothing else is left to do.
#[tokio::test(start_paused = true)]
async fn who_only_says_hello_in_http2_has_as_long_as_for_any_head() {
    let rig = Rig::new().await;
    for asks in [false, true] {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(rig.connect().await))
                .await
                .unwrap();
        let begun = tokio::time::Instant::now();
        let connection = tokio::spawn(tokio::time::timeout(Duration::from_secs(600), connection));
        if asks {
            let request = http::Request::get("http://code.example.com/").body(Empty::<Bytes>::new()).unwrap();
            sender.send_request(request).await.unwrap();
        }
        let ended = connection.await.unwrap().is_ok();
        assert_eq!(ended, !asks, "after {:?}", begun.elapsed());
        assert!(begun.elapsed() >= Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}

/// Another site's page may lead a person here. It may not load, frame or send anything.
#[tokio::test]
async fn pages_of_other_sites_neither_load_nor_frame_a_workspace() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let document = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    let site = |site: &str, more: &[&'static str]| {
        let mut lines = vec![cookie(), format!("Sec-Fetch-Site: {site}"), "Content-Length: 0".into()];
        lines.extend(more.iter().map(|line| (*line).to_owned()));
        lines
    };
    for (method, lines, status) in [
        ("GET", site("same-origin", &["Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"]), 200),
        ("GET", site("same-origin", &["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]), 200),
        ("GET", site("none", &document), 200),
        ("GET", site("cross-site", &document), 200),
        ("GET", site("same-site", &document), 200),
        ("POST", site("cross-site", &document), 403),
        ("POST", site("same-origin", &["Origin: http://code.example.com"]), 200),
        ("GET", site("cross-site", &["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]), 403),
        ("GET", site("cross-site", &["Sec-Fetch-Mode: navigate"]), 403),
        ("GET", site("cross-site", &["Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"]), 403),
        ("GET", site("same-site", &["Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"]), 403),
        ("GET", site("cross-site", &["Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"]), 403),
        ("GET", site("cross-site", &[]), 403),
        ("HEAD", site("something-new", &[]), 403),
        // What is no browser says nothing.
        ("GET", vec![cookie()], 200),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let answer = rig.send(method, "/x", &lines).await;
        assert_eq!(status_of(&answer), status, "{method} {lines:?}: {answer}");
    }
    // Also where everything else of a request is remembered.
    let mut stream = rig.connect().await;
    for (site, status) in [("same-origin", 200), ("same-origin", 200), ("cross-site", 403), ("none", 200)] {
        let request = head("GET", "/x", &[&cookie(), &format!("Sec-Fetch-Site: {site}")]);
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await.unwrap();
        assert_eq!(status_of(&head), status, "{site}");
        let length = header_of(&head, "content-length").unwrap().parse().unwrap();
        stream.read_exact(&mut vec![0; length]).await.unwrap();
    }
}

#[tokio::test]
async fn frames_prefetches_and_what_other_sites_load_wake_nothing() {
    let rig = Rig::new().await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    rig.soon_answers(503).await;
    for lines in [
        &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"][..],
        &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: frame"],
        &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: embed"],
        &["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch"],
        &["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch;prerender"],
        &["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: something-new"],
        &[
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Mode: navigate",
            "Sec-Fetch-Dest: iframe",
            "Accept: text/html",
        ],
        &[
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Mode: no-cors",
            "Sec-Fetch-Dest: image",
            "Accept: text/html",
        ],
    ] {
        let answer = rig.get("/", lines).await;
        assert!(matches!(status_of(&answer), 503 | 403), "{lines:?}: {answer}");
    }
    assert_eq!(rig.gate.wakes.load(SeqCst), 0);
    let opened = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    tokio::select! {
        _ = rig.get("/", &opened) => {}
        () = rig.gate.woken_once() => {}
    }
    assert_eq!(rig.gate.wakes.load(SeqCst), 1, "a link that a person followed");
}

/// The page is asked for once more, without any session cookie, and then the person signs in.
#[tokio::test]
async fn planted_cookies_are_removed_by_opening_the_page() {
    let rig = Rig::new().await;
    let two = "Cookie: session=planted; session=owner-secret";
    let answer = rig.send("GET", "/a/b?c", &[two, "Sec-Fetch-Mode: navigate"]).await;
    let id = workspace();
    assert_eq!((status_of(&answer), header_of(&answer, "location")), (303, Some(&*format!("/w/{id}/a/b?c"))));
    for place in ["/", "/w", "/w/", &format!("/w/{id}"), &format!("/w/{id}/"), &format!("/w/{id}/a/b")] {
        for domain in ["", "; Domain=code.example.com", "; Domain=example.com"] {
            let line = format!("set-cookie: session=; Path={place}{domain}; HttpOnly");
            assert!(answer.contains(&line), "{line} in {answer}");
        }
    }
    let mark = answer.lines().find_map(|line| line.strip_prefix("set-cookie: healed=")).unwrap();
    let two_again = format!("{two}; healed={}", mark.split(';').next().unwrap());
    let answer = rig.send("GET", "/a/b?c", &[&two_again, "Sec-Fetch-Mode: navigate"]).await;
    assert_eq!(status_of(&answer), 303, "it did not help: no circle");
    assert!(header_of(&answer, "location").unwrap().starts_with("/login?next="), "{answer}");
    // A script is told. Nothing is removed behind its back but what is below the workspace's path, where ours never is.
    let answer = rig.send("GET", "/x.js", &[two, "Sec-Fetch-Mode: cors"]).await;
    assert_eq!(status_of(&answer), 401);
    assert!(!answer.contains("session=; Path=/;") && !answer.contains("healed="), "{answer}");
    assert!(body_of(&answer).contains("SEVERAL_SESSIONS"), "{answer}");
}

/// Neither the session nor what says that a browser is known gets into a workspace, by whichever of their names.
#[tokio::test]
async fn no_cookie_that_proves_something_reaches_a_workspace() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let cookies =
        "Cookie: a=1; __Host-session=x; codehub_device=y; session=owner-secret; __Host-device=z; device=mine";
    for _ in 0..2 {
        let answer = rig.send("GET", "/", &[cookies]).await;
        let seen = body_of(&answer);
        assert!(seen.contains("a=1") && seen.contains("device=mine"), "{answer}");
        for secret in ["owner-secret", "=x", "=y", "=z"] {
            assert!(!seen.contains(secret), "{secret} in {seen}");
        }
    }
}

/// Five minutes without a byte: what a person uploads over a bad line goes on, what nobody sends does not.
#[tokio::test(start_paused = true)]
async fn a_body_that_stops_coming_is_given_up() {
    let upstream = Upstream::new(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    let begun = tokio::time::Instant::now();
    stream.write_all(head("PUT", "/file", &["Content-Length: 4", &cookie()]).as_bytes()).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"x").await.unwrap();
        let_time_pass(Duration::from_secs(200)).await;
    }
    let answer = read_head(&mut stream).await.unwrap();
    assert_eq!(status_of(&answer), 408, "{answer}");
    let seconds = begun.elapsed().as_secs();
    assert!((700..=720).contains(&seconds), "{seconds} s");
}
