//! What went wrong in a database, told apart by what a caller can do about it.

use std::path::Path;

use sqlx::{error::DatabaseError, migrate::MigrateError, sqlite::SqliteError};

use super::StoreError;

impl StoreError {
    /// Says which file it is about: for the moments when nobody has named it yet.
    pub(super) fn at(self, path: &Path) -> Self {
        self.about(&path.display().to_string())
    }

    /// Says what it is about, where that is not a file.
    pub(super) fn about(self, what: &str) -> Self {
        let about = |why: String| format!("{what}: {why}");
        match self {
            Self::Unreachable(why) => Self::Unreachable(about(why)),
            Self::Full(why) => Self::Full(about(why)),
            Self::Failed(why) => Self::Failed(about(why)),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => match database.try_downcast_ref::<SqliteError>() {
                Some(sqlite) => from_sqlite(sqlite),
                None => from_postgres(&**database),
            },
            sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::StorageFull => {
                Self::Full(error.to_string())
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unreachable(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// SQLite's result codes; the low byte is the primary one.
fn from_sqlite(error: &SqliteError) -> StoreError {
    const IOERR_SHMSIZE: i32 = 4874;
    let code = error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or_default();
    let message = error.to_string();
    match (code, code & 0xff) {
        // Growing the shared memory file fails for want of space, though the code does not say so.
        (_, 13) | (IOERR_SHMSIZE, _) => StoreError::Full(message),
        // BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, CANTOPEN, PROTOCOL
        (_, 5..=10 | 14 | 15) => StoreError::Unreachable(message),
        // CORRUPT, NOTADB
        (_, 11 | 26) => StoreError::Failed(format!(
            "the database file is damaged or is no database; restore it from a backup: {message}"
        )),
        _ => StoreError::Failed(message),
    }
}

/// PostgreSQL's SQLSTATEs; the first two characters are the class.
fn from_postgres(error: &dyn DatabaseError) -> StoreError {
    let message = error.to_string();
    let code = error.code().unwrap_or_default();
    match (&*code, code.get(..2).unwrap_or_default()) {
        ("53100", _) => StoreError::Full(message),
        // Serialization failure, deadlock, lock or statement timeout, a standby that only reads, an
        // operating system's error: the next try may succeed.
        ("40001" | "40P01" | "55P03" | "57014" | "25006" | "25P03" | "58030", _)
        // Connection exceptions, insufficient resources, shutting down or starting up.
        | (_, "08" | "53" | "57") => StoreError::Unreachable(message),
        ("28P01" | "28000", _) => StoreError::Failed(format!("{message}: check the user and password in DATABASE_URL")),
        ("3D000", _) => StoreError::Failed(format!("{message}: create it first, or correct DATABASE_URL")),
        _ => StoreError::Failed(message),
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Execute(error) => error.into(),
            MigrateError::ExecuteMigration(error, version) => match Self::from(error) {
                Self::Failed(why) => Self::Failed(format!("migration {version} failed: {why}")),
                other => other,
            },
            MigrateError::VersionMissing(version) => Self::Failed(format!(
                "the database was written by a newer version of CodeHub (this one does not know its \
                 migration {version}); run that version, or restore a backup from before the upgrade"
            )),
            MigrateError::VersionMismatch(version) => Self::Failed(format!(
                "migration {version} of the database is not the one this version of CodeHub carries; \
                 the database belongs to another build"
            )),
            other => Self::Failed(other.to_string()),
        }
    }
}
