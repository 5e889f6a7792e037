//! The contract against a real file, and what only a file can do.

mod file;
mod plans;
mod rolled_back;
mod rules;
mod upgrade;

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use super::SqliteStore;
use crate::{
    contract::{Harness, contract_suite},
    sql::{SqlStore as _, SqlWrite as _},
};

/// Every column that holds a time.
const TIMES: &[&str] = &[
    "UPDATE users SET created_at = created_at - ?1, updated_at = updated_at - ?1",
    "UPDATE sessions SET created_at = created_at - ?1, expires_at = expires_at - ?1,
         renewed_at = renewed_at - ?1",
    "UPDATE api_tokens SET created_at = created_at - ?1, expires_at = expires_at - ?1,
         last_used_at = last_used_at - ?1",
    "UPDATE devices SET created_at = created_at - ?1, expires_at = expires_at - ?1",
    "UPDATE device_logins SET expires_at = expires_at - ?1",
    "UPDATE handovers SET expires_at = expires_at - ?1",
    "UPDATE workspace_sessions SET created_at = created_at - ?1",
    "UPDATE login_attempts SET last_failure_at = last_failure_at - ?1, forget_at = forget_at - ?1",
    "UPDATE workspaces SET desired_changed_at = desired_changed_at - ?1, deleted_at = deleted_at - ?1,
         last_access_at = last_access_at - ?1, observed_at = observed_at - ?1,
         phase_changed_at = phase_changed_at - ?1, op_started_at = op_started_at - ?1,
         op_moved_at = op_moved_at - ?1, next_retry_at = next_retry_at - ?1, created_at = created_at - ?1,
         updated_at = updated_at - ?1, held_until = held_until - ?1",
    "UPDATE workspace_holds SET created_at = created_at - ?1, until = until - ?1",
    "UPDATE workspace_events SET at = at - ?1",
    "UPDATE audit_events SET at = at - ?1",
    "UPDATE archives SET recorded_at = recorded_at - ?1",
    "UPDATE gc_sightings SET first_seen = first_seen - ?1",
    "UPDATE replicas SET seen_at = seen_at - ?1, started_at = started_at - ?1,
         flushed_at = flushed_at - ?1",
];

impl SqliteStore {
    /// Makes everything older: the same as time passing, without the wait.
    async fn age(&self, by: Duration) {
        let mut write = self.write().await.unwrap();
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

async fn harness() -> Harness {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(directory.path().join("codehub.db")).await.unwrap());
    let aged = store.clone();
    Harness {
        store,
        pass: Box::new(move |by| {
            let store = aged.clone();
            async move { store.age(by).await }.boxed()
        }),
        barrier: None,
        _keep: Box::new(directory),
    }
}

mod contract {
    super::contract_suite!(super::super::harness);
}
