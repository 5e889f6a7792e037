//! The controller's jobs: what runs beside its loop, at most one per workspace.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    time::Duration,
};

use codehub_archive::Progress as Meter;
use codehub_domain::{
    Epoch, ErrorReason, Failure, Progress, Timestamp, Workspace, WorkspaceId,
    decide::Outcome,
    observed::{Observed, Waiting},
    plan::Action,
};
use codehub_store::{Due, StoreError};
use futures::FutureExt as _;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    execute::{self, Executor},
    observe,
};
use crate::{Context, health::caught};

/// What a survey found; `None` for what needs a closer look.
pub(super) struct Survey {
    pub(super) now: Timestamp,
    pub(super) found: Vec<(Workspace, Option<Observed>)>,
}

/// A closer look at one workspace; `None` where its row does not exist.
pub(super) struct Observation {
    pub(super) workspace: Result<Option<(Workspace, Timestamp)>, StoreError>,
    pub(super) seen: Observed,
    /// The action that ended just before.
    pub(super) after: Option<(Action, Outcome)>,
}

pub(super) enum Finished {
    Survey(Result<Survey, StoreError>),
    Observation(Box<Observation>),
    Act {
        workspace: WorkspaceId,
        action: Action,
        outcome: Outcome,
    },
    /// A look at this workspace (`None`: the survey) ended without a result, which is a bug.
    Panicked {
        workspace: Option<WorkspaceId>,
        panic: Box<dyn Any + Send>,
    },
}

/// How far an action is.
pub(super) struct UnderWay {
    pub(super) progress: Option<Progress>,
    /// What it waits for, where a backend says so.
    pub(super) waiting: Option<Waiting>,
    /// It has been at it, without a change, for longer than it may.
    pub(super) overdue: bool,
}

struct Job {
    handle: AbortHandle,
    /// `None` for a look.
    act: Option<Act>,
}

struct Act {
    cancel: CancellationToken,
    meter: Meter,
    /// Set when it got a place among those that may work at once.
    working: watch::Receiver<Option<Instant>>,
    waiting: watch::Receiver<Option<Waiting>>,
    /// When the bytes done were last looked at, and how many they were.
    last: (Instant, u64),
    rate: u64,
    moved: u64,
    moved_at: Instant,
}

pub(super) struct Jobs {
    context: Context,
    executor: Executor,
    set: JoinSet<(Option<WorkspaceId>, u64, Finished)>,
    /// By workspace, with the job's number: a job that was cancelled may still report.
    of: BTreeMap<WorkspaceId, (u64, Job)>,
    /// Somebody asked for a look while one was under way, which may have read before what they asked about.
    again: BTreeSet<WorkspaceId>,
    survey: Option<u64>,
    number: u64,
}

impl Jobs {
    pub(super) fn new(context: &Context, epoch: Epoch) -> Self {
        Self {
            context: context.clone(),
            executor: Executor::new(context, epoch),
            set: JoinSet::new(),
            of: BTreeMap::new(),
            again: BTreeSet::new(),
            survey: None,
            number: 0,
        }
    }

    pub(super) fn surveying(&self) -> bool {
        self.survey.is_some()
    }

    pub(super) fn busy(&self, id: WorkspaceId) -> bool {
        self.of.contains_key(&id)
    }

    /// The next job that ends; waits for ever while there is none.
    pub(super) async fn next(&mut self) -> Finished {
        loop {
            match self.set.join_next().await {
                None => std::future::pending().await,
                Some(Ok((id, number, finished))) => {
                    if self.forget(id, number) {
                        return finished;
                    }
                }
                // Cancelled: nobody waits for it.
                Some(Err(_)) => {}
            }
        }
    }

    /// Whether this job was still the current one.
    fn forget(&mut self, id: Option<WorkspaceId>, number: u64) -> bool {
        match id {
            None => self.survey.take_if(|current| *current == number).is_some(),
            Some(id) => {
                let current = self.of.get(&id).is_some_and(|(current, _)| *current == number);
                if current {
                    self.of.remove(&id);
                }
                current
            }
        }
    }

    /// Starts a job; its number, and how to end it.
    fn spawn(
        &mut self,
        workspace: Option<WorkspaceId>,
        work: impl Future<Output = Finished> + Send + 'static,
    ) -> (u64, AbortHandle) {
        self.number += 1;
        let number = self.number;
        // What it leaves half-done in the world, the next look finds.
        let work = AssertUnwindSafe(work).catch_unwind();
        let handle = self.set.spawn(async move {
            let finished = work.await.unwrap_or_else(|panic| Finished::Panicked { workspace, panic });
            (workspace, number, finished)
        });
        (number, handle)
    }

