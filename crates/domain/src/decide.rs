//! One whole step of the controller for one workspace: apply what an action reported, judge what
//! was seen, and say what to save and what to do next.
//!
//! Guarantees, whatever the inputs:
//! - the returned status is saved *before* the returned action runs (intent first);
//! - ERROR always comes with operation NONE and is never left here;
//! - a home is provisioned only where there never was one, and a volume is given up only when it is
//!   not the true copy (or the workspace is being deleted);
//! - when an action's report moves the truth, that is saved and nothing else is done: what was seen
//!   may be older than the report, or of another archive. The next look decides what follows.

mod watch;

pub use watch::{Watch, watch};

use crate::{
    ArchiveKey, ArchiveRecord, Desired, ErrorReason, Failure, Generation, OpId, Operation, Phase, Status,
    Timestamp, Truth, Workspace,
    condition::set,
    event::{Actor, Reason, Transition},
    judge,
    observed::{EndedBy, Instance, InstanceState, Observed, Seen},
    plan::{self, Abandoned, Action, Step},
    retry::{self, Policy, Verdict},
};

/// What an action reported when it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It says it did it; the observation tells.
    Done,
    /// Data and meta are stored and verified.
    Archived {
        /// The archive that is complete now, as it was packed here.
        archive: ArchiveRecord,
    },
    /// The whole archive was unpacked, checked and made durable on this generation.
    Restored {
        /// The archive that is complete now.
        key: ArchiveKey,
        /// The generation it was packed from.
        generation: Generation,
    },
    /// The attempt failed; the policy says what follows.
    Failed(Failure),
}

/// Everything a decision depends on.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// The row, as it is in the database.
    pub workspace: &'a Workspace,
    /// What was observed, after the row was read.
    pub seen: &'a Observed,
    /// The action that has just ended, and what it reported.
    pub outcome: Option<(&'a Action, &'a Outcome)>,
    /// Deadlines and retries.
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
    /// The new status, to be saved with the transitions before `action` is executed.
    pub status: Status,
    /// What the history gains.
    pub transitions: Vec<Transition>,
    /// What the key that has just become the home's is held against from now on: saved with the status.
    pub archive: Option<ArchiveRecord>,
    /// What to do next; `None` while there is nothing to do, and then `why` says so.
    pub action: Option<Action>,
    /// Look and decide again at once: an operation ended, or the home moved, and more may follow.
    pub again: bool,
    /// Why there is no action, for logs. What people are shown is told from the row: [`crate::waiting`].
    pub why: &'static str,
}

/// Decides for a workspace of which no action is under way.
pub fn decide(inputs: &Inputs<'_>) -> Decision {
    let mut step = Stepper::new(inputs);
    if step.commit() {
        return step.committed();
    }
    if let Some(failure) = step.judge() {
        return step.enter_error(failure);
    }
    if step.ws.status.operation == Operation::None {
        return step.idle();
    }
    match inputs.outcome {
        // Reality before reports: what is there is done, whatever the action said.
        Some((_, Outcome::Failed(failure))) if plan::next_step(&step.ws, inputs.seen) != Step::Complete => {
            step.failed(failure.clone())
        }
        Some(_) | None => step.forward(),
    }
}

/// Invariant 1, the one way into ERROR: phase, operation, reason and count change together.
fn into_error(status: &mut Status, failure: Failure, now: Timestamp) -> Transition {
    let transition = Transition {
        from: status.phase,
        to: Phase::Error,
        operation: status.operation,
        reason: Reason::Failed(failure.clone()),
        actor: Actor::Controller,
    };
    set(&mut status.conditions.healthy, false, failure.reason.as_str(), failure.message.clone(), now);
    status.leave_operation();
    status.next_retry_at = None;
    status.error = Some(failure);
    status.error_count = status.error_count.saturating_add(1);
    set_phase(status, Phase::Error, now);
    transition
}

/// Whether the operation ends with a failed try, and is taken up again when the next one is due: the home
/// is still on its volume, and whoever wants to work with it need not wait for a store that is away.
fn gives_way(status: &Status) -> bool {
    status.operation == Operation::Archiving && status.home.truth == Truth::Volume
}

