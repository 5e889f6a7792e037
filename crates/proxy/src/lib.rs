//! Everything between a browser and a workspace: `/w/{id}/…` is the web program inside it. Knows the
//! domain and where a workspace listens; asks the rest of the server through [`gate::Gate`], and no database.
//!
//! A request goes through named phases, a file each: [`route`] (which workspace) → [`authorize`] (who
//! asks, may they) → [`resolve`] (what its phase allows) → [`wake`] (only for a person) → [`forward`]
//! or [`upgrade`]. [`own`] answers what is below `/w/{id}/.codehub/`, [`headers`], [`cookies`] and [`location`] keep both sides clean, [`pages`] is what
//! people see when the workspace itself cannot answer.
//!
//! On the hot path nobody is asked: callers and routes are cached for seconds and forgotten at once
//! when the store says so ([`routes`]), connections are kept ([`pool`]), activity is one atomic
//! store, and bodies stream with back-pressure ([`body`]).

use std::{net::SocketAddr, sync::Arc, time::Duration};

use codehub_domain::WorkspaceId;
use codehub_upstream::Upstream;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    activity::{Activity, Cell, Kind},
    idle::{Rules, Watch},
    request_id::{REQUEST_ID, request_id},
};

pub mod activity;
mod answers;
pub mod appearance;
pub mod authorize;
pub mod body;
pub mod client;
mod cookies;
pub mod credential;
pub mod error;
mod forward;
mod frames;
pub mod framing;
pub mod front;
pub mod gate;
mod headers;
pub mod idle;
mod inbound;
pub mod lane;
mod location;
mod metrics;
mod outbound;
mod own;
mod pages;
mod pool;
pub mod rarely;
mod relay;
pub mod request_id;
pub mod resolve;
mod route;
pub mod routes;
pub mod small_writes;
mod text;
mod upgrade;
mod wake;
mod wire;

#[cfg(test)]
mod tests;

pub use body::ProxyBody;

use answers::{asleep, json, redirect, render, sign_in_address};
use authorize::{Callers, Identified};
use error::{ProxyError, Side};
use gate::{Gate, View};
use location::Place;
use metrics::{Metrics, Outcome};
use outbound::Head;
use resolve::{Step, Visit};
use routes::{Entry, Routes};
use text::Look;
use wake::NotReady;

const POOL_SWEEP: Duration = Duration::from_secs(5);

/// What the proxy is configured with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a navigation to a sleeping workspace is held before the loading page.
    pub wake_hold: Duration,
    /// Host and port of the public base URL: an origin that is ours whatever `Host` says.
    pub public_authority: String,
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// What the IDE's tabs do by themselves.
    pub rules: Arc<Rules>,
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
    pool: Arc<pool::Pool>,
    metrics: Metrics,
    relays: TaskTracker,
    shutdown: CancellationToken,
}

/// Everything the phases know of one request.
struct Context {
    id: WorkspaceId,
    visit: Visit,
    look: Look,
    host: Option<HeaderValue>,
    peer: Option<Peer>,
    trusted: bool,
    version: Version,
    request_id: HeaderValue,
}

impl Context {
    fn place<'a>(&'a self, entry: &'a Entry, upstream: &Upstream, strip_prefix: bool) -> Place<'a> {
        let host = self.host.as_ref().and_then(|host| host.to_str().ok());
        Place { base_path: &entry.base.path, upstream: upstream.address(), host, strip_prefix }
    }

