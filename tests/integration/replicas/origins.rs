//! A hand-over that is begun on one replica, goes on at another that is then killed, ends at a third, and is revoked on the
//! first.

use std::time::{Duration, Instant};

use codehub_testing::eventually;
use futures::StreamExt as _;
use reqwest::{Client, Response, header, redirect::Policy};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use super::Cluster;
use crate::support::{ADMIN, PASSWORD, Server};

async fn open(client: &Client, server: &Server, host: &str, path: &str, cookie: &str) -> Response {
    let request = client.get(server.url(path)).header("host", host).header("cookie", cookie);
    request.header("sec-fetch-mode", "navigate").header("accept", "text/html").send().await.unwrap()
}

fn location(answer: &Response) -> String {
    let url = answer.headers()[header::LOCATION].to_str().unwrap();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest[rest.find('/').unwrap()..].to_owned()
}

fn cookie(answer: &Response) -> String {
    answer.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handover_is_everybodys_and_its_end_too() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    for _ in 0..3 {
        let setup = cluster.setup(&cluster.url).env("PROXY_ORIGINS", "domain");
        cluster.add_with(setup).await;
    }
    let client = Client::builder().redirect(Policy::none()).build().unwrap();
    let id = cluster.servers[0].create(json!({ "name": "everywhere" })).await;
    let own = format!("{id}.localhost:1");
    let sign_in = json!({ "username": ADMIN, "password": PASSWORD });
    let signed_in =
        client.post(cluster.servers[2].url("/api/v1/auth/login")).json(&sign_in).send().await.unwrap();
    let session = cookie(&signed_in);

    let first = open(&client, &cluster.servers[0], &own, "/pid", "").await;
    let nonce = cookie(&first);
    let opened = open(&client, &cluster.servers[1], "localhost:1", &location(&first), &session).await;
    cluster.servers[1].kill();
    let entered = open(&client, &cluster.servers[2], &own, &location(&opened), &nonce).await;
    assert_eq!(entered.status(), 303, "{entered:?}");
    let inside = cookie(&entered);
    assert_eq!(open(&client, &cluster.servers[0], &own, &location(&opened), &nonce).await.status(), 400);
    assert_eq!(open(&client, &cluster.servers[0], &own, "/pid", &inside).await.status(), 200);

    let mut request = cluster.servers[0].url("/echo").replace("http", "ws").into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("host", own.parse().unwrap());
    headers.insert("origin", format!("http://{own}").parse().unwrap());
    headers.insert("cookie", inside.parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();

    let revoked = Instant::now();
    let logout = client.post(cluster.servers[2].url("/api/v1/auth/logout")).header("cookie", &session);
    let logout = logout.header("origin", cluster.servers[2].url("")).send().await.unwrap();
    assert!(logout.status().is_success(), "{}", logout.status());
    let closed = tokio::time::timeout(Duration::from_secs(5), async {
        loop {
            let said = socket.next().await.expect("a word before the end").unwrap();
            if let Message::Close(frame) = said {
                return frame.unwrap().code;
            }
        }
    });
    assert_eq!(u16::from(closed.await.unwrap()), 1008);
    eventually("its session has ended on the first replica", async || {
        open(&client, &cluster.servers[0], &own, "/pid", &inside).await.status() == 303
    })
    .await;
    assert!(revoked.elapsed() < Duration::from_secs(4), "{:?}", revoked.elapsed());
}
