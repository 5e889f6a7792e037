//! Workspaces as processes of this machine, homes as directories.

use std::sync::Arc;

use codehub_runtime::{
    archives::StoredArchives,
    homes::DirectoryTransfer,
    process::{ProcessConfig, ProcessRuntime, ShimCommand},
    volumes::{Volumes as _, directory::DirectoryVolumes},
};

use super::{KnownHomes, RuntimeBackends, archives, own_path, resolve_ide};
use crate::config::Config;

/// Workspaces as processes, homes as directories.
///
/// # Errors
/// What was there before is not there now, or cannot be used.
pub(super) async fn open(
    config: &Config,
    deployment: &str,
    known: KnownHomes,
) -> anyhow::Result<RuntimeBackends> {
    let directories = DirectoryVolumes::new(&config.data_dir);
    if known.on_volumes {
        // They were here before: if they are not now, nothing may be made in their place.
        directories.ping().await?;
    } else {
        directories.prepare().await?;
    }
    let objects = archives::open(config, deployment, known).await?;

    let ide = resolve_ide(config)?;
    let mut process = ProcessConfig::new(&config.data_dir, deployment, ide, ShimCommand::of(own_path()?));
    process.sandbox = config.runtime.sandbox;
    process.stop_grace = config.runtime.stop_grace;
    process.network = config.runtime.process_network;
    process.show.clone_from(&config.runtime.process_show);
    process.hidden.extend(config.file.clone());
    process.home = config.runtime.docker.home.clone().into();
    process.listen = Some(config.listen);
    process.unsandboxed_users = config.runtime.unsandboxed_users;
    process.limits.processes = config.runtime.docker.pids;
    let instances = ProcessRuntime::open(process).await.map_err(anyhow::Error::msg)?;
    let homes = Arc::new(DirectoryTransfer::new(&config.data_dir, archives::pack_options(config)));
    Ok(RuntimeBackends {
        instances: Arc::new(instances),
        volumes: Arc::new(directories),
        archives: Arc::new(StoredArchives::new(archives::kind(config), objects, homes)),
    })
}
