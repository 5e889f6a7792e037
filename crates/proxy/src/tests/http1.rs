//! Requests that are remembered and requests that take every phase: what comes out at either end is the same.

use std::sync::{Arc, Mutex, atomic::Ordering::SeqCst};

use codehub_domain::Operation;
use codehub_domain::change::Change;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Notify,
};

use super::support::*;

const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";

/// What the workspace was asked and what the client was answered.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    asked: Vec<String>,
    answered: Vec<String>,
    body: String,
}

/// A head without what is different every time, or free to be.
fn normal(head: &str) -> Vec<String> {
    let mut lines: Vec<String> = head.lines().skip(1).map(|line| line.trim().to_owned()).collect();
    lines.retain(|line| !line.is_empty() && !line.to_lowercase().starts_with("date:"));
    for line in &mut lines {
        let (name, value) = line.split_once(':').unwrap();
        let (name, mut value) = (name.to_lowercase(), value.trim());
        if name == "x-request-id" && value.len() == 32 && value.bytes().all(|b| b.is_ascii_hexdigit()) {
            value = "one of ours";
        }
        *line = format!("{name}: {value}");
    }
    lines.sort();
    lines.insert(0, head.lines().next().unwrap_or_default().to_owned());
    lines
}

/// Sends a request, where everything about it is known or where nothing is.
async fn send(known: bool, trusted: bool, request: &str, answer: &'static str) -> (Seen, String) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let asked = heads.clone();
    let upstream = Upstream::new(move |mut stream| {
        let asked = asked.clone();
        async move {
            while let Some(head) = read_head(&mut stream).await {
                let answer = if head.contains("/warm ") { PLAIN } else { answer };
                asked.lock().unwrap().push(head);
                if stream.write_all(answer.as_bytes()).await.is_err() || !answer.contains("\r\nCon") {
                    return;
                }
            }
        }
    })
    .await;
    let trusted = if trusted { vec!["127.0.0.0/8".parse().unwrap()] } else { Vec::new() };
    let rig = Rig::with(Options { trusted, ..Options::default() }).await;
    rig.lead_to(&upstream);
    if known {
        for credential in [format!("Cookie: {COOKIE}"), format!("Authorization: Bearer {TOKEN}")] {
            assert_eq!(status_of(&rig.send("GET", "/warm", &[&credential]).await), 200);
        }
        let foreign = rig.get("/warm", &["Authorization: Bearer not-ours"]).await;
        assert_eq!(status_of(&foreign), 200);
    }
    let got = rig.raw(request).await;
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    let raw = heads.lock().unwrap().last().cloned().unwrap();
    (Seen { asked: normal(&raw), answered: normal(head), body: body.to_owned() }, raw)
}

/// Both ways; then whether the workspace saw the names of headers as they were written, as only remembered requests
/// leave them.
async fn the_same(trusted: bool, request: &str, answer: &'static str) -> bool {
    let (short, raw) = send(true, trusted, request, answer).await;
    let (long, _) = send(false, trusted, request, answer).await;
    assert_eq!(short, long, "{request}\n{answer}");
    raw.contains("X-CamelCase: kept")
}

fn get(rest: &str, lines: &[&str]) -> String {
    head("GET", rest, &[lines, &["X-CamelCase: kept", "Connection: close"]].concat())
}

