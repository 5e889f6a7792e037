//! The SQL of the TTLs against the domain's rule, at any moment, down to the microsecond: the statements
//! are given a time of the test's choosing, in a transaction that is rolled back.

use std::{collections::BTreeMap, time::Duration};

use codehub_domain::{
    Desired, Timestamp, Workspace, WorkspaceId,
    ttl::{TtlPolicy, expired},
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use sqlx::Row;

use super::{super::spelling::spelled, SqliteStore, file::with_workspace};
use crate::{
    Workspaces as _,
    sql::{SqlStore as _, SqlWrite as _, ttl},
};

const BASE: i64 = 1_700_000_000_000_000;

/// (runs, phase changed, last access, own TTL): times and TTLs from so small a range that every boundary is met.
fn rows() -> impl Strategy<Value = Vec<(bool, i64, i64, Option<u32>)>> {
    let ttl = prop_oneof![Just(None), (0..4_u32).prop_map(Some)];
    let moment = prop_oneof![0..8_i64, (0..8_i64).prop_map(|second| second * 1_000_000)];
    proptest::collection::vec((any::<bool>(), moment.clone(), moment, ttl), 30)
}

async fn decided_at(store: &SqliteStore, now: i64, policy: &TtlPolicy) -> BTreeMap<WorkspaceId, Desired> {
    let mut write = store.write().await.unwrap();
    let mut decided = BTreeMap::new();
    for (sql, seconds, grace, to) in [
        (ttl::STANDBY, policy.standby_seconds, policy.unseen_activity, Desired::Standby),
        (ttl::ARCHIVE, policy.archive_seconds, Duration::ZERO, Desired::Archived),
    ] {
        let rows = sqlx::query(sqlx::AssertSqlSafe(spelled(sql)))
            .bind(now)
            .bind(seconds)
            .bind(i64::try_from(grace.as_micros()).unwrap())
            .fetch_all(write.connection())
            .await
            .unwrap();
        decided.extend(rows.iter().map(|row| (row.get::<&str, _>("id").parse().unwrap(), to)));
    }
    decided
}

/// Straight into the file: no port writes an access into the past.
async fn written(store: &SqliteStore, rows: &[(bool, i64, i64, Option<u32>)]) -> Vec<Workspace> {
    let mut ids = Vec::new();
    for (running, changed, accessed, own) in rows {
        let id = with_workspace(store).await.id;
        let mut write = store.write().await.unwrap();
        sqlx::query(
            "UPDATE workspaces SET phase = ?2, desired_state = ?2, phase_changed_at = ?3, last_access_at = ?4,
                 standby_ttl_seconds = ?5, archive_ttl_seconds = ?5
             WHERE id = ?1",
        )
        .bind(id.to_string())
        .bind(if *running { "RUNNING" } else { "STANDBY" })
        .bind(BASE + changed)
        .bind(BASE + accessed)
        .bind(own)
        .execute(write.connection())
        .await
        .unwrap();
        write.commit().await.unwrap();
        ids.push(id);
    }
    store.workspaces_get(&ids).await.unwrap()
}

#[tokio::test]
async fn the_statements_are_the_rule() {
    let mut runner = TestRunner::deterministic();
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("codehub.db")).await.unwrap();
    let rows = written(&store, &rows().new_tree(&mut runner).unwrap().current()).await;
    let (mut some, mut none) = (0, 0);
    for (standby_seconds, archive_seconds, grace_micros) in
        [(0, 0, 0), (1, 2, 0), (2, 1, 3), (0, 3, 1_000_000), (3, 0, 1)]
    {
        let unseen_activity = Duration::from_micros(grace_micros);
        let policy = TtlPolicy { standby_seconds, archive_seconds, unseen_activity };
        for second in 0..12 {
            for micro in [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] {
                let now = BASE + second * 1_000_000 + micro;
                let at = Timestamp::from_microsecond(now).unwrap();
                let expected: BTreeMap<_, _> =
                    rows.iter().filter_map(|row| expired(row, &policy, at).map(|to| (row.id, to))).collect();
                assert_eq!(
                    decided_at(&store, now, &policy).await,
                    expected,
                    "{policy:?} at {second}.{micro}"
                );
                some += expected.len();
                none += rows.len() - expected.len();
            }
        }
    }
    assert!(some > 1000 && none > 1000, "the test tests something: {some}, {none}");
}
