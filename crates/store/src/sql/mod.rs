//! The port in SQL, written once for every dialect.
//!
//! A statement is written as PostgreSQL reads it. SQLite's module spells it for SQLite
//! ([`crate::sqlite::spelling`]) and has nothing to lock, because it has one writer. What a dialect must do
//! itself is in [`SqlStore`] and [`SqlWrite`]: transactions, locks, the clock, telling changes, the lease.

mod access;
mod archives;
mod ask;
mod attempts;
pub(crate) mod audit;
mod credentials;
mod device_logins;
mod devices;
mod garbage;
mod handovers;
mod history;
mod holds;
mod leadership;
mod people;
mod ports;
pub(crate) mod reconciling;
mod recover;
mod sessions;
mod settings;
pub(crate) mod slugs;
mod tokens;
pub(crate) mod ttl;
mod value;
pub(crate) mod workspaces;

use std::{borrow::Cow, time::Duration};

use async_trait::async_trait;
use codehub_domain::{
    Epoch, Timestamp,
    audit::{AuditAction, AuditOutcome},
    change::Change,
};

pub(crate) use self::value::{Bind, Value, args, json};
use crate::{Page, Result, StoreError, metric, row::SqlRow};

/// Something that runs statements: a transaction, or a store for a statement of its own.
#[async_trait]
pub trait Statements: Send {
    type Row: SqlRow + Send + Sync;

    /// Every row of the answer.
    async fn all(&mut self, sql: Cow<'static, str>, args: Vec<Value>) -> Result<Vec<Self::Row>>;
    /// How many rows were changed.
    async fn run(&mut self, sql: &'static str, args: Vec<Value>) -> Result<u64>;

    async fn first(&mut self, sql: &'static str, args: Vec<Value>) -> Result<Option<Self::Row>> {
        Ok(self.all(sql.into(), args).await?.into_iter().next())
    }

    async fn one(&mut self, sql: &'static str, args: Vec<Value>) -> Result<Self::Row> {
        let found = self.first(sql, args).await?;
        found.ok_or_else(|| StoreError::Failed(format!("no row answers {sql}")))
    }
}

/// One write transaction. Dropped without [`SqlWrite::commit`], nothing has happened.
#[async_trait]
pub trait SqlWrite: Statements {
    /// The database's clock. Ask after the locks: what was waited for is in the past.
    async fn now(&mut self) -> Result<Timestamp>;
    /// Waits until no other transaction holds this lock; held until this one ends.
    async fn lock(&mut self, lock: Lock) -> Result<()>;
    /// A change that a column shows: announced after the commit, by us or by the database's triggers.
    fn changed(&mut self, change: Change);
    /// A change that no column shows: announced after the commit in every dialect.
    async fn tell(&mut self, change: Change) -> Result<()>;
    /// Something was written down: counted after the commit.
    fn audited(&mut self, action: AuditAction, outcome: AuditOutcome);
    async fn commit(self) -> Result<()>;

    /// Whether `epoch` still leads. Nobody can take the lease before this transaction ends.
    async fn leads(&mut self, epoch: Epoch) -> Result<bool> {
        let current = self.one("SELECT epoch FROM leader FOR SHARE", args![]).await?;
        Ok(current.int("epoch")? == epoch.0)
    }
}

/// What a dialect does itself; the themes of the port are implemented for whatever has this.
#[async_trait]
pub trait SqlStore: Send + Sync + 'static {
    type Row: SqlRow + Send + Sync;
    type Write: SqlWrite<Row = Self::Row>;
    type Read: Statements<Row = Self::Row>;

    /// A method that takes longer is ended, where nobody else would end it.
    const METHOD_TIMEOUT: Option<Duration>;

    async fn write(&self) -> Result<Self::Write>;
    /// A consistent view for more than one statement.
    async fn read(&self) -> Result<Self::Read>;
    /// One statement that only reads, and needs no transaction.
    async fn select(&self, sql: &'static str, args: Vec<Value>) -> Result<Vec<Self::Row>>;
    /// Takes the lease: [`crate::Leadership::epoch_take`].
    async fn take_epoch(&self, holder: &str) -> Result<Epoch>;

    async fn clock(&self) -> Result<Timestamp> {
        let found = self.select("SELECT codehub_now() AS now", args![]).await?;
        found.first().map_or_else(
            || Err(StoreError::Failed("the clock does not answer".into())),
            |row| crate::row::at(row, "now"),
        )
    }
}

/// What is locked where rows cannot be, for the length of a transaction or (the last two) a session.
#[derive(Debug, Clone, Copy)]
pub enum Lock {
    /// Held while running workspaces are counted and one is added.
    Limits = 1,
    /// Held while "is there another administrator" must stay true.
    Administrators = 2,
    /// Held by the session of whoever leads.
    Leader = 3,
    /// Held by every serving process: shared where there is a bus between them, else alone.
    Presence = 4,
    /// Held while something is claimed for deletion, or about to become a home.
    Claims = 5,
    /// Held while many workspaces are written in whatever order they are found: two such writes at once
    /// could each wait for the other.
    Many = 6,
    /// Held from the choice of a free slug until its workspace is there. Taken last but one.
    Slugs = 7,
    /// Held while a count of like events begins. Taken last.
    AuditCounts = 8,
}

/// Counts what was written down, once it is committed.
pub(crate) fn count_audited(audited: &[(AuditAction, AuditOutcome)]) {
    for (action, outcome) in audited {
        metrics::counter!(metric::AUDIT_EVENTS, "action" => action.as_str(), "outcome" => outcome.as_str())
            .increment(1);
    }
}

/// Times one method of the port under its name, and ends it when nobody answers.
async fn timed<S: SqlStore, T>(query: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let started = std::time::Instant::now();
    let result = match S::METHOD_TIMEOUT {
        None => work.await,
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(StoreError::Unreachable(format!("no answer within {} s", limit.as_secs())))
        }),
    };
    metrics::histogram!(metric::QUERY_SECONDS, "query" => query).record(started.elapsed().as_secs_f64());
    result
}

/// A page of `limit` from rows that were asked for one more.
fn page<R, T>(rows: &[R], limit: u32, total: Option<u64>, read: impl Fn(&R) -> Result<T>) -> Result<Page<T>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let items = rows.iter().take(limit).map(read).collect::<Result<_>>()?;
    Ok(Page { more: rows.len() > limit, items, total })
}