#[tokio::test]
async fn workspaces_are_asked_the_same() {
    let cookie = format!("Cookie: {COOKIE}");
    let among = format!("Cookie: a=b; {COOKIE}; c=\"d;e\"");
    let token = format!("Authorization: Bearer {TOKEN}");
    let express: [&[&str]; 11] = [
        &[&cookie],
        &[&among, "Accept: text/html", "Sec-Fetch-Mode: navigate"],
        &[&token],
        &[&token, "Cookie: theme=dark"],
        &["Authorization: Bearer not-ours", &cookie],
        &["Authorization: Basic eDp5", &cookie],
        &["X-Forwarded-For: 6.6.6.6", "x-forwarded-anything-else-at-all: 1", "Forwarded: for=x", &cookie],
        &["X-Real-IP: 6.6.6.6", &cookie, "X-Twice: 1", "X-Twice: 2", "X-Empty:"],
        &[
            "Keep-Alive: timeout=5",
            "Proxy-Connection: x",
            "Proxy-Authorization: y",
            &cookie,
            "HTTP2-Settings: z",
        ],
        &[&cookie, "If-None-Match: \"x\"", "Range: bytes=0-1", "Accept-Language: ko, en;q=0.5"],
        &["Connection: Keep-Alive", &cookie],
    ];
    for lines in express {
        assert!(the_same(false, &get("/", lines), PLAIN).await, "{lines:?}");
    }
    let not_express: [&[&str]; 6] = [
        &[&cookie, "X-Request-Id: mine"],
        &[&cookie, "X-Request-Id: not a sane one"],
        &[&cookie, "Cookie: a=b"],
        &[&cookie, "Connection: X-Named", "X-Named: 1"],
        &[&cookie, "TE: trailers"],
        &[&cookie, "Content-Length: 0"],
    ];
    for lines in not_express {
        assert!(!the_same(false, &get("/", lines), PLAIN).await, "{lines:?}");
    }
    let claims = ["X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", &cookie];
    assert!(!the_same(true, &get("/", &claims), PLAIN).await);
    assert!(the_same(true, &get("/", &[&cookie]), PLAIN).await);
}

#[tokio::test]
async fn paths_arrive_the_same() {
    let cookie = format!("Cookie: {COOKIE}");
    for (rest, express) in [
        ("/", true),
        ("//evil.example/../x", true),
        ("/a%2Fb%00?c=%20&d='e'", true),
        ("/?", true),
        ("/a?b?c=/d", true),
        ("/한글?q=값", false),
        ("/a|b{c}", false),
    ] {
        assert_eq!(the_same(false, &get(rest, &[&cookie]), PLAIN).await, express, "{rest}");
    }
}

#[tokio::test]
async fn clients_are_answered_the_same() {
    let cookie = format!("Cookie: {COOKIE}");
    for answer in [
        PLAIN,
        "HTTP/1.1 404 Nowhere\r\nContent-Length: 4\r\nX-A: 1\r\nX-A: 2\r\n\r\ngone",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x-named\r\nX-Named: 1\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nUpgrade: h2c\r\nX-Request-Id: theirs\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAlt-Svc: x\r\nClear-Site-Data: *\r\nNEL: y\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b; Path=/\r\nSet-Cookie: session=x\r\n\r\nok",
        "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /elsewhere\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nService-Worker-Allowed: /\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/event-stream\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\nX-Bare: feed\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: until the end\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "nonsense\r\nConnection\r\n\r\n",
        "",
    ] {
        assert!(the_same(false, &get("/", &[&cookie]), answer).await, "{answer:?}");
        let request = head("HEAD", "/", &[&cookie, "X-CamelCase: kept", "Connection: close"]);
        if answer.contains("304") || !answer.contains("\r\n\r\nok") {
            assert!(the_same(false, &request, answer).await, "HEAD {answer:?}");
        }
    }
}

