//! The embedded store: one SQLite file.
//!
//! One connection writes, a few read. SQLite allows one writer at a time anyway; queueing for it here,
//! fairly and in memory, is faster than polling its lock, and it lets changes be announced in the order
//! of their commits. WAL keeps readers out of the writer's way, and `synchronous = FULL` makes a commit
//! outlast a power cut: what was acknowledged is on the disk.
//!
//! Other processes (the command line) may open the same file: `BEGIN IMMEDIATE` and the busy timeout
//! put them in line. What they write is noticed within seconds ([`foreign`]).

mod foreign;
mod migrate;
mod row;
pub(crate) mod spelling;
mod write;

#[cfg(test)]
mod tests;

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sqlx::{
    ConnectOptions, Connection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::{CHANGES_BACKLOG, Change, Changes, MigrationStatus, Result, Store, StoreError, sql::slugs};

/// How long another process may hold the write lock before we say that the database is busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: u32 = 4;

#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    /// A pool of one, so that a broken connection is replaced.
    writer: SqlitePool,
    /// Held from before a transaction begins until its changes have been announced.
    turn: Arc<tokio::sync::Mutex<()>>,
    readers: SqlitePool,
    changes: broadcast::Sender<Change>,
    _foreign: AbortOnDropHandle<()>,
}

impl SqliteStore {
    /// Opens the database, makes it where there is none, and brings its schema up to date. The file is
    /// the owner's alone (0600).
    ///
    /// # Errors
    /// Says what is in the way: the directory, the file, its schema, the disk.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        prepare_file(path).map_err(|error| cannot_open(path, &error))?;
        Self::connect(path).await.map_err(|error| error.at(path))
    }

    async fn connect(path: &Path) -> Result<Self> {
        let writing = options(path).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        let writer = connect_writer(writing).await?;
        migrate::run(path).await?;
        let readers = pool(READERS).connect_with(options(path).pragma("query_only", "ON")).await?;
        let (changes, _) = broadcast::channel(CHANGES_BACKLOG);
        let turn = Arc::default();
        let _foreign = foreign::watch(writer.clone(), Arc::clone(&turn), changes.clone()).await?;
        let store = Self { path: path.to_owned(), writer, turn, readers, changes, _foreign };
        slugs::fill(&store).await?;
        Ok(store)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the schema of the database at `path` lacks, without changing anything. A database that does
    /// not exist yet lacks everything.
    ///
    /// # Errors
    /// The file cannot be read, or is no database.
    pub async fn migrate_status(path: impl AsRef<Path>) -> Result<MigrationStatus> {
        let path = path.as_ref();
        migrate::status(path).await.map_err(|error| error.at(path))
    }

    /// Ends all connections and folds the log into the database file. Not needed for safety.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn changes(&self) -> Changes {
        self.changes.subscribe()
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}

/// Whoever comes first switches a new file to WAL. For that moment SQLite refuses the others at once, whatever
/// they would wait for a lock.
async fn connect_writer(options: SqliteConnectOptions) -> Result<SqlitePool> {
    const BUSY: &str = "5";
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match pool(1).connect_with(options.clone()).await {
            Err(sqlx::Error::Database(error))
                if error.code().as_deref() == Some(BUSY) && Instant::now() < deadline =>
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            connected => return Ok(connected?),
        }
    }
}

/// Connections stay open, except those that lost count of their transactions. SQLite itself rolls back
/// when the disk is full or fails; the driver's own rollback then finds nothing to end, and it would
/// believe for ever that a transaction is open.
fn pool(size: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(size)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .after_release(|connection, _| {
            Box::pin(async move {
                if connection.is_in_transaction() {
                    // A rollback may still be on its way; it comes before the answer to this.
                    connection.ping().await?;
                }
                Ok(!connection.is_in_transaction())
            })
        })
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// Makes the file (and its directory) before SQLite does, so that it never exists with wider
/// permissions, and so that its directory entry is on the disk. A file that exists is not opened:
/// closing it again would drop the locks that SQLite holds on it in this process.
fn prepare_file(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    File::open(directory)?.sync_all()
}

fn cannot_open(path: &Path, error: &io::Error) -> StoreError {
    let error = match error.kind() {
        io::ErrorKind::StorageFull => StoreError::Full(error.to_string()),
        _ => StoreError::Unreachable(error.to_string()),
    };
    error.at(path)
}
