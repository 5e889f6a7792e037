//! The one place where ports meet their implementations.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use codehub_adapters::{
    archive::{ObjectArchives, PackOptions, VolumeArchives},
    bus::{Bus, MemoryBus, RedisBus},
    runtime::{
        ide::{self, ResolvedIde},
        process::{ProcessConfig, ProcessRuntime, ShimCommand},
    },
    store::{MigrationStatus, PostgresStore, SqliteStore, Store},
    volumes::{Volumes, directory::DirectoryVolumes},
};
use codehub_domain::Truth;
use uuid::Uuid;

use crate::{app::Backends, config::Config};

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

/// Builds everything the configuration asks for.
///
/// # Errors
/// Something cannot be opened; the message says what to do.
pub async fn build_backends(config: &Config) -> anyhow::Result<Backends> {
    let store = open_store(config).await?;
    let deployment = store.setting_init(DEPLOYMENT_SETTING, &Uuid::new_v4().to_string()).await?;
    let known = KnownHomes::read(&*store).await?;

    let directories = DirectoryVolumes::new(&config.data_dir);
    if known.on_volumes {
        // They were here before: if they are not now, nothing may be made in their place.
        directories.ping().await?;
    } else {
        directories.prepare().await?;
    }
    let volumes: Arc<dyn Volumes> = Arc::new(directories);
    let archives = open_archives(config, known)?;

    let ide = resolve_ide(config)?;
    let mut process =
        ProcessConfig::new(&config.data_dir, &deployment, ide, ShimCommand::of(crate::cli::own_path()?));
    process.sandbox = config.runtime.sandbox;
    process.stop_grace = config.runtime.stop_grace;
    let instances = ProcessRuntime::open(process).await.map_err(anyhow::Error::msg)?;

    Ok(Backends {
        store,
        bus: open_bus(config)?,
        instances: Arc::new(instances),
        archives: Arc::new(VolumeArchives::new("files", archives, volumes.clone())),
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

fn open_archives(config: &Config, known: KnownHomes) -> anyhow::Result<ObjectArchives> {
    let root = config.data_dir.join("archives");
    if known.in_archives && !root.is_dir() {
        bail!(
            "{} does not exist, but workspaces are archived there: if it is on another disk, mount it first",
            root.display()
        );
    }
    let options = PackOptions { level: config.archive.level, ..PackOptions::default() };
    Ok(ObjectArchives::open_local(&root, &config.archive.prefix)?.with_options(options))
}

/// Where the database says that homes are: storage that lacks them is not mounted, not empty.
#[derive(Debug, Clone, Copy)]
struct KnownHomes {
    on_volumes: bool,
    in_archives: bool,
}

impl KnownHomes {
    async fn read(store: &dyn Store) -> anyhow::Result<Self> {
        let rows = store.gc_rows().await?;
        let any = |truth| rows.iter().any(|row| !row.deleted && row.truth == truth);
        Ok(Self { on_volumes: any(Truth::Volume), in_archives: any(Truth::Archive) })
    }
}
