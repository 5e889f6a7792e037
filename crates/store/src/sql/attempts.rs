//! Tries at passwords, counted under the keys of [`Allowance`]s.

use super::{SqlStore, SqlWrite, Statements, args};
use crate::{
    Allowance, Attempts, Result, Tried,
    row::{self, SqlRow, later},
};

const GET: &str = "SELECT failures, last_failure_at FROM login_attempts
     WHERE key = $1 AND forget_at > codehub_now()";

pub(super) async fn get<S: SqlStore>(store: &S, key: &str) -> Result<Option<Attempts>> {
    store.select(GET, args![key]).await?.first().map(attempts).transpose()
}

pub(super) async fn check<S: SqlStore>(store: &S, allowances: &[Allowance]) -> Result<Tried> {
    let mut read = store.read().await?;
    let mut waits = Vec::new();
    for (n, allowance) in allowances.iter().enumerate() {
        let found = read.first(
            "SELECT failures, last_failure_at, codehub_now() AS now FROM login_attempts
             WHERE key = $1 AND forget_at > codehub_now()",
            args![&allowance.key],
        );
        if let Some(found) = found.await? {
            waits.push((n, allowance.retry_after(Some(attempts(&found)?), row::at(&found, "now")?)));
        }
    }
    Ok(Tried::of(waits))
}

pub(super) async fn count<S: SqlStore>(store: &S, allowances: &[Allowance]) -> Result<Tried> {
    let mut write = store.write().await?;
    // Rows that are there are locked before they are judged; always in the same order, so that two who count at once
    // do not each wait for the other.
    let mut order: Vec<usize> = (0..allowances.len()).collect();
    order.sort_by_key(|n| &allowances[*n].key);
    let mut waits = Vec::new();
    for n in &order {
        let allowance = &allowances[*n];
        // A row that is not there yet is made, so that there is one to lock. It counts nothing, and ends with the
        // transaction where nothing is counted.
        let now = write.now().await?;
        let found = write
            .one(
                "INSERT INTO login_attempts (key, failures, last_failure_at, forget_at) VALUES ($1, 1, $2, $2)
                 ON CONFLICT (key) DO UPDATE SET key = excluded.key
                 RETURNING failures, last_failure_at, forget_at",
                args![&allowance.key, now],
            )
            .await?;
        let now = write.now().await?;
        let counted = (row::at(&found, "forget_at")? > now).then(|| attempts(&found)).transpose()?;
        waits.push((*n, allowance.retry_after(counted, now)));
    }
    if let wait @ Tried::Wait { .. } = Tried::of(waits) {
        return Ok(wait);
    }
    let now = write.now().await?;
    for n in order {
        let Allowance { key, forget_after_seconds, .. } = &allowances[n];
        write
            .run(
                "UPDATE login_attempts SET
                     failures = CASE WHEN forget_at <= $2 THEN 1 ELSE least(failures + 1, 4294967295) END,
                     last_failure_at = $2, forget_at = $3
                 WHERE key = $1",
                args![key, now, later(now, *forget_after_seconds)],
            )
            .await?;
    }
    write.commit().await?;
    Ok(Tried::Counted)
}

pub(super) async fn take_back<S: SqlStore>(store: &S, key: &str, tries: u32) -> Result<()> {
    let mut write = store.write().await?;
    write.run("DELETE FROM login_attempts WHERE key = $1 AND failures <= $2", args![key, tries]).await?;
    write.run("UPDATE login_attempts SET failures = failures - $2 WHERE key = $1", args![key, tries]).await?;
    write.commit().await
}

pub(super) async fn clear<S: SqlStore>(store: &S, key: &str) -> Result<()> {
    let mut write = store.write().await?;
    forget(&mut write, key).await?;
    write.commit().await
}

pub(super) async fn forget(write: &mut impl SqlWrite, key: &str) -> Result<()> {
    write.run("DELETE FROM login_attempts WHERE key = $1", args![key]).await.map(|_| ())
}

fn attempts(found: &impl SqlRow) -> Result<Attempts> {
    Ok(Attempts {
        failures: row::number(found, "failures")?,
        last_failure: row::at(found, "last_failure_at")?,
    })
}
