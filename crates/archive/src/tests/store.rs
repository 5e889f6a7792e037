//! Archives through real stores: memory, a directory and, where there is one, an S3 server.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path as Location;
use object_store::{ObjectStore, ObjectStoreExt};

use super::super::{ObjectArchives, Verify};
use super::*;

const KEY: &str = "ws-1/op-1/home.tar.zst";

/// The same tests for every store, and for archives of either format in one of them.
async fn each_store_and_format(test: impl AsyncFn(ObjectArchives, Arc<dyn ObjectStore>)) {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let archives = ObjectArchives::new(memory.clone(), "some/prefix").with_verify(Verify::Content);
    test(archives.incremental(true), memory).await;
    let root = tempdir();
    let archives = ObjectArchives::open_local(root.path(), "some/prefix").unwrap();
    let raw = object_store::local::LocalFileSystem::new_with_prefix(root.path()).unwrap();
    test(archives.incremental(true), Arc::new(raw)).await;
    each_store(test).await;
}

/// The same tests for every store.
async fn each_store(test: impl AsyncFn(ObjectArchives, Arc<dyn ObjectStore>)) {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    test(ObjectArchives::new(memory.clone(), "some/prefix").with_verify(Verify::Content), memory).await;
    let root = tempdir();
    let archives = ObjectArchives::open_local(root.path(), "some/prefix").unwrap();
    let raw = object_store::local::LocalFileSystem::new_with_prefix(root.path()).unwrap();
    test(archives, Arc::new(raw)).await;
    if let Some(bucket) = s3::bucket() {
        test(ObjectArchives::new(bucket.clone(), "some/prefix").with_verify(Verify::Content), bucket).await;
    }
}

fn data() -> Location {
    Location::from(format!("some/prefix/{KEY}"))
}

fn meta() -> Location {
    Location::from(format!("some/prefix/{KEY}.meta"))
}

async fn put(archives: &ObjectArchives, home: &Path) -> Result<super::super::ArchiveMeta> {
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let meta = archives.put(KEY, home, &progress, &cancel).await?;
    Ok(meta)
}

async fn fetch(archives: &ObjectArchives, target: &Path) -> Result<super::super::ArchiveMeta> {
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let meta = archives.fetch(KEY, target, &progress, &cancel).await?;
    assert_eq!(progress.done(), meta.uncompressed);
    assert_eq!(progress.total(), meta.uncompressed);
    Ok(meta)
}

/// Large enough for several parts.
fn large_home() -> TempDir {
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(20 << 20)).unwrap();
    home
}

#[tokio::test]
async fn a_home_comes_back() {
    each_store_and_format(async |archives, store| {
        for home in [sample_home(), large_home(), tempdir()] {
            assert_eq!(archives.head(KEY).await.unwrap(), None);
            let before = snapshot(home.path());
            let stored = put(&archives, home.path()).await.unwrap();
            assert_eq!(archives.head(KEY).await.unwrap(), Some(stored.clone()));
            assert_eq!(store.head(&data()).await.unwrap().size, stored.size);

            let target = tempdir();
            assert_eq!(fetch(&archives, target.path()).await.unwrap(), stored);
            assert_same(&before, &snapshot(target.path()));

            archives.delete(KEY).await.unwrap();
            archives.delete(KEY).await.unwrap();
            assert_eq!(archives.list().await.unwrap(), []);
            let outcome = fetch(&archives, tempdir().path()).await;
            assert!(matches!(outcome, Err(ArchiveError::NotFound { .. })));
        }
    })
    .await;
}

#[tokio::test]
async fn an_empty_home_leaves_the_target_as_it_is() {
    each_store(async |archives, _| {
        let stored = archives.put_empty(KEY).await.unwrap();
        assert_eq!(archives.put_empty(KEY).await.unwrap(), stored);
        assert_eq!(stored.entries, 0);
        let target = tempdir();
        let before = snapshot(target.path());
        fetch(&archives, target.path()).await.unwrap();
        assert_same(&before, &snapshot(target.path()));
    })
    .await;
}

