//! The one place where ports meet their implementations.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use codehub_adapters::store::{Store, sqlite::SqliteStore};

use crate::{app::Backends, config::Config};

/// Where the database is.
pub fn database_path(config: &Config) -> PathBuf {
    config.data_dir.join("codehub.db")
}

/// Opens the database and brings its schema up to date.
///
/// # Errors
/// It cannot be opened; the message says what to do.
pub async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let path = database_path(config);
    let store = SqliteStore::open(&path).await;
    let store = store.with_context(|| format!("the database {} cannot be opened", path.display()))?;
    Ok(Arc::new(store))
}

/// Builds everything the configuration asks for.
///
/// # Errors
/// Something cannot be opened; the message says what to do.
pub async fn build_backends(config: &Config) -> anyhow::Result<Backends> {
    let _store = open_store(config).await?;
    anyhow::bail!("this build has no runtime to run workspaces in")
}
