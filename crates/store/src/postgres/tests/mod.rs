//! The contract against a real server, and what only PostgreSQL can do. Each test has a database of its
//! own. Without a server (`CODEHUB_TEST_POSTGRES`) the tests say so and pass.

mod interleave;
mod leading;
mod plans;
mod server;
mod sharing;
mod upgrade;

use std::{sync::Arc, time::Duration};

use codehub_domain::UserId;
use futures::FutureExt;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::PostgresStore;
use crate::{
    Change,
    contract::{Harness, contract_suite},
    sql::{SqlStore as _, SqlWrite as _},
};

/// Every column that holds a time.
const TIMES: &[&str] = &[
    "UPDATE users SET created_at = created_at - $1, updated_at = updated_at - $1",
    "UPDATE sessions SET created_at = created_at - $1, expires_at = expires_at - $1,
         renewed_at = renewed_at - $1",
    "UPDATE api_tokens SET created_at = created_at - $1, expires_at = expires_at - $1,
         last_used_at = last_used_at - $1",
    "UPDATE devices SET created_at = created_at - $1, expires_at = expires_at - $1",
    "UPDATE device_logins SET expires_at = expires_at - $1",
    "UPDATE handovers SET expires_at = expires_at - $1",
    "UPDATE workspace_sessions SET created_at = created_at - $1",
    "UPDATE login_attempts SET last_failure_at = last_failure_at - $1, forget_at = forget_at - $1",
    "UPDATE workspaces SET desired_changed_at = desired_changed_at - $1,
         last_access_at = last_access_at - $1, observed_at = observed_at - $1,
         phase_changed_at = phase_changed_at - $1, op_started_at = op_started_at - $1,
         op_moved_at = op_moved_at - $1, next_retry_at = next_retry_at - $1, created_at = created_at - $1,
         updated_at = updated_at - $1, held_until = held_until - $1",
    "UPDATE workspace_holds SET created_at = created_at - $1, until = until - $1",
    "UPDATE workspaces SET deleted_at = deleted_at - $1 WHERE deleted_at IS NOT NULL",
    "UPDATE workspace_events SET at = at - $1",
    "UPDATE audit_events SET at = at - $1",
    "UPDATE archives SET recorded_at = recorded_at - $1",
    "UPDATE gc_claims SET claimed_at = claimed_at - $1",
    "UPDATE gc_sightings SET first_seen = first_seen - $1",
    "UPDATE replicas SET seen_at = seen_at - $1, started_at = started_at - $1,
         flushed_at = flushed_at - $1",
    "UPDATE leader_heartbeat SET beat_at = beat_at - $1",
];

impl PostgresStore {
    /// Makes everything older: the same as time passing, without the wait.
    pub(super) async fn age(&self, by: Duration) {
        let mut write = self.write().await.unwrap();
        // Time passing is not told to anybody.
        sqlx::query("SET LOCAL session_replication_role = replica")
            .execute(write.connection())
            .await
            .unwrap();
        for statement in TIMES.iter().copied() {
            sqlx::query(statement)
                .bind(i64::try_from(by.as_micros()).unwrap())
                .execute(write.connection())
                .await
                .unwrap();
        }
        write.commit().await.unwrap();
    }
}

/// A database that goes with the test.
pub(super) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// `None`, and a line that says so, where there is no server.
    pub(super) async fn create() -> Option<Self> {
        let server = codehub_testing::service("CODEHUB_TEST_POSTGRES", "no PostgreSQL")?;
        let name = format!("codehub_test_{}", Uuid::new_v4().simple());
        let mut connection = PgConnection::connect(&server).await.unwrap();
        let create = format!("CREATE DATABASE {name}");
        sqlx::query(sqlx::AssertSqlSafe(create)).execute(&mut connection).await.unwrap();
        Some(Self { server, name })
    }

    pub(super) fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }

    pub(super) async fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.url(), 10).await.unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        // A test's runtime may be ending: another thread, another runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&server).await.unwrap();
                let _ = sqlx::query(sqlx::AssertSqlSafe(drop)).execute(&mut connection).await;
            });
        });
        let _ = dropped.join();
    }
}

async fn harness() -> Option<Harness> {
    let database = Database::create().await?;
    let store = Arc::new(database.open().await);
    let (aged, telling) = (store.clone(), store.clone());
    Some(Harness {
        store,
        pass: Box::new(move |by| {
            let store = aged.clone();
            async move { store.age(by).await }.boxed()
        }),
        barrier: Some(Box::new(move || {
            let store = telling.clone();
            async move {
                let user = UserId::from_uuid(Uuid::now_v7());
                sqlx::query("SELECT pg_notify('user_access', $1)")
                    .bind(user.to_string())
                    .execute(&store.pool)
                    .await
                    .unwrap();
                Change::Access { user }
            }
            .boxed()
        })),
        _keep: Box::new(database),
    })
}

mod contract {
    super::contract_suite!(super::super::harness);
}
