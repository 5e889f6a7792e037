//! One HTTP exchange, seen from both ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::support::*;
use crate::activity::ActivityKind;

const MIB: usize = 1024 * 1024;

fn cookie() -> String {
    format!("Cookie: {COOKIE}")
}

#[tokio::test]
async fn the_workspace_sees_the_request_as_sent_and_nothing_of_ours() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let answer = rig
        .send(
            "GET",
            "/a%2Fb/../c//d?x=%zz&y=/",
            &[
                "Cookie: a=1; session=owner-secret; b=2",
                "X-Forwarded-For: 6.6.6.6",
                "X-Forwarded-Host: evil.example",
                "X-Custom: v",
                "Authorization: token of-the-ide",
                "Keep-Alive: 5",
            ],
        )
        .await;
    let seen = body_of(&answer).to_lowercase();
    assert!(seen.starts_with("get /a%2fb/../c//d?x=%zz&y=/ http/1.1\r\n"), "{seen}");
    for expected in [
        "host: code.example.com",
        "cookie: a=1; b=2",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-proto: http",
        "x-forwarded-host: code.example.com",
        &format!("x-forwarded-prefix: /w/{}", workspace()),
        "x-custom: v",
        "authorization: token of-the-ide",
    ] {
        assert!(seen.contains(&format!("\r\n{expected}\r\n")), "{expected} not in {seen}");
    }
    for ours in ["secret", "6.6.6.6", "evil", "keep-alive", "connection"] {
        assert!(!seen.contains(ours), "{ours} in {seen}");
    }

    let answer = rig.send("GET", "/", &[&format!("Authorization: Bearer {TOKEN}")]).await;
    assert!(!body_of(&answer).to_lowercase().contains("authorization"));
    // Nor in any other form in which the cookie decides who it is, remembered or not.
    for form in ["Bearer\tchp_x", "token chp_x", "chp_x", "Basic Y2hwX3g6", "Basic eDpjaHBfeA=="] {
        for _ in 0..2 {
            let answer = rig.get("/", &[&format!("Authorization: {form}")]).await;
            assert_eq!(status_of(&answer), 200, "{answer}");
            assert!(!body_of(&answer).to_lowercase().contains("authorization"), "{form}: {answer}");
        }
    }
    // A token that is not ours is the workspace's own.
    let answer = rig.get("/", &["Authorization: Bearer jupyter"]).await;
    assert!(body_of(&answer).contains("Bearer jupyter"));
}

#[tokio::test]
async fn one_request_id_on_both_sides() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    for (sent, kept) in
        [("X-Request-Id: mine-1", true), ("X-Request-Id: not \"sane\"", false), ("X-A: b", false)]
    {
        let answer = rig.get("/", &[sent]).await;
        let id = header_of(&answer, "x-request-id").unwrap();
        assert_eq!(id == "mine-1", kept, "{answer}");
        assert!(body_of(&answer).to_lowercase().contains(&format!("\r\nx-request-id: {id}\r\n")), "{answer}");
    }
    let refused = rig.send("GET", "/", &["X-Request-Id: mine-2"]).await;
    assert_eq!((status_of(&refused), header_of(&refused, "x-request-id")), (401, Some("mine-2")));
}

#[tokio::test]
async fn the_prefix_is_kept_for_programs_that_know_it() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    rig.gate.upstream.lock().unwrap().as_mut().unwrap().keeps_prefix = true;
    let answer = rig.get("/lab?x", &[]).await;
    assert!(body_of(&answer).starts_with(&format!("GET /w/{}/lab?x HTTP/1.1", workspace())));
}

#[tokio::test]
async fn answers_are_confined() {
    let upstream = Upstream::answering(
        "Set-Cookie: a=1; Path=/; Domain=example.com\r\nSet-Cookie: session=evil\r\nLocation: /x\r\n\
         Connection: close, X-Hop\r\nX-Hop: 1\r\nClear-Site-Data: \"*\"\r\n",
    )
    .await;
    let rig = Rig::before(&upstream).await;
    let answer = rig.get("/", &[]).await;
    let path = format!("/w/{}/", workspace());
    assert_eq!(header_of(&answer, "set-cookie"), Some(format!("a=1; Path={path}").as_str()));
    assert_eq!(header_of(&answer, "location"), Some(format!("{path}x").as_str()));
    assert!(!answer.contains("evil") && !answer.contains("x-hop") && !answer.contains("clear-site-data"));
}

