//! Whether a browser sent a request from one of our own pages. Browsers send cookies along with
//! whatever any page makes them send; these headers are what a foreign page cannot forge.

use http::{
    HeaderMap, Uri,
    header::{HOST, ORIGIN},
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
pub fn source(config: &Config, uri: &Uri, headers: &HeaderMap) -> Source {
    let fetch_site = match headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes) {
        None => Source::Unsaid,
        Some(b"same-origin" | b"none") => Source::Ours,
        Some(_) => Source::Foreign,
    };
    match (fetch_site, origin(config, uri, headers)) {
        (Source::Foreign, _) | (_, Source::Foreign) => Source::Foreign,
        (Source::Ours, _) | (_, Source::Ours) => Source::Ours,
        (Source::Unsaid, Source::Unsaid) => Source::Unsaid,
    }
}

/// Judges by `Origin` alone: it must be the public base, or the very host the request was sent to.
pub fn origin(config: &Config, uri: &Uri, headers: &HeaderMap) -> Source {
    let mut values = headers.get_all(ORIGIN).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return if headers.contains_key(ORIGIN) { Source::Foreign } else { Source::Unsaid };
    };
    let Ok(origin) = value.to_str() else {
        return Source::Foreign;
    };
    if origin.eq_ignore_ascii_case(&config.public_base_url) {
        return Source::Ours;
    }
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match (authority, host(uri, headers)) {
        (Some(authority), Some(host)) if authority.eq_ignore_ascii_case(host) => Source::Ours,
        _ => Source::Foreign,
    }
}

/// The host a request was sent to: HTTP/2 has it in the URI, HTTP/1.1 in the header.
pub fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    uri.authority().map(http::uri::Authority::as_str).or_else(|| headers.get(HOST)?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_count_as_ours() {
        let config =
            Config::with(&[("data_dir", "/tmp/x"), ("public_base_url", "https://code.example.com")]).unwrap();
        let table: &[(&[(&str, &str)], Source)] = &[
            (&[], Source::Unsaid),
            (&[("sec-fetch-site", "same-origin")], Source::Ours),
            (&[("sec-fetch-site", "none")], Source::Ours),
            (&[("sec-fetch-site", "same-site")], Source::Foreign),
            (&[("sec-fetch-site", "cross-site")], Source::Foreign),
            (&[("origin", "https://code.example.com")], Source::Ours),
            (&[("origin", "http://127.0.0.1:8080"), ("host", "127.0.0.1:8080")], Source::Ours),
            (&[("origin", "http://127.0.0.1:8081"), ("host", "127.0.0.1:8080")], Source::Foreign),
            (&[("origin", "https://evil.example"), ("host", "127.0.0.1:8080")], Source::Foreign),
            (&[("origin", "null"), ("host", "127.0.0.1:8080")], Source::Foreign),
            (&[("origin", "https://code.example.com.evil.example")], Source::Foreign),
            (&[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")], Source::Foreign),
            (&[("origin", "https://code.example.com"), ("sec-fetch-site", "cross-site")], Source::Foreign),
            (&[("origin", "https://code.example.com"), ("origin", "https://evil.example")], Source::Foreign),
        ];
        for (pairs, expected) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in *pairs {
                headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
            }
            assert_eq!(source(&config, &Uri::from_static("/api/v1/x"), &headers), *expected, "{pairs:?}");
        }
    }

    #[test]
    fn http2_has_its_host_in_the_uri() {
        let config = Config::with(&[("data_dir", "/tmp/x")]).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(ORIGIN, "http://box.local:9".parse().unwrap());
        let uri = Uri::from_static("http://box.local:9/api/v1/x");
        assert_eq!(source(&config, &uri, &headers), Source::Ours);
    }
}