    /// Notes that the workspace could not be reached.
    fn unreachable(&self, error: ProxyError) -> ProxyError {
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
            callers: Arc::new(Callers::new(gate.clone())),
            gate,
            settings,
            activity,
            pool: Arc::default(),
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
            () = follow => {}
        }
    }

    /// Waits until every relay has said good-bye. They begin to when the shutdown token is cancelled.
    pub async fn drained(&self) {
        self.relays.close();
        self.relays.wait().await;
    }

    /// Answers a request whose path begins with `/w/`.
    pub async fn serve(
        self: &Arc<Self>,
        mut request: Request<ProxyBody>,
        peer: Option<Peer>,
    ) -> Response<ProxyBody> {
        let id = match route::parse(request.uri()) {
            route::Target::Workspace(id) => id,
            route::Target::Redirect(to) => {
                self.metrics.request(Outcome::Redirected);
                return redirect(StatusCode::PERMANENT_REDIRECT, to);
            }
            route::Target::Nothing => {
                self.metrics.request(Outcome::NotFound);
                let visit = Visit::of(request.method(), request.headers());
                return render(&ProxyError::NotFound, visit, Look::of(request.headers()), None);
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

    fn context(&self, id: WorkspaceId, request: &Request<ProxyBody>, peer: Option<Peer>) -> Context {
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
            look: if visit == Visit::Navigation { Look::of(headers) } else { Look::default() },
            host,
            trusted: peer
                .is_some_and(|peer| client::is_trusted(peer.addr.ip(), &self.settings.trusted_proxies)),
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
        headers::screen(method, context.version, headers)?;

        let identified = self.callers.identify(headers).await?;
        let (entry, view) = self.routes.find(context.id).await?;
        authorize::owner_only(&view, identified.caller)?;
        let upgrade = headers::wanted_upgrade(context.version, headers);
        // A page of another origin may neither connect nor write with the cookie.
        let writes = !method.is_safe() && headers.contains_key(header::ORIGIN);
        if upgrade.is_some() || writes {
            let host = headers::effective_host(headers, context.trusted, context.host.as_ref());
            let public = &self.settings.public_authority;
            authorize::same_origin(headers, identified.caller, host.as_deref(), public)?;
        }

        if let Some(call) = own::Call::of(self, context, request, identified)? {
            return Ok(Box::pin(own::answer(self, &entry, call, identified)).await?);
        }

        let view = match resolve::decide(&view, context.visit) {
            Step::Forward => view,
            Step::Wake | Step::Wait(_) => Box::pin(wake::hold(self, &entry, identified.caller.user)).await?,
            Step::Close(closed) => return Err(NotReady::Closed(closed, view)),
            Step::Asleep => return Err(NotReady::Asleep),
            Step::Gone => return Err(ProxyError::NotFound.into()),
        };
        Ok(self.forward(context, &entry, &view, request, identified, upgrade).await?)
    }

    async fn forward(
        self: &Arc<Self>,
        context: &Context,
        entry: &Arc<Entry>,
        view: &View,
        request: &mut Request<ProxyBody>,
        identified: Identified,
        upgrade: Option<HeaderValue>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        let uri = route::upstream_uri(request.uri(), view.ide.strip_prefix)
            .ok_or(ProxyError::BadRequest("this path cannot be forwarded"))?;
        let client = upgrade.is_some().then(|| authorize::Pass::of(request.headers(), identified)).flatten();
        let client = client.map(|pass| self.client(request, pass));
        let (path, query) = (route::below(request.uri()), request.uri().query());
        let cell = self.is_work(request.method(), path, query).then(|| entry.cell.clone());
        if let Some(cell) = cell.as_ref().filter(|_| upgrade.is_none()) {
            cell.record(Kind::Http);
        }
        let mut headers = std::mem::take(request.headers_mut());
        self.clean_request(&mut headers, context, identified, &entry.base.prefix);
        if let Some(protocol) = upgrade {
            upgrade::request_headers(&mut headers, protocol, view.ide.plain_websockets);
        }

        let body = std::mem::replace(request.body_mut(), ProxyBody::Empty);
        let body = forward::body(&mut headers, body, cell.clone());
        let head = Head { method: request.method(), uri, headers };
        let answer = forward::exchange(self, entry, &head, body).await;
        let answer = answer.map_err(|error| context.unreachable(error))?;
        let place = context.place(entry, &answer.upstream, view.ide.strip_prefix);
        self.finish(entry, cell, answer, client, &place)
    }

    /// Whether somebody does this, rather than a tab by itself. The path is the one below `/w/{id}`.
    fn is_work(&self, method: &Method, path: &str, query: Option<&str>) -> bool {
        !self.settings.rules.is_poll(method, path, query)
    }

    fn client(&self, request: &mut Request<ProxyBody>, pass: authorize::Pass) -> upgrade::Client {
        let uri = request.uri();
        let watch = Watch::new(&self.settings.rules, route::below(uri)).map(Box::new);
        upgrade::Client {
            reconnection: watch.as_ref().is_some_and(|watch| watch.is_reconnection(uri.query())),
            watch,
            upgraded: hyper::upgrade::on(request),
            pass,
        }
    }

    fn finish(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        cell: Option<Arc<Cell>>,
        answer: forward::Answer,
        client: Option<upgrade::Client>,
        place: &Place<'_>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        match client {
            Some(client) if upgrade::agreed(&answer) => {
                let response = upgrade::switch(self, entry, answer, client, place)?;
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

    fn clean_request(
        &self,
        headers: &mut HeaderMap,
        context: &Context,
        identified: Identified,
        prefix: &HeaderValue,
    ) {
        let wants_trailers =
            headers::tokens(headers, &header::TE).any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
        headers::remove_hop_by_hop(headers);
        if wants_trailers {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        cookies::remove_session(headers, context.version);
        if identified.our_authorization {
            headers.remove(header::AUTHORIZATION);
        }
        let origin = headers::Origin {
            peer: context.peer.map(|peer| peer.addr.ip().to_canonical()),
            tls: context.peer.is_some_and(|peer| peer.tls),
            trusted: context.trusted,
            host: context.host.as_ref(),
            prefix,
        };
        headers::set_forwarded(headers, origin);
        if let Some(host) = &context.host {
            headers.insert(header::HOST, host.clone());
        }
        headers.insert(REQUEST_ID, context.request_id.clone());
    }

    /// What is sent when the workspace itself does not answer.
    async fn explain(&self, context: &Context, not_ready: NotReady, uri: &Uri) -> Response<ProxyBody> {
        let navigation = context.visit == Visit::Navigation;
        let (outcome, response) = match not_ready {
            NotReady::Error(ProxyError::SignIn) if navigation => {
                (Outcome::Redirected, redirect(StatusCode::SEE_OTHER, sign_in_address(uri)))
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
                if matches!(error, ProxyError::BadRequest(_)) && context.version < Version::HTTP_2 {
                    // Where a request is not understood, neither is what follows it.
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                if matches!(error, ProxyError::TwoSessions) {
                    // Scripts of a workspace can plant a cookie below its path, and only there.
                    cookies::remove_planted_session(response.headers_mut(), &route::base_path(context.id));
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
