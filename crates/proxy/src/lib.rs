//! Everything between a browser and a workspace: `/w/{id}/…` is the web program inside it. Knows the
//! domain and where a workspace listens; asks the rest of the server through [`gate::Gate`], and no database.
//!
//! A request comes in by [`http1`] (or, in HTTP/2, by the library) and goes through named phases: [`route`] (which
//! workspace) → [`authorize`] (who asks, may they) → [`wake::resolve`] (what its phase allows) → [`wake`] (only for a
//! person) → [`forward`] or [`websocket`]. [`own`] answers what is below `/w/{id}/.codehub/`, [`policy`] keeps both
//! sides clean, [`pages`] is what people see when the workspace itself cannot answer.
//!
//! On the hot path nobody is asked: callers and routes are cached for seconds and forgotten at once
//! when the store says so ([`routes`]), connections are kept ([`http1::pool`]), activity is one atomic
//! store, and bodies stream with back-pressure ([`body`]).

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use codehub_domain::WorkspaceId;
use codehub_upstream::{Secret, Upstream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    activity::{Activity, ActivityKind, Cell},
    idle::{Rules, Watch},
    request_id::{REQUEST_ID, request_id},
};

pub mod activity;
pub mod appearance;
pub mod authorize;
pub mod client;
pub mod credential;
pub mod error;
mod forward;
pub mod front;
pub mod gate;
pub mod hosts;
mod http1;
pub mod idle;
mod metrics;
pub mod origin;
mod own;
mod pages;
mod patience;
pub mod planted;
mod policy;
pub mod polled_when_woken;
pub mod request_id;
mod route;
pub mod routes;
mod wake;
mod websocket;

#[cfg(test)]
mod tests;

pub use http1::body::ProxyBody;

use authorize::{Callers, Identified};
use error::{ProxyError, Side};
use gate::{Gate, WorkspaceView};
use metrics::{Metrics, Outcome};
use pages::{
    answers::{asleep, here, json, redirect, render, sign_in_address},
    text::Appearance,
};
use policy::{Cookies, Forwarded, Named, RequestHead, RequestPolicy, cookies, location::Mount};
use routes::{Entry, Routes};
use wake::{
    NotReady,
    resolve::{self, Answer, Visit},
};

const POOL_SWEEP: Duration = Duration::from_secs(5);

/// What the proxy is configured with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a navigation to a sleeping workspace is held before the loading page.
    pub wake_hold: Duration,
    /// The public base URL, without a path: an origin that is ours whatever `Host` says.
    pub base_url: String,
    /// For which hosts requests are answered.
    pub hosts: hosts::Hosts,
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// What the IDE's tabs do by themselves.
    pub rules: Arc<Rules>,
}

impl Settings {
    /// Whether people reach the server by https.
    pub fn https(&self) -> bool {
        self.base_url.starts_with("https://")
    }
}

/// Who is at the other end of a connection, as whoever accepts connections knows it.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub addr: SocketAddr,
    pub tls: bool,
}

/// The proxy of one server process.
pub struct Proxy {
    gate: Arc<dyn Gate>,
    settings: Settings,
    activity: Activity,
    routes: Arc<Routes>,
    callers: Arc<Callers>,
    pool: Arc<http1::pool::Pool>,
    deadlines: websocket::deadlines::Deadlines,
    metrics: Metrics,
    relays: TaskTracker,
    shutdown: CancellationToken,
}

/// Everything the phases know of one request.
struct Context {
    id: WorkspaceId,
    visit: Visit,
    look: Appearance,
    host: Option<HeaderValue>,
    peer: Peer,
    /// A person opens a page with several session cookies, and is helped out of that.
    heals: bool,
    trusted: bool,
    version: Version,
    request_id: HeaderValue,
}

impl Context {
    fn place<'a>(&'a self, entry: &'a Entry, upstream: &Upstream) -> Mount<'a> {
        let host = self.host.as_ref().and_then(|host| host.to_str().ok());
        Mount {
            base_path: &entry.base.path,
            upstream: upstream.address.port(),
            host,
            strip_prefix: !upstream.keeps_prefix,
        }
    }

    /// The cookies of an HTTP/2 client that sent them apart, as the one line that HTTP/1.1 allows.
    fn joined_cookies(&self, headers: &HeaderMap) -> Option<Vec<u8>> {
        let apart =
            self.version == Version::HTTP_2 && headers.get_all(header::COOKIE).iter().nth(1).is_some();
        apart.then(|| cookies::joined_without_ours(headers))
    }

