//! The coordinator as a whole, over simulated backends and a paused clock.

mod deleted;
mod panics;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use codehub_store::fake::by;

use axum::{body::Body, extract::ConnectInfo};
use codehub_domain::{
    Desired, Epoch, Operation, Phase, UserId, Workspace, WorkspaceId,
    decide::{self, Decision, Inputs},
    event::Actor,
    limits::Limits,
    user::Role,
};
use codehub_runtime::fake::{FakeBackends, Faults, Gate, World};
use codehub_store::prelude::*;
use codehub_store::{
    Created, NewWorkspace,
    bus::MemoryBus,
    fake::{FakeClock, FakeStore, Moment},
};
use codehub_testing::poll_every;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::ServiceExt as _;
use uuid::Uuid;

use codehub_coordinator::Backends;
use codehub_coordinator::{Context, leader::Leadership};

use crate::{api, app::App, config::Config, serve};

const OWNER: UserId = UserId::from_uuid(Uuid::from_u128(1));
/// The store's clock follows the paused one in steps of this.
const TICK: Duration = Duration::from_millis(100);

struct Rig {
    store: Arc<FakeStore>,
    app: Arc<App>,
    _running: Vec<AbortOnDropHandle<()>>,
}

impl Rig {
    async fn new() -> Self {
        Self::with(|_| {}, decide::decide).await
    }

    /// With parts of the world, or the rules, replaced.
    async fn with(change: impl FnOnce(&mut Backends), rules: fn(&Inputs<'_>) -> Decision) -> Self {
        let clock = FakeClock::new();
        let store = Arc::new(FakeStore::new(clock.clone()));
        store.user_create(by(), OWNER, "somebody", "-", Role::User).await.unwrap();
        let world = World::new(1, Faults::NONE, None);
        let fake = Arc::new(FakeBackends { world, gate: Gate::new() });
        let mut backends = Backends {
            store: store.clone(),
            bus: Arc::new(MemoryBus::new()),
            instances: fake.clone(),
            volumes: fake.clone(),
            archives: fake,
            name: None,
        };
        change(&mut backends);
        let app = Arc::new(App::new(Config::with(&[("data_dir", "/nowhere")]).unwrap(), backends));
        let mut context = Context::new(app.backends.clone(), serve::coordinator_settings(&app.config));
        context.leading = app.leading.clone();
        context.health = app.health.clone();
        context.decide = rules;
        let leadership = Leadership::of(app.store(), "test".into());
        let coordinator = codehub_coordinator::run(context, leadership, CancellationToken::new());
        let ticking = async move {
            loop {
                poll_every(TICK).await;
                clock.advance(TICK);
            }
        };
        let running = vec![
            AbortOnDropHandle::new(tokio::spawn(coordinator)),
            AbortOnDropHandle::new(tokio::spawn(ticking)),
        ];
        Self { store, app, _running: running }
    }

    /// From now on, these calls of the store panic.
    fn panic_at(&self, method: &'static str, mut times: u32) {
        self.store.set_faults(move |moment, called| {
            if moment == Moment::Before && called == method && times > 0 {
                times -= 1;
                panic!("injected into {method}");
            }
            None
        });
    }

    async fn create(&self, name: &str) -> WorkspaceId {
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let new = NewWorkspace {
            id,
            owner: OWNER,
            name: name.into(),
            description: String::new(),
            memo: String::new(),
            image_ref: "fake".into(),
            desired: Desired::Running,
            standby_ttl_seconds: None,
            archive_ttl_seconds: None,
            from_archive: None,
            once: None,
            activity_mode: None,
            labels: codehub_domain::labels::Labels::default(),
        };
        let created = self.store.workspace_create(by(), new, Limits::NONE, Actor::User(OWNER)).await.unwrap();
        assert!(matches!(created, Created::Created(_)));
        id
    }

    fn get(&self, id: WorkspaceId) -> Workspace {
        self.store.all_workspaces().into_iter().find(|found| found.id == id).unwrap()
    }

    /// Waits for the phase, with nothing under way.
    async fn reaches(&self, id: WorkspaceId, phase: Phase) {
        let arrived = async {
            loop {
                let status = self.get(id).status;
                if (status.phase, status.operation) == (phase, Operation::None) {
                    return;
                }
                poll_every(TICK).await;
            }
        };
        let within = Duration::from_secs(60);
        assert!(tokio::time::timeout(within, arrived).await.is_ok(), "{:?}", self.get(id).status);
    }

    async fn until(&self, what: &str, done: impl Fn(&App) -> bool) {
        let waiting = async {
            while !done(&self.app) {
                poll_every(TICK).await;
            }
        };
        let within = Duration::from_secs(600);
        assert!(tokio::time::timeout(within, waiting).await.is_ok(), "{what}");
    }

    fn is_failing(&self, name: &str) -> bool {
        self.app.health.problem().is_some_and(|problem| problem.contains(name))
    }

    fn leads_with(&self) -> Option<Epoch> {
        *self.app.leading.borrow()
    }

    async fn ready(&self) -> (StatusCode, Value) {
        let router = api::operations().with_state(self.app.clone());
        let mut request = Request::get("/readyz").body(Body::empty()).unwrap();
        // From this machine, who may read the details.
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 9))));
        let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status, serde_json::from_slice(&bytes).unwrap())
    }
}
