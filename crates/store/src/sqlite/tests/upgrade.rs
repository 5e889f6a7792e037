//! A database of the version before, with every kind of row, becomes one of this version: nothing is lost,
//! whatever dies in the middle.

use std::{collections::BTreeMap, fs, path::Path};

use sqlx::{
    AssertSqlSafe, Connection, SqliteConnection,
    migrate::{Migrate, Migration},
};

use super::{super::migrate::MIGRATIONS, super::options, SqliteStore};
use crate::{ListFilter, People as _, Workspaces as _};

/// The migration that rebuilds tables.
const REBUILDS: i64 = 8;

const ANN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const GONE: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

/// Every table has rows, and every nullable column is somewhere NULL and somewhere not.
const ROWS: &str = r#"
INSERT INTO users (id, username, username_key, password_hash, role, disabled, created_at, updated_at, deleted_at)
VALUES ('01890a5d-ac96-774b-bcce-b302099a8057', 'Ann', 'ann', 'hash', 'admin', 0, 1, 2, NULL),
       ('01890a5d-ac96-774b-bcce-b302099a8058', 'Gone', 'gone', '', 'user', 1, 3, 4, 5),
       ('01890a5d-ac96-774b-bcce-b302099a8059', 'Gone', 'gone', 'other', 'user', 1, 3, 4, NULL);
INSERT INTO sessions VALUES ('01890a5d-ac96-774b-bcce-000000000001', '01890a5d-ac96-774b-bcce-b302099a8057', x'0102', 1, 9000000000000000, 3);
INSERT INTO api_tokens VALUES ('01890a5d-ac96-774b-bcce-000000000002', '01890a5d-ac96-774b-bcce-b302099a8057', 'ci', x'03', 1, NULL, NULL),
       ('01890a5d-ac96-774b-bcce-000000000003', '01890a5d-ac96-774b-bcce-b302099a8057', 'old', x'04', 1, 2, 3);
INSERT INTO login_attempts VALUES ('ann 127.0.0.1', 3, 4, 9000000000000000);
INSERT INTO settings VALUES ('deployment', 'here');
UPDATE leader SET epoch = 41, holder = 'somebody', taken_at = 7;
UPDATE leader_heartbeat SET beat_at = 8;
INSERT INTO replicas VALUES ('one', '1.0', 'all', 1, 2, NULL), ('two', '1.0', 'api', 1, 2, 3);
INSERT INTO gc_sightings VALUES ('volume:01890a5d-ac96-774b-bcce-000000000010:1', 5);
INSERT INTO gc_claims VALUES ('volume:01890a5d-ac96-774b-bcce-000000000010:1', 6);
INSERT INTO workspaces (id, owner_user_id, name, name_key, description, memo, image_ref, home_store_key,
    standby_ttl_seconds, archive_ttl_seconds, desired_state, desired_changed_at, deleted_at, last_access_at,
    conditions, observed_at, phase, phase_changed_at, operation, op_started_at, op_moved_at, op_id, archive_key,
    error_reason, error_message, error_count, next_retry_at, home_ctx, progress, instance_backend,
    storage_backend, created_at, updated_at, revision, activity_mode, held_until)
WITH kinds (n, desired, deleted, phase, operation, reason) AS (VALUES
    (1, 'RUNNING', NULL, 'RUNNING', 'NONE', NULL), (2, 'RUNNING', NULL, 'STANDBY', 'STARTING', NULL),
    (3, 'STANDBY', NULL, 'ERROR', 'NONE', 'DataLost'), (4, 'RUNNING', NULL, 'ERROR', 'NONE', 'ActionFailed'),
    (5, 'DELETED', 9, 'DELETED', 'NONE', NULL), (6, 'DELETED', 9, 'ERROR', 'NONE', 'Timeout'),
    (7, 'ARCHIVED', NULL, 'ARCHIVED', 'NONE', NULL), (8, 'RUNNING', NULL, 'RUNNING', 'NONE', 'Unreachable'))
