//! A write transaction: its turn, its time, and what to announce once it is committed.

use codehub_domain::{Epoch, UserId, WorkspaceId};
use sqlx::{Sqlite, SqliteConnection, Transaction};
use tokio::sync::{OwnedMutexGuard, broadcast};

use super::{Change, Result, SqliteStore, StoreError, now};

/// One write transaction. Dropped without [`Write::commit`], nothing has happened.
pub(super) struct Write {
    // Rolled back (on drop) before the turn passes on.
    transaction: Transaction<'static, Sqlite>,
    turn: OwnedMutexGuard<()>,
    /// The moment of everything in this transaction, by the database's clock.
    pub(super) now: i64,
    changes: Vec<Change>,
    sender: broadcast::Sender<Change>,
}

impl SqliteStore {
    /// Waits for its turn and takes the write lock.
    pub(super) async fn write(&self) -> Result<Write> {
        let turn = self.turn.clone().lock_owned().await;
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let now = sqlx::query_scalar(concat!("SELECT ", now!())).fetch_one(&mut *transaction).await?;
        Ok(Write { transaction, turn, now, changes: Vec::new(), sender: self.changes.clone() })
    }

    /// A consistent view for more than one statement.
    pub(super) async fn read(&self) -> Result<Transaction<'static, Sqlite>> {
        Ok(self.readers.begin().await?)
    }
}

impl Write {
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.transaction
    }

    /// Whether `epoch` still leads. Nobody can take the lease before this transaction ends.
    pub(super) async fn leads(&mut self, epoch: Epoch) -> Result<bool> {
        let current: i64 =
            sqlx::query_scalar("SELECT epoch FROM leader").fetch_one(self.connection()).await?;
        Ok(current == epoch.0)
    }

    pub(super) fn updated(&mut self, workspace: WorkspaceId, owner: UserId) {
        self.announce(Change::Updated { workspace, owner });
    }

    pub(super) fn deleted(&mut self, workspace: WorkspaceId, owner: UserId) {
        self.announce(Change::Deleted { workspace, owner });
    }

    pub(super) fn wake(&mut self) {
        self.announce(Change::Wake);
    }

    pub(super) fn access(&mut self, user: UserId) {
        self.announce(Change::Access { user });
    }

    /// Once: it is one transaction.
    fn announce(&mut self, change: Change) {
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    /// Commits, then announces, then passes the turn on: announcements are in the order of commits. It
    /// runs as a task of its own, because a caller that goes away must not leave a commit unannounced.
    pub(super) async fn commit(self) -> Result<()> {
        let Self { transaction, turn, changes, sender, now: _ } = self;
        let commit = tokio::spawn(async move {
            transaction.commit().await?;
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
