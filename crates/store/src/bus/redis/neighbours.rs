//! Who else uses this Redis. Deployments keep to names of their own, so neighbours do no harm; but whoever
//! did not mean to share should hear of it, and so should whoever runs replicas of two versions that do not
//! hear each other.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use redis::aio::ConnectionManager;

use super::{Names, RedisBus, Result, Shared};

/// How often a deployment notes that it is here, and looks for others.
const EVERY: Duration = Duration::from_secs(600);
/// While Redis is away.
const AGAIN: Duration = Duration::from_secs(10);
/// Whoever has not said so for this long is not here any more.
const HERE_SECONDS: i64 = 3600;

/// Notes that this deployment is here, and says once of each neighbour that it is.
pub(super) async fn watch(commands: ConnectionManager, shared: Arc<Shared>) {
    let mut said = BTreeSet::new();
    loop {
        let found = match note(&commands, &shared.names).await {
            Ok(()) => look(&commands, &shared.names).await,
            Err(error) => Err(error),
        };
        let pause = if found.is_ok() { EVERY } else { AGAIN };
        for neighbour in found.unwrap_or_default() {
            if said.insert(neighbour.clone()) {
                tracing::warn!("this Redis is shared: {neighbour}");
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// By the clock of Redis: hosts need not agree on the time.
async fn now(commands: &ConnectionManager) -> Result<i64> {
    let mut commands = commands.clone();
    let (seconds, _): (i64, i64) =
        RedisBus::answer(async { redis::cmd("TIME").query_async(&mut commands).await }).await?;
    Ok(seconds)
}

async fn note(commands: &ConnectionManager, names: &Names) -> Result<()> {
    let now = now(commands).await?;
    let mut commands = commands.clone();
    let mut pipe = redis::pipe();
    pipe.zadd(&names.deployments, &names.deployment, now).ignore();
    pipe.cmd("ZREMRANGEBYSCORE").arg(&names.deployments).arg("-inf").arg(now - HERE_SECONDS).ignore();
    RedisBus::answer(async { pipe.query_async::<()>(&mut commands).await }).await
}

/// The others, in words.
pub(super) async fn look(commands: &ConnectionManager, names: &Names) -> Result<Vec<String>> {
    let since = now(commands).await? - HERE_SECONDS;
    let mut commands = commands.clone();
    let mut pipe = redis::pipe();
    pipe.zrangebyscore(&names.deployments, since, "+inf");
    pipe.exists(&names.unnamed_activity);
    let (here, unnamed): (Vec<String>, bool) =
        RedisBus::answer(async { pipe.query_async(&mut commands).await }).await?;
    let mut found: Vec<String> = here
        .into_iter()
        .filter(|deployment| *deployment != names.deployment)
        .map(|other| format!("deployment {other} uses it too (each keeps to names of its own)"))
        .collect();
    if unnamed {
        let key = &names.unnamed_activity;
        found.push(format!(
            "an older CodeHub uses it, or did ({key}): replicas of that version and of this one do not hear \
             each other; delete the key when no older one runs"
        ));
    }
    Ok(found)
}
