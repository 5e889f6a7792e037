//! The schema and its versions. Migrations are part of the binary.

use std::path::Path;

use sqlx::{
    Connection, Row, SqliteConnection, SqlitePool,
    migrate::{MigrateError, Migrator},
};

use super::{MigrationStatus, Result, options};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

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
    Ok(MigrationStatus::of(&MIGRATIONS, done))
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
