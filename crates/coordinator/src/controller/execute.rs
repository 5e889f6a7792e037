//! One attempt at one action. Idempotent; the next look tells whether it worked.

use std::sync::Arc;

use codehub_archive::{ArchiveError, ArchiveMeta, Progress};
use codehub_domain::{
    ArchiveKey, ArchiveRecord, Epoch, ErrorReason, Failure, Generation, Workspace, WorkspaceId,
    decide::Outcome, observed::Waiting, plan::Action,
};
use codehub_runtime::{
    Fence, Fenced, InstanceSpec,
    archives::{
        self,
        record::{fetch_recorded, record},
    },
    homes::Transfer,
};
use codehub_store::StoreError;
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::jobs::fenced;
use crate::{Context, adopt};

/// Carries out actions, a bounded number at once. Starts and stops do not wait for archives.
#[derive(Clone)]
pub(super) struct Executor {
    context: Context,
    epoch: Epoch,
    instances: Arc<Semaphore>,
    storage: Arc<Semaphore>,
}

type Failed = Outcome;

impl Executor {
    pub(super) fn new(context: &Context, epoch: Epoch) -> Self {
        Self {
            instances: Arc::new(Semaphore::new(context.settings.instance_concurrency.max(1))),
            storage: Arc::new(Semaphore::new(context.settings.storage_concurrency.max(1))),
            context: context.clone(),
            epoch,
        }
    }

    pub(super) async fn run(
        &self,
        workspace: &Workspace,
        action: &Action,
        progress: &Progress,
        cancel: &CancellationToken,
        working: &watch::Sender<Option<Instant>>,
        waiting: &watch::Sender<Option<Waiting>>,
    ) -> Outcome {
        let fence = self.context.fence(self.epoch);
        let transfer =
            Transfer { progress: progress.clone(), cancel: cancel.clone(), fence: fence.clone(), base: None };
        if let Some(at) = self.context.elsewhere(workspace) {
            let here = self.context.backends.volumes.kind();
            return action_failed(format!(
                "the home lives on {at}, but this deployment now uses {here}: go back to {at}, archive the \
                 workspace, and it can be restored here"
            ));
        }
        let places = match action {
            Action::StartInstance { .. } | Action::StopInstance | Action::CreateVolume { .. } => {
                &self.instances
            }
            Action::PutEmptyArchive { .. }
            | Action::Restore { .. }
            | Action::PutArchive { .. }
            | Action::DeleteVolumes { .. } => &self.storage,
        };
        let Ok(place) = places.acquire().await else { return fenced() };
        working.send_replace(Some(Instant::now()));
        // It may have waited, or slept, since the decision was saved.
        if let Err(Fenced(why)) = fence.check().await {
            return Outcome::Failed(Failure::new(ErrorReason::Unreachable, why));
        }
        let done = match action {
            Action::CreateVolume { generation } => self.create_volume(workspace, *generation).await,
            Action::PutEmptyArchive { key } => self.put_empty(*key).await,
            Action::PutArchive { key, from } => self.put(workspace, *key, *from, &transfer).await,
            Action::Restore { from, into, wipe } => {
                let wiped = self.delete_volumes(workspace, wipe.iter().copied(), &fence).await;
                match wiped {
                    Ok(_) => self.restore(workspace, *from, *into, &transfer).await,
                    Err(failed) => Err(failed),
                }
            }
            Action::StopInstance => self.stop(workspace.id).await,
            Action::DeleteVolumes { generations } => {
                self.delete_volumes(workspace, generations.iter().copied(), &fence).await
            }
            Action::StartInstance { generation } => {
                let launched = self.launch(workspace, *generation, &transfer).await;
                // Waiting for it to answer takes nobody's place.
                drop(place);
                match launched {
                    Ok(_) => self.until_ready(workspace.id, waiting).await,
                    Err(failed) => Err(failed),
                }
            }
        };
        done.unwrap_or_else(|failed| failed)
    }

    async fn create_volume(&self, workspace: &Workspace, generation: Generation) -> Result<Outcome, Failed> {
        self.context.backends.volumes.create(&workspace.volume(generation), 0).await.map_err(failed)?;
        Ok(Outcome::Done)
    }

    async fn put_empty(&self, key: ArchiveKey) -> Result<Outcome, Failed> {
        let stored = self.context.backends.archives.put_empty(&key).await;
        let meta = stored.map_err(|error| archive_failed(&error))?;
        Ok(archived(key, &meta))
    }

    async fn put(
        &self,
        workspace: &Workspace,
        key: ArchiveKey,
        from: Generation,
        transfer: &Transfer,
    ) -> Result<Outcome, Failed> {
        let archives = &self.context.backends.archives;
        let transfer = Transfer { base: self.base(workspace, key).await?, ..transfer.clone() };
        let meta = archives
            .put(&key, &workspace.volume(from), &transfer)
            .await
            .map_err(|error| archive_failed(&error))?;
        Ok(archived(key, &meta))
    }

