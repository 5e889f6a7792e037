//! Why nothing is being done for a workspace that is not where it is wanted, told from its row alone: what
//! [`crate::decide::Decision::why`] said when the row was saved. Nothing more is stored for it, and every
//! process that reads the row gives the same answer.

use crate::{Desired, Operation, Phase, Status, Workspace, named::named_enum, plan};

named_enum! {
    /// What a workspace waits for.
    Waiting, "reason to wait" {
        /// For a person: an error has to be recovered from.
        Recovery => "NeedsRecovery",
        /// For the time of the next try (`next_retry_at`); `error` says what failed.
        NextTry => "NextTry",
        /// The home exists, and cannot be looked at now.
        HomeUnseen => "HomeUnseen",
    }
}

impl Waiting {
    /// A sentence for programs and logs.
    pub fn message(self, status: &Status) -> String {
        match (self, &status.error) {
            (Self::Recovery, _) => "an error has to be recovered from first".into(),
            (Self::NextTry, Some(failure)) => format!("the last try failed and is repeated: {failure}"),
            (Self::NextTry, None) => "the last try failed and is repeated".into(),
            (Self::HomeUnseen, _) => "the storage that holds the home cannot be looked at now".into(),
        }
    }
}

/// What this workspace waits for; `None` while something is done for it, or when nothing has to be.
pub fn waiting(workspace: &Workspace) -> Option<Waiting> {
    let status = &workspace.status;
    let deleted = workspace.deleted_at.is_some();
    if status.failed() && !deleted {
        return Some(Waiting::Recovery);
    }
    let desired = if deleted { Desired::Deleted } else { workspace.desired };
    // A new workspace has no home to be seen: it has only not been looked at yet.
    let unseen = status.operation == Operation::None
        && status.observed_at.is_some()
        && status.phase != desired.phase()
        && !matches!(status.phase, Phase::Error | Phase::Deleted)
        && plan::choose(status.phase, desired, status.home.truth) == Operation::None;
    let next_try = status.error.is_some() && status.next_retry_at.is_some();
    match (unseen, next_try) {
        (true, _) => Some(Waiting::HomeUnseen),
        (false, true) => Some(Waiting::NextTry),
        (false, false) => None,
    }
}
