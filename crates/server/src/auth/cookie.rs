//! The session cookie.

use std::net::IpAddr;

use codehub_proxy::credential::SESSION_COOKIE;
use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, HOST, SET_COOKIE},
};

/// How many session cookies a request carries. With several, one of them was planted (by a program
/// on a sibling domain, say), and nobody can tell which: none counts.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionCookies<'a> {
    None,
    One(&'a str),
    Several,
}

/// Looks for the session in every `Cookie` header.
pub fn session_secret(headers: &HeaderMap) -> SessionCookies<'_> {
    let mut all = session_secrets(headers);
    match (all.next(), all.next()) {
        (None, _) => SessionCookies::None,
        (Some(secret), None) => SessionCookies::One(secret),
        (Some(_), Some(_)) => SessionCookies::Several,
    }
}

/// What every session cookie holds, planted ones too: to end what is among them, never to let somebody in.
pub fn session_secrets(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    // One strange byte in somebody else's cookie does not hide ours.
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
    pairs.filter_map(|pair| {
        let at = pair.iter().position(|b| *b == b'=')?;
        if pair[..at].trim_ascii() != SESSION_COOKIE.as_bytes() {
            return None;
        }
        let secret = str::from_utf8(pair[at + 1..].trim_ascii()).unwrap_or_default();
        Some(secret.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or(secret))
    })
}

/// `Set-Cookie` for a new session. Without an end of its own: the store decides how long it lasts, and
/// the browser keeps it a good while longer than that.
pub fn set(secret: &str, https: bool) -> HeaderValue {
    build(&format!("{SESSION_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000"), https)
}

/// Ends it, with every planted one that a browser could send beside it to `path`: a cookie is known by its name, its
/// path and its domain, so each place is named.
pub fn clear(answer: &mut HeaderMap, request: &HeaderMap, path: &str, https: bool) {
    for domain in domains(request) {
        for place in prefixes(path) {
            let text = format!("{SESSION_COOKIE}=; Path={place}{domain}; HttpOnly; SameSite=Lax; Max-Age=0");
            answer.append(SET_COOKIE, build(&text, https));
        }
    }
}

/// The paths whose cookies are sent to `path`: `/`, `/a`, `/a/`, `/a/b`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let slashes = path.match_indices('/').flat_map(|(at, _)| [at, at + 1]).filter(|end| *end > 0);
    slashes.chain([path.len()]).map(|end| &path[..end])
}

/// No domain, which is how our own is set; and where the host has a name, that and those above it.
fn domains(request: &HeaderMap) -> Vec<String> {
    /// Nobody has more; each is a header in the answer.
    const MOST: usize = 6;
    let host = request.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    let is_name = !name.is_empty() && name.bytes().all(plain) && name.parse::<IpAddr>().is_err();
    let above = name.match_indices('.').map(|(at, _)| &name[at + 1..]).filter(|above| above.contains('.'));
    let named = [name].into_iter().chain(above).filter(|_| is_name).take(MOST);
    [String::new()].into_iter().chain(named.map(|name| format!("; Domain={name}"))).collect()
}

fn build(cookie: &str, https: bool) -> HeaderValue {
    let text = if https { format!("{cookie}; Secure") } else { cookie.to_owned() };
    // Secrets are base64url, so this is always a valid header; an empty one would be refused later.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(cookies: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
        }
        match session_secret(&headers) {
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
            (&["bad=\u{e9}; session=x"], "x"),
            (&["session=x; session=y"], "several"),
            (&["session=x; session=x"], "several"),
            (&["session=x", "session=y"], "several"),
            (&["session=; session=y"], "several"),
        ];
        for (cookies, expected) in table {
            assert_eq!(find(cookies), *expected, "{cookies:?}");
        }
    }

    #[test]
    fn cookies_are_confined() {
        let plain = set("x", false);
        let plain = plain.to_str().unwrap();
        assert!(plain.starts_with("session=x; Path=/; HttpOnly; SameSite=Lax") && !plain.contains("Secure"));
        assert!(set("x", true).to_str().unwrap().ends_with("; Secure"));
    }

    #[test]
    fn ending_it_names_every_place_a_cookie_could_have_been_planted_at() {
        let places = |host: &str, path: &str| {
            let mut request = HeaderMap::new();
            request.insert(HOST, host.parse().unwrap());
            let mut answer = HeaderMap::new();
            clear(&mut answer, &request, path, false);
            let all = answer.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap().to_owned());
            all.map(|text| {
                assert!(text.starts_with("session=; Path=/") && text.ends_with("Max-Age=0"), "{text}");
                text.trim_start_matches("session=; Path=").split("; HttpOnly").next().unwrap().to_owned()
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(places("127.0.0.1:8080", "/logout"), ["/", "/logout"]);
        assert_eq!(places("[::1]:8080", "/a/b"), ["/", "/a", "/a/", "/a/b"]);
        let named = ["/", "/x", "/; Domain=code.example.org", "/x; Domain=code.example.org"];
        let above = ["/; Domain=example.org", "/x; Domain=example.org"];
        assert_eq!(places("code.example.org:443", "/x"), [&named[..], &above[..]].concat());
        assert_eq!(places("a;b", "/x"), ["/", "/x"]);
    }
}
