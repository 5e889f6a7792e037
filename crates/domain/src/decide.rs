//! One whole step of the controller for one workspace: apply what an action reported, judge what
//! was seen, and say what to save and what to do next.
//!
//! Guarantees, whatever the inputs:
//! - the returned status is saved *before* the returned action runs (intent first);
//! - ERROR always comes with operation NONE and is never left here;
//! - a home is provisioned only where there never was one, and a volume is given up only when it is
//!   not the true copy (or the workspace is being deleted).

use std::time::Duration;

use crate::{
    ArchiveKey, Desired, ErrorReason, Failure, Generation, OpId, Operation, Phase, Progress, Status,
    Timestamp, Truth, Workspace,
    event::{Actor, Transition},
    judge,
    observed::{InstanceState, Observed, Seen},
    plan::{self, Action, Step},
    retry::{self, Policy, Verdict},
};

/// What an action reported when it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It says it did it; the observation tells.
    Done,
    /// Data and meta are stored under this key and verified.
    Archived {
        key: ArchiveKey,
    },
    /// The whole archive was unpacked, checked and made durable on this generation.
    Restored {
        key: ArchiveKey,
        generation: Generation,
    },
    Failed(Failure),
}

/// Everything a decision depends on.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    pub workspace: &'a Workspace,
    pub seen: &'a Observed,
    /// The action that has just ended, and what it reported.
    pub outcome: Option<(&'a Action, &'a Outcome)>,
    pub policy: &'a Policy,
    /// The database's clock.
    pub now: Timestamp,
    /// The id of the next operation, should one begin.
    pub op_id: OpId,
    /// 0.8 to 1.2: spreads retries.
    pub jitter: f64,
}

/// What to save, then what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub status: Status,
    pub transitions: Vec<Transition>,
    pub action: Option<Action>,
    /// Decide again at once: an operation ended, and another may follow.
    pub again: bool,
    /// Why there is no action, for logs.
    pub why: &'static str,
}

/// Decides for a workspace of which no action is under way.
pub fn decide(inputs: &Inputs<'_>) -> Decision {
    let mut step = Stepper::new(inputs);
    let failure = step.apply_outcome();
    let verdict = step.judge();
    let deleted = step.ws.deleted_at.is_some();
    if let Some(failure) = verdict
        && !deleted
    {
        return step.enter_error(failure);
    }
    if step.ws.status.operation == Operation::None {
        return step.idle();
    }
    if let Some(failure) = failure {
        return step.failed(failure);
    }
    step.forward()
}

/// What to do about an action that is still under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    /// What to save, if anything is new.
    pub status: Option<Status>,
    pub transitions: Vec<Transition>,
    /// The action has not moved for longer than it may: end it.
    pub cancel: bool,
}

/// Follows an action under way: saves its progress, and ends it when it stands still too long.
pub fn watch(workspace: &Workspace, progress: Option<Progress>, policy: &Policy, now: Timestamp) -> Watch {
    let mut status = workspace.status.clone();
    if let Some(progress) = progress {
        let before = status.progress.map_or(0, |before| before.done);
        if progress.done != before {
            status.op_moved_at = Some(now);
        }
        status.progress = Some(progress);
    }
    if retry::overdue(&status, policy, now) {
        return overdue(workspace, status, policy, now);
    }
    let changed = status != workspace.status;
    Watch { status: changed.then_some(status), transitions: Vec::new(), cancel: false }
}

fn overdue(workspace: &Workspace, mut status: Status, policy: &Policy, now: Timestamp) -> Watch {
    let failure = timed_out(status.operation, policy);
    let mut transitions = Vec::new();
    if status.operation == Operation::Deleting {
        // Deleting never gives up: this try has failed, the next one follows.
        status.error = Some(Failure::new(ErrorReason::ActionFailed, failure.message));
        status.error_count = status.error_count.saturating_add(1);
        status.next_retry_at = Some(retry::saturating_add(now, policy.backoff(status.error_count, 1.0)));
        status.op_moved_at = Some(now);
    } else {
        transitions.push(into_error(workspace, &mut status, failure, now));
    }
    Watch { status: Some(status), transitions, cancel: true }
}

fn timed_out(operation: Operation, policy: &Policy) -> Failure {
    let limit = policy.deadline(operation).unwrap_or(Duration::ZERO).as_secs();
    Failure::new(ErrorReason::Timeout, format!("{operation} did not get any further for {limit} s"))
}

/// Invariant 1, the one way into ERROR: phase, operation, reason and count change together.
fn into_error(workspace: &Workspace, status: &mut Status, failure: Failure, now: Timestamp) -> Transition {
    let transition = Transition {
        from: workspace.status.phase,
        to: Phase::Error,
        operation: status.operation,
        reason: failure.to_string(),
        actor: Actor::Controller,
    };
    crate::condition::set(
        &mut status.conditions.healthy,
        false,
        failure.reason.as_str(),
        failure.message.clone(),
        now,
    );
    status.operation = Operation::None;
    status.op_started_at = None;
    status.op_moved_at = None;
    status.progress = None;
    status.next_retry_at = None;
    status.error = Some(failure);
    status.error_count = status.error_count.saturating_add(1);
    set_phase(status, Phase::Error, now);
    transition
}