    pub(super) fn survey(&mut self, due: Due) {
        let context = self.context.clone();
        let survey = async move { Finished::Survey(observe::survey(&context, due).await) };
        self.survey = Some(self.spawn(None, survey).0);
    }

    pub(super) fn look(&mut self, id: WorkspaceId, after: Option<(Action, Outcome)>) {
        // Whatever was asked for meanwhile, this one sees it.
        self.again.remove(&id);
        let context = self.context.clone();
        let look =
            async move { Finished::Observation(Box::new(observe::look_at(&context, id, after).await)) };
        let (number, handle) = self.spawn(Some(id), look);
        self.of.insert(id, (number, Job { handle, act: None }));
    }

    /// Looks now, or when what is under way has ended.
    pub(super) fn look_soon(&mut self, id: WorkspaceId) {
        if self.busy(id) {
            self.again.insert(id);
        } else {
            self.look(id, None);
        }
    }

    /// A look has ended, and what it led to has begun: looks again, if somebody asked for it meanwhile and nothing is
    /// under way. What an action changes is looked at when it ends.
    pub(super) fn look_again_if_asked(&mut self, id: WorkspaceId) {
        if self.again.contains(&id) && !self.busy(id) {
            self.look(id, None);
        }
    }

    /// Whether a look is under way, and no action.
    pub(super) fn looking(&self, id: WorkspaceId) -> bool {
        self.of.get(&id).is_some_and(|(_, job)| job.act.is_none())
    }

    pub(super) fn act(&mut self, workspace: Workspace, action: Action) {
        let id = workspace.id;
        let (cancel, meter) = (CancellationToken::new(), Meter::default());
        let (started, working) = watch::channel(None);
        let (waits, waiting) = watch::channel(None);
        let executor = self.executor.clone();
        let (cancel_inside, meter_inside) = (cancel.clone(), meter.clone());
        let (number, handle) = self.spawn(Some(id), async move {
            let begun = Instant::now();
            let attempt = executor.run(&workspace, &action, &meter_inside, &cancel_inside, &started, &waits);
            let attempt = AssertUnwindSafe(attempt).catch_unwind().await;
            // The same policy as for any failure: a few more tries, then a person is told.
            let outcome = attempt.unwrap_or_else(|panic| {
                let why = caught("action", &*panic);
                execute::action_failed(format!("CodeHub itself failed, which is a bug: {why}"))
            });
            metrics::histogram!(crate::metric::ACTION_SECONDS, "action" => execute::name(&action))
                .record(begun.elapsed().as_secs_f64());
            Finished::Act { workspace: id, action, outcome }
        });
        let now = Instant::now();
        let act = Act { cancel, meter, working, waiting, last: (now, 0), rate: 0, moved: 0, moved_at: now };
        self.of.insert(id, (number, Job { handle, act: Some(act) }));
    }

    /// Ends an action that hangs. Its effects may still happen; generations and operation ids make
    /// that harmless.
    pub(super) fn cancel(&mut self, id: WorkspaceId) {
        if let Some((_, job)) = self.of.remove(&id) {
            if let Some(act) = &job.act {
                act.cancel.cancel();
            }
            job.handle.abort();
        }
    }

    /// How far the action of this workspace is; `None` when it is only being looked at, or waits for
    /// a place.
    pub(super) fn under_way(
        &mut self,
        id: WorkspaceId,
        limit: impl Fn(Option<&Waiting>) -> Option<Duration>,
    ) -> Option<UnderWay> {
        let act = self.of.get_mut(&id)?.1.act.as_mut()?;
        let since = (*act.working.borrow())?;
        let now = Instant::now();
        let (done, total) = (act.meter.done(), act.meter.total());
        if act.meter.moved() != act.moved {
            act.moved = act.meter.moved();
            act.moved_at = now;
        }
        if done != act.last.1 {
            let seconds = now.duration_since(act.last.0).as_secs_f64().max(0.001);
            act.rate = (done.saturating_sub(act.last.1) as f64 / seconds) as u64;
            act.last = (now, done);
        }
        let progress = (total > 0).then_some(Progress { done, total, rate: act.rate });
        let idle = now.duration_since(act.moved_at.max(since));
        let waiting = act.waiting.borrow().clone();
        let overdue = limit(waiting.as_ref()).is_some_and(|limit| idle > limit);
        Some(UnderWay { progress, waiting, overdue })
    }
}

impl Drop for Jobs {
    /// Losing the lead ends everything that was under way, blocking work included.
    fn drop(&mut self) {
        for (_, job) in self.of.values() {
            if let Some(act) = &job.act {
                act.cancel.cancel();
            }
        }
    }
}

/// A failure of our own making, for the one place that needs it.
pub(super) fn fenced() -> Outcome {
    Outcome::Failed(Failure::new(ErrorReason::Unreachable, "this process does not lead any more"))
}
