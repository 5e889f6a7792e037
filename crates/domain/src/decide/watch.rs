//! An action that is still under way.

use std::time::Duration;

use super::into_error;
use crate::{
    ErrorReason, Failure, Operation, Progress, Status, Timestamp, Workspace,
    condition::set,
    event::Transition,
    observed::Waiting,
    retry::{self, Policy},
};

/// What to do about an action that is still under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    /// What to save, if anything is new.
    pub status: Option<Status>,
    /// What the history gains.
    pub transitions: Vec<Transition>,
    /// The action has not moved for longer than it may: end it.
    pub cancel: bool,
}

/// Follows an action under way: saves its progress and what it waits for, and ends it when it stands still
/// too long. Waiting for something else than before is movement, and each kind of waiting has its own limit.
pub fn watch(
    workspace: &Workspace,
    progress: Option<Progress>,
    waiting: Option<&Waiting>,
    policy: &Policy,
    now: Timestamp,
) -> Watch {
    let mut status = workspace.status.clone();
    if status.operation == Operation::None {
        // Nothing asked for it any more.
        return Watch { status: None, transitions: Vec::new(), cancel: true };
    }
    if let Some(progress) = progress {
        let before = status.progress.map_or(0, |before| before.done);
        if progress.done != before {
            status.op_moved_at = Some(now);
        }
        status.progress = Some(progress);
    }
    if let Some(waiting) = waiting {
        let slot = &mut status.conditions.container_ready;
        let reason = waiting.reason();
        if slot.as_ref().is_none_or(|before| before.reason != reason) {
            status.op_moved_at = Some(now);
        }
        set(slot, false, &reason, waiting.words.clone(), now);
    }
    let limit = policy.limit(status.operation, waiting);
    if retry::overdue(&status, limit, now) {
        let failure = timed_out(status.operation, waiting, limit.unwrap_or_default());
        return overdue(status, failure, policy, now);
    }
    let changed = status != workspace.status;
    Watch { status: changed.then_some(status), transitions: Vec::new(), cancel: false }
}

fn overdue(mut status: Status, failure: Failure, policy: &Policy, now: Timestamp) -> Watch {
    let mut transitions = Vec::new();
    if status.operation == Operation::Deleting {
        // Deleting never gives up: this try has failed, the next one follows.
        status.error = Some(Failure::new(ErrorReason::ActionFailed, failure.message));
        status.error_count = status.error_count.saturating_add(1);
        status.next_retry_at = Some(retry::saturating_add(now, policy.backoff(status.error_count, 1.0)));
        status.op_moved_at = Some(now);
    } else {
        transitions.push(into_error(&mut status, failure, now));
    }
    Watch { status: Some(status), transitions, cancel: true }
}

fn timed_out(operation: Operation, waiting: Option<&Waiting>, limit: Duration) -> Failure {
    let mut message = format!("{operation} did not get any further for {} s", limit.as_secs());
    if let Some(Waiting { words, .. }) = waiting {
        message = format!("{message}; it waited: {words}");
    }
    Failure::new(ErrorReason::Timeout, message)
}
