//! The composition root: which implementation is chosen for which setting.
//!
//! | port | setting | implementation |
//! |---|---|---|
//! | store | `DATABASE_URL` | PostgreSQL, else SQLite in the data directory |
//! | bus | `REDIS_URL` | Redis, else in process |
//! | instances, volumes | `RUNTIME` | [`process`] or [`docker`] |
//! | archives | `S3_BUCKET` | a bucket, else files in the data directory ([`archives`]) |

mod archives;
mod docker;
mod notices;
mod process;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use codehub_archive::ObjectArchives;
use codehub_coordinator::Backends;
use codehub_domain::{ArchiveKey, Truth};
use codehub_runtime::{
    Instances,
    archives::Archives,
    ide::{self, ResolvedIde},
    volumes::Volumes,
};
use codehub_store::{
    BackendPart, MigrationStatus, PostgresStore, SqliteStore, Store, StoreError,
    bus::{Bus, MemoryBus, RedisBus},
};
use uuid::Uuid;

use crate::config::{Config, RuntimeKind};

/// Names this deployment: what carries it is ours, what does not is not.
const DEPLOYMENT_SETTING: &str = "deployment_id";

/// Where this program is, to be started again as something else.
pub fn own_path() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this program cannot be found on the disk any more")
}

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
    let exe = own_path()?;
    ide::resolve(runtime.ide, &runtime.ide_command, &runtime.ide_health_path, &exe)
        .map_err(anyhow::Error::msg)
}

/// The archives alone.
///
/// # Errors
/// They cannot be opened; the message says what to do.
pub(crate) async fn open_archives(config: &Config, store: &dyn Store) -> anyhow::Result<ObjectArchives> {
    let deployment = deployment(store).await?;
    archives::open(config, &deployment, KnownHomes::read(store).await?).await
}

/// Opens the archives where there is no database.
///
/// # Errors
/// They cannot be opened; the message says what to do.
pub(crate) fn open_archives_alone(config: &Config) -> anyhow::Result<ObjectArchives> {
    archives::open_alone(config)
}

/// What tells this deployment from every other; made at its first start.
///
/// # Errors
/// The store does not answer.
pub(crate) async fn deployment(store: &dyn Store) -> Result<String, StoreError> {
    store.setting_init(DEPLOYMENT_SETTING, &Uuid::new_v4().to_string()).await
}

/// Builds everything the configuration asks for.
///
/// # Errors
/// Something cannot be opened; the message says what to do.
pub async fn build_backends(config: &Config) -> anyhow::Result<Backends> {
    let store = open_store(config).await?;
    let deployment = deployment(&*store).await?;
    let known = KnownHomes::read(&*store).await?;

    let bus = open_bus(config, &deployment)?;
    let RuntimeBackends { instances, volumes, archives } = match config.runtime.kind {
        RuntimeKind::Process => process::open(config, &deployment, known).await?,
        RuntimeKind::Docker => docker::open(config, &deployment, known).await?,
    };
    if let Some(notices) = instances.watch() {
        tokio::spawn(notices::pass_on(notices, Arc::clone(&bus)));
    }
    let name = config.runtime.name.clone();
    let backends = Backends { store, bus, instances, volumes, archives, name };
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

/// How much longer than a flush everybody gets to tell a Redis that has forgotten.
const SETTLE_MARGIN: Duration = Duration::from_secs(10);

fn open_bus(config: &Config, deployment: &str) -> anyhow::Result<Arc<dyn Bus>> {
    let Some(url) = &config.redis.url else { return Ok(Arc::new(MemoryBus::new())) };
    let settle = config.activity.flush_interval + SETTLE_MARGIN;
    Ok(Arc::new(RedisBus::open(url.reveal(), &config.redis.prefixes, deployment, settle)?))
}

/// The ports that depend on the runtime.
struct RuntimeBackends {
    instances: Arc<dyn Instances>,
    volumes: Arc<dyn Volumes>,
    archives: Arc<dyn Archives>,
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
