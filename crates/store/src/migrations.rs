//! How a database's schema compares with what this version of CodeHub knows.

use sqlx::migrate::Migrator;

/// How far the database's schema is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Versions that are done.
    pub applied: Vec<i64>,
    /// Known here and not done yet; opening the store does them.
    pub pending: Vec<PendingMigration>,
    /// Done, but unknown here: a newer version has written this database, and opening it is refused.
    pub unknown: Vec<i64>,
}

/// One that the next start applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMigration {
    /// Its number.
    pub version: i64,
    /// The name of its file, in words.
    pub description: String,
}

impl MigrationStatus {
    /// Compares what is `done` with what is known.
    pub(super) fn of(known: &Migrator, done: Vec<i64>) -> Self {
        let is_known = |version: &i64| known.iter().any(|migration| migration.version == *version);
        let (applied, unknown) = done.into_iter().partition::<Vec<_>, _>(is_known);
        let pending = known
            .iter()
            .filter(|migration| !applied.contains(&migration.version))
            .map(|migration| PendingMigration {
                version: migration.version,
                description: migration.description.to_string(),
            })
            .collect();
        Self { applied, pending, unknown }
    }
}
