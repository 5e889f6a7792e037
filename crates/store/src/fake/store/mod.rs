//! A store in memory: the same rules, through the same domain functions, without a database.
//!
//! Everything is ordered and nothing waits, so a run repeats exactly. Each method is one step under one
//! lock, which is its transaction. Methods check before they change: an error has changed nothing.

mod audit;
mod holds;
mod people;
mod port;
mod ports;
mod workspaces;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use codehub_domain::{
    ArchiveKey, ArchiveRecord, Epoch, SessionId, Timestamp, TokenId, UserId, Workspace, WorkspaceId,
    event::{HistoryEntry, Transition},
    gc::Item,
    user::{ApiToken, Session, User},
};
use tokio::sync::broadcast;

use super::FakeClock;
use crate::{Change, DeviceLogin, Handover, ReplicaSeen, Result, StoreError, WorkspaceOrigin};

/// When a fault may strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The call did not arrive: nothing happened.
    Before,
    /// It happened, but the answer got lost.
    After,
}

type Faults = Box<dyn FnMut(Moment, &'static str) -> Option<StoreError> + Send>;

pub struct FakeStore {
    clock: FakeClock,
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
    faults: Mutex<Option<Faults>>,
}

impl fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeStore").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// How far a reader of changes may fall behind before it reads everything again.
const CHANGES_BACKLOG: usize = 4096;

impl FakeStore {
    pub fn new(clock: FakeClock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES_BACKLOG),
            faults: Mutex::default(),
        }
    }

    pub fn clock(&self) -> &FakeClock {
        &self.clock
    }

    /// Asked at both moments of every call, with the method's name: `Some` is what the caller gets.
    pub fn set_faults(
        &self,
        faults: impl FnMut(Moment, &'static str) -> Option<StoreError> + Send + 'static,
    ) {
        *lock(&self.faults) = Some(Box::new(faults));
    }

    pub fn clear_faults(&self) {
        *lock(&self.faults) = None;
    }

    /// The next call of `method` fails at `moment`; the ones after it do not.
    pub fn fail_next(&self, moment: Moment, method: &'static str, error: StoreError) {
        let mut error = Some(error);
        self.set_faults(move |at, called| if at == moment && called == method { error.take() } else { None });
    }

    /// All rows as they are, faults or not: for oracles.
    pub fn all_workspaces(&self) -> Vec<Workspace> {
        lock(&self.state).workspaces.values().cloned().collect()
    }

    /// Loses what is known of an archive, as if it were from before there were records.
    pub fn forget_archive(&self, key: ArchiveKey) {
        lock(&self.state).archives.remove(&key);
    }

    /// A workspace's whole history, oldest first: for oracles.
    pub fn whole_history(&self, id: WorkspaceId) -> Vec<HistoryEntry> {
        lock(&self.state).history.get(&id).cloned().unwrap_or_default()
    }

    fn fault(&self, moment: Moment, method: &'static str) -> Result<()> {
        match lock(&self.faults).as_mut().and_then(|faults| faults(moment, method)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// One transaction. Changes are announced before anybody else gets at the state.
    fn run<T>(&self, method: &'static str, step: impl FnOnce(&mut Step<'_>) -> Result<T>) -> Result<T> {
        self.fault(Moment::Before, method)?;
        let result = {
            let mut state = lock(&self.state);
            let mut step_state = Step { state: &mut state, now: self.clock.now(), changes: Vec::new() };
            let result = step(&mut step_state)?;
            for change in step_state.changes {
                // Nobody listening is fine.
                let _ = self.changes.send(change);
            }
            result
        };
        self.fault(Moment::After, method)?;
        Ok(result)
    }
}

/// A panic elsewhere does not make the state wrong: methods check before they change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct State {
    epoch: i64,
    ports: BTreeMap<WorkspaceId, BTreeMap<u16, codehub_domain::ports::PortSettings>>,
    holds: BTreeMap<WorkspaceId, Vec<codehub_domain::activity::Hold>>,
    workspaces: BTreeMap<WorkspaceId, Workspace>,
    /// By owner and key: what was asked for, what came of it, and when.
    creations: BTreeMap<(UserId, String), (String, WorkspaceId, Timestamp)>,
    history: BTreeMap<WorkspaceId, Vec<HistoryEntry>>,
    last_history_id: i64,
    users: BTreeMap<UserId, UserRow>,
    sessions: BTreeMap<SessionId, SessionRow>,
    handovers: BTreeMap<Vec<u8>, (Handover, Timestamp)>,
    device_logins: BTreeMap<Vec<u8>, DeviceLoginRow>,
    /// Oldest first, with what their secrets hash to.
    workspace_sessions: Vec<(Vec<u8>, SessionId, WorkspaceOrigin)>,
    tokens: BTreeMap<TokenId, TokenRow>,
    attempts: BTreeMap<String, AttemptRow>,
    /// Until when a browser is known to a user.
    devices: BTreeMap<(UserId, Vec<u8>), Timestamp>,
    settings: BTreeMap<String, String>,
    audit: Vec<audit::Row>,
    archives: BTreeMap<ArchiveKey, ArchiveRecord>,
    replicas: BTreeMap<String, ReplicaSeen>,
    sightings: BTreeMap<Item, Timestamp>,
    /// What the collector may delete, and since when.
    claims: BTreeMap<Item, Timestamp>,
}

struct UserRow {
    user: User,
    name_key: String,
    password_hash: Option<String>,
    deleted: bool,
}

struct SessionRow {
    session: Session,
    secret_hash: Vec<u8>,
    renewed_at: Timestamp,
}

struct DeviceLoginRow {
    code_hash: Vec<u8>,
    login: DeviceLogin,
    session: Option<SessionId>,
    denied: bool,
    until: Timestamp,
}

struct TokenRow {
    token: ApiToken,
    secret_hash: Vec<u8>,
}

struct AttemptRow {
    failures: u32,
    last_failure: Timestamp,
    forget_at: Timestamp,
}

/// One transaction under way.
struct Step<'a> {
    state: &'a mut State,
    now: Timestamp,
    changes: Vec<Change>,
}

impl Step<'_> {
    fn leads(&self, epoch: Epoch) -> bool {
        self.state.epoch == epoch.0
    }

    fn tell(&mut self, change: Change) {
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    fn append(&mut self, id: WorkspaceId, transitions: &[Transition]) {
        for transition in transitions {
            self.state.last_history_id += 1;
            self.state.history.entry(id).or_default().push(HistoryEntry {
                id: self.state.last_history_id,
                at: self.now,
                from: transition.from,
                to: transition.to,
                operation: transition.operation,
                reason: transition.reason.clone(),
                actor: transition.actor.to_string(),
            });
        }
    }
}
