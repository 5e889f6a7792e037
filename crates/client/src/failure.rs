//! What goes wrong, as people and scripts are told: a sentence, what to do next, and an exit code.

use std::{fmt, process::ExitCode};

use http::StatusCode;
use serde_json::Value;

use crate::text::clean;

/// What a script may branch on. The numbers are the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything that has no code of its own.
    Failed = 1,
    /// The command was not understood.
    Usage = 2,
    /// Not signed in, or not allowed.
    Denied = 3,
    /// There is no such thing, or several.
    NotFound = 4,
    /// Not possible in the state the workspace is in.
    State = 5,
    /// A limit was reached.
    Limit = 6,
    /// The server does not answer.
    Unreachable = 7,
    /// Waited as long as was asked for.
    TooLong = 8,
}

/// Why a command ends without having done what it was to do.
#[derive(Debug)]
pub struct Failure {
    pub kind: Kind,
    pub message: String,
    /// What to do about it.
    pub next: Option<String>,
    /// The API's own word for it, where it said one.
    pub code: Option<String>,
}

/// What commands return.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), next: None, code: None }
    }

    /// With what to do next, unless something is said already.
    #[must_use]
    pub fn or_next(mut self, next: impl Into<String>) -> Self {
        self.next.get_or_insert_with(|| next.into());
        self
    }

    /// Something of this machine's: a file, the terminal.
    pub fn local(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(Kind::Failed, format!("{what}: {error}"))
    }

    /// What the API answered instead of what was hoped for.
    pub fn answered(status: StatusCode, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let code = text("/error/code");
        let message = text("/error/message").unwrap_or_else(|| format!("the server answered {status}"));
        let mut failure = Self { code: code.clone(), ..Self::new(kind_of(status, code.as_deref()), message) };
        match code.as_deref() {
            Some("LIMIT_EXCEEDED") => {
                let running = body.pointer("/error/details/running").and_then(Value::as_array);
                let names: Vec<&str> = running
                    .into_iter()
                    .flatten()
                    .filter_map(|one| one.get("slug").or_else(|| one.get("name"))?.as_str())
                    .collect();
                if !names.is_empty() {
                    failure.next = Some(format!("stop one of those that run: {}", names.join(", ")));
                }
            }
            Some("WORKSPACE_STANDBY") => {
                failure.next = Some("start it with `codehub start WORKSPACE --wait`".into());
            }
            Some("UNAUTHORIZED") => failure.next = Some("sign in with `codehub login`".into()),
            Some("MISDIRECTED") => {
                failure.next = Some("use the address that the server is opened by in a browser".into());
            }
            _ => {}
        }
        failure
    }

    /// The exit code.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}

fn kind_of(status: StatusCode, code: Option<&str>) -> Kind {
    match (code, status.as_u16()) {
        (Some("WORKSPACE_STANDBY" | "INVALID_STATE" | "NAME_TAKEN"), _) | (_, 409) => Kind::State,
        (_, 401 | 403) => Kind::Denied,
        (_, 404) => Kind::NotFound,
        (_, 429) => Kind::Limit,
        (_, 421 | 502..=504) => Kind::Unreachable,
        _ => Kind::Failed,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(&self.message))?;
        match &self.next {
            Some(next) => write!(f, "\n         {}", clean(next)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_exit_code() {
        let table: &[(u16, &str, Kind)] = &[
            (400, "INVALID_REQUEST", Kind::Failed),
            (401, "UNAUTHORIZED", Kind::Denied),
            (403, "FORBIDDEN", Kind::Denied),
            (404, "NOT_FOUND", Kind::NotFound),
            (409, "INVALID_STATE", Kind::State),
            (409, "NAME_TAKEN", Kind::State),
            (421, "MISDIRECTED", Kind::Unreachable),
            (429, "LIMIT_EXCEEDED", Kind::Limit),
            (429, "TOO_MANY_ATTEMPTS", Kind::Limit),
            (500, "INTERNAL", Kind::Failed),
            (502, "", Kind::Unreachable),
            (503, "UPSTREAM_UNAVAILABLE", Kind::Unreachable),
            (503, "WORKSPACE_STANDBY", Kind::State),
        ];
        for (status, code, kind) in table {
            let body = format!(r#"{{"error":{{"code":"{code}","message":"why"}}}}"#);
            let failure = Failure::answered(StatusCode::from_u16(*status).unwrap(), body.as_bytes());
            assert_eq!((failure.kind, &failure.message[..]), (*kind, "why"), "{status} {code}");
        }
        let page = Failure::answered(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(page.message, "the server answered 502 Bad Gateway");
        let limit = br#"{"error":{"code":"LIMIT_EXCEEDED","message":"2 run","details":{"running":[{"name":"A b"},{"slug":"c"}]}}}"#;
        let limit = Failure::answered(StatusCode::TOO_MANY_REQUESTS, limit);
        assert_eq!(limit.to_string(), "2 run\n         stop one of those that run: A b, c");
    }
}
