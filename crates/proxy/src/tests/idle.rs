//! What an IDE's tab does by itself passes through like everything else, and is nobody's work.

use tokio::io::AsyncWriteExt;

use super::support::*;
use crate::{activity::ActivityKind, idle::Rules};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

async fn rig(ide: &str, upstream: &Upstream) -> Rig {
    let rules = Rules::load(ide, None).unwrap();
    let rig = Rig::with(Options { rules, ..Options::default() }).await;
    rig.lead_to(upstream);
    rig
}

fn happened(rig: &Rig) -> Vec<ActivityKind> {
    let cell = rig.activity.cell(workspace());
    ActivityKind::ALL.into_iter().filter(|kind| cell.age(*kind).is_some()).collect()
}

/// A binary frame from a browser.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind, 0, 0, 0, 1, 0, 0, 0, 2];
    payload.extend_from_slice(&(body.len() as u32).to_be_bytes());
    payload.extend_from_slice(body);
    let mask = [9, 8, 7, 6];
    let mut frame = vec![0x82, 0x80 | payload.len() as u8];
    frame.extend_from_slice(&mask);
    frame.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ mask[i & 3]));
    frame
}

#[tokio::test]
async fn keep_alives_of_a_reconnected_tab_are_no_work_and_a_key_is() {
    let upstream = Upstream::new(|mut stream| async move {
        let Some(_) = read_head(&mut stream).await else { return };
        stream.write_all(SWITCH.as_bytes()).await.unwrap();
        let (mut reader, _writer) = stream.split();
        let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
    })
    .await;
    for (query, opened) in [("reconnection=true", &[][..]), ("reconnection=false", &[ActivityKind::Socket])] {
        let rig = rig("code-server", &upstream).await;
        let mut stream = rig.connect().await;
        let cookie = format!("Cookie: {COOKIE}");
        let lines = [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Origin: http://code.example.com",
            &cookie,
        ];
        let path = format!("/stable-1234?reconnectionToken=x&{query}&skipWebSocketFrames=false");
        stream.write_all(head("GET", &path, &lines).as_bytes()).await.unwrap();
        assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 101);
        for _ in 0..3 {
            stream.write_all(&frame(9, b"")).await.unwrap();
            stream.write_all(&frame(3, b"")).await.unwrap();
        }
        // None of these counts, however long one waits.
        let_time_pass(std::time::Duration::from_millis(100)).await;
        assert_eq!(happened(&rig), opened, "{query}");
        let key = b"\x04\x04\x06\x64\x06\x01\x01\x0eremoteterminal\x01\x06$inputx";
        stream.write_all(&frame(1, key)).await.unwrap();
        eventually("typing is seen", async || happened(&rig).contains(&ActivityKind::Typing)).await;
        assert!(!happened(&rig).contains(&ActivityKind::FromClient), "{query}");
    }
}

#[tokio::test]
async fn polls_are_answered_and_do_not_count() {
    let upstream = Upstream::echoing_heads().await;
    let rig = rig("jupyterlab", &upstream).await;
    for poll in [
        "/api/kernels?1",
        "/api/terminals?1",
        "/lab/api/workspaces/default",
        "/api/contents?content=1&hash=0&1",
    ] {
        assert_eq!(status_of(&rig.get(poll, &[]).await), 200, "{poll}");
        assert_eq!(happened(&rig), [], "{poll}");
    }
    assert_eq!(status_of(&rig.get("/api/contents/a.ipynb?type=notebook&content=1", &[]).await), 200);
    assert_eq!(happened(&rig), [ActivityKind::Http]);
}
