//! The line by itself: both ends in one process, and an outer end whose inner one is somebody else.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly too")]

use std::{convert::Infallible, sync::Arc};

use axum::body::Body;
use bytes::Bytes;
use codehub_inside::line::{
    Inside,
    client::{Line, LineError, Output},
    messages::{channel, encode},
    protocol::{ExecEnd, ExecStart},
};
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    net::TcpListener,
};

async fn open(stream: DuplexStream) -> Line {
    let (line, moved) = Line::open(stream).await.unwrap();
    tokio::spawn(moved);
    line
}

/// To a program inside of ours.
async fn honest(home: &std::path::Path) -> Line {
    let inside = Inside::new(home, false).unwrap();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let serving = inside.clone();
    tokio::spawn(async move { serving.serve(theirs).await });
    tokio::spawn(async move { inside.watch_children().await });
    open(ours).await
}

/// To somebody who speaks HTTP/2 and answers everything with this.
async fn hostile(answer: impl Fn() -> Response<Body> + Send + Sync + 'static) -> Line {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        let service = service_fn(move |_: Request<Incoming>| {
            let answer = answer.clone();
            async move { Ok::<_, Infallible>(answer()) }
        });
        let _ =
            http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(theirs), service).await;
    });
    open(ours).await
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_short_connections_leave_nothing() {
    let home = tempfile::tempdir().unwrap();
    let line = honest(home.path()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut hello = [0; 5];
                stream.read_exact(&mut hello).await.unwrap();
                stream.write_all(&hello.map(|byte| byte.to_ascii_uppercase())).await.unwrap();
            });
        }
    });
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let connect = async || {
        let answer = line.connect(port, Body::from("hello")).await.unwrap();
        assert_eq!(answer.collect().await.unwrap().to_bytes(), "HELLO");
    };
    let many = async |count: usize| {
        futures::stream::iter(0..count).for_each_concurrent(32, |_| connect()).await;
    };
    many(1_000).await;
    let (before, open) = (memory(), files());
    many(9_000).await;
    assert!(memory() < before + 16, "{before} MiB became {} MiB", memory());
    codehub_testing::eventually("all are closed", async || files() <= open).await;
    let refused = line.connect(1, Body::empty()).await;
    assert!(
        matches!(&refused, Err(LineError::Refused(502, problem)) if problem.code == "NOTHING_LISTENS"),
        "{refused:?}"
    );
}

/// Whatever is answered, it is refused, cut or cleaned.
#[tokio::test]
async fn what_is_not_an_answer_is_not_believed() {
    let garbage = |error: LineError| assert!(matches!(error, LineError::Garbage(_)), "{error:?}");
    for text in ["", "[]", "{\"home_bytes\":-1}", &"9".repeat(1 << 20)] {
        let text = text.to_owned();
        let line = hostile(move || Response::new(Body::from(text.clone()))).await;
        garbage(line.usage().await.unwrap_err());
    }
    let ports = r#"[{"port":80,"process":"a\u001b[31mb\n","loopback_only":false},{"port":80,"process":"x","loopback_only":true},
        {"port":0,"process":"none","loopback_only":true}]"#;
    let line = hostile(move || Response::new(Body::from(ports))).await;
    let found = line.ports().await.unwrap();
    assert!(found.len() == 1 && found[0].process == "a[31mb", "{found:?}");

    // An answer without an end is not waited for: it is too long first.
    let endless = || {
        let zeros = futures::stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'0'; 4096])));
        Response::new(Body::from_stream(zeros))
    };
    garbage(hostile(endless).await.usage().await.unwrap_err());
    garbage(
        hostile(|| {
            let mut answer = Response::new(Body::from("no JSON"));
            *answer.status_mut() = http::StatusCode::IM_A_TEAPOT;
            answer
        })
        .await
        .usage()
        .await
        .unwrap_err(),
    );

    let exec = async |said: Vec<u8>| {
        let line = hostile(move || Response::new(Body::from(said.clone()))).await;
        let mut exec = line.exec(&ExecStart::default()).await.unwrap();
        loop {
            match exec.output.next().await {
                Ok(Output::Stdout(_) | Output::Stderr(_)) => {}
                Ok(Output::End(end)) => return Ok(end),
                Err(error) => return Err(error),
            }
        }
    };
    let end = |text: &str| encode(channel::END, text.as_bytes()).to_vec();
    for said in [
        vec![0xff; 100],
        vec![0; 100],
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        encode(channel::STDIN, b"x").to_vec(),
        encode(9, b"x").to_vec(),
        end("{\"exit\":{\"code\":256}}"),
        end("{\"exit\":{\"code\":0},\"more\":1}"),
        end("null"),
    ] {
        garbage(exec(said).await.unwrap_err());
    }
    assert!(matches!(exec(Vec::new()).await, Err(LineError::Ended(_))));
    let long = format!("{{\"error\":{{\"code\":\"<script>\",\"message\":\"\\u0007{}\"}}}}", "x".repeat(5000));
    let Ok(ExecEnd::Error(problem)) = exec(end(&long)).await else { panic!("an error") };
    assert_eq!((problem.code.as_str(), problem.message.len()), ("UNKNOWN", 1000));
}

/// Somebody who took the connection and does nothing with it, as a program that was stopped.
#[tokio::test(start_paused = true)]
async fn who_does_not_answer_is_not_waited_for_long() {
    let (ours, _theirs) = tokio::io::duplex(1 << 20);
    let line = open(ours).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(line.ports().await, Err(LineError::Silent(10)));
    assert_eq!(begun.elapsed().as_secs(), 10);
    let (ours, _theirs) = tokio::io::duplex(1 << 20);
    let (line, begun) = (open(ours).await, tokio::time::Instant::now());
    // It is not known how long a file takes, but that somebody takes it.
    let written = line
        .write_file("file", Body::from_stream(futures::stream::pending::<std::io::Result<Bytes>>()))
        .await;
    assert!(written.is_err() && begun.elapsed().as_secs() <= 15, "{written:?} after {:?}", begun.elapsed());
}

/// What a client says that is not CodeHub ends its own stream only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_from_outside_ends_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let inside = Inside::new(home.path(), false).unwrap();
    for words in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 10_000], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff"]
    {
        let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
        let serving = inside.clone();
        let served = tokio::spawn(async move { serving.serve(theirs).await });
        let _ = ours.write_all(words).await;
        let _ = ours.shutdown().await;
        tokio::time::timeout(std::time::Duration::from_secs(10), served).await.unwrap().unwrap();
    }
    let line = honest(home.path()).await;
    let mut exec =
        line.exec(&ExecStart { command: Some(vec!["cat".into()]), ..ExecStart::default() }).await.unwrap();
    assert!(exec.input.send(77, b"x").await);
    assert!(exec.output.next().await.is_err(), "ended without a word");
    assert!(line.usage().await.is_ok());
}
