//! The two ways to mount the proxy.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::support::*;
use crate::proxy::router;

#[tokio::test]
async fn everything_else_goes_to_the_application() {
    let rig = Rig::new().await;
    for path in ["/", "/api/v1/x", "/w", "/wx/"] {
        let answer = rig.raw(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(body_of(&answer), "the application", "{path}");
    }
}

#[tokio::test]
async fn under_axum_raw_bytes_and_upgrades_survive() {
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap();
        if head.to_lowercase().contains("upgrade: x") {
            let answer =
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello";
            stream.write_all(answer).await.unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            stream.write_all(&byte).await.unwrap();
        } else {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let application = router(rig.proxy.clone()).into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, application).await.unwrap() });

    let cookie = format!("Cookie: {COOKIE}");
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let request = head("GET", "/a%2Fb//../%E0?q=%zz", &[&cookie, "Connection: close"]);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(body_of(&answer).starts_with("GET /a%2Fb//../%E0?q=%zz HTTP/1.1\r\n"), "{answer}");
    assert!(body_of(&answer).contains("x-forwarded-for: 127.0.0.1"));

    let mut stream = TcpStream::connect(addr).await.unwrap();
    let lines = [&cookie[..], "Connection: upgrade", "Upgrade: x", "Origin: http://code.example.com"];
    stream.write_all(head("GET", "/", &lines).as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 101);
    let mut hello = [0; 5];
    stream.read_exact(&mut hello).await.unwrap();
    assert_eq!(&hello, b"hello");
    stream.write_all(b"!").await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "!");
}
