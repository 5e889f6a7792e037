//! Removes what nothing refers to. Lists first, reads the references after, lets the domain decide,
//! and claims every single thing in the store before it deletes it: a claim is refused to a leader that
//! was replaced, and where a workspace came to need the thing meanwhile; and what is claimed nobody can
//! go back to.

use std::collections::{BTreeMap, BTreeSet};

use codehub_domain::{
    ArchiveKey, Epoch, Timestamp, VolumeKey,
    audit::Act,
    gc::{self, Archived, GcPlan, GcPolicy, Item},
};
use codehub_runtime::{
    Among,
    archives::ListedArchive,
    volumes::{ListedVolume, Scope},
};
use codehub_store::GcClaim;

use super::{Backends, Context, Ended, adopt};

/// Set by the collector when it braked, for doctor and dashboard.
pub const BRAKE_SETTING: &str = "gc_brake";
/// Set by an admin: the next cycle may pass the brake.
pub const APPROVAL_SETTING: &str = "gc_approved";

/// Adopts what has no record ([`adopt`]), then collects once per `gc_interval` until this process no longer leads with `epoch`.
pub async fn run(context: Context, epoch: Epoch) -> Ended {
    if !adopt::until_done(&context, epoch).await {
        return Ended::Fenced;
    }
    loop {
        match cycle(&context, epoch).await {
            Ok(true) => {}
            Ok(false) => return Ended::Fenced,
            Err(error) => {
                metrics::counter!(crate::metric::COMPONENT_ERRORS, "component" => "gc").increment(1);
                tracing::warn!(%error, "the garbage collector did not finish a cycle");
            }
        }
        tokio::time::sleep(context.settings.gc_interval).await;
    }
}

/// What a cycle would do now.
#[derive(Debug)]
pub struct Outlook {
    pub plan: GcPlan,
    /// Everything that is stored, and how large it is where that is known.
    pub listed: BTreeMap<Item, Option<u64>>,
    /// By whose clock the plan was made.
    pub now: Timestamp,
    volume_of: BTreeMap<Item, VolumeKey>,
    approved: bool,
}

/// Looks at everything and decides, and does nothing.
///
/// # Errors
/// A listing or a read failed: then nothing can be said.
pub async fn outlook(backends: &Backends, policy: &GcPolicy) -> anyhow::Result<Outlook> {
    let store = &backends.store;
    let archives = backends.archives.list().await?;
    let volumes = backends.volumes.list(Scope::All).await?;
    let in_use =
        backends.instances.list(Among::All(&[])).await?.into_iter().map(|listed| listed.workspace).collect();
    // References are read after the listings: what was listed had its reference by then.
    let rows = store.gc_rows().await?;
    let seen_before = store.gc_sightings().await?;
    let approved = store.setting_get(APPROVAL_SETTING).await?.is_some();

    let volume_of: BTreeMap<Item, VolumeKey> = volumes
        .into_iter()
        // A person put something else in its place, and decides what becomes of it.
        .filter(|listed| listed.trouble.is_none())
        .map(|ListedVolume { key, .. }| {
            (Item::Volume { workspace: key.workspace, generation: key.generation }, key)
        })
        .collect();
    let archived = archived(backends, &archives).await?;
    let listed: BTreeMap<Item, Option<u64>> = archives
        .iter()
        .map(|archive| (Item::Archive(archive.key), Some(archive.size)))
        .chain(volume_of.keys().map(|item| (*item, None)))
        .collect();
    let now = store.now().await?;
    let items: BTreeSet<Item> = listed.keys().copied().collect();
    let plan = gc::plan(&items, &archived, &in_use, &rows, &seen_before, policy, approved, now);
    Ok(Outlook { plan, listed, now, volume_of, approved })
}

