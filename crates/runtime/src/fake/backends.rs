//! The runtime ports over the simulated world, each call as one simulated process.

use std::collections::BTreeSet;

use async_trait::async_trait;
use codehub_domain::{ArchiveKey, ArchiveRecord, Timestamp, VolumeKey, WorkspaceId, observed::Instance};

use super::{
    Gate,
    world::{Call, World, short},
};
use crate as runtime;
use crate::{
    Among, Fence, InstanceSpec, Instances, LineTo, Listed, LogQuery, LogStream, RuntimeError,
    archives::{
        Archives, ListedArchive,
        record::{head_recorded, record},
    },
    homes::Transfer,
    volumes::{self, ListedVolume, Scope, VolumeError, Volumes},
};
use codehub_archive::{ArchiveError, ArchiveMeta, ArchivedFile, FilePage, FileStream};

/// All three runtime ports of one process.
#[derive(Debug, Clone)]
pub struct FakeBackends {
    pub world: World,
    pub gate: Gate,
}

type ArchiveResult<T> = Result<T, ArchiveError>;

/// Bytes that fit on a simulated volume.
const ROOM: u64 = 1 << 50;

const FAULT: &str = "the simulated dependency failed";

#[async_trait]
impl Instances for FakeBackends {
    fn kind(&self) -> &'static str {
        "fake"
    }

    async fn ping(&self) -> runtime::Result<()> {
        self.world.pinged();
        Ok(())
    }

    async fn start(&self, spec: &InstanceSpec, fence: &Fence) -> runtime::Result<()> {
        fence.check().await?;
        let volume = spec.volume;
        let what = format!("start {} on generation {}", short(spec.workspace), volume.generation);
        match self.world.call(&self.gate, what, move |world| world.start(volume)).await {
            Call::Answered(Ok(())) => Ok(()),
            Call::Answered(Err(why)) => Err(RuntimeError::Failed(why)),
            Call::Failed => Err(RuntimeError::Unreachable(FAULT.into())),
        }
    }

    async fn stop(&self, id: WorkspaceId) -> runtime::Result<()> {
        match self.world.call(&self.gate, format!("stop {}", short(id)), move |world| world.stop(id)).await {
            Call::Answered(()) => Ok(()),
            Call::Failed => Err(RuntimeError::Unreachable(FAULT.into())),
        }
    }

    async fn status(&self, id: WorkspaceId) -> runtime::Result<Option<Instance>> {
        let what = format!("status of {}", short(id));
        match self.world.call(&self.gate, what, move |world| world.instance(id, true)).await {
            Call::Answered(instance) => Ok(instance),
            Call::Failed => Err(RuntimeError::Unreachable(FAULT.into())),
        }
    }

    async fn list(&self, among: Among<'_>) -> runtime::Result<Vec<Listed>> {
        let only: Option<BTreeSet<WorkspaceId>> = match among {
            Among::All(_) => None,
            Among::Known(known) => Some(known.iter().map(|known| known.workspace).collect()),
        };
        let answer = self.world.call(&self.gate, "list instances".into(), move |world| {
            let all = world.instances();
            all.into_iter()
                .filter(|workspace| only.as_ref().is_none_or(|only| only.contains(workspace)))
                .filter_map(|workspace| {
                    world.instance(workspace, false).map(|instance| Listed { workspace, instance })
                })
                .collect::<Vec<_>>()
        });
        match answer.await {
            Call::Answered(listed) => Ok(listed),
            Call::Failed => Err(RuntimeError::Unreachable(FAULT.into())),
        }
    }

    async fn upstream(&self, id: WorkspaceId) -> runtime::Result<Option<runtime::Upstream>> {
        Ok(self.world.upstream(id))
    }

    async fn line(&self, id: WorkspaceId) -> runtime::Result<LineTo> {
        Ok(self.world.line(id))
    }

    async fn logs(&self, _id: WorkspaceId, query: LogQuery) -> runtime::Result<LogStream> {
        Ok(if query.follow {
            Box::pin(futures::stream::pending())
        } else {
            Box::pin(futures::stream::empty())
        })
    }
}

