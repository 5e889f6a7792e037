//! Connections: accepted, limited, served by [`codehub_proxy::front`], and drained at the end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::{self, App},
    proxy_gate::{self, ActivitySink},
};
use codehub_coordinator::Backends;
use codehub_proxy::{
    Proxy,
    front::{Application, Front},
    gate::ProxyIde,
};

use super::{open_files::OpenFiles, workers::Workers};

/// A client gets this long for the head of its (next) request.
const HEADS_WITHIN: Duration = Duration::from_secs(60);

/// Serves until `app.shutdown`, then lets what is under way finish and hands on the last activity.
///
/// # Errors
/// The threads that serve connections cannot be had.
pub async fn run(listener: TcpListener, router: Router, app: &Arc<App>) -> anyhow::Result<()> {
    let mut workers = Workers::start().context("the threads that serve connections cannot be started")?;
    let proxy = app.config.role.answers().then(|| start_proxy(app));
    // With a token of its own: requests under way are still activity.
    let traffic_ended = CancellationToken::new();
    let flusher = tokio::spawn(flush_activity(app, traffic_ended.clone()));
    accept_all(listener, router, proxy, app, &mut workers).await;
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

async fn accept_all(
    listener: TcpListener,
    router: Router,
    proxy: Option<Arc<Proxy>>,
    app: &Arc<App>,
    workers: &mut Workers,
) {
    let application = Application::here(router);
    let front = Arc::new(Front { proxy: proxy.clone(), application, heads_within: HEADS_WITHIN });
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(most_connections()));
    loop {
        let next = tokio::select! {
            () = app.shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = next else { continue };
        let (front, shutdown) = (front.clone(), app.shutdown.clone());
        workers.next().spawn(connections.track_future(async move {
            let _place = place;
            let stream = match stream.and_then(TcpStream::from_std) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%peer, %error, "a connection was gone before it began");
                    return;
                }
            };
            let open = metrics::gauge!(crate::telemetry::metrics::HTTP_CONNECTIONS);
            open.increment(1.0);
            front.serve(stream, peer, &shutdown).await;
            open.decrement(1.0);
        }));
    }
    drop(listener);
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
            "the limit of open files allows few connections; more wait until others close: raise it (ulimit -n, LimitNOFILE=)"
        );
    }
    connections
}

type ConnectionSlot = tokio::sync::OwnedSemaphorePermit;
type Accepted = (std::io::Result<std::net::TcpStream>, SocketAddr, ConnectionSlot);

/// The next connection, once there is a place for it: until then the kernel's queue holds it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Small messages both ways (terminals, events) must not wait for each other. Then it leaves this
            // thread's event loop for its own.
            let stream = stream.set_nodelay(true).and_then(|()| stream.into_std());
            Some((stream, peer, place))
        }
        Err(error) => {
            // Out of files, most likely: the next try comes when some have been closed.
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
