//! Around every request: an id that goes through all logs, one line when it is answered, a
//! measurement, and an answer even when a handler panics.

use std::{panic::AssertUnwindSafe, time::Instant};

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt as _;
use http::{Method, StatusCode};
use tracing::Instrument as _;

use codehub_proxy::request_id::{REQUEST_ID, request_id};

use crate::api::error::{ApiError, Code};

/// The middleware.
pub(super) async fn observe(mut request: Request, next: Next) -> Response {
    let value = request_id(request.headers());
    let id = value.to_str().unwrap_or_default().to_owned();
    request.headers_mut().insert(REQUEST_ID, value.clone());

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
        crate::telemetry::metrics::HTTP_SECONDS,
        "route" => route, "method" => method_label(&method), "status" => class(status),
    )
    .record(took);
    response.headers_mut().insert(REQUEST_ID, value);
    response
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
