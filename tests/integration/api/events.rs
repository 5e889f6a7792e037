//! The event stream.

use std::time::Duration;

use codehub_domain::user::Role;
use codehub_testing::let_time_pass;
use futures::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Person, TestApp};

/// Somebody's open stream.
struct Events {
    stream: futures::stream::BoxStream<'static, String>,
    rest: String,
    last_id: u64,
}

#[derive(Debug)]
struct Event {
    name: String,
    data: Value,
}

impl Events {
    async fn open(app: &TestApp, who: &Person) -> Self {
        let answer =
            app.request(who, Method::GET, "/events").timeout(Duration::from_secs(60)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let stream = answer.bytes_stream();
        let stream =
            stream.map(|chunk| String::from_utf8(chunk.unwrap_or_default().to_vec()).unwrap()).boxed();
        Self { stream, rest: String::new(), last_id: 0 }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap().to_owned()
                };
                let id: u64 = field("id").parse().unwrap();
                assert!(id > self.last_id, "ids grow");
                self.last_id = id;
                return Some(Event {
                    name: field("event"),
                    data: serde_json::from_str(&field("data")).unwrap(),
                });
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.stream.next()).await;
            self.rest.push_str(&chunk.expect("an event within 20 s")?);
        }
    }

    /// The next that is no heartbeat.
    async fn news(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event.name != "heartbeat" {
                return event;
            }
        }
    }

    async fn until(&mut self, id: &str, phase: &str) -> Vec<Event> {
        let mut seen = Vec::new();
        loop {
            let event = self.news().await;
            let done =
                event.data["id"] == id && event.data["phase"] == phase && event.data["operation"] == "NONE";
            seen.push(event);
            if done {
                return seen;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_then_every_change_and_nothing_after_the_end() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let first = app.workspace(&ann, "first", "STANDBY").await;
    let second = app.workspace(&ann, "second", "STANDBY").await;
    let mut events = Events::open(&app, &ann).await;
    let mut snapshot = [events.news().await, events.news().await].map(|event| {
        assert_eq!(event.name, "workspace_updated");
        event.data["id"].as_str().unwrap().to_owned()
    });
    snapshot.sort_unstable();
    assert_eq!(snapshot, [first.clone(), second.clone()]);

    app.post(&ann, &format!("/workspaces/{first}/start"), json!({})).await.is(202);
    let seen = events.until(&first, "RUNNING").await;
    assert!(seen.iter().all(|event| event.data["id"] == *first && event.name == "workspace_updated"));
    let times: Vec<&str> = seen.iter().map(|event| event.data["updated_at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "an older state never follows a newer one: {times:?}");

    app.patch(&ann, &format!("/workspaces/{second}"), json!({ "name": "renamed" })).await.is(200);
    assert_eq!(events.news().await.data["name"], "renamed");

    app.delete(&ann, &format!("/workspaces/{first}?wait=20")).await.is(204);
    loop {
        let event = events.news().await;
        if event.name == "workspace_deleted" {
            assert_eq!(event.data, json!({ "id": first }));
            break;
        }
        assert_eq!(event.data["id"], *first);
    }
    app.patch(&ann, &format!("/workspaces/{second}"), json!({ "name": "after" })).await.is(200);
    let event = events.news().await;
    assert_eq!(event.data["name"], "after", "nothing follows a deletion: {event:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_of_somebody_elses() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let root = app.person("root", Role::Admin).await;
    let mut hers = Events::open(&app, &ann).await;
    let mut theirs = Events::open(&app, &root).await;
    app.workspace(&ann, "hers", "STANDBY").await;
    let marker = app.workspace(&root, "theirs", "STANDBY").await;
    hers.news().await;
    let event = theirs.news().await;
    assert_eq!(event.data["id"], *marker, "administrators, too: {event:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_beats_and_ends_with_the_server() {
    let app = TestApp::with(&[("events.heartbeat_interval", "1s")]).await;
    let ann = app.ann().await;
    let mut events = Events::open(&app, &ann).await;
    for _ in 0..2 {
        let event = events.next().await.unwrap();
        assert_eq!((event.name.as_str(), event.data), ("heartbeat", json!({})));
    }
    app.app.shutdown.cancel();
    while let Some(event) = events.next().await {
        assert_eq!(event.name, "heartbeat");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_access_does() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let root = app.person("root", Role::Admin).await;
    let mut events = Events::open(&app, &ann).await;
    app.patch(&root, &format!("/users/{}", ann.id), json!({ "disabled": true })).await.is(200);
    assert!(events.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_needs_somebody() {
    let app = TestApp::start().await;
    app.send(app.client.get(app.url("/api/v1/events"))).await.error(401, "UNAUTHORIZED");
}

/// Fills what may wait for a client that does not read, and sees its connection closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_let_go() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "loud", "STANDBY").await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(app.address).await.unwrap();
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        app.address, ann.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 16];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK\r");
    let started = std::time::Instant::now();
    for number in 0..400 {
        let memo = format!("{number} {}", "m".repeat(60_000));
        app.patch(&ann, &format!("/workspaces/{id}"), json!({ "memo": memo })).await.is(200);
        if started.elapsed() > Duration::from_secs(12) {
            break;
        }
    }
    let_time_pass(Duration::from_secs(17)).await;
    // Whatever was on its way comes, and then the end: no more than may have been waiting.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "still open after {} bytes", rest.len());
    assert!(!rest.ends_with(b"0\r\n\r\n"), "cut off, not ended");
}
