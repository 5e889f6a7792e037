//! WebSockets through the proxy, frame by frame.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codehub_domain::change::Change;
use codehub_domain::{Desired, Operation, Phase};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use codehub_domain::activity::ActivityMode;

use super::support::*;
use crate::{activity::ActivityKind, websocket::frames::close_frame};

const OURS: &str = "Origin: http://code.example.com";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\n";

/// Agrees to every upgrade, then sends back what comes, byte for byte.
pub(super) async fn echo() -> Upstream {
    Upstream::new(|mut stream| async move {
        let Some(head) = read_head(&mut stream).await else { return };
        let head = head.to_lowercase();
        assert!(head.contains("connection: upgrade") && head.contains("upgrade: websocket"), "{head}");
        assert!(!head.contains("secret"), "{head}");
        stream.write_all(SWITCH.as_bytes()).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
        let _ = writer.shutdown().await;
    })
    .await
}

fn handshake(lines: &[&str]) -> String {
    let upgrade = [
        "Connection: keep-alive, Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: chat",
    ];
    head("GET", "/ws", &[&upgrade[..], lines].concat())
}

pub(super) async fn open(rig: &Rig) -> TcpStream {
    let mut stream = rig.connect().await;
    let cookie = format!("Cookie: {COOKIE}");
    stream.write_all(handshake(&[&cookie, OURS]).as_bytes()).await.unwrap();
    let answer = read_head(&mut stream).await.unwrap();
    assert_eq!(status_of(&answer), 101, "{answer}");
    assert_eq!(header_of(&answer, "sec-websocket-protocol"), Some("chat"));
    assert_eq!(header_of(&answer, "upgrade"), Some("websocket"));
    stream
}

pub(super) async fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    timeout(Duration::from_secs(5), stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    bytes
}

/// Reads to the end of the stream.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(Duration::from_secs(5), stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
    bytes
}

fn age(rig: &Rig, kind: ActivityKind) -> Option<Duration> {
    rig.activity.peek(workspace()).unwrap().age(kind)
}

#[tokio::test]
async fn messages_pass_byte_for_byte_and_count_as_work() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let mut stream = open(&rig).await;
    assert!(age(&rig, ActivityKind::Socket).is_some());
    assert_eq!(age(&rig, ActivityKind::FromClient), None);

    // Ping and pong are nobody's work, even cut into pieces.
    for byte in [0x89, 0x82, 1, 2, 3, 4, 9, 9, 0x8a, 0x80, 1, 2, 3, 4] {
        stream.write_all(&[byte]).await.unwrap();
        assert_eq!(read(&mut stream, 1).await, [byte]);
    }
    assert_eq!((age(&rig, ActivityKind::FromClient), age(&rig, ActivityKind::FromWorkspace)), (None, None));

    // A fragmented message with a ping in the middle.
    let frames = [0x01, 0x82, 0, 0, 0, 0, b'h', b'e', 0x89, 0x80, 0, 0, 0, 0, 0x80, 0x81, 0, 0, 0, 0, b'y'];
    for piece in frames.chunks(3) {
        stream.write_all(piece).await.unwrap();
        assert_eq!(read(&mut stream, piece.len()).await, piece);
    }
    assert!(
        age(&rig, ActivityKind::FromClient).is_some() && age(&rig, ActivityKind::FromWorkspace).is_some()
    );

    // A close and its code.
    let close = close_frame(4321, "because", true);
    stream.write_all(&close).await.unwrap();
    assert_eq!(read(&mut stream, close.len()).await, close);
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, b"");
    timeout(Duration::from_secs(10), rig.proxy.drained()).await.unwrap();
    assert_eq!(rig.activity.peek(workspace()).unwrap().open_sockets(), 0);
}

#[tokio::test]
async fn what_comes_with_the_handshake_is_not_lost() {
    let upstream = Upstream::new(|mut stream| async move {
        let _ = read_head(&mut stream).await;
        stream.write_all(format!("{SWITCH}early").as_bytes()).await.unwrap();
        let _ = stream.read_u8().await;
    })
    .await;
    let rig = Rig::before(&upstream).await;
    assert_eq!(read(&mut open(&rig).await, 5).await, b"early");
}

#[tokio::test]
async fn a_large_message_passes_with_back_pressure() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let (mut reader, mut writer) = open(&rig).await.into_split();
    let length = 16 * 1024 * 1024_u64;
    tokio::spawn(async move {
        writer.write_all(&[0x82, 0xff]).await.unwrap();
        writer.write_all(&length.to_be_bytes()).await.unwrap();
        writer.write_all(&[0; 4]).await.unwrap();
        let piece = vec![5; 1024 * 1024];
        for _ in 0..16 {
            writer.write_all(&piece).await.unwrap();
        }
        std::future::pending::<()>().await;
    });
    // Nobody reads for a while.
    let_time_pass(Duration::from_millis(300)).await;
    let mut all = vec![0; 14 + length as usize];
    timeout(Duration::from_secs(20), reader.read_exact(&mut all)).await.unwrap().unwrap();
    assert!(all[14..].iter().all(|&b| b == 5));
}

