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

use serde_json::json;

use crate::support::Setup;

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
    let server = Setup::new().start().await;
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