/// Whether `operation` is the one whose last try failed: it goes on with its id, so that what it stored
/// counts, and with its count of failures. Whatever else begins in between forgets both.
fn resumes(status: &Status, operation: Operation) -> bool {
    operation == Operation::Archiving && status.error.is_some()
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
    archive: Option<ArchiveRecord>,
}

impl<'a> Stepper<'a> {
    fn new(inputs: &'a Inputs<'a>) -> Self {
        Self { inputs, ws: inputs.workspace.clone(), transitions: Vec::new(), archive: None }
    }

    /// Moves the truth to the copy an action has made, if it belongs to the operation under way: a
    /// report that comes late, for an operation that has ended, changes nothing.
    fn commit(&mut self) -> bool {
        let Inputs { seen, now, .. } = *self.inputs;
        let Some((_, outcome)) = self.inputs.outcome else { return false };
        let key_of_op = self.ws.op_archive_key();
        let status = &mut self.ws.status;
        match outcome {
            Outcome::Done | Outcome::Failed(_) => false,
            Outcome::Archived { archive } => {
                let key = &archive.key;
                let of_this_home = match status.operation {
                    Operation::CreateEmptyArchive => status.home.truth == Truth::None,
                    // Packed while something ran on it: that may be half of a home.
                    Operation::Archiving => {
                        status.home.truth == Truth::Volume && !seen.runs_on(status.home.generation)
                    }
                    Operation::None
                    | Operation::Provisioning
                    | Operation::Restoring
                    | Operation::Starting
                    | Operation::Stopping
                    | Operation::Deleting => false,
                };
                if !of_this_home || key_of_op != Some(*key) {
                    return false;
                }
                status.archive_key = Some(*key);
                status.home.truth = Truth::Archive;
                status.home.restore_marker = None;
                set(&mut status.conditions.archive_ready, true, "Stored", key.to_string(), now);
                self.archive = Some(archive.clone());
                if status.operation == Operation::Archiving {
                    status.home.packed_from = Some(status.home.generation);
                    set(&mut status.conditions.volume_ready, false, "ArchiveIsTheHome", "", now);
                }
                true
            }
            Outcome::Restored { key, generation } => {
                let home = &mut status.home;
                if status.operation != Operation::Restoring
                    || status.archive_key != Some(*key)
                    || home.generation != *generation
                    || home.truth != Truth::Archive
                {
                    return false;
                }
                home.truth = Truth::Volume;
                home.restore_marker = Some(*key);
                home.packed_from = None;
                let found = format!("generation {generation}");
                set(&mut status.conditions.volume_ready, true, "Restored", found, now);
                true
            }
        }
    }

    /// The home has moved: that is saved before anything else is looked at or done.
    fn committed(mut self) -> Decision {
        self.ws.status.op_moved_at = Some(self.inputs.now);
        let mut decision = self.rest("the home has moved; looks again before going on");
        decision.again = true;
        decision
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
        let seen = self.inputs.seen;
        // Deleted is an end: what was seen gone once stays gone, even when nobody can look now.
        let remains = if self.ws.status.phase == Phase::Deleted {
            seen.instance.is_there() || seen.generations().is_some_and(|set| !set.is_empty())
        } else {
            judge::remains(seen)
        };
        judge::phase(&self.ws.status.conditions, self.deleted(), remains)
    }

    fn deleted(&self) -> bool {
        self.ws.deleted_at.is_some()
    }

