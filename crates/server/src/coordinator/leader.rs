//! Who leads. A lock decides who may try; the epoch in the database decides whose writes count.
//!
//! With SQLite the lock is the one on the data directory, which the process holds for as long as it
//! lives: whoever runs may lead. The epoch is what makes a leader that slept through its own
//! replacement harmless, whatever the lock did.

use std::time::Duration;

use codehub_domain::Epoch;

use super::{Context, Ended};

/// How often a leader makes sure that it still is one.
const VERIFY_INTERVAL: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// One period of leadership.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    pub epoch: Epoch,
}

/// How this process comes to lead.
#[derive(Debug, Clone)]
pub enum Leadership {
    /// The process holds an exclusive lock already, and leads for as long as it runs.
    Exclusive { holder: String },
}

impl Leadership {
    /// Waits until this process leads.
    pub async fn acquire(&self, context: &Context) -> Term {
        let Self::Exclusive { holder } = self;
        loop {
            match context.backends.store.epoch_take(holder).await {
                Ok(epoch) => return Term { epoch },
                Err(error) => {
                    tracing::warn!(%error, "cannot take the lead yet");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }
}

/// Ends when another process leads. A database that does not answer proves nothing: every write is
/// fenced on its own.
pub async fn verify(context: Context, epoch: Epoch) -> Ended {
    loop {
        tokio::time::sleep(VERIFY_INTERVAL).await;
        match context.backends.store.epoch_is_current(epoch).await {
            Ok(true) => {}
            Ok(false) => return Ended::Fenced,
            Err(error) => tracing::warn!(%error, "cannot tell whether this process still leads"),
        }
    }
}
