//! A write transaction. What it changes is told by the triggers when it commits.

use codehub_domain::{Epoch, UserId, WorkspaceId};
use sqlx::{PgConnection, Postgres, Transaction};

use super::{Lock, PostgresStore, Result};

/// One write transaction. Dropped without [`Write::commit`], nothing has happened.
pub(super) struct Write(Transaction<'static, Postgres>);

impl PostgresStore {
    pub(super) async fn write(&self) -> Result<Write> {
        Ok(Write(self.pool.begin().await?))
    }

    /// A consistent view for more than one statement.
    pub(super) async fn read(&self) -> Result<Transaction<'static, Postgres>> {
        Ok(self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
    }
}

impl Write {
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.0
    }

    /// The database's clock, now. Ask after the locks: what was waited for is in the past.
    pub(super) async fn now(&mut self) -> Result<i64> {
        Ok(sqlx::query_scalar("SELECT codehub_now()").fetch_one(self.connection()).await?)
    }

    /// Whether `epoch` still leads. Nobody can take the lease before this transaction ends.
    pub(super) async fn leads(&mut self, epoch: Epoch) -> Result<bool> {
        let current: i64 =
            sqlx::query_scalar("SELECT epoch FROM leader FOR SHARE").fetch_one(self.connection()).await?;
        Ok(current == epoch.0)
    }

    /// Waits until no other transaction holds this lock; held until this one ends.
    pub(super) async fn lock(&mut self, lock: Lock) -> Result<()> {
        let (class, id) = lock.key();
        sqlx::query("SELECT pg_advisory_xact_lock($1, $2)")
            .bind(class)
            .bind(id)
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// Tells a change of a workspace that none of its columns shows.
    pub(super) async fn updated(&mut self, workspace: WorkspaceId, owner: UserId) -> Result<()> {
        sqlx::query("SELECT pg_notify('ws_sse', $1)")
            .bind(format!("{workspace} {owner}"))
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// Wakes the controller where no column says that it should look.
    pub(super) async fn wake(&mut self) -> Result<()> {
        sqlx::query("SELECT pg_notify('ws_wake', '')").execute(self.connection()).await?;
        Ok(())
    }

    pub(super) async fn commit(self) -> Result<()> {
        Ok(self.0.commit().await?)
    }
}
