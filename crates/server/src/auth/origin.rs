//! Whether a browser sent a request from one of our own pages. Browsers send cookies along with
//! whatever any page makes them send; these headers are what a foreign page cannot forge.

use codehub_proxy::{
    front::Arrival,
    origin::{Asked, is_ours},
};
use http::{
    HeaderMap, Uri,
    header::{HOST, ORIGIN},
    request::Parts,
};

use crate::config::Config;

/// What the browser says about where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// One of our own pages, or the person (an address typed, a bookmark).
    Ours,
    /// Another site's page.
    Foreign,
    /// Nothing is said: no browser, or a very old one.
    Unsaid,
}

/// Judges a request by `Sec-Fetch-Site` and `Origin`. Where both are there, both must agree.
pub fn source(config: &Config, parts: &Parts) -> Source {
    let fetch_site = match parts.headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes) {
        None => Source::Unsaid,
        Some(b"same-origin" | b"none") => Source::Ours,
        Some(_) => Source::Foreign,
    };
    match (fetch_site, origin(config, parts)) {
        (Source::Foreign, _) | (_, Source::Foreign) => Source::Foreign,
        (Source::Ours, _) | (_, Source::Ours) => Source::Ours,
        (Source::Unsaid, Source::Unsaid) => Source::Unsaid,
    }
}

/// Judges by `Origin` alone: it must be the public base, or the very scheme, host and port the request was sent to.
fn origin(config: &Config, parts: &Parts) -> Source {
    let headers = &parts.headers;
    let mut values = headers.get_all(ORIGIN).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return if headers.contains_key(ORIGIN) { Source::Foreign } else { Source::Unsaid };
    };
    let trusted = parts.extensions.get::<Arrival>().is_some_and(|arrival| arrival.trusted);
    let asked = Asked::of(&config.public_base_url, headers, host(&parts.uri, headers), trusted);
    let ours = value.to_str().is_ok_and(|origin| is_ours(origin, &config.public_base_url, asked));
    if ours { Source::Ours } else { Source::Foreign }
}

/// The host a request was sent to: HTTP/2 has it in the URI, HTTP/1.1 in the header.
pub fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    uri.authority().map(http::uri::Authority::as_str).or_else(|| headers.get(HOST)?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = http::Request::get(uri);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_our_own_pages_count_as_ours() {
        let config = Config::with(&[
            ("data_dir", "/tmp/x"),
            ("public_base_url", "https://code.example.com"),
            ("proxy.domain", "apps.example"),
        ])
        .unwrap();
        let table: &[(&[(&str, &str)], Source)] = &[
            (&[], Source::Unsaid),
            (&[("sec-fetch-site", "same-origin")], Source::Ours),
            (&[("sec-fetch-site", "none")], Source::Ours),
            (&[("sec-fetch-site", "same-site")], Source::Foreign),
            (&[("sec-fetch-site", "cross-site")], Source::Foreign),
            (&[("origin", "https://code.example.com")], Source::Ours),
            (&[("origin", "http://code.example.com")], Source::Foreign),
            (&[("origin", "https://code.example.com:8443")], Source::Foreign),
            (&[("origin", "https://127.0.0.1:8080"), ("host", "127.0.0.1:8080")], Source::Ours),
            (&[("origin", "http://127.0.0.1:8080"), ("host", "127.0.0.1:8080")], Source::Foreign),
            (&[("origin", "http://127.0.0.1:8081"), ("host", "127.0.0.1:8080")], Source::Foreign),
            (&[("origin", "https://evil.example"), ("host", "127.0.0.1:8080")], Source::Foreign),
            (&[("origin", "null"), ("host", "127.0.0.1:8080")], Source::Foreign),
            (&[("origin", "https://code.example.com.evil.example")], Source::Foreign),
            (&[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")], Source::Foreign),
            (&[("origin", "https://code.example.com"), ("sec-fetch-site", "cross-site")], Source::Foreign),
            (&[("origin", "https://code.example.com"), ("origin", "https://evil.example")], Source::Foreign),
        ];
        for (pairs, expected) in table {
            assert_eq!(source(&config, &parts("/api/v1/x", pairs)), *expected, "{pairs:?}");
        }
    }

    #[test]
    fn http2_has_its_host_in_the_uri() {
        let config = Config::with(&[("data_dir", "/tmp/x")]).unwrap();
        let sent = parts("http://box.local:9/api/v1/x", &[("origin", "http://box.local:9")]);
        assert_eq!(source(&config, &sent), Source::Ours);
    }
}
