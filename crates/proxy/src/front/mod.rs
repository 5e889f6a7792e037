//! The door: connections come in here, and every request is either the proxy's or the application's, by its host and path. A
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
use codehub_domain::origins::LOCALHOST;
use futures::future::{Either, ready};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use metrics::counter;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    runtime::Handle,
    sync::Notify,
    task::JoinError,
};
use tokio_util::{
    either::Either as Stream,
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::AbortOnDropHandle,
};
use tower::ServiceExt;

use crate::{
    Peer, Proxy, ProxyBody, client,
    error::ProxyError,
    hosts::{Hosts, Site, is_loopback, without_port},
    http1::head::MAX_HEAD,
    is_ours,
    pages::{Links, answers, text::Appearance},
    policy,
    tls::{ClientStream, Tls},
    wake::resolve::Visit,
};

pub use places::{NoPlace, Place, PlaceLimits, Places};

/// HTTP/2 clients are asked this often whether they are still there.
const STILL_THERE: Duration = Duration::from_secs(30);
const STREAMS_PER_CONNECTION: u32 = 256;
/// The library refuses larger heads of HTTP/2 by itself, with nothing but a status. Whatever cookies a browser holds is
/// less, so that whoever was given too many of them is told how to get rid of them.
const HTTP2_HEAD: u32 = 1024 * 1024;
/// How long a client may take to begin with TLS.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Where anybody may ask which deployment answers, on every origin.
const PING: &str = "/.codehub/ping";

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

type Begin = Box<dyn FnOnce(ClientStream, Bytes) + Send>;

impl Takeover {
    /// `begin` is given the connection, and what the client sent in the same breath as its request.
    pub fn new(begin: impl FnOnce(ClientStream, Bytes) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(begin)))))
    }

    pub(crate) fn begin(&self, stream: ClientStream, early: Bytes) {
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
    /// Only workspaces are served here: this is the port that keeps them apart from the dashboard.
    pub workspaces_only: bool,
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// A client gets this long for the head of its (next) request.
    pub heads_within: Duration,
    /// TLS ends here.
    pub tls: Option<Arc<Tls>>,
}

impl Front {
    /// Whether the application may get a request, as far as can be said at a glance.
    pub(crate) fn is_for_application(&self, request: &Request<()>) -> bool {
        let origins = self.hosts.origins();
        self.proxy.is_none()
            || !(is_ours(request.uri())
                || self.workspaces_only
                || origins.are_own() && {
                    let host =
                        request.headers().get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
                    matches!(self.hosts.site(host), Some(Site::Workspace(_)))
                })
    }

    /// Serves a connection until it ends; from the shutdown on, only what is under way.
    pub async fn serve(
        &self,
        stream: TcpStream,
        addr: SocketAddr,
        place: &Arc<Place>,
        shutdown: &CancellationToken,
    ) {
        let stream = match &self.tls {
            None => Stream::Left(stream),
            Some(tls) => match Box::pin(self.shake_hands(tls, stream, addr, place, shutdown)).await {
                Some(stream) => stream,
                None => return,
            },
        };
        let peer = Peer { addr, tls: matches!(stream, Stream::Right(_)) };
        let next = connection::serve(stream, peer, self, place, shutdown).await;
        if let connection::Next::Http2(stream, read) = next
            && !place.goes_back()
        {
            Box::pin(self.serve_http2(Rewound { stream, read }, peer, place, shutdown)).await;
        }
    }

    /// `None`: there is nobody to talk to.
    async fn shake_hands(
        &self,
        tls: &Tls,
        stream: TcpStream,
        addr: SocketAddr,
        place: &Place,
        shutdown: &CancellationToken,
    ) -> Option<ClientStream> {
        // It has no head yet, and counts as such.
        let within = place.patience(self.heads_within).min(HANDSHAKE_WITHIN);
        let shaken = tokio::select! {
            shaken = tls.accept(stream, within) => shaken,
            () = shutdown.cancelled() => return None,
        };
        match shaken {
            Ok(stream) => Some(stream),
            Err(error) => {
                if error.kind() == io::ErrorKind::TimedOut {
                    place.gave_up();
                }
                counter!("codehub_tls_handshakes_failed_total").increment(1);
                tracing::debug!(peer = %addr, %error, "a TLS handshake failed");
                None
            }
        }
    }

