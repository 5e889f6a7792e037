//! One attempt at one action. Idempotent; the next look tells whether it worked.

use std::{sync::Arc, time::Duration};

use codehub_archive::{ArchiveError, Progress};
use codehub_domain::{
    ArchiveKey, ArchiveRecord, Epoch, ErrorReason, Failure, Generation, Workspace, WorkspaceId,
    decide::Outcome,
    observed::{Instance, InstanceState},
    plan::Action,
};
use codehub_runtime::{
    InstanceSpec,
    archives::{
        self,
        record::{fetch_recorded, record},
    },
};
use codehub_store::StoreError;
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::jobs::fenced;
use crate::{Context, adopt};

/// How often a starting instance is asked whether it is ready: often at first, for those that take
/// milliseconds, and each time a little later.
const READY_STEP: Duration = Duration::from_millis(1);
const READY_MOST: Duration = Duration::from_millis(250);

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
    ) -> Outcome {
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
        if let Err(failed) = self.still_leads().await {
            return failed;
        }
        let done = match action {
            Action::CreateVolume { generation } => self.create_volume(workspace, *generation).await,
            Action::PutEmptyArchive { key } => self.put_empty(*key).await,
            Action::PutArchive { key, from } => self.put(workspace, *key, *from, progress, cancel).await,
            Action::Restore { from, into, wipe } => {
                let wiped = self.delete_volumes(workspace, wipe.iter().copied()).await;
                match wiped {
                    Ok(_) => self.restore(workspace, *from, *into, progress, cancel).await,
                    Err(failed) => Err(failed),
                }
            }
            Action::StopInstance => self.stop(workspace.id).await,
            Action::DeleteVolumes { generations } => {
                self.delete_volumes(workspace, generations.iter().copied()).await
            }
            Action::StartInstance { generation } => {
                let launched = self.launch(workspace, *generation, progress).await;
                // Waiting for it to answer takes nobody's place.
                drop(place);
                match launched {
                    Ok(_) => self.until_ready(workspace.id).await,
                    Err(failed) => Err(failed),
                }
            }
        };
        done.unwrap_or_else(|failed| failed)
    }

    async fn still_leads(&self) -> Result<(), Failed> {
        match self.context.backends.store.epoch_is_current(self.epoch).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(fenced()),
            Err(error) => Err(Outcome::Failed(Failure::new(ErrorReason::Unreachable, error.to_string()))),
        }
    }

    async fn create_volume(&self, workspace: &Workspace, generation: Generation) -> Result<Outcome, Failed> {
        self.context.backends.volumes.create(&workspace.volume(generation)).await.map_err(failed)?;
        Ok(Outcome::Done)
    }

    async fn put_empty(&self, key: ArchiveKey) -> Result<Outcome, Failed> {
        let stored = self.context.backends.archives.put_empty(&key).await;
        let meta = stored.map_err(|error| archive_failed(&error))?;
        Ok(Outcome::Archived { archive: record(key, &meta) })
    }

    async fn put(
        &self,
        workspace: &Workspace,
        key: ArchiveKey,
        from: Generation,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        let archives = &self.context.backends.archives;
        let meta = archives
            .put(&key, &workspace.volume(from), progress, cancel)
            .await
            .map_err(|error| archive_failed(&error))?;
        Ok(Outcome::Archived { archive: record(key, &meta) })
    }

    /// Into a new volume, from the start each time.
    async fn restore(
        &self,
        workspace: &Workspace,
        from: ArchiveKey,
        into: Generation,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        let backends = &self.context.backends;
        let archive = self.recorded(from).await?;
        let volume = workspace.volume(into);
        backends.volumes.create(&volume).await.map_err(failed)?;
        fetch_recorded(&*backends.archives, &archive, &volume, progress, cancel)
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
        progress: &Progress,
    ) -> Result<Outcome, Failed> {
        let base_path = format!("/w/{}/", workspace.id);
        let spec = InstanceSpec {
            workspace: workspace.id,
            name: workspace.name.clone(),
            image_ref: workspace.image_ref.clone(),
            volume: workspace.volume(generation),
            url: format!("{}{base_path}", self.context.settings.public_base_url),
            base_path,
        };
        let instances = &self.context.backends.instances;
        instances.prepare(&spec.image_ref, progress).await.map_err(failed)?;
        instances.start(&spec).await.map_err(failed)?;
        Ok(Outcome::Done)
    }

    /// The controller's deadline ends this wait, not a count of our own.
    async fn until_ready(&self, id: WorkspaceId) -> Result<Outcome, Failed> {
        let mut pause = READY_STEP;
        loop {
            match self.context.backends.instances.status(id).await {
                Ok(Some(Instance { state: InstanceState::Ready, .. })) => return Ok(Outcome::Done),
                Ok(Some(Instance { state: InstanceState::Ended(how), .. })) => {
                    return Err(action_failed(format!("the instance ended before it was ready: {how}")));
                }
                Ok(None) => return Err(action_failed("the instance disappeared before it was ready".into())),
                // Busy starting, or the engine did not answer this time: ask again.
                Ok(Some(Instance { state: InstanceState::Alive, .. })) | Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause + READY_STEP).min(READY_MOST);
        }
    }

    async fn stop(&self, id: WorkspaceId) -> Result<Outcome, Failed> {
        self.context.backends.instances.stop(id).await.map_err(failed)?;
        Ok(Outcome::Done)
    }

    /// Immediately before each deletion: do we still lead, and does really nothing use it?
    async fn delete_volumes(
        &self,
        workspace: &Workspace,
        generations: impl Iterator<Item = Generation>,
    ) -> Result<Outcome, Failed> {
        let backends = &self.context.backends;
        for generation in generations {
            if backends.instances.status(workspace.id).await.map_err(failed)?.is_some() {
                return Err(action_failed("an instance uses the volume that was to be deleted".into()));
            }
            self.still_leads().await?;
            backends.volumes.delete(&workspace.volume(generation)).await.map_err(failed)?;
        }
        Ok(Outcome::Done)
    }
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
