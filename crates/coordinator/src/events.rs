//! Changes in the database → bus. Carries ids; a lost one costs latency, never correctness.

use codehub_store::{
    Change,
    bus::{self, Event},
};
use tokio::sync::broadcast::error::RecvError;

use super::{Context, Ended};

/// Passes every change on, in the order of the commits.
pub async fn run(context: Context) -> Ended {
    let mut changes = context.backends.store.changes();
    // Whatever changed before we listened.
    resend(&context).await;
    loop {
        match changes.recv().await {
            Ok(Change::Resync) => resend(&context).await,
            Ok(change) => pass_on(&context, change).await,
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "fell behind the database's changes; sending the current state");
                changes = changes.resubscribe();
                resend(&context).await;
            }
            Err(RecvError::Closed) => return Ended::StoreClosed,
        }
    }
}

async fn pass_on(context: &Context, change: Change) {
    let bus = &context.backends.bus;
    note(match change {
        Change::Wake => bus.wake().await,
        Change::Deleted { workspace, owner } => bus.publish(owner, Event::Deleted { workspace }).await,
        Change::Updated { workspace, owner } => bus.publish(owner, Event::Updated { workspace }).await,
        // Caches of this process listen to the store themselves.
        Change::Access { .. } | Change::Resync => Ok(()),
    });
}

/// Has everybody read the current state of everything, and wakes the controller.
async fn resend(context: &Context) {
    pass_on(context, Change::Wake).await;
    note(context.backends.bus.resync().await);
}

/// What was not sent is made up for by the bus as soon as it can be reached, which it says itself.
fn note(sent: bus::Result<()>) {
    if let Err(error) = sent {
        metrics::counter!(crate::metric::BUS_ERRORS).increment(1);
        tracing::debug!(%error, "an event could not be sent");
    }
}
