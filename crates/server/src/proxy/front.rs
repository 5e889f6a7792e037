//! Accepts connections: strict about framing, HTTP/1.1 and HTTP/2, with `/w/…` led straight to the
//! proxy and everything else to the application.
//!
//! The proxy's requests do not pass through the application's router: its layers are made for small
//! answers, and every box and middleware on the way would be paid for by every asset of every IDE.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::extract::ConnectInfo;
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{Peer, Proxy, ProxyBody, framing::Strict, is_ours};

/// Bounds a request's head, and what one connection buffers.
const BUFFER_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;
/// A client that takes longer to say what it wants is not going to.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
const H2_STREAMS: u32 = 256;
/// After a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is cancelled, then lets requests under way finish for at most `drain`.
/// WebSockets are told to go at once.
pub async fn serve(
    listener: TcpListener,
    proxy: Arc<Proxy>,
    application: axum::Router,
    shutdown: CancellationToken,
    drain: Duration,
) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection =
                    connection(stream, peer, proxy.clone(), application.clone(), shutdown.clone());
                connections.spawn(connection);
            }
            Err(error) => {
                metrics::counter!("codehub_accept_failures_total").increment(1);
                tracing::warn!(%error, "a connection could not be accepted; is the open-file limit too low?");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    let everything = async {
        connections.wait().await;
        proxy.drained().await;
    };
    if tokio::time::timeout(drain, everything).await.is_err() {
        tracing::info!(open = connections.len(), "connections were still open when the drain time was over");
    }
}

/// Serves one connection.
pub async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    proxy: Arc<Proxy>,
    application: axum::Router,
    shutdown: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    let service = service_fn(move |request| answer(request, peer, proxy.clone(), application.clone()));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_STREAMS)
        .max_header_list_size(BUFFER_BYTES as u32);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(Strict::new(stream)), service).into_owned();
    tokio::pin!(connection);
    let mut stopping = false;
    loop {
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.cancelled(), if !stopping => {
                connection.as_mut().graceful_shutdown();
                stopping = true;
                continue;
            }
        };
        if let Err(error) = ended {
            tracing::trace!(%error, %peer, "a connection ended");
        }
        return;
    }
}

async fn answer(
    mut request: Request<Incoming>,
    addr: SocketAddr,
    proxy: Arc<Proxy>,
    application: axum::Router,
) -> Result<Response<ProxyBody>, Infallible> {
    if is_ours(request.uri()) {
        request.extensions_mut().insert(Peer { addr, tls: false });
        return Ok(proxy.serve(request.map(ProxyBody::from)).await);
    }
    request.extensions_mut().insert(ConnectInfo(addr));
    let response = application.oneshot(request.map(axum::body::Body::new)).await?;
    Ok(response.map(ProxyBody::boxed))
}
