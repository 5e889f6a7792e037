//! The header policy: what passes between a client and a workspace, line by line, in either direction.
//!
//! There is one of it. Lines come from HTTP/1 as they were sent or from a [`HeaderMap`] (HTTP/2, and whatever
//! was taken apart for the phases), and are judged by the same two functions:
//! [`RequestPolicy::judge`] towards the workspace and [`ResponsePolicy::judge`] towards the browser. What is in the
//! list of names ([`names`]) is decided there; everything else passes byte for byte.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};

use crate::{credential, error::ProxyError};

pub(crate) mod cookies;
pub(crate) mod location;
pub(crate) mod names;
mod request;

pub(crate) use names::{HeaderKind, kind};
pub(crate) use request::{FORWARDED_HOST, Forwarded, RequestHead, Sent, copy_lines, forwarded_chain, put};

use location::Mount;

/// One header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub kind: HeaderKind,
    /// As it came, line end included; empty where it did not come as a line.
    pub raw: &'a [u8],
}

impl<'a> Line<'a> {
    pub(crate) fn new(name: &'a HeaderName, value: &'a HeaderValue) -> Self {
        let name = name.as_str().as_bytes();
        Self { name, value: value.as_bytes(), kind: kind(name), raw: &[] }
    }
}

/// The lines of a map.
pub(crate) fn lines(headers: &HeaderMap) -> impl Iterator<Item = Line<'_>> {
    headers.iter().map(|(name, value)| Line::new(name, value))
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    Keep,
    Drop,
    /// The same name with another value.
    Replace(Cow<'a, [u8]>),
}

/// The names that `Connection` claims for this hop.
#[derive(Debug, Default)]
pub(crate) struct Named(Vec<Box<[u8]>>);

impl Named {
    pub(crate) fn of<'a>(lines: impl Iterator<Item = Line<'a>>) -> Self {
        let mut named = Vec::new();
        for line in lines.filter(|line| line.kind == HeaderKind::Connection) {
            for token in items(line.value) {
                // Those two are everywhere, and name nothing.
                if !token.eq_ignore_ascii_case(b"close") && !token.eq_ignore_ascii_case(b"keep-alive") {
                    named.push(token.into());
                }
            }
        }
        Self(named)
    }

    /// Whether this line is claimed. What frames or addresses a message, or speaks for somebody, is not to be
    /// talked away by a client.
    fn claims(&self, line: &Line<'_>) -> bool {
        let end_to_end = matches!(
            line.kind,
            HeaderKind::ContentLength
                | HeaderKind::Host
                | HeaderKind::Cookie
                | HeaderKind::SetCookie
                | HeaderKind::Authorization
        ) || line.name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"sec-"));
        !end_to_end && self.0.iter().any(|name| name.eq_ignore_ascii_case(line.name))
    }
}

/// The items of a comma-separated value.
pub(crate) fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}

/// The comma-separated items of all headers of that name.
pub(crate) fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).iter().flat_map(|value| items(value.as_bytes()))
}

/// What a workspace gets to see of our session cookie: nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cookies<'a> {
    /// Every line is looked at.
    Searched,
    /// All lines together become this one (none where it is blank), written by whoever knows it.
    Replaced(&'a [u8]),
    /// There is no session among them.
    AsSent,
}

/// What passes to a workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestPolicy<'a> {
    pub named: &'a Named,
    /// `Authorization` is not the workspace's. A token of ours in it never passes.
    pub our_authorization: bool,
    pub cookies: Cookies<'a>,
    /// WebSocket compression is withheld.
    pub plain_websockets: bool,
    /// The program is told that its browser is on the same machine.
    pub local: Option<Local<'a>>,
}

/// How pages are called here, and how a program inside would call them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local<'a> {
    /// The origin that the browser shows.
    pub shown: &'a str,
    /// The same as seen from inside.
    pub inside: &'a str,
}

impl Local<'_> {
    /// An address on this origin, as seen from inside. `None` where it is another's.
    fn seen_inside(&self, address: &[u8]) -> Option<Vec<u8>> {
        let (origin, rest) = address.split_at_checked(self.shown.len())?;
        let whole = rest.is_empty() || rest[0] == b'/';
        (whole && origin.eq_ignore_ascii_case(self.shown.as_bytes()))
            .then(|| [self.inside.as_bytes(), rest].concat())
    }
}