SELECT printf('01890a5d-ac96-774b-bcce-0000000001%02x', n),
    CASE n WHEN 5 THEN '01890a5d-ac96-774b-bcce-b302099a8058' ELSE '01890a5d-ac96-774b-bcce-b302099a8057' END,
    'Work', 'work', 'what for', 'note ' || n, 'image:1', 'users/u/workspaces/w/home',
    CASE n % 2 WHEN 0 THEN 60 END, CASE n % 3 WHEN 0 THEN 0 END, desired, n, deleted, n + 1, '{}',
    CASE n % 2 WHEN 0 THEN n END, phase, n + 2, operation, CASE operation WHEN 'NONE' THEN NULL ELSE 3 END,
    CASE operation WHEN 'NONE' THEN NULL ELSE 4 END,
    CASE operation WHEN 'NONE' THEN NULL ELSE '01890a5d-ac96-774b-bcce-0000000000aa' END,
    CASE n WHEN 7 THEN '01890a5d-ac96-774b-bcce-000000000107/01890a5d-ac96-774b-bcce-0000000000ab/home.tar.zst' END,
    reason, CASE WHEN reason IS NOT NULL THEN 'why' END, n, CASE n WHEN 4 THEN 99 END,
    '{"truth":"volume","generation":1}', CASE n WHEN 2 THEN '{"done":1,"total":2,"rate":3}' END,
    CASE n % 2 WHEN 0 THEN 'process' ELSE '' END, CASE n % 2 WHEN 0 THEN 'directory' ELSE '' END, n, n, n,
    CASE n WHEN 1 THEN 'connections' END, CASE n WHEN 1 THEN 77 END
FROM kinds;
INSERT INTO workspace_holds VALUES ('01890a5d-ac96-774b-bcce-000000000004', '01890a5d-ac96-774b-bcce-000000000101', '01890a5d-ac96-774b-bcce-b302099a8057', 'a build', 1, 77);
INSERT INTO workspace_events (workspace_id, at, from_phase, to_phase, operation, reason, actor)
SELECT id, 1, 'PENDING', phase, operation, 'created', 'user:' || owner_user_id FROM workspaces;
DELETE FROM workspace_events WHERE id = 8;
"#;

async fn connect(path: &Path) -> SqliteConnection {
    let options = options(path).create_if_missing(true).foreign_keys(false);
    SqliteConnection::connect_with(&options).await.unwrap()
}

