//! The archives port, over whatever moves homes.

use codehub_archive::ArchiveError;
use tokio_util::sync::CancellationToken;

use super::{Harness, archive_of, closed, next};
use crate::homes::Transfer;

pub(crate) async fn a_home_comes_back_as_it_was(harness: &Harness) {
    let volume = harness.at_rest().await.volume;
    harness.world.write(&volume, "first").await;
    harness.world.write(&volume, "second").await;
    let (key, archives) = (archive_of(&volume), &harness.archives);
    archives.ping().await.unwrap();
    let stored = archives.put(&key, &volume, &Transfer::default()).await.unwrap();
    assert!(archives.head(&key).await.unwrap().is_some(), "what was stored is seen");
    for listed in [archives.list().await.unwrap(), archives.list_of(key.workspace).await.unwrap()] {
        let ours: Vec<_> = listed.iter().filter(|listed| listed.key == key).collect();
        assert!(matches!(&ours[..], [one] if one.complete), "{listed:?}");
    }
    let target = next(&volume);
    harness.volumes.create(&target, 0).await.unwrap();
    let fetched = archives.fetch(&key, &target, &Transfer::default()).await.unwrap();
    assert_eq!(fetched, stored);
    assert_eq!(harness.world.read(&target).await, harness.world.read(&volume).await);
}

/// The second try of an operation whose first one finished after all.
pub(crate) async fn a_finished_archive_is_never_written_again(harness: &Harness) {
    let volume = harness.at_rest().await.volume;
    harness.world.write(&volume, "first").await;
    let before = harness.world.read(&volume).await;
    let (key, archives) = (archive_of(&volume), &harness.archives);
    let stored = archives.put(&key, &volume, &Transfer::default()).await.unwrap();
    let again = archives.put(&key, &volume, &Transfer::default()).await.unwrap();
    assert_eq!(again.expected(), stored.expected(), "it finds its own work");
    harness.world.write(&volume, "later").await;
    let error = archives.put(&key, &volume, &Transfer::default()).await.unwrap_err();
    assert!(error.is_corrupted(), "not taken for what it is not: {error}");
    let target = next(&volume);
    harness.volumes.create(&target, 0).await.unwrap();
    archives.fetch(&key, &target, &Transfer::default()).await.unwrap();
    assert_eq!(harness.world.read(&target).await, before);
}

pub(crate) async fn every_call_can_be_repeated(harness: &Harness) {
    let volume = harness.at_rest().await.volume;
    let (key, archives) = (archive_of(&volume), &harness.archives);
    archives.delete(&key).await.unwrap();
    for _ in 0..2 {
        archives.put_empty(&key).await.unwrap();
        assert!(archives.head(&key).await.unwrap().is_some());
    }
    archives.fetch(&key, &volume, &Transfer::default()).await.unwrap();
    for _ in 0..2 {
        archives.delete(&key).await.unwrap();
        assert_eq!(archives.head(&key).await.unwrap(), None);
        assert_eq!(archives.list_of(key.workspace).await.unwrap(), []);
    }
    archives.sweep().await.unwrap();
}

pub(crate) async fn what_is_not_there_is_said(harness: &Harness) {
    let volume = harness.at_rest().await.volume;
    let (key, archives) = (archive_of(&volume), &harness.archives);
    assert_eq!(archives.head(&key).await.unwrap(), None);
    let error = archives.fetch(&key, &volume, &Transfer::default()).await.unwrap_err();
    assert!(matches!(error, ArchiveError::NotFound { .. }), "{error}");
    let nowhere = next(&volume);
    assert!(archives.put(&key, &nowhere, &Transfer::default()).await.is_err());
    assert_eq!(archives.head(&key).await.unwrap(), None, "nothing is no home");
}

pub(crate) async fn a_closed_fence_moves_nothing(harness: &Harness) {
    let volume = harness.at_rest().await.volume;
    harness.world.write(&volume, "kept").await;
    let (key, archives) = (archive_of(&volume), &harness.archives);
    let fenced = || Transfer { fence: closed(), ..Transfer::default() };
    let error = archives.put(&key, &volume, &fenced()).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Unreachable { .. }), "{error}");
    assert_eq!(archives.head(&key).await.unwrap(), None);
    archives.put(&key, &volume, &Transfer::default()).await.unwrap();
    let target = next(&volume);
    harness.volumes.create(&target, 0).await.unwrap();
    let empty = harness.world.read(&target).await;
    let error = archives.fetch(&key, &target, &fenced()).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Unreachable { .. }), "{error}");
    assert_eq!(harness.world.read(&target).await, empty);
    archives.fetch(&key, &target, &Transfer::default()).await.unwrap();
}

pub(crate) async fn a_cancelled_transfer_leaves_no_archive(harness: &Harness) {
    let volume = harness.at_rest().await.volume;
    harness.world.write(&volume, "kept").await;
    let (key, archives) = (archive_of(&volume), &harness.archives);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let transfer = Transfer { cancel, ..Transfer::default() };
    archives.put(&key, &volume, &transfer).await.unwrap_err();
    assert_eq!(archives.head(&key).await.unwrap(), None);
    archives.put(&key, &volume, &Transfer::default()).await.unwrap();
}
