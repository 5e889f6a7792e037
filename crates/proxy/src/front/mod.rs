//! The door: connections come in here, and every request is either the proxy's (`/w/…`) or the application's. A
//! process that only coordinates has no proxy: there it is all the application's to refuse.
//!
//! HTTP/1 is read by our own codec ([`crate::http1`]), HTTP/2 by the library. The proxy's requests do not pass through
//! the application's router: its layers are made for small answers, and every box and middleware on the way
//! would be paid for by every asset of every IDE.

pub(crate) mod connection;
mod places;
mod remembered;

use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, extract::ConnectInfo};
use bytes::{Bytes, BytesMut};
use futures::future::{Either, ready};
use http::{HeaderValue, Request, Response, Uri, Version, header};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    runtime::Handle,
    sync::Notify,
    task::JoinError,
};
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::AbortOnDropHandle,
};
use tower::ServiceExt;

use crate::{
    Peer, Proxy, ProxyBody, client,
    error::ProxyError,
    hosts::Hosts,
    http1::head::MAX_HEAD,
    is_ours,
    pages::{answers, text::Appearance},
    wake::resolve::Visit,
};

pub use places::{NoPlace, Place, PlaceLimits, Places};

/// HTTP/2 clients are asked this often whether they are still there.
const STILL_THERE: Duration = Duration::from_secs(30);
const STREAMS_PER_CONNECTION: u32 = 256;

/// Everything that is not the proxy's, and the threads it runs on.
#[derive(Clone)]
pub struct Application {
    router: Router,
    runtime: Handle,
}

impl Application {
    /// Runs on the runtime this is called in, wherever the connections are served.
    pub fn here(router: Router) -> Self {
        Self { router, runtime: Handle::current() }
    }

    async fn answer(self, request: Request<axum::body::Body>) -> Result<Response<ProxyBody>, JoinError> {
        // Ends with the connection, as it would if it ran there.
        let answer = AbortOnDropHandle::new(self.runtime.spawn(self.router.oneshot(request)));
        let Ok(response) = answer.await?;
        Ok(response.map(ProxyBody::boxed))
    }
}

/// The connection a request of the application came on, as an extension of the request.
#[derive(Debug, Clone, Default)]
pub struct ConnectionHandle(CancellationToken);

impl ConnectionHandle {
    /// Closes it at once, whatever is half written.
    pub fn close(&self) {
        self.0.cancel();
    }

    pub(crate) fn closed(&self) -> WaitForCancellationFutureOwned {
        self.0.clone().cancelled_owned()
    }
}

/// Who takes an HTTP/1 connection over after "101 Switching Protocols", as an extension of that answer.
#[derive(Clone)]
pub struct Takeover(Arc<Mutex<Option<Begin>>>);

type Begin = Box<dyn FnOnce(TcpStream, Bytes) + Send>;

impl Takeover {
    /// `begin` is given the connection, and what the client sent in the same breath as its request.
    pub fn new(begin: impl FnOnce(TcpStream, Bytes) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(begin)))))
    }

    pub(crate) fn begin(&self, stream: TcpStream, early: Bytes) {
        let begin = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begin) = begin {
            begin(stream, early);
        }
    }
}

/// How a request came in, as an extension of the request.
#[derive(Clone)]
pub struct Arrival {
    /// The other end of the connection is a proxy whose word counts.
    pub trusted: bool,
    /// The connection's.
    pub place: Arc<Place>,
}

/// What all connections lead to.
pub struct Front {
    pub proxy: Option<Arc<Proxy>>,
    pub application: Application,
    /// For which hosts requests are answered.
    pub hosts: Hosts,
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// A client gets this long for the head of its (next) request.
    pub heads_within: Duration,
}

impl Front {
    pub(crate) fn is_proxied(&self, uri: &Uri) -> bool {
        self.proxy.is_some() && is_ours(uri)
    }

    /// Serves a connection until it ends; from the shutdown on, only what is under way.
    pub async fn serve(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        place: &Arc<Place>,
        shutdown: &CancellationToken,
    ) {
        let next = connection::serve(stream, addr, self, place, shutdown).await;
        if let connection::Next::Http2(stream, read) = next
            && !place.goes_back()
        {
            Box::pin(self.serve_http2(Rewound { stream, read }, addr, place, shutdown)).await;
        }
    }

