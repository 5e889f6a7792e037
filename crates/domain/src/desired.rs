//! Who may wish for what, and when. Every writer of `desired_state` (API, TTL runner, wake-up by the
//! proxy) asks here, inside the transaction that writes: one function, one rule.

use crate::{Desired, Operation, Workspace};

/// The answer to a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Write it.
    Change,
    /// It is already wanted: success without a transition.
    Already,
    /// It may not be asked for now.
    Refuse(Refusal),
}

/// Why a target state may not be asked for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Deleted: it does not exist any more.
    Gone,
    /// An operation is under way and operations are not pre-empted.
    Busy(Operation),
    /// In ERROR: recovery comes first (deleting is allowed).
    NeedsRecovery,
}

/// Whether `desired` may become the workspace's desired state now.
pub fn ask(workspace: &Workspace, desired: Desired) -> Answer {
    if workspace.deleted_at.is_some() {
        return Answer::Refuse(Refusal::Gone);
    }
    if workspace.status.failed() && desired != Desired::Deleted {
        return Answer::Refuse(Refusal::NeedsRecovery);
    }
    if workspace.desired == desired {
        return Answer::Already;
    }
    match workspace.status.operation {
        Operation::None => Answer::Change,
        busy @ (Operation::Provisioning
        | Operation::CreateEmptyArchive
        | Operation::Restoring
        | Operation::Starting
        | Operation::Stopping
        | Operation::Archiving
        | Operation::Deleting) => Answer::Refuse(Refusal::Busy(busy)),
    }
}
