//! Archives that store only what changed: whatever happened between two of them, each restores as the home it was
//! made of, from exactly the bytes that were archived.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use proptest::prelude::*;

use super::super::chunked_manifest::{ChunkedEntry, ChunkedManifest, Extent, read_chunked_piece};
use super::super::header::Xattr;
use super::super::manifest::FileKind;
use super::super::sparse::Segment;
use super::super::{ArchiveMeta, ArchivedFile, ObjectArchives, Verify};
use super::*;

fn key(op: usize) -> String {
    format!("ws-1/op-{op:03}/home.tar.zst")
}

/// A store in memory, and archives in it.
struct Place {
    store: Arc<InMemory>,
    archives: ObjectArchives,
    made: BTreeMap<usize, (ArchiveMeta, Snapshot)>,
}

impl Place {
    fn new() -> Self {
        let store = Arc::new(InMemory::new());
        let archives = ObjectArchives::new(store.clone(), "").with_verify(Verify::Content).incremental(true);
        Self { store, archives, made: BTreeMap::new() }
    }

    async fn try_put(&self, op: usize, base: Option<usize>, home: &Path) -> Result<ArchiveMeta> {
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        let base = base.map(|op| (key(op), self.made[&op].0.expected()));
        let base = base.as_ref().map(|(key, expected)| (key.as_str(), expected));
        let meta = self.archives.put_since(&key(op), base, home, &progress, &cancel).await?;
        assert_eq!(progress.done(), meta.uncompressed);
        assert_eq!(meta.format, 3);
        Ok(meta)
    }

    /// Archives the home after the last one.
    async fn put(&mut self, home: &Path) -> ArchiveMeta {
        let last = self.made.keys().next_back().copied();
        let op = last.map_or(0, |last| last + 1);
        let meta = self.try_put(op, last, home).await.unwrap();
        self.made.insert(op, (meta.clone(), snapshot(home)));
        meta
    }

    async fn fetch(&self, op: usize, target: &Path) -> Result<ArchiveMeta> {
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        self.archives.fetch(&key(op), target, &progress, &cancel).await
    }

    async fn restores(&self, op: usize) {
        let target = tempdir();
        let meta = self.fetch(op, target.path()).await.unwrap();
        let (made, home) = &self.made[&op];
        assert_eq!(meta, *made);
        assert_same(home, &snapshot(target.path()));
    }

    fn data(op: usize) -> Location {
        Location::from(key(op))
    }

    async fn bytes(&self, location: &Location) -> Vec<u8> {
        self.store.get(location).await.unwrap().bytes().await.unwrap().to_vec()
    }
}

/// Numbers of a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides.max(1)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let from = self.roll(1 << 16);
        let mut bytes = noise(from + len).split_off(from);
        // Text as well: half of it repeats.
        let half = len / 2;
        bytes[..half].fill(u8::try_from(self.roll(250)).unwrap());
        bytes
    }
}

fn files(home: &Path) -> Vec<PathBuf> {
    let nodes = snapshot(home);
    let files = nodes.iter().filter(|(_, node)| matches!(node.content, Content::File { .. }));
    files.map(|(path, _)| home.join(path)).collect()
}