    /// Whether a request is answered at all; before anybody looks at it.
    fn screen(&self, request: &Request<ProxyBody>, arrival: &Arrival) -> Result<(), ProxyError> {
        let (uri, headers) = (request.uri(), request.headers());
        self.hosts.screen(uri, request.version(), headers, arrival.trusted)?;
        if arrival.place.is_for_checks() && !is_check(uri) {
            arrival.place.was_for_checks();
            return Err(ProxyError::Busy);
        }
        Ok(())
    }

    /// Answers one request. A request of the application knows its connection, where it may close that.
    ///
    /// # Errors
    /// The application's task ended without an answer; the connection should, too.
    pub(crate) fn answer(
        &self,
        mut request: Request<ProxyBody>,
        addr: SocketAddr,
        place: &Arc<Place>,
        connection: Option<ConnectionHandle>,
    ) -> impl Future<Output = Result<Response<ProxyBody>, JoinError>> + Send + use<> {
        place.head_came();
        let trusted = client::is_trusted(addr.ip(), &self.trusted_proxies);
        let arrival = Arrival { trusted, place: place.clone() };
        if let Err(error) = self.screen(&request, &arrival) {
            return Either::Right(Either::Left(ready(Ok(refused(&error, &request)))));
        }
        if let Some(proxy) = self.proxy.as_ref().filter(|_| is_ours(request.uri())) {
            if place.is_strangers() {
                request.extensions_mut().insert(arrival);
            }
            let (proxy, peer) = (proxy.clone(), Peer { addr, tls: false });
            return Either::Left(async move { Ok(proxy.serve(request, peer).await) });
        }
        request.extensions_mut().insert(ConnectInfo(addr));
        request.extensions_mut().insert(arrival);
        if let Some(connection) = connection {
            request.extensions_mut().insert(connection);
        }
        Either::Right(Either::Right(Box::pin(
            self.application.clone().answer(request.map(axum::body::Body::new)),
        )))
    }

    async fn serve_http2(
        &self,
        stream: Rewound,
        addr: SocketAddr,
        place: &Arc<Place>,
        shutdown: &CancellationToken,
    ) {
        let closing = ConnectionHandle::default();
        let asked = Notify::new();
        let service = service_fn(|request: Request<Incoming>| {
            asked.notify_one();
            self.answer(request.map(ProxyBody::from), addr, place, Some(closing.clone()))
        });
        let mut server = http2::Builder::new(TokioExecutor::new());
        server
            .timer(TokioTimer::new())
            .keep_alive_interval(STILL_THERE)
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .max_header_list_size(MAX_HEAD as u32);
        let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = closing.closed() => return,
            // Who only says hello has as long for the first head as with HTTP/1.
            () = nobody_asked(&asked, place.patience(self.heads_within)) => return,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    served = connection.as_mut() => served,
                    () = closing.closed() => return,
                }
            }
        };
        if let Err(error) = served {
            tracing::debug!(peer = %addr, %error, "a connection ended early");
        }
    }
}

/// Returns when nothing was asked within that time; never where something was.
async fn nobody_asked(asked: &Notify, within: Duration) {
    if tokio::time::timeout(within, asked.notified()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Whether a machine asks how this server is.
fn is_check(uri: &Uri) -> bool {
    matches!(uri.path(), "/healthz" | "/readyz" | "/metrics")
}

fn refused(error: &ProxyError, request: &Request<ProxyBody>) -> Response<ProxyBody> {
    let visit = Visit::of(request.method(), request.headers());
    tracing::debug!(%error, path = request.uri().path(), "a request was refused");
    let mut response = answers::render(error, visit, Appearance::of(request.headers()), None);
    if matches!(error, ProxyError::BadRequest(_)) && request.version() < Version::HTTP_2 {
        // Where a request is not understood, neither is what follows it.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A connection with what was read of it put back.
struct Rewound {
    stream: TcpStream,
    read: BytesMut,
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let now = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read.split_to(now));
        if self.read.is_empty() {
            self.read = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
