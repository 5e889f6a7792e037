//! The cookies that prove something: of a session, and of a browser that somebody has signed in with. What they are
//! called depends on how people come in ([`CookieNames`]).

use codehub_proxy::credential::CookieNames;
use http::{HeaderMap, HeaderValue, header::COOKIE};

pub use codehub_proxy::planted::expire as clear;

/// How long a browser keeps the session's cookie. The store decides how long a session lasts, which is shorter.
const SESSION_SECONDS: u32 = 30 * 86_400;
/// How long somebody's browser is known.
pub const DEVICE_SECONDS: u32 = 180 * 86_400;

/// How many session cookies a request carries. With several, one of them was planted (by a program
/// on a sibling domain, say), and nobody can tell which: none counts.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionCookies<'a> {
    None,
    One(&'a str),
    Several,
}

/// Looks for the session in every `Cookie` header.
pub fn session_secret(headers: &HeaderMap, https: bool) -> SessionCookies<'_> {
    let mut all = session_secrets(headers, https);
    match (all.next(), all.next()) {
        (None, _) => SessionCookies::None,
        (Some(secret), None) => SessionCookies::One(secret),
        (Some(_), Some(_)) => SessionCookies::Several,
    }
}

/// What every session cookie holds, planted ones too: to end what is among them, never to let somebody in.
pub fn session_secrets(headers: &HeaderMap, https: bool) -> impl Iterator<Item = &str> {
    secrets(headers, CookieNames::of(https).session)
}

/// What every cookie of a known browser holds. Whoever has planted one has not planted ours.
pub fn device_secrets(headers: &HeaderMap, https: bool) -> impl Iterator<Item = &str> {
    secrets(headers, CookieNames::of(https).device)
}

fn secrets<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    // One strange byte in somebody else's cookie does not hide ours.
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
    pairs.filter_map(move |pair| {
        let at = pair.iter().position(|b| *b == b'=')?;
        if pair[..at].trim_ascii() != name.as_bytes() {
            return None;
        }
        let secret = str::from_utf8(pair[at + 1..].trim_ascii()).unwrap_or_default();
        Some(secret.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or(secret))
    })
}

/// `Set-Cookie` for a new session. Without an end of its own: the store decides how long it lasts, and
/// the browser keeps it a good while longer than that.
pub fn set(secret: &str, https: bool) -> HeaderValue {
    build(CookieNames::of(https).session, secret, SESSION_SECONDS, https)
}

/// `Set-Cookie` for a browser that is known from now on.
pub fn set_device(secret: &str, https: bool) -> HeaderValue {
    build(CookieNames::of(https).device, secret, DEVICE_SECONDS, https)
}

fn build(name: &str, secret: &str, seconds: u32, https: bool) -> HeaderValue {
    let secure = if https { "; Secure" } else { "" };
    let text = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    // Secrets are base64url, so this is always a valid header; an empty one would be refused later.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(cookies: &[&str], https: bool) -> String {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
        }
        match session_secret(&headers, https) {
            SessionCookies::None => "-".into(),
            SessionCookies::One(secret) => secret.to_owned(),
            SessionCookies::Several => "several".into(),
        }
    }

    #[test]
    fn one_session_cookie_counts_and_two_do_not() {
        let table: &[(&[&str], &str)] = &[
            (&[], "-"),
            (&["a=b"], "-"),
            (&["session=x"], "x"),
            (&["a=b; session=x; c=d"], "x"),
            (&["a=b", "session=\"x\""], "x"),
            (&["xsession=x"], "-"),
            (&["Session=x"], "-"),
            (&["session"], "-"),
            (&["__Host-Http-session=x"], "-"),
            (&["bad=\u{e9}; session=x"], "x"),
            (&["session=x; session=y"], "several"),
            (&["session=x; session=x"], "several"),
            (&["session=x", "session=y"], "several"),
            (&["session=; session=y"], "several"),
        ];
        for (cookies, expected) in table {
            assert_eq!(find(cookies, false), *expected, "{cookies:?}");
        }
    }

    #[test]
    fn by_https_only_names_count_that_nobody_else_can_set() {
        assert_eq!(find(&["session=x"], true), "-");
        assert_eq!(find(&["session=x; __Host-Http-session=y; __host-http-session=z"], true), "y");
        assert_eq!(find(&["__Host-Http-session=x; __Host-Http-session=y"], true), "several");
    }

    #[test]
    fn cookies_are_confined() {
        let plain = set("x", false);
        let plain = plain.to_str().unwrap();
        assert!(plain.starts_with("session=x; Path=/; HttpOnly; SameSite=Lax") && !plain.contains("Secure"));
        let https = "__Host-Http-session=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000; Secure";
        assert_eq!(set("x", true), https);
        let device = "__Host-device=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=15552000; Secure";
        assert_eq!(set_device("x", true), device);
    }
}
