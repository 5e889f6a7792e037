//! Looking into archives, and archives of earlier versions.

use std::sync::Arc;

use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use proptest::prelude::*;

use super::super::manifest::{Index, Manifest, Span, read_piece, walk_order};
use super::super::{ArchivedFile, FileKind, ObjectArchives};
use super::*;

const KEY: &str = "ws-1/op-1/home.tar.zst";

async fn stored(home: &Path) -> (ObjectArchives, Arc<InMemory>) {
    let store = Arc::new(InMemory::new());
    let archives = ObjectArchives::new(store.clone(), "");
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    archives.put(KEY, home, &progress, &cancel).await.unwrap();
    (archives, store)
}

async fn read(archives: &ObjectArchives, path: &[u8]) -> Result<Vec<u8>> {
    let (_, stream) = archives.file(KEY, path).await?.unwrap();
    let mut stream = stream.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

async fn names(archives: &ObjectArchives, dir: &str) -> Vec<String> {
    let page = archives.files(KEY, dir.as_bytes(), None, 10_000).await.unwrap().unwrap();
    assert!(!page.more);
    page.files.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned()).collect()
}

#[tokio::test]
async fn everything_is_listed_and_read_without_restoring() {
    let home = sample_home();
    let at = |path: &str| home.path().join(path);
    // Several frames, with holes, and more than one piece of the list.
    let sparse = std::fs::File::create(at("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"middle", 5 << 20).unwrap();
    sparse.set_len(9 << 20).unwrap();
    std::fs::write(at("large"), noise(7 << 20)).unwrap();
    std::fs::create_dir(at("many")).unwrap();
    for n in 0..9_000 {
        std::fs::write(at(&format!("many/{n:060}")), n.to_string()).unwrap();
    }
    std::fs::write(home.path().join(name(b"not-utf8-\xff")), b"odd").unwrap();
    let (archives, _) = stored(home.path()).await;

    let expected = snapshot(home.path());
    // All of the many would take a while.
    let some = |path: &Path| !path.starts_with("many") || path.to_string_lossy().ends_with("99");
    for (path, node) in expected.iter().filter(|(path, _)| some(path)) {
        let raw = path.as_os_str().as_bytes();
        let (entry, stream) = archives.file(KEY, raw).await.unwrap().unwrap();
        assert_eq!((entry.mode, entry.mtime_seconds), (node.mode & 0o7777, node.mtime.0), "{path:?}");
        assert_eq!(i64::from(entry.mtime_nanoseconds), node.mtime.1, "{path:?}");
        match &node.content {
            Content::Directory => assert_eq!(entry.kind, FileKind::Directory),
            Content::Symlink(target) => assert_eq!(entry.target, target.as_os_str().as_bytes()),
            Content::File { data, .. } => {
                assert_eq!(entry.size, data.len() as u64, "{path:?}");
                assert!(stream.is_some());
                assert!(read(&archives, raw).await.unwrap() == *data, "{path:?}");
            }
        }
    }
    assert_eq!(names(&archives, "src").await, ["src/deep", "src/main.rs"]);
    assert_eq!(names(&archives, "empty").await, [""; 0]);
    let top = names(&archives, "").await;
    assert_eq!(top.len(), std::fs::read_dir(home.path()).unwrap().count(), "{top:?}");
    assert_eq!(names(&archives, "many").await.len(), 9_000);
    for missing in ["nothing", "src/main.rs/x", "sr", "src/"] {
        assert_eq!(archives.files(KEY, missing.as_bytes(), None, 9).await.unwrap(), None, "{missing}");
        assert!(archives.file(KEY, missing.as_bytes()).await.unwrap().is_none(), "{missing}");
    }

    // In pages.
    let (mut after, mut seen): (Option<Vec<u8>>, usize) = (None, 0);
    loop {
        let page = archives.files(KEY, b"many", after.as_deref(), 1_000).await.unwrap().unwrap();
        seen += page.files.len();
        after = page.files.last().map(|file| file.path[b"many/".len()..].to_vec());
        if !page.more {
            break;
        }
        assert_eq!(page.files.len(), 1_000);
    }
    assert_eq!(seen, 9_000);
}

#[tokio::test]
async fn an_empty_archive_lists_nothing() {
    let archives = ObjectArchives::new(Arc::new(InMemory::new()), "");
    archives.put_empty(KEY).await.unwrap();
    assert_eq!(names(&archives, "").await, [""; 0]);
    assert!(archives.file(KEY, b"x").await.unwrap().is_none());
    let missing = archives.files("ws-1/op-2/home.tar.zst", b"", None, 9).await;
    assert!(matches!(missing, Err(ArchiveError::NotFound { .. })));
}

/// Whatever byte is wrong: an error, or nothing that was asked for depends on it.
#[tokio::test]
async fn damage_is_never_passed_on() {
    let home = sample_home();
    let (archives, store) = stored(home.path()).await;
    let location = Location::from(KEY);
    let good = store.get(&location).await.unwrap().bytes().await.unwrap();
    let wanted = std::fs::read(home.path().join("src/deep/er/leaf")).unwrap();
    let listed = names(&archives, "src").await;
    for at in 0..good.len() {
        let mut bad = good.to_vec();
        bad[at] ^= 1 << (at % 8);
        store.put(&location, bad.into()).await.unwrap();
        if let Ok(Some(page)) = archives.files(KEY, b"src", None, 100).await {
            let found: Vec<_> = page.files.iter().map(|f| String::from_utf8_lossy(&f.path)).collect();
            assert_eq!(found, listed, "byte {at}");
        }
        if let Ok(Some((_, Some(_)))) = archives.file(KEY, b"src/deep/er/leaf").await
            && let Ok(bytes) = read(&archives, b"src/deep/er/leaf").await
        {
            assert!(bytes == wanted, "byte {at}");
        }
    }
}

/// Archives of format 1 restore for ever. They have no list.
#[tokio::test]
async fn the_first_format_is_restored() {
    let store = Arc::new(InMemory::new());
    let files: [(&str, &[u8]); 2] = [
        (KEY, include_bytes!("golden/format1/home.tar.zst")),
        ("ws-1/op-1/home.tar.zst.meta", include_bytes!("golden/format1/home.tar.zst.meta")),
    ];
    for (key, bytes) in files {
        store.put(&Location::from(key), bytes.to_vec().into()).await.unwrap();
    }
    let archives = ObjectArchives::new(store, "");
    assert_eq!(archives.head(KEY).await.unwrap().unwrap().format, 1);
    let target = tempdir();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    archives.fetch(KEY, target.path(), &progress, &cancel).await.unwrap();
    let found = snapshot(target.path());
    assert_eq!(found.len(), 13);
    let at = |path: &str| &found[Path::new(path)];
    assert_eq!(at("same.rs").same_as, at("src/main.rs").same_as);
    assert_eq!((at("script").mode & 0o7777, at("src/deep").mode & 0o7777), (0o4755, 0));
    assert!(found.values().all(|node| node.mtime == (1_700_000_000, 123_456_789)));
    let Content::File { data, sparse } = &at("sparse").content else { panic!("{:?}", at("sparse")) };
    assert!(*sparse && data.len() == 1 << 20 && data[500_000..500_004] == *b"data");
    assert!(found.contains_key(name(b"not-utf8-\xff")));
    assert!(matches!(archives.files(KEY, b"", None, 9).await, Err(ArchiveError::NotListed)));
    // As somebody who is not root: let the directory be removed.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(target.path().join("src/deep"), open).unwrap();
}

fn entry() -> impl Strategy<Value = ArchivedFile> {
    let path = prop::collection::vec(prop::collection::vec(1..=255_u8, 1..5), 0..5);
    let kind = prop::sample::select(vec![
        FileKind::Directory,
        FileKind::File,
        FileKind::Symlink,
        FileKind::HardLink,
    ]);
    (path, kind, any::<(u64, u32, i64, u32, u64)>(), any::<Vec<u8>>()).prop_map(|(path, kind, n, target)| {
        ArchivedFile {
            path: path.join(&b'/'),
            kind,
            size: n.0,
            mode: n.1,
            mtime_seconds: n.2,
            mtime_nanoseconds: n.3,
            target: if matches!(kind, FileKind::Symlink | FileKind::HardLink) { target } else { Vec::new() },
            offset: n.4,
        }
    })
}

proptest! {
    #[test]
    fn manifests_come_back(entries in prop::collection::vec(entry(), 0..50)) {
        let mut manifest = Manifest::default();
        for entry in &entries {
            assert!(manifest.add(entry).is_none());
        }
        let mut found = Vec::new();
        if let Some(piece) = manifest.rest() {
            read_piece(&piece.bytes, &mut |entry| {
                found.push(entry);
                Ok(true)
            }).unwrap();
        }
        prop_assert_eq!(found, entries);
    }

    #[test]
    fn indexes_come_back(frames in any::<Vec<(u64, u32)>>(), pieces in any::<Vec<(u64, u32, Vec<u8>, Vec<u8>)>>()) {
        let pieces = pieces.into_iter().map(|(at, len, first, last)| (at, len, Span { first, last })).collect();
        let index = Index { frames, pieces };
        prop_assert_eq!(Index::decode(&index.encode()).unwrap(), index);
    }

    #[test]
    fn any_bytes_are_an_index_or_an_error(bytes in any::<Vec<u8>>()) {
        let _ = Index::decode(&bytes);
        let _ = read_piece(&bytes, &mut |_| Ok(true));
    }
}

#[test]
fn a_directory_comes_before_what_is_in_it() {
    let sorted: [&[u8]; 6] = [b"", b"a", b"a/b", b"a/b/c", b"a.txt", b"b"];
    for pair in sorted.windows(2) {
        assert!(walk_order(pair[0], pair[1]).is_lt(), "{pair:?}");
    }
}
