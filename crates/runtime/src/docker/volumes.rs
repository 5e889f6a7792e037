//! The volumes port: homes as volumes of the engine.
//!
//! A new volume belongs to root until a helper has given it to the user the IDE runs as. That helper
//! makes the volume, and while it is there the volume does not count: a crash in between leaves
//! nothing that looks finished. Before one is removed we look ourselves whether anything uses it;
//! engines have been seen to remove volumes in use.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};
use codehub_domain::{Generation, UserId, VolumeKey, WorkspaceId};

use super::{
    engine::{
        Engine, LABEL_ETC, LABEL_GENERATION, LABEL_INSTANCE, LABEL_JOB, LABEL_OWNER, LABEL_WORKSPACE, Labels,
    },
    engine::{found, is_status, label_filter, read_labels},
    jobs::{Job, Jobs},
};
use crate::{
    Fence, RuntimeError,
    volumes::{ListedVolume, Result, Scope, VolumeError, Volumes},
};

impl From<RuntimeError> for VolumeError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Unreachable(text) => Self::Unreachable(text),
            RuntimeError::NoCapacity(text) => Self::NoCapacity(text),
            RuntimeError::ImagePull(text) | RuntimeError::Failed(text) => Self::Failed(text),
        }
    }
}

/// Volumes of one Docker engine.
pub struct DockerVolumes {
    engine: Arc<Engine>,
    deployment: String,
    jobs: Jobs,
}

impl DockerVolumes {
    /// On the engine of these jobs.
    pub fn new(jobs: &Jobs) -> Self {
        Self {
            engine: Arc::clone(jobs.engine()),
            deployment: jobs.deployment().to_owned(),
            jobs: jobs.clone(),
        }
    }

    async fn ours(&self, key: &VolumeKey) -> Result<bool> {
        let client = self.engine.client().await?;
        let volume = found(client.inspect_volume(&key.to_string()).await);
        let Some(volume) = volume.map_err(self.engine.failed("look at a volume"))? else { return Ok(false) };
        if read_labels(Some(&volume.labels), &self.deployment).is_none() {
            return Err(VolumeError::Failed(format!("{key} exists, but is not this deployment's")));
        }
        Ok(true)
    }

    /// Before the home: what is left behind of it is found again as long as there is one.
    async fn delete_lists_of_users(&self, key: &VolumeKey) -> Result<()> {
        let client = self.engine.client().await?;
        let id = key.workspace.to_string();
        let labels = label_filter(&[(LABEL_INSTANCE, &self.deployment), (LABEL_ETC, &id)]);
        let options = ListVolumesOptionsBuilder::new().filters(&labels).build();
        let listed = client.list_volumes(Some(options)).await.map_err(self.engine.failed("list volumes"))?;
        for volume in listed.volumes.unwrap_or_default() {
            let options = RemoveVolumeOptionsBuilder::new().force(false).build();
            match found(client.remove_volume(&volume.name, Some(options)).await) {
                Ok(_) => {}
                // Of another generation, which runs.
                Err(error) if is_status(&error, 409) => {}
                Err(error) => return Err(self.engine.failed("remove a volume")(error).into()),
            }
        }
        Ok(())
    }

    /// Volumes whose making has not ended.
    async fn unfinished(&self) -> Result<HashSet<String>> {
        let filter = label_filter(&[(LABEL_INSTANCE, &self.deployment), (LABEL_JOB, Job::PREPARE)]);
        let containers = self.engine.containers(filter).await?;
        let mounts = containers.into_iter().flat_map(|container| container.mounts.unwrap_or_default());
        Ok(mounts.filter_map(|mount| mount.name).collect())
    }
}

