//! `codehub migrate`: the schema, brought up to date and told about.

use codehub_adapters::store::sqlite::SqliteStore;

use crate::{backends, config::Config};

pub(super) async fn run(config: &Config) -> anyhow::Result<()> {
    let path = backends::database_path(config);
    let before = SqliteStore::migrate_status(&path).await?;
    backends::open_store(config).await?;
    if before.pending.is_empty() {
        println!("{} is up to date ({} migrations)", path.display(), before.applied.len());
    }
    for migration in before.pending {
        println!("applied {:04} {}", migration.version, migration.description);
    }
    Ok(())
}
