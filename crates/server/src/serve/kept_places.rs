//! Places that are kept for people who are signed in: on such a connection nobody else is answered.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use codehub_proxy::front::Arrival;

use crate::{
    api::error::{ApiError, Code},
    app::App,
    auth,
};

/// Asks who sends a request on such a connection, before its body is read.
pub(super) async fn refuse_strangers(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_kept = |request: &Request| {
        request.extensions().get::<Arrival>().is_some_and(|arrival| arrival.place.is_kept_for_others())
    };
    if !is_kept(&request) || matches!(request.uri().path(), "/healthz" | "/readyz" | "/metrics") {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    match auth::identify_sender(&app, &parts).await {
        Ok(_) => next.run(Request::from_parts(parts, body)).await,
        Err(_) => {
            let message =
                "the server has no free places for people who are not signed in; try again in a moment";
            ApiError { retry_after: Some(5), ..ApiError::new(Code::Busy, message) }.into_response()
        }
    }
}
