//! The schema and its versions. Migrations are part of the binary.

use std::path::Path;

use sqlx::{
    Connection, Row, SqliteConnection, SqlitePool,
    migrate::{MigrateError, Migrator},
};

use super::{Result, options};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// How a database's schema compares with what this version of CodeHub knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Versions that are done.
    pub applied: Vec<i64>,
    /// Known here and not done yet; opening the store does them.
    pub pending: Vec<PendingMigration>,
    /// Done, but unknown here: a newer version has written this database, and opening it is refused.
    pub unknown: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMigration {
    pub version: i64,
    pub description: String,
}

/// Another process may be doing the same at this moment. Each migration is one transaction, so whoever
/// comes second fails on what is already there, and finds it done when looking again; the two may meet
/// once at each.
pub(super) async fn run(writer: &SqlitePool) -> Result<()> {
    for _ in MIGRATIONS.iter() {
        match MIGRATIONS.run(writer).await {
            Err(MigrateError::ExecuteMigration(..)) => {}
            other => return Ok(other?),
        }
    }
    Ok(MIGRATIONS.run(writer).await?)
}

pub(super) async fn status(path: &Path) -> Result<MigrationStatus> {
    let done = if path.exists() { applied(path).await? } else { Vec::new() };
    let known = |version: &i64| MIGRATIONS.iter().any(|migration| migration.version == *version);
    let (applied, unknown) = done.into_iter().partition::<Vec<_>, _>(known);
    let pending = MIGRATIONS
        .iter()
        .filter(|migration| !applied.contains(&migration.version))
        .map(|migration| PendingMigration {
            version: migration.version,
            description: migration.description.to_string(),
        })
        .collect();
    Ok(MigrationStatus { applied, pending, unknown })
}

async fn applied(path: &Path) -> Result<Vec<i64>> {
    let mut connection = SqliteConnection::connect_with(&options(path).pragma("query_only", "ON")).await?;
    let table = sqlx::query("SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations'")
        .fetch_optional(&mut connection)
        .await?;
    let mut versions = Vec::new();
    if table.is_some() {
        let rows = sqlx::query("SELECT version FROM _sqlx_migrations WHERE success ORDER BY version")
            .fetch_all(&mut connection)
            .await?;
        for row in rows {
            versions.push(row.try_get("version")?);
        }
    }
    connection.close().await?;
    Ok(versions)
}
