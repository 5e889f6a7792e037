//! Who leads among the replicas: whoever's session holds an advisory lock.
//!
//! The lock ends with the session, so a leader that dies is replaced at the next try. One that is frozen
//! keeps its session, and its lock, for ever: therefore the leader renews a heartbeat, and a follower that
//! finds it stale ends that session. One that is cut off is noticed by the server (keepalives) or by the
//! heartbeat, whichever comes first. Whatever a former leader still does, the epoch fences it.

use std::time::Duration;

use codehub_domain::Epoch;
use sqlx::{PgConnection, Row, postgres::PgConnectOptions};
use tokio::time::timeout;

use super::{Lock, PostgresStore, Result, StoreError, listen::own_connection, write::take_epoch_on};

/// A heartbeat older than this is no sign of life.
const STALE_AFTER: Duration = Duration::from_secs(10);
/// No answer within this is "no".
const ANSWER: Duration = Duration::from_secs(3);
/// Taking the epoch waits for writes of the leader before, which are rolled back after
/// [`super::IDLE_IN_TRANSACTION`] if it is frozen.
const TAKE: Duration = Duration::from_secs(8);

/// A place in the queue for the lease: one connection, kept between tries.
#[derive(Debug)]
pub struct LeaseSeat {
    options: PgConnectOptions,
    holder: String,
    connection: Option<PgConnection>,
    /// The holder and its heartbeat when last found stale: acted on only when both are still the same,
    /// because a new leader holds the lock a moment before its first heartbeat.
    suspect: Option<(i32, i64)>,
}

/// Leadership, for as long as this connection lives.
#[derive(Debug)]
pub struct Lease {
    connection: PgConnection,
    epoch: Epoch,
}

/// What became of a lease that was to be prolonged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    Held,
    /// A newer epoch exists.
    Replaced,
}

impl PostgresStore {
    pub(super) fn seat(&self, holder: &str) -> LeaseSeat {
        LeaseSeat { options: self.options.clone(), holder: holder.into(), connection: None, suspect: None }
    }
}

impl LeaseSeat {
    /// One try. `None`: somebody else leads.
    ///
    /// # Errors
    /// The database does not answer; the next try connects again.
    pub async fn try_take(&mut self) -> Result<Option<Lease>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => in_time(ANSWER, own_connection(&self.options)).await?,
        };
        if !in_time(ANSWER, try_lock(&mut connection)).await? {
            in_time(ANSWER, self.end_a_stale_one(&mut connection)).await?;
            if self.suspect.is_some() || !in_time(ANSWER, try_lock(&mut connection)).await? {
                self.connection = Some(connection);
                return Ok(None);
            }
        }
        self.suspect = None;
        // If this fails the connection is dropped, and with it the lock.
        let epoch = in_time(TAKE, take_epoch_on(&mut connection, &self.holder)).await?;
        Ok(Some(Lease { connection, epoch }))
    }

    /// Ends the session of a leader whose heartbeat stopped, once it was found so twice.
    async fn end_a_stale_one(&mut self, connection: &mut PgConnection) -> Result<()> {
        let (class, id) = Lock::Leader.key();
        let found = sqlx::query(
            "SELECT pid, beat_at FROM pg_locks, leader_heartbeat
             WHERE locktype = 'advisory' AND granted AND objsubid = 2
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND classid::BIGINT = $1 AND objid::BIGINT = $2
               AND beat_at < codehub_now() - $3",
        )
        .bind(i64::from(class))
        .bind(i64::from(id))
        .bind(STALE_AFTER.as_micros() as i64)
        .fetch_optional(&mut *connection)
        .await?;
        let suspect = match found {
            Some(row) => Some((row.try_get("pid")?, row.try_get("beat_at")?)),
            None => None,
        };
        if suspect.is_none() || self.suspect != suspect {
            self.suspect = suspect;
            return Ok(());
        }
        self.suspect = None;
        if let Some((pid, _)) = suspect {
            metrics::counter!(crate::metric::LEADER_TAKEOVERS).increment(1);
            tracing::warn!(pid, "the leader has not been heard of for a while; its session is ended");
            sqlx::query("SELECT pg_terminate_backend($1, 1000)").bind(pid).execute(connection).await?;
        }
        Ok(())
    }
}

impl Lease {
    /// The number of this leadership; every later one is larger.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Renews the heartbeat, on the session that holds the lock.
    ///
    /// # Errors
    /// The session does not answer: it may be gone, and the lock with it.
    pub async fn renew(&mut self) -> Result<Renewed> {
        let epoch = self.epoch.0;
        let beat = async {
            let done = sqlx::query(
                "UPDATE leader_heartbeat SET beat_at = codehub_now() WHERE (SELECT epoch FROM leader) = $1",
            )
            .bind(epoch)
            .execute(&mut self.connection)
            .await?;
            Ok(if done.rows_affected() == 1 { Renewed::Held } else { Renewed::Replaced })
        };
        in_time(ANSWER, beat).await
    }

    /// Gives it up: the next one need not wait for anything.
    pub async fn release(self) {
        use sqlx::Connection;
        let _ = timeout(ANSWER, self.connection.close()).await;
    }
}

async fn try_lock(connection: &mut PgConnection) -> Result<bool> {
    let (class, id) = Lock::Leader.key();
    Ok(sqlx::query_scalar("SELECT pg_try_advisory_lock($1, $2)")
        .bind(class)
        .bind(id)
        .fetch_one(connection)
        .await?)
}

/// A peer that was cut off answers neither yes nor no.
async fn in_time<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(StoreError::Unreachable(format!("no answer within {} s", limit.as_secs()))))
}