/// What programs do to a home between two archives.
fn change(home: &Path, dice: &mut Dice, number: usize) {
    let all = files(home);
    let pick = |dice: &mut Dice| all.get(dice.roll(all.len())).cloned();
    let new = home.join(format!("new-{number}"));
    match dice.roll(12) {
        0 | 1 => {
            let len = [0, 1, 700, 70_000, 200_000, 900_000][dice.roll(6)];
            fs::write(new, dice.bytes(len)).unwrap();
        }
        2 => {
            fs::create_dir(&new).unwrap();
            for file in 0..dice.roll(40) {
                let len = dice.roll(9_000);
                fs::write(new.join(file.to_string()), dice.bytes(len)).unwrap();
            }
        }
        3 => {
            if let Some(path) = pick(dice) {
                fs::remove_file(path).unwrap();
            }
        }
        // An insertion moves what follows it.
        4 | 5 => {
            if let Some(path) = pick(dice) {
                let mut bytes = fs::read(&path).unwrap();
                let (at, len) = (dice.roll(bytes.len() + 1), dice.roll(3_000));
                bytes.splice(at..at, dice.bytes(len));
                fs::write(path, bytes).unwrap();
            }
        }
        // A database writes in the middle, and says nothing of it.
        6 | 7 => {
            if let Some(path) = pick(dice) {
                let times = fs::metadata(&path).unwrap().modified().unwrap();
                let file = fs::File::options().write(true).open(&path).unwrap();
                let at = dice.roll(usize::try_from(file.metadata().unwrap().len()).unwrap() + 1);
                file.write_all_at(&dice.bytes(400), at as u64).unwrap();
                file.set_times(fs::FileTimes::new().set_modified(times)).unwrap();
            }
        }
        8 => {
            if let Some(path) = pick(dice) {
                fs::rename(path, new).unwrap();
            }
        }
        9 => {
            if let (Some(path), Some(over)) = (pick(dice), pick(dice)) {
                fs::copy(path, home.join("copied")).unwrap();
                fs::rename(home.join("copied"), over).unwrap();
            }
        }
        10 => {
            let file = fs::File::create(new).unwrap();
            file.set_len(2_000_000).unwrap();
            for _ in 0..dice.roll(4) {
                let at = dice.roll(1_900_000) as u64;
                file.write_all_at(&dice.bytes(50_000), at).unwrap();
            }
        }
        _ => {
            if let Some(path) = pick(dice) {
                xattr::set(&path, "user.note", format!("{number}").as_bytes()).unwrap();
                fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
                fs::hard_link(path, &new).unwrap();
                symlink("somewhere", home.join(format!("link-{number}"))).unwrap();
            }
        }
    }
}

/// A home with files of all sizes.
fn home_of(dice: &mut Dice) -> TempDir {
    let home = sample_home();
    for number in 0..20 {
        change(home.path(), dice, 1_000 + number);
    }
    home
}

/// Histories of archiving, restoring, losing old archives that nothing refers to: each that is kept restores.
#[tokio::test]
async fn every_archive_of_any_history_restores() {
    for seed in 0..8 {
        let mut dice = Dice(seed);
        let home = home_of(&mut dice);
        let mut place = Place::new();
        for step in 0..6 {
            place.put(home.path()).await;
            for number in 0..dice.roll(12) {
                change(home.path(), &mut dice, step * 100 + number);
            }
            let kept: Vec<usize> = place.made.keys().copied().collect();
            place.restores(kept[dice.roll(kept.len())]).await;
            // Old ones go as the collector lets them: not while one that is kept refers to them.
            let old = kept[0];
            let name = format!("op-{old:03}");
            let referred = place.made.iter().any(|(op, (meta, _))| *op != old && meta.parts.contains(&name));
            if kept.len() > 3 && !referred {
                place.archives.delete(&key(old)).await.unwrap();
                place.made.remove(&old);
            }
        }
        for op in place.made.keys() {
            place.restores(*op).await;
        }
    }
}

#[tokio::test]
async fn the_second_archive_costs_what_changed() {
    let home = sample_home();
    for number in 0..400 {
        let mut dice = Dice(number);
        fs::write(home.path().join(format!("src/{number}")), dice.bytes(20_000)).unwrap();
    }
    fs::write(home.path().join("database"), noise(8 << 20)).unwrap();
    let mut place = Place::new();
    let first = place.put(home.path()).await;
    assert_eq!(first.parts, Vec::<String>::new());
    let nothing = place.put(home.path()).await;
    assert!(nothing.size < first.size / 100, "{} after {}", nothing.size, first.size);
    let file = fs::File::options().write(true).open(home.path().join("database")).unwrap();
    file.write_all_at(b"changed in the middle", 4 << 20).unwrap();
    fs::write(home.path().join("src/7"), b"other").unwrap();
    let changed = place.put(home.path()).await;
    assert!(changed.size < first.size / 30, "{} after {}", changed.size, first.size);
    assert_eq!(changed.parts, ["op-000"], "what is empty of chunks is not referred to");
    // An insertion at the beginning moves everything, and changes nothing else.
    let bytes = [b"inserted".to_vec(), fs::read(home.path().join("database")).unwrap()].concat();
    fs::write(home.path().join("database"), bytes).unwrap();
    let moved = place.put(home.path()).await;
    assert!(moved.size < first.size / 20, "{} after {}", moved.size, first.size);
    for op in 0..4 {
        place.restores(op).await;
    }
}