fn set_phase(status: &mut Status, phase: Phase, now: Timestamp) {
    if status.phase != phase {
        status.phase = phase;
        status.phase_changed_at = now;
    }
}

/// The working copy of one decision.
struct Stepper<'a> {
    inputs: &'a Inputs<'a>,
    ws: Workspace,
    transitions: Vec<Transition>,
}

impl<'a> Stepper<'a> {
    fn new(inputs: &'a Inputs<'a>) -> Self {
        Self { inputs, ws: inputs.workspace.clone(), transitions: Vec::new() }
    }

    /// Takes over what an action reported, if it belongs to the operation under way: a report that
    /// comes late, for an operation that has ended, changes nothing.
    fn apply_outcome(&mut self) -> Option<Failure> {
        let key_of_op = self.ws.op_archive_key();
        let status = &mut self.ws.status;
        match self.inputs.outcome?.1 {
            Outcome::Failed(failure) => return Some(failure.clone()),
            Outcome::Done => {}
            Outcome::Archived { key } => {
                let writes_archives =
                    matches!(status.operation, Operation::Archiving | Operation::CreateEmptyArchive);
                if writes_archives && key_of_op == Some(*key) {
                    status.archive_key = Some(*key);
                    status.home.truth = Truth::Archive;
                    status.home.restore_marker = None;
                }
            }
            Outcome::Restored { key, generation } => {
                if status.operation == Operation::Restoring
                    && status.archive_key == Some(*key)
                    && status.home.generation == *generation
                    && status.home.truth == Truth::Archive
                {
                    status.home.truth = Truth::Volume;
                    status.home.restore_marker = Some(*key);
                }
            }
        }
        if status.operation != Operation::None {
            status.op_moved_at = Some(self.inputs.now);
        }
        None
    }

    fn judge(&mut self) -> Option<Failure> {
        let Inputs { seen, now, .. } = *self.inputs;
        if seen.instance.is_gone() {
            self.ws.status.home.evict_instance = false;
        }
        let conditions = judge::conditions(&self.ws, seen, now);
        let verdict = judge::verdict(&self.ws, &conditions, seen);
        self.ws.status.conditions = conditions;
        self.ws.status.observed_at = Some(now);
        verdict
    }

    fn phase(&self) -> Phase {
        let deleted = self.ws.deleted_at.is_some();
        // Deleted is an end: what was seen gone once stays gone, even when nobody can look now.
        let remains = if self.ws.status.phase == Phase::Deleted {
            self.inputs.seen.instance.is_there() || self.inputs.seen.volumes.is_there()
        } else {
            judge::remains(self.inputs.seen)
        };
        judge::phase(&self.ws.status.conditions, deleted, remains)
    }

    /// No operation is under way: take over the phase, then see whether one should begin.
    fn idle(mut self) -> Decision {
        let before = self.ws.status.phase;
        let phase = self.phase();
        let fell = before == Phase::Running && phase == Phase::Standby;
        if before != phase {
            let reason = match &self.inputs.seen.instance {
                Seen::There(instance) => match &instance.state {
                    InstanceState::Ended(how) => format!("the instance ended: {how}"),
                    InstanceState::Alive => "the instance does not answer its health check".into(),
                    InstanceState::Ready => "observed".into(),
                },
                Seen::NotThere if fell => "the instance is gone".into(),
                Seen::NotThere | Seen::Unknown => "observed".into(),
            };
            self.note(before, phase, Operation::None, reason);
        }
        set_phase(&mut self.ws.status, phase, self.inputs.now);
        if fell
            && self.ws.desired == Desired::Running
            && !self.inputs.seen.instance_alive()
            && let Some(failure) = self.count_death()
        {
            return self.enter_error(failure);
        }
        let operation = if plan::stray_instance(&self.ws, phase, self.inputs.seen) {
            Operation::Stopping
        } else {
            plan::choose(phase, self.ws.desired, self.ws.status.home.truth)
        };
        // Deleted with nothing left is done without an operation.
        if operation == Operation::None || (phase == Phase::Deleted) {
            return self.rest("nothing to do");
        }
        self.begin(operation);
        self.forward()
    }

    /// An instance that keeps dying is not restarted for ever.
    fn count_death(&mut self) -> Option<Failure> {
        let Inputs { policy, now, seen, .. } = *self.inputs;
        let deaths = &mut self.ws.status.home.deaths;
        deaths.retain(|at| now <= retry::saturating_add(*at, policy.death_window));
        deaths.push(now);
        if deaths.len() < policy.max_deaths {
            return None;
        }
        let how = match &seen.instance {
            Seen::There(instance) => match &instance.state {
                InstanceState::Ended(how) => how.as_str(),
                InstanceState::Ready | InstanceState::Alive => "unknown",
            },
            Seen::NotThere | Seen::Unknown => "it disappeared",
        };
        Some(Failure::new(
            ErrorReason::RetryExceeded,
            format!(
                "the instance ended by itself {} times within {} minutes; the last time: {how}",
                deaths.len(),
                policy.death_window.as_secs() / 60,
            ),
        ))
    }

