//! A server on a free port over a fresh home, and a page's end of the socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use codehub_inside::{Options, Server};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) struct Ide {
    _root: tempfile::TempDir,
    pub(crate) home: PathBuf,
    pub(crate) address: String,
    pub(crate) http: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Ide {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    pub(crate) async fn start_with(base_path: Option<&str>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let mut options = Options::new(&home);
        options.base_path = base_path.map(str::to_owned);
        let server = Server::bind(options).await.unwrap();
        let place = server.place();
        let address = place.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        Self { _root: root, home, address, http: reqwest::Client::new(), stop: Some(stop), task: Some(task) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, content: &str) {
        let path = self.home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.home.join(path)).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        self.http.get(self.url(path)).send().await.unwrap()
    }

    /// The error code of a failed answer, with its status.
    pub(crate) async fn failure(response: reqwest::Response) -> (u16, String) {
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        (status, body["error"]["code"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn socket(&self) -> Page {
        let url = format!("ws://{}/ws", self.address);
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        Page::new(socket)
    }

    pub(crate) async fn socket_with_origin(&self, origin: &str) -> bool {
        let mut request = format!("ws://{}/ws", self.address).into_client_request().unwrap();
        request.headers_mut().insert("origin", origin.parse().unwrap());
        tokio_tungstenite::connect_async(request).await.is_ok()
    }

    pub(crate) async fn shut_down(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        let task = self.task.take().unwrap();
        tokio::time::timeout(SOON, task).await.unwrap().unwrap().unwrap();
    }
}

/// What a page has been told, put together as a page would.
pub(crate) struct Page {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) screens: std::collections::BTreeMap<u64, Screen>,
}

#[derive(Default, Clone)]
pub(crate) struct Screen {
    pub(crate) lines: std::collections::BTreeMap<usize, Value>,
    pub(crate) last: Value,
}

impl Screen {
    /// The text on screen, row by row, styles dropped.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<String> = self.lines.values().map(row_text).collect();
        rows.join("\n")
    }
}

pub(crate) fn row_text(row: &Value) -> String {
    let runs = row.as_array().unwrap();
    runs[1..]
        .iter()
        .map(|run| {
            let text = if run.is_array() { &run[0] } else { run };
            match text {
                Value::String(text) => text.clone(),
                cells => cells.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect(),
            }
        })
        .collect()
}

impl Page {
    fn new(socket: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self { socket, screens: std::collections::BTreeMap::new() }
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    /// The next message within `time`, or `None` for silence.
    pub(crate) async fn next_within(&mut self, time: Duration) -> Option<Value> {
        let message = tokio::time::timeout(time, self.socket.next()).await.ok()?;
        let message = match message.expect("the socket is open").unwrap() {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            Message::Close(frame) => {
                json!({ "t": "closed", "code": frame.map(|f| u16::from(f.code)) })
            }
            other => panic!("unexpected message {other:?}"),
        };
        self.note(&message);
        Some(message)
    }

    /// The next message of this kind; others are taken note of.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next_within(SOON).await.unwrap_or_else(|| panic!("no “{kind}” came"));
            if message["t"] == kind {
                return message;
            }
        }
    }

    fn note(&mut self, message: &Value) {
        if message["t"] != "screen" {
            return;
        }
        let screen = self.screens.entry(message["id"].as_u64().unwrap()).or_default();
        if message["full"] == true {
            screen.lines.clear();
        }
        for (row, line) in message["lines"].as_object().unwrap() {
            screen.lines.insert(row.parse().unwrap(), line.clone());
        }
        screen.last = message.clone();
    }

    pub(crate) async fn open(&mut self) -> u64 {
        self.send(json!({ "t": "open", "rows": 24, "cols": 80 })).await;
        self.expect("opened").await["id"].as_u64().unwrap()
    }

    pub(crate) async fn type_text(&mut self, id: u64, text: &str) {
        self.send(json!({ "t": "in", "id": id, "d": text })).await;
    }

    /// Waits until the screen is as wished.
    pub(crate) async fn until(&mut self, id: u64, what: impl Fn(&Screen) -> bool) -> Screen {
        let end = tokio::time::Instant::now() + SOON;
        loop {
            if let Some(screen) = self.screens.get(&id)
                && what(screen)
            {
                return screen.clone();
            }
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            if self.next_within(left).await.is_none() {
                let seen = self.screens.get(&id).map(Screen::text);
                panic!("the screen never looked as expected: {seen:?}");
            }
        }
    }

    pub(crate) async fn until_text(&mut self, id: u64, text: &str) -> Screen {
        self.until(id, |screen| screen.text().contains(text)).await
    }

    /// Reads on until nothing was said for a while.
    pub(crate) async fn settle(&mut self) {
        while self.next_within(Duration::from_millis(400)).await.is_some() {}
    }
}
