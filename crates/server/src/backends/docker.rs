//! Workspaces as containers, homes as volumes of a Docker engine.

use std::{sync::Arc, time::Duration};

use codehub_runtime::{
    Instances as _,
    archives::StoredArchives,
    docker::{DockerConfig, DockerRuntime, DockerTransfer, DockerVolumes, Engine, Jobs, Reach, Users},
    ide,
};

use super::{KnownHomes, RuntimeBackends, archives, own_path};
use crate::config::Config;

/// Workspaces as containers, homes as volumes of an engine. It need not answer now.
///
/// # Errors
/// The configuration cannot work.
pub(super) async fn open(
    config: &Config,
    deployment: &str,
    known: KnownHomes,
) -> anyhow::Result<RuntimeBackends> {
    let runtime = &config.runtime;
    let settings = &runtime.docker;
    let ide = ide::resolve_in_container(
        runtime.ide,
        &runtime.ide_command,
        &runtime.ide_health_path,
        &runtime.image,
    )
    .map_err(anyhow::Error::msg)?;
    let engine = Arc::new(Engine::new(&settings.host));
    let reach = Reach::resolve(settings.reach, &engine, &ide).map_err(anyhow::Error::msg)?;
    let users = Users { uid: settings.uid, gid: settings.gid };
    let jobs = Jobs::new(engine, deployment, users, own_path()?);
    let instances = DockerRuntime::new(
        &jobs,
        DockerConfig {
            deployment: deployment.to_owned(),
            ide,
            port: settings.port,
            home: settings.home.clone(),
            users,
            memory: settings.memory,
            milli_cpus: settings.milli_cpus,
            pids: settings.pids,
            read_only: settings.read_only,
            pull: settings.pull,
            reach,
            data_dir: config.data_dir.clone(),
            network: settings.network.clone(),
            firewall: settings.firewall,
            dns: settings.dns.clone(),
            stop_grace: runtime.stop_grace,
            health_timeout: Duration::from_secs(2),
        },
    );
    if let Err(error) = instances.ping().await {
        tracing::warn!(%error, "the engine is not responding; starting anyway and retrying");
    }
    let volumes = DockerVolumes::new(&jobs);
    let objects = archives::open(config, deployment, known).await?;
    let homes = Arc::new(DockerTransfer::new(jobs, config.archive.level));
    Ok(RuntimeBackends {
        instances: Arc::new(instances),
        volumes: Arc::new(volumes),
        archives: Arc::new(StoredArchives::new(archives::kind(config), objects, homes)),
    })
}
