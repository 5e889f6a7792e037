//! Archives from before there were records of them are taken for ours as they are: once, by the first leader after the
//! upgrade. Later leaders only look for homes without a record, which a process of an older version may have made
//! meanwhile; what a row calls a home nobody could put there from outside. Everything else is an operator's decision
//! (`codehub admin archives adopt`).
//!
//! Killed in between, the next leader goes on: a record that is there stays. Until this has been done in a leader's
//! term, a restore without a record waits instead of being refused.

use std::{collections::BTreeSet, sync::atomic::Ordering::SeqCst, time::Duration};

use codehub_domain::{ArchiveKey, Epoch, WorkspaceId, audit::Act};
use codehub_runtime::archives::record::of_expected;
use codehub_store::Adopted;

use crate::Context;

/// Is there once the archives from before were adopted.
pub const SETTING: &str = "archives_adopted";

const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Whether the leader of this epoch, which is this process, has adopted what there was to adopt.
pub(crate) fn is_done(context: &Context, epoch: Epoch) -> bool {
    context.adopted.load(SeqCst) == epoch.0
}

/// Tries until it is done; `false` when fenced.
pub(crate) async fn until_done(context: &Context, epoch: Epoch) -> bool {
    loop {
        match once(context, epoch).await {
            Ok(led) => {
                if led {
                    context.adopted.store(epoch.0, SeqCst);
                }
                return led;
            }
            Err(error) => {
                metrics::counter!(crate::metric::COMPONENT_ERRORS, "component" => "adoption").increment(1);
                tracing::warn!(%error, "archives without a record could not be looked at; tries again");
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// `false` when fenced.
async fn once(context: &Context, epoch: Epoch) -> anyhow::Result<bool> {
    let store = &context.backends.store;
    let first = store.setting_get(SETTING).await?.is_none();
    let known: BTreeSet<ArchiveKey> = store.archive_keys().await?.into_iter().collect();
    let rows = store.gc_rows().await?;
    let homes = rows.iter().filter(|row| !row.deleted).filter_map(|row| row.archive_key);
    let mut unknown: BTreeSet<ArchiveKey> = homes.filter(|key| !known.contains(key)).collect();
    if first {
        let workspaces: BTreeSet<WorkspaceId> = rows.iter().map(|row| row.id).collect();
        let listed = context.backends.archives.list().await?;
        let ours = listed.iter().filter(|it| it.complete && workspaces.contains(&it.key.workspace));
        unknown.extend(ours.map(|it| it.key).filter(|key| !known.contains(key)));
    }
    let by = Act::system(&context.replica);
    for key in unknown {
        // One that is missing or unreadable must not keep the others; whoever needs it is told by the restore.
        let found = match context.backends.archives.describe(&key).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error @ codehub_archive::ArchiveError::Unreachable { .. }) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(archive = %key, %error, "an archive without a record cannot be read");
                continue;
            }
        };
        let found = match of_expected(key, found) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(archive = %key, %error, "an archive without a record cannot be read");
                continue;
            }
        };
        match store.archive_adopt(&by, Some(epoch), &found).await? {
            Adopted::Adopted => tracing::info!(archive = %key, "an archive from before was recorded"),
            Adopted::Known(_) | Adopted::BeingDeleted | Adopted::NoWorkspace => {}
            Adopted::Fenced => return Ok(false),
        }
    }
    if first {
        store.setting_init(SETTING, &epoch.to_string()).await?;
    }
    Ok(true)
}
