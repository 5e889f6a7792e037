//! A database of the version before becomes one of this version, with a process of that version beside it.

use crate::fake::by;
use codehub_domain::{Desired, user::Role};
use sqlx::{Connection, PgConnection, migrate::Migrate};

use super::{super::migrate::MIGRATIONS, Database, PostgresStore, server::with_workspace};
use crate::{Due, Leadership as _, People as _, Reconciling as _, Workspaces as _, contract::user_id};

const WORKSPACES: &str = "
    INSERT INTO workspaces (id, owner_user_id, name, name_key, description, memo, image_ref, home_store_key,
        desired_state, desired_changed_at, last_access_at, conditions, phase, phase_changed_at, operation,
        error_reason, error_message, error_count, home_ctx, instance_backend, storage_backend, created_at,
        updated_at, revision, deleted_at, held_until)
    SELECT ('01890a5d-ac96-774b-bcce-' || lpad(to_hex(n), 12, '0'))::UUID, users.id, 'Work', 'work', 'for', 'memo',
        'image', 'key', desired, 1, 2, '{}', phase, 3, 'NONE', reason, CASE WHEN reason IS NOT NULL THEN 'why' END,
        n, '{\"truth\":\"volume\",\"generation\":1}', 'docker', 'docker', 4, 5, n,
        CASE WHEN desired = 'DELETED' THEN 9 END, CASE WHEN n = 1 THEN 77 END
    FROM users, (VALUES (1, 'RUNNING', 'RUNNING', NULL), (2, 'STANDBY', 'ERROR', 'DataLost'),
        (3, 'RUNNING', 'ERROR', 'ActionFailed'), (4, 'DELETED', 'DELETED', NULL)) AS w (n, desired, phase, reason)
    WHERE users.username = 'Ann'";

const OLD_COLUMNS: &str = "SELECT concat_ws(', ', id, owner_user_id, name, description, memo, image_ref,
    home_store_key, desired_state, deleted_at, last_access_at, held_until, conditions, phase, operation,
    error_reason, error_message, error_count, home_ctx, instance_backend, storage_backend, created_at,
    updated_at, revision, takes_place, rests, active) FROM workspaces ORDER BY id";

#[tokio::test]
async fn nothing_is_lost_and_an_older_version_goes_on() {
    let Some(database) = Database::create().await else { return };
    let mut old = PgConnection::connect(&database.url()).await.unwrap();
    old.ensure_migrations_table("_sqlx_migrations").await.unwrap();
    for migration in MIGRATIONS.iter().filter(|migration| migration.version < 8) {
        old.apply("_sqlx_migrations", migration).await.unwrap();
    }
    for (username, password_hash, deleted) in [("Ann", "hash", None), ("Gone", "", Some(5_i64))] {
        sqlx::query(
            "INSERT INTO users (id, username, username_key, password_hash, role, created_at, updated_at, deleted_at)
             VALUES ($1, $2, lower($2), $3, 'user', 1, 1, $4)",
        )
        .bind(user_id().as_uuid())
        .bind(username)
        .bind(password_hash)
        .bind(deleted)
        .execute(&mut old)
        .await
        .unwrap();
    }
    sqlx::query(WORKSPACES).execute(&mut old).await.unwrap();
    let before: Vec<String> = sqlx::query_scalar(OLD_COLUMNS).fetch_all(&mut old).await.unwrap();
    assert_eq!(before.len(), 4);

    let store: PostgresStore = database.open().await;
    let after: Vec<String> = sqlx::query_scalar(OLD_COLUMNS).fetch_all(&mut old).await.unwrap();
    assert_eq!(after, before, "the rules of generated columns say the same, too");
    let ann = store.user_by_name("ann").await.unwrap().unwrap();
    assert_eq!(ann.password_hash.as_deref(), Some("hash"));
    let slugs: Vec<String> =
        sqlx::query_scalar("SELECT slug FROM workspaces ORDER BY id").fetch_all(&mut old).await.unwrap();
    assert_eq!(slugs, ["work", "work-2", "work-3", ""], "a deleted one needs none");

    // What the older version writes meanwhile is read, and named at the next start.
    let other = WORKSPACES.replace("'01890a5d-ac96-774b-bcce-'", "'01890a5d-ac96-774b-bccf-'");
    sqlx::query(sqlx::AssertSqlSafe(other)).execute(&mut old).await.unwrap();
    let made = with_workspace(&store, Desired::Standby).await;
    assert_eq!(store.workspace_get(made.id).await.unwrap(), Some(made));
    let epoch = store.epoch_take("test").await.unwrap();
    let read = store.workspaces_due(Due::Full { also_oldest: 9 }).await.unwrap().workspaces;
    assert_eq!(read.iter().filter(|found| found.slug.is_empty()).count(), 3);
    store.workspaces_observed(epoch, &[read[0].id]).await.unwrap();
    store.close().await;
    let store = database.open().await;
    let read = store.workspaces_due(Due::Full { also_oldest: 9 }).await.unwrap().workspaces;
    assert!(read.iter().all(|found| !found.slug.is_empty()));
    store.user_create(by(), user_id(), "Bob", "hash", Role::User).await.unwrap();
}
