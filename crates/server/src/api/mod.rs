//! The HTTP API, one file per resource. A handler parses, lets `service` or the store decide, and
//! answers; it never starts anything.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
};

use crate::app::App;

mod actions;
pub mod activity;
mod archives;
mod audit;
mod auth;
mod device;
pub mod error;
mod events;
mod exec;
pub mod extract;
mod fields;
mod files;
mod health;
mod history;
mod inside;
pub(crate) mod insider;
mod logs;
pub mod openapi;
pub mod page;
mod ports;
mod revalidated;
mod setup;
mod system;
mod tcp;
mod tokens;
mod users;
pub mod view;
mod wait;
mod websocket;
mod workspaces;

pub(crate) use health::{alive, not_ready};
pub use system::{Replica, replicas};

/// Everything below `/api`, and the paths that machines ask for.
pub fn router() -> Router<Arc<App>> {
    let v1 = Router::new()
        .merge(auth::router())
        .merge(setup::router())
        .merge(tokens::router())
        .merge(device::router())
        .merge(users::router())
        .merge(workspaces::router())
        .merge(actions::router())
        .merge(activity::router())
        .merge(history::router())
        .merge(archives::router())
        .merge(logs::router())
        .merge(exec::router())
        .merge(tcp::router())
        .merge(ports::router())
        .merge(files::router())
        .merge(events::router())
        .merge(audit::router())
        .merge(system::router())
        .merge(openapi::document_router());
    Router::new()
        .nest("/api/v1", v1)
        .merge(openapi::docs_router())
        .route("/api", axum::routing::any(unknown))
        .route("/api/{*rest}", axum::routing::any(unknown))
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(headers))
        .merge(health::router())
}

/// Only what machines ask for: for an address of their own.
pub fn checks() -> Router<Arc<App>> {
    health::router().fallback(only_checks)
}

async fn only_checks() -> error::ApiError {
    error::ApiError::new(
        error::Code::NotFound,
        "this address answers /healthz, /readyz and /metrics only (METRICS_LISTEN)",
    )
}

/// Only what machines ask for: for a process that coordinates and nothing else.
pub fn operations() -> Router<Arc<App>> {
    health::router().fallback(only_coordinates)
}

async fn only_coordinates() -> error::ApiError {
    error::ApiError::new(
        error::Code::NotFound,
        "this process only coordinates (its role is \"coordinator\"): pages, the API and workspaces are \
         answered by one whose role is \"api\" or \"all\"",
    )
}

async fn unknown() -> error::ApiError {
    error::ApiError::new(error::Code::NotFound, "there is nothing here; /api/docs says what there is")
}

async fn wrong_method() -> error::ApiError {
    error::ApiError::new(error::Code::MethodNotAllowed, "this path does not take that method")
}

/// Answers are data: not to be sniffed, framed, kept, or followed from.
async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let data_only = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(data_only);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response.into_response()
}
