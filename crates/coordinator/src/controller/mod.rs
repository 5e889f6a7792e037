//! The workspace controller: observe → judge → plan → execute → save, for every workspace that needs
//! it, for ever.
//!
//! It is level-triggered: a wake, a timer and a finished job all lead to the same question ("what is
//! there, what is wanted?"), and nothing but the database and the world answers it. A new leader
//! therefore continues what it finds.
//!
//! The loop itself never waits for a dependency other than the store. Everything slow is a job: the
//! *survey* (which workspaces are due, and a bulk look at instances and volumes), a *look* at one
//! workspace, or an *act* on one. There is at most one job per workspace, so a slow archive delays
//! nobody else and no two actions ever touch one home. Dropping the controller ends its jobs. A panic
//! stays with the one workspace it is about.

mod execute;
mod jobs;
mod observe;
mod pace;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use codehub_domain::{
    Epoch, Operation, Status, Timestamp, Truth, Workspace, WorkspaceId,
    decide::{self, Decision, Inputs, Outcome},
    observed::{self, Observed},
    plan::Action,
    waiting::{Waiting, waiting},
};
use codehub_store::{Due, Saved, StoreError};
use tokio::{sync::broadcast::error::RecvError, time::Instant};

use super::{
    Context, Ended,
    health::{Component, caught},
};
use jobs::{Finished, Jobs, Observation, Survey};
use pace::Pace;

/// How many of the quiet workspaces a full survey looks at beside the others.
const ALSO_OLDEST: u32 = 32;

/// Leads until it is fenced.
pub async fn run(context: Context, epoch: Epoch) -> Ended {
    let (mut wakes, mut looks) = (context.backends.bus.wakes(), context.backends.bus.looks());
    let mut controller = Controller {
        pace: Pace::new(&context.settings, Instant::now()),
        jobs: Jobs::new(&context, epoch),
        context,
        epoch,
    };
    loop {
        controller.survey_if_due();
        let step = tokio::select! {
            biased;
            finished = controller.jobs.next() => controller.settle(finished).await,
            wake = wakes.recv() => match wake {
                Ok(()) | Err(RecvError::Lagged(_)) => {
                    controller.pace.wake(Instant::now());
                    Ok(())
                }
                Err(RecvError::Closed) => return Ended::StoreClosed,
            },
            look = looks.recv() => match look {
                Ok(workspace) => {
                    controller.jobs.look_soon(workspace);
                    Ok(())
                }
                Err(RecvError::Lagged(_)) => {
                    controller.pace.wake_to_everything(Instant::now());
                    Ok(())
                }
                Err(RecvError::Closed) => return Ended::StoreClosed,
            },
            () = tokio::time::sleep_until(controller.pace.next()), if !controller.jobs.surveying() => {
                controller.pace.time_is_up(Instant::now());
                Ok(())
            }
        };
        match step {
            Ok(()) => {}
            Err(Stop::Fenced) => return Ended::Fenced,
            Err(error @ (Stop::Store(_) | Stop::Rules(_))) => {
                metrics::counter!(crate::metric::COMPONENT_ERRORS, "component" => "controller").increment(1);
                tracing::warn!(%error, "the controller could not finish a step; it looks again");
            }
        }
    }
}

/// Why a step could not be finished.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("another process leads")]
    Fenced,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bug: nothing was decided for this workspace.
    #[error("the rules panicked over workspace {0}")]
    Rules(WorkspaceId),
}

struct Controller {
    context: Context,
    epoch: Epoch,
    jobs: Jobs,
    pace: Pace,
}

impl Controller {
    fn survey_if_due(&mut self) {
        if !self.jobs.surveying()
            && let Some(full) = self.pace.take_due(Instant::now())
        {
            let due = if full { Due::Full { also_oldest: ALSO_OLDEST } } else { Due::Active };
            self.jobs.survey(due);
        }
    }

