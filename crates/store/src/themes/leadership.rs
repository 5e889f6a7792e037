//! Who leads, which processes serve, and what time it is.

use std::time::Duration;

use codehub_domain::{Epoch, Timestamp};

use super::theme;
use crate::{LeaderSeen, ReplicaNote, ReplicaSeen, Result};

theme! {
    /// The database's clock.
    Clock, clock {
        /// Answers when the database does.
        async fn now(&self) -> Result<Timestamp>;
    }
}

theme! {
    /// The leader's epoch, and the processes of the deployment.
    Leadership, leadership {
        /// Takes the lease: the epoch grows by one, and every older epoch is fenced from here on.
        async fn epoch_take(&self, holder: &str) -> Result<Epoch>;
        /// Whether `epoch` still leads. Asked immediately before anything is deleted.
        async fn epoch_is_current(&self, epoch: Epoch) -> Result<bool>;
        /// Who took the lead last, whether or not it still lives; `None` where nobody ever did.
        async fn leader_seen(&self) -> Result<Option<LeaderSeen>>;
        /// Notes that this replica lives.
        async fn replica_note(&self, note: &ReplicaNote) -> Result<()>;
        /// Notes that this replica has told everything about activity that it knew that long ago.
        async fn replica_flushed(&self, name: &str, ago: Duration) -> Result<()>;
        /// Forgets a replica that ends.
        async fn replica_leave(&self, name: &str) -> Result<()>;
        /// Every replica that was noted within a day, with the clock to compare by. Oldest first.
        async fn replicas(&self) -> Result<(Timestamp, Vec<ReplicaSeen>)>;
    }
}
