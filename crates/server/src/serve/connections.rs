//! Connections: accepted, limited, served by [`codehub_proxy::front`], and drained at the end.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Context as _;
use axum::Router;
use codehub_domain::origins::{Mode, Origins};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::{self, App},
    proxy_gate::{self, ActivitySink},
};
use codehub_coordinator::Backends;
use codehub_proxy::{
    Proxy,
    front::{Application, Front, Place, PlaceLimits, Places},
    gate::ProxyIde,
    hosts::Hosts,
    tls::Tls,
};

use super::{Listeners, open_files::OpenFiles, workers::Workers};

/// A client gets this long for the head of its (next) request.
const HEADS_WITHIN: Duration = Duration::from_secs(60);
/// So many connections from one address may be without a whole head.
const HEADLESS_PER_ADDRESS: usize = 64;
/// So many connections are kept for checks, where they have no listener of their own; and so many has that one.
const FOR_CHECKS: usize = 16;
const CHECKS_LISTENER: usize = 64;
/// Machines that ask how it is know what they want.
const CHECKS_HEADS_WITHIN: Duration = Duration::from_secs(10);

/// Serves until `app.shutdown`, then lets what is under way finish and hands on the last activity.
///
/// # Errors
/// The threads that serve connections cannot be had.
pub async fn run(listeners: impl Into<Listeners>, router: Router, app: &Arc<App>) -> anyhow::Result<()> {
    let Listeners { people, also, workspaces, checks, tls } = listeners.into();
    let mut workers = Workers::start().context("the threads that serve connections cannot be started")?;
    let proxy = app.config.role.answers().then(|| start_proxy(app));
    // With a token of its own: requests under way are still activity.
    let traffic_ended = CancellationToken::new();
    let flusher = tokio::spawn(flush_activity(app, traffic_ended.clone()));
    let checks = checks.map(|listener| tokio::spawn(answer_checks(listener, app.clone())));
    let mut listeners = vec![(people, false)];
    listeners.extend(also.into_iter().map(|listener| (listener, false)));
    listeners.extend(workspaces.map(|listener| (listener, true)));
    accept_all(listeners, checks.is_some(), tls, router, proxy, app, &mut workers).await;
    if let Some(checks) = checks {
        let _ = checks.await;
    }
    traffic_ended.cancel();
    let _ = flusher.await;
    workers.end().await;
    Ok(())
}

fn start_proxy(app: &Arc<App>) -> Arc<Proxy> {
    let ide = ProxyIde { plain_websockets: app.idle.plain_websockets };
    let proxy = proxy_gate::of_app(app, ide);
    tokio::spawn(proxy.clone().run());
    proxy
}

fn flush_activity(app: &App, until: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
    let Backends { store, bus, .. } = app.backends.clone();
    let sink = ActivitySink { replica: app::replica_name(), store, bus };
    app.activity.clone().run_flusher(app.config.activity.flush_interval, Arc::new(sink), until)
}

/// Serves every connection; of the listeners, some are for workspaces alone.
async fn accept_all(
    listeners: Vec<(TcpListener, bool)>,
    checks_apart: bool,
    tls: Option<Arc<Tls>>,
    router: Router,
    proxy: Option<Arc<Proxy>>,
    app: &Arc<App>,
    workers: &mut Workers,
) {
    let config = &app.config;
    let application = Application::here(router);
    let front = |workspaces_only| {
        Arc::new(Front {
            proxy: proxy.clone(),
            application: application.clone(),
            hosts: config.hosts(),
            workspaces_only,
            trusted_proxies: config.trusted_proxies.clone(),
            heads_within: HEADS_WITHIN,
            tls: tls.clone(),
        })
    };
    let (listeners, fronts): (Vec<_>, Vec<_>) =
        listeners.into_iter().map(|(listener, workspaces_only)| (listener, front(workspaces_only))).unzip();
    let limits = PlaceLimits {
        total: most_connections(),
        for_checks: if checks_apart { 0 } else { FOR_CHECKS },
        strangers_per_address: config.connections_per_address,
        headless_per_address: config.connections_per_address.min(HEADLESS_PER_ADDRESS),
    };
    let places = Places::new(limits, config.trusted_proxies.clone(), config.metrics.allow.clone());
    let connections = TaskTracker::new();
    while let Some((stream, peer, place, at)) = accept(&listeners, &places, &app.shutdown).await {
        let (front, shutdown) = (fronts[at].clone(), app.shutdown.clone());
        workers.next().spawn(connections.track_future(async move {
            let stream = match stream.and_then(TcpStream::from_std) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%peer, %error, "a connection was gone before it began");
                    return;
                }
            };
            let open = metrics::gauge!(crate::telemetry::metrics::HTTP_CONNECTIONS);
            open.increment(1.0);
            front.serve(stream, peer, &place, &shutdown).await;
            open.decrement(1.0);
        }));
    }
    drop(listeners);
    tracing::info!(drain_seconds = app.config.shutdown_drain.as_secs(), "stopping: no new connections");
    connections.close();
    let drained = async {
        connections.wait().await;
        if let Some(proxy) = &proxy {
            proxy.drained().await;
        }
    };
    if tokio::time::timeout(app.config.shutdown_drain, drained).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

