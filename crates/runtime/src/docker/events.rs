//! The engine's events, as wake-ups: whoever hears one looks for himself. Losing them costs time, never
//! correctness, since everything is listed every few seconds anyway.

use std::{sync::Arc, time::Duration};

use bollard::query_parameters::EventsOptionsBuilder;
use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::Notice;

use super::engine::{Engine, LABEL_INSTANCE, label_filter, read_labels};

const AGAIN: Duration = Duration::from_secs(2);
/// Notices that wait to be passed on.
const QUEUE: usize = 64;

/// Notices of containers that end, for as long as the receiver lives. Losing one costs time only.
pub(super) fn watch(engine: Arc<Engine>, deployment: String) -> mpsc::Receiver<Notice> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        // Nobody listens any more: then there is nothing to watch for.
        while !sender.is_closed() {
            let _ = follow(&engine, &deployment, &sender).await;
            engine.was_away();
            tokio::time::sleep(AGAIN).await;
        }
    });
    receiver
}

/// One connection to the engine's events, to its end.
async fn follow(
    engine: &Engine,
    deployment: &str,
    sender: &mpsc::Sender<Notice>,
) -> Result<(), mpsc::error::SendError<Notice>> {
    let Ok(client) = engine.client().await else { return Ok(()) };
    let mut filters = label_filter(&[(LABEL_INSTANCE, deployment)]);
    filters.insert("type", vec!["container".to_owned()]);
    filters.insert("event", vec!["die".to_owned(), "oom".to_owned(), "destroy".to_owned()]);
    let mut events = Box::pin(client.events(Some(EventsOptionsBuilder::new().filters(&filters).build())));
    sender.send(Notice::Wake).await?;
    while let Some(Ok(event)) = events.next().await {
        metrics::counter!(crate::metric::DOCKER_EVENTS).increment(1);
        let labels = event.actor.and_then(|actor| actor.attributes);
        let notice = read_labels(labels.as_ref(), deployment)
            .map_or(Notice::Wake, |(workspace, _)| Notice::Changed(workspace));
        sender.send(notice).await?;
    }
    Ok(())
}
