//! Puts workspaces to sleep. Brings activity into the database first, then lets one conditional
//! statement decide: a start or an activity that lands first always wins. While a replica has not told what
//! it saw, nobody is put to sleep.

use std::time::Duration;

use codehub_domain::Epoch;
use codehub_store::{Store, bus::Bus};

use super::{Context, Ended};

/// Never spins, even when a TTL has just run out.
const SHORTEST: Duration = Duration::from_millis(200);
/// How soon it tries again when it could not decide.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a leader that stops tries to write down the last activity.
const LAST_SYNC: Duration = Duration::from_secs(3);

/// Puts workspaces to sleep until this process no longer leads with `epoch`.
pub async fn run(context: Context, epoch: Epoch) -> Ended {
    // Said once, not at every try.
    let mut waiting = false;
    loop {
        let pause = match tick(&context, epoch).await {
            Ok(Tick::Done) => {
                waiting = false;
                until_next(&context).await
            }
            Ok(Tick::Fenced) => return Ended::Fenced,
            Ok(Tick::Waiting(replica)) => {
                if !std::mem::replace(&mut waiting, true) {
                    tracing::warn!(replica, "TTLs wait: a replica has not told its activity for a while");
                }
                AGAIN.min(context.settings.ttl_interval)
            }
            Err(error) => {
                metrics::counter!(crate::metric::COMPONENT_ERRORS, "component" => "ttl").increment(1);
                if !std::mem::replace(&mut waiting, true) {
                    tracing::warn!(%error, "TTLs wait until this is over");
                }
                AGAIN.min(context.settings.ttl_interval)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// What came of a tick.
#[derive(Debug, PartialEq, Eq)]
enum Tick {
    Done,
    /// This replica may know of activity that nobody else does.
    Waiting(String),
    Fenced,
}

async fn tick(context: &Context, epoch: Epoch) -> anyhow::Result<Tick> {
    let (store, bus) = (&context.backends.store, &context.backends.bus);
    // Before the activity is read: what was told by then is in it.
    let behind = behind(&**store, context.settings.ttl.unseen_activity).await?;
    // Without the activity nobody is put to sleep: an error here skips the expiry too.
    if !sync(&**store, &**bus, epoch).await? {
        return Ok(Tick::Fenced);
    }
    if !store.epoch_is_current(epoch).await? {
        return Ok(Tick::Fenced);
    }
    if let Some(replica) = behind {
        return Ok(Tick::Waiting(replica));
    }
    for expired in store.ttl_expire(epoch, &context.settings.ttl).await? {
        metrics::counter!(crate::metric::TTL_EXPIRED, "to" => expired.to.as_str()).increment(1);
        tracing::info!(workspace = %expired.id, to = %expired.to, "a TTL ran out");
    }
    Ok(Tick::Done)
}

/// Brings the activity that was told by now into the database. `false`: another process leads.
async fn sync(store: &dyn Store, bus: &dyn Bus, epoch: Epoch) -> anyhow::Result<bool> {
    let seen = bus.activity_read().await?;
    if seen.is_empty() {
        return Ok(true);
    }
    if !store.access_sync(epoch, &seen).await? {
        return Ok(false);
    }
    bus.activity_remove(&seen).await?;
    Ok(true)
}

/// For a leader that stops: brings what the last requests have told into the database, and waits for a
/// database or a bus that does not answer only for a moment. The tick that may be under way does no harm:
/// the later time wins.
pub(crate) async fn last_sync(context: &Context, epoch: Epoch) {
    let (store, bus) = (&context.backends.store, &context.backends.bus);
    match tokio::time::timeout(LAST_SYNC, sync(&**store, &**bus, epoch)).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => tracing::info!("another process leads: it writes down the last activity"),
        Ok(Err(error)) => tracing::warn!(%error, "the last activity could not be written down"),
        Err(_) => tracing::warn!("the last activity could not be written down in time"),
    }
}

/// A replica that lives and has kept its activity to itself for longer than the expiry allows for: cut off
/// from the bus, or the bus was away.
async fn behind(store: &dyn Store, allowed: Duration) -> anyhow::Result<Option<String>> {
    let (now, replicas) = store.replicas().await?;
    let late = |flushed_at| Duration::try_from(now.duration_since(flushed_at)).unwrap_or_default() > allowed;
    let found = replicas.into_iter().find(|replica| replica.is_there(now) && late(replica.flushed_at));
    Ok(found.map(|replica| replica.name))
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

#[cfg(test)]
mod tests {
    use codehub_store::{
        ReplicaNote,
        fake::{FakeClock, FakeStore},
        prelude::*,
    };

    use super::*;

    #[tokio::test]
    async fn whoever_lives_and_keeps_activity_to_itself_is_waited_for() {
        let clock = FakeClock::new();
        let store = FakeStore::new(clock.clone());
        let allowed = Duration::from_secs(90);
        let note = |name: &str| ReplicaNote { name: name.into(), version: "1".into(), role: "all".into() };
        assert_eq!(behind(&store, allowed).await.unwrap(), None, "nobody is there");
        for name in ["one", "two"] {
            store.replica_note(&note(name)).await.unwrap();
        }
        assert_eq!(behind(&store, allowed).await.unwrap(), None, "they have just begun");
        clock.advance(Duration::from_secs(100));
        store.replica_note(&note("one")).await.unwrap();
        store.replica_flushed("one", Duration::from_secs(1)).await.unwrap();
        assert_eq!(behind(&store, allowed).await.unwrap(), None, "the other one is gone");
        store.replica_note(&note("two")).await.unwrap();
        assert_eq!(
            behind(&store, allowed).await.unwrap().as_deref(),
            Some("two"),
            "it lives, and does not tell"
        );
        store.replica_flushed("two", Duration::from_secs(1)).await.unwrap();
        assert_eq!(behind(&store, allowed).await.unwrap(), None);
    }
}
