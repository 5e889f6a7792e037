//! The bus port: what is told to other processes and may be lost. Nothing depends on it for being
//! right, only for being quick.

use async_trait::async_trait;
use codehub_domain::{Timestamp, UserId, WorkspaceId};
use tokio::sync::broadcast;

#[cfg(test)]
mod contract;
mod memory;
mod readers;
mod redis;
pub use self::{
    memory::MemoryBus,
    redis::{Prefixes, RedisBus},
};

/// How far a reader may fall behind before it starts over.
const BACKLOG: usize = 256;

/// The bus could not be asked; what was sent may be lost.
#[derive(Debug, thiserror::Error)]
#[error("the bus cannot be reached: {0}")]
pub struct BusError(pub String);

/// What the calls of [`Bus`] answer.
pub type Result<T> = std::result::Result<T, BusError>;

/// What a user's event streams hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A workspace changed; readers load it, and tell by its revision whether they already have it.
    Updated {
        workspace: WorkspaceId,
    },
    Deleted {
        workspace: WorkspaceId,
    },
    /// Something may have been missed: send the current state again.
    Resync,
}

/// What may be lost between processes: events, wakes and activity. Nothing depends on it for being right, only for
/// being quick.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    fn kind(&self) -> &'static str;
    async fn ping(&self) -> Result<()>;

    /// Tells every event stream of that user, in every process.
    async fn publish(&self, user: UserId, event: Event) -> Result<()>;
    /// Tells every event stream of every user, in every process, that it may have missed something.
    async fn resync(&self) -> Result<()>;
    /// Tells the event streams of that user in this process only.
    fn tell(&self, user: UserId, event: Event);
    /// Whether what other processes publish is heard here now.
    fn hears(&self) -> bool {
        true
    }
    /// The events of one user from now on. A reader that falls behind is told so by the channel and
    /// starts over.
    fn subscribe(&self, user: UserId) -> broadcast::Receiver<Event>;

    /// Asks the leader's controller to look now.
    async fn wake(&self) -> Result<()>;
    /// Wakes of the controller from now on.
    fn wakes(&self) -> broadcast::Receiver<()>;
    /// Asks the leader's controller to look at this workspace now, whatever is known of it: something is
    /// not as it should be there.
    async fn look(&self, workspace: WorkspaceId) -> Result<()>;
    /// What the controller is asked to look at from now on.
    fn looks(&self) -> broadcast::Receiver<WorkspaceId>;

    /// Merges activity: per workspace the later time wins.
    async fn activity_add(&self, seen: &[(WorkspaceId, Timestamp)]) -> Result<()>;
    async fn activity_read(&self) -> Result<Vec<(WorkspaceId, Timestamp)>>;
    /// Removes those whose time has not grown since it was read.
    async fn activity_remove(&self, seen: &[(WorkspaceId, Timestamp)]) -> Result<()>;
    /// Who else uses the same server under the same names, in words for an administrator.
    async fn neighbours(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Whether activity that this process handed over may have been lost since it last asked: then it is
    /// told again.
    async fn forgot(&self) -> Result<bool> {
        Ok(false)
    }
}
