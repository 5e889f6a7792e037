//! Header hygiene: what a hop keeps to itself stays, what is forwarded is true.
//!
//! Towards the workspace: hop-by-hop headers and whatever `Connection` names are removed, forwarding
//! headers are ours alone (or a trusted proxy's), our own cookie and token are taken out.
//! Towards the browser: hop-by-hop again, cookies and redirects stay below the workspace's path, and
//! headers that would speak for the whole origin are dropped, because in path mode that origin is
//! the dashboard's.

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Version,
    header::{self, Entry},
};

use super::{cookies, error::ProxyError, location};

/// Headers that concern one hop only (RFC 9110 §7.6.1, and what is seen in the wild).
pub(super) const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Answers of a workspace that would speak for the whole origin, dashboard included.
pub(super) const ORIGIN_WIDE: [HeaderName; 7] = [
    HeaderName::from_static("clear-site-data"),
    header::STRICT_TRANSPORT_SECURITY,
    HeaderName::from_static("public-key-pins"),
    HeaderName::from_static("expect-ct"),
    header::ALT_SVC,
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
];

const SERVICE_WORKER_ALLOWED: HeaderName = HeaderName::from_static("service-worker-allowed");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The comma-separated items of all headers of that name.
pub(super) fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&b| b == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

/// Refuses what could mean two things. The parser has refused most of it before; this is what only
/// the whole head can tell.
///
/// # Errors
/// The request is ambiguous, or of a kind that is not proxied.
pub(super) fn screen(method: &Method, version: Version, headers: &HeaderMap) -> Result<(), ProxyError> {
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        return Err(ProxyError::Method(method.clone()));
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // Anything but plain chunked would reach the workspace still encoded but no longer marked.
        let mut codings = tokens(headers, &header::TRANSFER_ENCODING);
        let only_chunked = codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"))
            && codings.next().is_none();
        if !only_chunked {
            return Err(ProxyError::BadRequest("this Transfer-Encoding is not supported"));
        }
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err(ProxyError::BadRequest("both Content-Length and Transfer-Encoding were sent"));
        }
    }
    if headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(ProxyError::BadRequest("Content-Length was sent more than once"));
    }
    if headers.get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
        // One of them could be a token of ours, and the workspace would get it.
        return Err(ProxyError::BadRequest("Authorization was sent more than once"));
    }
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && version == Version::HTTP_11) {
        return Err(ProxyError::BadRequest("exactly one Host is needed"));
    }
    Ok(())
}

/// The protocol a request wants to switch to. Not HTTP/2 in clear: what would then pass through is
/// HTTP without any of this hygiene, so such a request is forwarded as the plain one it also is.
pub(super) fn wanted_upgrade(version: Version, headers: &HeaderMap) -> Option<HeaderValue> {
    if version != Version::HTTP_11 {
        return None;
    }
    let asks = tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case(b"upgrade"));
    let protocol = headers.get(header::UPGRADE).filter(|_| asks)?;
    let h2c = protocol.as_bytes().get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"h2c"));
    (!h2c).then(|| protocol.clone())
}

/// Removes what belongs to this hop. What `Connection` names goes too, except headers that frame or
/// address the message: a client must not talk us out of those.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
            .filter_map(|token| HeaderName::from_bytes(token).ok())
            .filter(|name| !is_end_to_end(name))
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

fn is_end_to_end(name: &HeaderName) -> bool {
    [header::CONTENT_LENGTH, header::HOST, header::COOKIE, header::SET_COOKIE, header::AUTHORIZATION]
        .contains(name)
        || name.as_str().starts_with("sec-")
}

/// Where a request came from, as far as we know it ourselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub peer: Option<IpAddr>,
    pub tls: bool,
    /// The peer is a proxy in front of us whose word counts.
    pub trusted: bool,
    pub host: Option<&'a HeaderValue>,
    /// `/w/{id}`
    pub prefix: &'a HeaderValue,
}

/// Replaces everything a client may have claimed about where it comes from.
pub(super) fn set_forwarded(headers: &mut HeaderMap, origin: Origin<'_>) {
    let claimed = |name: &HeaderName| origin.trusted.then(|| headers.get(name).cloned()).flatten();
    let (for_, proto, host) = (claimed(&FORWARDED_FOR), claimed(&FORWARDED_PROTO), claimed(&FORWARDED_HOST));
    remove_claims(headers);
    let chain = match (origin.peer, for_) {
        (Some(peer), Some(before)) => {
            let mut chain = before.as_bytes().to_vec();
            chain.extend_from_slice(format!(", {peer}").as_bytes());
            HeaderValue::from_bytes(&chain).ok()
        }
        (Some(peer), None) => HeaderValue::try_from(peer.to_string()).ok(),
        (None, before) => before,
    };
    if let Some(chain) = chain {
        headers.insert(FORWARDED_FOR, chain);
    }
    let scheme = HeaderValue::from_static(if origin.tls { "https" } else { "http" });
    headers.insert(FORWARDED_PROTO, proto.unwrap_or(scheme));
    if let Some(host) = host.as_ref().or(origin.host) {
        headers.insert(FORWARDED_HOST, host.clone());
    }
    headers.insert(FORWARDED_PREFIX, origin.prefix.clone());
}

fn remove_claims(headers: &mut HeaderMap) {
    let claims = |name: &HeaderName| {
        let name = name.as_str();
        name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip")
    };
    if headers.keys().any(claims) {
        let names: Vec<HeaderName> = headers.keys().filter(|name| claims(name)).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }
}

/// The host a trusted proxy says it was asked for, else the one we were asked for.
pub(super) fn effective_host(
    headers: &HeaderMap,
    trusted: bool,
    host: Option<&HeaderValue>,
) -> Option<String> {
    let claimed = trusted.then(|| headers.get(FORWARDED_HOST)).flatten();
    claimed.or(host).and_then(|host| host.to_str().ok()).map(str::to_owned)
}

/// Whether a `Content-Type` is that of an event stream, whose heartbeats are nobody's work.
pub(super) fn is_event_stream(kind: &[u8]) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    kind.get(..EVENTS.len()).is_some_and(|start| start.eq_ignore_ascii_case(EVENTS))
}

/// A service worker of a workspace may control its own pages and no others: every copy of the header is replaced
/// by one of ours, whatever it says. It is not compared: `/w/{id}/../../` begins with the base path too, and
/// browsers resolve it (as they do `%2e%2e` and `\`). Where there is none, browsers allow less than this.
fn confine_service_worker(headers: &mut HeaderMap, base_path: &str) {
    if headers.remove(SERVICE_WORKER_ALLOWED).is_some()
        && let Ok(own) = HeaderValue::from_str(base_path)
    {
        headers.insert(SERVICE_WORKER_ALLOWED, own);
    }
}

/// Makes a response fit for the dashboard's origin.
pub(super) fn clean_response(headers: &mut HeaderMap, place: &location::Place<'_>) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // It framed that hop's body; a length beside it would frame ours wrongly.
        headers.remove(header::CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
    for name in &ORIGIN_WIDE {
        headers.remove(name);
    }
    cookies::confine(headers, place.base_path);
    confine_service_worker(headers, place.base_path);
    if let Entry::Occupied(mut at) = headers.entry(header::LOCATION)
        && let Some(moved) = location::rewrite(at.get().as_bytes(), place)
        && let Ok(moved) = HeaderValue::from_bytes(&moved)
    {
        at.insert(moved);
    }
}
