//! The phase policy: what a request to a workspace in this state gets. One table, no I/O.

use codehub_domain::{Desired, Operation, Phase};
use http::{HeaderMap, Method, header};

use crate::{gate::WorkspaceView, policy};

/// Who is behind a request. Only a person who opens a page wakes a workspace: a tab left open
/// reconnects by itself, and if that woke it, it could never sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    Navigation,
    /// Scripts, assets, WebSockets, command-line tools.
    Other,
}

impl Visit {
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Self {
        if headers.contains_key(header::UPGRADE) || policy::is_prefetch(headers) {
            return Self::Other;
        }
        let navigates = match headers.get("sec-fetch-mode") {
            Some(mode) => mode.as_bytes().eq_ignore_ascii_case(b"navigate"),
            None => method == Method::GET && accepts_html(headers),
        };
        // A frame is opened by the page around it.
        let dest = headers.get("sec-fetch-dest");
        let navigates = navigates && dest.is_none_or(|dest| dest.as_bytes() == b"document");
        if navigates { Self::Navigation } else { Self::Other }
    }
}

fn accepts_html(headers: &HeaderMap) -> bool {
    policy::tokens(headers, &header::ACCEPT).any(|item| {
        let media_type = item.split(|&b| b == b';').next().unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
    })
}

/// Why somebody has to wait; the loading page says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    Starting,
    Restoring,
    Stopping,
    Archiving,
}

/// Why nothing will come, until somebody does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    NotStarted,
    Archived,
    Broken,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Forward,
    /// Ask for it to run, then wait.
    Wake,
    Wait(Waiting),
    /// A page with a button, or 502.
    Close(Closed),
    /// 503, and it sleeps on.
    Asleep,
    Gone,
}

/// The table of the proxy's phase policy.
pub(crate) fn decide(view: &WorkspaceView, visit: Visit) -> Answer {
    if view.deleted {
        return Answer::Gone;
    }
    match (view.phase, visit) {
        (Phase::Running, _) if !view.stopping() => Answer::Forward,
        (Phase::Running | Phase::Standby, Visit::Other) => Answer::Asleep,
        (Phase::Running, Visit::Navigation) => Answer::Wait(Waiting::Stopping),
        (Phase::Standby, Visit::Navigation) => match view.operation {
            Operation::None if view.desired == Desired::Running => Answer::Wait(Waiting::Starting),
            Operation::None => Answer::Wake,
            Operation::Archiving => Answer::Wait(Waiting::Archiving),
            Operation::Stopping | Operation::Deleting => Answer::Wait(Waiting::Stopping),
            Operation::Restoring => Answer::Wait(Waiting::Restoring),
            Operation::Provisioning | Operation::CreateEmptyArchive | Operation::Starting => {
                Answer::Wait(Waiting::Starting)
            }
        },
        (Phase::Archived, Visit::Navigation) if on_its_way(view) => Answer::Wait(Waiting::Restoring),
        (Phase::Pending, Visit::Navigation) if on_its_way(view) => Answer::Wait(Waiting::Starting),
        (Phase::Archived, _) => Answer::Close(Closed::Archived),
        (Phase::Pending, _) => Answer::Close(Closed::NotStarted),
        (Phase::Error, _) => Answer::Close(Closed::Broken),
        (Phase::Deleting | Phase::Deleted, _) => Answer::Gone,
    }
}

/// Somebody has already pressed the button that the page would offer.
fn on_its_way(view: &WorkspaceView) -> bool {
    view.desired == Desired::Running || matches!(view.operation, Operation::Restoring)
}
