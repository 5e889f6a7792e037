//! Around every request: an id that goes through all logs, one line when it is answered, a
//! measurement, and an answer even when a handler panics.

use std::{panic::AssertUnwindSafe, time::Instant};

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt as _;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tracing::Instrument as _;
use uuid::Uuid;

use crate::api::error::{ApiError, Code};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request; also in its headers, for whoever it is passed on to.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// The middleware.
pub async fn observe(mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers().get(REQUEST_ID));
    let value = HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("unknown"));
    request.headers_mut().insert(REQUEST_ID, value.clone());
    request.extensions_mut().insert(RequestId(id.clone()));

    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    // What no route matched is counted as one: anybody can invent paths.
    let matched = request.extensions().get::<MatchedPath>().map(|matched| matched.as_str().to_owned());
    let route = matched.unwrap_or_else(|| "other".into());
    let span = tracing::info_span!("request", request_id = %id);
    let started = Instant::now();

    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let _entered = span.enter();
    let mut response = answer.unwrap_or_else(|_| {
        tracing::error!(%method, path, "a handler panicked");
        ApiError::new(Code::Internal, "something went wrong inside; the server's log says what")
            .into_response()
    });
    let took = started.elapsed();
    let status = response.status();
    log(&method, &path, &route, status, took.as_secs_f64() * 1000.0);
    metrics::histogram!(
        "codehub_http_request_duration_seconds",
        "route" => route, "method" => method_label(&method), "status" => class(status),
    )
    .record(took);
    response.headers_mut().insert(REQUEST_ID, value);
    response
}

/// The client's own id where it is a sane one, so that logs on both sides can be put together.
fn request_id(given: Option<&HeaderValue>) -> String {
    let sane = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    match given.and_then(|value| value.to_str().ok()).filter(sane) {
        Some(text) => text.to_owned(),
        None => Uuid::now_v7().simple().to_string(),
    }
}

fn log(method: &Method, path: &str, route: &str, status: StatusCode, duration_ms: f64) {
    let status = status.as_u16();
    let duration_ms = (duration_ms * 10.0).round() / 10.0;
    // Probes and what an IDE loads are many and say little.
    if matches!(route, "/healthz" | "/readyz" | "/metrics") || path.starts_with("/w/") {
        tracing::debug!(%method, path, status, duration_ms, "answered");
    } else {
        tracing::info!(%method, path, status, duration_ms, "answered");
    }
}

/// Methods are anybody's to invent, too.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sane_request_ids_are_taken_over() {
        let take = |text: &str| request_id(HeaderValue::from_bytes(text.as_bytes()).ok().as_ref());
        assert_eq!(take("abc-123_X.y"), "abc-123_X.y");
        for wrong in ["", "a b", "a\"b", "é", &"x".repeat(65)] {
            assert_ne!(take(wrong), wrong);
            assert_eq!(take(wrong).len(), 32);
        }
        assert_ne!(request_id(None), request_id(None));
    }
}
