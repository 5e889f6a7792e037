//! The real gate: store, bus and authentication as in a running server, with a controller of a few
//! lines.

use codehub_store::SessionEnd;
use codehub_store::fake::by;
use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use codehub_domain::{
    Desired, Epoch, Phase, SessionId, TokenId, UserId, WorkspaceId, event::Actor, limits::Limits,
    observed::Instance, user::Role,
};
use codehub_runtime as runtime;
use codehub_runtime::{
    InstanceSpec, Instances, Listed, LogQuery, LogStream,
    fake::{FakeBackends, Faults, Gate as Alive, World},
};
use codehub_store::prelude::*;
use codehub_store::{
    Created, NewWorkspace,
    bus::MemoryBus,
    fake::{FakeClock, FakeStore},
};
use uuid::Uuid;

use codehub_coordinator::Backends;
use codehub_proxy::gate::{Credential, Gate, ProxyIde, Woken};
use codehub_testing::{eventually, let_time_pass};
use tokio::net::TcpListener;

use super::{ActivitySink, AppGate};
use crate::{app::App, auth::secret, config::Config, serve};

/// Everything runs at one address.
struct At(SocketAddr);

#[async_trait]
impl Instances for At {
    fn kind(&self) -> &'static str {
        "at"
    }
    async fn ping(&self) -> runtime::Result<()> {
        Ok(())
    }
    async fn start(&self, _: &InstanceSpec, _: &runtime::Fence) -> runtime::Result<()> {
        Ok(())
    }
    async fn stop(&self, _: WorkspaceId) -> runtime::Result<()> {
        Ok(())
    }
    async fn status(&self, _: WorkspaceId) -> runtime::Result<Option<Instance>> {
        Ok(None)
    }
    async fn list(&self, _: runtime::Among<'_>) -> runtime::Result<Vec<Listed>> {
        Ok(Vec::new())
    }
    async fn upstream(&self, _: WorkspaceId) -> runtime::Result<Option<runtime::Upstream>> {
        Ok(Some(runtime::Upstream::at(self.0)))
    }
    async fn logs(&self, _: WorkspaceId, _: LogQuery) -> runtime::Result<LogStream> {
        Ok(Box::pin(futures::stream::empty()))
    }
}

struct Server {
    app: Arc<App>,
    store: Arc<FakeStore>,
    epoch: Epoch,
    user: UserId,
    session: SessionId,
}

const SECRET: &str = "a-session-secret";
const TOKEN_TEXT: &str = "a-token";

impl Server {
    /// What the running server tells its activity to.
    fn sink(&self) -> ActivitySink {
        ActivitySink { replica: "here".into(), store: self.store.clone(), bus: self.app.backends.bus.clone() }
    }

    async fn new(upstream: SocketAddr, settings: &[(&str, &str)]) -> Self {
        let store = Arc::new(FakeStore::new(FakeClock::new()));
        let fake = Arc::new(FakeBackends { world: World::new(1, Faults::NONE, None), gate: Alive::new() });
        let backends = Backends {
            store: store.clone(),
            bus: Arc::new(MemoryBus::new()),
            instances: Arc::new(At(upstream)),
            volumes: fake.clone(),
            archives: fake,
            name: None,
        };
        let config =
            Config::with(&[&[("data_dir", "/nowhere"), ("proxy.origins", "path")], settings].concat())
                .unwrap();
        let (user, session) = (UserId::from_uuid(Uuid::now_v7()), SessionId::from_uuid(Uuid::now_v7()));
        store.user_create(by(), user, "owner", "-", Role::User).await.unwrap();
        store.session_create(by(), session, user, &secret::hash(SECRET), 3600).await.unwrap();
        let token = TokenId::from_uuid(Uuid::now_v7());
        store
            .token_create(by(), token, session, "t", &secret::hash(TOKEN_TEXT), None)
            .await
            .unwrap()
            .unwrap();
        let epoch = store.epoch_take("test").await.unwrap();
        Self { app: Arc::new(App::new(config, backends)), store, epoch, user, session }
    }