#[tokio::test]
async fn connections_are_reused_and_stale_ones_replaced() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    for _ in 0..10 {
        assert_eq!(status_of(&rig.get("/", &[]).await), 200);
        // Given back a moment after the answer has been read.
        let_time_pass(Duration::from_millis(5)).await;
    }
    assert_eq!(upstream.connections.load(SeqCst), 1);

    // A workspace that answers one request per connection and then slams the door on the second.
    let rude = Upstream::new(|mut stream| async move {
        if read_head(&mut stream).await.is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            // Reads the next request, then closes without a word.
            let _ = read_head(&mut stream).await;
        }
    })
    .await;
    rig.lead_to(&rude);
    rig.gate.change(|_| {});
    eventually("the new address is known", async || {
        assert_eq!(status_of(&rig.get("/", &[]).await), 200);
        rude.connections.load(SeqCst) > 0
    })
    .await;
    // Old enough that nobody takes it for a connection that is surely alive.
    let_time_pass(Duration::from_millis(400)).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 200, "not retried");
    assert_eq!(rude.connections.load(SeqCst), 2);
    // What must not happen twice is not sent twice.
    let_time_pass(Duration::from_millis(400)).await;
    let answer = rig.send("POST", "/", &[&cookie(), "Content-Length: 0"]).await;
    assert_eq!(status_of(&answer), 502);
    assert!(rig.gate.looks.load(SeqCst) > 0);
}

#[tokio::test]
async fn a_moved_workspace_is_looked_for_once_more() {
    let first = Upstream::echoing_heads().await;
    let rig = Rig::before(&first).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    drop(first);
    let second = Upstream::echoing_heads().await;
    rig.lead_to(&second);
    // Long enough that the first one's end has been noticed, or would have been.
    let_time_pass(Duration::from_millis(300)).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    assert_eq!(rig.gate.looks.load(SeqCst), 0);
}

/// The row still says that it runs, and somebody listens there: it may be somebody else by now.
#[tokio::test]
async fn a_port_is_not_believed_for_long_and_a_socket_is() {
    let first = Upstream::echoing_heads().await;
    let rig = Rig::before(&first).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    let second = Upstream::echoing_heads().await;
    rig.lead_to(&second);
    let_time_pass(crate::routes::FRESH_FOR + Duration::from_millis(300)).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    assert_eq!(second.connections.load(SeqCst), 1, "it was asked again where the workspace is");
    // The engine does not answer, or has nothing there.
    *rig.gate.upstream.lock().unwrap() = None;
    let_time_pass(crate::routes::FRESH_FOR + Duration::from_millis(300)).await;
    assert_ne!(status_of(&rig.get("/", &[]).await), 200);
    assert_eq!(first.connections.load(SeqCst) + second.connections.load(SeqCst), 2);
}

#[tokio::test]
async fn the_secret_of_an_instance_goes_with_every_request_and_in_no_others_place() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    for (name, value, line) in [
        ("X-Codehub-Secret", "s3cret", "x-codehub-secret: s3cret"),
        ("Cookie", "code-server-session=s3cret", "cookie: code-server-session=s3cret"),
        ("Authorization", "token s3cret", "authorization: token s3cret"),
    ] {
        let secret = Some(codehub_upstream::Secret::header(name, value));
        *rig.gate.upstream.lock().unwrap() =
            Some(codehub_upstream::Upstream { secret, ..codehub_upstream::Upstream::at(upstream.addr) });
        let_time_pass(crate::routes::FRESH_FOR + Duration::from_millis(300)).await;
        for _ in 0..2 {
            // The second one is sent by what is remembered of the first.
            let answer = rig.get("/", &["X-Own: kept", "Authorization: Basic eDp5"]).await;
            let seen = body_of(&answer).to_ascii_lowercase();
            assert_eq!(seen.matches(line).count(), 1, "{seen}");
            assert!(seen.contains("x-own: kept"), "{seen}");
            assert_eq!(seen.contains("basic edp5"), name != "Authorization", "{seen}");
        }
    }
}

