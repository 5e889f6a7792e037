//! A request whose every phase is settled by what is known already: nobody is asked, and nothing is built that is
//! not sent. The bytes that came are the bytes that leave, as far as the policy lets them.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use bytes::BytesMut;
use codehub_domain::{WorkspaceId, origins::WorkspaceOrigin};
use codehub_upstream::Secret;
use http::{Method, Version};

use crate::{
    Peer, Proxy,
    activity::ActivityKind,
    authorize::{self, Keeper, Pass, Recognized, bearer_in},
    client,
    error::ProxyError,
    forward::SURELY_ALIVE,
    front::Front,
    hosts::Site,
    http1::{
        answer::{self, Copied},
        head,
        pool::Lease,
    },
    own,
    policy::{
        Cookies, Forwarded, HeaderKind, Named, RequestHead, RequestPolicy, Sent, cookies, forwarded_chain,
        is_host, is_same_origin, items, location::Mount,
    },
    request_id::new_id,
    route,
    routes::Fresh,
    wake::resolve::{self, Answer, Visit},
    warrant::Warrant,
};

/// The other end of the connection.
pub(super) struct Client {
    /// What is known from its last request; lent to the one that is under way.
    pub(super) memo: Option<Box<Memo>>,
    pub(super) peer: Peer,
    /// A proxy in front of us, whose word counts.
    trusted: bool,
    /// Paths of the dashboard's hosts name workspaces here.
    by_path: bool,
    /// What workspaces are told about where it is.
    chain: Vec<u8>,
}

impl Client {
    pub(super) fn new(front: &Front, peer: Peer) -> Self {
        let ip = peer.addr.ip();
        let trusted = client::is_trusted(ip, &front.trusted_proxies);
        let origins = front.hosts.origins();
        let by_path = if origins.are_apart() { front.workspaces_only } else { true };
        Self { memo: None, peer, trusted, by_path, chain: forwarded_chain(None, ip) }
    }
}

/// Everything the phases find out, for a request with the same credentials to the same workspace. Connections
/// ask the same again and again, and what all threads share is slow to touch.
pub(super) struct Memo {
    authorization: Option<Box<[u8]>>,
    cookie: Option<Box<[u8]>>,
    /// What of the cookies is the workspace's, where some of ours are among them.
    cookie_left: Option<Vec<u8>>,
    host: Box<str>,
    caller: Recognized,
    pub(super) fresh: Fresh,
}

impl Memo {
    /// `None` where somebody has to be asked, or told something else than what the workspace answers.
    fn new(
        proxy: &Proxy,
        target: &str,
        host: &[u8],
        by_path: bool,
        authorization: Option<&[u8]>,
        cookie: Option<&[u8]>,
    ) -> Option<Box<Self>> {
        // The same host again is the same answer; another is looked at anew.
        let host = std::str::from_utf8(host).ok().filter(|host| is_host(host.as_bytes()))?;
        let id = match proxy.settings.hosts.site(host.as_bytes())? {
            Site::Workspace(id) => id,
            Site::Dashboard if by_path => route::split(target)?.0,
            Site::Dashboard | Site::Workspaces | Site::Port(..) | Site::OldPort(..) => return None,
        };
        let host = host.into();
        let apart = proxy.settings.hosts.origins().are_apart();
        let keeper = keeper_of(apart, id);
        let session = proxy.callers.session_in(cookie, keeper);
        let caller = proxy.callers.recognize(authorization.and_then(bearer_in), session, keeper)?;
        let fresh = proxy.routes.fresh(id)?;
        authorize::owner_only(&fresh.view, caller.identified.caller).ok()?;
        if resolve::decide(&fresh.view, Visit::Other) != Answer::Forward {
            return None;
        }
        let cookie_left = cookie.filter(|cookie| cookies::has_ours(cookie)).map(cookies::without_ours);
        let (authorization, cookie) = (authorization.map(Box::from), cookie.map(Box::from));
        Some(Box::new(Self { authorization, cookie, cookie_left, host, caller, fresh }))
    }

    fn is_of(&self, prefix: &str, host: &[u8], authorization: Option<&[u8]>, cookie: Option<&[u8]>) -> bool {
        self.fresh.entry.base.prefix == prefix
            && self.host.as_bytes() == host
            && self.authorization.as_deref() == authorization
            && self.cookie.as_deref() == cookie
    }

    /// What an answer that takes its time is let out by.
    pub(super) fn warrant(&self, proxy: &Proxy) -> Option<Warrant> {
        let entry = &self.fresh.entry;
        let keeper = keeper_of(entry.base.apart, entry.id);
        let bearer = self.authorization.as_deref().and_then(bearer_in);
        let session = proxy.callers.session_in(self.cookie.as_deref(), keeper);
        let pass = Pass::of(bearer, session, keeper, self.caller.identified)?;
        Some(Warrant::new(proxy.callers.clone(), entry, pass, || self.holds(proxy)))
    }

    fn holds(&self, proxy: &Proxy) -> bool {
        let now = Instant::now();
        self.fresh.is_current(now) && proxy.callers.still_recognizes(&self.caller, now)
    }
    fn place(&self) -> Mount<'_> {
        let Fresh { entry, upstream, .. } = &self.fresh;
        Mount {
            base_path: &entry.base.path,
            upstream: upstream.address.port(),
            host: Some(&self.host),
            strip_prefix: !upstream.keeps_prefix,
            apart: entry.base.apart,
            port: None,
        }
    }
}

/// Whose cookie speaks to the workspace itself.
fn keeper_of(apart: bool, workspace: WorkspaceId) -> Keeper {
    if apart { Keeper::Workspace(WorkspaceOrigin { workspace, port: None }) } else { Keeper::Dashboard }
}

