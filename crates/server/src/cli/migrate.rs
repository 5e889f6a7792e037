//! `codehub migrate`: the schema, brought up to date and told about.

use crate::{backends, config::Config};

pub(super) async fn run(config: &Config) -> anyhow::Result<()> {
    let (name, before) = backends::migration_status(config).await?;
    backends::open_store(config).await?;
    if before.pending.is_empty() {
        println!("{name} is up to date ({} migrations)", before.applied.len());
    }
    for migration in before.pending {
        println!("applied {:04} {}", migration.version, migration.description);
    }
    Ok(())
}