    /// Notes that the workspace could not be reached.
    fn unreachable(&self, error: ProxyError) -> ProxyError {
        if error.side() == Side::Client {
            return error;
        }
        let request_id = &self.request_id;
        tracing::info!(workspace = %self.id, ?request_id, %error, "a workspace could not be reached");
        error
    }
}

fn log_answered(request_id: &impl std::fmt::Debug, id: WorkspaceId, path: &str, status: StatusCode) {
    tracing::debug!(?request_id, workspace = %id, path, status = status.as_u16(), "answered");
}

impl Proxy {
    pub fn new(
        gate: Arc<dyn Gate>,
        settings: Settings,
        activity: Activity,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            routes: Arc::new(Routes::new(gate.clone(), activity.clone())),
            callers: Arc::new(Callers::new(gate.clone(), settings.https())),
            gate,
            settings,
            activity,
            pool: Arc::default(),
            deadlines: websocket::deadlines::Deadlines::default(),
            metrics: Metrics::new(),
            relays: TaskTracker::new(),
            shutdown,
        })
    }

    /// Keeps the caches honest and the pool small, until shut down. Spawn it once.
    pub async fn run(self: Arc<Self>) {
        let sweep = async {
            let mut every = tokio::time::interval(POOL_SWEEP);
            loop {
                every.tick().await;
                self.pool.sweep();
            }
        };
        let follow = self.routes.clone().follow(self.callers.clone(), self.shutdown.clone());
        tokio::select! {
            () = sweep => {}
            () = self.deadlines.run() => {}
            () = follow => {}
        }
    }

    /// Waits until every relay has said good-bye. They begin to when the shutdown token is cancelled.
    pub async fn drained(&self) {
        self.relays.close();
        self.relays.wait().await;
    }

    /// Answers a request whose path begins with `/w/`.
    pub async fn serve(self: &Arc<Self>, mut request: Request<ProxyBody>, peer: Peer) -> Response<ProxyBody> {
        let id = match route::parse(request.uri()) {
            route::Target::Workspace(id) => id,
            route::Target::Redirect(to) => {
                self.metrics.request(Outcome::Redirected);
                return redirect(StatusCode::PERMANENT_REDIRECT, to);
            }
            route::Target::Nothing => {
                self.metrics.request(Outcome::NotFound);
                let visit = Visit::of(request.method(), request.headers());
                return render(&ProxyError::NotFound, visit, Appearance::of(request.headers()), None);
            }
        };
        let context = self.context(id, &request, peer);
        let passed = self.pass(&context, &mut request).await;
        self.conclude(context, request.uri(), passed).await
    }

    /// The answer to a request, whatever became of it on its way.
    async fn conclude(
        &self,
        context: Context,
        uri: &Uri,
        passed: Result<Response<ProxyBody>, NotReady>,
    ) -> Response<ProxyBody> {
        let mut response = match passed {
            Ok(response) => response,
            Err(not_ready) => Box::pin(self.explain(&context, not_ready, uri)).await,
        };
        log_answered(&context.request_id, context.id, uri.path(), response.status());
        response.headers_mut().insert(REQUEST_ID, context.request_id);
        response
    }

    fn context(&self, id: WorkspaceId, request: &Request<ProxyBody>, peer: Peer) -> Context {
        let headers = request.headers();
        // The request line outranks the header (RFC 9112 §3.2.2), and is where HTTP/2 has it.
        let host = match request.uri().authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => headers.get(header::HOST).cloned(),
        };
        let visit = Visit::of(request.method(), headers);
        Context {
            id,
            visit,
            // Only people get pages.
            look: if visit == Visit::Navigation { Appearance::of(headers) } else { Appearance::default() },
            host,
            trusted: client::is_trusted(peer.addr.ip(), &self.settings.trusted_proxies),
            heals: visit == Visit::Navigation && planted::can_heal(request.method(), request.uri(), headers),
            peer,
            version: request.version(),
            request_id: request_id(headers),
        }
    }

    /// The phases, in order. The request stays where it is: a future that carries it through every phase
    /// is mostly copies of it.
    async fn pass(
        self: &Arc<Self>,
        context: &Context,
        request: &mut Request<ProxyBody>,
    ) -> Result<Response<ProxyBody>, NotReady> {
        let (method, headers) = (request.method(), request.headers());
        policy::screen(method, request.uri(), context.version, headers)?;
        if policy::is_embedded_elsewhere(method, headers) {
            return Err(ProxyError::Embedded.into());
        }

        let identified = self.callers.identify(headers).await?;
        if let Some(arrival) = request.extensions().get::<front::Arrival>() {
            arrival.place.signed_in();
        }
        let (entry, view) = self.routes.find(context.id).await?;
        authorize::owner_only(&view, identified.caller)?;
        let upgrade = policy::wanted_upgrade(context.version, headers);
        // A page of another origin may neither connect nor write with the cookie.
        let writes = !method.is_safe() && headers.contains_key(header::ORIGIN);
        if upgrade.is_some() || writes {
            self.same_origin(context, headers, identified)?;
        }

        if let Some(call) = own::Call::of(self, context, request, identified)? {
            return Ok(Box::pin(own::answer(self, &entry, call, identified)).await?);
        }

        // What a page of the program loads is no opening of it.
        if context.visit == Visit::Navigation || upgrade.is_some() {
            let peer = context.peer.addr.ip();
            let address = client::address(peer, request.headers(), &self.settings.trusted_proxies);
            self.gate.opened(context.id, request.headers(), address);
        }
        let view = match resolve::decide(&view, context.visit) {
            Answer::Forward => view,
            Answer::Wake | Answer::Wait(_) => {
                Box::pin(wake::hold(self, &entry, identified.caller.user)).await?
            }
            Answer::Close(closed) => return Err(NotReady::Closed(closed, view)),
            Answer::Asleep => return Err(NotReady::Asleep),
            Answer::Gone => return Err(ProxyError::NotFound.into()),
        };
        Ok(self.forward(context, &entry, &view, request, identified, upgrade).await?)
    }

    /// # Errors
    /// The page that sent this is not one of ours, and only a cookie spoke for the caller.
    fn same_origin(
        &self,
        context: &Context,
        headers: &HeaderMap,
        identified: Identified,
    ) -> Result<(), ProxyError> {
        let host = context.host.as_ref().and_then(|host| host.to_str().ok());
        let asked = origin::Asked::of(&self.settings.base_url, headers, host, context.trusted);
        authorize::same_origin(headers, identified.caller, &self.settings.base_url, asked)
    }

    async fn forward(
        self: &Arc<Self>,
        context: &Context,
        entry: &Arc<Entry>,
        view: &WorkspaceView,
        request: &mut Request<ProxyBody>,
        identified: Identified,
        upgrade: Option<HeaderValue>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        let upstream = forward::upstream(self, entry).await.map_err(|error| context.unreachable(error))?;
        let target = route::upstream_target(request.uri(), !upstream.keeps_prefix)
            .ok_or(ProxyError::BadRequest("this path cannot be forwarded"))?;
        let (path, query) = (route::below(request.uri()), request.uri().query());
        let cell = self.is_work(request.method(), path, query).then(|| entry.cell.clone());
        if let Some(cell) = cell.as_ref().filter(|_| upgrade.is_none()) {
            cell.record(ActivityKind::Http);
        }
        let pass = upgrade.is_some().then(|| self.callers.pass(request.headers(), identified)).flatten();
        let client = pass.map(|pass| self.client(request.uri(), pass));

        let headers = request.headers();
        let sent = forward::framing(headers, request.body());
        let expects = forward::expects_go_on(headers, request.body());
        let head = {
            let claims = context.trusted.then_some(headers);
            let chain = policy::forwarded_chain(claims, context.peer.addr.ip());
            let (host, prefix) =
                (context.host.as_ref().map(HeaderValue::as_bytes), entry.base.prefix.as_bytes());
            let named = Named::of(policy::lines(headers));
            let joined = context.joined_cookies(headers);
            let secret = upstream.secret.as_ref();
            let head = RequestHead {
                method: request.method().as_str(),
                target: target.as_bytes(),
                host,
                policy: RequestPolicy {
                    named: &named,
                    our_authorization: identified.our_authorization
                        || secret.is_some_and(Secret::is_authorization),
                    cookies: joined.as_deref().map_or(Cookies::Searched, Cookies::Replaced),
                    plain_websockets: upgrade.is_some() && view.ide.plain_websockets,
                },
                forwarded: Forwarded::new(claims, &chain, context.peer.tls, host, prefix),
                request_id: context.request_id.as_bytes(),
                secret: secret.map(Secret::line),
                upgrade: upgrade.as_ref().map(HeaderValue::as_bytes),
                trailers: policy::takes_trailers(headers),
                expects,
                body: sent,
            };
            let mut out = BytesMut::with_capacity(1024);
            head.write(&mut out, policy::lines(headers));
            out
        };
        let trailers = policy::announced_trailers(headers);
        let method = request.method().clone();
        let outgoing = forward::Outgoing { method: &method, head: &head, sent, trailers };
        let body = std::mem::replace(request.body_mut(), ProxyBody::Empty);
        let body = forward::body(body, expects, cell.clone());
        let answer = forward::exchange(self, entry, upstream, &outgoing, body).await;
        let answer = answer.map_err(|error| context.unreachable(error))?;
        let place = context.place(entry, &answer.upstream);
        self.finish(entry, cell, answer, client, &place)
    }

    /// Whether somebody does this, rather than a tab by itself. The path is the one below `/w/{id}`.
    fn is_work(&self, method: &Method, path: &str, query: Option<&str>) -> bool {
        !self.settings.rules.is_poll(method, path, query)
    }

    fn client(&self, uri: &Uri, pass: authorize::Pass) -> websocket::Client {
        let watch = Watch::new(&self.settings.rules, route::below(uri)).map(Box::new);
        let reconnection = watch.as_ref().is_some_and(|watch| watch.is_reconnection(uri.query()));
        websocket::Client { reconnection, watch, pass }
    }

    fn finish(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        cell: Option<Arc<Cell>>,
        answer: forward::Answer,
        client: Option<websocket::Client>,
        place: &Mount<'_>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        match client {
            Some(client) if websocket::agreed(&answer) => {
                let response = websocket::switch(self, entry, answer, client, place)?;
                self.metrics.request(Outcome::Upgraded);
                Ok(response)
            }
            _ => {
                let response = forward::respond(cell, answer, place)?;
                self.metrics.request(Outcome::Proxied);
                Ok(response)
            }
        }
    }

    /// What is sent when the workspace itself does not answer.
    async fn explain(&self, context: &Context, not_ready: NotReady, uri: &Uri) -> Response<ProxyBody> {
        let navigation = context.visit == Visit::Navigation;
        let (outcome, response) = match not_ready {
            NotReady::Error(ProxyError::SignIn) if navigation => {
                (Outcome::Redirected, redirect(StatusCode::SEE_OTHER, sign_in_address(uri)))
            }
            NotReady::Error(ProxyError::TwoSessions) if navigation => {
                let to = if context.heals { here(uri) } else { sign_in_address(uri) };
                let mut response = redirect(StatusCode::SEE_OTHER, to);
                if context.heals {
                    let host = context.host.iter().map(|host| (header::HOST, host.clone())).collect();
                    planted::heal(response.headers_mut(), &host, uri, self.settings.https());
                }
                (Outcome::Redirected, response)
            }
            NotReady::Error(error) => {
                let outcome = match (&error, error.side()) {
                    (ProxyError::NotFound, _) => Outcome::NotFound,
                    (_, Side::Client) => Outcome::Refused,
                    (_, Side::Upstream) => Outcome::UpstreamFailed,
                    (_, Side::Ourselves) => {
                        let request_id = &context.request_id;
                        tracing::warn!(workspace = %context.id, ?request_id, %error, "a request could not be proxied");
                        Outcome::OurFault
                    }
                };
                let mut response = render(&error, context.visit, context.look, Some(context.id));
                if matches!(error, ProxyError::BadRequest(_) | ProxyError::RequestBrokeOff)
                    && context.version < Version::HTTP_2
                {
                    // Where a request is not understood, neither is what follows it.
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                if matches!(error, ProxyError::TwoSessions) {
                    let below = route::base_path(context.id);
                    planted::expire_below(response.headers_mut(), &below, self.settings.https());
                }
                (outcome, response)
            }
            NotReady::Asleep => (Outcome::Asleep, asleep()),
            NotReady::Loading(waiting, view) => {
                (Outcome::Loading, pages::loading(context.look, waiting, &view))
            }
            NotReady::Closed(closed, view) if navigation => {
                let archive = match view.archive_key.filter(|_| closed == resolve::Closed::Archived) {
                    Some(key) => self.gate.archive(key).await,
                    None => None,
                };
                (Outcome::Closed, pages::closed(context.look, closed, &view, archive))
            }
            NotReady::Closed(_, view) => {
                let message = format!("the workspace is {} and cannot be reached", view.phase);
                (Outcome::Closed, json(StatusCode::BAD_GATEWAY, "UPSTREAM_UNAVAILABLE", &message))
            }
            NotReady::Limit(hit, view) => (Outcome::Limit, pages::limit(context.look, &hit, &view)),
        };
        self.metrics.request(outcome);
        response
    }
}

/// Whether a request is the proxy's.
pub fn is_ours(uri: &Uri) -> bool {
    uri.path().starts_with("/w/")
}