/// A request that is on its way.
pub(super) struct Begun {
    pub(super) lease: Lease,
    pub(super) memo: Box<Memo>,
    /// Somebody does this.
    pub(super) work: bool,
    pub(super) id: [u8; 32],
    pub(super) close: bool,
    pub(super) method: Method,
}

/// What has to be known of a request before it can be recognised.
#[derive(Default)]
struct Credentials<'b> {
    cookie: Option<&'b [u8]>,
    authorization: Option<&'b [u8]>,
    host: Option<&'b [u8]>,
}

impl<'b> Credentials<'b> {
    /// `None`: the request is not of the plain kind.
    fn of(request: &head::Request<'b>, trusted: bool) -> Option<Self> {
        let mut found = Self::default();
        for line in request.lines.iter() {
            let only = match line.kind {
                HeaderKind::Cookie => &mut found.cookie,
                HeaderKind::Authorization => &mut found.authorization,
                HeaderKind::Host => &mut found.host,
                HeaderKind::Connection if names_nothing(line.value) => continue,
                HeaderKind::Connection
                | HeaderKind::ContentLength
                | HeaderKind::Expect
                | HeaderKind::RequestId
                | HeaderKind::Te
                | HeaderKind::TransferEncoding
                | HeaderKind::Upgrade => return None,
                HeaderKind::Claim if trusted => return None,
                HeaderKind::FetchSite if !is_same_origin(line.value) => return None,
                _ => continue,
            };
            if only.replace(line.value).is_some() {
                return None;
            }
        }
        Some(found)
    }
}

/// Whether a `Connection` is about nothing but the connection.
fn names_nothing(connection: &[u8]) -> bool {
    items(connection)
        .all(|item| item.eq_ignore_ascii_case(b"close") || item.eq_ignore_ascii_case(b"keep-alive"))
}

/// Begins the request, if nothing about it needs a second look.
pub(super) fn begin(proxy: &Proxy, client: &mut Client, request: &head::Request<'_>) -> Option<Begun> {
    let method = match request.method {
        "GET" => Method::GET,
        "HEAD" => Method::HEAD,
        _ => return None,
    };
    let prefix = route::prefix_len(proxy.settings.hosts.origins());
    let (prefix, rest) = request.target.split_at_checked(prefix)?;
    let plain = rest.starts_with('/') && rest.bytes().all(is_plain) && !own::is_own(rest);
    if request.version != Version::HTTP_11 || !plain {
        return None;
    }
    let Credentials { cookie, authorization, host } = Credentials::of(request, client.trusted)?;
    let host = host?;
    let memo = client.memo.take();
    let memo = memo.filter(|memo| memo.is_of(prefix, host, authorization, cookie) && memo.holds(proxy));
    let memo = match memo {
        Some(memo) => memo,
        None => Memo::new(proxy, request.target, host, client.by_path, authorization, cookie)?,
    };
    let Some(mut lease) = proxy.pool.take_within(&memo.fresh.upstream, SURELY_ALIVE) else {
        client.memo = Some(memo);
        return None;
    };
    let id = new_id();
    write(lease.wire.begin(), request, client, &memo, &id);
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let work = proxy.is_work(&method, path, query);
    if work {
        memo.fresh.entry.cell.record(ActivityKind::Http);
    }
    Some(Begun { lease, memo, work, id, close: request.close, method })
}

/// Means the same to every reader of a path; the rest takes every phase.
fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let signs = b"-._~!$&'()*+,;=:@/?%";
        let mut n = 0;
        while n < 256 {
            plain[n] = (n as u8).is_ascii_alphanumeric();
            n += 1;
        }
        n = 0;
        while n < signs.len() {
            plain[signs[n] as usize] = true;
            n += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
}

/// Writes the request's head for the workspace.
fn write(out: &mut BytesMut, request: &head::Request<'_>, client: &Client, memo: &Memo, id: &[u8; 32]) {
    let (prefix, host) = (memo.fresh.entry.base.prefix.as_bytes(), memo.host.as_bytes());
    let gone = if memo.fresh.upstream.keeps_prefix { 0 } else { prefix.len() };
    let cookies = memo.cookie_left.as_deref().map_or(Cookies::AsSent, Cookies::Replaced);
    let secret = memo.fresh.upstream.secret.as_ref();
    let our_authorization =
        memo.caller.identified.our_authorization || secret.is_some_and(Secret::is_authorization);
    let named = Named::default();
    out.reserve(request.lines.raw().len() + 2 * host.len() + prefix.len() + client.chain.len() + 192);
    let head = RequestHead {
        method: request.method,
        target: &request.target.as_bytes()[gone..],
        host: Some(host),
        policy: RequestPolicy {
            named: &named,
            our_authorization,
            cookies,
            plain_websockets: false,
            local: None,
        },
        forwarded: Some(Forwarded::new(None, &client.chain, client.peer.tls, Some(host), prefix)),
        request_id: id,
        secret: secret.map(Secret::line),
        upgrade: None,
        trailers: false,
        expects: false,
        body: Sent::Nothing,
    };
    head.write(out, request.lines.iter());
}

impl Begun {
    /// Sends the request and reads the head of its answer, which is then written to `out`.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
        ending: bool,
    ) -> Poll<Result<Copied, ProxyError>> {
        let Self { lease, memo, method, id, close, .. } = self;
        let (place, close) = (memo.place(), *close || ending);
        let copied = lease.wire.poll_answer(cx, method, |answer| {
            // Nobody asked for a switch, so whoever says so has not understood.
            (!answer.status.is_informational()).then(|| answer::copy(out, answer, method, place, id, close))
        });
        copied.map(|copied| {
            copied?.ok_or_else(|| ProxyError::BadResponse("101 to a request that did not ask for it".into()))
        })
    }
}