#[tokio::test]
async fn one_connection_takes_the_short_way_and_then_the_long_one() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let mut stream = rig.connect().await;
    let mut requests = String::new();
    for n in 0..5 {
        requests += &head("GET", &format!("/{n}"), &[&cookie]);
    }
    requests += &head("POST", "/5", &[&cookie, "Content-Length: 0"]);
    requests += &head("GET", "/6", &[&cookie, "Connection: close"]);
    // In pieces that end anywhere.
    for piece in requests.as_bytes().chunks(37) {
        stream.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut got = String::new();
    stream.read_to_string(&mut got).await.unwrap();
    let places: Vec<_> = (0..7).map(|n| got.find(&format!(" /{n} HTTP/1.1")).unwrap()).collect();
    assert!(places.is_sorted(), "{got}");
    assert_eq!(got.matches("HTTP/1.1 200 OK").count(), 7);
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_along() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Upstream::new(move |mut stream| {
        let tell = tell.clone();
        async move {
            while let Some(head) = read_head(&mut stream).await {
                if head.contains("/slow ") {
                    let _ = tell.send("asked");
                    let _ = stream.read_u8().await;
                    let _ = tell.send("left");
                    return;
                }
                stream.write_all(PLAIN.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    for _ in 0..2 {
        assert_eq!(status_of(&rig.get("/", &[]).await), 200);
        let mut stream = rig.connect().await;
        stream.write_all(head("GET", "/slow", &[&format!("Cookie: {COOKIE}")]).as_bytes()).await.unwrap();
        assert_eq!(told.recv().await, Some("asked"));
        drop(stream);
        assert_eq!(told.recv().await, Some("left"));
    }
}

#[tokio::test]
async fn shutting_down_closes_what_is_idle_and_finishes_what_is_not() {
    let (asked, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = (asked.clone(), finish.clone());
    let upstream = Upstream::new(move |mut stream| {
        let (asked, finish) = slow.clone();
        async move {
            while let Some(head) = read_head(&mut stream).await {
                if head.contains("/slow ") {
                    asked.notify_one();
                    finish.notified().await;
                }
                stream.write_all(PLAIN.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let (mut idle, mut busy) = (rig.connect().await, rig.connect().await);
    idle.write_all(head("GET", "/", &[&cookie]).as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut idle).await.unwrap()), 200);
    busy.write_all(head("GET", "/slow", &[&cookie]).as_bytes()).await.unwrap();
    asked.notified().await;
    rig.shutdown.cancel();
    let mut rest = String::new();
    idle.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "ok");
    finish.notify_one();
    let mut got = String::new();
    busy.read_to_string(&mut got).await.unwrap();
    assert_eq!((status_of(&got), body_of(&got)), (200, "ok"));
    assert_eq!(header_of(&got, "connection"), Some("close"));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_connection() {
    let rig = Rig::new().await;
    for sent in ["", "GET /w/", "GET /w/x HTTP/1.1\r\nHost: a\r\nX: "] {
        let began = tokio::time::Instant::now();
        let mut stream = rig.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty());
        assert!((59..62).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}

/// What a connection remembers of its last request is forgotten with the caches it came from.
#[tokio::test]
async fn an_open_connection_is_refused_as_soon_as_the_workspace_stops_or_the_session_ends() {
    let upstream = Upstream::answering("").await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    let request = head("GET", "/", &[&format!("Cookie: {COOKIE}"), "X-CamelCase: kept"]);
    let mut status = async || {
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await.unwrap();
        let mut body = vec![0; header_of(&answer, "content-length").unwrap().parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        let express = String::from_utf8_lossy(&body).contains("X-CamelCase");
        (status_of(&answer), express)
    };
    // The news arrive meanwhile. Whoever asks whether they have makes the request that this test counts.
    let heard = || let_time_pass(std::time::Duration::from_millis(200));
    assert_eq!(status().await, (200, false));
    assert_eq!([status().await, status().await], [(200, true); 2]);
    let reads = rig.gate.reads.load(SeqCst);
    rig.gate.change(|view| view.operation = Operation::Stopping);
    heard().await;
    assert_eq!(status().await, (503, false));
    rig.gate.change(|view| view.operation = Operation::None);
    heard().await;
    assert_eq!([status().await, status().await], [(200, false), (200, true)]);
    assert_eq!(rig.gate.reads.load(SeqCst), reads + 2);

    let elsewhere = Upstream::answering("").await;
    rig.lead_to(&elsewhere);
    rig.gate.change(|view| view.name = "moved".into());
    heard().await;
    assert_eq!([status().await, status().await], [(200, false), (200, true)]);
    assert_eq!(elsewhere.connections.load(SeqCst), 1);

    rig.gate.sessions.lock().unwrap().clear();
    rig.gate.tell(Change::Access { user: owner() });
    heard().await;
    assert_eq!(status().await, (401, false));
}
