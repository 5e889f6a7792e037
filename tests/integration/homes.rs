//! A home survives archive and restore bit for bit, whatever is in it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use codehub_testing::eventually;
use serde_json::json;

use crate::support::{Server, Setup};

/// Everything that can be told about an entry.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    links: u64,
    content: Vec<u8>,
    xattrs: BTreeMap<OsString, Vec<u8>>,
    blocks_are_few: bool,
}

fn fill(home: &Path) {
    let file = |name: &[u8], content: &[u8]| {
        let path = home.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    };
    file(b"plain.txt", b"hello\n");
    file("한글/이름.txt".as_bytes(), "안녕\n".as_bytes());
    file(b"not-utf8-\xff\xfe.bin", &[0, 255, 1, 254]);
    file(format!("{}/{}", "d".repeat(200), "f".repeat(255)).as_bytes(), b"long");
    fs::set_permissions(file(b"secret", b"x"), fs::Permissions::from_mode(0o400)).unwrap();
    // A server that runs as root restores no setuid.
    let mode = if rustix::process::geteuid().is_root() { 0o755 } else { 0o4755 };
    fs::set_permissions(file(b"run.sh", b"#!/bin/sh\n"), fs::Permissions::from_mode(mode)).unwrap();
    fs::hard_link(home.join("plain.txt"), home.join("again.txt")).unwrap();
    symlink("plain.txt", home.join("link")).unwrap();
    symlink("/nowhere/at/all", home.join("dangling")).unwrap();
    fs::create_dir(home.join("empty")).unwrap();
    let mut sparse = File::create(home.join("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(64 << 20)).unwrap();
    sparse.write_all(b"end").unwrap();
    let tagged = file(b"tagged", b"t");
    if xattr::set(&tagged, "user.note", b"kept \x00 bytes").is_err() {
        codehub_testing::skip("no extended attributes on this file system");
    }
    let old = file(b"old", b"o");
    let then = UNIX_EPOCH + Duration::new(981_173_106, 123_456_789);
    File::options().write(true).open(&old).unwrap().set_modified(then).unwrap();
    let shut = home.join("shut");
    fs::create_dir(&shut).unwrap();
    fs::write(shut.join("inside"), "in").unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o500)).unwrap();
}

fn look(home: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    let mut todo = vec![home.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_vec()
        } else if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let names = if meta.is_symlink() { Vec::new() } else { xattr::list(&path).unwrap().collect() };
        let xattrs = names
            .into_iter()
            .map(|name| (name.clone(), xattr::get(&path, &name).unwrap().unwrap()))
            .collect();
        let entry = Entry {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            links: if meta.is_dir() { 0 } else { meta.nlink() },
            blocks_are_few: meta.blocks() * 512 < (1 << 20),
            content,
            xattrs,
        };
        found.insert(path.strip_prefix(home).unwrap().to_owned(), entry);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_and_restored_bit_for_bit() {
    bit_for_bit("2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_in_pieces_and_restored_bit_for_bit() {
    bit_for_bit("3").await;
}

async fn bit_for_bit(format: &str) {
    let server = Setup::new().env("ARCHIVE_FORMAT", format).start().await;
    let id = server.create(json!({ "name": "full", "desired_state": "STANDBY" })).await;
    fill(&server.home(&id));
    let before = look(&server.home(&id));
    for _ in 0..2 {
        server.go(&id, "archive").await;
        assert!(server.volumes(&id).is_empty());
        let (status, body) = server
            .call(
                reqwest::Method::PATCH,
                &format!("/workspaces/{id}"),
                Some(json!({ "desired_state": "STANDBY" })),
            )
            .await;
        assert_eq!(status, 200, "{body}");
        server.until_phase(&id, "STANDBY").await;
        let after = look(&server.home(&id));
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        for (path, entry) in &before {
            assert_eq!(entry, &after[path], "{}", path.display());
        }
    }
}

/// The hardest compression makes a small home take long enough to be watched.
#[tokio::test(flavor = "multi_thread")]
async fn archiving_says_how_far_it_is_how_fast_and_how_long_still() {
    let server = Setup::new().env("ARCHIVE_LEVEL", "19").start().await;
    let id = server.create(json!({ "name": "slow", "desired_state": "STANDBY" })).await;
    let text: Vec<u8> = (0_u32..4_000_000)
        .flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 8).to_string().into_bytes())
        .collect();
    fs::write(server.home(&id).join("text"), &text).unwrap();
    let (status, body) = server.post(&format!("/workspaces/{id}/archive"), json!({})).await;
    assert_eq!(status, 202, "{body}");
    let watched = server
        .until(&id, "progress with a rate", |workspace| {
            let progress = &workspace["progress"];
            progress["rate"].as_u64() > Some(0) || workspace["status"] == "ARCHIVED"
        })
        .await;
    let progress = &watched["progress"];
    assert_eq!(progress["unit"], "bytes", "{watched}");
    let number = |key: &str| progress[key].as_u64().unwrap_or_else(|| panic!("{key}: {progress}"));
    assert!((1..=number("total")).contains(&number("done")), "{progress}");
    assert!(number("total") >= text.len() as u64, "{progress}");
    assert_eq!(
        number("remaining_seconds"),
        (number("total") - number("done")).div_ceil(number("rate")),
        "{progress}"
    );
    server.until_phase(&id, "ARCHIVED").await;
}