    /// No operation is under way: take over the phase, then see whether one should begin.
    fn idle(mut self) -> Decision {
        let before = self.ws.status.phase;
        let phase = self.phase();
        let fell = before == Phase::Running && phase == Phase::Standby;
        if before != phase {
            let reason = match &self.inputs.seen.instance {
                Seen::There(instance) => match &instance.state {
                    InstanceState::Ended { by: EndedBy::Program, how } => Reason::InstanceEnded(how.clone()),
                    InstanceState::Ended { by: EndedBy::Platform, how } => {
                        Reason::InstanceInterrupted(how.clone())
                    }
                    InstanceState::Ended { by: EndedBy::Image, how } => Reason::InstanceNoImage(how.clone()),
                    InstanceState::Waiting(waiting) => Reason::InstanceWaiting(waiting.words.clone()),
                    InstanceState::Alive => Reason::InstanceNotAnswering,
                    InstanceState::Ready => Reason::Confirmed,
                },
                Seen::NotThere if fell => Reason::InstanceGone,
                Seen::NotThere | Seen::Unknown => Reason::Confirmed,
            };
            self.note(before, phase, Operation::None, reason);
        }
        set_phase(&mut self.ws.status, phase, self.inputs.now);
        if let Some(how) = self.death() {
            if before == phase {
                // It looked like silence first, and that is all the history knows.
                self.note(phase, phase, Operation::None, Reason::InstanceEnded(how.to_owned()));
            }
            if let Some(failure) = self.count_death(how) {
                return self.enter_error(failure);
            }
        }
        if fell && self.inputs.seen.runs_on(self.ws.status.home.generation) && self.may_be_dying() {
            // One more look tells, before a start replaces it uncounted.
            let mut decision = self.rest("looks whether it is dying");
            decision.again = true;
            return decision;
        }
        let operation = if self.deleted() {
            plan::choose(phase, Desired::Deleted, self.ws.status.home.truth)
        } else if plan::stray_instance(&self.ws, phase, self.inputs.seen) {
            Operation::Stopping
        } else {
            plan::choose(phase, self.ws.desired, self.ws.status.home.truth)
        };
        if operation == Operation::None {
            let arrived = phase == self.ws.desired.phase() || phase == Phase::Deleted;
            if arrived {
                self.ws.status.forget_failure();
            }
            return self.rest(if arrived { "nothing to do" } else { "waits until the home can be seen" });
        }
        let resumes = resumes(&self.ws.status, operation);
        if resumes && self.waits() {
            return self.rest("waits before the next try");
        }
        if resumes {
            self.ws.status.take_operation(operation, self.inputs.now);
        } else {
            self.begin(operation);
        }
        self.forward()
    }

    fn waits(&self) -> bool {
        self.ws.status.next_retry_at.is_some_and(|at| self.inputs.now < at)
    }