#[async_trait]
impl Volumes for FakeBackends {
    fn kind(&self) -> &'static str {
        "fake"
    }

    async fn ping(&self) -> volumes::Result<()> {
        Ok(())
    }

    async fn create(&self, key: &VolumeKey, at_least: u64) -> volumes::Result<()> {
        if at_least > ROOM && self.world.on_volume(key).is_none() {
            return Err(VolumeError::NoCapacity("the simulated disk is too small".into()));
        }
        let key = *key;
        let what = format!("create volume {} generation {}", short(key.workspace), key.generation);
        match self.world.call(&self.gate, what, move |world| world.create_volume(key)).await {
            Call::Answered(()) => Ok(()),
            Call::Failed => Err(VolumeError::Unreachable(FAULT.into())),
        }
    }

    async fn delete(&self, key: &VolumeKey, fence: &Fence) -> volumes::Result<()> {
        fence.check().await?;
        let key = *key;
        let what = format!("delete volume {} generation {}", short(key.workspace), key.generation);
        match self.world.call(&self.gate, what, move |world| world.delete_volume(key)).await {
            Call::Answered(()) => Ok(()),
            Call::Failed => Err(VolumeError::Unreachable(FAULT.into())),
        }
    }

    async fn list(&self, scope: Scope<'_>) -> volumes::Result<Vec<ListedVolume>> {
        let of: Option<BTreeSet<WorkspaceId>> = match scope {
            Scope::All => None,
            Scope::Of(ids) => Some(ids.iter().map(|(_, id)| *id).collect()),
        };
        match self
            .world
            .call(&self.gate, "list volumes".into(), move |world| world.volumes_of(of.as_ref()))
            .await
        {
            Call::Answered(keys) => Ok(keys.into_iter().map(ListedVolume::from).collect()),
            Call::Failed => Err(VolumeError::Unreachable(FAULT.into())),
        }
    }
}

/// The tokens are the bytes, and their own digest.
fn info(tokens: &BTreeSet<u64>, parts: impl IntoIterator<Item = ArchiveKey>) -> ArchiveMeta {
    let count = tokens.len() as u64;
    ArchiveMeta {
        format: 3,
        sha256: format!("{tokens:?}"),
        size: count,
        uncompressed: count,
        entries: count,
        skipped: 0,
        index_sha256: None,
        parts: parts.into_iter().map(|part| part.op.to_string()).collect(),
        created_at: Timestamp::UNIX_EPOCH,
    }
}

/// What is recorded of a simulated archive.
pub fn recorded(world: &World, key: ArchiveKey) -> Option<ArchiveRecord> {
    record(key, &info(&world.in_archive(&key)?, world.parts_of(&key))).ok()
}

fn unreachable<T>() -> ArchiveResult<T> {
    Err(ArchiveError::Unreachable { message: FAULT.into() })
}

impl FakeBackends {
    /// Data, then meta: two calls, so that a crash or a fault can come between them.
    async fn store(
        &self,
        key: ArchiveKey,
        mut tokens: BTreeSet<u64>,
        base: Option<ArchiveKey>,
    ) -> ArchiveResult<ArchiveMeta> {
        let parts = base.map(|base| self.world.known_in(&base, &tokens)).unwrap_or_default();
        let packed = info(&tokens, parts.keys().copied());
        if let Some(found) = self.world.in_archive(&key) {
            let found = info(&found, self.world.parts_of(&key));
            found.hold_against(&key.to_string(), &packed.expected())?;
            return Ok(packed);
        }
        tokens.retain(|token| !parts.values().any(|known| known.contains(token)));
        if self.world.cuts() {
            // An object appears whole or not at all.
            self.world.note(format!("upload {} is cut", short(key.workspace)));
            return unreachable();
        }
        let what = format!("upload {}", short(key.workspace));
        let Call::Answered(()) =
            self.world.call(&self.gate, what, move |world| world.upload(key, tokens, parts)).await
        else {
            return unreachable();
        };
        match self
            .world
            .call(&self.gate, format!("commit {}", short(key.workspace)), move |w| w.commit(key))
            .await
        {
            Call::Answered(()) => Ok(packed),
            Call::Failed => unreachable(),
        }
    }
}

