//! Nothing of the server's own is a service worker.

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::HeaderName;

use crate::api::error::{ApiError, Code};

/// What browsers say of themselves when they fetch the script of a service worker.
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

/// Refuses the script of a service worker, for everything but the proxy's requests: nothing of ours is one, and
/// whatever somebody else's file could be fetched as (a file of an archive, a log) must not become one.
pub(super) async fn refuse_scripts(request: Request, next: Next) -> Response {
    if request.headers().contains_key(SERVICE_WORKER) {
        return ApiError::new(Code::Forbidden, "service workers are not allowed here").into_response();
    }
    next.run(request).await
}
