//! The session cookie.

use codehub_proxy::credential::SESSION_COOKIE;
use http::{HeaderMap, HeaderValue, header::COOKIE};

/// How many session cookies a request carries. With several, one of them was planted (by a program
/// on a sibling domain, say), and nobody can tell which: none counts.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    None,
    One(&'a str),
    Several,
}

/// Looks for the session in every `Cookie` header.
pub fn session_secret(headers: &HeaderMap) -> Found<'_> {
    let mut found = Found::None;
    for value in headers.get_all(COOKIE) {
        // One strange byte in somebody else's cookie does not hide ours.
        for pair in value.as_bytes().split(|b| *b == b';') {
            let Some(at) = pair.iter().position(|b| *b == b'=') else { continue };
            if pair[..at].trim_ascii() != SESSION_COOKIE.as_bytes() {
                continue;
            }
            if found != Found::None {
                return Found::Several;
            }
            let secret = str::from_utf8(pair[at + 1..].trim_ascii()).unwrap_or_default();
            found = Found::One(secret.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or(secret));
        }
    }
    found
}

/// `Set-Cookie` for a new session. Without an end of its own: the store decides how long it lasts, and
/// the browser keeps it a good while longer than that.
pub fn set(secret: &str, https: bool) -> HeaderValue {
    build(&format!("{SESSION_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000"), https)
}

/// `Set-Cookie` that ends it.
pub fn clear(https: bool) -> HeaderValue {
    build(&format!("{SESSION_COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"), https)
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
            Found::None => "-".into(),
            Found::One(secret) => secret.to_owned(),
            Found::Several => "several".into(),
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
        assert!(clear(true).to_str().unwrap().contains("Max-Age=0"));
    }
}
