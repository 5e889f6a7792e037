//! The bus of a single process: channels and a map.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use codehub_domain::{Timestamp, UserId, WorkspaceId};
use tokio::sync::broadcast;

use super::{BACKLOG, Bus, Event, Result};

/// Events, wakes and activity within one process.
#[derive(Debug)]
pub struct MemoryBus {
    users: Mutex<HashMap<UserId, broadcast::Sender<Event>>>,
    wakes: broadcast::Sender<()>,
    activity: Mutex<HashMap<WorkspaceId, Timestamp>>,
}

impl Default for MemoryBus {
    fn default() -> Self {
        Self { users: Mutex::default(), wakes: broadcast::Sender::new(1), activity: Mutex::default() }
    }
}

impl MemoryBus {
    pub fn new() -> Self {
        Self::default()
    }
}

/// A panic elsewhere does not make these maps wrong: every change to them is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Bus for MemoryBus {
    fn kind(&self) -> &'static str {
        "memory"
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn publish(&self, user: UserId, event: Event) -> Result<()> {
        let mut users = lock(&self.users);
        if let Some(sender) = users.get(&user)
            && sender.send(event).is_err()
        {
            // The last reader has gone: so may the channel.
            users.remove(&user);
        }
        Ok(())
    }

    fn subscribe(&self, user: UserId) -> broadcast::Receiver<Event> {
        lock(&self.users).entry(user).or_insert_with(|| broadcast::Sender::new(BACKLOG)).subscribe()
    }

    async fn wake(&self) -> Result<()> {
        // Nobody listening is fine: the next tick looks anyway.
        let _ = self.wakes.send(());
        Ok(())
    }

    fn wakes(&self) -> broadcast::Receiver<()> {
        self.wakes.subscribe()
    }

    async fn activity_add(&self, seen: &[(WorkspaceId, Timestamp)]) -> Result<()> {
        let mut activity = lock(&self.activity);
        for &(id, at) in seen {
            let entry = activity.entry(id).or_insert(at);
            *entry = (*entry).max(at);
        }
        Ok(())
    }

    async fn activity_read(&self) -> Result<Vec<(WorkspaceId, Timestamp)>> {
        Ok(lock(&self.activity).iter().map(|(id, at)| (*id, *at)).collect())
    }

    async fn activity_remove(&self, seen: &[(WorkspaceId, Timestamp)]) -> Result<()> {
        let mut activity = lock(&self.activity);
        for (id, at) in seen {
            if activity.get(id).is_some_and(|now| now <= at) {
                activity.remove(id);
            }
        }
        Ok(())
    }
}
