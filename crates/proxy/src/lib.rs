//! Everything between a browser and a workspace: its own origin, or `/w/{id}/…`, is the web program inside it. Knows the
//! domain and where a workspace listens; asks the rest of the server through [`gate::Gate`], and no database.
//!
//! A request comes in by [`http1`] (or, in HTTP/2, by the library) and goes through named phases: [`route`] (which
//! workspace) → [`authorize`] (who asks, may they) → [`wake::resolve`] (what its phase allows) → [`wake`] (only for a
//! person) → [`forward`] or [`websocket`]. [`own`] answers what is below a workspace's `.codehub/`, [`handover`] leads
//! people from the dashboard to workspaces' origins, [`policy`] keeps both sides clean, [`pages`] is what people see when the workspace itself cannot answer.
//!
//! On the hot path nobody is asked: callers and routes are cached for seconds and forgotten at once
//! when the store says so ([`routes`]), connections are kept ([`http1::pool`]), activity is one atomic
//! store, and bodies stream with back-pressure ([`body`]).

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::BytesMut;
use codehub_domain::{
    UserId, WorkspaceId,
    origins::WorkspaceOrigin,
    ports::{PortSettings, PortsPolicy},
};
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
mod handover;
pub mod hosts;
mod http1;
pub mod idle;
mod metrics;
pub mod origin;
mod own;
mod pages;
mod patience;
mod ping;
pub mod planted;
mod policy;
pub mod polled_when_woken;
mod ports;
pub mod request_id;
mod route;
pub mod routes;
pub mod tls;
mod wake;
mod warrant;
mod websocket;

#[cfg(test)]
mod tests;

pub use http1::body::ProxyBody;
pub use ping::ping_answer;

use authorize::{Callers, Identified, Keeper};
use error::{ProxyError, Side};
use gate::{Gate, WorkspaceView};
use hosts::Site;
use metrics::{Metrics, Outcome};
use pages::{
    Links,
    answers::{asleep, here, json, redirect, render, sign_in_address},
    text::Appearance,
};
use policy::{Cookies, Forwarded, Named, RequestHead, RequestPolicy, cookies, location::Mount};
use ports::{Names, Work};
use routes::{Entry, Routes};
use wake::{
    NotReady,
    resolve::{self, Answer, Visit},
};
use warrant::Warrant;

const POOL_SWEEP: Duration = Duration::from_secs(5);

/// What the proxy is configured with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a navigation to a sleeping workspace is held before the loading page.
    pub wake_hold: Duration,
    /// For which hosts requests are answered, and where dashboard and workspaces are.
    pub hosts: hosts::Hosts,
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// What the IDE's tabs do by themselves.
    pub rules: Arc<Rules>,
    /// Which ports may be opened, and by whom.
    pub ports: PortsPolicy,
    /// How long a workspace stays awake without activity, unless it says otherwise; zero is for ever.
    pub standby_ttl: Duration,
}

impl Settings {
    /// Whether people reach the server by https.
    pub fn https(&self) -> bool {
        self.hosts.origins().is_https()
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
    recent: ports::Recent,
    relays: TaskTracker,
    shutdown: CancellationToken,
}

/// Where a request for a workspace came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    /// Below its path on the dashboard's own origin.
    Path,
    /// On an origin that is not the dashboard's.
    Apart,
    /// At the dashboard, on the way there.
    Open,
}

/// Everything the phases know of one request.
struct Context {
    id: WorkspaceId,
    /// The port that is meant; `None`: the workspace itself.
    port: Option<u16>,
    door: Door,
    /// How much of the path is the workspace's prefix.
    prefix: usize,
    /// The host that was asked for.
    asked: String,
    links: Links,
    visit: Visit,
    look: Appearance,
    /// Who asks, once that is known.
    caller: OnceLock<UserId>,
    host: Option<HeaderValue>,
    peer: Peer,
    /// A person opens a page with several session cookies, and is helped out of that.
    heals: bool,
    trusted: bool,
    version: Version,
    request_id: HeaderValue,
}

impl Context {
    /// Whose cookie speaks here.
    fn keeper(&self) -> Keeper {
        match self.door {
            Door::Path | Door::Open => Keeper::Dashboard,
            Door::Apart => Keeper::Workspace(self.origin()),
        }
    }

