//! What goes wrong on the way to a page. The error itself does not know in which language and theme
//! to speak; it marks the response, and the outermost layer of the pages draws it.

use axum::response::{IntoResponse, Response};
use codehub_store::StoreError;
use http::{HeaderValue, StatusCode, header::RETRY_AFTER};

use crate::{
    auth::AuthError,
    bodies::BodyError,
    passwords::HashError,
    service::{Denied, archives::Unseen},
};

/// A page instead of the one asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebError {
    BadRequest,
    NotFound,
    Forbidden,
    /// A form that another site's page sent.
    Foreign,
    WrongMethod,
    TooLarge,
    TooSlow,
    Internal,
    Unavailable,
}

/// What handlers of pages return.
pub type Result<T> = std::result::Result<T, WebError>;

impl WebError {
    pub const ALL: [Self; 9] = [
        Self::BadRequest,
        Self::NotFound,
        Self::Forbidden,
        Self::Foreign,
        Self::WrongMethod,
        Self::TooLarge,
        Self::TooSlow,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The status of the page that says so.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Forbidden | Self::Foreign => StatusCode::FORBIDDEN,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Logged once, here; not told.
    fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a page failed inside");
        Self::Internal
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        if self == Self::Unavailable {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for WebError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unreachable(_) | StoreError::Full(_) => {
                tracing::warn!(%error, "a page could not be made");
                Self::Unavailable
            }
            StoreError::Failed(_) => Self::internal(&error),
        }
    }
}

impl From<HashError> for WebError {
    fn from(error: HashError) -> Self {
        Self::internal(&error)
    }
}

impl From<AuthError> for WebError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unauthorized(_) | AuthError::SeveralSessions => Self::Forbidden,
            AuthError::Store(error) => error.into(),
        }
    }
}

impl From<Denied> for WebError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::NotFound => Self::NotFound,
            Denied::Forbidden(_) => Self::Forbidden,
            Denied::Store(error) => error.into(),
            Denied::Unreachable(_) => Self::Unavailable,
            Denied::Busy(_)
            | Denied::NotRunning
            | Denied::NeedsRecovery
            | Denied::TooManyHolds
            | Denied::Recovery(_)
            | Denied::Limit(_)
            | Denied::Invalid { .. } => Self::BadRequest,
        }
    }
}

impl From<Unseen> for WebError {
    fn from(unseen: Unseen) -> Self {
        match unseen {
            Unseen::Missing(_) => Self::NotFound,
            Unseen::NoFile | Unseen::NotListed | Unseen::Corrupted => Self::BadRequest,
            Unseen::Denied(denied) => denied.into(),
        }
    }
}

impl From<BodyError> for WebError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooSlow => Self::TooSlow,
            BodyError::TooLarge(_) => Self::TooLarge,
            BodyError::BrokeOff => Self::BadRequest,
        }
    }
}
