//! The serving process: start in the right order, serve, and stop politely.
//!
//! Start: data directory and its lock → listener → backends → first run → coordinator → requests. So
//! whatever can go wrong with the surroundings does so before anything is touched. Stop: accept no
//! more → end streams, finish requests (10 s) → tell the last activity → the leader writes it down and lets
//! go → close the database. Workspaces keep running.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use axum::{Router, middleware};
use codehub_domain::{Phase, origins::Mode};
use codehub_store::{Change, bus::Event};
use tokio::{net::TcpListener, sync::broadcast::error::RecvError, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    api,
    app::{self, App},
    auth::first_run::{self, FirstRun},
    certificate::Certificate,
    config::Config,
    telemetry, web,
};
use codehub_coordinator as coordinator;
use codehub_proxy::{idle, tls::Tls};

mod changed;
mod connections;
mod data_dir;
mod kept_places;
mod observe;
mod open_files;
mod private;
mod replica;
mod service_workers;
mod signals;
mod waiting;
mod workers;

pub use connections::run;
pub use data_dir::{DataDir, DataDirError};
pub(crate) use open_files::OpenFiles;

const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// Nobody waits longer for a query that somebody else is still asking.
const STORE_CLOSE: Duration = Duration::from_secs(3);

/// Where requests come in.
pub struct Listeners {
    /// Everybody's.
    pub people: TcpListener,
    /// The same at other addresses.
    pub also: Vec<TcpListener>,
    /// For workspaces alone, where a port of their own keeps them apart from the dashboard.
    pub workspaces: Option<TcpListener>,
    /// For `/healthz`, `/readyz` and `/metrics` alone.
    pub checks: Option<TcpListener>,
    /// By which all but those are spoken to, where TLS ends here.
    pub tls: Option<Arc<Tls>>,
}

impl From<TcpListener> for Listeners {
    /// One for everything.
    fn from(people: TcpListener) -> Self {
        Self { people, also: Vec::new(), workspaces: None, checks: None, tls: None }
    }
}

/// Serves until a signal ends it.
///
/// # Errors
/// It could not start; the message names the cause and what to do.
pub async fn serve(mut config: Config) -> anyhow::Result<()> {
    telemetry::metrics::install();
    private::mask();
    private::check_key_file(&config)?;
    private::refuse_foreign(&config.data_dir)?;
    let _data_dir = match config.database.url {
        Some(_) => DataDir::share(&config.data_dir)?,
        None => DataDir::lock(&config.data_dir)?,
    };
    private::close(&config.data_dir)?;
    let certificate = config.tls.as_ref().map(Certificate::open).transpose()?;
    let tls = match &certificate {
        Some(certificate) => Some(Arc::new(Tls::new(certificate.clone())?)),
        None => None,
    };
    let (people, also) = bind_people(&mut config).await?;
    let workspaces = bind_workspaces(&mut config).await?;
    let checks = match config.metrics.listen {
        Some(address) => Some(bind_at(address, "METRICS_LISTEN").await?),
        None => None,
    };
    let (listeners, backends) =
        waiting::for_backends(Listeners { people, also, workspaces, checks, tls }, &config).await?;
    let mut app = App::new(config, backends);
    app.idle =
        Arc::new(idle::Rules::load(app.backends.instances.ide(), app.config.activity.rules.as_deref())?);
    let app = Arc::new(app);
    let replica = replica::Replica::join(&app).await?;
    announce(&app, first_run::prepare(&app).await?);
    changed::note(&app).await?;

    let leading = CancellationToken::new();
    let coordinator = app.config.role.coordinates().then(|| tokio::spawn(coordinate(&app, leading.clone())));
    let mut background = background(&app);
    background.push(tokio::spawn(replica.run(Arc::clone(&app))));
    background.extend(certificate.map(|it| tokio::spawn(it.follow(app.shutdown.clone()))));
    signals::cancel_on_signal(app.shutdown.clone())?;
    run(listeners, router(&app), &app).await?;

    for task in background {
        // They end by the same token; one that panicked has been logged.
        let _ = task.await;
    }
    leading.cancel();
    if let Some(coordinator) = coordinator {
        let _ = coordinator.await;
    }
    let left = left_running(&app).await;
    if timeout(STORE_CLOSE, app.store().close()).await.is_err() {
        tracing::warn!("the database was still in use when the server ended");
    }
    match left {
        Some(0) => tracing::info!("stopped; no workspace is running"),
        Some(count) => {
            tracing::info!(count, "stopped; workspaces keep running: `codehub stop-all` stops them");
        }
        None => tracing::info!("stopped; workspaces keep running"),
    }
    Ok(())
}

/// How many workspaces go on without a server; `None` where the database does not say so in time.
async fn left_running(app: &App) -> Option<u64> {
    let counts = timeout(STORE_CLOSE, app.store().workspace_counts()).await.ok()?.ok()?;
    Some(counts.get(&Phase::Running).copied().unwrap_or_default())
}