fn most_connections() -> usize {
    let OpenFiles { files, connections } = OpenFiles::raise();
    if connections < OpenFiles::FEW {
        tracing::warn!(
            open_files = files,
            connections,
            "the limit of open files allows few connections; more are closed: raise it (ulimit -n, LimitNOFILE=)"
        );
    }
    connections
}

/// Answers machines that ask how it is, at an address of their own: however busy the other one is, they are heard.
async fn answer_checks(listener: TcpListener, app: Arc<App>) {
    let front = Arc::new(Front {
        proxy: None,
        application: Application::here(super::checks_router(&app)),
        // By address, as machines do; by name where that is allowed.
        hosts: Hosts::new(
            Origins::new(&app.config.public_base_url, false, Mode::Path),
            &app.config.hosts_allowed,
        ),
        workspaces_only: false,
        trusted_proxies: app.config.trusted_proxies.clone(),
        heads_within: CHECKS_HEADS_WITHIN,
        // Machines of the same network, which know the address and no name.
        tls: None,
    });
    let limits = PlaceLimits {
        total: CHECKS_LISTENER,
        for_checks: 0,
        strangers_per_address: 0,
        headless_per_address: CHECKS_LISTENER / 2,
    };
    let places = Places::new(limits, Vec::new(), Vec::new());
    let connections = TaskTracker::new();
    let listeners = [listener];
    while let Some((stream, peer, place, _)) = accept(&listeners, &places, &app.shutdown).await {
        let (front, shutdown) = (front.clone(), app.shutdown.clone());
        connections.spawn(async move {
            if let Ok(stream) = stream.and_then(TcpStream::from_std) {
                front.serve(stream, peer, &place, &shutdown).await;
            }
        });
    }
    drop(listeners);
    connections.close();
    let _ = tokio::time::timeout(app.config.shutdown_drain, connections.wait()).await;
}

/// With the number of the listener.
type Accepted = (std::io::Result<std::net::TcpStream>, SocketAddr, Arc<Place>, usize);

/// The next connection at any of them, and at which.
fn poll_any(
    listeners: &[TcpListener],
    cx: &mut Context<'_>,
) -> Poll<(usize, std::io::Result<(TcpStream, SocketAddr)>)> {
    for (at, listener) in listeners.iter().enumerate() {
        if let Poll::Ready(accepted) = listener.poll_accept(cx) {
            return Poll::Ready((at, accepted));
        }
    }
    Poll::Pending
}

/// The next connection that gets a place; the others are closed. `None`: the server stops.
async fn accept(
    listeners: &[TcpListener],
    places: &Arc<Places>,
    shutdown: &CancellationToken,
) -> Option<Accepted> {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return None,
            accepted = poll_fn(|cx| poll_any(listeners, cx)) => accepted,
        };
        let (at, accepted) = accepted;
        match accepted {
            Ok((stream, peer)) => match places.admit(peer.ip()) {
                Ok(place) => {
                    // Small messages both ways (terminals, events) must not wait for each other. Then it leaves this
                    // thread's event loop for its own.
                    let stream = stream.set_nodelay(true).and_then(|()| stream.into_std());
                    return Some((stream, peer, place, at));
                }
                Err(why) => tracing::debug!(%peer, ?why, "a connection was closed: there is no place for it"),
            },
            Err(error) => {
                // Out of files, most likely: the next try comes when some have been closed.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
