//! What the API asks of the program inside a workspace: a line to it on the owner's behalf, and what its refusals are
//! called here.

use std::time::Duration;

use codehub_domain::{Desired, Phase, Workspace, WorkspaceId, audit::AuditAction};
use codehub_inside::line::{client::LineError, protocol::Problem};

use super::{
    error::{ApiError, Code, Result},
    wait,
};
use crate::{
    app::App,
    auth::Identity,
    lines::{NoLine, OpenLine},
    service::{self, Access, Denied},
};

/// How long a workspace that is woken may take.
const WAKES_WITHIN: Duration = Duration::from_secs(120);

/// The workspace, if this is its owner and such things may be done at all.
pub(super) async fn find(app: &App, me: &Identity, id: WorkspaceId) -> Result<Workspace> {
    let workspace = service::find_to(app, me, id, Access::Own, AuditAction::ExecStarted).await?;
    if !app.config.exec {
        return Err(ApiError::new(Code::Forbidden, "this is switched off on this server (EXEC)"));
    }
    Ok(workspace)
}

/// A line to a workspace that runs, after [`find`]; one that sleeps is woken where that is asked for.
pub(super) async fn line(app: &App, me: &Identity, mut workspace: Workspace, wake: bool) -> Result<OpenLine> {
    let id = workspace.id;
    let runs = |workspace: &Workspace| {
        workspace.status.phase == Phase::Running && workspace.desired == Desired::Running
    };
    if !runs(&workspace) && wake {
        let reason = service::requested(Desired::Running);
        workspace = service::ask(app, me, id, Desired::Running, &reason).await?;
        workspace = wait::arrived(app, workspace, WAKES_WITHIN).await?;
        if !runs(&workspace) && workspace.status.phase != Phase::Error {
            return Err(Denied::Unreachable("the workspace did not start in time: try again".into()).into());
        }
    }
    if workspace.status.phase == Phase::Error {
        return Err(Denied::NeedsRecovery.into());
    }
    if !runs(&workspace) {
        return Err(asleep());
    }
    app.lines.to(&*app.backends.instances, id).await.map_err(|error| {
        if let NoLine::Runtime(_) | NoLine::Line(_) = &error {
            tracing::warn!(workspace = %id, %error, "the program inside a workspace cannot be reached");
        }
        unavailable(error)
    })
}

/// Why there is no line, as the API says it.
pub(super) fn unavailable(error: NoLine) -> ApiError {
    match error {
        NoLine::NotRunning => asleep(),
        NoLine::Nobody(_) => ApiError::new(Code::InvalidState, error.to_string()),
        NoLine::Runtime(_) => {
            Denied::Unreachable("the workspace cannot be reached now: try again".into()).into()
        }
        NoLine::Line(error) => failed(error),
    }
}

fn asleep() -> ApiError {
    ApiError {
        retry_after: Some(1),
        ..ApiError::new(
            Code::WorkspaceStandby,
            "the workspace does not run: start it first, or ask with `wake`",
        )
    }
}

/// What the program inside refused or could not do. Its words are its own, cut and cleaned.
pub(super) fn failed(error: LineError) -> ApiError {
    match error {
        LineError::Refused(status, problem) => refused(status, problem),
        LineError::Silent(seconds) => Denied::Unreachable(format!(
            "the program inside the workspace has not answered for {seconds} seconds: it may be stopped or overloaded. \
             Try again, or restart the workspace"
        ))
        .into(),
        LineError::Ended(_) | LineError::Garbage(_) => {
            tracing::debug!(%error, "a line failed");
            Denied::Unreachable("the workspace does not answer: try again".into()).into()
        }
    }
}

fn refused(status: u16, Problem { code, message }: Problem) -> ApiError {
    let code = match (status, code.as_str()) {
        (404, _) => Code::NotFound,
        (403, _) => Code::Forbidden,
        (429, _) | (_, "LIMIT_EXCEEDED") => Code::LimitExceeded,
        (409 | 412 | 415, _) => Code::InvalidState,
        (413, _) => Code::TooLarge,
        (400, _) => Code::InvalidRequest,
        _ => Code::UpstreamUnavailable,
    };
    ApiError::new(code, message)
}
