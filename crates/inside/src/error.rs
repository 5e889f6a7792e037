//! The one error a handler answers with: a status, a stable code for scripts
//! and a sentence for people.
//!
//! Errno values are translated here and nowhere else, so that every endpoint
//! says the same thing about the same failure.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rustix::io::Errno;
use serde_json::json;

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// A symlink (or a `..` hidden in one) that leads out of the home.
    pub(crate) fn outside(shown: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "OUTSIDE_HOME",
            format!("“{shown}” leads outside the home directory, which this editor does not open"),
        )
    }

    pub(crate) fn changed(shown: &str) -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "CHANGED_ON_DISK",
            format!("“{shown}” changed on disk since it was loaded"),
        )
    }

    /// What an errno about `shown` means to the person who asked.
    pub(crate) fn from_errno(errno: Errno, shown: &str) -> Self {
        let (status, code, text) = match errno {
            Errno::NOENT => (StatusCode::NOT_FOUND, "NOT_FOUND", "does not exist"),
            Errno::EXIST => (StatusCode::CONFLICT, "EXISTS", "already exists"),
            Errno::NOTEMPTY => (StatusCode::CONFLICT, "EXISTS", "exists and is not empty"),
            Errno::NOTDIR => (StatusCode::CONFLICT, "NOT_A_DIRECTORY", "is not inside a directory"),
            Errno::ISDIR => (StatusCode::CONFLICT, "IS_A_DIRECTORY", "is a directory"),
            Errno::ACCESS | Errno::PERM => {
                (StatusCode::FORBIDDEN, "PERMISSION_DENIED", "may not be accessed (permission denied)")
            }
            Errno::XDEV => return Self::outside(shown),
            Errno::LOOP => {
                (StatusCode::CONFLICT, "SYMLINK_LOOP", "is a symbolic link that leads nowhere or to itself")
            }
            Errno::NAMETOOLONG => (StatusCode::BAD_REQUEST, "NAME_TOO_LONG", "has a name that is too long"),
            Errno::NOSPC | Errno::DQUOT => {
                (StatusCode::INSUFFICIENT_STORAGE, "DISK_FULL", "could not be written: the disk is full")
            }
            // What a socket says to whoever opens it.
            Errno::NXIO | Errno::NODEV => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "NOT_A_FILE", "is a pipe, socket or device, not a file")
            }
            Errno::ROFS => (StatusCode::FORBIDDEN, "READ_ONLY", "is on a read-only file system"),
            Errno::INVAL => (
                StatusCode::BAD_REQUEST,
                "INVALID",
                "cannot be used for this (for example, a folder cannot move into itself)",
            ),
            other => {
                return Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "IO_ERROR",
                    format!("“{shown}”: {other}"),
                );
            }
        };
        Self::new(status, code, format!("“{shown}” {text}"))
    }

    pub(crate) fn from_io(error: &std::io::Error, shown: &str) -> Self {
        match Errno::from_io_error(error) {
            Some(errno) => Self::from_errno(errno, shown),
            None => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "IO_ERROR", format!("“{shown}”: {error}")),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(code = self.code, "request failed: {}", self.message);
        }
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        (self.status, Json(body)).into_response()
    }
}

/// Runs blocking file work off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "INTERNAL",
            format!("the operation stopped unexpectedly: {error}"),
        ))
    })
}
