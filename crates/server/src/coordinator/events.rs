//! Changes in the database → bus. Carries ids; a lost one costs latency, never correctness.

use codehub_adapters::{
    bus::Event,
    store::{Change, ListFilter},
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
    let sent = match change {
        Change::Wake => bus.wake().await,
        Change::Deleted { workspace, owner } => bus.publish(owner, Event::Deleted { workspace }).await,
        Change::Updated { workspace, owner } => bus.publish(owner, Event::Updated { workspace }).await,
        // Caches of this process listen to the store themselves.
        Change::Access { .. } | Change::Resync => Ok(()),
    };
    if let Err(error) = sent {
        metrics::counter!("codehub_bus_errors_total").increment(1);
        tracing::warn!(%error, "an event could not be sent");
    }
}

/// Tells everybody the current state of everything, and wakes the controller.
async fn resend(context: &Context) {
    pass_on(context, Change::Wake).await;
    let mut filter = ListFilter { limit: 500, ..ListFilter::default() };
    loop {
        let page = match context.backends.store.workspace_list(&filter).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the current state could not be sent");
                return;
            }
        };
        for workspace in &page.items {
            let change = Change::Updated { workspace: workspace.id, owner: workspace.owner };
            pass_on(context, change).await;
        }
        match page.items.last() {
            Some(last) if page.more => filter.before = Some(last.id),
            _ => return,
        }
    }
}
