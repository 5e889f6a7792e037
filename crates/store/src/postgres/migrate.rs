//! The schema and its versions. Migrations are part of the binary, and run once however many processes
//! start: the migrator takes an advisory lock, and whoever had to wait for it finds them done.

use sqlx::{
    Connection, PgConnection, Row,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use super::Result;
use crate::MigrationStatus;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// On a connection of its own: migrations may take longer than any statement of ours.
pub(super) async fn run(options: &PgConnectOptions) -> Result<()> {
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    let done = MIGRATIONS.run(&pool).await;
    pool.close().await;
    Ok(done?)
}

pub(super) async fn status(options: &PgConnectOptions) -> Result<MigrationStatus> {
    let mut connection = PgConnection::connect_with(options).await?;
    let table: Option<String> =
        sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations')::TEXT").fetch_one(&mut connection).await?;
    let mut done = Vec::new();
    if table.is_some() {
        let rows = sqlx::query("SELECT version FROM _sqlx_migrations WHERE success ORDER BY version")
            .fetch_all(&mut connection)
            .await?;
        for row in rows {
            done.push(row.try_get("version")?);
        }
    }
    connection.close().await?;
    Ok(MigrationStatus::of(&MIGRATIONS, done))
}
