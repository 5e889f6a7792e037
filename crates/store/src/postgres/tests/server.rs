//! The server: what is said when something is wrong with it, and what survives its absence.

use crate::fake::by;
use codehub_domain::{
    Desired,
    event::{Actor, Reason},
    limits::Limits,
    user::Role,
};
use sqlx::postgres::PgListener;

use super::{Database, PostgresStore};
use crate::{
    Asked, Change, Clock as _, Created, Edit, Leadership as _, People as _, Reconciling as _, Store,
    StoreError, UserChange, Workspaces as _,
    contract::{new_workspace, user_id},
};

pub(super) async fn with_workspace(store: &PostgresStore, desired: Desired) -> codehub_domain::Workspace {
    let user = user_id();
    let made = store.user_create(by(), user, &format!("user {user}"), "hash", Role::User).await.unwrap();
    assert!(matches!(made, UserChange::Done(_)));
    let new = new_workspace(user, "work", desired);
    match store.workspace_create(by(), new, Limits::NONE, Actor::Operator).await.unwrap() {
        Created::Created(workspace) => *workspace,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn addresses_are_checked_and_never_quoted() {
    for wrong in ["", "mysql://u:hush@h/d", "postgres://u:hush@h:port/d", "codehub.db"] {
        let error = PostgresStore::open(wrong, 2).await.unwrap_err().to_string();
        assert!(error.contains("postgres://") && !error.contains("hush"), "{error}");
    }
    let nobody = PostgresStore::open("postgres://u:hush@127.0.0.1:1/d", 2).await.unwrap_err();
    assert!(matches!(nobody, StoreError::Unreachable(_)), "{nobody}");
    let said = nobody.to_string();
    assert!(said.contains("127.0.0.1:1") && !said.contains("hush"), "{said}");
}

#[tokio::test]
async fn a_database_that_is_missing_is_named() {
    let Some(database) = Database::create().await else { return };
    let error = PostgresStore::open(&format!("{}_not", database.url()), 2).await.unwrap_err().to_string();
    assert!(error.contains("create it first"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_open_it_for_the_first_time_at_once() {
    let Some(database) = Database::create().await else { return };
    let status = PostgresStore::migrate_status(&database.url()).await.unwrap();
    assert!(status.applied.is_empty() && !status.pending.is_empty(), "asking makes nothing");
    let opening = (0..5).map(|_| {
        let url = database.url();
        tokio::spawn(async move { PostgresStore::open(&url, 2).await })
    });
    for opened in futures::future::join_all(opening).await {
        assert_eq!(opened.unwrap().unwrap().user_count().await.unwrap(), 0);
    }
    let status = PostgresStore::migrate_status(&database.url()).await.unwrap();
    assert!(!status.applied.is_empty() && status.pending.is_empty());
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_name() {
    let Some(database) = Database::create().await else { return };
    let store = database.open().await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, '', 0)",
    )
    .execute(&store.pool)
    .await
    .unwrap();
    store.close().await;
    let error = PostgresStore::open(&database.url(), 2).await.unwrap_err().to_string();
    assert!(error.contains("newer") && error.contains("9999"), "{error}");
    assert_eq!(PostgresStore::migrate_status(&database.url()).await.unwrap().unknown, [9999]);
}

/// A payload of a NOTIFY ends at 8,000 bytes; ours are ids. And only what somebody waits for is told,
/// because a NOTIFY costs every commit that has one.
#[tokio::test]
async fn ids_are_told_and_only_of_what_somebody_waits_for() {
    let Some(database) = Database::create().await else { return };
    let store = database.open().await;
    let epoch = store.epoch_take("test").await.unwrap();
    let made = with_workspace(&store, Desired::Standby).await;
    let mut listener = PgListener::connect(&database.url()).await.unwrap();
    listener.listen_all(["ws_sse", "ws_wake", "ws_deleted"]).await.unwrap();

    // When it was used and when it was looked at is written all the time, and told to nobody.
    let later = store.now().await.unwrap();
    assert!(store.access_sync(epoch, &[(made.id, later)]).await.unwrap());
    assert!(store.workspaces_observed(epoch, &[made.id]).await.unwrap());
    let edit = Edit { memo: Some("m".repeat(64 * 1024)), ..Edit::default() };
    assert_eq!(store.workspace_edit(by(), made.id, edit).await.unwrap().unwrap().memo.len(), 64 * 1024);
    let desired = store.workspace_ask(
        by(),
        made.id,
        Desired::Running,
        Limits::NONE,
        Actor::Operator,
        &Reason::StartRequested,
    );
    assert!(matches!(desired.await.unwrap(), Asked::Changed(_)));
    let desired = store.workspace_ask(
        by(),
        made.id,
        Desired::Deleted,
        Limits::NONE,
        Actor::Operator,
        &Reason::DeleteRequested,
    );
    assert!(matches!(desired.await.unwrap(), Asked::Changed(_)));

    let ids = format!("{} {}", made.id, made.owner);
    for (channel, payload) in [
        ("ws_sse", ids.as_str()),
        ("ws_sse", ids.as_str()),
        ("ws_wake", ""),
        ("ws_deleted", ids.as_str()),
        ("ws_wake", ""),
    ] {
        let heard = tokio::time::timeout(std::time::Duration::from_secs(5), listener.recv()).await;
        let heard = heard.expect("told").unwrap();
        assert_eq!((heard.channel(), heard.payload()), (channel, payload));
        assert!(heard.payload().len() <= 200);
    }
}

/// Another process changed something while we could not hear it: after the reconnect, everybody is told
/// to read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_connection_everything_is_read_again() {
    let Some(database) = Database::create().await else { return };
    let (one, other) = (database.open().await, database.open().await);
    let made = with_workspace(&other, Desired::Standby).await;
    let mut changes = one.changes();
    let ended: i64 = sqlx::query_scalar(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .fetch_one(&other.pool)
    .await
    .unwrap();
    assert!(ended >= 2, "both listeners at least");
    let deadline = std::time::Duration::from_secs(3);
    tokio::time::timeout(deadline, async { while changes.recv().await.unwrap() != Change::Resync {} })
        .await
        .expect("told within three seconds");
    // And it listens again.
    let edit = Edit { memo: Some("new".into()), ..Edit::default() };
    other.workspace_edit(by(), made.id, edit).await.unwrap();
    let updated = Change::Updated { workspace: made.id, owner: made.owner };
    tokio::time::timeout(deadline, async { while changes.recv().await.unwrap() != updated {} })
        .await
        .expect("heard");
}