    /// The last archive of the home, for the next to build upon. The row refers to it until the next one is saved in its
    /// place, so neither it nor what it has parts in is deleted meanwhile; and a second try finds the same one. A
    /// workspace made from another's archive begins with one of its own.
    async fn base(&self, workspace: &Workspace, next: ArchiveKey) -> Result<Option<ArchiveRecord>, Failed> {
        let last =
            workspace.status.archive_key.filter(|last| last.workspace == workspace.id && *last != next);
        let Some(last) = last else { return Ok(None) };
        let unreachable =
            |error: StoreError| Outcome::Failed(Failure::new(ErrorReason::Unreachable, error.to_string()));
        self.context.backends.store.archive_record(last).await.map_err(unreachable)
    }

    /// Into a new volume, from the start each time.
    async fn restore(
        &self,
        workspace: &Workspace,
        from: ArchiveKey,
        into: Generation,
        transfer: &Transfer,
    ) -> Result<Outcome, Failed> {
        let backends = &self.context.backends;
        let archive = self.recorded(from).await?;
        let volume = workspace.volume(into);
        backends.volumes.create(&volume, archive.uncompressed).await.map_err(failed)?;
        fetch_recorded(&*backends.archives, &archive, &volume, transfer)
            .await
            .map_err(|error| archive_failed(&error))?;
        Ok(Outcome::Restored { key: from, generation: into })
    }

    /// What the archive must be. Without a record it is nobody's home; right after an upgrade that is not known yet.
    async fn recorded(&self, key: ArchiveKey) -> Result<ArchiveRecord, Failed> {
        let unreachable = |why: String| Outcome::Failed(Failure::new(ErrorReason::Unreachable, why));
        let asked = |error: StoreError| unreachable(error.to_string());
        if let Some(archive) = self.context.backends.store.archive_record(key).await.map_err(asked)? {
            return Ok(archive);
        }
        if !adopt::is_done(&self.context, self.epoch) {
            return Err(unreachable("archives from before the upgrade are being recorded".into()));
        }
        let why = format!(
            "there is no record of the archive {key}, so it may be anybody's; if it is the right one: \
             codehub admin archives adopt {key}"
        );
        Err(Outcome::Failed(Failure::new(ErrorReason::ArchiveCorrupted, why)))
    }

    async fn launch(
        &self,
        workspace: &Workspace,
        generation: Generation,
        transfer: &Transfer,
    ) -> Result<Outcome, Failed> {
        let origins = &self.context.settings.origins;
        let spec = InstanceSpec {
            workspace: workspace.id,
            name: workspace.name.clone(),
            image_ref: workspace.image_ref.clone(),
            volume: workspace.volume(generation),
            url: origins.url(workspace.id),
            base_path: origins.base_path(workspace.id),
            api_url: origins.base_url().to_owned(),
            port_url: self.context.settings.ports.then(|| origins.port_url_pattern(workspace.id)).flatten(),
        };
        let instances = &self.context.backends.instances;
        instances.prepare(&spec.image_ref, &transfer.progress).await.map_err(failed)?;
        instances.start(&spec, &transfer.fence).await.map_err(failed)?;
        Ok(Outcome::Done)
    }

    /// The controller's deadline ends this wait, not a count of our own.
    async fn until_ready(
        &self,
        id: WorkspaceId,
        waiting: &watch::Sender<Option<Waiting>>,
    ) -> Result<Outcome, Failed> {
        self.context.backends.instances.wait_ready(id, waiting).await.map_err(failed)?;
        Ok(Outcome::Done)
    }

    async fn stop(&self, id: WorkspaceId) -> Result<Outcome, Failed> {
        self.context.backends.instances.stop(id).await.map_err(failed)?;
        Ok(Outcome::Done)
    }

    /// Immediately before each deletion: does really nothing use it? (That we still lead, the backend asks.)
    async fn delete_volumes(
        &self,
        workspace: &Workspace,
        generations: impl Iterator<Item = Generation>,
        fence: &Fence,
    ) -> Result<Outcome, Failed> {
        let backends = &self.context.backends;
        for generation in generations {
            if backends.instances.status(workspace.id).await.map_err(failed)?.is_some() {
                return Err(action_failed("an instance uses the volume that was to be deleted".into()));
            }
            backends.volumes.delete(&workspace.volume(generation), fence).await.map_err(failed)?;
        }
        Ok(Outcome::Done)
    }
}

fn archived(key: ArchiveKey, meta: &ArchiveMeta) -> Outcome {
    record(key, meta).map_or_else(|error| archive_failed(&error), |archive| Outcome::Archived { archive })
}

fn archive_failed(error: &ArchiveError) -> Failed {
    Outcome::Failed(archives::failure(error))
}

fn failed(error: impl Into<Failure>) -> Failed {
    Outcome::Failed(error.into())
}

pub(super) fn action_failed(message: String) -> Failed {
    Outcome::Failed(Failure::new(ErrorReason::ActionFailed, message))
}

/// For metrics.
pub(super) fn name(action: &Action) -> &'static str {
    match action {
        Action::CreateVolume { .. } => "create_volume",
        Action::PutEmptyArchive { .. } => "put_empty_archive",
        Action::Restore { .. } => "restore",
        Action::StartInstance { .. } => "start_instance",
        Action::StopInstance => "stop_instance",
        Action::PutArchive { .. } => "put_archive",
        Action::DeleteVolumes { .. } => "delete_volumes",
    }
}