/// What does not compress, and is different for each seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    bytes.flatten().take(len).collect()
}

/// Archives of one workspace: the sizes of their data, oldest first, and whether they have their mark.
fn stored(server: &Server, id: &str) -> Vec<(u64, bool)> {
    let files = server.archive_files(id);
    let data = files.iter().filter(|path| path.ends_with("home.tar.zst"));
    let marked = |path: &PathBuf| files.contains(&path.with_extension("zst.meta"));
    data.map(|path| (path.metadata().unwrap().len(), marked(path))).collect()
}

async fn to_standby(server: &Server, id: &str) {
    let wish = json!({ "desired_state": "STANDBY" });
    let path = format!("/workspaces/{id}");
    let (status, body) = server.call(reqwest::Method::PATCH, &path, Some(wish)).await;
    assert_eq!(status, 200, "{body}");
    server.until_phase(id, "STANDBY").await;
}

/// A home that is archived day after day: each archive costs what changed, each that is kept can be looked into and
/// copied, and what is referred to stays until nothing refers to it, whoever restarts meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_archive_costs_what_changed_and_refers_to_what_stays() {
    let mut server = Setup::new()
        .env("ARCHIVE_KEEP", "1")
        .env("GC_ORPHAN_DELAY", "0")
        .env("COORDINATOR_GC_INTERVAL", "1s")
        .start()
        .await;
    let id = server.create(json!({ "name": "daily", "desired_state": "STANDBY" })).await;
    fs::write(server.home(&id).join("large"), noise(1, 6 << 20)).unwrap();
    server.go(&id, "archive").await;
    // From the day the setting is changed on.
    server.stop();
    server.set_env("ARCHIVE_FORMAT", "3");
    server.restart().await;
    to_standby(&server, &id).await;
    server.go(&id, "archive").await;
    for day in 0..3 {
        to_standby(&server, &id).await;
        assert!(fs::read(server.home(&id).join("large")).unwrap() == noise(1, 6 << 20), "{day}");
        fs::write(server.home(&id).join(format!("day-{day}")), noise(7 + day, 100_000)).unwrap();
        server.go(&id, "archive").await;
    }
    // One archive is kept; the first of this format is only an object that it has parts in.
    let collected = |server: &Server| {
        let stored = stored(server, &id);
        stored.len() >= 2 && stored[0].0 > 6 << 20 && stored.iter().filter(|(_, marked)| *marked).count() == 1
    };
    eventually("only one archive is left", async || collected(&server)).await;
    assert!(stored(&server, &id)[1..].iter().all(|(size, _)| *size < 1 << 20), "{:?}", stored(&server, &id));
    server.kill();
    server.restart().await;

    let archives = server.get(&format!("/workspaces/{id}/archives")).await;
    let archives = archives["items"].as_array().unwrap();
    assert_eq!(archives.len(), 1, "{archives:?}");
    let archive = archives[0]["id"].as_str().unwrap();
    let files = server.get(&format!("/workspaces/{id}/archives/{archive}/files")).await;
    let text = files.to_string();
    assert!(text.contains("day-0") && text.contains("large"), "{text}");
    let file = format!("/workspaces/{id}/archives/{archive}/file?path=large");
    assert!(server.download(&file).await == noise(1, 6 << 20));

    // A copy of it needs the same objects, also when the workspace it is of is gone.
    let key = archives[0]["key"].as_str().unwrap();
    let fork = json!({ "name": "fork", "from_archive": key, "desired_state": "ARCHIVED" });
    let fork = server.create(fork).await;
    // Without a server and without a database, too.
    let verified = server.setup.command(&["archive", "verify"]).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.success() && said.contains(&format!("{key}: good")), "{verified:?}");
    let out = server.setup.data.path().join("out");
    let restored =
        server.setup.command(&["archive", "restore", key, out.to_str().unwrap()]).output().unwrap();
    assert!(restored.status.success(), "{restored:?}");
    assert!(fs::read(out.join("large")).unwrap() == noise(1, 6 << 20));
    let (status, body) = server.call(reqwest::Method::DELETE, &format!("/workspaces/{id}"), None).await;
    assert_eq!(status, 204, "{body}");
    to_standby(&server, &fork).await;
    assert!(fs::read(server.home(&fork).join("large")).unwrap() == noise(1, 6 << 20));
    assert!(fs::read(server.home(&fork).join("day-2")).unwrap() == noise(9, 100_000));
    // With an archive of its own it needs nothing of the other, and nobody else does.
    server.go(&fork, "archive").await;
    let gone = async || server.archive_files(&id).is_empty();
    eventually("nothing is left of the deleted workspace", gone).await;
    to_standby(&server, &fork).await;
    assert!(fs::read(server.home(&fork).join("large")).unwrap() == noise(1, 6 << 20));
}
