//! What people do while something breaks: an open WebSocket, and requests one after the other.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use codehub_testing::let_time_pass;
use futures::{SinkExt as _, StreamExt as _};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use crate::support::Server;

/// A WebSocket to the echo of a workspace, through a replica's proxy.
pub(super) struct Echo(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Echo {
    pub(super) async fn open(server: &Server, id: &str) -> Self {
        let mut request =
            server.url(&format!("/w/{id}/echo")).replace("http", "ws").into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {}", server.token).parse().unwrap());
        Self(tokio_tungstenite::connect_async(request).await.unwrap().0)
    }

    /// Says something and waits for it to come back.
    pub(super) async fn ask(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.expect("the WebSocket lives");
        let answer = tokio::time::timeout(Duration::from_secs(5), self.next()).await;
        let answer = answer.unwrap_or_else(|_| panic!("no echo of {text}"));
        assert_eq!(answer, Message::text(text));
    }

    /// What comes next; pings are not for people.
    pub(super) async fn next(&mut self) -> Message {
        loop {
            match self.0.next().await.expect("the WebSocket lives").unwrap() {
                Message::Ping(_) | Message::Pong(_) => {}
                message => return message,
            }
        }
    }

    /// Echoes for as long as the task runs; it fails when the WebSocket does.
    pub(super) fn keep_asking(mut self) -> JoinHandle<()> {
        tokio::spawn(async move {
            for n in 0_u64.. {
                self.ask(&format!("still there {n}?")).await;
                let_time_pass(Duration::from_millis(100)).await;
            }
        })
    }
}

/// Requests, one after the other until told to stop, with when each of them failed.
pub(super) struct Load {
    task: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default, Clone)]
pub(super) struct Seen {
    pub(super) answered: usize,
    pub(super) failed_at: Vec<(Instant, String)>,
    /// The number in the last memo that was acknowledged.
    pub(super) written: Option<usize>,
}

impl Load {
    /// Reads and writes through the API, and visits the workspace through the proxy.
    pub(super) fn on(server: &Server, id: &str) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (client, token) = (server.client.clone(), server.token.clone());
        let row = server.url(&format!("/api/v1/workspaces/{id}"));
        let inside = server.url(&format!("/w/{id}/pid"));
        let noting = seen.clone();
        let task = tokio::spawn(async move {
            for n in 0.. {
                let memo = json!({ "memo": format!("number {n}") });
                let asked = [
                    ("read", client.request(Method::GET, &row)),
                    ("write", client.request(Method::PATCH, &row).json(&memo)),
                    ("visit", client.request(Method::GET, &inside)),
                ];
                for (what, request) in asked {
                    let answer = request.bearer_auth(&token).timeout(Duration::from_secs(10)).send().await;
                    let mut seen = noting.lock().unwrap();
                    let failed = match answer {
                        Ok(answer) if answer.status() == StatusCode::OK => None,
                        Ok(answer) => Some(answer.status().to_string()),
                        Err(error) => Some(format!("{error:?}")),
                    };
                    if let Some(why) = failed {
                        seen.failed_at.push((Instant::now(), format!("{what}: {why}")));
                        continue;
                    }
                    seen.answered += 1;
                    if what == "write" {
                        seen.written = Some(n);
                    }
                }
                let_time_pass(Duration::from_millis(20)).await;
            }
        });
        Self { task, seen }
    }

    pub(super) fn so_far(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn stop(self) -> Seen {
        self.task.abort();
        self.so_far()
    }
}