/// Leads whenever it can, until the token says otherwise. With SQLite the lock on the data directory makes
/// this the only one; with PostgreSQL it is elected.
pub fn coordinate(app: &App, until: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
    let mut context = coordinator::Context::new(app.backends.clone(), coordinator_settings(&app.config));
    context.leading = app.leading.clone();
    context.health = app.health.clone();
    context.replica = app::replica_name();
    let leadership = coordinator::leader::Leadership::of(app.store(), app::replica_name());
    coordinator::run(context, leadership, until)
}

/// What the coordinator must know of the configuration.
pub(crate) fn coordinator_settings(config: &Config) -> coordinator::Settings {
    let settings = &config.coordinator;
    coordinator::Settings {
        idle_interval: settings.idle_interval,
        active_interval: settings.active_interval,
        active_duration: settings.active_duration,
        ttl_interval: settings.ttl_interval,
        gc_interval: settings.gc_interval,
        instance_concurrency: settings.concurrency,
        storage_concurrency: (settings.concurrency / 2).max(1),
        look_timeout: Duration::from_secs(5),
        retry: config.retry,
        ttl: config.ttl_policy(),
        gc: config.gc.policy,
        audit_retention: config.audit_retention,
        origins: config.origins(),
        ports: config.ports.on,
    }
}

/// Everything that is answered in this role, but for the proxy's.
pub fn router(app: &Arc<App>) -> Router {
    let answered = if app.config.role.answers() {
        api::router().merge(web::router()).fallback(web::not_found)
    } else {
        api::operations()
    };
    let answered = answered.layer(middleware::from_fn(service_workers::refuse_scripts));
    let answered =
        answered.layer(middleware::from_fn_with_state(Arc::clone(app), kept_places::refuse_strangers));
    answered.layer(middleware::from_fn(observe::observe)).with_state(Arc::clone(app))
}

/// What is answered at an address of its own.
fn checks_router(app: &Arc<App>) -> Router {
    api::checks().layer(middleware::from_fn(observe::observe)).with_state(Arc::clone(app))
}

/// The tasks that run beside the requests until the server stops.
pub fn background(app: &Arc<App>) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![
        tokio::spawn(sweep_sessions(Arc::clone(app))),
        tokio::spawn(telemetry::metrics::upkeep(app.shutdown.clone())),
    ];
    if app.config.role.answers() {
        tasks.push(tokio::spawn(watch_changes(Arc::clone(app))));
        let app = Arc::clone(app);
        tasks.push(tokio::spawn(async move { app.passwords.warm_up().await }));
    }
    tasks
}

async fn bind_at(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let what = match error.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "port {} on {} is in use by another program: stop it, or choose another address with {setting}",
                address.port(),
                address.ip()
            ),
            std::io::ErrorKind::PermissionDenied => {
                format!("listening on {address} is not permitted: ports below 1024 need privileges; choose another with {setting}")
            }
            std::io::ErrorKind::AddrNotAvailable => {
                format!("{} is not an address of this machine: choose another with {setting}", address.ip())
            }
            _ => format!("cannot listen on {address}: {error}"),
        };
        anyhow::anyhow!(what)
    })
}

async fn bind(config: &mut Config) -> anyhow::Result<TcpListener> {
    let address = config.listen;
    let listener = bind_at(address, "--listen or CODEHUB_LISTEN").await?;
    let bound = listener.local_addr().context("the listener has no address")?;
    // Port 0 means "any": links must name the one it became.
    if address.port() == 0 {
        if config.public_base_url.ends_with(":0") {
            config.public_base_url.truncate(config.public_base_url.len() - 1);
            config.public_base_url.push_str(&bound.port().to_string());
        }
        config.listen = bound;
    }
    Ok(listener)
}

/// [`bind`], and where workspaces are `{id}.localhost` the other loopback address as well: whoever else listened there
/// would get the visitors.
async fn bind_people(config: &mut Config) -> anyhow::Result<(TcpListener, Vec<TcpListener>)> {
    const TRIES: u32 = 20;
    let wanted = config.clone();
    for tried in 1.. {
        let people = bind(config).await?;
        let other = match config.listen.ip() {
            IpAddr::V4(Ipv4Addr::LOCALHOST) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            _ => return Ok((people, Vec::new())),
        };
        if !config.origins().is_localhost() {
            return Ok((people, Vec::new()));
        }
        let other = SocketAddr::new(other, config.listen.port());
        match TcpListener::bind(other).await {
            Ok(listener) => return Ok((people, vec![listener])),
            // Any port was as good: another.
            Err(error)
                if error.kind() == std::io::ErrorKind::AddrInUse
                    && wanted.listen.port() == 0
                    && tried < TRIES =>
            {
                *config = wanted.clone();
            }
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                anyhow::bail!(
                    "{other} is in use by another program, which would get everybody who opens http://localhost:{}: stop it, or choose another port with --listen or CODEHUB_LISTEN",
                    other.port()
                )
            }
            // A machine without the other kind of address has nobody there.
            Err(_) => return Ok((people, Vec::new())),
        }
    }
    anyhow::bail!("no port is free on both loopback addresses")
}