#[tokio::test]
async fn a_finished_archive_is_never_written_again() {
    each_store_and_format(async |archives, store| {
        let home = sample_home();
        let first = put(&archives, home.path()).await.unwrap();
        let modified = store.head(&data()).await.unwrap().last_modified;
        let second = put(&archives, home.path()).await.unwrap();
        assert_eq!(first, second);
        // What is there counts only where it is what would be put there; who else could have done that?
        let error = put(&archives, large_home().path()).await.unwrap_err();
        assert!(error.is_corrupted() && error.to_string().contains(&first.sha256), "{error}");
        assert_eq!(modified, store.head(&data()).await.unwrap().last_modified);

        // Not even when it is damaged: that is for people to look at.
        let mut bytes = store.get(&data()).await.unwrap().bytes().await.unwrap().to_vec();
        bytes[100] ^= 1;
        store.put(&data(), bytes.clone().into()).await.unwrap();
        let error = put(&archives, home.path()).await.unwrap_err();
        assert!(error.is_corrupted(), "{error:?}");
        let stored = store.get(&data()).await.unwrap().bytes().await.unwrap();
        assert_eq!(stored, bytes);
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_archive_is_replaced() {
    each_store_and_format(async |archives, store| {
        store.put(&data(), "half".into()).await.unwrap();
        assert_eq!(archives.head(KEY).await.unwrap(), None);
        let outcome = fetch(&archives, tempdir().path()).await;
        assert!(matches!(outcome, Err(ArchiveError::NotFound { .. })));
        let [listed] = &archives.list().await.unwrap()[..] else { panic!("one object") };
        assert_eq!((listed.key.as_str(), listed.size), (KEY, 4));
        assert!(!listed.complete);

        put(&archives, sample_home().path()).await.unwrap();
        fetch(&archives, tempdir().path()).await.unwrap();
        assert!(archives.list().await.unwrap()[0].complete);

        store.delete(&data()).await.unwrap();
        assert_eq!(archives.head(KEY).await.unwrap(), None);
        assert!(!archives.list().await.unwrap()[0].complete);
        put(&archives, sample_home().path()).await.unwrap();
        fetch(&archives, tempdir().path()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn damage_is_noticed() {
    each_store(async |archives, store| {
        put(&archives, sample_home().path()).await.unwrap();
        let good = store.get(&data()).await.unwrap().bytes().await.unwrap();
        for at in (0..good.len()).step_by(3) {
            let mut bad = good.to_vec();
            bad[at] ^= 1 << (at % 8);
            store.put(&data(), bad.into()).await.unwrap();
            let error = fetch(&archives, tempdir().path()).await.unwrap_err();
            assert!(error.is_corrupted(), "byte {at}: {error:?}");
        }
        for percent in 0..100 {
            let cut = good.slice(..good.len() * percent / 100);
            store.put(&data(), cut.into()).await.unwrap();
            let error = fetch(&archives, tempdir().path()).await.unwrap_err();
            assert!(error.is_corrupted(), "cut at {percent} %: {error:?}");
        }
        store.put(&data(), good.into()).await.unwrap();
        fetch(&archives, tempdir().path()).await.unwrap();

        let said = store.get(&meta()).await.unwrap().bytes().await.unwrap();
        let said = String::from_utf8(said.to_vec()).unwrap();
        for (what, other) in [
            ("entries", said.replace("\"entries\": ", "\"entries\": 1")),
            ("uncompressed", said.replace("\"uncompressed\": ", "\"uncompressed\": 1")),
            ("size", said.replace("\"size\": ", "\"size\": 1")),
            ("sha256", said.replace("\"sha256\": \"", "\"sha256\": \"0")),
            ("not JSON", "{".into()),
        ] {
            store.put(&meta(), other.into()).await.unwrap();
            let error = fetch(&archives, tempdir().path()).await.unwrap_err();
            assert!(error.is_corrupted(), "{what}: {error:?}");
        }
        let later = said.replace("\"format\": 2", "\"format\": 4");
        store.put(&meta(), later.into()).await.unwrap();
        let outcome = fetch(&archives, tempdir().path()).await;
        assert!(matches!(outcome, Err(ArchiveError::Unsupported { format: 4 })));
    })
    .await;
}

#[tokio::test]
async fn only_archives_are_listed() {
    each_store_and_format(async |archives, store| {
        assert_eq!(archives.list().await.unwrap(), []);
        for other in ["some/prefix/README", "some/prefix/a/b/c", "some/prefix2/a/b/home.tar.zst"] {
            store.put(&Location::from(other), "x".into()).await.unwrap();
        }
        assert_eq!(archives.list().await.unwrap(), []);
        put(&archives, sample_home().path()).await.unwrap();
        let listed = archives.list().await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].key, KEY);
        assert_eq!(ObjectArchives::key("ws-1", "op-1"), KEY);
    })
    .await;
}

#[tokio::test]
async fn cancelling_leaves_no_archive() {
    each_store_and_format(async |archives, _| {
        let home = large_home();
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        let watch = async {
            while progress.done() < 4 << 20 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(archives.put(KEY, home.path(), &progress, &cancel), watch);
        assert!(matches!(outcome, Err(ArchiveError::Cancelled)), "{outcome:?}");
        assert_eq!(archives.head(KEY).await.unwrap(), None);
        assert!(archives.list().await.unwrap().iter().all(|a| !a.complete));

        put(&archives, home.path()).await.unwrap();
        let target = tempdir();
        let outcome = archives.fetch(KEY, target.path(), &progress, &cancel).await;
        assert!(matches!(outcome, Err(ArchiveError::Cancelled)), "{outcome:?}");
    })
    .await;
}

/// The error comes when several parts are in the store already.
#[tokio::test]
async fn a_home_that_breaks_half_way_leaves_no_archive() {
    each_store_and_format(async |archives, _| {
        let archives = archives.with_verify(Verify::Size);
        let home = tempdir();
        std::fs::write(home.path().join("large"), noise(64 << 20)).unwrap();
        std::fs::write(home.path().join("zz"), b"last").unwrap();
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        let watch = async {
            while progress.done() < 4 << 20 {
                tokio::task::yield_now().await;
            }
            std::fs::remove_file(home.path().join("zz")).unwrap();
        };
        let (outcome, ()) = tokio::join!(archives.put(KEY, home.path(), &progress, &cancel), watch);
        assert!(matches!(outcome, Err(ArchiveError::Changed { .. })), "{outcome:?}");
        assert_eq!(archives.head(KEY).await.unwrap(), None);
        assert_eq!(archives.list().await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_directory_that_is_gone_is_not_an_empty_one() {
    let scratch = tempdir();
    let root = scratch.path().join("archives");
    let archives = ObjectArchives::open_local(&root, "").unwrap();
    archives.put_empty(KEY).await.unwrap();
    let away = scratch.path().join("away");
    std::fs::rename(&root, &away).unwrap();
    for missing in [true, false] {
        if !missing {
            std::fs::create_dir(&root).unwrap();
        }
        let unreachable = |e: ArchiveError| matches!(e, ArchiveError::Unreachable { .. });
        assert!(archives.head(KEY).await.is_err_and(unreachable));
        assert!(archives.list().await.is_err_and(unreachable));
        assert!(archives.delete(KEY).await.is_err_and(unreachable));
        let outcome = fetch(&archives, tempdir().path()).await;
        assert!(outcome.is_err_and(unreachable));
    }
    std::fs::remove_dir(&root).unwrap();
    std::fs::rename(&away, &root).unwrap();
    assert!(archives.head(KEY).await.unwrap().is_some());
}

#[tokio::test]
async fn old_unfinished_uploads_are_swept() {
    let root = tempdir();
    let archives = ObjectArchives::open_local(root.path(), "p").unwrap();
    archives.put_empty(KEY).await.unwrap();
    let stale = root.path().join(format!("p/{KEY}#1"));
    std::fs::write(&stale, b"half").unwrap();
    let hour = Duration::from_secs(3600);
    assert_eq!(archives.sweep_unfinished(hour).await.unwrap(), 0);
    assert!(stale.exists());
    assert_eq!(archives.sweep_unfinished(Duration::ZERO).await.unwrap(), 1);
    assert!(!stale.exists());
    assert!(archives.head(KEY).await.unwrap().is_some());
}

#[tokio::test]
async fn a_new_try_clears_away_the_last_one() {
    let root = tempdir();
    let archives = ObjectArchives::open_local(root.path(), "p").unwrap();
    let stale = root.path().join(format!("p/{KEY}#1"));
    std::fs::create_dir_all(stale.parent().unwrap()).unwrap();
    std::fs::write(&stale, b"half").unwrap();
    put(&archives, sample_home().path()).await.unwrap();
    assert!(!stale.exists());
}

#[tokio::test]
async fn deleting_leaves_no_directories() {
    let root = tempdir();
    let archives = ObjectArchives::open_local(root.path(), "p").unwrap();
    archives.put_empty(KEY).await.unwrap();
    archives.delete(KEY).await.unwrap();
    assert!(!root.path().join("p/ws-1").exists());
}