    /// Takes the operation: its id and, where it makes a volume, the volume's generation are saved
    /// before anything is done.
    fn begin(&mut self, operation: Operation) {
        let now = self.inputs.now;
        let status = &mut self.ws.status;
        status.operation = operation;
        status.op_id = Some(self.inputs.op_id);
        status.op_started_at = Some(now);
        status.op_moved_at = Some(now);
        status.progress = None;
        status.error = None;
        status.error_count = 0;
        status.next_retry_at = None;
        if operation == Operation::Provisioning {
            status.home.generation = status.home.generation.next();
        }
        let phase = status.phase;
        self.note(phase, phase, operation, "began");
    }

    /// Brings the operation under way forward by one step.
    fn forward(mut self) -> Decision {
        let Inputs { now, seen, .. } = *self.inputs;
        let step = plan::next_step(&self.ws, seen);
        if step == Step::Complete {
            return self.complete();
        }
        if self.ws.status.next_retry_at.is_some_and(|at| now < at) {
            return self.rest("waits before the next try");
        }
        match step {
            Step::Complete => self.complete(),
            Step::Blind(what) => self.failed(Failure::new(ErrorReason::Unreachable, what)),
            Step::Stuck(why) => self.failed(Failure::new(ErrorReason::ActionFailed, why)),
            Step::Act(action) if self.had_no_effect(&action) => {
                let blind = seen.instance.is_unknown() || seen.volumes.is_unknown();
                let (reason, message) = if blind {
                    (ErrorReason::Unreachable, "what was done cannot be seen")
                } else {
                    (ErrorReason::ActionFailed, "it was done, but nothing changed")
                };
                self.failed(Failure::new(reason, message))
            }
            Step::Act(action) => {
                if let Action::Restore { into, .. } = &action {
                    self.ws.status.home.generation = *into;
                }
                self.ws.status.op_moved_at = Some(now);
                self.ws.status.next_retry_at = None;
                let mut decision = self.rest("");
                decision.action = Some(action);
                decision
            }
        }
    }

    /// The action that just reported success would be the next one again: that was no success.
    fn had_no_effect(&self, next: &Action) -> bool {
        let Some((before, Outcome::Done)) = self.inputs.outcome else {
            return false;
        };
        std::mem::discriminant(before) == std::mem::discriminant(next)
    }

    fn complete(mut self) -> Decision {
        let Inputs { seen, now, .. } = *self.inputs;
        let operation = self.ws.status.operation;
        if operation == Operation::Provisioning {
            self.ws.status.home.truth = Truth::Volume;
        }
        let status = &mut self.ws.status;
        status.operation = Operation::None;
        status.op_started_at = None;
        status.op_moved_at = None;
        status.progress = None;
        status.error = None;
        status.error_count = 0;
        status.next_retry_at = None;
        self.ws.status.conditions = judge::conditions(&self.ws, seen, now);
        let before = self.ws.status.phase;
        let phase = self.phase();
        set_phase(&mut self.ws.status, phase, now);
        self.note(before, phase, operation, "done");
        let mut decision = self.rest("the operation is complete");
        decision.again = true;
        decision
    }

    fn failed(mut self, failure: Failure) -> Decision {
        let Inputs { policy, now, jitter, .. } = *self.inputs;
        match retry::judge_failure(&self.ws.status, failure, policy, jitter, now) {
            Verdict::GiveUp(failure) => self.enter_error(failure),
            Verdict::Retry { failure, count, at } => {
                let phase = self.phase();
                let status = &mut self.ws.status;
                status.error = Some(failure);
                status.error_count = count;
                status.next_retry_at = Some(at);
                // The try has ended: the deadline is for one that hangs.
                status.op_moved_at = Some(now);
                set_phase(status, phase, now);
                self.rest("the try failed")
            }
        }
    }

    fn enter_error(mut self, failure: Failure) -> Decision {
        let now = self.inputs.now;
        let already = self.ws.status.phase == Phase::Error && self.ws.status.failed();
        if !already {
            let transition = into_error(self.inputs.workspace, &mut self.ws.status, failure, now);
            self.transitions.push(transition);
        }
        self.rest("waits for recovery")
    }

    /// Ends the decision, with the phase that the conditions tell while an operation runs.
    fn rest(mut self, why: &'static str) -> Decision {
        if self.ws.status.operation != Operation::None {
            let phase = self.phase();
            set_phase(&mut self.ws.status, phase, self.inputs.now);
        }
        Decision { status: self.ws.status, transitions: self.transitions, action: None, again: false, why }
    }

    fn note(&mut self, from: Phase, to: Phase, operation: Operation, reason: impl Into<String>) {
        self.transitions.push(Transition {
            from,
            to,
            operation,
            reason: reason.into(),
            actor: Actor::Controller,
        });
    }
}