#[tokio::test]
async fn the_origin_must_be_ours_unless_a_token_speaks() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let cookie = format!("Cookie: {COOKIE}");
    let token = format!("Authorization: Bearer {TOKEN}");
    for (lines, status) in [
        (&[&cookie[..]][..], 403),
        (&[&cookie, "Origin: https://evil.example"], 403),
        (&[&cookie, "Origin: null"], 403),
        (&[&cookie, "Origin: https://code.example.com.evil.example"], 403),
        (&[&cookie, OURS, "Origin: https://evil.example"], 403),
        (&[&cookie, "Origin: http://CODE.example.com"], 101),
        (&[&cookie, "Origin: https://code.example.com"], 403),
        (&[&cookie, "Origin: http://code.example.com:81"], 403),
        (&[&token], 101),
        (&[&token, "Origin: https://evil.example"], 101),
        (&["Origin: http://code.example.com"], 401),
    ] {
        let mut stream = rig.connect().await;
        stream.write_all(handshake(lines).as_bytes()).await.unwrap();
        assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), status, "{lines:?}");
    }
}

#[tokio::test]
async fn when_the_workspace_stops_clients_hear_1001() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let mut idle = open(&rig).await;
    let mut busy = open(&rig).await;
    // In the middle of a frame: the good-bye waits for its end.
    busy.write_all(&[0x82, 0x84, 0, 0, 0, 0, 1, 2]).await.unwrap();
    read(&mut busy, 8).await;

    rig.gate.change(|view| (view.operation, view.desired) = (Operation::Stopping, Desired::Standby));
    let goodbye = close_frame(1001, "the workspace stopped", false);
    assert_eq!(rest(&mut idle).await, goodbye);
    busy.write_all(&[3, 4]).await.unwrap();
    assert_eq!(rest(&mut busy).await, [&[3, 4][..], &goodbye].concat());
    drop((idle, busy));
    timeout(Duration::from_secs(5), rig.proxy.drained()).await.unwrap();
}

#[tokio::test]
async fn a_workspace_killed_by_a_stop_gives_1001_before_the_news_arrive() {
    let upstream = Upstream::new(|mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(SWITCH.as_bytes()).await.unwrap();
        // Killed a moment later, when the wish is written.
        let_time_pass(Duration::from_millis(200)).await;
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let mut stopped = open(&rig).await;
    // The wish is written, but nobody is told in time.
    rig.gate.views.lock().unwrap().get_mut(&workspace()).unwrap().desired = Desired::Standby;
    assert_eq!(rest(&mut stopped).await, close_frame(1001, "the workspace stopped", false));

    // A program that merely hangs up is passed on as just that.
    rig.gate.change(|view| view.desired = Desired::Running);
    let mut crashed = open(&rig).await;
    assert_eq!(rest(&mut crashed).await, b"");
}

#[tokio::test]
async fn signing_out_ends_what_that_session_opened_and_nothing_else() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let mut by_cookie = open(&rig).await;
    let mut by_token = open_by_token(&rig).await;
    rig.gate.sessions.lock().unwrap().clear();
    rig.gate.tell(Change::Access { user: owner() });
    assert_eq!(rest(&mut by_cookie).await, close_frame(1008, "signed out", false));
    let message = [0x82, 0x81, 0, 0, 0, 0, 7];
    by_token.write_all(&message).await.unwrap();
    assert_eq!(read(&mut by_token, message.len()).await, message);
}

async fn open_by_token(rig: &Rig) -> TcpStream {
    let mut stream = rig.connect().await;
    stream.write_all(handshake(&[&format!("Authorization: Bearer {TOKEN}")]).as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 101);
    stream
}

#[tokio::test]
async fn everybody_is_asked_again_when_news_may_have_been_missed() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let mut stream = open(&rig).await;
    rig.gate.sessions.lock().unwrap().clear();
    rig.gate.tell(Change::Resync);
    assert_eq!(rest(&mut stream).await, close_frame(1008, "signed out", false));
}

#[tokio::test]
async fn a_credential_that_runs_out_ends_what_it_opened() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let until = Instant::now() + Duration::from_millis(1500);
    *rig.gate.until.lock().unwrap() = Some(until);
    let (mut by_token, mut by_cookie) = (open_by_token(&rig).await, open(&rig).await);
    for stream in [&mut by_token, &mut by_cookie] {
        assert_eq!(rest(stream).await, close_frame(1008, "signed out", false));
        assert!(Instant::now() >= until, "not before its time");
    }

    // Prolonged by something else meanwhile.
    let rig = Rig::before(&upstream).await;
    *rig.gate.until.lock().unwrap() = Some(Instant::now() + Duration::from_secs(3));
    let mut stream = open_by_token(&rig).await;
    *rig.gate.until.lock().unwrap() = Some(Instant::now() + Duration::from_secs(60));
    timeout(Duration::from_millis(4500), stream.read_u8()).await.expect_err("it lasts");
}

