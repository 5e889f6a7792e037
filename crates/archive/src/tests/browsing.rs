//! Looking into archives, and archives of earlier versions.

use std::sync::Arc;

use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use proptest::prelude::*;

use super::super::manifest::{CHUNKED_MAGIC, Index, MAGIC, Manifest, Span, read_piece, walk_order};
use super::super::{ArchivedFile, Expected, FileKind, ObjectArchives};
use super::*;

const KEY: &str = "ws-1/op-1/home.tar.zst";

async fn stored(home: &Path) -> (ObjectArchives, Arc<InMemory>) {
    let store = Arc::new(InMemory::new());
    let archives = ObjectArchives::new(store.clone(), "");
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    archives.put(KEY, home, &progress, &cancel).await.unwrap();
    (archives, store)
}

/// What is noted elsewhere of an archive that was stored a moment ago.
async fn known(archives: &ObjectArchives) -> Expected {
    archives.describe(KEY).await.unwrap().unwrap()
}

async fn read(archives: &ObjectArchives, path: &[u8]) -> Result<Vec<u8>> {
    read_as(archives, &known(archives).await, path).await
}

async fn read_as(archives: &ObjectArchives, known: &Expected, path: &[u8]) -> Result<Vec<u8>> {
    let Some((_, Some(mut stream))) = archives.file(KEY, known, path).await? else {
        return Err(ArchiveError::corrupted("it is not there any more"));
    };
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

async fn names(archives: &ObjectArchives, dir: &str) -> Vec<String> {
    let page =
        archives.files(KEY, &known(archives).await, dir.as_bytes(), None, 10_000).await.unwrap().unwrap();
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

    let (known, expected) = (known(&archives).await, snapshot(home.path()));
    // All of the many would take a while.
    let some = |path: &Path| !path.starts_with("many") || path.to_string_lossy().ends_with("99");
    for (path, node) in expected.iter().filter(|(path, _)| some(path)) {
        let raw = path.as_os_str().as_bytes();
        let (entry, stream) = archives.file(KEY, &known, raw).await.unwrap().unwrap();
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
        assert_eq!(
            archives.files(KEY, &known, missing.as_bytes(), None, 9).await.unwrap(),
            None,
            "{missing}"
        );
        assert!(archives.file(KEY, &known, missing.as_bytes()).await.unwrap().is_none(), "{missing}");
    }

    // In pages.
    let (mut after, mut seen): (Option<Vec<u8>>, usize) = (None, 0);
    loop {
        let page = archives.files(KEY, &known, b"many", after.as_deref(), 1_000).await.unwrap().unwrap();
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
    let known = known(&archives).await;
    assert!(archives.file(KEY, &known, b"x").await.unwrap().is_none());
    let missing = archives.files("ws-1/op-2/home.tar.zst", &known, b"", None, 9).await;
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
    let known = known(&archives).await;
    for at in 0..good.len() {
        let mut bad = good.to_vec();
        bad[at] ^= 1 << (at % 8);
        store.put(&location, bad.into()).await.unwrap();
        if let Ok(Some(page)) = archives.files(KEY, &known, b"src", None, 100).await {
            let found: Vec<_> = page.files.iter().map(|f| String::from_utf8_lossy(&f.path)).collect();
            assert_eq!(found, listed, "byte {at}");
        }
        if let Ok(bytes) = read_as(&archives, &known, b"src/deep/er/leaf").await {
            assert!(bytes == wanted, "byte {at}");
        }
    }
}

/// The attacker's archives are whole, and their checksums are right: only they are not the ones that were noted.
#[tokio::test]
async fn another_archive_is_never_shown() {
    let (home, theirs) = (sample_home(), sample_home());
    let path = b"src/deep/er/leaf";
    std::fs::write(home.path().join("large"), noise(5 << 20)).unwrap();
    std::fs::write(theirs.path().join("large"), noise(5 << 20).iter().map(|b| b ^ 1).collect::<Vec<_>>())
        .unwrap();
    // Of the same length, so that the places in the index are nearly the same, too.
    std::fs::write(theirs.path().join("src/deep/er/leaf"), vec![8; 70_000]).unwrap();
    let (archives, store) = stored(home.path()).await;
    let (other, from) = stored(theirs.path()).await;
    let (known, data, meta) =
        (known(&archives).await, Location::from(KEY), Location::from(format!("{KEY}.meta")));
    let objects = async |store: &Arc<InMemory>| {
        let bytes = async |at: &Location| store.get(at).await.unwrap().bytes().await.unwrap();
        (bytes(&data).await, bytes(&meta).await)
    };
    let (ours, foreign) = (objects(&store).await, objects(&from).await);
    assert_eq!(other.head(KEY).await.unwrap().unwrap().entries, known.entries);
    // Both, the data alone, the meta object alone, and a meta object that lies about the data beside it.
    let lying = String::from_utf8(ours.1.to_vec())
        .unwrap()
        .replace(&known.size.to_string(), &foreign.0.len().to_string());
    for (what, stream, meta_bytes) in [
        ("both", &foreign.0, foreign.1.clone()),
        ("stream", &foreign.0, lying.into()),
        ("meta", &ours.0, foreign.1.clone()),
    ] {
        store.put(&data, stream.clone().into()).await.unwrap();
        store.put(&meta, meta_bytes.into()).await.unwrap();
        let listed = archives.files(KEY, &known, b"src", None, 9).await;
        assert!(listed.as_ref().is_err_and(ArchiveError::is_corrupted), "{what}: {listed:?}");
        let file = read_as(&archives, &known, path).await;
        assert!(file.as_ref().is_err_and(ArchiveError::is_corrupted), "{what}");
    }
    // The index and the list of files stay, one frame is exchanged for another that is whole.
    let index = Index::decode(&index_of(&ours.0), *MAGIC).unwrap();
    assert!(index.frames.len() > 1 && index.frame_digests.len() == index.frames.len());
    let place =
        |(start, len): &(u64, u32)| (usize::try_from(*start).unwrap(), usize::try_from(*len).unwrap());
    let holds_it = |(start, len): &(usize, usize)| {
        let frame = zstd::decode_all(&ours.0[*start..start + len]).unwrap();
        frame.windows(1000).any(|bytes| bytes == [7; 1000])
    };
    let (start, len) = index.frames.iter().map(place).find(holds_it).unwrap();
    let mut swapped = ours.0.to_vec();
    let frame = zstd::decode_all(&swapped[start..start + len]).unwrap();
    let changed: Vec<u8> = frame.iter().map(|byte| if *byte == 7 { 8 } else { *byte }).collect();
    let squeezed = zstd::bulk::compress(&changed, 19).unwrap();
    assert!(squeezed.len() + 8 <= len, "{} of {len}", squeezed.len());
    swapped[start..start + squeezed.len()].copy_from_slice(&squeezed);
    // What is left over is a skippable frame: the whole is still a stream that decodes.
    let rest = u32::try_from(len - squeezed.len() - 8).unwrap();
    let after = start + squeezed.len();
    swapped[after..after + 4].copy_from_slice(&0x184D_2A5C_u32.to_le_bytes());
    swapped[after + 4..after + 8].copy_from_slice(&rest.to_le_bytes());
    store.put(&data, swapped.into()).await.unwrap();
    store.put(&meta, ours.1.clone().into()).await.unwrap();
    assert!(archives.files(KEY, &known, b"src", None, 9).await.is_ok());
    let file = read_as(&archives, &known, path).await;
    assert!(file.as_ref().is_err_and(ArchiveError::is_corrupted), "a frame of somebody else's was shown");
}

fn index_of(stored: &[u8]) -> Vec<u8> {
    let (rest, trailer) = stored.split_at(stored.len() - 16);
    let at = usize::try_from(Index::read_trailer(trailer).unwrap().0).unwrap();
    zstd::decode_all(&rest[at + 8..]).unwrap()
}

/// Archives from before indexes had digests are listed and read, held against their index.
#[tokio::test]
async fn an_index_without_digests_is_read() {
    let home = sample_home();
    let (archives, store) = stored(home.path()).await;
    let (data, meta) = (Location::from(KEY), Location::from(format!("{KEY}.meta")));
    let stored = store.get(&data).await.unwrap().bytes().await.unwrap();
    let mut index = Index::decode(&index_of(&stored), *MAGIC).unwrap();
    index.frame_digests.clear();
    index.piece_digests.clear();
    let (at, _) = Index::read_trailer(&stored[stored.len() - 16..]).unwrap();
    let mut payload = zstd::encode_all(&index.encode()[..], 3).unwrap();
    payload.extend_from_slice(&index.trailer(at));
    let mut old = stored[..usize::try_from(at).unwrap()].to_vec();
    old.extend_from_slice(&0x184D_2A5C_u32.to_le_bytes());
    old.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    old.extend_from_slice(&payload);
    let mut said: serde_json::Value =
        serde_json::from_slice(&store.get(&meta).await.unwrap().bytes().await.unwrap()).unwrap();
    said["size"] = old.len().into();
    said["sha256"] = crate::hash::hex(&crate::hash::sha256(&old)).into();
    said.as_object_mut().unwrap().remove("index_sha256").unwrap();
    store.put(&data, old.into()).await.unwrap();
    store.put(&meta, said.to_string().into()).await.unwrap();
    let known = known(&archives).await;
    assert!(known.index_sha256.is_some(), "it has an index, so it is noted");
    assert_eq!(names(&archives, "src").await, ["src/deep", "src/main.rs"]);
    assert_eq!(read(&archives, b"src/main.rs").await.unwrap(), b"fn main() {}\n");
    let target = tempdir();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    archives.fetch(KEY, target.path(), &progress, &cancel).await.unwrap();
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
    assert_eq!((at("script").mode & 0o7777, at("src/deep").mode & 0o7777), (script_mode(), 0));
    assert!(found.values().all(|node| node.mtime == (1_700_000_000, 123_456_789)));
    let Content::File { data, sparse } = &at("sparse").content else { panic!("{:?}", at("sparse")) };
    assert!(*sparse && data.len() == 1 << 20 && data[500_000..500_004] == *b"data");
    assert!(found.contains_key(name(b"not-utf8-\xff")));
    assert!(matches!(
        archives.files(KEY, &known(&archives).await, b"", None, 9).await,
        Err(ArchiveError::NotListed)
    ));
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
    fn indexes_come_back(
        frames in any::<Vec<(u64, u32)>>(),
        pieces in any::<Vec<(u64, u32, Vec<u8>, Vec<u8>)>>(),
        digests in any::<bool>(),
    ) {
        let pieces: Vec<_> =
            pieces.into_iter().map(|(at, len, first, last)| (at, len, Span { first, last })).collect();
        let digest = |(start, _): &(u64, u32)| crate::hash::sha256(&start.to_le_bytes());
        let mut index = Index { frames, pieces, ..Index::default() };
        if digests {
            index.frame_digests = index.frames.iter().map(digest).collect();
            index.piece_digests = index.pieces.iter().map(|(start, len, _)| digest(&(*start, *len))).collect();
        }
        prop_assert_eq!(Index::decode(&index.encode(), *MAGIC).unwrap(), index);
    }

    #[test]
    fn any_bytes_are_an_index_or_an_error(bytes in any::<Vec<u8>>()) {
        let _ = Index::decode(&bytes, *MAGIC);
        let _ = Index::decode(&bytes, *CHUNKED_MAGIC);
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
