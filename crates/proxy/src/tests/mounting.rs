//! The proxy beside the rest of the server.

use axum::{
    Extension, Router,
    routing::{get, post},
};
use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::support::*;
use crate::front::{ConnectionHandle, Takeover};

#[tokio::test]
async fn everything_else_goes_to_the_application() {
    let rig = Rig::new().await;
    for path in ["/", "/api/v1/x", "/w", "/wx/"] {
        let answer = rig.raw(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(body_of(&answer), "the application", "{path}");
    }
}

/// One connection carries requests of both, with bodies that nobody mistakes for requests.
#[tokio::test]
async fn one_connection_serves_both() {
    let upstream = Upstream::echoing_heads().await;
    let application = Router::new()
        .route("/echo", post(|body: String| async move { body }))
        .route("/refused", post(|| async { StatusCode::FORBIDDEN }))
        .fallback(|| async { "the application" });
    let rig = Rig::with(Options { application, ..Options::default() }).await;
    rig.lead_to(&upstream);
    let cookie = format!("Cookie: {COOKIE}");
    let plain =
        |line: &str, lines: &str, body: &str| format!("{line} HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}");
    let requests = [
        plain("GET /", "", ""),
        head("GET", "/one", &[&cookie]),
        plain("POST /echo", "Content-Length: 5\r\n", "hello"),
        plain("POST /echo", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
        head("GET", "/two", &[&cookie]),
        plain("POST /refused", "Content-Length: 5\r\n", "GET /"),
        plain("HEAD /", "", ""),
        head("GET", "/three", &[&cookie, "Connection: close"]),
    ]
    .concat();
    for piece in [7, requests.len()] {
        let mut stream = rig.connect().await;
        for piece in requests.as_bytes().chunks(piece) {
            stream.write_all(piece).await.unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let statuses: Vec<&str> =
            answer.match_indices("HTTP/1.1 ").filter_map(|(at, _)| answer.get(at + 9..at + 12)).collect();
        let statuses: Vec<&str> =
            statuses.into_iter().filter(|status| status.parse::<u16>().is_ok()).collect();
        assert_eq!(statuses, ["200", "200", "200", "200", "200", "403", "200", "200"], "{answer}");
        let order = ["the application", "GET /one ", "hello", "abcdef", "GET /two ", "GET /three "];
        let places: Vec<_> =
            order.iter().map(|word| answer.find(word).unwrap_or_else(|| panic!("{word}"))).collect();
        assert!(places.is_sorted(), "{answer}");
    }
}

#[tokio::test]
async fn the_application_asks_for_a_body_when_it_wants_it() {
    let application = Router::new()
        .route("/wanted", post(|body: String| async move { body }))
        .route("/not", post(|| async { StatusCode::PAYLOAD_TOO_LARGE }));
    let rig = Rig::with(Options { application, ..Options::default() }).await;
    let expecting = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    };
    let mut stream = rig.connect().await;
    stream.write_all(expecting("/wanted").as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 100);
    stream.write_all(b"hello").await.unwrap();
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 200);
    let answer = rig.raw(expecting("/not")).await;
    assert_eq!((status_of(&answer), header_of(&answer, "connection")), (413, Some("close")), "{answer}");
}

/// An answer that is not over when its client leaves, or when the application closes the connection, is given up.
#[tokio::test]
async fn an_endless_answer_ends_with_its_connection() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let application = Router::new().route(
        "/endless",
        get(move |Extension(connection): Extension<ConnectionHandle>| async move {
            struct Tells(tokio::sync::mpsc::UnboundedSender<()>);
            impl Drop for Tells {
                fn drop(&mut self) {
                    let _ = self.0.send(());
                }
            }
            let tells = Tells(tell);
            let frames = futures::stream::unfold((tells, 0), move |(tells, n)| {
                let connection = connection.clone();
                async move {
                    match n {
                        0 => {}
                        1 => let_time_pass(std::time::Duration::from_millis(300)).await,
                        _ => {
                            connection.close();
                            std::future::pending::<()>().await;
                        }
                    }
                    Some((Ok::<_, std::convert::Infallible>("event\n"), (tells, n + 1)))
                }
            });
            axum::body::Body::from_stream(frames)
        }),
    );
    let rig = Rig::with(Options { application, ..Options::default() }).await;
    let request = "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut leaves = rig.connect().await;
    leaves.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut leaves).await.unwrap()), 200);
    drop(leaves);
    told.recv().await.unwrap();
    let answer = rig.raw(request).await;
    assert!(answer.contains("event\n") && !answer.ends_with("0\r\n\r\n"), "{answer}");
    told.recv().await.unwrap();
}

#[tokio::test]
async fn the_application_may_take_a_connection_over() {
    let application = Router::new().route(
        "/tunnel",
        get(|| async {
            let takeover = Takeover::new(|mut stream, early| {
                tokio::spawn(async move {
                    stream.write_all(&early).await.unwrap();
                    let (mut reader, mut writer) = tokio::io::split(stream);
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            });
            (StatusCode::SWITCHING_PROTOCOLS, [("upgrade", "echo")], Extension(takeover))
        }),
    );
    let rig = Rig::with(Options { application, ..Options::default() }).await;
    let mut stream = rig.connect().await;
    let request = "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly";
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read_head(&mut stream).await.unwrap();
    assert_eq!((status_of(&answer), header_of(&answer, "upgrade")), (101, Some("echo")), "{answer}");
    stream.write_all(b" late").await.unwrap();
    let mut echoed = [0; 10];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"early late");
}