    /// Whether requests of this client are answered, rather than told to come by https.
    pub(crate) fn serves(&self, peer: Peer) -> bool {
        peer.tls || self.tls.is_none()
    }

    /// What somebody is told who came without TLS where there is some. Whether it is up may be asked all the same:
    /// machines that ask know no names, and no certificates.
    fn to_https(&self, request: &Request<ProxyBody>, trusted: bool) -> Option<Response<ProxyBody>> {
        let (uri, headers) = (request.uri(), request.headers());
        if matches!(uri.path(), "/healthz" | "/readyz") {
            return None;
        }
        let rest = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let asked = self.hosts.asked(uri, headers, trusted).and_then(|asked| std::str::from_utf8(asked).ok());
        let to = asked.and_then(|asked| HeaderValue::try_from(format!("https://{asked}{rest}")).ok());
        let mut response = match to.filter(|_| request.method().is_safe()) {
            Some(to) => answers::redirect(StatusCode::TEMPORARY_REDIRECT, to),
            None => {
                let message = "this address speaks https: use https:// instead of http://";
                answers::json(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
            }
        };
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        Some(response)
    }

    /// What a request is meant for, and whether it is answered at all; before anybody looks at it.
    fn screen(&self, request: &Request<ProxyBody>, arrival: &Arrival) -> Result<Site, ProxyError> {
        let (uri, headers) = (request.uri(), request.headers());
        let site = match self.hosts.screen(uri, request.version(), headers, arrival.trusted)? {
            // Metrics and details are not for pages of workspaces.
            Site::Dashboard if self.workspaces_only && uri.path() != "/healthz" => Site::Workspaces,
            site => site,
        };
        if site != Site::Dashboard && self.proxy.is_none() {
            return Err(ProxyError::Misdirected);
        }
        if arrival.place.is_for_checks() && !is_check(uri) {
            arrival.place.was_for_checks();
            return Err(ProxyError::Busy);
        }
        if site == Site::Dashboard && !is_check(uri) && !uri.path().starts_with("/w/") {
            self.guard_dashboard(request)?;
        }
        Ok(site)
    }

    /// Pages of other origins, those of workspaces first of all, may link to the dashboard and do nothing else with it.
    ///
    /// # Errors
    /// One of them sent this.
    fn guard_dashboard(&self, request: &Request<ProxyBody>) -> Result<(), ProxyError> {
        let headers = request.headers();
        let origins = self.hosts.origins();
        let is_workspaces =
            |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| origins.is_workspaces(origin));
        if headers.get_all(header::ORIGIN).iter().any(is_workspaces) {
            return Err(ProxyError::ForeignOrigin);
        }
        let is_data = request.uri().path().starts_with("/api/v1/");
        if policy::is_embedded_elsewhere(request.method(), headers)
            || (is_data && policy::is_sent_elsewhere(headers))
        {
            return Err(ProxyError::Embedded);
        }
        Ok(())
    }

    /// Where somebody is sent who opens the dashboard by another name of this machine: only below `localhost` do
    /// workspaces have names, and cookies belong to one.
    fn by_its_name(&self, request: &Request<ProxyBody>, site: Site, trusted: bool) -> Option<HeaderValue> {
        let (uri, headers) = (request.uri(), request.headers());
        if site != Site::Dashboard || !self.hosts.origins().is_localhost() || *request.method() != Method::GET
        {
            return None;
        }
        let asked = self.hosts.asked(uri, headers, trusted)?;
        let name = without_port(asked)?;
        let other = is_loopback(name) && !name.eq_ignore_ascii_case(LOCALHOST.as_bytes());
        if !other || Visit::of(request.method(), headers) != Visit::Navigation {
            return None;
        }
        let base = self.hosts.origins().dashboard_seen_from(std::str::from_utf8(asked).ok()?);
        let rest = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        HeaderValue::try_from(format!("{base}{rest}")).ok()
    }

