//! Transactions: a write has its turn, its time, and what to announce once it is committed.

use std::borrow::Cow;

use async_trait::async_trait;
use codehub_domain::{
    Epoch, Timestamp,
    audit::{AuditAction, AuditOutcome},
};
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection, SqliteExecutor, Transaction, sqlite::SqliteRow};
use tokio::sync::{OwnedMutexGuard, broadcast};

use super::{Change, Result, SqliteStore, StoreError, row::arguments, spelling::spelled};
use crate::{
    row,
    sql::{Lock, SqlStore, SqlWrite, Statements, Value, args, count_audited},
};

/// One write transaction. Dropped without a commit, nothing has happened.
pub struct Write {
    // Rolled back (on drop) before the turn passes on.
    transaction: Transaction<'static, Sqlite>,
    turn: OwnedMutexGuard<()>,
    /// The moment of everything in this transaction, by the database's clock.
    now: Timestamp,
    changes: Vec<Change>,
    audited: Vec<(AuditAction, AuditOutcome)>,
    sender: broadcast::Sender<Change>,
}

/// A consistent view for more than one statement.
pub struct Read(Transaction<'static, Sqlite>);

async fn all(on: impl SqliteExecutor<'_>, sql: &str, args: Vec<Value>) -> Result<Vec<SqliteRow>> {
    Ok(sqlx::query_with(AssertSqlSafe(spelled(sql)), arguments(args)?).fetch_all(on).await?)
}

#[async_trait]
impl SqlStore for SqliteStore {
    type Row = SqliteRow;
    type Write = Write;
    type Read = Read;

    const METHOD_TIMEOUT: Option<std::time::Duration> = None;

    /// Waits for its turn and takes the write lock.
    async fn write(&self) -> Result<Write> {
        let turn = self.turn.clone().lock_owned().await;
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let clock = all(&mut *transaction, "SELECT codehub_now() AS now", args![]).await?;
        let silent = || StoreError::Failed("the clock does not answer".into());
        let now = row::at(clock.first().ok_or_else(silent)?, "now")?;
        Ok(Write {
            transaction,
            turn,
            now,
            changes: Vec::new(),
            audited: Vec::new(),
            sender: self.changes.clone(),
        })
    }

    async fn read(&self) -> Result<Read> {
        Ok(Read(self.readers.begin().await?))
    }

    async fn select(&self, sql: &'static str, args: Vec<Value>) -> Result<Vec<SqliteRow>> {
        all(&self.readers, sql, args).await
    }

    /// Who may ask for it is decided elsewhere: by a file lock.
    async fn take_epoch(&self, holder: &str) -> Result<Epoch> {
        use crate::row::SqlRow;
        let mut write = self.write().await?;
        let taking = "UPDATE leader SET epoch = epoch + 1, holder = $1, taken_at = $2 RETURNING epoch";
        let now = write.now;
        let epoch = Epoch(write.one(taking, args![holder, now]).await?.int("epoch")?);
        write.commit().await?;
        Ok(epoch)
    }
}

#[async_trait]
impl Statements for Read {
    type Row = SqliteRow;

    async fn all(&mut self, sql: Cow<'static, str>, args: Vec<Value>) -> Result<Vec<SqliteRow>> {
        all(&mut *self.0, &sql, args).await
    }

    async fn run(&mut self, sql: &'static str, args: Vec<Value>) -> Result<u64> {
        run(&mut self.0, sql, args).await
    }
}

#[async_trait]
impl Statements for Write {
    type Row = SqliteRow;

    async fn all(&mut self, sql: Cow<'static, str>, args: Vec<Value>) -> Result<Vec<SqliteRow>> {
        all(&mut *self.transaction, &sql, args).await
    }

    async fn run(&mut self, sql: &'static str, args: Vec<Value>) -> Result<u64> {
        run(&mut self.transaction, sql, args).await
    }
}

async fn run(on: &mut SqliteConnection, sql: &str, args: Vec<Value>) -> Result<u64> {
    let done = sqlx::query_with(AssertSqlSafe(spelled(sql)), arguments(args)?).execute(on).await?;
    Ok(done.rows_affected())
}

#[async_trait]
impl SqlWrite for Write {
    async fn now(&mut self) -> Result<Timestamp> {
        Ok(self.now)
    }

    /// There is one writer.
    async fn lock(&mut self, _lock: Lock) -> Result<()> {
        Ok(())
    }

    /// Once: it is one transaction.
    fn changed(&mut self, change: Change) {
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    async fn tell(&mut self, change: Change) -> Result<()> {
        self.changed(change);
        Ok(())
    }

    fn audited(&mut self, action: AuditAction, outcome: AuditOutcome) {
        self.audited.push((action, outcome));
    }

    /// Commits, then announces, then passes the turn on: announcements are in the order of commits. It
    /// runs as a task of its own, because a caller that goes away must not leave a commit unannounced.
    async fn commit(self) -> Result<()> {
        let Self { transaction, turn, changes, audited, sender, now: _ } = self;
        let commit = tokio::spawn(async move {
            transaction.commit().await?;
            count_audited(&audited);
            for change in changes {
                // Nobody listening is fine.
                let _ = sender.send(change);
            }
            drop(turn);
            Ok::<(), StoreError>(())
        });
        commit
            .await
            .map_err(|stopped| StoreError::Unreachable(format!("the commit was cut off: {stopped}")))?
    }
}

#[cfg(test)]
impl Write {
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.transaction
    }
}
