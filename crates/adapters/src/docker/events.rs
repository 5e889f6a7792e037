//! The engine's events, as wake-ups: whoever hears one looks for himself. Losing them costs time, never
//! correctness, since everything is listed every few seconds anyway.

use std::{sync::Arc, time::Duration};

use bollard::query_parameters::EventsOptionsBuilder;
use futures::StreamExt as _;

use super::engine::{Engine, LABEL_INSTANCE, label_filter, read_labels};
use crate::bus::Bus;

const AGAIN: Duration = Duration::from_secs(2);

/// Has the controller look at a workspace whose container ended. Runs for ever.
pub async fn watch_events(engine: Arc<Engine>, deployment: String, bus: Arc<dyn Bus>) {
    loop {
        if let Ok(client) = engine.client().await {
            let mut filters = label_filter(&[(LABEL_INSTANCE, &deployment)]);
            filters.insert("type", vec!["container".to_owned()]);
            filters.insert("event", vec!["die".to_owned(), "oom".to_owned()]);
            let mut events =
                Box::pin(client.events(Some(EventsOptionsBuilder::new().filters(&filters).build())));
            // Something may have happened while nobody listened.
            if let Err(error) = bus.wake().await {
                tracing::debug!(%error, "nobody was woken");
            }
            while let Some(Ok(event)) = events.next().await {
                metrics::counter!("codehub_docker_events_total").increment(1);
                let labels = event.actor.and_then(|actor| actor.attributes);
                let told = match read_labels(labels.as_ref(), &deployment) {
                    Some((workspace, _)) => bus.look(workspace).await,
                    None => bus.wake().await,
                };
                if let Err(error) = told {
                    tracing::debug!(%error, "an event of the engine was heard by nobody");
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
