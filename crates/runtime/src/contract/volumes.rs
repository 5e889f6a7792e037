//! The volumes port.

use std::sync::Arc;

use codehub_domain::VolumeKey;

use super::{Harness, closed, next};
use crate::{
    Fence,
    volumes::{Scope, VolumeError, Volumes},
};

/// What is listed, with nothing wrong.
async fn listed(volumes: &Arc<dyn Volumes>, scope: Scope<'_>) -> Vec<VolumeKey> {
    let listed = volumes.list(scope).await.unwrap();
    assert!(listed.iter().all(|listed| listed.trouble.is_none()), "{listed:?}");
    listed.into_iter().map(|listed| listed.key).collect()
}

/// Whoever needs more than there is gets nothing, and is told that it may be tried again.
pub(crate) async fn what_does_not_fit_is_refused(harness: &Harness) {
    let (volumes, key) = (&harness.volumes, harness.spec().volume);
    let error = volumes.create(&key, 1 << 60).await.unwrap_err();
    assert!(matches!(&error, VolumeError::NoCapacity(_)), "{error}");
    assert_eq!(listed(volumes, Scope::Of(&[(key.owner, key.workspace)])).await, []);
    volumes.create(&key, 1).await.unwrap();
    assert_eq!(listed(volumes, Scope::Of(&[(key.owner, key.workspace)])).await, [key]);
    // What exists is as large as it is.
    volumes.create(&key, 1 << 60).await.unwrap();
    volumes.delete(&key, &Fence::open()).await.unwrap();
}

/// And every change is seen at once: read-your-writes.
pub(crate) async fn every_call_can_be_repeated(harness: &Harness) {
    let (volumes, key) = (&harness.volumes, harness.spec().volume);
    let of = [(key.owner, key.workspace)];
    volumes.ping().await.unwrap();
    volumes.delete(&key, &Fence::open()).await.unwrap();
    for _ in 0..2 {
        volumes.create(&key, 0).await.unwrap();
        assert_eq!(listed(volumes, Scope::Of(&of)).await, [key]);
        assert!(listed(volumes, Scope::All).await.contains(&key));
    }
    let other = harness.spec().volume;
    let elsewhere = [(other.owner, other.workspace)];
    assert_eq!(listed(volumes, Scope::Of(&elsewhere)).await, []);
    for _ in 0..2 {
        volumes.delete(&key, &Fence::open()).await.unwrap();
        assert_eq!(listed(volumes, Scope::Of(&of)).await, []);
        assert!(!listed(volumes, Scope::All).await.contains(&key));
    }
}

pub(crate) async fn a_volume_keeps_what_is_on_it(harness: &Harness) {
    let (volumes, first) = (&harness.volumes, harness.spec().volume);
    let second = next(&first);
    for key in [&first, &second] {
        volumes.create(key, 0).await.unwrap();
        harness.world.write(key, "kept").await;
    }
    let before = harness.world.read(&second).await;
    assert!(!before.is_empty());
    volumes.create(&second, 0).await.unwrap();
    assert_eq!(harness.world.read(&second).await, before, "creating again empties nothing");
    volumes.delete(&first, &Fence::open()).await.unwrap();
    assert_eq!(listed(volumes, Scope::Of(&[(first.owner, first.workspace)])).await, [second]);
    assert_eq!(harness.world.read(&second).await, before, "nor does deleting another generation");
    volumes.delete(&second, &Fence::open()).await.unwrap();
}

pub(crate) async fn a_closed_fence_deletes_nothing(harness: &Harness) {
    let key = harness.at_rest().await.volume;
    harness.world.write(&key, "kept").await;
    let before = harness.world.read(&key).await;
    let error = harness.volumes.delete(&key, &closed()).await.unwrap_err();
    assert!(matches!(error, VolumeError::Unreachable(_)), "{error}");
    assert_eq!(listed(&harness.volumes, Scope::Of(&[(key.owner, key.workspace)])).await, [key]);
    assert_eq!(harness.world.read(&key).await, before);
    harness.volumes.delete(&key, &Fence::open()).await.unwrap();
}

pub(crate) async fn not_knowing_is_an_error(harness: &Harness) {
    let key = harness.at_rest().await.volume;
    let of = [(key.owner, key.workspace)];
    if harness.world.cut_off(key.workspace, true).await {
        assert!(harness.volumes.list(Scope::Of(&of)).await.is_err());
        assert!(harness.volumes.list(Scope::All).await.is_err());
        assert!(harness.world.cut_off(key.workspace, false).await);
    }
    assert_eq!(listed(&harness.volumes, Scope::Of(&of)).await, [key]);
}
