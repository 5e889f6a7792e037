//! Workspaces that listen on a Unix socket instead of a port.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use codehub_upstream as runtime;
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{TcpStream, UnixListener},
};

use super::{
    support::*,
    websocket::{echo, open, read},
};

/// A rig whose workspace is this, behind a socket.
async fn behind_socket(upstream: &Upstream, dir: &tempfile::TempDir) -> Rig {
    let (path, addr) = (dir.path().join("ide"), upstream.addr);
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut workspace = TcpStream::connect(addr).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut workspace).await;
            });
        }
    });
    let rig = Rig::new().await;
    *rig.gate.upstream.lock().unwrap() =
        Some(runtime::Upstream::at(runtime::Address::Socket(path.to_str().unwrap().into())));
    rig
}

#[tokio::test]
async fn requests_and_messages_pass() {
    let dir = tempfile::tempdir().unwrap();
    let upstream = Upstream::answering("Location: http://127.0.0.1:80/elsewhere\r\n").await;
    let rig = behind_socket(&upstream, &dir).await;
    for _ in 0..3 {
        let answer = rig.get("/x?y", &[]).await;
        assert_eq!(status_of(&answer), 200);
        assert!(body_of(&answer).starts_with("GET /x?y HTTP/1.1\r\n"), "{answer}");
        assert_eq!(header_of(&answer, "location"), Some("http://127.0.0.1:80/elsewhere"), "not its own");
        // Given back a moment after the answer.
        let_time_pass(Duration::from_millis(20)).await;
    }
    assert_eq!(upstream.connections.load(SeqCst), 1, "the connection is kept");

    let dir = tempfile::tempdir().unwrap();
    let upstream = echo().await;
    let rig = behind_socket(&upstream, &dir).await;
    let mut stream = open(&rig).await;
    let message = b"\x82\x84\x01\x02\x03\x04abcd";
    stream.write_all(message).await.unwrap();
    assert_eq!(read(&mut stream, message.len()).await, message);
}

#[tokio::test]
async fn a_link_in_the_place_of_the_socket_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let upstream = Upstream::echoing_heads().await;
    let rig = behind_socket(&upstream, &dir).await;
    std::fs::rename(dir.path().join("ide"), dir.path().join("another")).unwrap();
    std::os::unix::fs::symlink("another", dir.path().join("ide")).unwrap();
    assert_eq!(status_of(&rig.get("/", &[]).await), 502);
    assert_eq!(upstream.connections.load(SeqCst), 0);
}
