//! Monday morning: everybody opens their sleeping workspace at once.

use std::collections::BTreeMap;

use codehub_domain::user::Role;
use codehub_server::telemetry;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use super::{Person, TestApp};

const PEOPLE: usize = 500;
const AT_ONCE_BEFORE: usize = 16;

/// Answers every request with the same few bytes, as whatever a workspace runs would.
async fn program() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while stream.read_buf(&mut head).await.is_ok_and(|n| n > 0) {
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
                    }
                }
            });
        }
    });
    addr
}

/// How often each query of the store has been made so far.
fn queries() -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, count) =
            line.strip_prefix("codehub_db_query_seconds_count{query=\"")?.split_once("\"} ")?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    telemetry::metrics::render().lines().filter_map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_open_their_sleeping_workspaces_at_once() {
    telemetry::metrics::install();
    let unlimited = [("limits.max_running_global", "0"), ("proxy.wake_hold", "25s")];
    let app = &TestApp::with(&unlimited).await;
    app.world.listen_at(program().await);
    let mut sleepers: Vec<(Person, String)> = Vec::new();
    let numbers: Vec<usize> = (0..PEOPLE).collect();
    for some in numbers.chunks(AT_ONCE_BEFORE) {
        let asleep = some.iter().map(|n| async move {
            let person = app.person(&format!("person{n}"), Role::User).await;
            let id = app.workspace(&person, "asleep", "STANDBY").await;
            (person, id)
        });
        sleepers.extend(futures::future::join_all(asleep).await);
    }

    let before = queries();
    let mut opening = JoinSet::new();
    for (person, id) in &sleepers {
        let request = app
            .client
            .get(app.url(&format!("/w/{id}/")))
            .bearer_auth(&person.token)
            .header("Sec-Fetch-Mode", "navigate");
        opening.spawn(async move {
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        });
    }
    let answers = opening.join_all().await;
    let wrong: Vec<_> = answers.iter().filter(|answer| **answer != (200, "hello".into())).collect();
    assert!(wrong.is_empty(), "{} of {PEOPLE}: {:?}", wrong.len(), wrong.first());

    let made: BTreeMap<String, u64> = queries()
        .into_iter()
        .map(|(name, count)| (name.clone(), count - before.get(&name).copied().unwrap_or(0)))
        .filter(|(_, count)| *count > 0)
        .collect();
    println!("{made:#?}");
    let of = |name: &str| made.get(name).copied().unwrap_or(0);
    let people = PEOPLE as u64;
    assert_eq!(of("workspace_ask"), people, "one start is asked for each");
    // Asleep, wanted, running: the proxy's views of a workspace, and the controller's own looks at it.
    assert!(of("workspace_get") <= people * 10, "{made:#?}");
    let all: u64 = made.values().sum();
    // Of these three write down for the audit trail who opened it: once an hour, beside the request.
    assert!(all <= people * 23, "{all} queries: {made:#?}");

    for (person, id) in sleepers.iter().step_by(50) {
        let history = app.get(person, &format!("/workspaces/{id}/history")).await.is(200);
        let items = history["items"].as_array().unwrap();
        let starts = items.iter().filter(|item| item["operation"] == json!("STARTING")).count();
        let wishes = items.iter().filter(|item| item["reason_code"] == "opened_in_browser").count();
        assert_eq!(wishes, 1, "{history}");
        assert!((1..=2).contains(&starts), "begun and done, once: {history}");
    }
}
