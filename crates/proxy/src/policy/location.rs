//! Redirects that point at the workspace's own address are led back under `/w/{id}/`.

use std::net::SocketAddr;

/// Where a workspace is, seen from both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mount<'a> {
    /// `/w/{id}/`, or `/` on an origin of its own.
    pub base_path: &'a str,
    /// `None`: no address leads there.
    pub upstream: Option<SocketAddr>,
    /// The host the workspace was told it is: its absolute redirects may name it.
    pub host: Option<&'a str>,
    pub strip_prefix: bool,
    /// Its origin is not the dashboard's.
    pub apart: bool,
    /// It is a port of a workspace.
    pub port: Option<PortPlace<'a>>,
}

/// Where the ports of a workspace are, seen from a browser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortPlace<'a> {
    pub scheme: &'a str,
    /// What follows the number of a port in a host: `-{id}.{domain}:8080`.
    pub below: &'a str,
    /// The workspace's own origin, which may frame them.
    pub workspace: &'a str,
}

impl Mount<'_> {
    /// Whether the origin is this workspace's alone.
    pub(crate) fn is_own(&self) -> bool {
        self.base_path == "/"
    }
}

/// The rewritten location, or `None` where it is right as it is.
pub(crate) fn rewrite(location: &[u8], place: &Mount<'_>) -> Option<Vec<u8>> {
    if let Some(PortPlace { scheme, below, .. }) = place.port {
        // To another program of the same workspace, or to itself by the name it has inside.
        let (authority, rest) = authority(location)?;
        let port = local_port(authority)?;
        return Some([format!("{scheme}://{port}{below}").as_bytes(), rest].concat());
    }
    let (rest, named_upstream) = match authority(location) {
        Some((authority, rest)) if is_upstream(authority, place) => (rest, true),
        Some((authority, rest)) if is_us(authority, place) => (rest, false),
        // Somewhere else altogether.
        Some(_) => return None,
        None => (location, false),
    };
    let absolute = rest.starts_with(b"/");
    if !absolute && !named_upstream {
        // Relative to where the browser is, or (after our own authority) nothing but a query.
        return None;
    }
    let base = place.base_path.as_bytes();
    let inside = rest.starts_with(base) || rest == &base[..base.len() - 1];
    let needs_prefix = (place.strip_prefix || named_upstream) && !inside;
    if !needs_prefix {
        return named_upstream.then(|| rest.to_vec());
    }
    let mut out = base[..base.len() - 1].to_vec();
    if !absolute {
        out.push(b'/');
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Splits `scheme://authority/rest` and `//authority/rest`.
fn authority(location: &[u8]) -> Option<(&str, &[u8])> {
    let lower: Vec<u8> = location.iter().take(8).map(u8::to_ascii_lowercase).collect();
    let after = if lower.starts_with(b"http://") {
        7
    } else if lower.starts_with(b"https://") {
        8
    } else if lower.starts_with(b"//") {
        2
    } else {
        return None;
    };
    let rest = &location[after..];
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#' | b'\\')).unwrap_or(rest.len());
    Some((std::str::from_utf8(&rest[..end]).ok()?, &rest[end..]))
}

fn is_upstream(authority: &str, place: &Mount<'_>) -> bool {
    let Some(upstream) = place.upstream else { return false };
    if authority.parse() == Ok(upstream) {
        return true;
    }
    local_port(authority) == Some(upstream.port())
}

/// The port, where the host is the machine itself.
fn local_port(authority: &str) -> Option<u16> {
    let (host, port) = authority.rsplit_once(':')?;
    let local = ["localhost", "0.0.0.0", "127.0.0.1", "[::1]", "[::]"]
        .iter()
        .any(|name| host.eq_ignore_ascii_case(name));
    port.parse().ok().filter(|port| local && *port != 0)
}

fn is_us(authority: &str, place: &Mount<'_>) -> bool {
    place.host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
}
