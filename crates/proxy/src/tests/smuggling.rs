//! Messages that two programs could read differently are refused, byte by byte as an attacker sends them, in
//! either direction: none of them reaches the workspace, and none of a workspace's becomes another's answer.

use std::{
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    time::Duration,
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::support::*;

const SMUGGLED: &str = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends bytes, as one piece and byte by byte, and expects one refusal and nothing at the workspace.
async fn refused_as(request: &str, expected: &[u16]) {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    for piece in [usize::MAX, 1] {
        let mut stream = rig.connect().await;
        // Long ones are the same in pieces, only slower.
        let piece = if request.len() > 4096 { request.len() } else { piece.min(request.len()) };
        for piece in request.as_bytes().chunks(piece) {
            // It may be refused, and closed, before everything is sent.
            if stream.write_all(piece).await.is_err() {
                break;
            }
        }
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let shown: String = request.chars().take(300).collect();
        assert!(expected.contains(&status_of(&answer)), "{shown:?} was answered {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{shown:?}: {answer}");
        assert_eq!(header_of(&answer, "connection"), Some("close"), "{shown:?}: {answer}");
        assert_eq!(upstream.connections.load(SeqCst), 0, "{shown:?} reached the workspace");
    }
}

fn post(lines: &str, body: &str) -> String {
    format!("POST /w/{}/ HTTP/1.1\r\nHost: a\r\nCookie: {COOKIE}\r\n{lines}\r\n{body}", workspace())
}

fn get(line: &str, lines: &str) -> String {
    format!(
        "{}\r\nHost: a\r\nCookie: {COOKIE}\r\n{lines}\r\n",
        line.replace("{id}", &workspace().to_string())
    )
}

#[tokio::test]
async fn requests_that_frame_their_body_in_two_ways_are_refused() {
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: 4\r\nContent-Length: 4\r\n",
        "Content-Length: 4\r\ncontent-length: 4\r\n",
        "Content-Length: 4, 5\r\n",
        "Content-Length: 4, 4\r\n",
        "Content-Length: 4,\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x4\r\n",
        "Content-Length: 4.0\r\n",
        "Content-Length: 4 4\r\n",
        "Content-Length: 1_0\r\n",
        "Content-Length: \"4\"\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunkedx\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
    ] {
        refused_as(&post(lines, SMUGGLED), &[400]).await;
    }
}

#[tokio::test]
async fn requests_whose_lines_can_be_read_in_two_ways_are_refused() {
    for lines in [
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "Content-Length : 4\r\n",
        " Transfer-Encoding: chunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "X: y\r\n\tfolded\r\n",
        "X:\r\n folded\r\n",
        "X: y\nContent-Length: 4\r\n",
        "X: y\n\r\n",
        "X: a\rb\r\n",
        "X: a\r\r\n",
        "X: y\rContent-Length: 4\r\n",
        "X: a\0b\r\n",
        "X\0: y\r\n",
        "X: a\x7fb\r\n",
        "X: a\x01b\r\n",
        "X y: z\r\n",
        "X(y): z\r\n",
        "no colon at all\r\n",
        ": nameless\r\n",
        "Host: b\r\n",
        "Host: a\r\n",
        "host:\r\n",
    ] {
        refused_as(&post(lines, SMUGGLED), &[400]).await;
    }
    // Bare line feeds throughout.
    refused_as(&get("GET /w/{id}/ HTTP/1.1", "").replace("\r\n", "\n"), &[400]).await;
    refused_as(&format!("\n{}", get("GET /w/{id}/ HTTP/1.1", "")), &[400]).await;
}

#[tokio::test]
async fn request_lines_that_are_none_are_refused() {
    for line in [
        "GET  /w/{id}/ HTTP/1.1",
        "GET /w/{id}/  HTTP/1.1",
        "GET\t/w/{id}/ HTTP/1.1",
        " GET /w/{id}/ HTTP/1.1",
        "GET /w/{id}/ x HTTP/1.1",
        "GET /w/{id}/\0 HTTP/1.1",
        "GET /w/{id}/\rx HTTP/1.1",
        "GET /w/{id}/",
        "GET /w/{id}/ HTTP/0.9",
        "GET /w/{id}/ HTTP/1.2",
        "GET /w/{id}/ HTTP/2.0",
        "GET /w/{id}/ HTTP/1.1 ",
        "GET /w/{id}/ http/1.1",
        "GET /w/{id}/ HTTP/1,1",
        "G(T /w/{id}/ HTTP/1.1",
        "GET w/{id}/ HTTP/1.1",
        "PRI * HTTP/2.0",
    ] {
        refused_as(&get(line, ""), &[400]).await;
    }
}

