//! Small facts of the deployment, by name.

use super::{PostgresStore, Result};

pub(super) async fn get(store: &PostgresStore, name: &str) -> Result<Option<String>> {
    Ok(sqlx::query_scalar("SELECT value FROM settings WHERE name = $1")
        .bind(name)
        .fetch_optional(&store.pool)
        .await?)
}

pub(super) async fn put(store: &PostgresStore, name: &str, value: &str) -> Result<()> {
    sqlx::query(
        "INSERT INTO settings (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(&store.pool)
    .await?;
    Ok(())
}

pub(super) async fn init(store: &PostgresStore, name: &str, value: &str) -> Result<String> {
    let mut write = store.write().await?;
    sqlx::query("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
        .bind(name)
        .bind(value)
        .execute(write.connection())
        .await?;
    // A statement of its own: it sees what somebody else committed meanwhile.
    let kept = sqlx::query_scalar("SELECT value FROM settings WHERE name = $1")
        .bind(name)
        .fetch_one(write.connection())
        .await?;
    write.commit().await?;
    Ok(kept)
}

pub(super) async fn delete(store: &PostgresStore, name: &str) -> Result<()> {
    sqlx::query("DELETE FROM settings WHERE name = $1").bind(name).execute(&store.pool).await?;
    Ok(())
}
