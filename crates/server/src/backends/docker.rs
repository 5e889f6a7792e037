//! Workspaces as containers, homes as volumes of a Docker engine.

use std::{sync::Arc, time::Duration};

use codehub_runtime::{
    Instances as _,
    docker::{self, DockerArchives, DockerConfig, DockerRuntime, DockerVolumes, Engine, Jobs, Notice},
    ide,
    volumes::Volumes,
};
use codehub_store::bus::Bus;
use tokio::sync::mpsc;

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
    bus: &Arc<dyn Bus>,
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
    let user = (settings.uid, settings.gid);
    let jobs = Jobs::new(Arc::clone(&engine), deployment, user, own_path()?);
    let instances = DockerRuntime::new(
        Arc::clone(&engine),
        DockerConfig {
            deployment: deployment.to_owned(),
            ide,
            port: settings.port,
            home: settings.home.clone(),
            uid: settings.uid,
            gid: settings.gid,
            memory: settings.memory,
            milli_cpus: settings.milli_cpus,
            pids: settings.pids,
            read_only: settings.read_only,
            pull: settings.pull,
            reach: settings.reach,
            network: settings.network.clone(),
            firewall: settings.firewall,
            dns: settings.dns.clone(),
            stop_grace: runtime.stop_grace,
            health_timeout: Duration::from_secs(2),
        },
    );
    if let Err(error) = instances.ping().await {
        tracing::warn!(%error, "the engine is not there; starting all the same and trying again");
    }
    let volumes: Arc<dyn Volumes> = Arc::new(DockerVolumes::new(&jobs));
    let objects = archives::open(config, deployment, known).await?;
    let kind = archives::kind(config);
    let archives = DockerArchives::new(kind, objects, volumes.clone(), jobs, config.archive.level);
    tokio::spawn(pass_on(docker::watch_events(engine, deployment.to_owned()), Arc::clone(bus)));
    Ok(RuntimeBackends { instances: Arc::new(instances), volumes, archives: Arc::new(archives) })
}

/// Tells the controller what the engine noticed. A notice that is lost costs time, never correctness.
async fn pass_on(mut notices: mpsc::Receiver<Notice>, bus: Arc<dyn Bus>) {
    while let Some(notice) = notices.recv().await {
        let told = match notice {
            Notice::Changed(workspace) => bus.look(workspace).await,
            Notice::Wake => bus.wake().await,
        };
        if let Err(error) = told {
            tracing::debug!(%error, "an event of the engine was heard by nobody");
        }
    }
}