#[tokio::test]
async fn heads_that_are_too_big_are_refused() {
    refused_as(&post(&format!("X: {}\r\n", "a".repeat(200 * 1024)), ""), &[431]).await;
    refused_as(&post(&format!("{}: x\r\n", "a".repeat(200 * 1024)), ""), &[431]).await;
    refused_as(&post(&"X: y\r\n".repeat(500), ""), &[431]).await;
    refused_as(&get(&format!("GET /w/{{id}}/{} HTTP/1.1", "a".repeat(200 * 1024)), ""), &[431]).await;
}

#[tokio::test]
async fn hosts_that_are_none_or_missing_are_refused() {
    let path = format!("/w/{}/", workspace());
    for host in ["", "Host:\r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: user@a\r\n", "Host: a\\b\r\n"] {
        refused_as(&format!("GET {path} HTTP/1.1\r\n{host}Cookie: {COOKIE}\r\n\r\n"), &[400]).await;
    }
    refused_as(&get("GET http://user@a/w/{id}/ HTTP/1.1", ""), &[400]).await;
}

/// The address of the request line outranks the header, and is what the workspace is told.
#[tokio::test]
async fn an_absolute_address_is_passed_on_as_a_path() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let line = "GET http://code.example.com/w/{id}/x?y HTTP/1.1";
    let answer =
        rig.raw(get(line, "Connection: close\r\n").replace("Host: a", "Host: code.example.com")).await;
    let seen = body_of(&answer).to_lowercase();
    assert!(seen.starts_with("get /x?y http/1.1\r\nhost: code.example.com\r\n"), "{answer}");
    assert!(seen.contains("x-forwarded-host: code.example.com"), "{seen}");
}