#[async_trait]
impl Archives for FakeBackends {
    fn kind(&self) -> &'static str {
        "fake"
    }

    async fn ping(&self) -> ArchiveResult<()> {
        Ok(())
    }

    async fn put(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        transfer: &Transfer,
    ) -> ArchiveResult<ArchiveMeta> {
        let volume = *volume;
        transfer.fence.check().await?;
        if transfer.cancel.is_cancelled() {
            return Err(ArchiveError::Cancelled);
        }
        let what = format!("read {} generation {}", short(volume.workspace), volume.generation);
        let read = self.world.call(&self.gate, what, move |world| world.on_volume(&volume)).await;
        let Call::Answered(tokens) = read else { return unreachable() };
        let Some(tokens) = tokens else {
            return Err(ArchiveError::Changed { message: format!("{volume} does not exist") });
        };
        self.store(*key, tokens, transfer.base.as_ref().map(|base| base.key)).await
    }

    async fn put_empty(&self, key: &ArchiveKey) -> ArchiveResult<ArchiveMeta> {
        self.store(*key, BTreeSet::new(), None).await
    }

    async fn fetch(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        transfer: &Transfer,
    ) -> ArchiveResult<ArchiveMeta> {
        let (key, volume) = (*key, *volume);
        transfer.fence.check().await?;
        let fetched = self
            .world
            .call(&self.gate, format!("fetch {}", short(key.workspace)), move |w| w.in_archive(&key));
        let Call::Answered(tokens) = fetched.await else { return unreachable() };
        let Some(tokens) = tokens else {
            return Err(ArchiveError::NotFound { key: key.to_string() });
        };
        let meta = info(&tokens, self.world.parts_of(&key));
        let (count, cut) = (tokens.len(), self.world.cuts());
        // A cut restore leaves half a home behind.
        let part: BTreeSet<u64> = tokens.into_iter().take(if cut { count / 2 } else { count }).collect();
        let what = format!(
            "unpack {} into generation {}{}",
            short(key.workspace),
            volume.generation,
            if cut { " (cut)" } else { "" }
        );
        match self.world.call(&self.gate, what, move |world| world.unpack(part, volume)).await {
            Call::Answered(Ok(())) if !cut => Ok(meta),
            Call::Answered(Err(why)) => Err(ArchiveError::Changed { message: why }),
            Call::Answered(Ok(())) | Call::Failed => unreachable(),
        }
    }

    async fn head(&self, key: &ArchiveKey) -> ArchiveResult<Option<ArchiveMeta>> {
        let key = *key;
        match self
            .world
            .call(&self.gate, format!("head {}", short(key.workspace)), move |w| {
                w.in_archive(&key).map(|tokens| info(&tokens, w.parts_of(&key)))
            })
            .await
        {
            Call::Answered(found) => Ok(found),
            Call::Failed => unreachable(),
        }
    }

    async fn list(&self) -> ArchiveResult<Vec<ListedArchive>> {
        match self.world.call(&self.gate, "list archives".into(), World::archives).await {
            Call::Answered(all) => Ok(all.into_iter().map(|(key, complete)| listed(key, complete)).collect()),
            Call::Failed => unreachable(),
        }
    }

    async fn list_of(&self, workspace: WorkspaceId) -> ArchiveResult<Vec<ListedArchive>> {
        let all = Archives::list(self).await?;
        Ok(all.into_iter().filter(|listed| listed.key.workspace == workspace).collect())
    }

    async fn delete(&self, key: &ArchiveKey) -> ArchiveResult<()> {
        let key = *key;
        let what = format!("delete archive of {}", short(key.workspace));
        match self.world.call(&self.gate, what, move |world| world.delete_archive(key)).await {
            Call::Answered(()) => Ok(()),
            Call::Failed => unreachable(),
        }
    }

    async fn delete_mark(&self, key: &ArchiveKey) -> ArchiveResult<()> {
        let key = *key;
        let what = format!("delete archive's mark of {}", short(key.workspace));
        match self.world.call(&self.gate, what, move |world| world.delete_mark(key)).await {
            Call::Answered(()) => Ok(()),
            Call::Failed => unreachable(),
        }
    }

    async fn sweep(&self) -> ArchiveResult<u64> {
        Ok(0)
    }

    /// What is simulated has no files: every home looks empty.
    async fn files(
        &self,
        archive: &ArchiveRecord,
        dir: &[u8],
        _after: Option<&[u8]>,
        _limit: usize,
    ) -> ArchiveResult<Option<FilePage>> {
        match head_recorded(self, archive).await? {
            Some(_) => Ok(dir.is_empty().then(FilePage::default)),
            None => Err(ArchiveError::NotFound { key: archive.key.to_string() }),
        }
    }

    async fn file(
        &self,
        archive: &ArchiveRecord,
        _path: &[u8],
    ) -> ArchiveResult<Option<(ArchivedFile, Option<FileStream>)>> {
        match head_recorded(self, archive).await? {
            Some(_) => Ok(None),
            None => Err(ArchiveError::NotFound { key: archive.key.to_string() }),
        }
    }
}

fn listed(key: ArchiveKey, complete: bool) -> ListedArchive {
    ListedArchive { key, size: 0, modified_at: Timestamp::UNIX_EPOCH, complete }
}