impl RequestPolicy<'_> {
    /// Everything we say ourselves (see [`RequestHead::write`]) is dropped from what a client says.
    pub(crate) fn judge<'l>(&self, line: &Line<'l>) -> Verdict<'l> {
        let drop_if = |goes| if goes { Verdict::Drop } else { Verdict::Keep };
        match line.kind {
            HeaderKind::Claim
            | HeaderKind::Connection
            | HeaderKind::ContentLength
            | HeaderKind::Disguised
            | HeaderKind::Expect
            | HeaderKind::HopByHop
            | HeaderKind::Host
            | HeaderKind::RequestId
            | HeaderKind::Te
            | HeaderKind::TransferEncoding
            | HeaderKind::Upgrade => Verdict::Drop,
            HeaderKind::Authorization => {
                drop_if(self.our_authorization || credential::carries_token(line.value))
            }
            HeaderKind::Cookie => match self.cookies {
                Cookies::AsSent => Verdict::Keep,
                Cookies::Replaced(_) => Verdict::Drop,
                Cookies::Searched => cookies::without_ours_if_there(line.value),
            },
            HeaderKind::WebSocketExtensions => drop_if(self.plain_websockets),
            HeaderKind::Origin | HeaderKind::Referer => {
                let seen = self.local.and_then(|local| local.seen_inside(line.value));
                match seen {
                    Some(seen) if !self.named.claims(line) => Verdict::Replace(seen.into()),
                    _ => drop_if(self.named.claims(line)),
                }
            }
            HeaderKind::ClearSiteData
            | HeaderKind::ContentType
            | HeaderKind::Date
            | HeaderKind::FetchSite
            | HeaderKind::Location
            | HeaderKind::NoTrailer
            | HeaderKind::OpenerPolicy
            | HeaderKind::OriginWide
            | HeaderKind::Other
            | HeaderKind::ServiceWorkerAllowed
            | HeaderKind::SetCookie
            | HeaderKind::Trailer => drop_if(self.named.claims(line)),
        }
    }
}

/// What passes to a browser. Where a workspace shares its origin, with the dashboard or with other workspaces, an answer
/// must not speak for all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponsePolicy<'a> {
    pub named: &'a Named,
    pub place: Mount<'a>,
}

impl<'p> ResponsePolicy<'p> {
    /// Framing (`Content-Length`) is not judged here: whoever writes the answer knows how it is framed.
    pub(crate) fn judge<'l>(&self, line: &Line<'l>) -> Verdict<'l>
    where
        'p: 'l,
    {
        match line.kind {
            HeaderKind::Connection
            | HeaderKind::Disguised
            | HeaderKind::HopByHop
            | HeaderKind::OriginWide
            | HeaderKind::RequestId
            | HeaderKind::Te
            | HeaderKind::TransferEncoding
            | HeaderKind::Upgrade => Verdict::Drop,
            HeaderKind::SetCookie => match cookies::confine(line.value, self.place.base_path) {
                Some(confined) => Verdict::Replace(confined.into()),
                None => Verdict::Drop,
            },
            HeaderKind::ServiceWorkerAllowed if self.place.is_own() => self.kept(line),
            HeaderKind::ServiceWorkerAllowed => Verdict::Replace(self.place.base_path.as_bytes().into()),
            HeaderKind::ClearSiteData if self.place.is_own() => match clearable(line.value) {
                Some(left) => Verdict::Replace(left.into()),
                None => Verdict::Drop,
            },
            HeaderKind::ClearSiteData => Verdict::Drop,
            HeaderKind::Location => match location::rewrite(line.value, &self.place) {
                Some(moved) => Verdict::Replace(moved.into()),
                None => Verdict::Keep,
            },
            HeaderKind::Authorization
            | HeaderKind::Claim
            | HeaderKind::ContentLength
            | HeaderKind::ContentType
            | HeaderKind::Cookie
            | HeaderKind::Date
            | HeaderKind::Expect
            | HeaderKind::FetchSite
            | HeaderKind::Host
            | HeaderKind::NoTrailer
            | HeaderKind::OpenerPolicy
            | HeaderKind::Origin
            | HeaderKind::Other
            | HeaderKind::Referer
            | HeaderKind::Trailer
            | HeaderKind::WebSocketExtensions => self.kept(line),
        }
    }

    fn kept<'l>(&self, line: &Line<'l>) -> Verdict<'l> {
        if self.named.claims(line) { Verdict::Drop } else { Verdict::Keep }
    }
}

/// What of a `Clear-Site-Data` ends at its origin: `cookies` empties the whole registrable domain, and `*` means all.
fn clearable(value: &[u8]) -> Option<Vec<u8>> {
    let ends_here = |item: &&[u8]| matches!(*item, b"\"cache\"" | b"\"storage\"");
    let left: Vec<&[u8]> = items(value).filter(ends_here).collect();
    (!left.is_empty()).then(|| left.join(&b", "[..]))
}

/// What every answer of a workspace says on an origin that is not the dashboard's: nobody else frames it, and its pages
/// share no process with other origins.
pub(crate) const APART: [(&str, &str); 2] =
    [("content-security-policy", "frame-ancestors 'self'"), ("origin-agent-cluster", "?1")];
/// The same, of a program that says nothing about it itself: windows it was opened from do not reach it.
pub(crate) const OPENER_POLICY: (&str, &str) = ("cross-origin-opener-policy", "same-origin-allow-popups");

