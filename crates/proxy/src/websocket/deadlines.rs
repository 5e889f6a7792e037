//! When somebody's right to a connection has to be asked for again: one timer for all connections of the process.
//!
//! Thousands of connections lie idle, each with a credential that runs out some day. A timer for each would be most of
//! what they hold. Here a workspace is reminded at a coarse moment, and its connections look whether it is theirs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use codehub_domain::WorkspaceId;
use tokio::sync::Notify;

use crate::routes::Entry;

/// Moments closer together than this are one: a reminder is late by at most this much, and never early.
const TICK: Duration = Duration::from_millis(125);

type Due = BTreeMap<u64, HashMap<WorkspaceId, Weak<Entry>>>;

pub(crate) struct Deadlines {
    began: Instant,
    due: Mutex<Due>,
    /// Something is due earlier than anything before.
    earlier: Notify,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { began: Instant::now(), due: Mutex::default(), earlier: Notify::new() }
    }
}

impl Deadlines {
    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections of this workspace are to look at themselves at that moment.
    pub(crate) fn remind(&self, entry: &Arc<Entry>, at: Instant) {
        let ticks = at.saturating_duration_since(self.began).as_millis().div_ceil(TICK.as_millis());
        let tick = u64::try_from(ticks).unwrap_or(u64::MAX);
        let mut due = self.due();
        let first = due.first_key_value().is_none_or(|(first, _)| tick < *first);
        due.entry(tick).or_default().insert(entry.id, Arc::downgrade(entry));
        drop(due);
        if first {
            self.earlier.notify_one();
        }
    }

    fn moment(&self, tick: u64) -> Instant {
        let ticks = u32::try_from(tick).unwrap_or(u32::MAX);
        self.began + TICK * ticks
    }

    /// Reminds everybody in time, without end.
    pub(crate) async fn run(&self) {
        loop {
            let next = self.due().first_key_value().map(|(tick, _)| self.moment(*tick));
            match next {
                None => self.earlier.notified().await,
                Some(at) if at <= Instant::now() => {
                    let reminded = self.due().pop_first().map(|(_, reminded)| reminded).unwrap_or_default();
                    reminded.values().filter_map(Weak::upgrade).for_each(|entry| entry.nudge());
                }
                Some(at) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(at.into()) => {}
                        () = self.earlier.notified() => {}
                    }
                }
            }
        }
    }
}