/// One timer serves all of them.
#[tokio::test]
async fn a_credential_that_ends_soon_does_not_wait_for_one_that_ends_late() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    *rig.gate.until.lock().unwrap() = Some(Instant::now() + Duration::from_secs(60));
    let mut late = open(&rig).await;
    let until = Instant::now() + Duration::from_millis(1200);
    *rig.gate.until.lock().unwrap() = Some(until);
    let mut soon = open_by_token(&rig).await;
    assert_eq!(rest(&mut soon).await, close_frame(1008, "signed out", false));
    assert!((until..until + Duration::from_secs(2)).contains(&Instant::now()));
    let message = [0x82, 0x81, 0, 0, 0, 0, 7];
    late.write_all(&message).await.unwrap();
    assert_eq!(read(&mut late, message.len()).await, message);
}

#[tokio::test]
async fn work_on_a_connection_prolongs_its_session_and_an_open_tab_does_not() {
    let rig = async || {
        let upstream = echo().await;
        let rig = Rig::before(&upstream).await;
        *rig.gate.slides.lock().unwrap() = Some(Duration::from_secs(3));
        (rig, upstream)
    };
    let ((busy, _one), (quiet, _two)) = tokio::join!(rig(), rig());
    let (mut working, mut left_open) = (open(&busy).await, open(&quiet).await);
    let message = [0x82, 0x81, 0, 0, 0, 0, 7];
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        working.write_all(&message).await.unwrap();
        assert_eq!(read(&mut working, message.len()).await, message);
        let_time_pass(Duration::from_millis(200)).await;
    }
    assert_eq!(rest(&mut left_open).await, close_frame(1008, "signed out", false));
}

#[tokio::test]
async fn shutting_down_says_1001_and_drains() {
    let upstream = echo().await;
    let rig = Rig::before(&upstream).await;
    let mut stream = open(&rig).await;
    rig.shutdown.cancel();
    assert_eq!(rest(&mut stream).await, close_frame(1001, "the server is shutting down", false));
    drop(stream);
    timeout(Duration::from_secs(5), rig.proxy.drained()).await.unwrap();
}

#[tokio::test]
async fn half_closes_pass_through() {
    let upstream = Upstream::new(|mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(SWITCH.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        // The client has ended; the workspace still speaks.
        stream.write_all(&all).await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let mut stream = open(&rig).await;
    let message = [0x82, 0x81, 0, 0, 0, 0, 7];
    stream.write_all(&message).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, message);
}

#[tokio::test]
async fn two_hundred_at_once() {
    let upstream = echo().await;
    let rig = Arc::new(Rig::before(&upstream).await);
    let clients: Vec<_> = (0..200_u32)
        .map(|n| {
            let rig = rig.clone();
            tokio::spawn(async move {
                let mut stream = open(&rig).await;
                for round in 0..20_u8 {
                    let mut message = vec![0x82, 0x85, 0, 0, 0, 0, round];
                    message.extend_from_slice(&n.to_be_bytes());
                    stream.write_all(&message).await.unwrap();
                    assert_eq!(read(&mut stream, message.len()).await, message);
                }
                stream
            })
        })
        .collect();
    let mut open = Vec::new();
    for client in clients {
        open.push(client.await.unwrap());
    }
    assert_eq!(rig.activity.peek(workspace()).unwrap().open_sockets(), 200);
    rig.gate.change(|view| view.phase = Phase::Standby);
    for stream in &mut open {
        assert_eq!(rest(stream).await, close_frame(1001, "the workspace stopped", false));
    }
}

#[tokio::test]
async fn a_refused_handshake_is_an_ordinary_answer() {
    let upstream = Upstream::answering("").await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    let cookie = format!("Cookie: {COOKIE}");
    stream.write_all(handshake(&[&cookie, OURS]).as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 200);
}

#[tokio::test]
async fn where_connections_count_messages_do_not_and_the_end_does() {
    let upstream = echo().await;
    let rig = Rig::with(Options { mode: ActivityMode::Connections, ..Options::default() }).await;
    rig.lead_to(&upstream);
    let mut stream = open(&rig).await;
    let message = [0x82, 0x81, 0, 0, 0, 0, 7];
    stream.write_all(&message).await.unwrap();
    read(&mut stream, message.len()).await;
    assert_eq!(age(&rig, ActivityKind::FromClient), None);
    let_time_pass(Duration::from_millis(300)).await;
    assert!(age(&rig, ActivityKind::Socket).unwrap() >= Duration::from_millis(300));
    let ending = Instant::now();
    stream.shutdown().await.unwrap();
    rest(&mut stream).await;
    timeout(Duration::from_secs(10), rig.proxy.drained()).await.unwrap();
    let age = age(&rig, ActivityKind::Socket).unwrap();
    assert!(age <= ending.elapsed() + Duration::from_millis(50), "{age:?}");
}
