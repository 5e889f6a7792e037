//! Cookies in both directions: ours never reach the workspace, the workspace's never leave its host and path.

use http::{HeaderMap, HeaderValue, header};

use super::Verdict;
use crate::credential::CookieNames;

/// How many session cookies a request has. Two could mean that somebody planted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session<'a> {
    None,
    One(&'a [u8]),
    Several,
}

/// The name and value of one `name=value` part, without the white space around them.
fn split(part: &[u8]) -> (&[u8], &[u8]) {
    match part.iter().position(|&b| b == b'=') {
        Some(at) => (part[..at].trim_ascii(), part[at + 1..].trim_ascii()),
        None => (&[], part.trim_ascii()),
    }
}

/// Whether it is one of ours, read or not.
fn is_ours(part: &[u8]) -> bool {
    CookieNames::any_is(split(part).0)
}

fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b';')
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes)
}

/// Our session cookie, which is called so, among all cookies of all `Cookie` headers.
pub(crate) fn session<'h>(headers: &'h HeaderMap, name: &str) -> Session<'h> {
    session_in(cookies(headers), name)
}

/// What those cookies hold whose names begin so.
pub(crate) fn starting<'h>(headers: &'h HeaderMap, start: &str) -> impl Iterator<Item = &'h [u8]> {
    cookies(headers)
        .flat_map(parts)
        .map(split)
        .filter(move |(name, _)| name.starts_with(start.as_bytes()))
        .map(|(_, value)| value)
}

/// Our session cookie, which is called so, among the values of all `Cookie` headers.
pub(crate) fn session_in<'a>(values: impl Iterator<Item = &'a [u8]>, name: &str) -> Session<'a> {
    let mut found = Session::None;
    for part in values.flat_map(parts).filter(|part| split(part).0 == name.as_bytes()) {
        found = match found {
            Session::None => Session::One(split(part).1),
            Session::One(_) | Session::Several => return Session::Several,
        };
    }
    found
}

/// What of all cookies is the workspace's, in one line. HTTP/2 clients may split cookies into several headers,
/// which HTTP/1.1 forbids.
pub(crate) fn joined_without_ours(headers: &HeaderMap) -> Vec<u8> {
    let kept: Vec<Vec<u8>> = cookies(headers)
        .map(|value| if parts(value).any(is_ours) { without_ours(value) } else { value.into() })
        .filter(|value| !value.trim_ascii().is_empty())
        .collect();
    kept.join(&b"; "[..])
}

/// A `Cookie` header without those that are ours; everything else stays byte for byte as sent.
pub(crate) fn without_ours_if_there(value: &[u8]) -> Verdict<'_> {
    if !parts(value).any(is_ours) {
        return Verdict::Keep;
    }
    let left = without_ours(value);
    if left.trim_ascii().is_empty() { Verdict::Drop } else { Verdict::Replace(left.into()) }
}

/// Whether one of ours is among the cookies of a `Cookie` header.
pub(crate) fn has_ours(value: &[u8]) -> bool {
    parts(value).any(is_ours)
}

/// What is left of the value of a `Cookie` header that has one of ours in it.
pub(crate) fn without_ours(value: &[u8]) -> Vec<u8> {
    let first_goes = parts(value).next().is_some_and(is_ours);
    let kept: Vec<&[u8]> = parts(value).filter(|part| !is_ours(part)).collect();
    let joined = kept.join(&b';');
    if first_goes { joined.trim_ascii_start().to_vec() } else { joined }
}

/// Confines a cookie that the workspace sets to its own path. `None`: it could be taken for ours, or cannot be
/// confined.
pub(crate) fn confine(cookie: &[u8], base_path: &str) -> Option<Vec<u8>> {
    let mut attributes = cookie.split(|&b| b == b';');
    let pair = attributes.next()?;
    let (name, _) = split(pair);
    // A cookie without a name is sent as its bare value, which could read `session=…`.
    // Such a prefix promises a whole host, which is the workspace's where its origin is.
    let promises = [&b"__host-"[..], b"__http-"].iter().any(|prefix| has_prefix(name, prefix));
    if name.is_empty() || CookieNames::any_resembles(name) || (promises && base_path != "/") {
        return None;
    }
    let mut out = pair.to_vec();
    let mut path = base_path.as_bytes();
    for attribute in attributes {
        let (name, value) = match attribute.iter().position(|&b| b == b'=') {
            Some(_) => split(attribute),
            None => (attribute.trim_ascii(), &[][..]),
        };
        if name.eq_ignore_ascii_case(b"domain") {
            continue;
        }
        if name.eq_ignore_ascii_case(b"path") {
            // The last one counts, as in browsers.
            path = if value.starts_with(base_path.as_bytes()) { value } else { base_path.as_bytes() };
            continue;
        }
        out.push(b';');
        out.extend_from_slice(attribute);
    }
    out.extend_from_slice(b"; Path=");
    out.extend_from_slice(path);
    Some(out)
}

fn has_prefix(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