#[async_trait]
impl Volumes for DockerVolumes {
    fn kind(&self) -> &'static str {
        "docker"
    }

    async fn ping(&self) -> Result<()> {
        Ok(self.engine.ping().await?)
    }

    async fn create(&self, key: &VolumeKey, at_least: u64) -> Result<()> {
        if self.ours(key).await? && !self.unfinished().await?.contains(&key.to_string()) {
            return Ok(());
        }
        let made = self.jobs.prepare(key, labels(key, &self.deployment), at_least).await;
        if let Err(RuntimeError::NoCapacity(_)) = &made {
            // Nothing is on it: it was never finished.
            self.delete(key, &Fence::open()).await?;
        }
        Ok(made?)
    }

    async fn delete(&self, key: &VolumeKey, fence: &Fence) -> Result<()> {
        let name = key.to_string();
        // The helper below may be of whoever leads now.
        fence.check().await?;
        // A helper that an earlier CodeHub left must not hold on to it, nor write to it meanwhile.
        self.jobs.end_of_volume(key).await?;
        self.delete_lists_of_users(key).await?;
        if !self.ours(key).await? {
            return Ok(());
        }
        let users = self.engine.containers(HashMap::from([("volume", vec![name.clone()])])).await?;
        if let Some(user) = users.first() {
            let who = user.names.as_ref().and_then(|names| names.first()).map_or("?", String::as_str);
            return Err(VolumeError::Failed(format!("{name} is used by the container {who}: not deleted")));
        }
        let client = self.engine.client().await?;
        fence.check().await?;
        let options = RemoveVolumeOptionsBuilder::new().force(false).build();
        match found(client.remove_volume(&name, Some(options)).await) {
            Ok(_) => Ok(()),
            Err(error) if is_status(&error, 409) => {
                Err(VolumeError::Failed(format!("{name} is in use: {error}")))
            }
            Err(error) => Err(self.engine.failed("remove a volume")(error).into()),
        }
    }

    async fn list(&self, scope: Scope<'_>) -> Result<Vec<ListedVolume>> {
        let mut wanted = vec![(LABEL_INSTANCE, self.deployment.as_str())];
        // One workspace can be asked for by name; several cost no more than all.
        let one = match scope {
            Scope::Of([(_, id)]) => Some(id.to_string()),
            Scope::All | Scope::Of(_) => None,
        };
        if let Some(id) = &one {
            wanted.push((LABEL_WORKSPACE, id));
        }
        let options = ListVolumesOptionsBuilder::new().filters(&label_filter(&wanted)).build();
        let listed = self.engine.client().await?.list_volumes(Some(options)).await;
        let listed = listed.map_err(self.engine.failed("list volumes"))?;
        // Only now: the helper of a volume that has just been listed is there, or has done its work.
        let unfinished = self.unfinished().await?;
        let among: Option<HashSet<WorkspaceId>> = match scope {
            Scope::All => None,
            Scope::Of(some) => Some(some.iter().map(|(_, id)| *id).collect()),
        };
        let keys = listed.volumes.unwrap_or_default().into_iter().filter_map(|volume| {
            let (workspace, generation) = read_labels(Some(&volume.labels), &self.deployment)?;
            let owner: UserId = volume.labels.get(LABEL_OWNER)?.parse().ok()?;
            let key = VolumeKey { owner, workspace, generation };
            // The name is what mounts it: a volume that is called otherwise is not it.
            (key.to_string() == volume.name).then_some(key)
        });
        Ok(keys
            .filter(|key| among.as_ref().is_none_or(|ids| ids.contains(&key.workspace)))
            .filter(|key| !unfinished.contains(&key.to_string()))
            .map(ListedVolume::from)
            .collect())
    }
}

fn labels(key: &VolumeKey, deployment: &str) -> Labels {
    let Generation(generation) = key.generation;
    HashMap::from([
        (LABEL_INSTANCE.to_owned(), deployment.to_owned()),
        (LABEL_WORKSPACE.to_owned(), key.workspace.to_string()),
        (LABEL_OWNER.to_owned(), key.owner.to_string()),
        (LABEL_GENERATION.to_owned(), generation.to_string()),
    ])
}
