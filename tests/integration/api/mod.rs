//! The API, route by route, against a server in this process: the real store, router and coordinator
//! over a simulated runtime, so that every state can be reached and held.

mod actions;
mod activity;
mod audit;
mod doors;
mod events;
mod herd;
mod lasting;
mod lists;
mod matrix;
mod origins;
mod people;
mod protocol;
mod sessions;
mod tokens;
mod workspaces;

use codehub_store::fake::by;
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use codehub_coordinator::Backends;
use codehub_domain::{SessionId, TokenId, UserId, user::Role};
use codehub_runtime::fake::{FakeBackends, Faults, Gate, World};
use codehub_server::{api::openapi, app::App, auth::secret, config::Config, serve};
use codehub_store::{UserChange, bus::MemoryBus, sqlite::SqliteStore};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A server in this process.
pub(crate) struct TestApp {
    pub(crate) app: Arc<App>,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    /// Freezing it holds whatever operation is under way.
    pub(crate) gate: Gate,
    /// What exists in it, whoever made it.
    pub(crate) world: World,
    leading: CancellationToken,
    data: TempDir,
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.app.shutdown.cancel();
        self.leading.cancel();
    }
}

/// Somebody with a token.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) id: UserId,
    pub(crate) token: String,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self.body
    }

    /// An error of that code; its message.
    #[track_caller]
    pub(crate) fn error(self, status: u16, code: &str) -> String {
        assert_eq!(
            (self.status.as_u16(), self.body["error"]["code"].as_str()),
            (status, Some(code)),
            "{}",
            self.body
        );
        self.body["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// Whatever any test is answered, the API's own document says so.
fn documented(method: &Method, path: &str, status: StatusCode) {
    use std::sync::LazyLock;

    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::to_value(openapi::document()).unwrap());
    let same = |template: &str| {
        let (wanted, given) = (template.split('/'), path.split('/'));
        wanted.clone().count() == given.clone().count()
            && wanted
                .zip(given)
                .all(|(wanted, given)| wanted == given || wanted.starts_with('{') && !given.is_empty())
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let Some((_, methods)) = paths.iter().find(|(template, _)| same(template)) else { return };
    let operation = &methods[&method.as_str().to_lowercase()];
    assert!(
        operation.is_null() || operation["responses"][status.as_str()].is_object(),
        "{method} {path} answers {status}, which the document does not say"
    );
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With some settings (by key) other than the defaults.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let data = TempDir::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (listen, data_dir) = (address.to_string(), data.path().display().to_string());
        // Below paths: what is tested here is the same on any origin.
        let mut all = vec![("listen", listen.as_str()), ("data_dir", &data_dir), ("proxy.origins", "path")];
        all.extend(settings);
        let config = Config::with(&all).unwrap();
        let gate = Gate::new();
        let world = World::new(1, Faults::NONE, None);
        let fake = Arc::new(FakeBackends { world: world.clone(), gate: gate.clone() });
        let backends = Backends {
            store: Arc::new(SqliteStore::open(data.path().join("codehub.db")).await.unwrap()),
            bus: Arc::new(MemoryBus::new()),
            instances: fake.clone(),
            volumes: fake.clone(),
            archives: fake,
            name: None,
        };
        let app = Arc::new(App::new(config, backends));
        let leading = CancellationToken::new();
        tokio::spawn(serve::coordinate(&app, leading.clone()));
        serve::background(&app);
        let serving = Arc::clone(&app);
        tokio::spawn(async move { serve::run(listener, serve::router(&serving), &serving).await });
        let client = Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        Self { app, client, address, gate, world, leading, data }
    }

    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A user with a token, made without the API (and without the cost of a password).
    pub(crate) async fn person(&self, username: &str, role: Role) -> Person {
        self.person_with_hash(username, role, "-").await
    }

    pub(crate) async fn person_with_password(&self, username: &str, role: Role, password: &str) -> Person {
        let hash = self.app.passwords.hash(password).await.unwrap();
        self.person_with_hash(username, role, &hash).await
    }

    async fn person_with_hash(&self, username: &str, role: Role, hash: &str) -> Person {
        let store = self.app.store();
        let id = UserId::from_uuid(Uuid::now_v7());
        let created = store.user_create(by(), id, username, hash, role).await.unwrap();
        assert!(matches!(created, UserChange::Done(_)), "{created:?}");
        let token = secret::new_token();
        let token_id = TokenId::from_uuid(Uuid::now_v7());
        let session = self.session(id).await.0;
        store
            .token_create(by(), token_id, session, "test", &secret::hash(&token), None)
            .await
            .unwrap()
            .unwrap();
        Person { id, token }
    }

    /// A session of theirs, and the cookie that carries it.
    pub(crate) async fn session(&self, user: UserId) -> (SessionId, String) {
        let (id, secret) = (SessionId::from_uuid(Uuid::now_v7()), secret::new_secret());
        self.app.store().session_create(by(), id, user, &secret::hash(&secret), 3600).await.unwrap();
        (id, format!("session={secret}"))
    }

    /// A request with a session's cookie, from one of our own pages.
    pub(crate) fn page_request(&self, cookie: &str, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, self.url(&format!("/api/v1{path}")));
        request.header("cookie", cookie).header("origin", self.url(""))
    }

    pub(crate) async fn ann(&self) -> Person {
        self.person("ann", Role::User).await
    }

    pub(crate) fn request(&self, who: &Person, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(&format!("/api/v1{path}"))).bearer_auth(&who.token)
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let request = request.build().unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let answer = self.client.execute(request).await.unwrap();
        documented(&method, &path, answer.status());
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    pub(crate) async fn get(&self, who: &Person, path: &str) -> Answer {
        self.send(self.request(who, Method::GET, path)).await
    }

    pub(crate) async fn post(&self, who: &Person, path: &str, body: Value) -> Answer {
        self.send(self.request(who, Method::POST, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, who: &Person, path: &str, body: Value) -> Answer {
        self.send(self.request(who, Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, who: &Person, path: &str) -> Answer {
        self.send(self.request(who, Method::DELETE, path)).await
    }

    /// A workspace that has arrived in the state.
    pub(crate) async fn workspace(&self, who: &Person, name: &str, state: &str) -> String {
        let body = json!({ "name": name, "desired_state": state });
        let workspace = self.post(who, "/workspaces?wait=20", body).await.is(201);
        assert_eq!(
            (&workspace["phase"], &workspace["operation"]),
            (&json!(state), &json!("NONE")),
            "{workspace}"
        );
        workspace["id"].as_str().unwrap().to_owned()
    }
}
