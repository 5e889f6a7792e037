//! What workspaces may answer, and what becomes of the connection then.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::support::*;

/// Answers every request of every connection with these bytes; closes after the first if told to.
async fn says(answer: &'static str, close: bool) -> Upstream {
    Upstream::new(move |mut stream| async move {
        while read_head(&mut stream).await.is_some() {
            if stream.write_all(answer.as_bytes()).await.is_err() || close {
                return;
            }
        }
    })
    .await
}

/// Two requests, one after the other, and over how many connections they reached the workspace.
async fn twice(upstream: &Upstream) -> ([String; 2], u32) {
    let rig = Rig::before(upstream).await;
    let first = rig.get("/", &[]).await;
    // A connection that is kept is given back a moment after the answer.
    let_time_pass(Duration::from_millis(20)).await;
    ([first, rig.get("/", &[]).await], upstream.connections.load(SeqCst))
}

#[tokio::test]
async fn a_connection_is_kept_only_after_a_clean_end() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 1),
        ("HTTP/1.1 204 No Content\r\n\r\n", "", 1),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "ok",
            1,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "2\r\nok\r\n0\r\n\r\n",
            1,
        ),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", 2),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 2),
        // What follows an answer that nobody asked for must not become somebody's answer.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            "ok",
            2,
        ),
    ];
    for (answer, body, connections) in cases {
        let (answers, used) = twice(&says(answer, false).await).await;
        for got in &answers {
            assert_eq!((status_of(got) / 100, body_of(got)), (2, body), "{answer:?}: {got}");
        }
        assert_eq!(used, connections, "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_without_a_length_ends_with_its_connection() {
    let (answers, used) = twice(&says("HTTP/1.1 200 OK\r\n\r\nall of it", true).await).await;
    for got in &answers {
        assert_eq!((status_of(got), body_of(got)), (200, "9\r\nall of it\r\n0\r\n\r\n"));
    }
    assert_eq!(used, 2);
}

#[tokio::test]
async fn answers_that_could_be_read_in_two_ways_are_502() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
    ] {
        let (answers, used) = twice(&says(answer, false).await).await;
        assert_eq!(answers.map(|got| status_of(&got)), [502, 502], "{answer:?}");
        assert_eq!(used, 2, "{answer:?}");
    }
    let endless = Upstream::new(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        let line = format!("X: {}\r\n", "y".repeat(8 * 1024));
        while stream.write_all(line.as_bytes()).await.is_ok() {}
    })
    .await;
    let rig = Rig::before(&endless).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 502);
}

#[tokio::test]
async fn a_bad_chunk_breaks_the_answer_off() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n";
    let (answers, used) = twice(&says(answer, false).await).await;
    for got in &answers {
        assert!(got.contains("ok") && !got.ends_with("0\r\n\r\n"), "{got}");
    }
    assert_eq!(used, 2);
}

/// The workspace answers before it has read the request, and the client sends the rest only then.
#[tokio::test]
async fn an_early_answer_reaches_a_client_that_still_sends() {
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n")
            .await
            .unwrap();
        let length = if head.contains("chunked") { "5\r\nhello\r\n0\r\n\r\n".len() } else { 5 };
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains("hello"));
        stream.write_all(b"4\r\nlate\r\n0\r\n\r\n").await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    for (framing, body) in
        [("Content-Length: 5", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")]
    {
        let mut stream = rig.connect().await;
        let lines = [&format!("Cookie: {COOKIE}")[..], framing, "Connection: close"];
        stream.write_all(head("POST", "/", &lines).as_bytes()).await.unwrap();
        let got = timeout(Duration::from_secs(5), read_head(&mut stream)).await.unwrap().unwrap();
        assert_eq!(status_of(&got), 200);
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut got = String::new();
        timeout(Duration::from_secs(5), stream.read_to_string(&mut got)).await.unwrap().unwrap();
        assert_eq!(got, "5\r\nearly\r\n4\r\nlate\r\n0\r\n\r\n");
    }
}

/// Pieces of every size, alone and together, arrive as they were sent.
#[tokio::test]
async fn uploads_arrive_whole_however_they_are_framed() {
    const SIZES: [usize; 5] = [1, 8 * 1024, 8 * 1024 + 1, 100_000, 3];
    let upstream = Upstream::new(|mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let mut body = Vec::new();
            if let Some(length) = header_of(&head, "content-length") {
                body.resize(length.parse().unwrap(), 0);
                stream.read_exact(&mut body).await.unwrap();
            } else {
                loop {
                    let mut line = Vec::new();
                    while !line.ends_with(b"\r\n") {
                        line.push(stream.read_u8().await.unwrap());
                    }
                    let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
                    let mut chunk = vec![0; size + 2];
                    stream.read_exact(&mut chunk).await.unwrap();
                    assert!(chunk.ends_with(b"\r\n"));
                    body.extend_from_slice(&chunk[..size]);
                    if size == 0 {
                        break;
                    }
                }
            }
            let sums: String =
                body.chunk_by(|a, b| a == b).map(|run| format!("{}{} ", run[0] as char, run.len())).collect();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{sums}", sums.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let pieces: Vec<String> =
        SIZES.iter().zip('a'..).map(|(&size, letter)| letter.to_string().repeat(size)).collect();
    let expected: String = SIZES.iter().zip('a'..).map(|(size, letter)| format!("{letter}{size} ")).collect();
    let chunks: Vec<String> =
        pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
    let length = format!("Content-Length: {}", SIZES.iter().sum::<usize>());
    let cookie = format!("Cookie: {COOKIE}");
    for (framing, pieces) in
        [(&length[..], pieces), ("Transfer-Encoding: chunked", [chunks, vec!["0\r\n\r\n".into()]].concat())]
    {
        for pause in [0, 10] {
            let mut stream = rig.connect().await;
            let mut sent = head("POST", "/", &[&cookie, framing, "Connection: close"]);
            for piece in &pieces {
                sent.push_str(piece);
                if pause > 0 {
                    stream.write_all(std::mem::take(&mut sent).as_bytes()).await.unwrap();
                    let_time_pass(Duration::from_millis(pause)).await;
                }
            }
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut got = String::new();
            timeout(Duration::from_secs(10), stream.read_to_string(&mut got)).await.unwrap().unwrap();
            assert_eq!((status_of(&got), body_of(&got)), (200, &expected[..]), "{framing}, pause {pause}");
        }
    }
    assert_eq!(upstream.connections.load(SeqCst), 1);
}