    async fn workspace(&self, phase: Phase, desired: Desired) -> WorkspaceId {
        let new = NewWorkspace {
            id: WorkspaceId::from_uuid(Uuid::now_v7()),
            owner: self.user,
            name: "w".into(),
            description: String::new(),
            memo: String::new(),
            image_ref: String::new(),
            desired,
            standby_ttl_seconds: None,
            archive_ttl_seconds: None,
            from_archive: None,
            once: None,
            activity_mode: None,
            labels: codehub_domain::labels::Labels::default(),
        };
        let id = new.id;
        let created =
            self.store.workspace_create(by(), new, Limits::NONE, Actor::User(self.user)).await.unwrap();
        assert!(matches!(created, Created::Created(_)));
        self.become_phase(id, phase).await;
        id
    }

    /// What the controller would do.
    async fn become_phase(&self, id: WorkspaceId, phase: Phase) {
        let read = self.store.workspace_get(id).await.unwrap().unwrap();
        let mut next = read.status.clone();
        next.phase = phase;
        self.store.workspace_save(self.epoch, &read, &next, &[]).await.unwrap();
    }

    fn gate(&self) -> AppGate {
        AppGate::new(&self.app, ProxyIde::default())
    }
}

#[tokio::test]
async fn the_gate_knows_our_credentials_and_no_others() {
    let server = Server::new("127.0.0.1:1".parse().unwrap(), &[]).await;
    let gate = server.gate();
    let user = server.user;
    for (credential, expected) in [
        (Credential::Session(SECRET.as_bytes()), Some((user, true, true))),
        (Credential::Bearer(TOKEN_TEXT.as_bytes()), Some((user, false, false))),
        (Credential::Session(TOKEN_TEXT.as_bytes()), None),
        (Credential::Bearer(SECRET.as_bytes()), None),
        (Credential::Session(b""), None),
        (Credential::Session(b"x; session=a-session-secret"), None),
        (Credential::Bearer(b"a b"), None),
        (Credential::Session(b"\xff\xfe"), None),
    ] {
        let caller = gate.identify(credential).await.unwrap();
        let known = caller.map(|caller| (caller.user, caller.by_cookie, caller.until.is_some()));
        assert_eq!(known, expected, "{credential:?}");
    }
}

#[tokio::test]
async fn waking_asks_the_store_and_pokes_the_controller() {
    let limits = [("limits.max_running_per_user", "1")];
    let server = Server::new("127.0.0.1:1".parse().unwrap(), &limits).await;
    let gate = server.gate();
    let mut looks = server.app.backends.bus.looks();
    let first = server.workspace(Phase::Standby, Desired::Standby).await;
    let second = server.workspace(Phase::Standby, Desired::Standby).await;
    assert_eq!(gate.wake(first, server.user).await.unwrap(), Woken::Asked);
    assert_eq!(looks.try_recv(), Ok(first));
    assert_eq!(gate.workspace(first, false).await.unwrap().unwrap().desired, Desired::Running);
    let Woken::Limit(hit) = gate.wake(second, server.user).await.unwrap() else { panic!("no limit") };
    assert_eq!(hit.running.len(), 1);
    let unknown = WorkspaceId::from_uuid(Uuid::now_v7());
    assert_eq!(gate.wake(unknown, server.user).await.unwrap(), Woken::NotFound);
    assert_eq!(gate.workspace(unknown, true).await.unwrap(), None);
}

