//! A workspace's service worker controls the workspace's own pages, and no others, by whatever way its script
//! reaches the browser.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt as _;

use super::support::*;
use crate::policy::{self, location::Mount};

/// What a workspace might say so that its worker controls the dashboard. A few of them are harmless: those are
/// replaced too, because telling them apart is what went wrong before.
const SCOPES: [&str; 20] = [
    "/",
    "",
    "/w/",
    "/w/x",
    "/w/x/deep/",
    "/w/x/../../",
    "/w/x/../",
    "/w/x/./../../",
    "/w/x/%2e%2e/%2e%2e/",
    "/w/x/%2E./.%2e/",
    "/w/x/..\\..\\",
    "/w/x/%5c..%5c..",
    "/w/x/%2f../..",
    "/w/x/;/../../..",
    "//elsewhere.example/",
    "http://elsewhere.example/",
    "../../",
    "\\",
    "/w/x/, /",
    "/w/x/\t../../",
];

fn map(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    lines.iter().map(line).collect()
}

#[test]
fn a_service_worker_controls_its_own_workspace_whatever_the_answer_allows() {
    let place = Mount {
        base_path: "/w/x/",
        upstream: None,
        host: None,
        strip_prefix: true,
        apart: false,
        port: None,
    };
    let allowed = |headers: &HeaderMap| {
        let clean = policy::clean_response(headers, place);
        let values: Vec<_> = clean.get_all("service-worker-allowed").iter().cloned().collect();
        values
    };
    for scope in SCOPES {
        assert_eq!(allowed(&map(&[("service-worker-allowed", scope)])), ["/w/x/"], "{scope:?}");
        for twice in [[scope, "/w/x/"], ["/w/x/", scope]] {
            let headers = map(&twice.map(|scope| ("service-worker-allowed", scope)));
            // Copies are read as one list, which allows less than either.
            assert_eq!(allowed(&headers), ["/w/x/"; 2], "{twice:?}");
        }
    }
    let mut strange = HeaderMap::new();
    strange.insert("service-worker-allowed", HeaderValue::from_bytes(b"/\xff/..").unwrap());
    assert_eq!(allowed(&strange), ["/w/x/"]);
    // Where a workspace allows nothing, nothing is allowed for it: browsers then take the script's own directory.
    assert_eq!(allowed(&map(&[("etag", "x")])), Vec::<HeaderValue>::new());
    let hop = map(&[("connection", "service-worker-allowed"), ("service-worker-allowed", "/")]);
    assert_eq!(allowed(&hop), ["/w/x/"]);
}

/// The values of every copy of the header in a head, whatever its case.
fn allowed(answer: &str) -> Vec<String> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let ours = lines.filter(|(name, _)| name.eq_ignore_ascii_case("service-worker-allowed"));
    ours.map(|(_, value)| value.trim().to_owned()).collect()
}

/// What a browser gets for a script: from a connection that knows nothing yet, or from one that knows everything.
async fn fetched(warm: bool, method: &str, answer: &str) -> String {
    let answer = answer.to_owned();
    let upstream = Upstream::new(move |mut stream| {
        let answer = answer.clone();
        async move {
            while let Some(head) = read_head(&mut stream).await {
                let warm = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                let answer = if head.contains("/warm ") { warm } else { &answer };
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    if warm {
        assert_eq!(status_of(&rig.send("GET", "/warm", &[&cookie]).await), 200);
    }
    rig.raw(&head(method, "/sw.js", &[&cookie, "Service-Worker: script", "Connection: close"])).await
}

fn base() -> String {
    format!("/w/{}/", workspace())
}

#[tokio::test]
async fn every_way_to_the_browser_confines_it() {
    let own = base();
    let up = own.clone() + "../../";
    for lines in [
        "Service-Worker-Allowed: /\r\n".to_owned(),
        format!("SERVICE-WORKER-ALLOWED: {up}\r\n"),
        format!("service-worker-allowed:{own}\r\nService-Worker-Allowed: /\r\n"),
        format!(
            "Service-Worker-Allowed: {up}\r\nservice-worker-allowed: {up}\r\nsErViCe-WoRkEr-AlLoWeD: /\r\n"
        ),
        format!("Service-Worker-Allowed: \t {own}%2e%2e/%2E%2E/ \r\n"),
    ] {
        for (request, status, body) in [
            ("GET", "200 OK", "Content-Length: 2\r\n\r\nok"),
            ("GET", "200 OK", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
            ("GET", "404 Not Found", "Content-Length: 2\r\n\r\nno"),
            ("GET", "304 Not Modified", "ETag: x\r\n\r\n"),
            ("GET", "206 Partial Content", "Content-Length: 2\r\n\r\nok"),
            ("HEAD", "200 OK", "Content-Length: 2\r\n\r\n"),
        ] {
            let answer = format!("HTTP/1.1 {status}\r\nContent-Type: text/javascript\r\n{lines}{body}");
            for warm in [true, false] {
                let got = allowed(&fetched(warm, request, &answer).await);
                assert!(
                    !got.is_empty() && got.iter().all(|scope| *scope == own),
                    "{warm} {request} {answer} {got:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_upgrade_confines_it_too() {
    let upstream = Upstream::new(|mut stream| async move {
        let _ = read_head(&mut stream).await;
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Service-Worker-Allowed: /\r\nservice-worker-allowed: /w/\r\n\r\n";
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    let (cookie, ours) = (format!("Cookie: {COOKIE}"), "Origin: http://code.example.com");
    let lines = [&*cookie, ours, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
    stream.write_all(head("GET", "/", &lines).as_bytes()).await.unwrap();
    let answer = read_head(&mut stream).await.unwrap();
    assert_eq!((status_of(&answer), allowed(&answer)), (101, vec![base(); 2]), "{answer}");
}

#[tokio::test]
async fn an_http_2_client_is_told_the_same() {
    let lines = "Service-Worker-Allowed: /\r\nSERVICE-WORKER-ALLOWED: /w/\r\n";
    let upstream = Upstream::answering(lines).await;
    let rig = Rig::before(&upstream).await;
    let io = TokioIo::new(rig.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("http://code.example.com{}sw.js", base()))
        .header("cookie", COOKIE)
        .header("service-worker", "script")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let allowed: Vec<_> = answer.headers().get_all("service-worker-allowed").iter().collect();
    assert_eq!(answer.status(), 200);
    assert_eq!(allowed, [&*base(); 2]);
}

/// A head in which one reader could see the header and another could not is no answer.
#[tokio::test]
async fn what_could_hide_the_header_does_not_arrive() {
    for (lines, status) in [
        ("Service-Worker-Allowed : /\r\n", 502),
        ("X: y\r\n Service-Worker-Allowed: /\r\n", 502),
        ("X: y\rService-Worker-Allowed: /\r\n", 502),
        ("Service-Worker-Allowed\0: /\r\n", 502),
        ("X: y\nService-Worker-Allowed: /\r\n", 502),
        ("X: y\nService-Worker-Allowed: /\n", 502),
        ("Connection: Service-Worker-Allowed\r\nService-Worker-Allowed: /\r\n", 200),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok");
        for warm in [true, false] {
            let got = fetched(warm, "GET", &answer).await;
            let wide = allowed(&got).into_iter().find(|scope| *scope != base());
            assert_eq!((status_of(&got), wide), (status, None), "{warm} {lines:?}: {got}");
        }
    }
}
