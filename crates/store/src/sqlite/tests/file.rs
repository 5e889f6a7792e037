//! The file: who may read it, what survives, and what is said when something is wrong with it.

use crate::fake::by;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use codehub_domain::{Desired, event::Actor, limits::Limits};

use super::SqliteStore;
use crate::{
    Allowance, Change, Created, Credentials as _, Edit, Leadership as _, People as _, Settings as _, Store,
    StoreError, UserChange, Workspaces as _,
    contract::{new_workspace, user_id},
    sql::SqlStore as _,
};
use codehub_testing::let_time_pass;

pub(super) async fn with_workspace(store: &SqliteStore) -> codehub_domain::Workspace {
    let user = user_id();
    let role = codehub_domain::user::Role::User;
    let made = store.user_create(by(), user, &format!("user {user}"), "hash", role).await.unwrap();
    assert!(matches!(made, UserChange::Done(_)));
    let new = new_workspace(user, "work", Desired::Running);
    match store.workspace_create(by(), new, Limits::NONE, Actor::Operator).await.unwrap() {
        Created::Created(workspace) => *workspace,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn it_is_the_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/codehub.db");
    let store = SqliteStore::open(&path).await.unwrap();
    with_workspace(&store).await;
    assert_eq!(store.path(), path);
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", file.file_name());
    }
    // A file that somebody opened up is closed again.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    SqliteStore::open(&path).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn opening_again_keeps_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let made = with_workspace(&store).await;
    let epoch = store.epoch_take("first").await.unwrap();
    store.close().await;
    for _ in 0..2 {
        let store = SqliteStore::open(&path).await.unwrap();
        assert_eq!(store.workspace_get(made.id).await.unwrap().as_ref(), Some(&made));
        assert!(store.epoch_is_current(epoch).await.unwrap());
        store.close().await;
    }
}

/// What is on the disk at the moment of a commit is enough: taken away from under a store that never
/// closed, as after a crash.
#[tokio::test]
async fn a_commit_survives_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let made = with_workspace(&store).await;
    let open_write = store.write().await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["codehub.db", "codehub.db-wal"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    drop(open_write);
    let survivor = SqliteStore::open(copy.path().join("codehub.db")).await.unwrap();
    assert_eq!(survivor.workspace_get(made.id).await.unwrap(), Some(made));
}

#[tokio::test]
async fn commits_are_synced_and_keys_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("codehub.db")).await.unwrap();
    let mut write = store.write().await.unwrap();
    for (pragma, expected) in
        [("PRAGMA synchronous", 2), ("PRAGMA foreign_keys", 1), ("PRAGMA busy_timeout", 5000)]
    {
        let value: i64 = sqlx::query_scalar(pragma).fetch_one(write.connection()).await.unwrap();
        assert_eq!(value, expected, "{pragma}");
    }
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(write.connection()).await.unwrap();
    assert_eq!(mode, "wal");
    let refused = sqlx::query("DELETE FROM users").execute(&store.readers).await;
    assert!(refused.is_err(), "readers only read");
}

#[tokio::test]
async fn migrations_are_told_before_they_are_done() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    let status = SqliteStore::migrate_status(&path).await.unwrap();
    assert_eq!((status.applied.len(), status.unknown.len()), (0, 0));
    assert_eq!((status.pending[0].version, status.pending[0].description.as_str()), (1, "initial"));
    assert!(!path.exists(), "asking makes nothing");
    let all: Vec<_> = status.pending.iter().map(|pending| pending.version).collect();
    SqliteStore::open(&path).await.unwrap();
    let status = SqliteStore::migrate_status(&path).await.unwrap();
    assert_eq!((status.applied, status.pending.len()), (all, 0));
}

async fn refusal(path: &Path) -> StoreError {
    SqliteStore::open(path).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    let store = SqliteStore::open(&path).await.unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', 1, x'00', 0)",
    )
    .execute(&store.writer)
    .await
    .unwrap();
    store.close().await;
    let error = refusal(&path).await;
    assert!(
        matches!(&error, StoreError::Failed(why) if why.contains("newer") && why.contains("9999")),
        "{error}"
    );
    assert_eq!(SqliteStore::migrate_status(&path).await.unwrap().unknown, [9999]);
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let garbage = directory.path().join("garbage.db");
    fs::write(&garbage, "this is not a database, however long it may become".repeat(100)).unwrap();
    let error = refusal(&garbage).await;
    assert!(matches!(&error, StoreError::Failed(why) if why.contains("damaged")), "{error}");

    let below_a_file = garbage.join("codehub.db");
    let error = refusal(&below_a_file).await;
    assert!(matches!(&error, StoreError::Unreachable(why) if why.contains("garbage.db")), "{error}");
}