    /// Answers one request. A request of the application knows its connection, where it may close that.
    ///
    /// # Errors
    /// The application's task ended without an answer; the connection should, too.
    pub(crate) fn answer(
        &self,
        mut request: Request<ProxyBody>,
        peer: Peer,
        place: &Arc<Place>,
        connection: Option<ConnectionHandle>,
    ) -> impl Future<Output = Result<Response<ProxyBody>, JoinError>> + Send + use<> {
        place.head_came();
        let trusted = client::is_trusted(peer.addr.ip(), &self.trusted_proxies);
        let arrival = Arrival { trusted, place: place.clone() };
        let site = match self.screen(&request, &arrival) {
            Ok(site) => site,
            Err(error) => return Either::Right(Either::Left(ready(Ok(refused(&error, &request))))),
        };
        let moved = if self.serves(peer) { None } else { self.to_https(&request, trusted) };
        if let Some(moved) = moved {
            return Either::Right(Either::Left(ready(Ok(moved))));
        }
        if let Some(proxy) = self.proxy.clone().filter(|_| request.uri().path() == PING) {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let answer = async move { Ok(proxy.ping(method, uri).await) };
            return Either::Right(Either::Right(Box::pin(answer) as Answering));
        }
        if let Some(to) = self.by_its_name(&request, site, trusted) {
            let moved = answers::redirect(StatusCode::TEMPORARY_REDIRECT, to);
            return Either::Right(Either::Left(ready(Ok(moved))));
        }
        let is_proxied = site != Site::Dashboard || is_ours(request.uri());
        if let Some(proxy) = self.proxy.as_ref().filter(|_| is_proxied) {
            if place.is_strangers() {
                request.extensions_mut().insert(arrival);
            }
            let proxy = proxy.clone();
            return Either::Left(async move { Ok(proxy.serve(request, peer, site).await) });
        }
        request.extensions_mut().insert(ConnectInfo(peer.addr));
        request.extensions_mut().insert(arrival);
        if let Some(connection) = connection {
            request.extensions_mut().insert(connection);
        }
        Either::Right(Either::Right(Box::pin(
            self.application.clone().answer(request.map(axum::body::Body::new)),
        ) as Answering))
    }

    async fn serve_http2(
        &self,
        stream: Rewound,
        peer: Peer,
        place: &Arc<Place>,
        shutdown: &CancellationToken,
    ) {
        let closing = ConnectionHandle::default();
        let asked = Notify::new();
        let service = service_fn(|request: Request<Incoming>| {
            asked.notify_one();
            if head_length(request.uri(), request.headers()) > MAX_HEAD {
                place.head_came();
                return Either::Left(ready(Ok(head_too_large("the head is too large"))));
            }
            Either::Right(self.answer(request.map(ProxyBody::from), peer, place, Some(closing.clone())))
        });
        let mut server = http2::Builder::new(TokioExecutor::new());
        server
            .timer(TokioTimer::new())
            .keep_alive_interval(STILL_THERE)
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .max_header_list_size(HTTP2_HEAD);
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
            tracing::debug!(peer = %peer.addr, %error, "a connection ended early");
        }
    }
}

/// Returns when nothing was asked within that time; never where something was.
async fn nobody_asked(asked: &Notify, within: Duration) {
    if tokio::time::timeout(within, asked.notified()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// What an answer is while somebody else makes it.
type Answering = Pin<Box<dyn Future<Output = Result<Response<ProxyBody>, JoinError>> + Send>>;

/// About what the head of an HTTP/2 request would be in HTTP/1.
fn head_length(uri: &Uri, headers: &HeaderMap) -> usize {
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    uri.path_and_query().map_or(0, |target| target.as_str().len()) + lines.sum::<usize>()
}

/// What is too large is most likely cookies, of which anybody at a neighbouring name can set too many: better to sign in
/// again than to be shut out.
fn head_too_large(reason: &str) -> Response<ProxyBody> {
    let mut response = answers::json(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "INVALID_REQUEST", reason);
    response.headers_mut().insert("clear-site-data", HeaderValue::from_static("\"cookies\""));
    response
}

/// Whether a machine asks how this server is.
fn is_check(uri: &Uri) -> bool {
    matches!(uri.path(), "/healthz" | "/readyz" | "/metrics")
}

fn refused(error: &ProxyError, request: &Request<ProxyBody>) -> Response<ProxyBody> {
    let visit = Visit::of(request.method(), request.headers());
    tracing::debug!(%error, path = request.uri().path(), "a request was refused");
    let mut response =
        answers::render(error, visit, Appearance::of(request.headers()), &Links::default(), None);
    if matches!(error, ProxyError::BadRequest(_)) && request.version() < Version::HTTP_2 {
        // Where a request is not understood, neither is what follows it.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A connection with what was read of it put back.
struct Rewound {
    stream: ClientStream,
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
        self.stream.is_write_vectored()
    }
}
