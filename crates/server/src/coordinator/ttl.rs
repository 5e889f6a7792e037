//! Puts workspaces to sleep. Brings activity into the database first, then lets one conditional
//! statement decide: a start or an activity that lands first always wins.

use std::time::Duration;

use codehub_domain::Epoch;

use super::{Context, Ended};

/// Never spins, even when a TTL has just run out.
const SHORTEST: Duration = Duration::from_millis(200);

pub async fn run(context: Context, epoch: Epoch) -> Ended {
    loop {
        match tick(&context, epoch).await {
            Ok(true) => {}
            Ok(false) => return Ended::Fenced,
            Err(error) => {
                metrics::counter!("codehub_component_errors_total", "component" => "ttl").increment(1);
                tracing::warn!(%error, "the TTL runner skips a tick");
            }
        }
        tokio::time::sleep(until_next(&context).await).await;
    }
}

/// One tick; `false` when fenced.
pub async fn tick(context: &Context, epoch: Epoch) -> anyhow::Result<bool> {
    let (store, bus) = (&context.backends.store, &context.backends.bus);
    // Without the activity nobody is put to sleep: an error here skips the expiry too.
    let seen = bus.activity_read().await?;
    if !seen.is_empty() {
        if !store.access_sync(epoch, &seen).await? {
            return Ok(false);
        }
        bus.activity_remove(&seen).await?;
    }
    if !store.epoch_is_current(epoch).await? {
        return Ok(false);
    }
    for expired in store.ttl_expire(epoch, &context.settings.ttl).await? {
        metrics::counter!("codehub_ttl_expired_total", "to" => expired.to.as_str()).increment(1);
        tracing::info!(workspace = %expired.id, to = %expired.to, "a TTL ran out");
    }
    Ok(true)
}

/// The usual interval, or less when a TTL runs out sooner.
async fn until_next(context: &Context) -> Duration {
    let interval = context.settings.ttl_interval;
    let store = &context.backends.store;
    let (Ok(Some(next)), Ok(now)) = (store.ttl_next(&context.settings.ttl).await, store.now().await) else {
        return interval;
    };
    let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
    (left + Duration::from_millis(20)).clamp(SHORTEST.min(interval), interval)
}
