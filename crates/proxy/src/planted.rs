//! Session cookies that somebody else planted beside ours: a script of a workspace (for a path), or a program at a
//! neighbouring name (for the domain above). Nobody can tell which is which, so none counts (401). A person is not left
//! locked out: the page they open is answered once by a redirect to itself that expires the name wherever a cookie that
//! was sent can have been set, and then by the sign-in page, which says why.

use std::{
    net::IpAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use http::{
    HeaderMap, HeaderValue, Method, Uri,
    header::{HOST, SET_COOKIE},
};
use sha2::{Digest as _, Sha256};

use crate::{appearance, credential::CookieNames, wake::resolve::Visit};

/// Says that cookies were removed, for which page and when.
const MARK: &str = "healed";
/// So long it counts. Longer-lived ones were planted, too.
const SECONDS: u64 = 30;
/// Nobody has more domains above their host; each is a header in the answer.
const MOST_DOMAINS: usize = 6;
/// Browsers ignore longer paths in cookies.
const LONGEST_PATH: usize = 1024;
/// What lies deeper is a workspace's own, and harms only that.
const MOST_PATHS: usize = 24;

/// Whether a request that carries several sessions should be answered by [`heal`]: a person opens a page, and it was not
/// tried just now.
pub fn can_heal(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    *method == Method::GET
        && Visit::of(method, headers) == Visit::Navigation
        && !marks(headers).any(|mark| mark.is_some_and(|mark| mark == path_hash(uri.path())))
}

/// Whether cookies were removed from this browser a moment ago.
pub fn was_healed(headers: &HeaderMap) -> bool {
    marks(headers).any(|mark| mark.is_some())
}

/// Makes the answer expire every session cookie that can have been sent with this request, and notes that it did. The
/// person's own is among them: it cannot be told from the others.
pub fn heal(answer: &mut HeaderMap, request: &HeaderMap, uri: &Uri, https: bool) {
    heal_named(answer, request, uri, https, CookieNames::of(https).session);
}

/// [`heal`], for a cookie of another name.
pub(crate) fn heal_named(answer: &mut HeaderMap, request: &HeaderMap, uri: &Uri, https: bool, cookie: &str) {
    expire_named(answer, request, uri.path(), https, cookie);
    let secure = if https { "; Secure" } else { "" };
    let text = format!(
        "{MARK}={}.{}; Path=/; HttpOnly; SameSite=Lax; Max-Age={SECONDS}{secure}",
        now(),
        path_hash(uri.path())
    );
    append(answer, &text);
}

/// Ends the session's cookie, with every planted one that a browser could send beside it to `path`: a cookie is known by
/// its name, its path and its domain, so each place is named.
pub fn expire(answer: &mut HeaderMap, request: &HeaderMap, path: &str, https: bool) {
    expire_named(answer, request, path, https, CookieNames::of(https).session);
}

fn expire_named(answer: &mut HeaderMap, request: &HeaderMap, path: &str, https: bool, name: &str) {
    let secure = if https { "; Secure" } else { "" };
    for domain in domains(request) {
        for place in prefixes(path) {
            append(
                answer,
                &format!("{name}=; Path={place}{domain}; HttpOnly; SameSite=Lax; Max-Age=0{secure}"),
            );
        }
    }
}

/// Ends session cookies that were set below a workspace's path: its scripts can plant them there, and ours never is. For
/// what is not opened by a person, and so cannot be led around.
pub(crate) fn expire_below(answer: &mut HeaderMap, base_path: &str, https: bool) {
    let name = CookieNames::of(https).session;
    for path in [base_path, base_path.trim_end_matches('/')] {
        append(answer, &format!("{name}=; Path={path}; Max-Age=0"));
    }
}

fn append(answer: &mut HeaderMap, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        answer.append(SET_COOKIE, value);
    }
}

/// The paths whose cookies are sent to `path`, and to what is below it: `/`, `/a`, `/a/`, `/a/b`, `/a/b/`.
fn prefixes(path: &str) -> impl Iterator<Item = String> {
    let whole = format!("{}/", path.trim_end_matches('/'));
    // A semicolon would end the path within the cookie: no cookie has such a one.
    let end = whole.find(';').unwrap_or(whole.len());
    let slashes = whole.match_indices('/').flat_map(|(at, _)| [at, at + 1]);
    let ends: Vec<usize> =
        slashes.filter(|at| (1..=LONGEST_PATH.min(end)).contains(at)).take(MOST_PATHS).collect();
    ends.into_iter().map(move |at| whole[..at].to_owned())
}

