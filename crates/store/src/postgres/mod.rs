//! The store of a deployment with replicas: PostgreSQL.
//!
//! - **Rows are locked before they are judged** (`SELECT … FOR UPDATE`), so the rules of the domain see
//!   what the transaction will change. Counting limits takes an advisory lock for the transaction: counts
//!   cannot be locked row by row.
//! - **The clock is the database's**, read after the locks (`SqlWrite::now`): whoever waited gets a
//!   later time.
//! - **The epoch is locked while a leader writes** (`FOR SHARE`), so nobody takes the lease in the middle.
//!   A process that is frozen in the middle loses its transaction after [`IDLE_IN_TRANSACTION`].
//! - **Changes are told by triggers** and heard by every process ([`listen`]), whoever made them.

mod lease;
mod listen;
mod migrate;
mod pooler;
mod presence;
mod row;
mod write;

#[cfg(test)]
mod tests;

use std::{str::FromStr, time::Duration};

use async_trait::async_trait;
use sqlx::{
    ConnectOptions, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{sync::broadcast, task::AbortHandle};

pub use self::{
    lease::{Lease, LeaseSeat, Renewed},
    presence::{Company, Presence},
};
use super::{
    CHANGES_BACKLOG, Change, Changes, MigrationStatus, Result, Store, StoreError,
    sql::{Lock, slugs},
};

/// How long a request waits for a free connection, or for the server to come back.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// A transaction whose process stopped answering in the middle is rolled back, with its locks.
const IDLE_IN_TRANSACTION: &str = "5s";
/// No statement of ours takes this long; one that does is stuck.
const STATEMENT_TIMEOUT: &str = "30s";
/// No method takes this long. Where the way to the server is cut without a word nobody else would end the wait.
const METHOD_TIMEOUT: Duration = Duration::from_secs(35);

/// Advisory locks of this database. The high half says that they are ours.
impl Lock {
    const CLASS: i32 = 0x00c0_de0b;

    /// The two halves of the key.
    const fn key(self) -> (i32, i32) {
        (Self::CLASS, self as i32)
    }
}

#[derive(Debug)]
pub struct PostgresStore {
    options: PgConnectOptions,
    pool: PgPool,
    changes: broadcast::Sender<Change>,
    listener: AbortHandle,
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl PostgresStore {
    /// Connects, makes sure that nothing in between loses sessions, brings the schema up to date and
    /// begins to listen.
    ///
    /// # Errors
    /// Says what is in the way: the address, the server, the account, a pooler, the schema.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self> {
        let options = parse(url)?;
        let place = shown(&options);
        Self::connect(options, max_connections).await.map_err(|error| error.about(&place))
    }

    async fn connect(options: PgConnectOptions, max_connections: u32) -> Result<Self> {
        pooler::refuse(&options).await?;
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|connection, _| Box::pin(prepare(connection)))
            .connect_with(options.clone())
            .await?;
        migrate::run(&options).await?;
        let (changes, _) = broadcast::channel(CHANGES_BACKLOG);
        let listener = listen::start(options.clone(), changes.clone()).await?;
        let store = Self { options, pool, changes, listener };
        slugs::fill(&store).await?;
        Ok(store)
    }

    /// What the schema of the database lacks, without changing anything.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn migrate_status(url: &str) -> Result<MigrationStatus> {
        let options = parse(url)?;
        migrate::status(&options).await.map_err(|error| error.about(&shown(&options)))
    }

    /// The address without the password, for people.
    ///
    /// # Errors
    /// It is no address.
    pub fn shown(url: &str) -> Result<String> {
        parse(url).map(|options| shown(&options))
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.listener.abort();
        self.pool.close().await;
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn changes(&self) -> Changes {
        self.changes.subscribe()
    }

    async fn close(&self) {
        Self::close(self).await;
    }

    fn lease_seat(&self, holder: &str) -> Option<LeaseSeat> {
        Some(self.seat(holder))
    }

    async fn presence_enter(&self, company: Company) -> Result<Option<Presence>> {
        let silent = |_| StoreError::Unreachable(format!("no answer within {} s", METHOD_TIMEOUT.as_secs()));
        tokio::time::timeout(METHOD_TIMEOUT, self.enter(company)).await.map_err(silent)?
    }
}

/// The word in front of an address that this store answers to.
pub fn is_address(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn parse(url: &str) -> Result<PgConnectOptions> {
    // The driver's message may quote the address, and with it the password.
    let wrong = || {
        StoreError::Failed(
            "DATABASE_URL is not a PostgreSQL address: postgres://user:password@host:5432/database".into(),
        )
    };
    if !is_address(url) {
        return Err(wrong());
    }
    let options = PgConnectOptions::from_str(url).map_err(|_| wrong())?;
    Ok(options.application_name("codehub").disable_statement_logging())
}

fn shown(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("the database {database} at {}", socket.display()),
        None => format!("the database {database} at {}:{}", options.get_host(), options.get_port()),
    }
}

/// What every connection is told. By statement, not in the startup packet: poolers refuse what they do not
/// know there.
async fn prepare(connection: &mut PgConnection) -> std::result::Result<(), sqlx::Error> {
    for (setting, value) in [
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION),
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("synchronous_commit", "on"),
        // The server notices a client that vanished without a word.
        ("tcp_keepalives_idle", "5"),
        ("tcp_keepalives_interval", "2"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "10s"),
    ] {
        sqlx::query("SELECT set_config($1, $2, false)")
            .bind(setting)
            .bind(value)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
