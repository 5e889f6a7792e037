//! Transactions. What a write changes is told by the triggers when it commits.

use std::{borrow::Cow, time::Duration};

use async_trait::async_trait;
use codehub_domain::{
    Epoch, Timestamp,
    audit::{AuditAction, AuditOutcome},
};
use sqlx::{AssertSqlSafe, PgConnection, PgExecutor, Postgres, Transaction, postgres::PgRow};

use super::{METHOD_TIMEOUT, PostgresStore, Result, row::arguments};
use crate::{
    Change, row,
    sql::{Lock, SqlStore, SqlWrite, Statements, Value, args, count_audited},
};

/// A transaction; one that only reads is a consistent view. Dropped without a commit, nothing has happened.
pub struct InTransaction(Transaction<'static, Postgres>, Vec<(AuditAction, AuditOutcome)>);

async fn all(on: impl PgExecutor<'_>, sql: Cow<'static, str>, args: Vec<Value>) -> Result<Vec<PgRow>> {
    Ok(sqlx::query_with(AssertSqlSafe(sql.into_owned()), arguments(args)?).fetch_all(on).await?)
}

#[async_trait]
impl SqlStore for PostgresStore {
    type Row = PgRow;
    type Write = InTransaction;
    type Read = InTransaction;

    const METHOD_TIMEOUT: Option<Duration> = Some(METHOD_TIMEOUT);

    async fn write(&self) -> Result<InTransaction> {
        Ok(InTransaction(self.pool.begin().await?, Vec::new()))
    }

    async fn read(&self) -> Result<InTransaction> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        Ok(InTransaction(self.pool.begin_with(begin).await?, Vec::new()))
    }

    async fn select(&self, sql: &'static str, args: Vec<Value>) -> Result<Vec<PgRow>> {
        all(&self.pool, sql.into(), args).await
    }

    /// Who may take it is decided by a lock ([`super::lease`]).
    async fn take_epoch(&self, holder: &str) -> Result<Epoch> {
        take_epoch_on(&mut *self.pool.acquire().await?, holder).await
    }
}

/// Waits for writes of the leader before: theirs or ours, never both.
pub(super) async fn take_epoch_on(connection: &mut PgConnection, holder: &str) -> Result<Epoch> {
    let epoch: i64 = sqlx::query_scalar(
        "WITH beat AS (UPDATE leader_heartbeat SET beat_at = codehub_now())
         UPDATE leader SET epoch = epoch + 1, holder = $1, taken_at = codehub_now() RETURNING epoch",
    )
    .bind(holder)
    .fetch_one(connection)
    .await?;
    Ok(Epoch(epoch))
}

#[async_trait]
impl Statements for InTransaction {
    type Row = PgRow;

    async fn all(&mut self, sql: Cow<'static, str>, args: Vec<Value>) -> Result<Vec<PgRow>> {
        all(&mut *self.0, sql, args).await
    }

    async fn run(&mut self, sql: &'static str, args: Vec<Value>) -> Result<u64> {
        let done = sqlx::query_with(sql, arguments(args)?).execute(&mut *self.0).await?;
        Ok(done.rows_affected())
    }
}

#[async_trait]
impl SqlWrite for InTransaction {
    async fn now(&mut self) -> Result<Timestamp> {
        row::at(&self.one("SELECT codehub_now() AS now", args![]).await?, "now")
    }

    async fn lock(&mut self, lock: Lock) -> Result<()> {
        let (class, id) = lock.key();
        sqlx::query("SELECT pg_advisory_xact_lock($1, $2)")
            .bind(class)
            .bind(id)
            .execute(&mut *self.0)
            .await?;
        Ok(())
    }

    /// The triggers tell it.
    fn changed(&mut self, _change: Change) {}

    async fn tell(&mut self, change: Change) -> Result<()> {
        let (channel, ids) = match change {
            Change::Updated { workspace, owner } => ("ws_sse", format!("{workspace} {owner}")),
            Change::Deleted { workspace, owner } => ("ws_deleted", format!("{workspace} {owner}")),
            Change::Wake => ("ws_wake", String::new()),
            Change::Access { user } => ("user_access", user.to_string()),
            // Every listener finds out by itself.
            Change::Resync => return Ok(()),
        };
        self.run("SELECT pg_notify($1, $2)", args![channel, ids]).await?;
        Ok(())
    }

    fn audited(&mut self, action: AuditAction, outcome: AuditOutcome) {
        self.1.push((action, outcome));
    }

    async fn commit(self) -> Result<()> {
        self.0.commit().await?;
        count_audited(&self.1);
        Ok(())
    }
}

#[cfg(test)]
impl InTransaction {
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}