    /// How the instance died, if it should run and its own program ended: whoever else ended it, it is
    /// started again and nothing is counted. Asked while nothing is under way only, and a start follows at
    /// once, so each death is seen here once.
    fn death(&self) -> Option<&'a str> {
        let status = &self.ws.status;
        match &self.inputs.seen.instance {
            Seen::There(Instance {
                generation,
                state: InstanceState::Ended { by: EndedBy::Program, how },
            }) if self.ws.desired == Desired::Running
                && !self.deleted()
                && !status.home.evict_instance
                && status.phase == Phase::Standby
                && *generation == status.home.generation =>
            {
                Some(how)
            }
            Seen::There(_) | Seen::NotThere | Seen::Unknown => None,
        }
    }

    /// Whether it should run and merely does not answer: so does what is about to end.
    fn may_be_dying(&self) -> bool {
        self.ws.desired == Desired::Running
            && !self.deleted()
            && !self.ws.status.home.evict_instance
            && matches!(&self.inputs.seen.instance, Seen::There(Instance { state: InstanceState::Alive, .. }))
    }

    /// An instance that keeps dying is not restarted for ever.
    fn count_death(&mut self, how: &str) -> Option<Failure> {
        let Inputs { policy, now, .. } = *self.inputs;
        let deaths = &mut self.ws.status.home.deaths;
        deaths.retain(|at| now <= retry::saturating_add(*at, policy.death_window));
        deaths.push(now);
        if deaths.len() < policy.max_deaths {
            return None;
        }
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
        let status = &mut self.ws.status;
        status.take_operation(operation, self.inputs.now);
        status.op_id = Some(self.inputs.op_id);
        status.forget_failure();
        if operation == Operation::Provisioning {
            status.home.generation = self.inputs.seen.unused_after(status.home.newest());
        }
        let phase = status.phase;
        self.note(phase, phase, operation, Reason::OperationStarted);
    }

    /// Brings the operation under way forward by one step.
    fn forward(mut self) -> Decision {
        let Inputs { now, seen, .. } = *self.inputs;
        let step = plan::next_step(&self.ws, seen);
        if step == Step::Complete {
            return self.complete();
        }
        if self.waits() {
            return self.rest("waits before the next try");
        }
        match step {
            Step::Complete => self.complete(),
            Step::Abandon(why) => self.abandon(why),
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
        let operation = self.ws.status.operation;
        let home = &mut self.ws.status.home;
        match operation {
            Operation::Provisioning => home.truth = Truth::Volume,
            // The volume is gone now.
            Operation::Archiving => home.packed_from = None,
            Operation::None
            | Operation::CreateEmptyArchive
            | Operation::Restoring
            | Operation::Starting
            | Operation::Stopping
            | Operation::Deleting => {}
        }
        self.end(operation, Reason::OperationDone, "done")
    }

    /// Ends an operation whose work so far must not be used; the next decision begins another.
    fn abandon(self, why: Abandoned) -> Decision {
        let operation = self.ws.status.operation;
        self.end(operation, Reason::Abandoned(why), why.text())
    }

    /// Nothing is under way any more, and nothing is wrong: the phase is what the world says.
    fn end(mut self, operation: Operation, reason: Reason, why: &'static str) -> Decision {
        let status = &mut self.ws.status;
        status.leave_operation();
        status.forget_failure();
        let verdict = self.judge();
        let before = self.ws.status.phase;
        if let Some(failure) = verdict {
            self.note(before, before, operation, reason);
            return self.enter_error(failure);
        }
        let phase = self.phase();
        set_phase(&mut self.ws.status, phase, self.inputs.now);
        self.note(before, phase, operation, reason);
        let mut decision = self.rest(why);
        decision.again = true;
        decision
    }

    fn failed(mut self, failure: Failure) -> Decision {
        let Inputs { policy, now, jitter, .. } = *self.inputs;
        match retry::judge_failure(&self.ws.status, failure, policy, jitter, now) {
            // Nobody could recover it: deleting is what comes next.
            Verdict::GiveUp(_) if self.deleted() => self.abandon(Abandoned::NotNeeded),
            Verdict::GiveUp(failure) => self.enter_error(failure),
            Verdict::Retry { failure, count, at } => {
                let status = &mut self.ws.status;
                status.error = Some(failure);
                status.error_count = count;
                status.next_retry_at = Some(at);
                // The try has ended: the deadline is for one that hangs.
                status.op_moved_at = Some(now);
                let gives_way = gives_way(status);
                let mut decision = self.rest("the try failed");
                if gives_way {
                    decision.status.leave_operation();
                    decision.again = true;
                }
                decision
            }
        }
    }

    fn enter_error(mut self, failure: Failure) -> Decision {
        let now = self.inputs.now;
        let status = &self.ws.status;
        let already = status.phase == Phase::Error && status.operation == Operation::None && status.failed();
        if !already {
            let transition = into_error(&mut self.ws.status, failure, now);
            self.transitions.push(transition);
            self.ws.status.conditions = judge::conditions(&self.ws, self.inputs.seen, now);
        }
        self.rest("waits for recovery")
    }

    /// Ends the decision, with the phase that the conditions tell while an operation runs.
    fn rest(mut self, why: &'static str) -> Decision {
        let Status { operation, phase: before, .. } = self.ws.status;
        if operation != Operation::None {
            let phase = self.phase();
            if phase != before {
                self.note(before, phase, operation, Reason::Confirmed);
            }
            set_phase(&mut self.ws.status, phase, self.inputs.now);
        }
        Decision {
            status: self.ws.status,
            transitions: self.transitions,
            archive: self.archive,
            action: None,
            again: false,
            why,
        }
    }

    fn note(&mut self, from: Phase, to: Phase, operation: Operation, reason: Reason) {
        self.transitions.push(Transition { from, to, operation, reason, actor: Actor::Controller });
    }
}