/// The headers of a workspace's answer, fit for the origin it is on.
pub(crate) fn clean_response(headers: &HeaderMap, place: Mount<'_>) -> HeaderMap {
    let named = Named::of(lines(headers));
    let policy = ResponsePolicy { named: &named, place };
    let mut clean = HeaderMap::with_capacity(headers.len() + 2);
    for (name, value) in headers {
        match policy.judge(&Line::new(name, value)) {
            Verdict::Keep => drop(clean.append(name, value.clone())),
            Verdict::Drop => {}
            Verdict::Replace(other) => {
                // A piece of a valid value is one.
                if let Ok(value) = HeaderValue::from_bytes(&other) {
                    clean.append(name, value);
                }
            }
        }
    }
    if let Some(port) = place.port {
        if let Ok(policy) = HeaderValue::try_from(format!("frame-ancestors 'self' {}", port.workspace)) {
            clean.append(header::CONTENT_SECURITY_POLICY, policy);
        }
        clean.append(HeaderName::from_static("origin-agent-cluster"), HeaderValue::from_static("?1"));
        clean.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"));
    } else if place.apart {
        for (name, value) in APART {
            clean.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let (name, value) = OPENER_POLICY;
        clean.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    clean
}

/// Whether a browser loads this before anybody asked for it.
pub(crate) fn is_prefetch(headers: &HeaderMap) -> bool {
    let purpose = headers.get("purpose");
    headers.contains_key("sec-purpose")
        || purpose.is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"prefetch"))
}

/// Whether a field may stand behind a body: it must have been announced, and mean nothing to those it passes.
pub(crate) fn may_trail(name: &HeaderName, announced: &[HeaderName]) -> bool {
    announced.contains(name) && kind(name.as_str().as_bytes()) == HeaderKind::Other
}

/// Whether a client takes trailers.
pub(crate) fn takes_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &header::TE).any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// The trailers that a message announces.
pub(crate) fn announced_trailers(headers: &HeaderMap) -> Vec<HeaderName> {
    tokens(headers, &header::TRAILER).filter_map(|name| HeaderName::from_bytes(name).ok()).collect()
}

/// Refuses what could mean two things. The parser has refused most of it before; this is what only
/// the whole head can tell.
///
/// # Errors
/// The request is ambiguous, or of a kind that is not proxied.
pub(crate) fn screen(
    method: &Method,
    uri: &http::Uri,
    version: Version,
    headers: &HeaderMap,
) -> Result<(), ProxyError> {
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Err(ProxyError::Method(method.clone()));
    }
    if headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(ProxyError::BadRequest("Content-Length was sent more than once"));
    }
    if headers.get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
        // One of them could be a token of ours, and the workspace would get it.
        return Err(ProxyError::BadRequest("Authorization was sent more than once"));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if another.is_some() || (host.is_none() && version == Version::HTTP_11) {
        return Err(ProxyError::BadRequest("exactly one Host is needed"));
    }
    if host.is_some_and(|host| !is_host(host.as_bytes())) {
        return Err(ProxyError::BadRequest("Host names no host"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(ProxyError::BadRequest("a user has no place in the address"));
    }
    Ok(())
}

/// Whether this could be the host and port of an address.
pub(crate) fn is_host(host: &[u8]) -> bool {
    !host.is_empty() && host.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(b))
}

/// The protocol a request wants to switch to. Not HTTP/2 in clear: what would then pass through is
/// HTTP without any of this hygiene, so such a request is forwarded as the plain one it also is.
pub(crate) fn wanted_upgrade(version: Version, headers: &HeaderMap) -> Option<HeaderValue> {
    if version != Version::HTTP_11 {
        return None;
    }
    let asks = tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case(b"upgrade"));
    let protocol = headers.get(header::UPGRADE).filter(|_| asks)?;
    let h2c = protocol.as_bytes().get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"h2c"));
    (!h2c).then(|| protocol.clone())
}

/// What a browser says of the page that sent a request: `Sec-Fetch-Site`.
pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether that page is one of the same origin, or there is none (an address typed, a bookmark).
pub(crate) fn is_same_origin(fetch_site: &[u8]) -> bool {
    matches!(fetch_site, b"same-origin" | b"none")
}

/// Whether the page that sent this is one of another origin.
pub(crate) fn is_sent_elsewhere(headers: &HeaderMap) -> bool {
    headers.get_all(FETCH_SITE).iter().any(|site| !is_same_origin(site.as_bytes()))
}

/// The same, other than by leading a person here.
pub(crate) fn is_embedded_elsewhere(method: &Method, headers: &HeaderMap) -> bool {
    let foreign = is_sent_elsewhere(headers);
    let is = |name: &str, value: &[u8]| headers.get(name).is_some_and(|found| found.as_bytes() == value);
    let followed =
        *method == Method::GET && is("sec-fetch-mode", b"navigate") && is("sec-fetch-dest", b"document");
    foreign && !followed
}

/// Whether a `Content-Type` is that of an event stream, whose heartbeats are nobody's work.
pub(crate) fn is_event_stream(kind: &[u8]) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    kind.get(..EVENTS.len()).is_some_and(|start| start.eq_ignore_ascii_case(EVENTS))
}
