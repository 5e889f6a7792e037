//! The bus of a single process: channels and a map.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;
use codehub_domain::{Timestamp, UserId, WorkspaceId};
use tokio::sync::broadcast;

use super::{
    Bus, Event, Result,
    readers::{Readers, lock},
};

/// Events, wakes and activity within one process.
#[derive(Debug, Default)]
pub struct MemoryBus {
    readers: Readers,
    activity: Mutex<HashMap<WorkspaceId, Timestamp>>,
}

impl MemoryBus {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
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
        self.readers.tell(user, event);
        Ok(())
    }

    async fn resync(&self) -> Result<()> {
        self.readers.resync();
        Ok(())
    }

    fn tell(&self, user: UserId, event: Event) {
        self.readers.tell(user, event);
    }

    fn subscribe(&self, user: UserId) -> broadcast::Receiver<Event> {
        self.readers.subscribe(user)
    }

    async fn wake(&self) -> Result<()> {
        self.readers.wake();
        Ok(())
    }

    fn wakes(&self) -> broadcast::Receiver<()> {
        self.readers.wakes()
    }

    async fn look(&self, workspace: WorkspaceId) -> Result<()> {
        self.readers.look(workspace);
        Ok(())
    }

    fn looks(&self) -> broadcast::Receiver<WorkspaceId> {
        self.readers.looks()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        super::contract::{Harness, bus_suite},
        MemoryBus,
    };

    bus_suite!(super::harness);

    async fn harness() -> Harness {
        let bus = Arc::new(MemoryBus::new());
        Harness { here: bus.clone(), there: bus }
    }
}
