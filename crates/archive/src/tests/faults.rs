//! Stores and disks that fail: whatever looks finished restores.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};

use super::super::ObjectArchives;
use super::*;

const KEY: &str = "ws-1/op-1/home.tar.zst";

/// Fails at one call, counted from zero.
#[derive(Clone, Debug)]
struct Faulty {
    inner: Arc<InMemory>,
    calls: Arc<AtomicU64>,
    fail_at: u64,
    /// Do it, and then say that it failed.
    lose_answer: bool,
    /// How many calls fail in a row.
    times: u64,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

impl Faulty {
    fn new(inner: &Arc<InMemory>, fail_at: u64, lose_answer: bool, times: u64) -> Self {
        Self { inner: inner.clone(), calls: Arc::default(), fail_at, lose_answer, times }
    }

    async fn call<T>(self, work: impl Future<Output = object_store::Result<T>>) -> object_store::Result<T> {
        let call = self.calls.fetch_add(1, SeqCst);
        if !(self.fail_at..self.fail_at + self.times).contains(&call) {
            return work.await;
        }
        if self.lose_answer {
            work.await?;
        }
        Err(Error::Generic { store: "faulty", source: format!("injected at call {call}").into() })
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Location,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        let work = self.inner.put_opts(location, payload, opts);
        self.clone().call(work).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let work = self.inner.put_multipart_opts(location, opts);
        let inner = self.clone().call(work).await?;
        let faults = self.clone();
        Ok(Box::new(FaultyUpload { inner, faults }))
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> object_store::Result<GetResult> {
        let work = self.inner.get_opts(location, options);
        self.clone().call(work).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Location>>,
    ) -> BoxStream<'static, object_store::Result<Location>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let listed = self.inner.list(prefix);
        let faults = self.clone();
        let first = futures::stream::once(faults.call(async { Ok(()) }));
        first
            .flat_map(move |outcome| match outcome {
                Ok(()) => futures::stream::empty().boxed(),
                Err(error) => futures::stream::iter([Err(error)]).boxed(),
            })
            .chain(listed)
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Location,
        to: &Location,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    faults: Faulty,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let work = self.inner.put_part(data);
        Box::pin(self.faults.clone().call(work))
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        self.faults.clone().call(self.inner.complete()).await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.inner.abort().await
    }
}

async fn restores(archives: &ObjectArchives, expected: &Snapshot) -> Result<()> {
    let target = tempdir();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    archives.fetch(KEY, target.path(), &progress, &cancel).await?;
    assert_same(expected, &snapshot(target.path()));
    Ok(())
}

#[tokio::test]
async fn a_failing_store_never_holds_a_false_archive() {
    let (small, large) = (sample_home(), sample_home());
    std::fs::write(large.path().join("large"), noise(17 << 20)).unwrap();
    for (home, incremental) in [(&small, false), (&large, false), (&small, true), (&large, true)] {
        let expected = snapshot(home.path());
        for lose_answer in [false, true] {
            for fail_at in 0.. {
                let store = Arc::new(InMemory::new());
                let healthy = ObjectArchives::new(store.clone(), "").incremental(incremental);
                let faulty = Faulty::new(&store, fail_at, lose_answer, 1);
                let calls = faulty.calls.clone();
                let archives = ObjectArchives::new(Arc::new(faulty), "").incremental(incremental);
                let (progress, cancel) = (Progress::new(), CancellationToken::new());
                let outcome = archives.put(KEY, home.path(), &progress, &cancel).await;

                if let Err(error) = &outcome {
                    let expected = matches!(error, ArchiveError::Unreachable { .. });
                    assert!(expected, "call {fail_at}: {error:?}");
                }
                if healthy.head(KEY).await.unwrap().is_some() {
                    restores(&healthy, &expected).await.unwrap();
                } else {
                    assert!(outcome.is_err(), "call {fail_at}: said to be stored");
                }
                // The next try of the same operation gets there.
                healthy.put(KEY, home.path(), &progress, &cancel).await.unwrap();
                restores(&healthy, &expected).await.unwrap();
                if calls.load(SeqCst) <= fail_at {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn reading_is_tried_again_and_gives_up_at_last() {
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(9 << 20)).unwrap();
    let expected = snapshot(home.path());
    for incremental in [false, true] {
        let store = Arc::new(InMemory::new());
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        let archives = ObjectArchives::new(store.clone(), "").incremental(incremental);
        archives.put(KEY, home.path(), &progress, &cancel).await.unwrap();
        // Calls 0 and 1 look at the meta object and the data's size.
        for (fail_at, times, survives) in [(2, 3, true), (4, 1, true), (0, 1, false), (2, 99, false)] {
            let faulty = Faulty::new(&store, fail_at, false, times);
            let archives = ObjectArchives::new(Arc::new(faulty), "");
            match restores(&archives, &expected).await {
                Ok(()) => assert!(survives, "{fail_at}"),
                Err(ArchiveError::Unreachable { .. }) => assert!(!survives, "{fail_at}"),
                Err(other) => panic!("{fail_at}: {other:?}"),
            }
        }
    }
}

/// A small file system of its own.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempdir();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        let mounted = mount.arg(dir.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        codehub_testing::skip("not allowed to mount a small file system");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[tokio::test]
async fn a_full_store_says_so_and_keeps_nothing() {
    for (disk, content, incremental) in
        [("1m", 4 << 20, false), ("12m", 40 << 20, false), ("12m", 40 << 20, true)]
    {
        let Some(disk) = SmallDisk::mount(disk) else {
            return;
        };
        let home = sample_home();
        std::fs::write(home.path().join("large"), noise(content)).unwrap();
        let archives = ObjectArchives::open_local(disk.0.path(), "").unwrap().incremental(incremental);
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        let outcome = archives.put(KEY, home.path(), &progress, &cancel).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, ArchiveError::NoSpace { .. }), "{error:?}");
        assert!(error.to_string().contains("no space left"), "{error}");
        assert_eq!(archives.list().await.unwrap(), []);
        let left = std::fs::read_dir(disk.0.path().join("ws-1/op-1")).unwrap();
        assert_eq!(left.count(), 0);

        std::fs::remove_file(home.path().join("large")).unwrap();
        let expected = snapshot(home.path());
        archives.put(KEY, home.path(), &progress, &cancel).await.unwrap();
        restores(&archives, &expected).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_target_is_not_the_archives_fault() {
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(4 << 20)).unwrap();
    for incremental in [false, true] {
        let Some(disk) = SmallDisk::mount("2m") else {
            return;
        };
        let archives = ObjectArchives::new(Arc::new(InMemory::new()), "").incremental(incremental);
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        archives.put(KEY, home.path(), &progress, &cancel).await.unwrap();
        let target = disk.0.path().join("home");
        std::fs::create_dir(&target).unwrap();
        let outcome = archives.fetch(KEY, &target, &progress, &cancel).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, ArchiveError::NoSpace { .. }), "{error:?}");
    }
}
