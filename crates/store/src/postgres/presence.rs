//! That processes may share this database. Events and activity pass between replicas on a bus; without one
//! a second replica would serve stale dashboards and lose activity. So a process without a bus is alone:
//! it holds a lock exclusively that every process with one holds shared. The lock ends with the session,
//! so whoever died is in nobody's way.

use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use super::{Lock, PostgresStore, Result, StoreError, listen::own_connection};

const ANSWER: Duration = Duration::from_secs(3);

/// Whether other replicas are welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Company {
    /// There is no bus between processes.
    Alone,
    Welcome,
}

/// Held while this process serves.
#[derive(Debug, Default)]
pub struct Presence(Option<PgConnection>);

impl PostgresStore {
    /// `None`: somebody is there who does not fit.
    pub(super) async fn enter(&self, company: Company) -> Result<Option<Presence>> {
        let mut connection = own_connection(&self.options).await?;
        let (class, id) = Lock::Presence.key();
        let lock = match company {
            Company::Alone => "SELECT pg_try_advisory_lock($1, $2)",
            Company::Welcome => "SELECT pg_try_advisory_lock_shared($1, $2)",
        };
        let entered: bool = sqlx::query_scalar(lock).bind(class).bind(id).fetch_one(&mut connection).await?;
        Ok(entered.then_some(Presence(Some(connection))))
    }
}

impl Presence {
    /// # Errors
    /// The session is gone: enter again.
    pub async fn check(&mut self) -> Result<()> {
        let Some(session) = &mut self.0 else { return Ok(()) };
        match timeout(ANSWER, session.ping()).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(StoreError::Unreachable("the session does not answer".into())),
        }
    }
}
