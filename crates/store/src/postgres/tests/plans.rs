//! Ten thousand idle workspaces must cost next to nothing: the frequent questions are answered by
//! indexes.

use crate::fake::by;
use std::time::{Duration, Instant};

use codehub_domain::{UserId, ttl::TtlPolicy};
use sqlx::Row;
use uuid::Uuid;

use super::{Database, PostgresStore};
use crate::{
    Due, Leadership as _, People as _, Reconciling as _,
    sql::{SqlStore as _, reconciling, ttl, workspaces},
};

const ROWS: i64 = 10_000;

/// Mostly archived, some on standby, a few running, a handful active.
async fn crowded(store: &PostgresStore) {
    let owner = UserId::from_uuid(Uuid::now_v7());
    store.user_create(by(), owner, "u", "", codehub_domain::user::Role::User).await.unwrap();
    sqlx::query(
        "INSERT INTO workspaces (id, owner_user_id, name, name_key, description, memo, image_ref,
             home_store_key, archive_ttl_seconds, desired_state, desired_changed_at, last_access_at,
             conditions, observed_at, phase, phase_changed_at, operation, error_count, home_ctx,
             instance_backend, storage_backend, created_at, updated_at, revision, deleted_at)
         SELECT ('01890a5d-ac96-774b-bcce-' || lpad(to_hex(i), 12, '0'))::UUID, $1, 'w', 'w', '', '', '', '',
             CASE WHEN i % 5 = 0 THEN 60 + i END,
             CASE WHEN i % 2000 = 1 THEN 'RUNNING' ELSE phase END, now, now, '{}',
             CASE WHEN phase <> 'DELETED' THEN now END, phase, now, 'NONE', 0, '{\"truth\":\"volume\",\"generation\":1}', '', '', now, now, 1,
             CASE WHEN phase = 'DELETED' THEN now END
         FROM (SELECT i, codehub_now() AS now, CASE WHEN i % 100 = 0 THEN 'RUNNING'
                   WHEN i % 10 < 3 THEN 'STANDBY' WHEN i % 10 = 9 THEN 'DELETED' ELSE 'ARCHIVED' END AS phase
               FROM generate_series(0, $2 - 1) AS i) AS w",
    )
    .bind(owner.as_uuid())
    .bind(ROWS)
    .execute(&store.pool)
    .await
    .unwrap();
    sqlx::query("ANALYZE").execute(&store.pool).await.unwrap();
}

/// The plan with these values for $1, $2, … put in.
async fn plan(store: &PostgresStore, sql: &str, values: &[&str]) -> Vec<String> {
    plan_by(store, "EXPLAIN", sql, values).await
}

async fn plan_by(store: &PostgresStore, explain: &str, sql: &str, values: &[&str]) -> Vec<String> {
    let mut text = format!("{explain} {sql}");
    for (n, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!("${}", n + 1), value);
    }
    let mut undone = store.write().await.unwrap();
    let rows = sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(undone.connection()).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn the_frequent_questions_use_indexes() {
    let Some(database) = Database::create().await else { return };
    let store = database.open().await;
    crowded(&store).await;
    let now = "codehub_now()";
    let id = "'01890a5d-ac96-774b-bcce-000000000001'::UUID";
    let (_, long_ago) = (now, "1700000000000000::BIGINT");
    let ttls = ["600::BIGINT", "1800::BIGINT", "90000000::BIGINT"];
    for (sql, values, indexes) in [
        (reconciling::ACTIVE, &[][..], vec!["workspaces_active"]),
        (reconciling::RUNNING, &[], vec!["workspaces_places"]),
        (reconciling::OLDEST, &["32"], vec!["workspaces_quiet"]),
        (
            ttl::STANDBY,
            &[long_ago, "600::BIGINT", "0::BIGINT"],
            vec!["workspaces_ttl_standby", "workspaces_ttl_standby_own"],
        ),
        (
            ttl::ARCHIVE,
            &[long_ago, "600::BIGINT", "0::BIGINT"],
            vec!["workspaces_ttl_archive", "workspaces_ttl_archive_own"],
        ),
        (
            ttl::NEXT,
            &ttls,
            vec![
                "workspaces_ttl_standby",
                "workspaces_ttl_standby_own",
                "workspaces_ttl_archive",
                "workspaces_ttl_archive_own",
            ],
        ),
        (workspaces::COUNT_PLACES, &[id, id], vec!["workspaces_places"]),
    ] {
        let plan = plan(&store, sql, values).await;
        assert!(!plan.iter().any(|step| step.contains("Seq Scan on workspaces")), "{sql}: {plan:#?}");
        for index in indexes {
            let used = |step: &String| step.split([' ', '(']).any(|word| word == index);
            assert!(plan.iter().any(used), "{index} is not used by {sql}: {plan:#?}");
        }
    }
}

/// What PostgreSQL itself says about the time a statement takes; nothing it would change is changed.
async fn execution_time(store: &PostgresStore, sql: &str, values: &[&str]) -> f64 {
    let lines = plan_by(store, "EXPLAIN (ANALYZE)", sql, values).await;
    let time = lines.iter().find_map(|line| line.strip_prefix("Execution Time: ")).unwrap();
    time.trim_end_matches(" ms").parse().unwrap()
}

/// Ten times what it takes on a slow machine would still be in time.
#[tokio::test]
async fn looking_for_ttls_takes_postgresql_no_time() {
    let Some(database) = Database::create().await else { return };
    let store = database.open().await;
    crowded(&store).await;
    let mut best = f64::MAX;
    for _ in 0..3 {
        let mut sum = 0.0;
        for sql in [ttl::STANDBY, ttl::ARCHIVE] {
            sum += execution_time(&store, sql, &["codehub_now()", "600::BIGINT", "0::BIGINT"]).await;
        }
        best = best.min(sum);
    }
    println!("both TTLs among {ROWS} workspaces: {best} ms at PostgreSQL");
    assert!(best < 20.0, "{best} ms");
}

/// Prints what it measures; machines differ too much to assert it.
#[tokio::test]
async fn the_frequent_questions_are_quick() {
    let Some(database) = Database::create().await else { return };
    let store = database.open().await;
    crowded(&store).await;
    let epoch = store.epoch_take("test").await.unwrap();
    let policy =
        TtlPolicy { standby_seconds: 600, archive_seconds: 1800, unseen_activity: Duration::from_secs(90) };
    for round in 0..3 {
        let started = Instant::now();
        let active = store.workspaces_due(Due::Active).await.unwrap().workspaces.len();
        let due = started.elapsed();
        let started = Instant::now();
        let full = store.workspaces_due(Due::Full { also_oldest: 100 }).await.unwrap().workspaces;
        let due_full = started.elapsed();
        assert!(full.iter().all(|found| found.deleted_at.is_none()), "what is gone is not looked at");
        let full = full.len();
        let started = Instant::now();
        assert_eq!(store.ttl_expire(epoch, &policy).await.unwrap(), []);
        let expire = started.elapsed();
        let started = Instant::now();
        assert!(store.ttl_next(&policy).await.unwrap().is_some());
        let next = started.elapsed();
        println!(
            "round {round}, {ROWS} rows: active ({active}) {due:?}, full ({full}) {due_full:?}, \
             TTL {expire:?}, next TTL {next:?}"
        );
        assert_eq!((active, full), (5, 205));
    }
}
