//! Whether a page is one of ours, by the `Origin` that its browser sends: scheme, host and port.

use http::{HeaderMap, HeaderName};

use crate::policy::FORWARDED_HOST;

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Where a request was sent to, as its browser sees it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// `https` or `http`.
    pub scheme: &'a str,
    /// Host and port, where it says one.
    pub authority: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// What a trusted proxy says of it, else what the request itself does; by the scheme of the public base URL, unless
    /// that proxy knows better.
    pub fn of(base_url: &'a str, headers: &'a HeaderMap, host: Option<&'a str>, trusted: bool) -> Self {
        let claim = |name| trusted.then(|| headers.get(name)?.to_str().ok()).flatten();
        let base = if base_url.starts_with("https://") { "https" } else { "http" };
        let scheme = claim(FORWARDED_PROTO).filter(|scheme| matches!(*scheme, "https" | "http"));
        Self { scheme: scheme.unwrap_or(base), authority: claim(FORWARDED_HOST).or(host) }
    }

    /// The origin, as a browser would say it.
    pub fn origin(&self) -> String {
        let authority = self.authority.unwrap_or_default();
        format!("{}://{}", self.scheme, plain(self.scheme, authority).to_ascii_lowercase())
    }
}

/// Whether this `Origin` is the public base, or the very scheme, host and port that the request was sent to.
pub fn is_ours(origin: &str, base_url: &str, asked: Asked<'_>) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let is = |other_scheme: &str, other: &str| {
        scheme.eq_ignore_ascii_case(other_scheme)
            && plain(scheme, authority).eq_ignore_ascii_case(plain(other_scheme, other))
    };
    base_url.split_once("://").is_some_and(|(scheme, authority)| is(scheme, authority))
        || asked.authority.is_some_and(|authority| is(asked.scheme, authority))
}

/// Without the port that goes without saying.
fn plain<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(port).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_port_all_count() {
        let base = "https://code.example.com";
        for (origin, asked, ours) in [
            ("https://code.example.com", None, true),
            ("https://CODE.example.com:443", None, true),
            ("http://code.example.com", None, false),
            ("https://code.example.com:8443", None, false),
            ("https://code.example.com:8443", Some("code.example.com:8443"), true),
            ("http://code.example.com:443", None, false),
            ("http://10.0.0.5", Some("10.0.0.5"), false),
            ("https://10.0.0.5", Some("10.0.0.5:443"), true),
            ("https://code.example.com.evil.example", None, false),
            ("null", Some("null"), false),
            ("", Some(""), false),
        ] {
            let asked = Asked { scheme: "https", authority: asked };
            assert_eq!(is_ours(origin, base, asked), ours, "{origin} {asked:?}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_says_more() {
        let headers: HeaderMap = [("x-forwarded-host", "code.example.com"), ("x-forwarded-proto", "https")]
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        for (trusted, ours) in [(true, true), (false, false)] {
            let asked = Asked::of("http://127.0.0.1:8080", &headers, Some("127.0.0.1:8081"), trusted);
            assert_eq!(is_ours("https://code.example.com", "http://127.0.0.1:8080", asked), ours);
            assert_eq!(is_ours("http://127.0.0.1:8081", "http://127.0.0.1:8080", asked), !ours);
        }
    }
}