#[tokio::test]
async fn packing_again_gives_the_same_bytes_and_uploads_nothing() {
    let home = sample_home();
    fs::write(home.path().join("large"), noise(3 << 20)).unwrap();
    let mut place = Place::new();
    place.put(home.path()).await;
    fs::write(home.path().join("large"), noise(2 << 20)).unwrap();
    let second = place.put(home.path()).await;
    let again = place.try_put(1, Some(0), home.path()).await.unwrap();
    assert_eq!(again.expected(), second.expected());
    fs::write(home.path().join("large"), b"another").unwrap();
    let error = place.try_put(1, Some(0), home.path()).await.unwrap_err();
    assert!(error.is_corrupted(), "not taken for what it is not: {error}");
}

/// What is mostly garbage is not built upon, so it can go.
#[tokio::test]
async fn an_object_that_is_mostly_dead_is_left_behind() {
    let home = tempdir();
    fs::write(home.path().join("kept"), noise(300_000)).unwrap();
    fs::write(home.path().join("large"), noise(2 << 20)).unwrap();
    let mut place = Place::new();
    place.put(home.path()).await;
    fs::write(home.path().join("large"), b"small now").unwrap();
    assert_eq!(place.put(home.path()).await.parts, ["op-000"]);
    let third = place.put(home.path()).await;
    assert_eq!(third.parts, ["op-001"], "what was needed of the first is stored anew");
    place.archives.delete(&key(0)).await.unwrap();
    place.made.remove(&0);
    place.restores(2).await;
    let target = tempdir();
    let error = place.fetch(1, target.path()).await.unwrap_err();
    assert!(error.is_corrupted(), "{error}");
}

#[tokio::test]
async fn many_archives_do_not_make_many_parts() {
    let home = tempdir();
    let mut place = Place::new();
    for number in 0..40 {
        fs::write(home.path().join(number.to_string()), Dice(number).bytes(30_000)).unwrap();
        let meta = place.put(home.path()).await;
        assert!(meta.parts.len() <= 24, "{}", meta.parts.len());
    }
    place.restores(39).await;
}

/// A damaged base is no reason not to archive, and nothing damaged is built upon.
#[tokio::test]
async fn a_home_whose_last_archive_is_damaged_or_gone_is_archived_whole() {
    let home = sample_home();
    fs::write(home.path().join("large"), noise(1 << 20)).unwrap();
    for damage in 0..3 {
        let mut place = Place::new();
        let first = place.put(home.path()).await;
        let mut bytes = place.bytes(&Place::data(0)).await;
        match damage {
            0 => place.archives.delete(&key(0)).await.unwrap(),
            1 => {
                let at = bytes.len() - 30;
                bytes[at] ^= 1;
                place.store.put(&Place::data(0), bytes.into()).await.unwrap();
            }
            _ => {
                bytes.pop();
                place.store.put(&Place::data(0), bytes.into()).await.unwrap();
            }
        }
        let second = place.put(home.path()).await;
        assert_eq!(second.parts, Vec::<String>::new());
        assert!(second.size >= first.size);
        place.restores(1).await;
    }
}

/// The archive of somebody else is never built upon.
#[tokio::test]
async fn nothing_is_shared_between_workspaces() {
    let home = sample_home();
    let mut place = Place::new();
    let first = place.put(home.path()).await;
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let base = (key(0), first.expected());
    let base = Some((base.0.as_str(), &base.1));
    let other = "ws-2/op-001/home.tar.zst";
    let meta = place.archives.put_since(other, base, home.path(), &progress, &cancel).await.unwrap();
    assert_eq!(meta.parts, Vec::<String>::new());
    assert!(meta.size >= first.size);
}

