//! Several real `codehub` processes on one PostgreSQL and one Redis. Without these servers
//! (`CODEHUB_TEST_POSTGRES`, `CODEHUB_TEST_REDIS`) the tests say so and pass.

mod backup;
mod failover;
mod first_run;
mod origins;
mod outages;
mod restarts;
mod servers;
mod sharing;
mod traffic;
mod wakes;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codehub_testing::poll_every;
use reqwest::{Client, Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};
use uuid::Uuid;

use crate::support::{ADMIN, PASSWORD, Server, Setup};

/// A database of its own, and the replicas on it. They share the first one's data directory.
struct Cluster {
    url: String,
    redis: Option<String>,
    servers: Vec<Server>,
}

impl Cluster {
    /// `None`, and a line that says so, where a server is missing.
    async fn new(redis: bool) -> Option<Self> {
        let postgres = codehub_testing::service("CODEHUB_TEST_POSTGRES", "no PostgreSQL")?;
        let redis = match redis {
            true => Some(codehub_testing::service("CODEHUB_TEST_REDIS", "no Redis")?),
            false => None,
        };
        Some(Self::on(&postgres, redis).await)
    }

    /// On a new database of this server.
    async fn on(postgres: &str, redis: Option<String>) -> Self {
        let name = format!("codehub_replicas_{}", Uuid::new_v4().simple());
        let mut connection = PgConnection::connect(postgres).await.unwrap();
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.unwrap();
        let (server, _) = postgres.rsplit_once('/').unwrap();
        Self { url: format!("{server}/{name}"), redis, servers: Vec::new() }
    }

    /// How one more replica would be started, on this address of the database.
    fn setup(&self, url: &str) -> Setup {
        let unique = self.url.rsplit_once('_').unwrap().1;
        let mut setup = Setup::new()
            .env("DATABASE_URL", url)
            .env("DATABASE_MAX_CONNECTIONS", "4")
            .env("COORDINATOR_IDLE_INTERVAL", "5s");
        if let Some(redis) = &self.redis {
            setup = setup
                .env("REDIS_URL", redis)
                .env("REDIS_CHANNEL_SSE_PREFIX", &format!("{unique}:sse:"))
                .env("REDIS_CHANNEL_WAKE_PREFIX", &format!("{unique}:wake:"))
                .env("REDIS_ACTIVITY_KEY", &format!("{unique}:activity"));
        }
        match self.servers.first() {
            Some(first) => setup.env("CODEHUB_DATA_DIR", &first.setup.data_dir().display().to_string()),
            None => setup,
        }
    }

    async fn add(&mut self) {
        let setup = self.setup(&self.url);
        self.add_with(setup).await;
    }

    async fn add_with(&mut self, setup: Setup) {
        let mut server = Server { child: setup.spawn(), setup, client: Client::new(), token: String::new() };
        server.until_ready().await;
        server.token = match self.servers.first() {
            Some(first) => first.token.clone(),
            None => server.sign_in(ADMIN, PASSWORD).await,
        };
        self.servers.push(server);
    }

    async fn database(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// Who leads by the database: the epoch, and which of our servers.
    async fn leader(&self) -> (i64, Option<usize>) {
        let mut database = self.database().await;
        let (epoch, holder): (i64, String) =
            sqlx::query_as("SELECT epoch, holder FROM leader").fetch_one(&mut database).await.unwrap();
        let pid = holder.rsplit_once(':').and_then(|(_, pid)| pid.parse::<u32>().ok());
        (epoch, self.servers.iter().position(|server| Some(server.child.id()) == pid))
    }

    /// Waits until somebody leads with a newer epoch; who, and how long it took.
    async fn next_leader(&self, after: i64, within: Duration) -> (i64, usize, Duration) {
        let started = Instant::now();
        loop {
            if let (epoch, Some(who)) = self.leader().await
                && epoch > after
            {
                return (epoch, who, started.elapsed());
            }
            assert!(started.elapsed() < within, "nobody took over within {within:?}");
            poll_every(Duration::from_millis(50)).await;
        }
    }

    fn signal(&self, who: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.servers[who].child), signal).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The first one's data directory is everybody's: it goes last.
        while self.servers.len() > 1 {
            self.servers.pop();
        }
    }
}

/// A way to the database that can be cut without either side being told.
struct Wire {
    url: String,
    cut: Arc<watch::Sender<bool>>,
}

impl Wire {
    async fn to(url: &str) -> Self {
        let (before, rest) = url.split_once('@').unwrap();
        let (address, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{before}@{}/{database}", listener.local_addr().unwrap());
        let (cut, address) = (Arc::new(watch::Sender::new(false)), address.to_owned());
        let state = cut.clone();
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let (address, mut state) = (address.clone(), state.subscribe());
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(address).await.unwrap();
                    let cut = async { state.wait_for(|cut| *cut).await.is_ok() };
                    let was_cut = tokio::select! {
                        was_cut = cut => was_cut,
                        _ = copy_bidirectional(&mut near, &mut far) => false,
                    };
                    if was_cut {
                        // Both ends stay open, and hear nothing.
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { url, cut }
    }

    fn cut(&self) {
        self.cut.send_replace(true);
    }
}

/// Creates a workspace through that replica and waits until it runs.
async fn reconciles(server: &Server, name: &str) -> Duration {
    let started = Instant::now();
    let (status, body) = server.post("/workspaces", json!({ "name": name })).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    server.until_arrived(body["id"].as_str().unwrap()).await;
    started.elapsed()
}

/// An event stream, read until something is in it.
struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    async fn of(server: &Server) -> Self {
        let response =
            server.client.get(server.url("/api/v1/events")).bearer_auth(&server.token).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Self { response, text: String::new() }
    }

    /// Reads until the server ends it.
    async fn ends(mut self, within: Duration) {
        let reading = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        tokio::time::timeout(within, reading).await.expect("the stream ends");
    }

    async fn until(&mut self, part: &str, within: Duration) -> Duration {
        let started = Instant::now();
        let mut from = 0;
        while !self.text[from..].contains(part) {
            // What came before has been searched, but for an end that might be its beginning.
            from = self.text.floor_char_boundary(self.text.len().saturating_sub(part.len()));
            let left = within.checked_sub(started.elapsed()).unwrap_or_else(|| panic!("no {part}"));
            let chunk = tokio::time::timeout(left, self.response.chunk()).await;
            let chunk = chunk.unwrap_or_else(|_| panic!("no {part} within {within:?}")).unwrap();
            self.text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream goes on")));
        }
        started.elapsed()
    }
}

async fn edit(server: &Server, id: &str, memo: &str) -> Value {
    let (status, body) =
        server.call(Method::PATCH, &format!("/workspaces/{id}"), Some(json!({ "memo": memo }))).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body
}