#[tokio::test]
async fn from_sleep_to_the_ide_and_out_again() {
    let workspace_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = workspace_listener.local_addr().unwrap();
    let program = axum::Router::new().fallback(|uri: http::Uri| async move { uri.to_string() });
    tokio::spawn(async move { axum::serve(workspace_listener, program).await.unwrap() });

    let server = Arc::new(Server::new(upstream, &[]).await);
    let id = server.workspace(Phase::Standby, Desired::Standby).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/w/{id}/x", listener.local_addr().unwrap());
    let app = server.app.clone();
    tokio::spawn(async move { serve::run(listener, serve::router(&app), &app).await.unwrap() });
    let client = reqwest::Client::new();
    let open = |mode: &'static str| {
        let cookie = format!("session={SECRET}");
        client.get(&url).header("cookie", cookie).header("sec-fetch-mode", mode).send()
    };

    // A controller that needs a moment.
    let (mut looks, controller) = (server.app.backends.bus.looks(), server.clone());
    tokio::spawn(async move {
        looks.recv().await.unwrap();
        controller.become_phase(id, Phase::Running).await;
    });
    let answer = open("navigate").await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.text().await.unwrap(), "/x");

    // Seen by the TTL's side.
    server.app.activity.flush(&server.sink()).await.unwrap();
    let seen = server.app.backends.bus.activity_read().await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].0, id);

    // Stopped, then signed out: both are noticed without being asked for.
    let until = async |status: u16| {
        let answers = async || open("cors").await.unwrap().status() == status;
        tokio::time::timeout(Duration::from_secs(5), eventually("the news arrive", answers)).await.unwrap();
    };
    server.become_phase(id, Phase::Standby).await;
    until(503).await;
    server.store.session_delete(by(), server.session, SessionEnd::Logout).await.unwrap();
    until(401).await;
    server.app.shutdown.cancel();
}

#[tokio::test]
async fn the_countdown_knows_what_was_seen_and_not_written_down() {
    use codehub_proxy::activity::ActivityKind;
    let server = Server::new(([127, 0, 0, 1], 9).into(), &[]).await;
    let id = server.workspace(Phase::Running, Desired::Running).await;
    let gate = server.gate();
    let before = gate.sleep(id).await.unwrap().unwrap();
    assert_eq!(before.ttl_seconds, 600);
    // By the database's clock, which lives in another year; the slack of flush and sync is in it.
    server.app.activity.record(id, ActivityKind::Http);
    server.app.activity.flush(&server.sink()).await.unwrap();
    let_time_pass(Duration::from_millis(50)).await;
    server.app.activity.record(id, ActivityKind::FromClient);
    let after = gate.sleep(id).await.unwrap().unwrap();
    assert!(after.stops_at > before.stops_at, "{before:?} {after:?}");
    let left = after.stops_at.unwrap().duration_since(after.now).as_secs_f64();
    assert!((689.0..=690.1).contains(&left), "{left}");
    let workspace = server.store.workspace_get(id).await.unwrap().unwrap();
    assert_eq!(server.app.expiry(&workspace).map(|expiry| expiry.acts_at), after.stops_at);

    let by_connections = Server::new(([127, 0, 0, 1], 9).into(), &[("activity.mode", "connections")]).await;
    let id = by_connections.workspace(Phase::Running, Desired::Running).await;
    let activity = &by_connections.app.activity;
    let workspace = by_connections.store.workspace_get(id).await.unwrap().unwrap();
    let open = activity.open_socket(&activity.cell(id), false);
    assert_eq!(by_connections.app.expiry(&workspace), None);
    drop(open);
    assert!(by_connections.app.expiry(&workspace).is_some());
}

#[tokio::test]
async fn one_in_error_is_not_kept_awake() {
    let server = Server::new(([127, 0, 0, 1], 9).into(), &[]).await;
    let gate = server.gate();
    let running = server.workspace(Phase::Running, Desired::Running).await;
    assert_eq!(gate.keep_awake(running, server.user).await.unwrap(), Ok(()));
    let broken = server.workspace(Phase::Error, Desired::Running).await;
    assert!(gate.keep_awake(broken, server.user).await.unwrap().unwrap_err().contains("ERROR"));
}