/// SQLite's own page limit stands in for the disk's end.
#[tokio::test]
async fn a_full_disk_is_said_and_survived() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("codehub.db")).await.unwrap();
    let made = with_workspace(&store).await;
    sqlx::query("PRAGMA max_page_count = 1").execute(&store.writer).await.unwrap();
    let mut changes = store.changes();
    let edit = Edit { memo: Some("x".repeat(100_000)), ..Edit::default() };
    let error = store.workspace_edit(by(), made.id, edit.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert_eq!(store.workspace_get(made.id).await.unwrap().as_ref(), Some(&made));
    assert!(changes.try_recv().is_err(), "nothing happened");
    // There is room again (the limit went with its connection), and the store goes on.
    assert_eq!(store.workspace_edit(by(), made.id, edit).await.unwrap().unwrap().revision, made.revision + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_may_write_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    let (one, two) = (SqliteStore::open(&path).await.unwrap(), SqliteStore::open(&path).await.unwrap());
    let shared = || Allowance {
        key: "shared".into(),
        free: 1000,
        first_wait_seconds: 1,
        longest_wait_seconds: 1,
        forget_after_seconds: 600,
    };
    let count = |store: SqliteStore| {
        tokio::spawn(async move {
            for _ in 0..50 {
                store.attempts_count(&[shared()]).await.unwrap();
            }
            store
        })
    };
    let (one, two) = (count(one), count(two));
    let (one, _two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!(one.attempts_get("shared").await.unwrap().unwrap().failures, 100);
}

/// A caller that goes away in the middle leaves either nothing, or a change that was announced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_leaves_no_silent_commit() {
    let directory = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(SqliteStore::open(directory.path().join("codehub.db")).await.unwrap());
    let made = with_workspace(&store).await;
    let mut changes = store.changes();
    for n in 0..200_u32 {
        let asking = store.clone();
        let edit = Edit { memo: Some(n.to_string()), ..Edit::default() };
        let id = made.id;
        let call = tokio::spawn(async move { asking.workspace_edit(by(), id, edit).await });
        let_time_pass(std::time::Duration::from_micros(u64::from(n) * 10)).await;
        call.abort();
        let _ = call.await;
    }
    // Whatever is still being committed is before this one.
    store.setting_put("barrier", "").await.unwrap();
    let mut announced = 0;
    while let Ok(change) = changes.try_recv() {
        announced += i64::from(matches!(change, Change::Updated { .. }));
    }
    let after = store.workspace_get(made.id).await.unwrap().unwrap();
    assert_eq!(after.revision - made.revision, announced);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_may_open_it_for_the_first_time_at_once() {
    for _ in 0..30 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("codehub.db");
        let opening = (0..3).map(|_| {
            let path = path.clone();
            tokio::spawn(async move { SqliteStore::open(&path).await })
        });
        for opened in futures::future::join_all(opening).await {
            assert_eq!(opened.unwrap().unwrap().user_count().await.unwrap(), 0);
        }
    }
}

/// The command line beside a running server.
#[tokio::test]
async fn what_another_process_writes_is_noticed_and_our_own_is_not_taken_for_it() {
    use std::time::Duration;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let mut changes = store.changes();
    let other = SqliteStore::open(&path).await.unwrap();
    let resync = async |changes: &mut crate::Changes, within: Duration| {
        tokio::time::timeout(within, async { while changes.recv().await.unwrap() != Change::Resync {} }).await
    };
    with_workspace(&store).await;
    resync(&mut changes, Duration::from_secs(3)).await.expect_err("nobody else has written");
    for _ in 0..2 {
        with_workspace(&other).await;
        resync(&mut changes, Duration::from_secs(10)).await.expect("somebody else has");
    }
    resync(&mut changes, Duration::from_secs(3)).await.expect_err("and said so once");
}
