//! Who leads. A lock decides who may try; the epoch in the database decides whose writes count.
//!
//! With PostgreSQL the lock is a session's ([`codehub_store::LeaseSeat`]): whoever holds it
//! renews a heartbeat, and gives up the lead before anything else when the session does not answer.
//! With SQLite the lock is the one on the data directory, which the process holds for as long as it
//! lives: whoever runs may lead. The epoch is what makes a leader that slept through its own
//! replacement harmless, whatever the lock did.

use std::time::Duration;

use codehub_domain::Epoch;
use codehub_store::{Lease, LeaseSeat, Renewed, Store};

use super::{Context, Ended};

/// How often a leader makes sure that it still is one.
const VERIFY_INTERVAL: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often an elected leader shows that it lives.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// One period of leadership. Dropping it gives up the lease.
#[derive(Debug)]
pub struct Term {
    /// What fences the writes of this term.
    pub epoch: Epoch,
    lease: Option<Lease>,
}

/// How this process comes to lead.
#[derive(Debug, Clone)]
pub enum Leadership {
    /// The process holds an exclusive lock already, and leads for as long as it runs.
    Exclusive { holder: String },
    /// The process is one of several.
    Elected { holder: String },
}

impl Leadership {
    /// What fits the store.
    pub fn of(store: &dyn Store, holder: String) -> Self {
        match store.lease_seat(&holder) {
            Some(_) => Self::Elected { holder },
            None => Self::Exclusive { holder },
        }
    }

    /// Waits until this process leads.
    pub async fn acquire(&self, context: &Context) -> Term {
        let store = &context.backends.store;
        let (Self::Exclusive { holder } | Self::Elected { holder }) = self;
        let mut seat = match self {
            Self::Exclusive { .. } => None,
            Self::Elected { .. } => store.lease_seat(holder),
        };
        loop {
            let term = match &mut seat {
                Some(seat) => elected(seat).await,
                None => store.epoch_take(holder).await.map(|epoch| Some(Term { epoch, lease: None })),
            };
            match term {
                Ok(Some(term)) => return term,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot take the lead yet"),
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

async fn elected(seat: &mut LeaseSeat) -> codehub_store::Result<Option<Term>> {
    let lease = seat.try_take().await?;
    Ok(lease.map(|lease| Term { epoch: lease.epoch(), lease: Some(lease) }))
}

/// Ends when this process does not lead any more.
pub async fn hold(context: Context, term: Term) -> Ended {
    let Term { epoch, lease: Some(mut lease) } = term else { return verify(context, term.epoch).await };
    loop {
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
        match lease.renew().await {
            Ok(Renewed::Held) => {}
            Ok(Renewed::Replaced) => return Ended::Fenced,
            Err(error) => {
                tracing::warn!(%error, %epoch, "the session that holds the lead does not answer");
                return Ended::Lost;
            }
        }
    }
}

/// Ends when another process leads. A database that does not answer proves nothing: every write is
/// fenced on its own.
async fn verify(context: Context, epoch: Epoch) -> Ended {
    loop {
        tokio::time::sleep(VERIFY_INTERVAL).await;
        match context.backends.store.epoch_is_current(epoch).await {
            Ok(true) => {}
            Ok(false) => return Ended::Fenced,
            Err(error) => tracing::warn!(%error, "cannot tell whether this process still leads"),
        }
    }
}
