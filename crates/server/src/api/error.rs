//! One shape for everything that goes wrong: `{"error": {"code", "message", "details"?}}`.
//!
//! The message is written for people, the code for programs. What went wrong inside is logged here,
//! once, and not told.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use codehub_store::StoreError;
use http::{HeaderValue, StatusCode, header::RETRY_AFTER};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    auth::{AuthError, first_run::SetupError, login::LoginError},
    passwords::HashError,
    service::Denied,
};

/// What a program may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    InvalidRequest,
    Unauthorized,
    SeveralSessions,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    InvalidState,
    NameTaken,
    SetupDone,
    TooLarge,
    RequestTimeout,
    LimitExceeded,
    TooManyAttempts,
    UpstreamUnavailable,
    WorkspaceStandby,
    Misdirected,
    Busy,
    Internal,
}

impl Code {
    /// The status that goes with the code.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized | Self::SeveralSessions => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::InvalidState | Self::NameTaken | Self::SetupDone => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::LimitExceeded | Self::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
            Self::UpstreamUnavailable | Self::WorkspaceStandby | Self::Busy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An answer that is not the one hoped for.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub code: Code,
    pub message: String,
    pub details: Option<Value>,
    pub retry_after: Option<u64>,
}

/// What handlers of the API return.
pub type Result<T> = std::result::Result<T, ApiError>;

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorObject,
}

/// What went wrong, for programs and for people.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorObject {
    pub code: Code,
    /// A sentence for people.
    pub message: String,
    /// `field` names what is wrong with a request, `running` lists the caller's running workspaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Value>,
}

impl ApiError {
    /// An error without a field or further details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retry_after: None }
    }

    /// A request that names a field, and says why it will not do.
    pub fn invalid(field: &str, why: impl std::fmt::Display) -> Self {
        Self {
            details: Some(json!({ "field": field })),
            ..Self::new(Code::InvalidRequest, format!("{field}: {why}"))
        }
    }

    /// `what` does not exist, or is not for the caller to know of.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what}"))
    }

    /// Something broke that the caller can do nothing about: logged here, not told.
    pub fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed inside");
        Self::new(Code::Internal, "something went wrong inside; the server's log says what")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: ErrorObject { code: self.code, message: self.message, details: self.details },
        };
        let mut response = (self.code.status(), Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unreachable(_) => {
                tracing::warn!(%error, "the store does not answer");
                Self {
                    retry_after: Some(1),
                    ..Self::new(Code::UpstreamUnavailable, "the database cannot be reached: try again")
                }
            }
            StoreError::Full(_) => {
                tracing::error!(%error, "the disk is full");
                Self::new(Code::UpstreamUnavailable, "the server's disk is full: nothing was changed")
            }
            StoreError::Failed(_) => Self::internal(&error),
        }
    }
}

impl From<HashError> for ApiError {
    fn from(error: HashError) -> Self {
        Self::internal(&error)
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unauthorized(why) => Self::new(Code::Unauthorized, why),
            AuthError::SeveralSessions => Self::new(Code::SeveralSessions, error.to_string()),
            AuthError::Store(error) => error.into(),
        }
    }
}

impl From<LoginError> for ApiError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Wrong => Self::new(Code::Unauthorized, error.to_string()),
            LoginError::TooMany { retry_after, .. } => {
                Self { retry_after: Some(retry_after), ..Self::new(Code::TooManyAttempts, error.to_string()) }
            }
            LoginError::Store(error) => error.into(),
            LoginError::Hash(error) => error.into(),
        }
    }
}