/// Whatever byte of whichever object is changed, and wherever it is cut: it is restored as it was, or not at all.
#[tokio::test]
async fn damage_anywhere_is_noticed() {
    let home = sample_home();
    fs::write(home.path().join("large"), noise(400_000)).unwrap();
    let mut place = Place::new();
    place.put(home.path()).await;
    fs::write(home.path().join("more"), noise(50_000)).unwrap();
    place.put(home.path()).await;
    let home = place.made[&1].1.clone();
    for op in [0, 1] {
        let good = place.bytes(&Place::data(op)).await;
        for percent in 0..100 {
            let at = good.len() * percent / 100;
            let mut flipped = good.clone();
            flipped[at] ^= 0x10;
            for bad in [flipped, good[..at].to_vec()] {
                let cut = bad.len() < good.len();
                place.store.put(&Place::data(op), bad.into()).await.unwrap();
                let target = tempdir();
                match place.fetch(1, target.path()).await {
                    // What is in the other object and not needed from there.
                    Ok(_) => {
                        assert!(!cut, "{op} cut at {percent}");
                        assert_same(&home, &snapshot(target.path()));
                    }
                    Err(error) => assert!(error.is_corrupted(), "{op} at {percent}: {error}"),
                }
            }
        }
        place.store.put(&Place::data(op), good.into()).await.unwrap();
    }
    place.restores(1).await;
}

/// Whole archives in each other's places: their own digests are right, and still they are refused.
#[tokio::test]
async fn parts_of_other_archives_are_refused() {
    let home = sample_home();
    fs::write(home.path().join("large"), noise(400_000)).unwrap();
    let mut place = Place::new();
    place.put(home.path()).await;
    place.put(home.path()).await;
    fs::write(home.path().join("large"), noise(400_001).split_off(1)).unwrap();
    let other = Place::new();
    other.try_put(0, None, home.path()).await.unwrap();
    let swapped = other.bytes(&Place::data(0)).await;
    place.store.put(&Place::data(0), swapped.into()).await.unwrap();
    let target = tempdir();
    let error = place.fetch(1, target.path()).await.unwrap_err();
    assert!(error.is_corrupted() && error.to_string().contains("op-000"), "{error}");
}

#[tokio::test]
async fn files_of_an_incremental_archive_are_listed_and_downloaded() {
    let home = sample_home();
    let file = fs::File::create(home.path().join("sparse")).unwrap();
    file.set_len(5_000_000).unwrap();
    file.write_all_at(&noise(100_000), 3_000_000).unwrap();
    fs::write(home.path().join("large"), noise(6 << 20)).unwrap();
    let mut place = Place::new();
    place.put(home.path()).await;
    let mut bytes = noise(6 << 20);
    bytes.splice(1_000_000..1_000_000, *b"inserted");
    fs::write(home.path().join("large"), &bytes).unwrap();
    let expected = place.put(home.path()).await.expected();
    let name = key(1);
    let page = place.archives.files(&name, &expected, b"", None, 100).await.unwrap().unwrap();
    let names: Vec<_> =
        page.files.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned()).collect();
    let all = ["dangling", "empty", "large", "link", "same.rs", "script", "sparse", "src"];
    assert_eq!(names, all);
    for (path, content) in [
        ("large", bytes),
        ("sparse", fs::read(home.path().join("sparse")).unwrap()),
        ("src/main.rs", b"fn main() {}\n".to_vec()),
        ("same.rs", b"fn main() {}\n".to_vec()),
        ("src/deep/er/leaf", vec![7; 70_000]),
    ] {
        let (file, stream) = place.archives.file(&name, &expected, path.as_bytes()).await.unwrap().unwrap();
        let got: Vec<bytes::Bytes> = stream.unwrap().try_collect().await.unwrap();
        assert!(got.concat() == content, "{path}");
        assert_eq!(file.size, content.len() as u64, "{path}");
    }
    assert!(place.archives.file(&name, &expected, b"nowhere").await.unwrap().is_none());
    let missing = place.archives.files(&name, &expected, b"nowhere", None, 9).await.unwrap();
    assert!(missing.is_none());
}

