//! Connections: accepted, limited, served as HTTP/1.1 or HTTP/2, and drained at the end.

use std::{future::poll_fn, net::SocketAddr, pin::pin, sync::Arc, task::Poll, time::Duration};

use anyhow::Context as _;
use axum::Router;
use bytes::BytesMut;
use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulConnection},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::{self, App},
    connection::ConnectionHandle,
    proxy_gate::{self, ActivitySink},
};
use codehub_coordinator::Backends;
use codehub_proxy as proxy;
use codehub_proxy::{
    Proxy,
    framing::accepted,
    front::{self, Application},
    gate::ProxyIde,
    lane,
};

use super::{open_files::OpenFiles, workers::Workers};
use codehub_proxy::rarely::Rarely;

/// A client gets this long for the headers of its (next) request.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);
/// HTTP/2 clients are asked this often whether they are still there.
const STILL_THERE: Duration = Duration::from_secs(30);
const STREAMS_PER_CONNECTION: u32 = 256;
const HEADER_BYTES: u32 = 64 * 1024;

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
    let strip_prefix = !app.backends.instances.keeps_prefix();
    let ide = ProxyIde { strip_prefix, plain_websockets: app.idle.plain_websockets };
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
    let server = Arc::new(server(HEADERS_WITHIN));
    let application = Application::here(router);
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(most_connections()));
    loop {
        let next = tokio::select! {
            () = app.shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = next else { continue };
        let closing = CancellationToken::new();
        let handle = ConnectionHandle::new(closing.clone());
        let (application, proxy, lane_proxy) = (application.clone(), proxy.clone(), proxy.clone());
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            if !proxy::is_ours(request.uri()) {
                request.extensions_mut().insert(handle.clone());
            }
            front::answer(request, peer, proxy.as_ref(), &application)
        });
        let (server, shutdown) = (Arc::clone(&server), app.shutdown.clone());
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
            // Plain requests for workspaces first; with the first other one the connection is the library's.
            let rest = match &lane_proxy {
                Some(proxy) => lane::serve(stream, peer, proxy, HEADERS_WITHIN, &shutdown).await,
                None => Some((stream, BytesMut::new())),
            };
            if let Some((stream, read)) = rest {
                let stream = TokioIo::new(accepted(stream, read));
                let connection = server.serve_connection_with_upgrades(stream, service).into_owned();
                if let Err(error) = to_the_end(connection, &closing, &shutdown).await {
                    tracing::debug!(%peer, error, "a connection ended early");
                }
            }
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

/// Serves a connection until it ends or is closed; from the shutdown on, only what is under way.
async fn to_the_end<C: GracefulConnection>(
    connection: C,
    closing: &CancellationToken,
    shutdown: &CancellationToken,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    let mut word = Rarely::new(either(closing, Some(shutdown)));
    loop {
        let heard = poll_fn(|cx| match connection.as_mut().poll(cx) {
            Poll::Ready(served) => Poll::Ready(Err(served)),
            Poll::Pending => word.poll(cx).map(Ok),
        });
        match heard.await {
            Err(served) => return served,
            Ok(Word::Close) => return Ok(()),
            Ok(Word::Finish) => {
                connection.as_mut().graceful_shutdown();
                word = Rarely::new(either(closing, None));
            }
        }
    }
}

/// What a connection may be told.
enum Word {
    Close,
    Finish,
}

async fn either(closing: &CancellationToken, shutdown: Option<&CancellationToken>) -> Word {
    let shut_down = async {
        match shutdown {
            Some(shutdown) => shutdown.cancelled().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = closing.cancelled() => Word::Close,
        () = shut_down => Word::Finish,
    }
}

fn server(headers_within: Duration) -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(headers_within)
        .max_buf_size(HEADER_BYTES as usize);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(STILL_THERE)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_header_list_size(HEADER_BYTES);
    server
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

type Place = tokio::sync::OwnedSemaphorePermit;
type Accepted = (std::io::Result<std::net::TcpStream>, SocketAddr, Place);

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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Half a head, and then nothing: the connection ends, its neighbour's does not.
    #[tokio::test]
    async fn a_head_that_does_not_come_ends_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let server = server(Duration::from_millis(300));
            while let Ok((stream, _)) = listener.accept().await {
                let service = hyper::service::service_fn(|_| async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok::<_, std::convert::Infallible>(http::Response::new(String::from("late")))
                });
                let connection = server
                    .serve_connection_with_upgrades(TokioIo::new(accepted(stream, BytesMut::new())), service)
                    .into_owned();
                tokio::spawn(connection);
            }
        });
        let mut slow = TcpStream::connect(addr).await.unwrap();
        let mut patient = TcpStream::connect(addr).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ").await.unwrap();
        patient.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(10), slow.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "it is still open");
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
        let mut answer = String::new();
        patient.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("late"), "a slow answer is no slow head: {answer}");
    }
}
