//! What a failure means for the operation: try again later, or wait for a person.

use std::time::Duration;

use crate::{
    ErrorReason, Failure, Operation, Status, Timestamp,
    observed::{Waiting, WaitingFor},
};

/// The numbers of the error policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Tries of a failing action before it is `RetryExceeded`.
    pub max_tries: u32,
    /// The pause after the first failure; doubles with each one that follows.
    pub backoff_base: Duration,
    /// The longest pause.
    pub backoff_cap: Duration,
    /// How long a start or stop may go without getting anywhere.
    pub start_deadline: Duration,
    /// How long an operation that moves bytes may go without getting anywhere.
    pub storage_deadline: Duration,
    /// How long a start may wait for a place or its volume: an autoscaler or a lost node's disk takes minutes.
    pub schedule_deadline: Duration,
    /// How long a start may wait for its image.
    pub pull_deadline: Duration,
    /// How long a start may wait for its container to be made.
    pub container_deadline: Duration,
    /// This many unasked deaths of an instance within the window end in ERROR.
    pub max_deaths: usize,
    /// Deaths that are farther apart than this are not counted together.
    pub death_window: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_tries: 3,
            backoff_base: Duration::from_secs(1),
            backoff_cap: Duration::from_secs(60),
            start_deadline: Duration::from_secs(120),
            storage_deadline: Duration::from_secs(600),
            schedule_deadline: Duration::from_secs(600),
            pull_deadline: Duration::from_secs(1800),
            container_deadline: Duration::from_secs(30),
            max_deaths: 3,
            death_window: Duration::from_secs(600),
        }
    }
}

impl Policy {
    /// How long the operation may go without moving; `None` is without end.
    pub fn deadline(&self, operation: Operation) -> Option<Duration> {
        match operation {
            Operation::None => None,
            Operation::Starting | Operation::Stopping => Some(self.start_deadline),
            Operation::Provisioning
            | Operation::CreateEmptyArchive
            | Operation::Restoring
            | Operation::Archiving
            | Operation::Deleting => Some(self.storage_deadline),
        }
    }

    /// How long an operation may stand still while it waits for that. `None`: as long as it takes.
    pub fn limit(&self, operation: Operation, waiting: Option<&Waiting>) -> Option<Duration> {
        match waiting.map(|waiting| waiting.kind) {
            None => self.deadline(operation),
            Some(WaitingFor::Capacity | WaitingFor::Volume) => Some(self.schedule_deadline),
            Some(WaitingFor::Image) => Some(self.pull_deadline),
            Some(WaitingFor::Container) => Some(self.container_deadline),
            // It may still run there: nobody may start another.
            Some(WaitingFor::Node) => None,
        }
    }

    /// 1 s, 2 s, 4 s … up to the cap, times `jitter` (0.8 to 1.2, drawn by the caller).
    pub fn backoff(&self, tries: u32, jitter: f64) -> Duration {
        let doublings = tries.saturating_sub(1).min(31);
        let plain = self.backoff_base.saturating_mul(1 << doublings).min(self.backoff_cap);
        plain.mul_f64(jitter.clamp(0.8, 1.2)).min(self.backoff_cap)
    }
}

/// What to do about a failed try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Shown while it is being retried; the phase stays what reality says.
    Retry { failure: Failure, count: u32, at: Timestamp },
    /// ERROR, until somebody recovers it.
    GiveUp(Failure),
}

/// Judges one failed try of the operation under way.
///
/// `error_count` counts tries that failed in a row for the same reason. An unreachable dependency, or one that
/// is full, is retried for as long as it takes: its return heals everything that waited. Deleting never
/// gives up either, because nobody is left who could recover it.
pub fn judge_failure(
    status: &Status,
    failure: Failure,
    policy: &Policy,
    jitter: f64,
    now: Timestamp,
) -> Verdict {
    // What is retried says so by its reason.
    let failure = match (status.operation, failure.reason) {
        (Operation::Deleting, reason) if reason.is_terminal() => {
            Failure::new(ErrorReason::ActionFailed, failure.message)
        }
        _ => failure,
    };
    let same_as_before = status.error.as_ref().is_some_and(|before| before.reason == failure.reason);
    let count = if same_as_before { status.error_count.saturating_add(1) } else { 1 };
    let retry =
        |failure| Verdict::Retry { failure, count, at: saturating_add(now, policy.backoff(count, jitter)) };
    if status.operation == Operation::Deleting {
        return retry(failure);
    }
    match failure.reason {
        ErrorReason::Unreachable | ErrorReason::NoCapacity => retry(failure),
        ErrorReason::ActionFailed if count < policy.max_tries => retry(failure),
        ErrorReason::ActionFailed => Verdict::GiveUp(Failure::new(
            ErrorReason::RetryExceeded,
            format!("{} failed {count} times; the last time: {}", status.operation, failure.message),
        )),
        ErrorReason::Timeout
        | ErrorReason::ImagePullFailed
        | ErrorReason::ContainerWithoutVolume
        | ErrorReason::ArchiveCorrupted
        | ErrorReason::DataLost
        | ErrorReason::RetryExceeded => Verdict::GiveUp(failure),
    }
}

/// Whether the operation has not moved for longer than `limit`; never without one.
pub fn overdue(status: &Status, limit: Option<Duration>, now: Timestamp) -> bool {
    let (Some(limit), Some(moved)) = (limit, status.op_moved_at.or(status.op_started_at)) else {
        return false;
    };
    now > saturating_add(moved, limit)
}

/// Time arithmetic that cannot panic: the far end of time is far enough.
pub fn saturating_add(at: Timestamp, duration: Duration) -> Timestamp {
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}
