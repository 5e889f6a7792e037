//! Who listens in this process: the event streams by user, and the controller.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use codehub_domain::{UserId, WorkspaceId};
use tokio::sync::broadcast;

use super::{BACKLOG, Event};

#[derive(Debug)]
pub(super) struct Readers {
    users: Mutex<HashMap<UserId, broadcast::Sender<Event>>>,
    wakes: broadcast::Sender<()>,
    looks: broadcast::Sender<WorkspaceId>,
}

impl Default for Readers {
    fn default() -> Self {
        Self {
            users: Mutex::default(),
            wakes: broadcast::Sender::new(1),
            looks: broadcast::Sender::new(BACKLOG),
        }
    }
}

/// A panic elsewhere does not make what is locked here wrong: every change to it is one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readers {
    pub(super) fn tell(&self, user: UserId, event: Event) {
        let mut users = lock(&self.users);
        if let Some(sender) = users.get(&user)
            && sender.send(event).is_err()
        {
            // The last reader has gone: so may the channel.
            users.remove(&user);
        }
    }

    pub(super) fn subscribe(&self, user: UserId) -> broadcast::Receiver<Event> {
        lock(&self.users).entry(user).or_insert_with(|| broadcast::Sender::new(BACKLOG)).subscribe()
    }

    /// Everybody may have missed something.
    pub(super) fn resync(&self) {
        lock(&self.users).retain(|_, sender| sender.send(Event::Resync).is_ok());
    }

    pub(super) fn wake(&self) {
        // Nobody listening is fine: the next tick looks anyway.
        let _ = self.wakes.send(());
    }

    pub(super) fn wakes(&self) -> broadcast::Receiver<()> {
        self.wakes.subscribe()
    }

    pub(super) fn look(&self, workspace: WorkspaceId) {
        let _ = self.looks.send(workspace);
    }

    pub(super) fn looks(&self) -> broadcast::Receiver<WorkspaceId> {
        self.looks.subscribe()
    }
}
