//! What was not committed was not done, and nothing says that it was.

use codehub_domain::{Desired, event::Actor, limits::Limits, user::Role};
use sqlx::AssertSqlSafe;

use super::SqliteStore;
use crate::{
    AuditFilter,
    contract::{new_workspace, user_id},
    fake::by,
    prelude::*,
    sql::{SqlStore as _, SqlWrite as _},
};

/// A constraint that is looked at when the transaction ends: every statement succeeds, and the commit does not.
const FAILS_AT_THE_END: [&str; 4] = [
    "CREATE TABLE absent (id INTEGER PRIMARY KEY)",
    "CREATE TABLE of_absent (id INTEGER REFERENCES absent (id) DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TRIGGER users_end AFTER INSERT ON users BEGIN INSERT INTO of_absent VALUES (1); END",
    "CREATE TRIGGER workspaces_end AFTER INSERT ON workspaces BEGIN INSERT INTO of_absent VALUES (1); END",
];

#[tokio::test]
async fn an_act_whose_commit_fails_leaves_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("codehub.db")).await.unwrap();
    let ann = user_id();
    store.user_create(by(), ann, "ann", "hash", Role::User).await.unwrap();
    let mut write = store.write().await.unwrap();
    for statement in FAILS_AT_THE_END {
        sqlx::query(AssertSqlSafe(statement)).execute(write.connection()).await.unwrap();
    }
    write.commit().await.unwrap();
    store.user_create(by(), user_id(), "bob", "hash", Role::User).await.unwrap_err();
    let new = new_workspace(ann, "work", Desired::Standby);
    let id = new.id;
    store.workspace_create(by(), new, Limits::NONE, Actor::Operator).await.unwrap_err();
    assert!(store.user_by_name("bob").await.unwrap().is_none());
    assert!(store.workspace_get(id).await.unwrap().is_none());
    let filter = AuditFilter { limit: 9, ..AuditFilter::default() };
    let trail = store.audit_list(&filter).await.unwrap().items;
    assert_eq!(trail.len(), 1, "{trail:?}");
    // The next act is not in its way.
    store.user_delete(by(), ann).await.unwrap();
    assert_eq!(store.audit_list(&filter).await.unwrap().items.len(), 2);
}
