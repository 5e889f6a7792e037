//! A request whose every phase is settled by what is known already: nobody is asked, nothing is rewritten, and
//! nothing is built that is not sent.

use std::{
    fmt::Write as _,
    task::{Context, Poll},
    time::Instant,
};

use bytes::{BufMut as _, BytesMut};
use http::Method;

use super::{
    super::{
        Peer, Proxy,
        authorize::{self, Recognized, bearer_in},
        cookies::{self, Session},
        error::ProxyError,
        forward::SURELY_ALIVE,
        inbound::Incoming,
        own,
        pool::Lease,
        resolve::{self, Step, Visit},
        route,
        routes::Fresh,
    },
    answer::{self, Read},
    names::Known,
    request::Plain,
};
use crate::{activity::Kind, client, request_id::new_id};

/// The other end of the connection.
pub(super) struct Client {
    /// What is known from its last request; lent to the one that is under way.
    pub(super) memo: Option<Box<Memo>>,
    pub(super) peer: Peer,
    /// A proxy in front of us, whose word counts.
    trusted: bool,
    /// What is said about it to workspaces.
    forwarded: String,
}

impl Client {
    pub(super) fn new(proxy: &Proxy, peer: Peer) -> Self {
        let ip = peer.addr.ip().to_canonical();
        let scheme = if peer.tls { "https" } else { "http" };
        let mut forwarded = String::new();
        let _ = write!(forwarded, "x-forwarded-for: {ip}\r\nx-forwarded-proto: {scheme}\r\n");
        let trusted = client::is_trusted(ip, &proxy.settings.trusted_proxies);
        Self { memo: None, peer, trusted, forwarded }
    }
}

/// Everything the phases find out, for a request with the same credentials to the same workspace. Connections
/// ask the same again and again, and what all threads share is slow to touch.
pub(super) struct Memo {
    authorization: Option<Box<[u8]>>,
    cookie: Option<Box<[u8]>>,
    /// What of the cookies is the workspace's, where our session is among them.
    cookie_left: Option<Vec<u8>>,
    caller: Recognized,
    pub(super) fresh: Fresh,
}

impl Memo {
    /// `None` where somebody has to be asked, or told something else than what the workspace answers.
    fn new(
        proxy: &Proxy,
        target: &str,
        authorization: Option<&[u8]>,
        cookie: Option<&[u8]>,
    ) -> Option<Box<Self>> {
        let (id, _) = route::split(target)?;
        let session = cookies::session_in(cookie.into_iter());
        let has_session = session != Session::None;
        let caller = proxy.callers.recognize(authorization.and_then(bearer_in), session)?;
        let fresh = proxy.routes.fresh(id)?;
        authorize::owner_only(&fresh.view, caller.identified.caller).ok()?;
        if resolve::decide(&fresh.view, Visit::Other) != Step::Forward {
            return None;
        }
        let cookie_left = cookie.filter(|_| has_session).map(cookies::without_session);
        let (authorization, cookie) = (authorization.map(Box::from), cookie.map(Box::from));
        Some(Box::new(Self { authorization, cookie, cookie_left, caller, fresh }))
    }

    fn is_of(&self, prefix: &str, authorization: Option<&[u8]>, cookie: Option<&[u8]>) -> bool {
        self.fresh.entry.base.prefix == prefix
            && self.authorization.as_deref() == authorization
            && self.cookie.as_deref() == cookie
    }

    fn holds(&self, proxy: &Proxy) -> bool {
        let now = Instant::now();
        self.fresh.is_current(now) && proxy.callers.still_recognizes(&self.caller, now)
    }
}

/// A request that is on its way.
pub(super) struct Begun {
    pub(super) lease: Lease,
    pub(super) memo: Box<Memo>,
    /// Somebody does this.
    pub(super) work: bool,
    pub(super) id: [u8; 32],
    pub(super) close: bool,
    method: Method,
}

