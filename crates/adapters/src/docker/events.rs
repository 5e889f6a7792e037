//! The engine's events, as wake-ups: whoever hears one looks for himself. Losing them costs time, never
//! correctness, since everything is listed every few seconds anyway.

use std::{sync::Arc, time::Duration};

use bollard::query_parameters::EventsOptionsBuilder;
use futures::StreamExt as _;

use super::engine::{Engine, LABEL_INSTANCE, label_filter};
use crate::bus::Bus;

const AGAIN: Duration = Duration::from_secs(2);

/// Wakes the controller whenever a container of this deployment ends. Runs for ever.
pub async fn watch_events(engine: Arc<Engine>, deployment: String, bus: Arc<dyn Bus>) {
    loop {
        if let Ok(client) = engine.client().await {
            let mut filters = label_filter(&[(LABEL_INSTANCE, &deployment)]);
            filters.insert("type", vec!["container".to_owned()]);
            filters.insert("event", vec!["die".to_owned(), "oom".to_owned()]);
            let mut events =
                Box::pin(client.events(Some(EventsOptionsBuilder::new().filters(&filters).build())));
            // Something may have happened while nobody listened.
            wake(&*bus).await;
            while let Some(Ok(_)) = events.next().await {
                metrics::counter!("codehub_docker_events_total").increment(1);
                wake(&*bus).await;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn wake(bus: &dyn Bus) {
    if let Err(error) = bus.wake().await {
        tracing::debug!(%error, "an event of the engine woke nobody");
    }
}
