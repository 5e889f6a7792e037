//! The epoch, which makes a late loser harmless, and which processes serve: each notes itself every few
//! seconds; one that has been silent is not shown, and forgotten after a day.

use std::time::Duration;

use async_trait::async_trait;
use codehub_domain::{Epoch, Timestamp};

use super::{SqlStore, SqlWrite, Statements, args, timed};
use crate::{
    Clock, LeaderSeen, Leadership, REPLICA_FORGOTTEN_AFTER, ReplicaNote, ReplicaSeen, Result,
    row::{self, SqlRow},
};

#[async_trait]
impl<S: SqlStore> Clock for S {
    async fn now(&self) -> Result<Timestamp> {
        timed::<S, _>("now", self.clock()).await
    }
}

#[async_trait]
impl<S: SqlStore> Leadership for S {
    async fn epoch_take(&self, holder: &str) -> Result<Epoch> {
        timed::<S, _>("epoch_take", self.take_epoch(holder)).await
    }

    async fn epoch_is_current(&self, epoch: Epoch) -> Result<bool> {
        timed::<S, _>("epoch_is_current", async {
            let found = self.select("SELECT epoch FROM leader", args![]).await?;
            found.first().map_or(Ok(false), |row| Ok(row.int("epoch")? == epoch.0))
        })
        .await
    }

    async fn leader_seen(&self) -> Result<Option<LeaderSeen>> {
        timed::<S, _>("leader_seen", async {
            let sql = "SELECT epoch, holder, taken_at FROM leader WHERE epoch > 0";
            self.select(sql, args![]).await?.first().map(row::leader).transpose()
        })
        .await
    }

    async fn replica_note(&self, note: &ReplicaNote) -> Result<()> {
        timed::<S, _>("replica_note", async {
            let mut write = self.write().await?;
            write
                .run(
                    "INSERT INTO replicas (name, version, role, started_at, seen_at)
                     VALUES ($1, $2, $3, codehub_now(), codehub_now())
                     ON CONFLICT (name) DO UPDATE SET
                         version = excluded.version, role = excluded.role, seen_at = excluded.seen_at",
                    args![&note.name, &note.version, &note.role],
                )
                .await?;
            write
                .run(
                    "DELETE FROM replicas WHERE seen_at < codehub_now() - $1",
                    args![micros(REPLICA_FORGOTTEN_AFTER)],
                )
                .await?;
            write.commit().await
        })
        .await
    }

    /// Never back in time: answers may come late.
    async fn replica_flushed(&self, name: &str, ago: Duration) -> Result<()> {
        timed::<S, _>("replica_flushed", async {
            let mut write = self.write().await?;
            write
                .run(
                    "UPDATE replicas SET flushed_at = greatest(coalesce(flushed_at, 0), codehub_now() - $2)
                     WHERE name = $1",
                    args![name, micros(ago)],
                )
                .await?;
            write.commit().await
        })
        .await
    }

    async fn replica_leave(&self, name: &str) -> Result<()> {
        timed::<S, _>("replica_leave", async {
            let mut write = self.write().await?;
            write.run("DELETE FROM replicas WHERE name = $1", args![name]).await?;
            write.commit().await
        })
        .await
    }

    async fn replicas(&self) -> Result<(Timestamp, Vec<ReplicaSeen>)> {
        timed::<S, _>("replicas", async {
            let rows = self
                .select(
                    "SELECT name, version, role, started_at, seen_at,
                         coalesce(flushed_at, started_at) AS flushed_at
                     FROM replicas ORDER BY started_at, name",
                    args![],
                )
                .await?;
            Ok((self.clock().await?, rows.iter().map(row::replica).collect::<Result<_>>()?))
        })
        .await
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