    /// The origin that is meant, wherever the request came in.
    fn origin(&self) -> WorkspaceOrigin {
        WorkspaceOrigin { workspace: self.id, port: self.port }
    }

    /// The path below the workspace's.
    fn below<'u>(&self, uri: &'u Uri) -> &'u str {
        route::below(uri, self.prefix)
    }

    fn place<'a>(&'a self, entry: &'a Entry, upstream: &Upstream) -> Mount<'a> {
        let host = self.host.as_ref().and_then(|host| host.to_str().ok());
        Mount {
            base_path: &entry.base.path,
            upstream: upstream.address.port(),
            host,
            strip_prefix: !upstream.keeps_prefix,
            apart: entry.base.apart,
            port: None,
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
            routes: Arc::new(Routes::new(gate.clone(), activity.clone(), settings.hosts.origins().clone())),
            callers: Arc::new(Callers::new(gate.clone(), settings.hosts.origins(), settings.ports.clone())),
            gate,
            settings,
            activity,
            pool: Arc::default(),
            deadlines: websocket::deadlines::Deadlines::default(),
            metrics: Metrics::new(),
            recent: ports::Recent::default(),
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
                self.recent.sweep();
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

    /// Answers a request for a workspace, or for the way to one.
    pub async fn serve(
        self: &Arc<Self>,
        mut request: Request<ProxyBody>,
        peer: Peer,
        site: Site,
    ) -> Response<ProxyBody> {
        let (id, port, door) = match self.door(site, &request, peer) {
            Ok(door) => door,
            Err(answer) => return *answer,
        };
        let context = self.context(id, port, door, &request, peer);
        let passed = self.pass(&context, &mut request).await;
        self.conclude(context, request.uri(), request.headers(), passed).await
    }

    /// Which workspace is meant, which port in it, and by which door.
    ///
    /// # Errors
    /// The answer, where that is all there is to say.
    fn door(
        &self,
        site: Site,
        request: &Request<ProxyBody>,
        peer: Peer,
    ) -> Result<(WorkspaceId, Option<u16>, Door), Box<Response<ProxyBody>>> {
        let (uri, origins) = (request.uri(), self.settings.hosts.origins());
        let refused = |outcome, error: &ProxyError| {
            self.metrics.request(outcome);
            let (visit, look) =
                (Visit::of(request.method(), request.headers()), Appearance::of(request.headers()));
            Err(Box::new(render(error, visit, look, &self.links(site, &self.asked(request, peer)), None)))
        };
        let moved = |status, to: HeaderValue| {
            self.metrics.request(Outcome::Redirected);
            Err(Box::new(redirect(status, to)))
        };
        let target = match site {
            Site::Workspace(id) => return Ok((id, None, Door::Apart)),
            Site::Port(id, port) => return Ok((id, Some(port), Door::Apart)),
            Site::OldPort(id, port) if request.method().is_safe() => {
                let url =
                    origins.port_url_seen_from(id, port, &self.asked(request, peer)).unwrap_or_default();
                let rest = uri.path_and_query().map_or("", |rest| rest.as_str().trim_start_matches('/'));
                let to = HeaderValue::try_from(format!("{url}{rest}"));
                return moved(StatusCode::TEMPORARY_REDIRECT, to.unwrap_or(HeaderValue::from_static("/")));
            }
            Site::OldPort(..) => return refused(Outcome::Refused, &ProxyError::Misdirected),
            Site::Dashboard if uri.path().starts_with(route::OPEN) => match route::opened(uri.path()) {
                Some(id) if origins.are_apart() => match handover::port_of(uri) {
                    Ok(port) => return Ok((id, port, Door::Open)),
                    Err(error) => return refused(Outcome::Refused, &error),
                },
                Some(_) if handover::port_of(uri).is_ok_and(|port| port.is_some()) => {
                    return refused(Outcome::NotFound, &ProxyError::NoPorts);
                }
                Some(id) => {
                    let to = HeaderValue::try_from(route::base_path(id));
                    return moved(StatusCode::SEE_OTHER, to.unwrap_or(HeaderValue::from_static("/")));
                }
                None => return refused(Outcome::NotFound, &ProxyError::NotFound),
            },
            Site::Dashboard | Site::Workspaces => route::parse(uri),
        };
        match target {
            route::Target::Nothing => refused(Outcome::NotFound, &ProxyError::NotFound),
            route::Target::Redirect(to) => moved(StatusCode::PERMANENT_REDIRECT, to),
            route::Target::Workspace(id) if site == Site::Workspaces => Ok((id, None, Door::Apart)),
            route::Target::Workspace(id) if !origins.are_apart() => Ok((id, None, Door::Path)),
            // A link from before workspaces had other origins.
            route::Target::Workspace(id) if request.method().is_safe() => {
                let rest = route::upstream_target(uri, route::PREFIX_LEN, true).unwrap_or("/");
                let url = origins.url_seen_from(id, &self.asked(request, peer));
                let to = HeaderValue::try_from(format!("{url}{}", rest.trim_start_matches('/')));
                moved(StatusCode::TEMPORARY_REDIRECT, to.unwrap_or(HeaderValue::from_static("/")))
            }
            route::Target::Workspace(_) => refused(Outcome::Refused, &ProxyError::Misdirected),
        }
    }

    /// The host that a request asked for.
    fn asked(&self, request: &Request<ProxyBody>, peer: Peer) -> String {
        let trusted = client::is_trusted(peer.addr.ip(), &self.settings.trusted_proxies);
        let asked = self.settings.hosts.asked(request.uri(), request.headers(), trusted);
        asked.map(|asked| String::from_utf8_lossy(asked).into_owned()).unwrap_or_default()
    }

    /// Where pages lead to, on an origin of this kind.
    fn links(&self, site: Site, asked: &str) -> Links {
        let origins = self.settings.hosts.origins();
        let dashboard =
            if site == Site::Dashboard { String::new() } else { origins.dashboard_seen_from(asked) };
        Links { dashboard, apart: origins.are_apart(), port: None }
    }

    /// The answer to a request, whatever became of it on its way.
    async fn conclude(
        &self,
        context: Context,
        uri: &Uri,
        headers: &HeaderMap,
        passed: Result<Response<ProxyBody>, NotReady>,
    ) -> Response<ProxyBody> {
        let mut response = match passed {
            Ok(response) => response,
            Err(not_ready) => Box::pin(self.explain(&context, not_ready, uri, headers)).await,
        };
        log_answered(&context.request_id, context.id, uri.path(), response.status());
        response.headers_mut().insert(REQUEST_ID, context.request_id);
        response
    }

    fn context(
        &self,
        id: WorkspaceId,
        port: Option<u16>,
        door: Door,
        request: &Request<ProxyBody>,
        peer: Peer,
    ) -> Context {
        let headers = request.headers();
        // Only what is not simply passed on needs to know.
        let asked = if door == Door::Path { String::new() } else { self.asked(request, peer) };
        let site = if door == Door::Apart { Site::Workspace(id) } else { Site::Dashboard };
        // The request line outranks the header (RFC 9112 §3.2.2), and is where HTTP/2 has it.
        let host = match request.uri().authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => headers.get(header::HOST).cloned(),
        };
        let visit = Visit::of(request.method(), headers);
        Context {
            id,
            port,
            door,
            prefix: route::prefix_len(self.settings.hosts.origins()),
            links: Links { port, ..self.links(site, &asked) },
            asked,
            visit,
            caller: OnceLock::new(),
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

        if let Some(port) = context.port {
            ports::check(self.settings.hosts.origins(), &self.settings.ports, port)?;
        }
        if context.door != Door::Path && policy::is_prefetch(headers) {
            return Err(ProxyError::Prefetch.into());
        }
        if context.door == Door::Apart && own::is_entrance(request.method(), context.below(request.uri())) {
            let (uri, headers) = (request.uri(), request.headers());
            return Ok(handover::enter(self, context, uri, headers).await?);
        }

        let identified = self.callers.identify(headers, context.keeper()).await?;
        let _ = context.caller.set(identified.caller.user);
        if let Some(arrival) = request.extensions().get::<front::Arrival>() {
            arrival.place.signed_in();
        }
        let (entry, view) = self.routes.find(context.id, context.port.is_some()).await?;
        self.callers.admit(&view, identified.caller, context.port).map_err(|error| match error {
            // Nobody has a session of a port's origin who was never let in there.
            ProxyError::NotYours if context.port.is_some() => {
                ProxyError::NotShared(context.door == Door::Apart && identified.caller.by_cookie)
            }
            error => error,
        })?;
        let owns = view.owner == identified.caller.user;
        if context.door == Door::Open {
            if !method.is_safe() {
                return Err(ProxyError::Method(method.clone()).into());
            }
            return self.open(context, &entry, &view, request.uri(), headers, identified).await;
        }
        let upgrade = policy::wanted_upgrade(context.version, headers);
        // A page of another origin may neither connect nor write with the cookie.
        let said = context.door == Door::Apart || headers.contains_key(header::ORIGIN);
        let writes = !method.is_safe() && said;
        if upgrade.is_some() || writes {
            self.same_origin(context, headers, identified)?;
        }

        if let Some(call) = own::Call::of(self, context, request, identified)? {
            return Ok(Box::pin(own::answer(self, &entry, call, identified)).await?);
        }

        // What a page of the program loads is no opening of it, and owners' visits to their own ports are nobody's business.
        let opens = context.visit == Visit::Navigation || upgrade.is_some();
        if opens && (context.port.is_none() || !owns) {
            let peer = context.peer.addr.ip();
            let address = client::address(peer, request.headers(), &self.settings.trusted_proxies);
            if let Some(pass) = self.callers.pass(request.headers(), context.keeper(), identified) {
                self.gate.opened(context.origin(), pass.credential(), request.headers(), address);
            }
        }
        let view = match self.decided(context, &view, owns)? {
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

    /// What becomes of the request. Only owners wake.
    ///
    /// # Errors
    /// It does not run, and this is somebody else.
    fn decided(&self, context: &Context, view: &WorkspaceView, owns: bool) -> Result<Answer, ProxyError> {
        match resolve::decide(view, context.visit) {
            Answer::Gone => Ok(Answer::Gone),
            Answer::Forward => Ok(Answer::Forward),
            _ if !owns => Err(ProxyError::OwnerWakes),
            answer => Ok(answer),
        }
    }

    /// # Errors
    /// The page that sent this is not one of ours, and only a cookie spoke for the caller.
    fn same_origin(
        &self,
        context: &Context,
        headers: &HeaderMap,
        identified: Identified,
    ) -> Result<(), ProxyError> {
        let (base_url, asked) = (self.settings.hosts.origins().base_url(), self.shown(context, headers));
        // The dashboard's pages are no pages of a workspace that is apart.
        let also = if context.door == Door::Apart { "" } else { base_url };
        authorize::same_origin(headers, identified.caller, also, asked)
    }

    /// Where the browser sees what it asked for.
    fn shown<'a>(&'a self, context: &'a Context, headers: &'a HeaderMap) -> origin::Asked<'a> {
        let host = context.host.as_ref().and_then(|host| host.to_str().ok());
        origin::Asked::of(self.settings.hosts.origins().base_url(), headers, host, context.trusted)
    }

    /// `/open/{id}`: waits for the workspace where it sleeps, and leads on to its origin.
    async fn open(
        &self,
        context: &Context,
        entry: &Entry,
        view: &Arc<WorkspaceView>,
        uri: &Uri,
        headers: &HeaderMap,
        identified: Identified,
    ) -> Result<Response<ProxyBody>, NotReady> {
        if let Some(answer) = handover::after_form(context, uri) {
            return Ok(answer);
        }
        match self.decided(context, view, view.owner == identified.caller.user)? {
            Answer::Forward => {}
            Answer::Wake | Answer::Wait(_) => {
                Box::pin(wake::hold(self, entry, identified.caller.user)).await?;
            }
            Answer::Close(closed) => return Err(NotReady::Closed(closed, view.clone())),
            Answer::Asleep => return Err(NotReady::Asleep),
            Answer::Gone => return Err(ProxyError::NotFound.into()),
        }
        Ok(handover::opened(self, context, uri, headers, identified).await?)
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
        let settings = context.port.map(|port| PortSettings::among(&view.ports, port));
        let upstream = match &settings {
            None => forward::upstream(self, entry).await,
            Some(settings) => self.port(context, entry, settings.port, settings.scheme).await,
        };
        let upstream = upstream.map_err(|error| context.unreachable(error))?;
        let target = route::upstream_target(request.uri(), context.prefix, !upstream.keeps_prefix)
            .ok_or(ProxyError::BadRequest("this path cannot be forwarded"))?;
        let (path, query) = (context.below(request.uri()), request.uri().query());
        let work = match &settings {
            None if self.is_work(request.method(), path, query) => Work::Lasting,
            None => Work::No,
            Some(settings) => self.port_work(context, view, settings, request.method(), path),
        };
        if work != Work::No && (upgrade.is_none() || settings.is_some()) {
            entry.cell.record(ActivityKind::Http);
        }
        let cell = (work == Work::Lasting).then(|| entry.cell.clone());
        let pass = self.callers.pass(request.headers(), context.keeper(), identified);
        let (client, mut warrant) = match (pass, &upgrade) {
            (Some(pass), Some(_)) => (Some(self.client(path, query, context.port, pass)), None),
            (Some(pass), None) => (None, Some(Warrant::new(self.callers.clone(), entry, pass, || false))),
            (None, _) => (None, None),
        };

        let headers = request.headers();
        let sent = forward::framing(headers, request.body());
        let expects = forward::expects_go_on(headers, request.body());
        let names = settings.as_ref().map(|settings| {
            let shown = self.shown(context, headers).origin();
            Names::of(self.settings.hosts.origins(), context.id, settings, shown, &context.asked)
        });
        let local = names.as_ref().and_then(Names::local);
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
                host: names.as_ref().and_then(Names::host).or(host),
                policy: RequestPolicy {
                    named: &named,
                    our_authorization: identified.our_authorization
                        || secret.is_some_and(Secret::is_authorization),
                    cookies: joined.as_deref().map_or(Cookies::Searched, Cookies::Replaced),
                    plain_websockets: upgrade.is_some() && view.ide.plain_websockets && names.is_none(),
                    local,
                },
                forwarded: local
                    .is_none()
                    .then(|| Forwarded::new(claims, &chain, context.peer.tls, host, prefix)),
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
        let exchange = forward::exchange(self, entry, upstream, &outgoing, body);
        let answer = match &mut warrant {
            // What a workspace was told so far it knows; nothing more of it arrives.
            Some(warrant) => warrant.during(exchange).await.ok_or(ProxyError::SignIn)?,
            None => exchange.await,
        };
        let answer = match (answer, context.port) {
            (Ok(answer), _) => answer,
            (Err(error), None) => return Err(context.unreachable(error)),
            (Err(error), Some(port)) => {
                let mut error = ports::explained(error, port);
                if let ProxyError::Silent(silent) = &mut error
                    && context.visit == Visit::Navigation
                    && view.owner == identified.caller.user
                {
                    silent.others = self.others(context, port).await;
                }
                return Err(context.unreachable(error));
            }
        };
        let below = names.as_ref().map(Names::below).unwrap_or_default();
        let place = Mount {
            port: names.as_ref().map(|names| names.place(&below)),
            ..context.place(entry, &answer.upstream)
        };
        self.finish(entry, cell, answer, client, warrant, &place)
    }

    /// Whether somebody does this, rather than a tab by itself. The path is the one below the workspace's.
    fn is_work(&self, method: &Method, path: &str, query: Option<&str>) -> bool {
        !self.settings.rules.is_poll(method, path, query)
    }

    fn client(
        &self,
        path: &str,
        query: Option<&str>,
        port: Option<u16>,
        pass: authorize::Pass,
    ) -> websocket::Client {
        let watch = Watch::new(&self.settings.rules, path).filter(|_| port.is_none()).map(Box::new);
        let reconnection = watch.as_ref().is_some_and(|watch| watch.is_reconnection(query));
        websocket::Client { reconnection, watch, counts: port.is_none(), pass }
    }

    fn finish(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        cell: Option<Arc<Cell>>,
        answer: forward::Answer,
        client: Option<websocket::Client>,
        warrant: Option<Warrant>,
        place: &Mount<'_>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        match client {
            Some(client) if websocket::agreed(&answer) => {
                let response = websocket::switch(self, entry, answer, client, place)?;
                self.metrics.request(Outcome::Upgraded);
                Ok(response)
            }
            _ => {
                let response = forward::respond(cell, answer, warrant, place)?;
                self.metrics.request(Outcome::Proxied);
                Ok(response)
            }
        }
    }

    /// As the person chose for their account, where it is known who that is; else as their browser says.
    async fn look_of(&self, context: &Context) -> Appearance {
        let Some(user) = context.caller.get().filter(|_| context.visit == Visit::Navigation) else {
            return context.look;
        };
        // A page is not worth failing for its language.
        let (lang, theme) = self.gate.appearance(*user).await.unwrap_or_default();
        Appearance { lang: lang.unwrap_or(context.look.lang), theme: theme.unwrap_or(context.look.theme) }
    }

    /// What is sent when the workspace itself does not answer.
    async fn explain(
        &self,
        context: &Context,
        not_ready: NotReady,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Response<ProxyBody> {
        let navigation = context.visit == Visit::Navigation;
        let (look, links) = (self.look_of(context).await, &context.links);
        let (outcome, response) = match not_ready {
            // Signing in and waiting are the dashboard's: pages with power have no place on a workspace's origin.
            NotReady::Error(ProxyError::SignIn)
            | NotReady::Loading(..)
            | NotReady::Closed(..)
            | NotReady::Limit(..)
                if navigation && context.door == Door::Apart =>
            {
                (Outcome::Redirected, handover::to_dashboard(self, context, headers, uri))
            }
            NotReady::Error(ProxyError::SignIn) if navigation => {
                (Outcome::Redirected, redirect(StatusCode::SEE_OTHER, sign_in_address(uri)))
            }
            NotReady::Error(ProxyError::IdePort) if navigation => {
                let to = self.settings.hosts.origins().url_seen_from(context.id, &context.asked);
                let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
                (Outcome::Redirected, redirect(StatusCode::TEMPORARY_REDIRECT, to))
            }
            NotReady::Error(ProxyError::TwoSessions)
                if navigation && (context.heals || context.door != Door::Apart) =>
            {
                let to = if context.heals { here(uri) } else { sign_in_address(uri) };
                let mut response = redirect(StatusCode::SEE_OTHER, to);
                if context.heals {
                    let host = context.host.iter().map(|host| (header::HOST, host.clone())).collect();
                    let (answer, name) = (response.headers_mut(), self.callers.cookie(context.keeper()));
                    planted::heal_named(answer, &host, uri, self.settings.https(), &name);
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
                let mut response = render(&error, context.visit, look, links, Some(context.id));
                if matches!(error, ProxyError::NotFound)
                    && context.door == Door::Apart
                    && self.settings.hosts.origins().are_own()
                {
                    // Nobody else has an origin of this name.
                    let all = HeaderValue::from_static("\"cache\", \"storage\"");
                    response.headers_mut().insert("clear-site-data", all);
                }
                if matches!(error, ProxyError::BadRequest(_) | ProxyError::RequestBrokeOff)
                    && context.version < Version::HTTP_2
                {
                    // Where a request is not understood, neither is what follows it.
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                if matches!(error, ProxyError::TwoSessions) && context.door == Door::Path {
                    let below = route::base_path(context.id);
                    planted::expire_below(response.headers_mut(), &below, self.settings.https());
                }
                (outcome, response)
            }
            NotReady::Asleep => (Outcome::Asleep, asleep()),
            NotReady::Loading(waiting, view) => {
                (Outcome::Loading, pages::loading(look, links, waiting, &view))
            }
            NotReady::Closed(closed, view) if navigation => {
                let archive = match view.archive_key.filter(|_| closed == resolve::Closed::Archived) {
                    Some(key) => self.gate.archive(key).await,
                    None => None,
                };
                (Outcome::Closed, pages::closed(look, links, closed, &view, archive))
            }
            NotReady::Closed(_, view) => {
                let message = format!("the workspace is {} and cannot be reached", view.phase);
                (Outcome::Closed, json(StatusCode::BAD_GATEWAY, "UPSTREAM_UNAVAILABLE", &message))
            }
            NotReady::Limit(hit, view) => (Outcome::Limit, pages::limit(look, links, &hit, &view)),
        };
        self.metrics.request(outcome);
        response
    }
}

/// Whether a path of the dashboard's origin is the proxy's.
pub fn is_ours(uri: &Uri) -> bool {
    uri.path().starts_with("/w/") || uri.path().starts_with(route::OPEN)
}

/// Where somebody who sent a form of the dashboard is led: as `path`, which may be `/open/{id}` on the way to another
/// origin.
pub fn after_form(path: &str) -> std::borrow::Cow<'_, str> {
    route::after_form(path)
}