/// One cycle; `false` when fenced. Any listing or read that fails skips it whole.
pub async fn cycle(context: &Context, epoch: Epoch) -> anyhow::Result<bool> {
    let backends = &context.backends;
    let store = &backends.store;
    let Outlook { plan, now, volume_of, approved, .. } = outlook(backends, &context.settings.gc).await?;
    if !store.gc_sightings_replace(epoch, &plan.sightings).await? {
        return Ok(false);
    }
    note_brake(context, &plan, approved).await?;
    let mut failed = 0_usize;
    // The newest first: what has parts in older ones goes before them.
    for item in plan.delete.iter().rev() {
        let mut only_mark = false;
        match store.gc_claim(epoch, *item).await? {
            GcClaim::Claimed => {}
            GcClaim::HoldsParts => only_mark = true,
            // Somebody went back to it since the references were read.
            GcClaim::InUse => continue,
            GcClaim::Fenced => return Ok(false),
        }
        // One that cannot be deleted must not keep the others: it is tried again in the next cycle.
        match delete(context, epoch, item, volume_of.get(item), only_mark).await {
            Ok(()) => {
                metrics::counter!(crate::metric::GC_DELETED).increment(1);
                tracing::info!(%item, "deleted what nothing refers to");
            }
            Err(error) => {
                failed += 1;
                tracing::warn!(%item, %error, "could not be deleted");
            }
        }
    }
    backends.archives.sweep().await?;
    store.sessions_sweep().await?;
    if !prune_audit(context, epoch, now).await? {
        return Ok(false);
    }
    anyhow::ensure!(failed == 0, "{failed} of {} could not be deleted", plan.delete.len());
    Ok(true)
}

/// What is known of the archives beyond their keys. Where there is no record, their own word counts: it can only keep
/// more.
async fn archived(backends: &Backends, listed: &[ListedArchive]) -> anyhow::Result<Archived> {
    let mut archived = Archived { parts: backends.store.archive_parts().await?, ..Archived::default() };
    let recorded: BTreeSet<ArchiveKey> = backends.store.archive_keys().await?.into_iter().collect();
    for ListedArchive { key, complete, .. } in listed {
        if !complete {
            archived.unfinished.insert(*key);
        } else if !recorded.contains(key) {
            match backends.archives.head(key).await {
                Ok(Some(meta)) => {
                    let parts = meta.parts.iter().filter_map(|op| op.parse().ok()).collect();
                    archived.parts.insert(*key, parts);
                    archived.unrecorded.insert(*key);
                }
                // Nothing can be restored from it, so it needs nothing.
                Ok(None) => {}
                Err(error) if error.is_corrupted() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(archived)
}

/// How many events go in one transaction: few enough that nobody waits for it.
const PRUNED_AT_ONCE: u32 = 5000;

/// Removes what the audit trail need not hold any more; `false` when fenced.
async fn prune_audit(context: &Context, epoch: Epoch, now: Timestamp) -> anyhow::Result<bool> {
    let keep = context.settings.audit_retention;
    let Some(before) = now.checked_sub(keep).ok().filter(|_| !keep.is_zero()) else { return Ok(true) };
    let by = Act::system(&context.replica);
    loop {
        match context.backends.store.audit_prune(&by, epoch, before, PRUNED_AT_ONCE).await? {
            None => return Ok(false),
            Some(removed) if removed < u64::from(PRUNED_AT_ONCE) => return Ok(true),
            Some(_) => {}
        }
    }
}

async fn delete(
    context: &Context,
    epoch: Epoch,
    item: &Item,
    volume: Option<&VolumeKey>,
    only_mark: bool,
) -> anyhow::Result<()> {
    let backends = &context.backends;
    match (item, volume) {
        (Item::Archive(key), _) if only_mark => backends.archives.delete_mark(key).await?,
        (Item::Archive(key), _) => backends.archives.delete(key).await?,
        (Item::Volume { workspace, .. }, Some(key)) => {
            if backends.instances.status(*workspace).await?.is_none() {
                backends.volumes.delete(key, &context.fence(epoch)).await?;
            }
        }
        (Item::Volume { .. }, None) => {}
    }
    Ok(())
}

async fn note_brake(context: &Context, plan: &GcPlan, approved: bool) -> anyhow::Result<()> {
    let store = &context.backends.store;
    if let Some(brake) = plan.braked {
        tracing::error!(
            would_delete = %brake,
            "the garbage collector would delete too much and deletes nothing; if the database is the \
             right one, an admin can let it pass with `codehub admin gc approve`"
        );
        metrics::gauge!(crate::metric::GC_BRAKED).set(1.0);
        store.setting_put(BRAKE_SETTING, &brake.to_string()).await?;
    } else {
        metrics::gauge!(crate::metric::GC_BRAKED).set(0.0);
        store.setting_delete(BRAKE_SETTING).await?;
        if approved {
            store.setting_delete(APPROVAL_SETTING).await?;
        }
    }
    Ok(())
}
