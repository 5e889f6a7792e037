//! Several processes on one database, and a pooler between it and them.

use super::{Database, PostgresStore};
use crate::{Company, Renewed, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bus_there_is_one() {
    let Some(database) = Database::create().await else { return };
    let (one, two) = (database.open().await, database.open().await);
    let mut alone = one.presence_enter(Company::Alone).await.unwrap().expect("the first");
    alone.check().await.unwrap();
    assert!(two.presence_enter(Company::Alone).await.unwrap().is_none());
    assert!(two.presence_enter(Company::Welcome).await.unwrap().is_none(), "it would not be heard");
    drop(alone);
    // The server notices the closed session a moment later.
    let mut free = None;
    codehub_testing::eventually("free again", async || {
        free = one.presence_enter(Company::Welcome).await.unwrap();
        free.is_some()
    })
    .await;
    let _second = two.presence_enter(Company::Welcome).await.unwrap().expect("any number");
    assert!(one.presence_enter(Company::Alone).await.unwrap().is_none());
}

/// `CODEHUB_TEST_POOLER` names a PgBouncer in front of the same server: its database `transaction` is pooled
/// by transaction, every other by session.
#[tokio::test]
async fn a_transaction_pooler_is_refused_and_a_session_pool_is_not() {
    let Some(pooler) = codehub_testing::service("CODEHUB_TEST_POOLER", "no PgBouncer") else { return };
    let Some(database) = Database::create().await else { return };
    let refused = PostgresStore::open(&format!("{pooler}/transaction"), 4).await.unwrap_err().to_string();
    assert!(refused.contains("transaction pooler"), "{refused}");
    let url = database.url();
    let (_, name) = url.rsplit_once('/').unwrap();
    let store = PostgresStore::open(&format!("{pooler}/{name}"), 4).await.unwrap();
    let mut lease = store.seat("through the pool").try_take().await.unwrap().expect("nobody else leads");
    assert_eq!(lease.renew().await.unwrap(), Renewed::Held);
}
