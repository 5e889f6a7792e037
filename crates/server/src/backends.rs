//! The one place where ports meet their implementations.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use codehub_archive::ObjectArchives;
use codehub_domain::{ArchiveKey, Truth};
use codehub_runtime::{
    archives::VolumeArchives,
    ide::{self, ResolvedIde},
    process::{ProcessConfig, ProcessRuntime, ShimCommand},
    volumes::{Volumes, directory::DirectoryVolumes},
};
use codehub_store::{
    BackendPart, MigrationStatus, PostgresStore, SqliteStore, Store,
    bus::{Bus, MemoryBus, RedisBus},
};
use uuid::Uuid;

use crate::{
    config::{Config, RuntimeKind},
    places::{self, Places},
};
use codehub_coordinator::Backends;

/// Names this deployment: what carries it is ours, what does not is not.
const DEPLOYMENT_SETTING: &str = "deployment_id";

/// Where the database is.
pub fn database_path(config: &Config) -> PathBuf {
    config.data_dir.join("codehub.db")
}

/// What the schema of the configured database lacks, and what to call that database.
///
/// # Errors
/// It cannot be reached.
pub async fn migration_status(config: &Config) -> anyhow::Result<(String, MigrationStatus)> {
    if let Some(url) = &config.database.url {
        let status = PostgresStore::migrate_status(url.reveal()).await?;
        return Ok((PostgresStore::shown(url.reveal())?, status));
    }
    let path = database_path(config);
    let status = SqliteStore::migrate_status(&path).await?;
    Ok((path.display().to_string(), status))
}

/// Opens the database and brings its schema up to date.
///
/// # Errors
/// It cannot be opened; the message says what to do.
pub async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    if let Some(url) = &config.database.url {
        let store = PostgresStore::open(url.reveal(), config.database.max_connections).await;
        return Ok(Arc::new(store.context("PostgreSQL cannot be used")?));
    }
    let path = database_path(config);
    let store = SqliteStore::open(&path).await;
    let store = store.with_context(|| format!("the database {} cannot be opened", path.display()))?;
    Ok(Arc::new(store))
}

/// The IDE that workspaces run.
///
/// # Errors
/// What was asked for is not installed; the message says what to do.
pub fn resolve_ide(config: &Config) -> anyhow::Result<ResolvedIde> {
    let runtime = &config.runtime;
    let exe = crate::cli::own_path()?;
    ide::resolve(runtime.ide, &runtime.ide_command, &runtime.ide_health_path, &exe)
        .map_err(anyhow::Error::msg)
}

/// The archives alone.
///
/// # Errors
/// They cannot be opened; the message says what to do.
pub(crate) async fn open_archives(config: &Config, store: &dyn Store) -> anyhow::Result<ObjectArchives> {
    let deployment = deployment(store).await?;
    places::open_archives(config, &deployment, KnownHomes::read(store).await?).await
}

async fn deployment(store: &dyn Store) -> anyhow::Result<String> {
    Ok(store.setting_init(DEPLOYMENT_SETTING, &Uuid::new_v4().to_string()).await?)
}

/// Builds everything the configuration asks for.
///
/// # Errors
/// Something cannot be opened; the message says what to do.
pub async fn build_backends(config: &Config) -> anyhow::Result<Backends> {
    let store = open_store(config).await?;
    let deployment = deployment(&*store).await?;
    let known = KnownHomes::read(&*store).await?;

    let bus = open_bus(config)?;
    let places = match config.runtime.kind {
        RuntimeKind::Process => on_this_machine(config, &deployment, known).await?,
        RuntimeKind::Docker => places::on_docker(config, &deployment, known, &bus).await?,
    };
    let backends = Backends {
        store,
        bus,
        instances: places.instances,
        volumes: places.volumes,
        archives: places.archives,
        name: config.runtime.name.clone(),
    };
    name_backends(&backends).await?;
    Ok(backends)
}

/// Rows that know a backend by its name from before follow, so that nothing of it is taken for another's.
async fn name_backends(backends: &Backends) -> anyhow::Result<()> {
    for (part, kind, name) in [
        (BackendPart::Instances, backends.instances.kind(), backends.instances_name()),
        (BackendPart::Storage, backends.volumes.kind(), backends.volumes_name()),
    ] {
        let renamed = backends.store.backend_named(part, kind, name).await?;
        if renamed > 0 {
            tracing::info!(
                ?part,
                name,
                workspaces = renamed,
                "the backend was renamed, and its workspaces with it"
            );
        }
    }
    Ok(())
}

/// Workspaces as processes, homes as directories.
async fn on_this_machine(config: &Config, deployment: &str, known: KnownHomes) -> anyhow::Result<Places> {
    let directories = DirectoryVolumes::new(&config.data_dir);
    if known.on_volumes {
        // They were here before: if they are not now, nothing may be made in their place.
        directories.ping().await?;
    } else {
        directories.prepare().await?;
    }
    let volumes: Arc<dyn Volumes> = Arc::new(directories);
    let archives = places::open_archives(config, deployment, known).await?;

    let ide = resolve_ide(config)?;
    let mut process =
        ProcessConfig::new(&config.data_dir, deployment, ide, ShimCommand::of(crate::cli::own_path()?));
    process.sandbox = config.runtime.sandbox;
    process.stop_grace = config.runtime.stop_grace;
    process.hidden.extend(config.file.clone());
    let instances = ProcessRuntime::open(process).await.map_err(anyhow::Error::msg)?;
    let kind = places::archives_kind(config);
    Ok(Places {
        instances: Arc::new(instances),
        archives: Arc::new(VolumeArchives::new(kind, archives, volumes.clone())),
        volumes,
    })
}

/// How much longer than a flush everybody gets to tell a Redis that has forgotten.
const SETTLE_MARGIN: Duration = Duration::from_secs(10);

fn open_bus(config: &Config) -> anyhow::Result<Arc<dyn Bus>> {
    let Some(url) = &config.redis.url else { return Ok(Arc::new(MemoryBus::new())) };
    let settle = config.activity.flush_interval + SETTLE_MARGIN;
    Ok(Arc::new(RedisBus::open(url.reveal(), config.redis.names.clone(), settle)?))
}

/// Where the database says that homes are: storage that lacks them is not mounted, not empty.
#[derive(Debug, Clone)]
pub(crate) struct KnownHomes {
    pub(crate) on_volumes: bool,
    pub(crate) in_archives: Vec<ArchiveKey>,
}

impl KnownHomes {
    async fn read(store: &dyn Store) -> anyhow::Result<Self> {
        let rows = store.gc_rows().await?;
        let alive = || rows.iter().filter(|row| !row.deleted);
        Ok(Self {
            on_volumes: alive().any(|row| row.truth == Truth::Volume),
            in_archives: alive()
                .filter(|row| row.truth == Truth::Archive)
                .filter_map(|row| row.archive_key)
                .collect(),
        })
    }
}