/// The listener for workspaces alone, where there is one.
async fn bind_workspaces(config: &mut Config) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = config.proxy.listen else { return Ok(None) };
    let listener = bind_at(address, "PROXY_LISTEN").await?;
    let bound = listener.local_addr().context("the listener has no address")?;
    config.proxy.listen = Some(bound);
    config.proxy.origins = Mode::Port { port: bound.port() };
    Ok(Some(listener))
}

/// Tells the person at the terminal where to go.
fn announce(app: &App, first_run: FirstRun) {
    tracing::info!(
        listen = %app.config.listen,
        url = app.config.public_base_url,
        data_dir = %app.config.data_dir.display(),
        version = env!("CARGO_PKG_VERSION"),
        "CodeHub is starting"
    );
    if !app.config.origins().are_apart() {
        tracing::warn!(
            "workspaces are below the dashboard's own address (PROXY_ORIGINS=path): any page that a workspace serves can act as its owner"
        );
    }
    match first_run {
        FirstRun::NotNeeded => {}
        FirstRun::Created(user) => {
            tracing::info!(username = user.username, "the configured administrator was created");
        }
        FirstRun::Elsewhere => {
            tracing::info!(
                "there is no user yet: a server whose role is \"api\" or \"all\" prints the set-up link"
            );
        }
        FirstRun::Link(link) => {
            print!("{}", boxed("Open this link to create the first administrator:", link.reveal()));
        }
    }
}

fn boxed(title: &str, text: &str) -> String {
    let width = title.chars().count().max(text.chars().count());
    let edge = "─".repeat(width + 2);
    format!("\n╭{edge}╮\n│ {title:width$} │\n│ {text:width$} │\n╰{edge}╯\n\n")
}

/// Hands on whose access changed, so that each stream need not listen to every change there is. While the
/// bus does not hear the leader, workspaces' changes go to this process's streams straight from here.
pub async fn watch_changes(app: Arc<App>) {
    let mut changes = app.store().changes();
    loop {
        let change = tokio::select! {
            () = app.shutdown.cancelled() => return,
            change = changes.recv() => change,
        };
        match change {
            // Nobody listening is fine.
            Ok(Change::Access { user }) => drop(app.access_changed.send(Some(user))),
            // Some of these may have been missed: everybody is asked.
            Ok(Change::Resync) | Err(RecvError::Lagged(_)) => drop(app.access_changed.send(None)),
            Ok(Change::Updated { workspace, owner }) if !app.bus().hears() => {
                app.bus().tell(owner, Event::Updated { workspace });
            }
            Ok(Change::Deleted { workspace, owner }) if !app.bus().hears() => {
                app.bus().tell(owner, Event::Deleted { workspace });
            }
            Ok(Change::Updated { .. } | Change::Deleted { .. } | Change::Wake) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Sessions that have ended are of no use to anybody.
async fn sweep_sessions(app: Arc<App>) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            _ = tick.tick() => {}
        }
        match app.store().sessions_sweep().await {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "swept sessions that had ended"),
            Err(error) => tracing::warn!(%error, "sessions could not be swept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_is_as_wide_as_what_is_in_it() {
        let text = boxed("Title:", "http://127.0.0.1:8080/setup?token=x");
        let widths: Vec<usize> = text.lines().filter(|l| !l.is_empty()).map(|l| l.chars().count()).collect();
        assert_eq!(widths, [39; 4]);
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let mut config = Config::with(&[("data_dir", "/tmp/x"), ("listen", &address)]).unwrap();
        let message = bind(&mut config).await.unwrap_err().to_string();
        let port = taken.local_addr().unwrap().port().to_string();
        assert!(message.contains(&port) && message.contains("--listen"), "{message}");
    }

    #[tokio::test]
    async fn nobody_else_is_localhost_beside_us() {
        let mut config = Config::with(&[("data_dir", "/tmp/x"), ("listen", "127.0.0.1:0")]).unwrap();
        let (people, also) = bind_people(&mut config).await.unwrap();
        let Some(other) = also.first() else { return codehub_testing::skip("no IPv6") };
        let (people, other) = (people.local_addr().unwrap(), other.local_addr().unwrap());
        assert_eq!((other.ip().to_string().as_str(), other.port()), ("::1", people.port()));
        drop(also);
        // Somebody else has it: that is said, not shared.
        let taken = std::net::TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
        let _taken = std::net::TcpListener::bind(taken).unwrap();
        let listen = format!("127.0.0.1:{}", taken.port());
        let mut config = Config::with(&[("data_dir", "/tmp/x"), ("listen", &listen)]).unwrap();
        let message = bind_people(&mut config).await.unwrap_err().to_string();
        assert!(message.contains("[::1]") && message.contains("--listen"), "{message}");
    }

    #[tokio::test]
    async fn any_port_becomes_the_real_one_in_links() {
        let mut config = Config::with(&[("data_dir", "/tmp/x"), ("listen", "127.0.0.1:0")]).unwrap();
        let listener = bind(&mut config).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(config.public_base_url, format!("http://localhost:{port}"));
    }
}
