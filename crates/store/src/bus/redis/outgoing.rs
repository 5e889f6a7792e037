//! What is published, in order, by one task: as many messages per round trip as are waiting.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use redis::aio::ConnectionManager;
use tokio::{sync::mpsc, time::timeout};

use super::{Event, RedisBus, Result, Shared, encode};

/// How many may wait. More is a Redis that does not answer, and then one resync says it all.
pub(super) const MOST: usize = 1024;
const AT_ONCE: usize = 64;
/// How often to look whether there is something to make up for.
pub(super) const MAKE_UP: Duration = Duration::from_millis(500);

pub(super) struct Outgoing {
    pub(super) channel: String,
    pub(super) text: String,
}

/// Publishes for ever.
pub(super) async fn run(
    mut queue: mpsc::Receiver<Outgoing>,
    commands: ConnectionManager,
    shared: Arc<Shared>,
) {
    let mut batch = Vec::with_capacity(AT_ONCE);
    loop {
        if let Ok(0) = timeout(MAKE_UP, queue.recv_many(&mut batch, AT_ONCE)).await {
            return;
        }
        if shared.connected.load(Relaxed) && shared.lost.swap(false, Relaxed) {
            let text = format!("{} {}", shared.origin, encode(&Event::Resync));
            batch.push(Outgoing { channel: shared.names.channel_of_all(), text });
            batch.push(Outgoing { channel: shared.names.wake_channel(), text: shared.origin.clone() });
        }
        if batch.is_empty() {
            continue;
        }
        if let Err(error) = publish(&batch, commands.clone()).await {
            metrics::counter!(crate::metric::BUS_ERRORS).increment(batch.len() as u64);
            tracing::debug!(%error, messages = batch.len(), "could not be published; everybody reads again later");
            shared.lost.store(true, Relaxed);
        }
        batch.clear();
    }
}

async fn publish(batch: &[Outgoing], mut commands: ConnectionManager) -> Result<()> {
    let mut pipe = redis::pipe();
    for Outgoing { channel, text } in batch {
        pipe.publish(channel, text).ignore();
    }
    RedisBus::answer(async { pipe.query_async::<()>(&mut commands).await }).await
}
