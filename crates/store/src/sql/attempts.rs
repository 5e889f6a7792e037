//! Failed logins, per account-and-address and per address.

use super::{SqlStore, SqlWrite, Statements, args};
use crate::{
    Attempts, Result,
    row::{self, SqlRow, later},
};

pub(super) async fn get<S: SqlStore>(store: &S, key: &str) -> Result<Option<Attempts>> {
    let rows = store
        .select(
            "SELECT failures, last_failure_at FROM login_attempts
             WHERE key = $1 AND forget_at > codehub_now()",
            args![key],
        )
        .await?;
    rows.first().map(attempts).transpose()
}

pub(super) async fn fail<S: SqlStore>(store: &S, key: &str, forget_after_seconds: u32) -> Result<Attempts> {
    let mut write = store.write().await?;
    let now = write.now().await?;
    let counted = write
        .one(
            "INSERT INTO login_attempts (key, failures, last_failure_at, forget_at) VALUES ($1, 1, $2, $3)
             ON CONFLICT (key) DO UPDATE SET
                 failures = CASE WHEN login_attempts.last_failure_at + $4 <= $2
                                      OR login_attempts.forget_at <= $2
                                 THEN 1 ELSE least(login_attempts.failures + 1, 4294967295) END,
                 last_failure_at = excluded.last_failure_at,
                 forget_at = excluded.forget_at
             RETURNING failures, last_failure_at",
            args![key, now, later(now, forget_after_seconds), i64::from(forget_after_seconds) * 1_000_000],
        )
        .await?;
    write.commit().await?;
    attempts(&counted)
}

pub(super) async fn clear<S: SqlStore>(store: &S, key: &str) -> Result<()> {
    let mut write = store.write().await?;
    write.run("DELETE FROM login_attempts WHERE key = $1", args![key]).await?;
    write.commit().await
}

fn attempts(found: &impl SqlRow) -> Result<Attempts> {
    Ok(Attempts {
        failures: row::number(found, "failures")?,
        last_failure: row::at(found, "last_failure_at")?,
    })
}