async fn old_database(path: &Path) {
    let mut connection = connect(path).await;
    sqlx::query("PRAGMA journal_mode = WAL").execute(&mut connection).await.unwrap();
    connection.ensure_migrations_table("_sqlx_migrations").await.unwrap();
    for migration in MIGRATIONS.iter().filter(|migration| migration.version < REBUILDS) {
        connection.apply("_sqlx_migrations", migration).await.unwrap();
    }
    sqlx::query("PRAGMA foreign_keys = ON").execute(&mut connection).await.unwrap();
    sqlx::raw_sql(ROWS).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

type Dump = BTreeMap<String, (Vec<String>, Vec<String>)>;

/// Every table, by the columns that `like` has of it (its own, where it is the first).
async fn dump(path: &Path, like: Option<&Dump>) -> Dump {
    let mut connection = connect(path).await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let mut dump = Dump::new();
    for table in tables {
        let columns = match like.and_then(|like| like.get(&table)) {
            Some((columns, _)) => columns.clone(),
            None => sqlx::query_scalar("SELECT name FROM pragma_table_info(?1) ORDER BY name")
                .bind(&table)
                .fetch_all(&mut connection)
                .await
                .unwrap(),
        };
        let quoted: Vec<_> = columns.iter().map(|column| format!("quote({column})")).collect();
        let sql = format!("SELECT {} AS row FROM {table} ORDER BY row", quoted.join(" || ', ' || "));
        let rows = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();
        dump.insert(table, (columns, rows));
    }
    connection.close().await.unwrap();
    dump
}

/// Opens it with this version, and compares everything that was there.
async fn upgraded(path: &Path, before: &Dump) {
    SqliteStore::open(path).await.unwrap().close().await;
    let mut after = dump(path, Some(before)).await;
    // An account that is gone has no password instead of an empty one.
    let users = &mut after.get_mut("users").unwrap().1;
    for user in users.iter_mut().filter(|user| user.contains(GONE)) {
        *user = user.replace("NULL, 'user'", "'', 'user'");
    }
    // Tables that are new are empty.
    after.retain(|table, (_, rows)| before.contains_key(table) || !rows.is_empty());
    assert_eq!(&after, before);
    let mut connection = connect(path).await;
    let broken: i64 = sqlx::query_scalar("SELECT count(*) FROM pragma_foreign_key_check")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    let whole: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
    assert_eq!((broken, whole.as_str()), (0, "ok"));
    connection.close().await.unwrap();
}

#[tokio::test]
async fn nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    old_database(&path).await;
    let before = dump(&path, None).await;
    assert!(before.iter().all(|(table, (_, rows))| table == "sqlite_sequence" || !rows.is_empty()));
    upgraded(&path, &before).await;

    let store = SqliteStore::open(&path).await.unwrap();
    let page = store.workspace_list(&ListFilter { limit: 99, ..ListFilter::default() }).await.unwrap();
    let mut slugs: Vec<_> = page.items.iter().map(|found| found.slug.as_str()).collect();
    slugs.sort_unstable();
    assert_eq!(slugs, ["work", "work-2", "work-3", "work-4", "work-5", "work-6"]);
    let ann = store.user_by_name("ann").await.unwrap().unwrap();
    assert_eq!((ann.user.id.to_string().as_str(), ann.password_hash.as_deref()), (ANN, Some("hash")));
    let mut connection = connect(&path).await;
    let active: Vec<String> =
        sqlx::query_scalar("SELECT substr(id, -1) FROM workspaces WHERE active ORDER BY id")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    assert_eq!(active, ["2", "4", "6"], "the rule says the same of every row");
    let next: i64 = sqlx::query_scalar(
        "INSERT INTO workspace_events (workspace_id, at, from_phase, to_phase, operation, reason, actor)
         SELECT id, 1, phase, phase, operation, 'later', 'ttl' FROM workspaces LIMIT 1 RETURNING id",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(next, 9, "a number of the history is given once");
}

/// `kill -9` after each of its statements: what is on the disk at that moment, in another place, opens as if
/// nothing had happened, and is upgraded then.
#[tokio::test]
async fn dying_in_the_middle_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    old_database(&path).await;
    let before = dump(&path, None).await;
    let migration: &Migration = MIGRATIONS.iter().find(|found| found.version == REBUILDS).unwrap();
    let script = migration.sql.as_str().to_owned();
    let statements: Vec<&str> =
        script.split_inclusive(";\n").filter(|text| !text.trim().is_empty()).collect();
    assert!(statements.len() > 20, "{}", statements.len());
    let mut connection = connect(&path).await;
    // So small a cache puts half a transaction into the log long before its end.
    sqlx::raw_sql("PRAGMA cache_size = 1; PRAGMA wal_autocheckpoint = 0; BEGIN IMMEDIATE")
        .execute(&mut connection)
        .await
        .unwrap();
    for (n, statement) in statements.iter().enumerate() {
        sqlx::raw_sql(AssertSqlSafe((*statement).to_owned())).execute(&mut connection).await.unwrap();
        if n % 3 != 0 && n + 1 != statements.len() {
            continue;
        }
        let elsewhere = directory.path().join(format!("killed-{n}"));
        fs::create_dir(&elsewhere).unwrap();
        for file in ["codehub.db", "codehub.db-wal"] {
            fs::copy(directory.path().join(file), elsewhere.join(file)).unwrap();
        }
        upgraded(&elsewhere.join("codehub.db"), &before).await;
    }
    drop(connection);
    upgraded(&path, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_may_upgrade_it_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    old_database(&path).await;
    let before = dump(&path, None).await;
    let opening = (0..3).map(|_| {
        let path = path.clone();
        tokio::spawn(async move { SqliteStore::open(&path).await })
    });
    for opened in futures::future::join_all(opening).await {
        opened.unwrap().unwrap().close().await;
    }
    upgraded(&path, &before).await;
}

/// A reference without its row, which only another tool can have made: the migration refuses, and changes
/// nothing.
#[tokio::test]
async fn a_broken_reference_stops_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("codehub.db");
    old_database(&path).await;
    let mut connection = connect(&path).await;
    sqlx::raw_sql("UPDATE sessions SET user_id = 'nobody'").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let before = dump(&path, None).await;
    let error = SqliteStore::open(&path).await.unwrap_err().to_string();
    assert!(error.contains("migration 8"), "{error}");
    assert_eq!(dump(&path, None).await, before);
}
