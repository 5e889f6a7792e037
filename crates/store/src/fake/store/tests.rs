//! The fake keeps the contract, too; and its faults strike when they are told to.

use std::sync::Arc;

use futures::FutureExt;

use super::{FakeClock, FakeStore, Moment};
use crate::{
    Settings as _, StoreError,
    contract::{Harness, contract_suite},
};

async fn harness() -> Harness {
    let clock = FakeClock::new();
    let store = Arc::new(FakeStore::new(clock.clone()));
    Harness {
        store,
        pass: Box::new(move |by| {
            let clock = clock.clone();
            async move { clock.advance(by) }.boxed()
        }),
        barrier: None,
        _keep: Box::new(()),
    }
}

mod contract {
    super::contract_suite!(super::super::harness);
}

#[tokio::test]
async fn a_fault_strikes_once_and_where_it_should() {
    let store = FakeStore::new(FakeClock::new());
    let lost = || StoreError::Unreachable("for the test".into());
    store.fail_next(Moment::Before, "setting_put", lost());
    store.setting_get("a").await.unwrap();
    assert!(store.setting_put("a", "1").await.is_err());
    assert_eq!(store.setting_get("a").await.unwrap(), None, "it did not arrive");
    store.setting_put("a", "2").await.unwrap();
    store.fail_next(Moment::After, "setting_put", lost());
    assert!(store.setting_put("a", "3").await.is_err());
    assert_eq!(store.setting_get("a").await.unwrap().as_deref(), Some("3"), "only the answer got lost");
}