/// As somebody does who has only the store: the stream of either format is one that tar reads.
#[tokio::test]
async fn an_archive_is_exported_and_verified_without_anything_else() {
    let home = sample_home();
    fs::write(home.path().join("large"), noise(1 << 20)).unwrap();
    let mut place = Place::new();
    place.put(home.path()).await;
    fs::write(home.path().join("more"), noise(1 << 19)).unwrap();
    place.put(home.path()).await;
    let cancel = CancellationToken::new();
    let (progress, whole) = (Progress::new(), key(9));
    let archives = place.archives.clone().incremental(false);
    archives.put(&whole, home.path(), &progress, &cancel).await.unwrap();
    for name in [key(1), whole] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let meta = place.archives.export(&name, &cancel, file.reopen().unwrap()).await.unwrap();
        assert_eq!(file.as_file().metadata().unwrap().len(), meta.uncompressed);
        let target = tempdir();
        let (progress, limits) = (Progress::new(), Limits::default());
        super::super::unpack_tar(file.reopen().unwrap(), target.path(), limits, &progress, &cancel).unwrap();
        assert_same(&place.made[&1].1, &snapshot(target.path()));
        assert_eq!(place.archives.verify(&name, &cancel).await.unwrap(), meta);
    }
    // Damage to what is referred to is found, too.
    let mut bytes = place.bytes(&Place::data(0)).await;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    place.store.put(&Place::data(0), bytes.into()).await.unwrap();
    for op in [0, 1] {
        let error = place.archives.verify(&key(op), &cancel).await.unwrap_err();
        assert!(error.is_corrupted(), "{error}");
    }
    assert!(place.archives.verify(&key(7), &cancel).await.is_err());
}

/// A deployment with archives of format 2 goes on: they are read, and the next one is whole, in format 3.
#[tokio::test]
async fn archives_of_the_format_before_are_read_and_followed() {
    let home = sample_home();
    let store = Arc::new(InMemory::new());
    let before = ObjectArchives::new(store.clone(), "");
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let old = before.put(&key(0), home.path(), &progress, &cancel).await.unwrap();
    assert_eq!(old.format, 2);
    let mut place = Place::new();
    place.archives = ObjectArchives::new(store.clone(), "").incremental(true);
    place.store = store;
    place.made.insert(0, (old, snapshot(home.path())));
    place.restores(0).await;
    assert_eq!(place.put(home.path()).await.parts, Vec::<String>::new());
    place.restores(1).await;
    // And back again: what is there is read whatever is written.
    place.archives = place.archives.incremental(false);
    place.restores(1).await;
}

fn entries() -> impl Strategy<Value = ChunkedEntry> {
    let path = proptest::collection::vec(any::<u8>(), 0..30);
    let kind = (0..4_usize)
        .prop_map(|at| [FileKind::Directory, FileKind::File, FileKind::Symlink, FileKind::HardLink][at]);
    let extents = proptest::collection::vec((0..5_u32, 0..1_u64 << 40, 1..1_u64 << 30), 0..4);
    let xattrs = proptest::collection::vec(any::<u8>(), 0..9);
    (path, kind, any::<(u32, i64, u32, u32, u32, bool)>(), extents, xattrs).prop_map(
        |(path, kind, (mode, mtime_seconds, mtime_nanoseconds, uid, gid, holes), extents, value)| {
            let is_file = kind == FileKind::File;
            let extents = extents.into_iter().map(|(part, offset, len)| Extent { part, offset, len });
            let extents: Vec<Extent> = extents.filter(|_| is_file).collect();
            let stored: u64 = extents.iter().map(|extent| extent.len).sum();
            let segments = (is_file && holes).then(|| vec![Segment { offset: 77, len: stored }]);
            let size = if segments.is_some() { stored + 100 } else { stored };
            let target =
                if matches!(kind, FileKind::Symlink | FileKind::HardLink) { value.clone() } else { vec![] };
            let file =
                ArchivedFile { path, kind, size, mode, mtime_seconds, mtime_nanoseconds, target, offset: 0 };
            let xattrs = vec![Xattr { name: b"user.x".to_vec(), value }];
            ChunkedEntry { file, uid, gid, xattrs, segments, extents }
        },
    )
}

proptest! {
    #[test]
    fn a_manifest_is_read_as_it_was_written(entries in proptest::collection::vec(entries(), 0..40)) {
        let mut manifest = ChunkedManifest::default();
        let mut pieces: Vec<_> = entries.iter().filter_map(|entry| manifest.add(entry)).collect();
        pieces.extend(manifest.rest());
        let mut read = Vec::new();
        for piece in pieces {
            read_chunked_piece(&piece.bytes, &mut |entry| {
                read.push(entry);
                Ok(true)
            }).unwrap();
        }
        prop_assert_eq!(read, entries);
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_chunked_piece(&bytes, &mut |_| Ok(true));
    }
}
