//! The pages against a real store, real archives and simulated instances, as a browser would ask for
//! them.

mod archives;
mod http;
mod markup;

use codehub_runtime::archives::record::record;
use codehub_store::fake::by;
use std::{net::SocketAddr, path::Path, sync::Arc};

use ::http::{
    Method, Request, StatusCode,
    header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE},
};
use axum::{Router, body::Body, extract::ConnectInfo};
use codehub_archive::{ObjectArchives, PackOptions};
use codehub_domain::{
    ArchiveKey, Desired, Generation, OpId, Status, UserId, VolumeKey, Workspace, WorkspaceId, event::Actor,
    limits::Limits, user::Role,
};
use codehub_runtime::{
    Fence,
    archives::StoredArchives,
    fake::{FakeBackends, Faults, Gate, World},
    homes::{DirectoryTransfer, Transfer},
    volumes::directory::{DirectoryVolumes, home_dir},
};
use codehub_store::{Created, NewWorkspace, Saved, SqliteStore, bus::MemoryBus};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::{app::App, auth::login, config::Config};
use codehub_coordinator::Backends;

const OURS: &str = "http://127.0.0.1:8080";

struct TestApp {
    app: Arc<App>,
    router: Router,
    _dir: tempfile::TempDir,
}

/// What came back.
struct Answer {
    status: StatusCode,
    headers: ::http::HeaderMap,
    bytes: Vec<u8>,
    /// The same as text.
    body: String,
}

impl Answer {
    fn location(&self) -> &str {
        self.headers.get(LOCATION).map_or("", |value| value.to_str().unwrap())
    }

    /// `name=value` of a cookie that was set.
    fn cookie(&self, name: &str) -> Option<String> {
        let set = self.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
        set.filter_map(|cookie| cookie.split(';').next())
            .find(|pair| pair.starts_with(&format!("{name}=")))
            .map(str::to_owned)
    }
}

impl TestApp {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap().to_owned();
        let config = Config::with(&[settings, &[("data_dir", &path)]].concat()).unwrap();
        let store = Arc::new(SqliteStore::open(dir.path().join("test.db")).await.unwrap());
        let fake = FakeBackends { world: World::new(1, Faults::NONE, None), gate: Gate::new() };
        let volumes = DirectoryVolumes::new(dir.path());
        volumes.prepare().await.unwrap();
        let homes = Arc::new(DirectoryTransfer::new(dir.path(), PackOptions::default()));
        let objects = ObjectArchives::open_local(&dir.path().join("archives"), "").unwrap();
        let backends = Backends {
            store,
            bus: Arc::new(MemoryBus::new()),
            instances: Arc::new(fake),
            volumes: Arc::new(volumes),
            archives: Arc::new(StoredArchives::new("files", objects, homes)),
            name: None,
        };
        let app = Arc::new(App::new(config, backends));
        let router = super::router().fallback(super::not_found).with_state(Arc::clone(&app));
        Self { app, router, _dir: dir }
    }

    /// A person with a session: their id and the cookie.
    async fn person(&self, name: &str, role: Role) -> (UserId, String) {
        let id = UserId::from_uuid(Uuid::now_v7());
        let hash = self.app.passwords.hash("password1").await.unwrap();
        self.app.store().user_create(by(), id, name, &hash, role).await.unwrap();
        let user = self.app.store().user_get(id).await.unwrap().unwrap();
        let session = login::open_session(&self.app, by(), user).await.unwrap();
        (id, format!("session={}", session.secret))
    }

    async fn workspace(&self, owner: UserId, name: &str) -> Workspace {
        let new = NewWorkspace {
            id: WorkspaceId::from_uuid(Uuid::now_v7()),
            owner,
            name: name.into(),
            description: name.into(),
            memo: name.into(),
            image_ref: String::new(),
            desired: Desired::Running,
            standby_ttl_seconds: None,
            archive_ttl_seconds: None,
            from_archive: None,
            once: None,
            activity_mode: None,
            labels: codehub_domain::labels::Labels::default(),
        };
        match self.app.store().workspace_create(by(), new, Limits::NONE, Actor::User(owner)).await.unwrap() {
            Created::Created(workspace) => *workspace,
            refused => panic!("{refused:?}"),
        }
    }

    /// Puts a workspace into a state the way the controller would.
    async fn put(&self, workspace: &Workspace, change: impl FnOnce(&mut Status)) -> Workspace {
        let epoch = self.app.store().epoch_take("test").await.unwrap();
        let mut status = workspace.status.clone();
        change(&mut status);
        let saved = self.app.store().workspace_save(epoch, workspace, &status, &[]).await.unwrap();
        assert!(matches!(saved, Saved::Saved(_)));
        self.app.store().workspace_get(workspace.id).await.unwrap().unwrap()
    }

    /// Archives a home, as it is filled here.
    async fn archive(&self, workspace: &Workspace, fill: impl FnOnce(&Path)) -> ArchiveKey {
        let key = ArchiveKey::of(workspace.id, OpId::from_uuid(Uuid::now_v7()));
        let generation = Generation::default();
        let volume = VolumeKey { owner: workspace.owner, workspace: workspace.id, generation };
        let Backends { volumes, archives, .. } = &self.app.backends;
        volumes.create(&volume, 0).await.unwrap();
        fill(&home_dir(self._dir.path(), &volume));
        let meta = archives.put(&key, &volume, &Transfer::default()).await.unwrap();
        let adopted = self.app.store().archive_adopt(by(), None, &record(key, &meta).unwrap()).await.unwrap();
        assert_eq!(adopted, codehub_store::Adopted::Adopted);
        volumes.delete(&volume, &Fence::open()).await.unwrap();
        key
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 9))));
        let response = self.router.clone().oneshot(Request::from_parts(parts, body)).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes().to_vec();
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status: parts.status, headers: parts.headers, bytes, body }
    }

    async fn get(&self, path: &str, cookies: &str) -> Answer {
        self.get_in("en", path, cookies).await
    }

    async fn get_in(&self, lang: &str, path: &str, cookies: &str) -> Answer {
        let request = Request::get(path).header(COOKIE, cookies).header("accept-language", lang);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    async fn post(&self, path: &str, cookies: &str, form: &str) -> Answer {
        self.post_from(Some(OURS), path, cookies, form).await
    }

    async fn post_from(&self, origin: Option<&str>, path: &str, cookies: &str, form: &str) -> Answer {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, "127.0.0.1:8080")
            .header(COOKIE, cookies)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        self.send(request.body(Body::from(form.to_owned())).unwrap()).await
    }
}
