//! A session that ends takes with it what runs on its behalf, in either direction.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use codehub_domain::change::Change;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::support::*;

/// What is not cut off goes on for ever; what is takes a busy machine a while.
const SOON: Duration = Duration::from_secs(10);

fn cookie() -> String {
    format!("Cookie: {COOKIE}")
}

impl Rig {
    /// The owner signs out, everywhere.
    fn sign_out(&self) {
        self.gate.sessions.lock().unwrap().clear();
        self.gate.tell(Change::Access { user: owner() });
    }
}

/// A program that reads what it is sent, or not, and never answers; how much it has got, and whether the rest will come.
async fn swallowing(reads: bool) -> (Upstream, Arc<AtomicUsize>, Arc<tokio::sync::Notify>) {
    let (got, cut) = (Arc::<AtomicUsize>::default(), Arc::<tokio::sync::Notify>::default());
    let (count, ended) = (got.clone(), cut.clone());
    let upstream = Upstream::new(move |mut stream| {
        let (count, ended) = (count.clone(), ended.clone());
        async move {
            read_head(&mut stream).await;
            if !reads {
                // Whoever is cut off learns of it by writing, too.
                while stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.is_ok() {
                    let_time_pass(Duration::from_millis(20)).await;
                }
                return ended.notify_one();
            }
            let mut piece = vec![0; 64 * 1024];
            while let Ok(n @ 1..) = stream.read(&mut piece).await {
                count.fetch_add(n, SeqCst);
            }
            ended.notify_one();
        }
    })
    .await;
    (upstream, got, cut)
}

/// Uploads without an end.
async fn uploads_end(reads: bool, chunked: bool) {
    let (upstream, got, cut) = swallowing(reads).await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    let length = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 1000000000" };
    stream.write_all(head("PUT", "/file", &[length, &cookie()]).as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let sending = tokio::spawn(async move {
        let piece = [format!("{:x}\r\n", 10_000).as_bytes(), &[b'x'; 10_000], b"\r\n"].concat();
        while writer.write_all(&piece).await.is_ok() {
            let_time_pass(Duration::from_millis(5)).await;
        }
    });
    if reads {
        eventually("the program reads", async || got.load(SeqCst) > 100_000).await;
    } else {
        eventually("the program has it", async || upstream.connections.load(SeqCst) == 1).await;
    }
    let begun = Instant::now();
    rig.sign_out();
    timeout(SOON, cut.notified()).await.expect("the program is cut off");
    let mut answer = Vec::new();
    let _ = timeout(SOON, reader.read_to_end(&mut answer)).await.expect("and so is the client");
    let answer = String::from_utf8_lossy(&answer);
    assert_eq!(status_of(&answer), 401, "{answer}");
    assert!(begun.elapsed() < SOON + SOON);
    sending.abort();
}

#[tokio::test]
async fn an_upload_ends_with_the_session() {
    uploads_end(true, false).await;
    uploads_end(true, true).await;
}

#[tokio::test]
async fn an_upload_that_nobody_reads_ends_with_the_session() {
    uploads_end(false, true).await;
}

#[tokio::test]
async fn an_upload_by_http2_ends_with_the_session() {
    let (upstream, got, cut) = swallowing(true).await;
    let rig = Rig::before(&upstream).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(rig.connect().await))
            .await
            .unwrap();
    tokio::spawn(connection);
    let pieces = futures::stream::unfold((), async |()| {
        let_time_pass(Duration::from_millis(5)).await;
        Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b'x'; 10_000]))), ()))
    });
    let request = http::Request::put(format!("http://code.example.com/w/{}/file", workspace()))
        .header("cookie", COOKIE)
        .body(StreamBody::new(pieces.boxed()))
        .unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    eventually("the program reads", async || got.load(SeqCst) > 100_000).await;
    rig.sign_out();
    timeout(SOON, cut.notified()).await.expect("the program is cut off");
    let answer = timeout(SOON, answer).await.expect("an answer").unwrap().unwrap();
    assert_eq!(answer.status(), 401);
}

/// Somebody whose session ended between the request and the head of its answer reads nothing of what follows.
#[tokio::test]
async fn an_answer_that_begins_after_the_session_has_ended_is_cut_off() {
    for version in ["remembered", "taken apart"] {
        let answers = Arc::<tokio::sync::Notify>::default();
        let go = answers.clone();
        let upstream = Upstream::new(move |mut stream| {
            let go = go.clone();
            async move {
                while let Some(head) = read_head(&mut stream).await {
                    if head.contains("/short") {
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
                        continue;
                    }
                    go.notified().await;
                    let begin = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                    let _ = stream.write_all(begin).await;
                    while stream.write_all(b"5\r\nhello\r\n").await.is_ok() {
                        let_time_pass(Duration::from_millis(10)).await;
                    }
                }
            }
        })
        .await;
        let rig = Rig::before(&upstream).await;
        let mut stream = rig.connect().await;
        for _ in 0..2 {
            stream.write_all(head("GET", "/short", &[&cookie()]).as_bytes()).await.unwrap();
            assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 200);
            stream.read_exact(&mut [0; 2]).await.unwrap();
        }
        // A header that is not of the plain kind.
        let apart = if version == "remembered" { "X-A: b" } else { "X-Request-Id: abc" };
        stream
            .write_all(head("GET", "/long", &[&cookie(), apart, "Connection: close"]).as_bytes())
            .await
            .unwrap();
        let_time_pass(Duration::from_millis(50)).await;
        rig.sign_out();
        eventually("it is known", async || status_of(&rig.get("/short", &[]).await) == 401).await;
        answers.notify_one();
        let mut rest = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut rest))
            .await
            .unwrap_or_else(|_| panic!("{version} goes on"));
    }
}