    async fn settle(&mut self, finished: Finished) -> Result<(), Stop> {
        match finished {
            Finished::Survey(survey) => {
                self.context.health.well(Component::Survey);
                self.surveyed(survey?).await
            }
            Finished::Observation(look) => self.looked(*look).await,
            Finished::Act { workspace, action, outcome } => {
                note_outcome(workspace, &action, &outcome);
                self.jobs.look(workspace, Some((action, outcome)));
                Ok(())
            }
            // The next survey comes when it would have come anyway.
            Finished::Panicked { workspace: None, panic } => {
                self.context.health.panicked(Component::Survey, &*panic);
                Ok(())
            }
            Finished::Panicked { workspace: Some(workspace), panic } => {
                let why = caught("look", &*panic);
                tracing::error!(%workspace, why, "a look at a workspace panicked; the next survey looks again");
                Ok(())
            }
        }
    }

    /// A survey came back: follow what is under way, and decide for the rest.
    async fn surveyed(&mut self, survey: Survey) -> Result<(), Stop> {
        let mut quiet = BTreeSet::new();
        for (workspace, seen) in survey.found {
            let id = workspace.id;
            let step = match seen {
                _ if self.jobs.looking(id) => {
                    // It may have read before what this survey is about.
                    self.jobs.look_soon(id);
                    self.pace.busy(Instant::now());
                    Ok(true)
                }
                _ if self.jobs.busy(id) => self.watch(&workspace, survey.now).await.map(|()| true),
                Some(seen) => self.reconcile(workspace, &seen, None, survey.now).await,
                None => {
                    self.jobs.look(id, None);
                    continue;
                }
            };
            match step {
                Ok(true) => {}
                Ok(false) => {
                    quiet.insert(id);
                }
                Err(Stop::Fenced) => return Err(Stop::Fenced),
                // Only this one waits; a database that is away says so again for the next.
                Err(error @ (Stop::Store(_) | Stop::Rules(_))) => {
                    metrics::counter!(crate::metric::COMPONENT_ERRORS, "component" => "controller")
                        .increment(1);
                    tracing::warn!(workspace = %id, %error, "could not be decided now");
                }
            }
        }
        let quiet: Vec<WorkspaceId> = quiet.into_iter().collect();
        if !quiet.is_empty() && !self.context.backends.store.workspaces_observed(self.epoch, &quiet).await? {
            return Err(Stop::Fenced);
        }
        Ok(())
    }

    async fn looked(&mut self, look: Observation) -> Result<(), Stop> {
        let Some((workspace, now)) = look.workspace? else { return Ok(()) };
        let id = workspace.id;
        let outcome = look.after.as_ref().map(|(action, outcome)| (action, outcome));
        self.reconcile(workspace, &look.seen, outcome, now).await?;
        self.jobs.look_again_if_asked(id);
        Ok(())
    }

    /// Judge → plan → save → execute, for one workspace of which no job is under way. Says whether
    /// anything was saved.
    async fn reconcile(
        &mut self,
        mut workspace: Workspace,
        seen: &Observed,
        outcome: Option<(&Action, &Outcome)>,
        now: Timestamp,
    ) -> Result<bool, Stop> {
        let mut decision = self.decide(&Inputs {
            workspace: &workspace,
            seen,
            outcome,
            policy: &self.context.settings.retry,
            now,
            op_id: self.context.chance.op_id(),
            jitter: self.context.chance.jitter(),
        })?;
        self.stamp(&workspace, &mut decision.status);
        let waited_for = waiting(&workspace);
        let saves = changed(&workspace, &decision);
        if saves && !self.save(&mut workspace, &decision).await? {
            return Ok(true);
        }
        note_waiting(&workspace, waited_for, decision.why);
        if codehub_store::is_active(&workspace) {
            self.pace.busy(Instant::now());
        }
        if let Some(action) = decision.action {
            self.jobs.act(workspace, action);
        } else if decision.again {
            self.jobs.look(workspace.id, None);
        }
        Ok(saves)
    }

    /// What the rules say. Should they panic over this workspace, they still hold for every other.
    fn decide(&self, inputs: &Inputs<'_>) -> Result<Decision, Stop> {
        catch_unwind(AssertUnwindSafe(|| (self.context.decide)(inputs))).map_err(|panic| {
            let (workspace, why) = (inputs.workspace.id, caught("rules", &*panic));
            tracing::error!(%workspace, why, "the rules panicked over a workspace; it waits");
            Stop::Rules(workspace)
        })
    }

