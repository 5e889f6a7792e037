//! Several processes on one database, and a pooler between it and them.

use super::{Database, PostgresStore};
use crate::store::{Company, ReplicaNote, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bus_there_is_one() {
    let Some(database) = Database::create().await else { return };
    let (one, two) = (database.open().await, database.open().await);
    let mut alone = one.presence_enter(Company::Alone).await.unwrap().expect("the first");
    alone.check().await.unwrap();
    assert!(two.presence_enter(Company::Alone).await.unwrap().is_none());
    assert!(two.presence_enter(Company::Welcome).await.unwrap().is_none(), "it would not be heard");
    drop(alone);
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let _first = one.presence_enter(Company::Welcome).await.unwrap().expect("free again");
    let _second = two.presence_enter(Company::Welcome).await.unwrap().expect("any number");
    assert!(one.presence_enter(Company::Alone).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_seen_until_they_leave() {
    let Some(database) = Database::create().await else { return };
    let store = database.open().await;
    let note = |name: &str| ReplicaNote { name: name.into(), version: "1".into(), role: "all".into() };
    store.replica_note(&note("a")).await.unwrap();
    store.age(std::time::Duration::from_secs(60)).await;
    store.replica_note(&note("b")).await.unwrap();
    store.replica_note(&note("a")).await.unwrap();
    let (now, seen) = store.replicas().await.unwrap();
    assert_eq!(seen.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(seen[0].started_at < seen[1].started_at && seen[0].seen_at <= now);
    store.age(std::time::Duration::from_secs(25 * 3600)).await;
    store.replica_note(&note("c")).await.unwrap();
    assert_eq!(store.replicas().await.unwrap().1.len(), 1, "forgotten after a day");
    store.replica_leave("c").await.unwrap();
    assert!(store.replicas().await.unwrap().1.is_empty());
}

/// `CODEHUB_TEST_POOLER` names a PgBouncer in transaction mode in front of the same server.
#[tokio::test]
async fn a_transaction_pooler_is_refused() {
    let Ok(pooler) = std::env::var("CODEHUB_TEST_POOLER") else {
        println!("skipped: no PgBouncer");
        return;
    };
    let error = PostgresStore::open(&pooler, 4).await.unwrap_err().to_string();
    assert!(error.contains("transaction pooler"), "{error}");
}