#[tokio::test]
async fn http_1_0_cannot_be_chunked_and_is_answered_without_chunks() {
    let path = format!("/w/{}/", workspace());
    let chunked = format!(
        "POST {path} HTTP/1.0\r\nHost: a\r\nCookie: {COOKIE}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    refused_as(&chunked, &[400]).await;
    let upstream = Upstream::new(|mut stream| async move {
        while read_head(&mut stream).await.is_some() {
            let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    // Without a Host, as it may be.
    for keep_alive in ["", "Connection: keep-alive\r\n"] {
        let request = format!("GET {path} HTTP/1.0\r\nCookie: {COOKIE}\r\n{keep_alive}\r\n");
        let answer = rig.raw(request).await;
        assert_eq!((status_of(&answer), body_of(&answer)), (200, "ok"), "{answer}");
        assert_eq!(header_of(&answer, "transfer-encoding"), None);
        assert_eq!(header_of(&answer, "connection"), Some("close"));
    }
}

/// The head is good, so it may be forwarded; the body must break off, not be repaired, and it is the client's fault.
#[tokio::test]
async fn odd_chunks_are_the_clients_400_and_end_the_connection() {
    let got = Arc::new(Mutex::new(Vec::new()));
    let heard = got.clone();
    let upstream = Upstream::new(move |mut stream| {
        let heard = heard.clone();
        async move {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).await;
            heard.lock().unwrap().push(all);
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let bodies = [
        "g\r\nx\r\n0\r\n\r\n",
        "1\r\nxx\r\n0\r\n\r\n",
        "-1\r\n",
        "+1\r\nx\r\n",
        "0x1\r\nx\r\n",
        " 1\r\nx\r\n",
        "1 1\r\nx\r\n",
        "\r\n",
        ";\r\n",
        "1\nx\n0\n\n",
        "1\r\nx\n0\r\n\r\n",
        "1\r\nx\r0\r\n\r\n",
        "1;a\rb\r\nx\r\n",
        "1;a\0b\r\nx\r\n",
        "fffffffffffffffff\r\nx",
        "00000000000000001\r\nx",
        "0\r\nX : y\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\n\n",
        "0\r\nX\0: y\r\n\r\n",
    ];
    for body in bodies {
        let request = head("POST", "/", &[&cookie, "Transfer-Encoding: chunked"]) + body + SMUGGLED;
        let answer = rig.raw(&request).await;
        assert_eq!(status_of(&answer), 400, "{body:?} was answered {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{body:?}: {answer}");
        assert_eq!(header_of(&answer, "connection"), Some("close"), "{body:?}");
    }
    let long = format!("1;{}\r\nx\r\n0\r\n\r\n", "x".repeat(2000));
    let request = head("POST", "/", &[&cookie, "Transfer-Encoding: chunked"]) + &long;
    assert_eq!(status_of(&rig.raw(&request).await), 400);
    assert_eq!(rig.gate.looks.load(SeqCst), 0, "the workspace was blamed");
    for all in &*got.lock().unwrap() {
        let all = String::from_utf8_lossy(all);
        assert!(!all.ends_with("0\r\n\r\n") && !all.contains("smuggled"), "{all}");
    }
}

/// What is odd but means one thing only is taken, and framed anew.
#[tokio::test]
async fn chunks_arrive_as_they_are_meant() {
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap().to_lowercase();
        assert!(head.contains("transfer-encoding: chunked"));
        let mut all = Vec::new();
        while !all.ends_with(b"0\r\n\r\n") && !all.ends_with(b"x-sum: 1\r\n\r\n") {
            all.push(stream.read_u8().await.unwrap());
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", all.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.write_all(&all).await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let lines = [
        &format!("Cookie: {COOKIE}")[..],
        "Transfer-Encoding: Chunked",
        "Trailer: X-Sum, Cookie, X_Forwarded_For",
    ];
    for (body, arrives) in [
        ("1;ext=\"a;b\"\r\nx\r\n0\r\n\r\n", "1\r\nx\r\n0\r\n\r\n"),
        ("01\r\nx\r\n000\r\n\r\n", "1\r\nx\r\n0\r\n\r\n"),
        ("A \t\r\n0123456789\r\n0\r\n\r\n", "a\r\n0123456789\r\n0\r\n\r\n"),
        ("0\r\n\r\n", "0\r\n\r\n"),
        ("1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n", "1\r\nx\r\n0\r\nx-sum: 1\r\n\r\n"),
        // Only what was announced and means nothing to those it passes.
        (
            "1\r\nx\r\n0\r\nCookie: session=evil\r\nX_Forwarded_For: 6.6.6.6\r\nContent-Length: 5\r\nX-Else: 1\r\n\r\n",
            "1\r\nx\r\n0\r\n\r\n",
        ),
    ] {
        let answer = rig.raw(head("POST", "/", &[&lines[..], &["Connection: close"]].concat()) + body).await;
        assert_eq!((status_of(&answer), body_of(&answer)), (200, arrives), "{body:?}");
    }
}

/// A request follows one whose body nobody read: it is not looked for in that body.
#[tokio::test]
async fn an_unread_body_is_not_read_as_requests() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let inner = head("GET", "/smuggled", &[&format!("Cookie: {COOKIE}")]);
    // Refused before its body is read: nobody is signed in.
    let small = format!("Content-Length: {}", inner.len());
    let next = head("GET", "/next", &[&format!("Cookie: {COOKIE}"), "Connection: close"]);
    let answer = rig.raw(head("POST", "/", &[&small]) + &inner + &next).await;
    assert_eq!(status_of(&answer), 401);
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "the next one is answered: {answer}");
    assert!(answer.contains("GET /next ") && !answer.contains("/smuggled"), "{answer}");
    // More of it is to come than has come: the connection ends.
    let large = format!("Content-Length: {}", inner.len() + 1_000_000);
    let answer = rig.raw(head("POST", "/", &[&large]) + &inner).await;
    assert_eq!((status_of(&answer), header_of(&answer, "connection")), (401, Some("close")), "{answer}");
    assert!(!answer.contains("/smuggled"), "{answer}");
}

/// Programs that turn names into variables take `_` for `-`, and would read a second length, host or address.
#[tokio::test]
async fn disguised_names_reach_nobody() {
    let upstream = Upstream::answering("Set_Cookie: session=evil\r\nTransfer_Encoding: chunked\r\n").await;
    let rig = Rig::before(&upstream).await;
    let lines = [
        "Content_Length: 5",
        "Transfer_Encoding: chunked",
        "Host_: b",
        "X_Forwarded_For: 6.6.6.6",
        "X-Forwarded_Host: evil.example",
        "X_Request_Id: mine",
        "X_Own: kept",
    ];
    for _ in 0..2 {
        let answer = rig.get("/", &lines).await;
        assert_eq!(status_of(&answer), 200);
        let (answered, asked) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!answered.contains('_'), "{answered}");
        let kept: Vec<String> =
            asked.lines().filter(|line| line.contains('_')).map(str::to_lowercase).collect();
        assert_eq!(kept, ["host_: b", "x_own: kept"], "{asked}");
    }
}

/// A handshake that is answered with something else leaves a connection that speaks HTTP, and as strictly.
#[tokio::test]
async fn a_refused_upgrade_is_no_way_around_the_reader() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let upgrade =
        [&cookie[..], "Connection: Upgrade", "Upgrade: websocket", "Origin: http://code.example.com"];
    for (next, status) in [
        (head("GET", "/next", &[&cookie, "Connection: close"]), "200"),
        (post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", SMUGGLED), "400"),
    ] {
        let answer = rig.raw(head("GET", "/ws", &upgrade) + &next).await;
        assert_eq!(status_of(&answer), 200, "{answer}");
        let second = answer.rfind("HTTP/1.1 2").max(answer.rfind("HTTP/1.1 4")).unwrap();
        assert_eq!(&answer[second + 9..second + 12], status, "{answer}");
        assert!(!answer.contains("/smuggled"), "{answer}");
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
    stream.write_all(head("GET", "/", &lines).as_bytes()).await.unwrap();
    let answer = read_head(&mut stream).await.unwrap();
    assert_eq!(status_of(&answer), 200);
    let mut seen = vec![0; header_of(&answer, "content-length").unwrap().parse().unwrap()];
    stream.read_exact(&mut seen).await.unwrap();
    let seen = String::from_utf8(seen).unwrap().to_lowercase();
    assert!(!seen.contains("h2c") && !seen.contains("http2-settings"), "{seen}");
}

/// Asks twice: what a workspace answers, and over how many connections.
async fn answered(method: &str, answer: &'static str) -> ([String; 2], u32) {
    let upstream = Upstream::new(move |mut stream| async move {
        while read_head(&mut stream).await.is_some() {
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let first = rig.send(method, "/", &[&cookie]).await;
    // What stands behind the answer has arrived by then.
    let_time_pass(Duration::from_millis(20)).await;
    ([first, rig.send(method, "/", &[&cookie]).await], upstream.connections.load(SeqCst))
}

#[tokio::test]
async fn answers_that_can_be_read_in_two_ways_are_502() {
    for lines in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Content-Length: 2, 2\r\n",
        "Content-Length: +2\r\n",
        "Content-Length: 0x2\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: y\r\n Content-Length: 2\r\n",
        "X: y\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nX: a\rb\r\n",
        "Content-Length: 2\r\nX: a\0b\r\n",
        "Content-Length: 2\r\n: nameless\r\n",
        "Content-Length: 2\r\nX y: z\r\n",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{lines}\r\nok").leak();
        let (answers, connections) = answered("GET", answer).await;
        assert_eq!(answers.map(|answer| status_of(&answer)), [502, 502], "{lines:?}");
        assert_eq!(connections, 2, "{lines:?}");
    }
    for answer in [
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2000 High\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n",
    ] {
        let (answers, _) = answered("GET", answer).await;
        assert_eq!(answers.map(|answer| status_of(&answer)), [502, 502], "{answer:?}");
    }
}

/// Bytes behind an answer that cannot have a body are nobody's answer.
#[tokio::test]
async fn answers_that_never_have_a_body_do_not_get_one() {
    const EVIL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for (method, status, expected) in
        [("HEAD", "200 OK", 200), ("GET", "204 No Content", 204), ("GET", "304 Not Modified", 304)]
    {
        for lines in ["Content-Length: 45\r\n", "Transfer-Encoding: chunked\r\n", ""] {
            let answer = format!("HTTP/1.1 {status}\r\n{lines}\r\n{EVIL}").leak();
            let (answers, connections) = answered(method, answer).await;
            for got in &answers {
                assert_eq!((status_of(got), body_of(got)), (expected, ""), "{method} {answer:?}: {got}");
                assert_eq!(header_of(got, "transfer-encoding"), None, "{got}");
            }
            assert_eq!(connections, 2, "{method} {answer:?}");
        }
    }
    // News on the way have none either.
    let early =
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (answers, connections) = answered("GET", early).await;
    assert_eq!(
        answers.map(|answer| (status_of(&answer), body_of(&answer).to_owned())),
        [(); 2].map(|()| (200, "ok".to_owned()))
    );
    assert_eq!(connections, 2, "who contradicts itself is not asked again");
}