/// Begins the request, if nothing about it needs a second look.
pub(super) fn begin(proxy: &Proxy, client: &mut Client, plain: &Plain<'_>) -> Option<Begun> {
    let (prefix, rest) = plain.target.split_at_checked(route::PREFIX_LEN)?;
    if !rest.starts_with('/') || own::is_own(rest) || !rest.bytes().all(is_plain) {
        return None;
    }
    let (mut cookie, mut authorization, mut host) = (None, None, None);
    for (line, kind) in plain.lines.iter().zip(plain.known) {
        let only = match kind {
            Known::Cookie => &mut cookie,
            Known::Authorization => &mut authorization,
            Known::Host => &mut host,
            Known::RequestId => return None,
            Known::Claim if client.trusted => return None,
            _ => continue,
        };
        if only.replace(line.value).is_some() {
            return None;
        }
    }
    let memo = client.memo.take();
    let memo = memo.filter(|memo| memo.is_of(prefix, authorization, cookie) && memo.holds(proxy));
    let memo = match memo {
        Some(memo) => memo,
        None => Memo::new(proxy, plain.target, authorization, cookie)?,
    };
    let Some(mut lease) = proxy.pool.take_within(&memo.fresh.upstream, SURELY_ALIVE) else {
        client.memo = Some(memo);
        return None;
    };
    let id = new_id();
    write(lease.wire.begin(), plain, client, &memo, host?, &id);
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let work = proxy.is_work(&plain.method, path, query);
    if work {
        memo.fresh.entry.cell.record(Kind::Http);
    }
    Some(Begun { lease, memo, work, id, close: plain.close, method: plain.method.clone() })
}

/// Means the same to every reader of a path; the rest is the library's to judge.
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
fn write(out: &mut BytesMut, plain: &Plain<'_>, client: &Client, memo: &Memo, host: &[u8], id: &[u8; 32]) {
    let prefix = memo.fresh.entry.base.prefix.as_bytes();
    out.reserve(plain.bytes.len() + host.len() + prefix.len() + client.forwarded.len() + 128);
    let gone = if memo.fresh.view.ide.strip_prefix { prefix.len() } else { 0 };
    let target = &plain.target.as_bytes()[gone..];
    put(out, &[plain.method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"]);
    let goes = |kind: Known| match kind {
        Known::Authorization => memo.caller.identified.our_authorization,
        Known::Cookie => memo.cookie_left.is_some(),
        Known::Connection | Known::HopByHop | Known::Claim => true,
        _ => false,
    };
    copy_lines(out, plain.bytes, plain.lines, plain.known, goes);
    if let Some(left) = memo.cookie_left.as_ref().filter(|left| !left.trim_ascii().is_empty()) {
        put(out, &[b"cookie: ", left, b"\r\n"]);
    }
    put(out, &[client.forwarded.as_bytes(), b"x-forwarded-host: ", host]);
    put(out, &[b"\r\nx-forwarded-prefix: ", prefix, b"\r\nx-request-id: ", id, b"\r\n\r\n"]);
}

pub(super) fn put(out: &mut BytesMut, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.put_slice(part));
}

/// Copies the lines of a head as they came, but for those that go.
pub(super) fn copy_lines(
    out: &mut BytesMut,
    head: &[u8],
    lines: &[httparse::Header<'_>],
    known: &[Known],
    goes: impl Fn(Known) -> bool,
) {
    let at = |line: &httparse::Header<'_>| line.name.as_ptr().addr() - head.as_ptr().addr();
    // The empty line at the end is not one of them.
    let end = head.len() - 2;
    let mut from = lines.first().map_or(end, at);
    for (n, kind) in known.iter().enumerate() {
        if goes(*kind) {
            out.put_slice(&head[from..at(&lines[n])]);
            from = lines.get(n + 1).map_or(end, at);
        }
    }
    out.put_slice(&head[from..end]);
}

impl Begun {
    /// Sends the request and reads the head of its answer. A plain one is then written to `out`.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
        ending: bool,
    ) -> Poll<Result<Read, ProxyError>> {
        let Self { lease, method, id, close, .. } = self;
        let close = *close || ending;
        let answered = lease.wire.poll_answer(cx, |ahead| answer::read(ahead, method, id, close, out));
        answered.map(|answered| {
            let answered = answered?;
            match &answered {
                Read::Plain { length: 0, keep, .. } => lease.wire.expect(Incoming::Ended, *keep),
                Read::Plain { length, keep, .. } => lease.wire.expect(Incoming::Length(*length), *keep),
                Read::Other(response) => lease.wire.expect_body_of(method, response)?,
            }
            Ok(answered)
        })
    }
}
