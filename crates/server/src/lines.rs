//! Lines to the programs inside workspaces: one for each workspace that something is asked of, opened when it is and
//! closed a minute after the last stream on it has ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use codehub_domain::WorkspaceId;
use codehub_inside::line::client::{Line, LineError};
use codehub_runtime::{Instances, LineTo, RuntimeError};
use tokio::{sync::watch, time::sleep};

/// A line without a stream is closed after this time.
const IDLE: Duration = Duration::from_secs(60);

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum NoLine {
    /// Nothing runs.
    #[error("the workspace does not run")]
    NotRunning,
    /// It runs without the program inside.
    #[error("{0}")]
    Nobody(&'static str),
    /// Nobody knows.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Whoever is there does not answer.
    #[error(transparent)]
    Line(#[from] LineError),
}

/// The lines of this process.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<HashMap<WorkspaceId, Arc<Slot>>>>);

/// The line of one workspace, or room for it.
#[derive(Default)]
struct Slot {
    line: tokio::sync::Mutex<Option<Line>>,
    /// How many use it now.
    uses: watch::Sender<usize>,
}

/// A line that stays open while this lives.
pub struct OpenLine {
    line: Line,
    slot: Arc<Slot>,
}

impl std::ops::Deref for OpenLine {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.line
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        self.slot.uses.send_modify(|uses| *uses -= 1);
    }
}

impl Lines {
    fn slots(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line to this workspace, opened if there is none.
    ///
    /// # Errors
    /// There is nobody to speak to, or nobody answers.
    pub async fn to(&self, instances: &dyn Instances, id: WorkspaceId) -> Result<OpenLine, NoLine> {
        let slot = Arc::clone(self.slots().entry(id).or_default());
        let mut held = slot.line.lock().await;
        let line = match &*held {
            Some(line) if !line.is_closed() => line.clone(),
            _ => {
                let stream = match instances.line(id).await? {
                    LineTo::Open(stream) => stream,
                    LineTo::Nobody(why) => return Err(NoLine::Nobody(why)),
                    LineTo::NotRunning => return Err(NoLine::NotRunning),
                };
                let (line, moved) = Line::open(stream).await?;
                tokio::spawn(self.clone().keep(id, Arc::clone(&slot), moved));
                held.insert(line).clone()
            }
        };
        // While the slot is held: nobody closes what is about to be used.
        slot.uses.send_modify(|uses| *uses += 1);
        drop(held);
        Ok(OpenLine { line, slot })
    }

    /// Moves the bytes of a line until it ends or nobody has used it for a while.
    async fn keep(self, id: WorkspaceId, slot: Arc<Slot>, moved: impl Future<Output = ()>) {
        let open = metrics::gauge!(crate::telemetry::metrics::LINES);
        open.increment(1.0);
        tokio::select! {
            () = moved => {}
            () = slot.idle() => {}
        }
        open.decrement(1.0);
        let mut slots = self.slots();
        // Two at most hold it: the map and this. Whoever waits for it opens a new one in it.
        if slots.get(&id).is_some_and(|known| Arc::ptr_eq(known, &slot)) && Arc::strong_count(&slot) <= 2 {
            slots.remove(&id);
        }
    }
}

impl Slot {
    /// Resolves when nobody has used the line for a while; it is not in the slot any more then.
    async fn idle(&self) {
        let mut uses = self.uses.subscribe();
        loop {
            if *uses.borrow_and_update() == 0 {
                let used = tokio::time::timeout(IDLE, uses.changed()).await;
                if used.is_err() {
                    let mut held = self.line.lock().await;
                    if *self.uses.borrow() == 0 {
                        *held = None;
                        return;
                    }
                }
            } else if uses.changed().await.is_err() {
                // Never: the sender is this slot's own.
                sleep(IDLE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use codehub_domain::{Generation, UserId, VolumeKey};
    use codehub_runtime::{
        Fence, InstanceSpec,
        fake::{FakeBackends, Faults, Gate, LineServer, World},
        volumes::Volumes,
    };
    use codehub_testing::eventually;
    use uuid::Uuid;

    use super::*;

    async fn running() -> (FakeBackends, WorkspaceId, Arc<std::sync::atomic::AtomicUsize>) {
        let world = World::new(1, Faults::NONE, None);
        let home = tempfile::tempdir().unwrap();
        let inside = codehub_inside::line::Inside::new(home.path(), true).unwrap();
        let opened = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        world.answer_lines(LineServer::new(move |line| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let inside = inside.clone();
            Box::pin(async move { inside.serve(line).await })
        }));
        let fake = FakeBackends { world, gate: Gate::new() };
        let workspace = WorkspaceId::from_uuid(Uuid::now_v7());
        let volume =
            VolumeKey { owner: UserId::from_uuid(Uuid::now_v7()), workspace, generation: Generation(1) };
        fake.create(&volume, 0).await.unwrap();
        let spec = InstanceSpec {
            workspace,
            name: String::new(),
            image_ref: String::new(),
            volume,
            base_path: "/".into(),
            url: String::new(),
            api_url: String::new(),
            port_url: None,
        };
        fake.start(&spec, &Fence::open()).await.unwrap();
        (fake, workspace, opened)
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_is_shared_and_closed_when_nobody_has_used_it_for_a_minute() {
        let (fake, id, opened) = running().await;
        let opened = || opened.load(std::sync::atomic::Ordering::Relaxed);
        let lines = Lines::default();
        let (one, two) = (lines.to(&fake, id).await.unwrap(), lines.to(&fake, id).await.unwrap());
        assert_eq!(opened(), 1);
        drop(one);
        codehub_testing::let_time_pass(IDLE * 3).await;
        assert!(!two.is_closed(), "in use");
        drop(two);
        codehub_testing::let_time_pass(IDLE / 2).await;
        drop(lines.to(&fake, id).await.unwrap());
        assert_eq!(opened(), 1, "still the same");
        codehub_testing::let_time_pass(IDLE + Duration::from_secs(1)).await;
        eventually("it is forgotten", async || lines.slots().is_empty()).await;
        drop(lines.to(&fake, id).await.unwrap());
        assert_eq!(opened(), 2);
    }

    #[tokio::test]
    async fn what_stops_ends_its_line_and_what_has_none_is_told_apart() {
        let (fake, id, _) = running().await;
        let lines = Lines::default();
        let line = lines.to(&fake, id).await.unwrap();
        fake.stop(id).await.unwrap();
        eventually("it has ended", async || line.is_closed()).await;
        assert!(matches!(lines.to(&fake, id).await, Err(NoLine::NotRunning)));
        let silent = World::new(1, Faults::NONE, None);
        let fake = FakeBackends { world: silent, gate: Gate::new() };
        assert!(matches!(lines.to(&fake, id).await, Err(NoLine::NotRunning)));
    }
}
