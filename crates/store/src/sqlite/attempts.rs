//! Failed logins, per account-and-address and per address.

use codehub_domain::Timestamp;
use sqlx::sqlite::SqliteRow;

use super::{Result, SqliteStore, now, row};
use crate::Attempts;

pub(super) async fn get(store: &SqliteStore, key: &str) -> Result<Option<Attempts>> {
    let found = sqlx::query(concat!(
        "SELECT failures, last_failure_at FROM login_attempts WHERE key = ?1 AND forget_at > ",
        now!()
    ))
    .bind(key)
    .fetch_optional(&store.readers)
    .await?;
    found.as_ref().map(attempts).transpose()
}

pub(super) async fn fail(store: &SqliteStore, key: &str, forget_after_seconds: u32) -> Result<Attempts> {
    let mut write = store.write().await?;
    let now = write.now;
    let counted = sqlx::query(
        "INSERT INTO login_attempts (key, failures, last_failure_at, forget_at) VALUES (?1, 1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET
             failures = CASE WHEN last_failure_at + ?4 <= ?2 OR forget_at <= ?2 THEN 1
                             ELSE min(failures + 1, 4294967295) END,
             last_failure_at = excluded.last_failure_at,
             forget_at = excluded.forget_at
         RETURNING failures, last_failure_at",
    )
    .bind(key)
    .bind(now)
    .bind(row::later(now, forget_after_seconds))
    .bind(i64::from(forget_after_seconds) * 1_000_000)
    .fetch_one(write.connection())
    .await?;
    write.commit().await?;
    attempts(&counted)
}

pub(super) async fn clear(store: &SqliteStore, key: &str) -> Result<()> {
    let mut write = store.write().await?;
    sqlx::query("DELETE FROM login_attempts WHERE key = ?1").bind(key).execute(write.connection()).await?;
    write.commit().await
}

fn attempts(found: &SqliteRow) -> Result<Attempts> {
    let last_failure: Timestamp = row::at(found, "last_failure_at")?;
    Ok(Attempts { failures: row::number(found, "failures")?, last_failure })
}
