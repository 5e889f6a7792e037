//! Small facts of the deployment, by name.

use super::{Result, SqliteStore};

pub(super) async fn get(store: &SqliteStore, name: &str) -> Result<Option<String>> {
    Ok(sqlx::query_scalar("SELECT value FROM settings WHERE name = ?1")
        .bind(name)
        .fetch_optional(&store.readers)
        .await?)
}

pub(super) async fn put(store: &SqliteStore, name: &str, value: &str) -> Result<()> {
    let mut write = store.write().await?;
    sqlx::query(
        "INSERT INTO settings (name, value) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(write.connection())
    .await?;
    write.commit().await
}

pub(super) async fn init(store: &SqliteStore, name: &str, value: &str) -> Result<String> {
    let mut write = store.write().await?;
    sqlx::query("INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING")
        .bind(name)
        .bind(value)
        .execute(write.connection())
        .await?;
    let kept = sqlx::query_scalar("SELECT value FROM settings WHERE name = ?1")
        .bind(name)
        .fetch_one(write.connection())
        .await?;
    write.commit().await?;
    Ok(kept)
}

pub(super) async fn delete(store: &SqliteStore, name: &str) -> Result<()> {
    let mut write = store.write().await?;
    sqlx::query("DELETE FROM settings WHERE name = ?1").bind(name).execute(write.connection()).await?;
    write.commit().await
}
