//! The one program of ours inside a workspace: its first process, with the line to it ([`run`], [`line`]), and the
//! built-in IDE. Knows nothing of the server.
//!
//! The IDE is a file tree, an editor and terminals in a browser tab: one small HTTP server over one home directory. It
//! knows nothing of users or workspaces; a proxy in front decides who may reach it and under which path.
//!
//! * [`home`] keeps every path inside the home directory, [`files`] is the file
//!   interface on top of it, [`watch`] notices changes on disk.
//! * [`search`] finds and replaces text in files and finds files by name; [`git`] asks the machine's `git`.
//! * [`terminal`] runs shells and emulates their screens on the server.
//! * [`socket`] carries both to the page; [`protocol`] describes the messages.
//! * [`assets`] is the page, [`origin`] keeps other pages out.
//!
//! The server speaks only when something happens: an idle page exchanges not a
//! single byte with it, which is what lets a forgotten workspace fall asleep.

mod assets;
mod children;
pub mod cli;
mod error;
mod files;
mod git;
mod home;
pub mod line;
mod listen;
mod origin;
mod path;
mod process_table;
mod protocol;
pub mod run;
mod search;
mod socket;
mod terminal;
mod watch;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderValue, Uri, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use home::Home;
use listen::Listener;
use socket::Shared;
use terminal::Terminals;
use watch::Watcher;

/// How long open requests may take to finish once shutdown began.
const DRAIN: Duration = Duration::from_secs(3);

/// What the server needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on. Loopback unless something guards the port.
    pub host: IpAddr,
    /// The port; 0 picks a free one.
    pub port: u16,
    /// A Unix socket to listen on instead.
    pub socket: Option<PathBuf>,
    /// Who may connect to it: its owner only, unless said otherwise.
    pub socket_mode: u32,
    /// What every request has to carry (`X-Codehub-Secret`); `None`: whoever gets here may.
    pub secret: Option<String>,
    /// The only directory the file interface reaches, and where shells start.
    pub home: PathBuf,
    /// A prefix such as `/w/abc` that requests may carry if the proxy does not
    /// strip it. Requests without it work too.
    pub base_path: Option<String>,
    /// What the page calls this workspace.
    pub name: Option<String>,
    /// Where the page's name leads back to: an `http` or `https` address, or one relative to the page.
    pub dashboard: Option<String>,
}

impl Options {
    /// Loopback, a free port, no base path, no name.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            socket: None,
            socket_mode: 0o600,
            secret: None,
            home: home.into(),
            base_path: None,
            name: None,
            dashboard: None,
        }
    }

    /// Takes name, dashboard and secret from the environment a workspace is given.
    #[must_use]
    pub fn described_by_env(mut self) -> Self {
        let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        self.name = text("CODEHUB_WORKSPACE_NAME");
        self.secret = text("CODEHUB_SECRET");
        self.dashboard = text("CODEHUB_URL").map(|_| DASHBOARD.to_owned());
        self
    }

    /// What `GET api/info` answers.
    fn info(&self) -> Value {
        let is_web =
            |url: &&String| ["http://", "https://", ".codehub/"].iter().any(|start| url.starts_with(start));
        let dashboard = self.dashboard.as_ref().filter(is_web);
        json!({ "name": self.name, "dashboard": dashboard })
    }
}

/// Where CodeHub's proxy leads back to the dashboard, relative to the page: it knows by which name the page was opened.
const DASHBOARD: &str = ".codehub/dashboard";

/// Serves until `shutdown` completes, then ends every terminal.
///
/// # Errors
///
/// When the home cannot be opened or the address cannot be listened on.
pub async fn serve(options: Options, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    Server::bind(options).await?.run(shutdown).await
}

/// A server that listens already and says where.
pub struct Server {
    listener: Listener,
    home: Home,
    options: Options,
}

impl Server {
    /// Opens the home and the port.
    ///
    /// # Errors
    ///
    /// When the home is not a readable directory or the address is taken.
    pub async fn bind(options: Options) -> Result<Self> {
        let home = Home::open(&options.home)
            .with_context(|| format!("the home directory {} cannot be opened", options.home.display()))?;
        let listener = Listener::bind(&options).await?;
        Ok(Self { listener, home, options })
    }

    /// Where it listens: an address with a scheme.
    #[must_use]
    pub fn place(&self) -> String {
        self.listener.place()
    }

    /// Serves until `shutdown` completes, then ends every terminal.
    ///
    /// # Errors
    ///
    /// When the listener fails.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let terminals = Terminals::new(self.home.real_path().to_owned());
        let stopping = CancellationToken::new();
        let watcher = Watcher::start(self.home.clone(), stopping.clone())
            .inspect_err(|error| {
                tracing::warn!("changes on disk will not show by themselves: {error}");
            })
            .ok();
        let shared = Shared { terminals: terminals.clone(), watcher, shutdown: stopping.clone() };
        let app = router(self.home, shared, &self.options);

        let begun = stopping.clone();
        let server = axum::serve(self.listener, app).with_graceful_shutdown(async move {
            shutdown.await;
            begun.cancel();
        });
        let overdue = async {
            stopping.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        let result = tokio::select! {
            result = async { server.await } => result,
            () = overdue => Ok(()),
        };
        terminals.end_all().await;
        Ok(result?)
    }
}

fn router(home: Home, shared: Shared, options: &Options) -> Router {
    let info = options.info();
    let secret = options.secret.as_deref().map(Arc::<str>::from);
    let files = files::Files::new(home);
    let pages = Router::new()
        .route("/", get(assets::index))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/info", get(async || Json(info)))
        .route("/api/terminal", get(socket::terminal))
        .route("/ws", get(socket::upgrade))
        .with_state(shared)
        .merge(files::router(files.clone()))
        .merge(search::router(files.clone()))
        .merge(git::router(files.home))
        .layer(axum::middleware::from_fn(origin::guard))
        .layer(axum::middleware::from_fn_with_state(secret, origin::check_secret))
        .layer(axum::middleware::map_response(secure));
    let base_path = options.base_path.as_deref();
    match base_path.map(|base| base.trim_end_matches('/').to_owned()) {
        Some(base) if !base.is_empty() => {
            // Rewriting must happen before routing, hence the outer router.
            let strip = move |request: Request| std::future::ready(strip(request, &base));
            Router::new().fallback_service(pages).layer(axum::middleware::map_request(strip))
        }
        _ => pages,
    }
}

async fn secure(mut response: Response) -> Response {
    assets::secure(response.headers_mut());
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// `/w/abc/x?y` becomes `/x?y`; anything else stays.
fn strip(mut request: Request, base: &str) -> Request {
    let uri = request.uri();
    let rest = uri.path().strip_prefix(base).filter(|rest| rest.starts_with('/'));
    if let Some(rest) = rest {
        let query = uri.query().map(|query| format!("?{query}"));
        let rewritten = format!("{rest}{}", query.unwrap_or_default());
        if let Ok(uri) = rewritten.parse::<Uri>() {
            *request.uri_mut() = uri;
        }
    }
    request
}