/// Somebody else may listen where a workspace did: nothing that is open to the one leads to the other.
#[tokio::test]
async fn another_instance_gets_no_connection_of_the_one_before() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    for _ in 0..2 {
        assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    }
    assert_eq!(upstream.connections.load(SeqCst), 1, "kept alive");
    rig.gate.upstream.lock().unwrap().as_mut().unwrap().instance =
        codehub_upstream::InstanceTag::of(&"the next one");
    rig.gate.change(|view| view.name.push('!'));
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    assert_eq!(upstream.connections.load(SeqCst), 2);
}

#[tokio::test]
async fn nothing_listening_is_502_and_the_controller_is_told() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let address = upstream.addr;
    drop(upstream);
    eventually("its door is shut", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 502);
    assert_eq!(rig.gate.looks.load(SeqCst), 1);
}

#[tokio::test]
async fn head_204_and_304_have_no_body() {
    let upstream = Upstream::new(|mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let answer = if head.starts_with("HEAD") {
                "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"
            } else if head.contains("/204") {
                "HTTP/1.1 204 No Content\r\n\r\n"
            } else {
                "HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\n\r\n"
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let answer = rig.send("HEAD", "/", &[&cookie()]).await;
    assert_eq!((status_of(&answer), header_of(&answer, "content-length")), (200, Some("1234")));
    assert_eq!(body_of(&answer), "");
    for (path, status) in [("/204", 204), ("/304", 304)] {
        let answer = rig.get(path, &[]).await;
        assert_eq!((status_of(&answer), body_of(&answer)), (status, ""));
        assert!(header_of(&answer, "transfer-encoding").is_none());
    }
}

#[tokio::test]
async fn ranges_pass_through() {
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap().to_lowercase();
        assert!(head.contains("range: bytes=2-3"));
        let answer =
            b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-3/9\r\nContent-Length: 2\r\n\r\ncd";
        stream.write_all(answer).await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let answer = rig.get("/", &["Range: bytes=2-3"]).await;
    assert_eq!((status_of(&answer), body_of(&answer)), (206, "cd"));
    assert_eq!(header_of(&answer, "content-range"), Some("bytes 2-3/9"));
}

#[tokio::test]
async fn events_are_passed_on_one_by_one() {
    let (seen, next) = tokio::sync::mpsc::channel::<()>(1);
    let next = Arc::new(tokio::sync::Mutex::new(next));
    let upstream = Upstream::new(move |mut stream| {
        let next = next.clone();
        async move {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await.unwrap();
            for n in 0.. {
                stream.write_all(format!("data: {n}\n\n").as_bytes()).await.unwrap();
                // The next one only when this one has arrived.
                if next.lock().await.recv().await.is_none() {
                    return;
                }
            }
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    stream.write_all(head("GET", "/", &[&cookie()]).as_bytes()).await.unwrap();
    read_head(&mut stream).await.unwrap();
    for n in 0..3 {
        let mut event = String::new();
        while !event.contains(&format!("data: {n}\n\n")) {
            let byte = timeout(Duration::from_secs(5), stream.read_u8()).await.unwrap().unwrap();
            event.push(char::from(byte));
        }
        seen.send(()).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_expects_100_sends_only_when_the_workspace_wants_it() {
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap().to_lowercase();
        assert!(head.contains("expect: 100-continue"), "{head}");
        if head.contains("/no") {
            stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            return;
        }
        // A client that did not wait would have sent its body by now.
        let_time_pass(Duration::from_millis(100)).await;
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await.unwrap();
        stream.write_all(&body).await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let lines = [&cookie()[..], "Content-Length: 5", "Expect: 100-continue", "Connection: close"];

    let mut stream = rig.connect().await;
    stream.write_all(head("POST", "/yes", &lines).as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 100);
    stream.write_all(b"hello").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!((status_of(&answer), body_of(&answer)), (200, "hello"));

    // Refused before a byte of the body was asked for.
    let answer = rig.raw(head("POST", "/no", &lines)).await;
    assert_eq!(status_of(&answer), 413, "{answer}");
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let upstream = Upstream::new(|mut stream| async move {
        let mut all = Vec::new();
        while !all.ends_with(b"x-sum: 1\r\n\r\n") {
            all.push(stream.read_u8().await.unwrap());
        }
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                      2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let lines = [
        &cookie()[..],
        "Transfer-Encoding: chunked",
        "Trailer: X-Sum",
        "TE: trailers",
        "Connection: TE, close",
    ];
    let answer = rig.raw(head("POST", "/", &lines) + "2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n").await;
    assert_eq!(status_of(&answer), 200, "{answer}");
    assert!(answer.to_lowercase().ends_with("0\r\nx-sum: 2\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_workspace_that_breaks_off_is_seen_to_break_off() {
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap();
        let framing =
            if head.contains("/chunked") { "Transfer-Encoding: chunked" } else { "Content-Length: 9" };
        let body = if head.contains("/chunked") { "3\r\nabc\r\n" } else { "abc" };
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{body}").as_bytes()).await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let answer = rig.get("/chunked", &[]).await;
    assert!(answer.contains("abc") && !answer.ends_with("0\r\n\r\n"), "{answer}");
    let answer = rig.get("/length", &[]).await;
    assert_eq!(header_of(&answer, "content-length"), Some("9"));
    assert_eq!(body_of(&answer), "abc");
}

#[tokio::test]
async fn a_download_waits_for_its_reader() {
    const TOTAL: usize = 64 * MIB;
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    let upstream = Upstream::new(move |mut stream| {
        let count = count.clone();
        async move {
            read_head(&mut stream).await;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {TOTAL}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let piece = vec![7; MIB];
            for _ in 0..TOTAL / MIB {
                stream.write_all(&piece).await.unwrap();
                count.fetch_add(MIB as u64, SeqCst);
            }
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    stream.write_all(head("GET", "/", &[&cookie()]).as_bytes()).await.unwrap();
    read_head(&mut stream).await.unwrap();
    // As much as would be taken by somebody who does not wait.
    let_time_pass(Duration::from_millis(700)).await;
    let while_nobody_reads = sent.load(SeqCst);
    assert!(while_nobody_reads < 16 * MIB as u64, "{while_nobody_reads} bytes were taken in advance");
    let reading = Instant::now();
    let mut buffer = vec![0; MIB];
    let mut left = TOTAL;
    while left > 0 {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0 && buffer[..read].iter().all(|&b| b == 7));
        left -= read;
    }
    let age = rig.activity.peek(workspace()).unwrap().age(ActivityKind::Http).unwrap();
    assert!(age <= reading.elapsed() + Duration::from_millis(50), "{age:?}");
}

#[tokio::test]
async fn an_upload_waits_for_its_reader() {
    const TOTAL: usize = 64 * MIB;
    let go = Arc::new(AtomicBool::new(false));
    let gone = go.clone();
    let upstream = Upstream::new(move |mut stream| {
        let go = gone.clone();
        async move {
            read_head(&mut stream).await;
            while !go.load(SeqCst) {
                poll_every(Duration::from_millis(10)).await;
            }
            let mut buffer = vec![0; MIB];
            let mut left = TOTAL;
            while left > 0 {
                left -= stream.read(&mut buffer).await.unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").await.unwrap();
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let length = format!("Content-Length: {TOTAL}");
    let (mut reader, mut writer) = rig.connect().await.into_split();
    let lines = head("PUT", "/", &[&cookie(), &length, "Connection: close"]);
    writer.write_all(lines.as_bytes()).await.unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    tokio::spawn(async move {
        let piece = vec![7; MIB];
        for _ in 0..TOTAL / MIB {
            writer.write_all(&piece).await.unwrap();
            count.fetch_add(MIB as u64, SeqCst);
        }
        std::future::pending::<()>().await;
    });
    // As much as would be taken by somebody who does not wait.
    let_time_pass(Duration::from_millis(700)).await;
    let while_nobody_reads = sent.load(SeqCst);
    assert!(while_nobody_reads < 24 * MIB as u64, "{while_nobody_reads} bytes were taken in advance");
    go.store(true, SeqCst);
    let mut answer = String::new();
    reader.read_to_string(&mut answer).await.unwrap();
    assert_eq!((status_of(&answer), body_of(&answer)), (200, "done"));
}

#[tokio::test]
async fn http_2_clients_are_served() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let io = TokioIo::new(rig.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::builder()
        .uri(format!("http://code.example.com/w/{}/a?b", workspace()))
        .header("cookie", "a=1")
        .header("cookie", COOKIE)
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!((response.status(), response.version()), (http::StatusCode::OK, http::Version::HTTP_2));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let seen = String::from_utf8(body.to_vec()).unwrap().to_lowercase();
    assert!(seen.starts_with("get /a?b http/1.1\r\n"), "{seen}");
    assert!(
        seen.contains("\r\nhost: code.example.com\r\n") && seen.contains("\r\ncookie: a=1\r\n"),
        "{seen}"
    );
}

#[tokio::test]
async fn an_http_2_body_of_unknown_length_is_chunked_for_the_workspace() {
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap().to_lowercase();
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        let mut all = Vec::new();
        while !all.ends_with(b"0\r\n\r\n") {
            all.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(rig.connect().await))
            .await
            .unwrap();
    tokio::spawn(connection);
    let frames = futures::stream::iter(["a", "b"].map(|piece| {
        Ok::<_, std::convert::Infallible>(http_body::Frame::data(Bytes::from_static(piece.as_bytes())))
    }));
    let request = http::Request::put(format!("http://code.example.com/w/{}/", workspace()))
        .header("cookie", COOKIE)
        .body(StreamBody::new(frames))
        .unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_trusted_proxy_in_front_is_believed() {
    let upstream = Upstream::echoing_heads().await;
    let trusted = vec![std::net::IpAddr::from([127, 0, 0, 1]).into()];
    let rig = Rig::with(Options { trusted, ..Options::default() }).await;
    rig.lead_to(&upstream);
    let claims = ["X-Forwarded-For: 9.9.9.9", "X-Forwarded-Proto: https", "X-Forwarded-Host: public.example"];
    let answer = rig.get("/", &claims).await;
    let seen = body_of(&answer).to_lowercase();
    for expected in [
        "x-forwarded-for: 9.9.9.9, 127.0.0.1",
        "x-forwarded-proto: https",
        "x-forwarded-host: public.example",
    ] {
        assert!(seen.contains(&format!("\r\n{expected}\r\n")), "{expected} not in {seen}");
    }
    // And so is the host it was asked for, when a WebSocket's origin is compared.
    let upgrade = ["Connection: upgrade", "Upgrade: websocket", claims[1], claims[2]];
    for (origin, status) in [
        ("https://public.example", 200),
        ("http://public.example", 403),
        ("https://public.example:8443", 403),
        ("https://evil.example", 403),
    ] {
        let origin = format!("Origin: {origin}");
        let cookie = cookie();
        let lines = [&upgrade[..], &[&origin, &cookie]].concat();
        let mut stream = rig.connect().await;
        stream.write_all(head("GET", "/", &lines).as_bytes()).await.unwrap();
        assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), status, "{origin}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_may_not_write_with_the_cookie() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let (cookie, token) = (cookie(), format!("Authorization: Bearer {TOKEN}"));
    let (ours, foreign) = ("Origin: http://code.example.com", "Origin: https://evil.example");
    for (method, lines, status) in [
        ("POST", &[&cookie[..], foreign][..], 403),
        ("DELETE", &[&cookie, "Origin: null"], 403),
        ("POST", &[&cookie, ours], 200),
        // What is no browser sends no origin; what only reads is the browser's to judge.
        ("POST", &[&cookie], 200),
        ("GET", &[&cookie, foreign], 200),
        ("POST", &[&token, foreign], 200),
    ] {
        let lines = [lines, &["Content-Length: 0"]].concat();
        let mut stream = rig.connect().await;
        stream.write_all(head(method, "/", &lines).as_bytes()).await.unwrap();
        assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), status, "{method} {lines:?}");
    }
}