/// No domain, which is how our own is set; and where the host has a name, that and those above it.
fn domains(request: &HeaderMap) -> Vec<String> {
    let host = request.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    let is_name = !name.is_empty() && name.bytes().all(is_plain) && name.parse::<IpAddr>().is_err();
    let above = name.match_indices('.').map(|(at, _)| &name[at + 1..]).filter(|above| above.contains('.'));
    let named = [name].into_iter().chain(above).filter(|_| is_name).take(MOST_DOMAINS);
    [String::new()].into_iter().chain(named.map(|name| format!("; Domain={name}"))).collect()
}

/// For which pages cookies were removed within the last seconds; `None` for marks that are not ours, or too old.
fn marks(headers: &HeaderMap) -> impl Iterator<Item = Option<String>> {
    appearance::cookies(headers, MARK).map(|mark| {
        let (at, page) = mark.split_once('.')?;
        let age = now().abs_diff(at.parse().ok()?);
        (age <= SECONDS).then(|| page.to_owned())
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn path_hash(path: &str) -> String {
    Sha256::digest(path.as_bytes())[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(host: &str, path: &str) -> Vec<String> {
        let request = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
        let mut answer = HeaderMap::new();
        expire(&mut answer, &request, path, false);
        let all = answer.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap().to_owned());
        all.map(|text| {
            assert!(text.starts_with("session=; Path=/") && text.ends_with("Max-Age=0"), "{text}");
            text.trim_start_matches("session=; Path=").split("; HttpOnly").next().unwrap().to_owned()
        })
        .collect()
    }

    #[test]
    fn every_place_is_named_where_a_cookie_could_have_been_planted() {
        assert_eq!(places("127.0.0.1:8080", "/logout"), ["/", "/logout", "/logout/"]);
        assert_eq!(places("127.0.0.1:8080", "/"), ["/"]);
        assert_eq!(places("[::1]:8080", "/a/b"), ["/", "/a", "/a/", "/a/b", "/a/b/"]);
        assert_eq!(places("[::1]:8080", "/a/b/"), ["/", "/a", "/a/", "/a/b", "/a/b/"]);
        let all = ["", "; Domain=code.example.org", "; Domain=example.org"]
            .map(|domain| ["/", "/x", "/x/"].map(|place| format!("{place}{domain}")));
        assert_eq!(places("code.example.org:443", "/x"), all.concat());
        assert_eq!(places("a;b", "/x"), ["/", "/x", "/x/"]);
        assert_eq!(places("127.0.0.1", "/x;Domain=evil.example/y"), ["/"]);
        assert!(
            places("a.b.c.d.e.f.g.h.example", &"/a".repeat(500)).len() <= MOST_PATHS * (MOST_DOMAINS + 1)
        );
    }

    #[test]
    fn a_page_is_healed_once_and_marks_that_were_planted_do_not_stop_it() {
        let uri = |path: &str| path.parse::<Uri>().unwrap();
        let with = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-mode", "navigate".parse().unwrap());
            headers.insert("cookie", cookie.parse().unwrap());
            headers
        };
        let mut answer = HeaderMap::new();
        heal(&mut answer, &with(""), &uri("/tokens?x=y"), false);
        let mark = answer.get_all(SET_COOKIE).iter().next_back().unwrap().to_str().unwrap();
        assert!(mark.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=30"), "{mark}");
        let mark = mark.split(';').next().unwrap();
        assert!(!can_heal(&Method::GET, &uri("/tokens"), &with(mark)), "once");
        assert!(can_heal(&Method::GET, &uri("/account"), &with(mark)), "another page");
        assert!(was_healed(&with(mark)));
        let old = format!("healed={}.{}", now() - 60, path_hash("/tokens"));
        for planted in ["", "healed=1", "healed=x.y", &old] {
            assert!(can_heal(&Method::GET, &uri("/tokens"), &with(planted)), "{planted}");
            assert!(!was_healed(&with(planted)), "{planted}");
        }
        assert!(!can_heal(&Method::POST, &uri("/tokens"), &with("")));
        assert!(!can_heal(&Method::GET, &uri("/tokens"), &HeaderMap::new()), "no person");
    }
}
