//! Keeping other web pages out.
//!
//! The owner's browser carries the right to use this server, and any page it
//! shows could try to borrow it. Reading is stopped by the browser itself;
//! changing something, or opening the WebSocket, is allowed only to our own
//! page. Programs that send neither header (curl, scripts) are not browsers and
//! pass: whoever may talk to the port is the proxy's affair.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use subtle::ConstantTimeEq as _;

use crate::error::ApiError;

const SECRET: HeaderName = HeaderName::from_static("x-codehub-secret");

pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let harmless = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !request.headers().contains_key(header::UPGRADE)
        // HTTP/2 opens WebSockets with CONNECT, which is not harmless anyway.
        && !request.headers().contains_key(header::SEC_WEBSOCKET_KEY);
    if harmless || same_origin(request.headers()) {
        return next.run(request).await;
    }
    ApiError::new(
        StatusCode::FORBIDDEN,
        "CROSS_ORIGIN",
        "this request comes from another web site and was refused",
    )
    .into_response()
}

/// Lets through only whoever knows the secret, where there is one.
pub(crate) async fn check_secret(
    State(secret): State<Option<Arc<str>>>,
    request: Request,
    next: Next,
) -> Response {
    let said = request.headers().get(SECRET).map_or(&b""[..], HeaderValue::as_bytes);
    if secret.is_none_or(|secret| bool::from(secret.as_bytes().ct_eq(said))) {
        return next.run(request).await;
    }
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "SECRET_REQUIRED",
        "this workspace is reached through CodeHub, which knows its secret",
    )
    .into_response()
}

fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site")
        && site != "same-origin"
    {
        return false;
    }
    if !headers.contains_key(header::ORIGIN) {
        return true;
    }
    let Some((scheme, host)) = text("origin").and_then(|origin| origin.split_once("://")) else {
        return false; // "null", or not text
    };
    [text("x-forwarded-host"), text("host")]
        .into_iter()
        .flatten()
        .any(|ours| without_default_port(scheme, ours) == without_default_port(scheme, host))
}

fn without_default_port(scheme: &str, host: &str) -> String {
    let default = match scheme {
        "https" => ":443",
        _ => ":80",
    };
    let host = host.trim().to_ascii_lowercase();
    host.strip_suffix(default).map_or(host.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        same_origin(&headers)
    }

    #[test]
    fn only_our_own_page() {
        assert!(allowed(&[("host", "127.0.0.1:4000")]));
        assert!(allowed(&[("host", "a.test:4000"), ("origin", "http://A.test:4000")]));
        assert!(allowed(&[("host", "a.test"), ("origin", "https://a.test:443")]));
        assert!(allowed(&[
            ("host", "127.0.0.1:4000"),
            ("x-forwarded-host", "hub.example"),
            ("origin", "https://hub.example"),
            ("sec-fetch-site", "same-origin"),
        ]));
        assert!(!allowed(&[("host", "a.test"), ("origin", "https://evil.test")]));
        assert!(!allowed(&[("host", "a.test:80"), ("origin", "http://a.test:81")]));
        assert!(!allowed(&[("host", "a.test"), ("origin", "null")]));
        assert!(!allowed(&[("host", "a.test"), ("sec-fetch-site", "cross-site")]));
        assert!(!allowed(&[("host", "a.test"), ("sec-fetch-site", "same-site")]));
    }
}
