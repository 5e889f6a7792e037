//! The schema and its versions. Migrations are part of the binary.

use std::{path::Path, time::Duration};

use sqlx::{
    Connection, Row, SqliteConnection, SqlitePool,
    migrate::{MigrateError, Migrator},
    sqlite::SqliteSynchronous,
};

use super::{MigrationStatus, Result, options, pool};

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// How long somebody else's migration is waited for: a table that is rebuilt takes its time.
const SOMEBODY_ELSES: Duration = Duration::from_secs(600);

/// Another process may be doing the same at this moment. Each migration is one transaction together with its
/// row in the list of those done. Whoever comes second fails on what is already there, or, where a migration can
/// be repeated, on that row; it finds the work done when looking again. The two may meet once at each.
///
/// On a connection of its own that does not enforce foreign keys: a table that is rebuilt is dropped while
/// others refer to it, and SQLite would delete their rows or refuse. Enforcement cannot be changed inside a
/// transaction, and outside of one a crash would leave half a schema. A migration that rebuilds checks
/// itself, before it commits, that every reference still has its row.
pub(super) async fn run(path: &Path) -> Result<()> {
    let options =
        options(path).foreign_keys(false).synchronous(SqliteSynchronous::Full).busy_timeout(SOMEBODY_ELSES);
    let connection = pool(1).connect_with(options).await?;
    let done = until_done(&connection).await;
    connection.close().await;
    done
}

async fn until_done(connection: &SqlitePool) -> Result<()> {
    for _ in MIGRATIONS.iter() {
        match MIGRATIONS.run(connection).await {
            Err(MigrateError::ExecuteMigration(..) | MigrateError::Execute(_)) => {}
            other => return Ok(other?),
        }
    }
    Ok(MIGRATIONS.run(connection).await?)
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
