//! The one place where ports meet their implementations.

use std::sync::Arc;

use codehub_adapters::store::Store;

use crate::{app::Backends, config::Config};

/// Opens the database and brings its schema up to date.
///
/// # Errors
/// It cannot be opened; the message says what to do.
pub async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let _ = config;
    anyhow::bail!("this build has no store")
}

/// Builds everything the configuration asks for.
///
/// # Errors
/// Something cannot be opened; the message says what to do.
pub async fn build_backends(config: &Config) -> anyhow::Result<Backends> {
    let store = open_store(config).await?;
    let _ = store;
    anyhow::bail!("this build has no runtime")
}