    /// Notes where the home and the instance live, when they come into being or go.
    fn stamp(&self, before: &Workspace, next: &mut Status) {
        let backends = &self.context.backends;
        if next.home.truth != before.status.home.truth {
            next.storage_backend = match next.home.truth {
                Truth::Volume => backends.volumes_name().into(),
                Truth::None | Truth::Archive => String::new(),
            };
        }
        if next.operation != before.status.operation && next.operation == Operation::Starting {
            next.instance_backend = backends.instances_name().into();
        }
    }

    /// An action is under way: save how far it is, end it if it stands still.
    async fn watch(&mut self, workspace: &Workspace, now: Timestamp) -> Result<(), Stop> {
        self.pace.busy(Instant::now());
        let policy = self.context.settings.retry;
        let operation = workspace.status.operation;
        let limit = |waiting: Option<&observed::Waiting>| policy.limit(operation, waiting);
        let Some(under_way) = self.jobs.under_way(workspace.id, limit) else {
            return Ok(());
        };
        let watched = decide::watch(workspace, under_way.progress, under_way.waiting.as_ref(), &policy, now);
        if watched.cancel && !under_way.overdue {
            // By its own clock it has not had its time yet: it waited for a free place.
            return Ok(());
        }
        if watched.cancel {
            self.jobs.cancel(workspace.id);
        }
        if let Some(status) = watched.status {
            let store = &self.context.backends.store;
            if store.workspace_save(self.epoch, workspace, &status, &watched.transitions).await?
                == Saved::Fenced
            {
                return Err(Stop::Fenced);
            }
        }
        Ok(())
    }

    /// `false`: somebody wrote in between, or the row is gone; the decision is void.
    async fn save(&mut self, workspace: &mut Workspace, decision: &Decision) -> Result<bool, Stop> {
        let store = &self.context.backends.store;
        let Decision { status, transitions, archive, .. } = decision;
        let saved =
            store.workspace_save_archived(self.epoch, workspace, status, transitions, archive.as_ref());
        match saved.await? {
            Saved::Saved(revision) => {
                for transition in &decision.transitions {
                    tracing::info!(
                        workspace = %workspace.id, from = %transition.from, to = %transition.to,
                        operation = %transition.operation, reason = %transition.reason, "transition"
                    );
                }
                workspace.status = decision.status.clone();
                workspace.revision = revision;
                Ok(true)
            }
            Saved::Changed => {
                self.pace.wake(Instant::now());
                Ok(false)
            }
            Saved::Gone => Ok(false),
            Saved::Fenced => Err(Stop::Fenced),
        }
    }
}

/// Whether the decision is worth a write. When it was last looked at is not.
fn changed(workspace: &Workspace, decision: &Decision) -> bool {
    let mut next = decision.status.clone();
    next.observed_at = workspace.status.observed_at;
    next != workspace.status || !decision.transitions.is_empty()
}

/// Says what a workspace waits for, once: not at every look that finds it waiting.
fn note_waiting(workspace: &Workspace, before: Option<Waiting>, why: &'static str) {
    let waits_for = waiting(workspace);
    if waits_for == before {
        return;
    }
    if let Some(waits_for) = waits_for {
        let (workspace, message) = (workspace.id, waits_for.message(&workspace.status));
        tracing::info!(%workspace, %waits_for, why, message, "a workspace waits");
    } else {
        tracing::debug!(workspace = %workspace.id, why, "a workspace does not wait any more");
    }
}

fn note_outcome(workspace: WorkspaceId, action: &Action, outcome: &Outcome) {
    match outcome {
        Outcome::Failed(failure) => {
            metrics::counter!(crate::metric::ACTION_FAILURES, "action" => execute::name(action), "reason" => failure.reason.as_str())
                .increment(1);
            tracing::warn!(%workspace, ?action, %failure, "an action failed");
        }
        Outcome::Done | Outcome::Archived { .. } | Outcome::Restored { .. } => {
            tracing::debug!(%workspace, ?action, "an action is done");
        }
    }
}
