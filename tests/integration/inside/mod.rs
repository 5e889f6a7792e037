//! Working in a workspace without a browser: programs, files and connections by the API, on a real server and real
//! processes.

mod agents;
mod exec;
mod files;
mod ports;

use std::fs;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{
        Message,
        client::IntoClientRequest as _,
        http::HeaderValue,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use crate::support::{Server, Setup};

/// The built-in IDE, in a sandbox where there is one.
fn sandboxed() -> Setup {
    Setup::new().without("IDE").without("IDE_COMMAND").env("IDE", "builtin").env("PROCESS_SANDBOX", "auto")
}

/// Runs something in a workspace and waits for it.
async fn run(server: &Server, id: &str, body: Value) -> Value {
    let (status, ran) = server.post(&format!("/workspaces/{id}/exec"), body).await;
    assert_eq!(status, StatusCode::OK, "{ran}");
    ran
}

async fn sh(server: &Server, id: &str, script: &str) -> String {
    let ran = run(server, id, json!({ "command": ["sh", "-c", script] })).await;
    ran["stdout"].as_str().unwrap().to_owned()
}

/// A WebSocket of the API.
struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    /// With the administrator's token; the status where it is refused.
    async fn open(server: &Server, path: &str, protocol: &str) -> Result<Self, u16> {
        let bearer = format!("Bearer {}", server.token);
        Self::open_with(server, path, protocol, &[("authorization", &bearer)]).await
    }

    async fn open_with(
        server: &Server,
        path: &str,
        protocol: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let url = server.url(&format!("/api/v1{path}")).replace("http:", "ws:");
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_str(protocol).unwrap());
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn exec(server: &Server, id: &str, first: Value) -> Self {
        let mut socket =
            Self::open(server, &format!("/workspaces/{id}/exec"), "codehub.exec.v1").await.unwrap();
        socket.send(5, first.to_string().as_bytes()).await;
        socket
    }

    async fn send(&mut self, kind: u8, rest: &[u8]) {
        let message = [&[kind], rest].concat();
        self.0.send(Message::Binary(message.into())).await.unwrap();
    }

    /// The next message: what it is, and the rest.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            match self.0.next().await? {
                Ok(Message::Binary(bytes)) => return Some((bytes[0], bytes[1..].to_vec())),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(other) => panic!("{other:?}"),
            }
        }
    }

    /// All there is on standard output and error, and the last message.
    async fn finish(&mut self) -> (String, String, Value) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        while let Some((kind, rest)) = self.next().await {
            match kind {
                1 => out.extend(rest),
                2 => err.extend(rest),
                3 => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let end = serde_json::from_slice(&rest).unwrap();
                    assert!(matches!(
                        self.0.next().await,
                        Some(Ok(Message::Close(Some(CloseFrame { code: CloseCode::Normal, .. }))))
                    ));
                    return (text(&out), text(&err), end);
                }
                other => panic!("{other}"),
            }
        }
        panic!("it ended without saying how");
    }
}

/// How many open files a process has.
fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// How much memory a process has, in MiB.
fn memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}
