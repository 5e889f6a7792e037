//! Ten thousand idle workspaces must cost next to nothing: the frequent questions are answered by
//! indexes.

use std::time::Instant;

use codehub_domain::{Phase, ttl::TtlPolicy};
use sqlx::Row;

use super::{super::spelling::spelled, SqliteStore};
use crate::{
    Due, Leadership as _, ListFilter, ListOrder, People as _, Reconciling as _, Workspaces as _,
    sql::{SqlStore as _, SqlWrite as _, reconciling, ttl, workspaces},
};

const ROWS: i64 = 10_000;

async fn crowded() -> (SqliteStore, tempfile::TempDir) {
    crowded_with(ROWS).await
}

/// Mostly archived, some on standby, some deleted, a few running, a handful active.
async fn crowded_with(rows: i64) -> (SqliteStore, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("codehub.db")).await.unwrap();
    let mut write = store.write().await.unwrap();
    let now = write.now().await.unwrap().as_microsecond();
    sqlx::query(
        "INSERT INTO users (id, username, username_key, password_hash, role, created_at, updated_at)
         VALUES ('01890a5d-ac96-774b-bcce-b302099a8057', 'u', 'u', '', 'user', ?1, ?1)",
    )
    .bind(now)
    .execute(write.connection())
    .await
    .unwrap();
    sqlx::query(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2),
              w (i, phase) AS (SELECT i, CASE WHEN i % 100 = 0 THEN 'RUNNING' WHEN i % 10 < 3 THEN 'STANDBY'
                                              WHEN i % 10 = 9 THEN 'DELETED' ELSE 'ARCHIVED' END FROM n)
         INSERT INTO workspaces (id, owner_user_id, name, name_key, description, memo, image_ref,
             home_store_key, archive_ttl_seconds, desired_state, desired_changed_at, last_access_at,
             conditions, observed_at, phase, phase_changed_at, operation, error_count, home_ctx,
             instance_backend, storage_backend, created_at, updated_at, revision, deleted_at)
         SELECT printf('01890a5d-ac96-774b-bcce-%012x', i), '01890a5d-ac96-774b-bcce-b302099a8057', 'w', 'w',
             '', '', '', '', CASE WHEN i % 5 = 0 THEN 60 + i END,
             CASE WHEN i % 2000 = 1 THEN 'RUNNING' ELSE phase END, ?1, ?1, '{}',
             CASE WHEN phase <> 'DELETED' THEN ?1 END, phase, ?1, 'NONE', 0,
             '{\"truth\":\"volume\",\"generation\":1}', '', '', ?1, ?1, 1,
             CASE WHEN phase = 'DELETED' THEN ?1 END
         FROM w",
    )
    .bind(now)
    .bind(rows)
    .execute(write.connection())
    .await
    .unwrap();
    write.commit().await.unwrap();
    (store, directory)
}

async fn plan(store: &SqliteStore, sql: &str) -> Vec<String> {
    let rows = sqlx::query(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", spelled(sql))))
        .fetch_all(&store.readers)
        .await
        .unwrap();
    rows.iter().map(|row| row.get("detail")).collect()
}

#[tokio::test]
async fn the_frequent_questions_use_indexes() {
    let (store, _directory) = crowded().await;
    for (sql, indexes) in [
        (reconciling::ACTIVE, vec!["workspaces_active"]),
        (reconciling::RUNNING, vec!["workspaces_places"]),
        (reconciling::OLDEST, vec!["workspaces_quiet"]),
        (ttl::STANDBY, vec!["workspaces_ttl_standby", "workspaces_ttl_standby_own"]),
        (ttl::ARCHIVE, vec!["workspaces_ttl_archive", "workspaces_ttl_archive_own"]),
        (
            ttl::NEXT,
            vec![
                "workspaces_ttl_standby",
                "workspaces_ttl_standby_own",
                "workspaces_ttl_archive",
                "workspaces_ttl_archive_own",
            ],
        ),
        (workspaces::COUNT_PLACES, vec!["workspaces_places"]),
    ] {
        let plan = plan(&store, sql).await;
        for step in plan.iter().filter(|step| step.contains("workspaces")) {
            assert!(step.contains("USING INDEX") || step.contains("USING COVERING INDEX"), "{step} in {sql}");
        }
        for index in indexes {
            let used = |step: &String| step.split([' ', '(']).any(|word| word == index);
            assert!(plan.iter().any(used), "{index} is not used by {sql}: {plan:#?}");
        }
    }
}

/// Prints what it measures; machines differ too much to assert it.
#[tokio::test]
async fn the_frequent_questions_are_quick() {
    let (store, _directory) = crowded().await;
    let epoch = store.epoch_take("test").await.unwrap();
    let policy = TtlPolicy {
        standby_seconds: 600,
        archive_seconds: 1800,
        unseen_activity: std::time::Duration::from_secs(90),
    };
    for round in 0..2 {
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

/// What a page of 50 costs among few and among very many, and what counting them all for every page would
/// cost on top. Prints; run it with `--ignored --nocapture`.
#[tokio::test]
#[ignore = "measures"]
async fn a_page_among_many() {
    for rows in [1_000, 100_000] {
        let (store, _directory) = crowded_with(rows).await;
        let all = ListFilter { limit: 50, ..ListFilter::default() };
        let owner = store.user_by_name("u").await.unwrap().unwrap().user.id;
        let first = store.workspace_list(&all).await.unwrap();
        let mut counting = std::time::Duration::MAX;
        for _ in 0..20 {
            let started = Instant::now();
            let count = "SELECT count(*) AS n FROM workspaces WHERE deleted_at IS NULL";
            store.select(count, Vec::new()).await.unwrap();
            counting = counting.min(started.elapsed());
        }
        println!("{rows} rows: counting them all takes {counting:?}");
        let middle =
            crate::contract::workspace_id_of(0x0189_0a5d_ac96_774b_bcce_0000_0000_0000 + rows as u128 / 2);
        for (what, filter) in [
            ("first page, everybody's", all.clone()),
            ("a page in the middle", ListFilter { before: Some(middle), ..all.clone() }),
            ("what was used last", ListFilter { order: ListOrder::Used, ..all.clone() }),
            (
                "what was used last, in the middle",
                ListFilter { order: ListOrder::Used, skip: u32::try_from(rows / 2).unwrap(), ..all.clone() },
            ),
            (
                "what one owner used last",
                ListFilter { order: ListOrder::Used, owner: Some(owner), ..all.clone() },
            ),
            ("one owner's", ListFilter { owner: Some(owner), ..all.clone() }),
            (
                "one owner's running",
                ListFilter { owner: Some(owner), phase: Some(Phase::Running), ..all.clone() },
            ),
        ] {
            let mut best = std::time::Duration::MAX;
            for _ in 0..20 {
                let started = Instant::now();
                let page = store.workspace_list(&filter).await.unwrap();
                best = best.min(started.elapsed());
                assert!(!page.items.is_empty());
            }
            println!("{rows} rows, {what}: {best:?} (total {:?})", first.total);
        }
    }
}