impl From<SetupError> for ApiError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Done => Self::new(Code::SetupDone, error.to_string()),
            SetupError::WrongToken => Self::new(Code::Forbidden, error.to_string()),
            SetupError::Invalid(field, why) => Self::invalid(field, why),
            SetupError::Store(error) => error.into(),
            SetupError::Hash(error) => error.into(),
        }
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        let message = denied.to_string();
        match denied {
            Denied::NotFound => Self::new(Code::NotFound, message),
            Denied::Forbidden(_) => Self::new(Code::Forbidden, message),
            Denied::Busy(operation) => Self {
                details: Some(json!({ "operation": operation })),
                ..Self::new(Code::InvalidState, message)
            },
            Denied::NotRunning | Denied::NeedsRecovery | Denied::Recovery(_) => {
                Self::new(Code::InvalidState, message)
            }
            Denied::TooManyHolds => Self::new(Code::LimitExceeded, message),
            Denied::Limit(hit) => {
                let running: Vec<Value> =
                    hit.running.iter().map(|one| json!({ "id": one.id, "name": one.name })).collect();
                Self {
                    details: Some(json!({ "running": running })),
                    ..Self::new(Code::LimitExceeded, message)
                }
            }
            Denied::Invalid { field, why } => Self::invalid(field, why),
            Denied::Unreachable(_) => {
                Self { retry_after: Some(1), ..Self::new(Code::UpstreamUnavailable, message) }
            }
            Denied::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use codehub_domain::{
        Operation, WorkspaceId,
        limits::{LimitHit, LimitScope, RunningWorkspace},
        recovery::RecoveryRefusal,
    };

    use super::*;
    use crate::auth::guessing::Counted;

    #[test]
    fn refusals_become_the_codes_of_the_table() {
        let id = WorkspaceId::from_uuid(uuid::Uuid::nil());
        let hit = LimitHit {
            scope: LimitScope::User { limit: 1 },
            running: vec![RunningWorkspace { id, name: "one".into() }],
        };
        let table: Vec<(ApiError, u16, &str, &str)> = vec![
            (Denied::NotFound.into(), 404, "NOT_FOUND", "no such workspace"),
            (Denied::Forbidden("not yours").into(), 403, "FORBIDDEN", "not yours"),
            (Denied::Busy(Operation::Archiving).into(), 409, "INVALID_STATE", "ARCHIVING is in progress"),
            (Denied::NeedsRecovery.into(), 409, "INVALID_STATE", "recover it first"),
            (Denied::Recovery(RecoveryRefusal::HomeIsLost).into(), 409, "INVALID_STATE", "restore_from"),
            (Denied::Recovery(RecoveryRefusal::HomeIsLost).into(), 409, "INVALID_STATE", "accept_data_loss"),
            (Denied::Limit(hit).into(), 429, "LIMIT_EXCEEDED", "stop another"),
            (
                LoginError::TooMany { counted: Counted::Here, retry_after: 30 }.into(),
                429,
                "TOO_MANY_ATTEMPTS",
                "30 s",
            ),
            (LoginError::Wrong.into(), 401, "UNAUTHORIZED", "wrong"),
            (SetupError::Done.into(), 409, "SETUP_DONE", "already"),
            (AuthError::Unauthorized("sign in").into(), 401, "UNAUTHORIZED", "sign in"),
            (StoreError::Unreachable("x".into()).into(), 503, "UPSTREAM_UNAVAILABLE", "try again"),
            (StoreError::Full("x".into()).into(), 503, "UPSTREAM_UNAVAILABLE", "disk is full"),
            (StoreError::Failed("secret detail".into()).into(), 500, "INTERNAL", "log"),
            (ApiError::invalid("name", "too long"), 400, "INVALID_REQUEST", "name: too long"),
        ];
        for (error, status, code, text) in table {
            assert_eq!(error.code.status().as_u16(), status, "{error:?}");
            assert_eq!(serde_json::to_value(error.code).unwrap(), code);
            assert!(error.message.contains(text), "{error:?}");
            assert!(!error.message.contains("secret detail"));
        }
    }

    #[test]
    fn a_limit_lists_what_runs_and_a_wait_says_how_long() {
        let hit = LimitHit { scope: LimitScope::Global { limit: 3 }, running: Vec::new() };
        assert_eq!(ApiError::from(Denied::Limit(hit)).details, Some(json!({ "running": [] })));
        let response = ApiError::from(LoginError::TooMany { counted: Counted::Account, retry_after: 60 })
            .into_response();
        assert_eq!(response.headers()[RETRY_AFTER], "60");
    }
}
