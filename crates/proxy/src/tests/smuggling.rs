//! Requests that two servers could read differently are refused, byte by byte as an attacker sends
//! them; none of them reaches the workspace.

use std::sync::atomic::Ordering::SeqCst;

use super::support::*;

async fn refused(lines: &str, body: &str) {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let path = format!("/w/{}/", workspace());
    let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\nCookie: {COOKIE}\r\n{lines}\r\n{body}");
    let answer = rig.raw(&request).await;
    let status = status_of(&answer);
    assert!(matches!(status, 400 | 431 | 501), "{lines:?} was answered {answer:?}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{lines:?}: {answer}");
    assert_eq!(upstream.connections.load(SeqCst), 0, "{lines:?} reached the workspace");
}

#[tokio::test]
async fn ambiguous_framing_is_refused() {
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: 4, 5\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x4\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "X: y\r\n\tfolded\r\n",
        "X: y\nContent-Length: 4\r\n",
        "X: a\rb\r\n",
        "X: a\0b\r\n",
        "X y: z\r\n",
        ": nameless\r\n",
        "Host: b\r\n",
    ] {
        refused(lines, smuggled).await;
    }
}

#[tokio::test]
async fn heads_that_are_too_big_are_refused() {
    refused(&format!("X: {}\r\n", "a".repeat(200 * 1024)), "").await;
    refused(&"X: y\r\n".repeat(500), "").await;
}

#[tokio::test]
async fn a_request_without_a_host_is_refused() {
    let rig = Rig::new().await;
    let request =
        format!("GET /w/{}/ HTTP/1.1\r\nCookie: {COOKIE}\r\nConnection: close\r\n\r\n", workspace());
    assert_eq!(status_of(&rig.raw(request).await), 400);
}

#[tokio::test]
async fn bare_line_feeds_are_refused() {
    let rig = Rig::new().await;
    let request = format!("GET /w/{}/ HTTP/1.1\nHost: a\nCookie: {COOKIE}\n\n", workspace());
    assert_eq!(status_of(&rig.raw(request).await), 400);
}

#[tokio::test]
async fn http_1_0_cannot_be_chunked() {
    let rig = Rig::new().await;
    let request = format!(
        "POST /w/{}/ HTTP/1.0\r\nHost: a\r\nCookie: {COOKIE}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        workspace()
    );
    assert_eq!(status_of(&rig.raw(request).await), 400);
}

#[tokio::test]
async fn odd_chunks_end_the_exchange() {
    // The head is good, so it may be forwarded; the body must break off, not be repaired.
    let upstream = Upstream::new(|mut stream| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        let whole = all.ends_with(b"0\r\n\r\n");
        let _ = stream.write_all(if whole { b"HTTP/1.1 200 OK\r\n\r\n" } else { b"" }).await;
    })
    .await;
    let rig = Rig::before(&upstream).await;
    for body in
        ["g\r\nx\r\n0\r\n\r\n", "1\r\nxx\r\n0\r\n\r\n", "-1\r\n", "1\nx\n0\n\n", "fffffffffffffffff\r\nx"]
    {
        let cookie = format!("Cookie: {COOKIE}");
        let request = head("POST", "/", &[&cookie, "Transfer-Encoding: chunked"]) + body;
        let answer = rig.raw(&request).await;
        assert!(!matches!(status_of(&answer), 200..=299), "{body:?} was answered {answer}");
    }
}

#[tokio::test]
async fn connect_and_trace_are_not_proxied() {
    let rig = Rig::new().await;
    let answer = rig.send("TRACE", "/", &[&format!("Cookie: {COOKIE}")]).await;
    assert_eq!(status_of(&answer), 405);
    assert!(header_of(&answer, "allow").is_some());
}

#[tokio::test]
async fn pipelined_requests_each_get_their_own_answer() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let request = head("GET", "/one", &[&cookie]) + &head("GET", "/two", &[&cookie, "Connection: close"]);
    let answer = rig.raw(request).await;
    let one = answer.find("GET /one ").unwrap();
    assert!(one < answer.find("GET /two ").unwrap());
}

#[tokio::test]
async fn an_upgrade_to_http_2_in_clear_is_forwarded_as_the_plain_request_it_is() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let lines =
        [&cookie[..], "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"];
    let mut stream = rig.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, head("GET", "/", &lines).as_bytes()).await.unwrap();
    let answer = read_head(&mut stream).await.unwrap();
    assert_eq!(status_of(&answer), 200);
    let mut seen = vec![0; header_of(&answer, "content-length").unwrap().parse().unwrap()];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut seen).await.unwrap();
    let seen = String::from_utf8(seen).unwrap().to_lowercase();
    assert!(!seen.contains("h2c") && !seen.contains("http2-settings"), "{seen}");
}
