//! Connections: accepted, limited, served as HTTP/1.1 or HTTP/2, and drained at the end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use crate::{
    api,
    app::{App, Backends},
    proxy::{self, Proxy, framing::Strict, front, gate::ProxyIde},
};

/// A client gets this long for the headers of its (next) request.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);
/// HTTP/2 clients are asked this often whether they are still there.
const STILL_THERE: Duration = Duration::from_secs(30);
const STREAMS_PER_CONNECTION: u32 = 256;
const HEADER_BYTES: u32 = 64 * 1024;
const MOST_CONNECTIONS: u64 = 50_000;
/// Below this people would notice.
const FEW_CONNECTIONS: u64 = 1000;
/// Files that are not connections from clients: database, logs, upstreams have their own half.
const OTHER_FILES: u64 = 256;

/// The connection a request came on, as an extension of the request.
#[derive(Debug, Clone)]
pub struct ConnectionHandle(CancellationToken);

impl ConnectionHandle {
    /// Closes it at once, whatever is half written.
    pub fn close(&self) {
        self.0.cancel();
    }
}

/// Serves until `app.shutdown`, then lets what is under way finish and hands on the last activity.
pub async fn run(listener: TcpListener, router: Router, app: &Arc<App>) {
    let strip_prefix = !app.backends.instances.keeps_prefix();
    let ide = ProxyIde { strip_prefix, plain_websockets: app.idle.plain_websockets };
    let proxy = proxy::of_app(app, ide);
    tokio::spawn(proxy.clone().run());
    // With a token of its own: requests under way are still activity.
    let traffic_ended = CancellationToken::new();
    let flusher = tokio::spawn(flush_activity(app, traffic_ended.clone()));
    accept_all(listener, router, proxy, app).await;
    traffic_ended.cancel();
    let _ = flusher.await;
}

fn flush_activity(app: &App, until: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
    let Backends { store, bus, .. } = app.backends.clone();
    app.activity.clone().run_flusher(api::replica_name(), app.config.activity.clone(), store, bus, until)
}

async fn accept_all(listener: TcpListener, router: Router, proxy: Arc<Proxy>, app: &Arc<App>) {
    let server = Arc::new(server());
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(connection_limit()));
    loop {
        let accepted = tokio::select! {
            () = app.shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let closing = CancellationToken::new();
        let handle = ConnectionHandle(closing.clone());
        let (router, proxy) = (router.clone(), proxy.clone());
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(handle.clone());
            front::answer(request, peer, proxy.clone(), router.clone())
        });
        let server = Arc::clone(&server);
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            let _place = place;
            let open = metrics::gauge!("codehub_http_connections");
            open.increment(1.0);
            let connection = server
                .serve_connection_with_upgrades(TokioIo::new(Strict::new(stream)), service)
                .into_owned();
            tokio::select! {
                served = watcher.watch(connection) => if let Err(error) = served {
                    tracing::debug!(%peer, error, "a connection ended early");
                },
                () = closing.cancelled() => tracing::debug!(%peer, "a connection was closed"),
            }
            open.decrement(1.0);
        });
    }
    drop(listener);
    tracing::info!(drain_seconds = app.config.shutdown_drain.as_secs(), "stopping: no new connections");
    let drained = futures::future::join(graceful.shutdown(), proxy.drained());
    if tokio::time::timeout(app.config.shutdown_drain, drained).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

fn server() -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADER_BYTES as usize);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(STILL_THERE)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_header_list_size(HEADER_BYTES);
    server
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is a place for it: until then the kernel's queue holds it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, SocketAddr, Place)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Small messages both ways (terminals, events) must not wait for each other.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%peer, %error, "a connection was gone before it began");
                return None;
            }
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

/// As many as there are files for. Raises the soft limit to the hard one first.
fn connection_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // A proxied connection is two files.
    let limit = (files.saturating_sub(OTHER_FILES) / 2).clamp(64, MOST_CONNECTIONS);
    if limit < FEW_CONNECTIONS {
        tracing::warn!(
            open_files = files,
            connections = limit,
            "the limit of open files allows few connections; more wait until others close: raise it (ulimit -n, LimitNOFILE=)"
        );
    }
    usize::try_from(limit).unwrap_or(usize::MAX)
}
