//! What goes in comes out: round trips over generated and chosen homes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
struct Item {
    /// Which of the directories made so far it goes into.
    parent: usize,
    name: Vec<u8>,
    what: What,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, u32),
    xattrs: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum What {
    Directory,
    File(Vec<u8>),
    /// Data at page numbers, and how far the file reaches beyond the last.
    Sparse(Vec<u16>, u16),
    Symlink(Vec<u8>),
    HardLink(usize),
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let usable = |name: &Vec<u8>| name != b"." && name != b"..";
    let byte = any::<u8>().prop_filter("a name byte", |b| *b != 0 && *b != b'/');
    prop_oneof![
        4 => "[a-zA-Z0-9._=% -]{1,12}".prop_map(String::into_bytes),
        1 => "[äöü漢字]{1,8}".prop_map(String::into_bytes),
        1 => vec(byte.clone(), 1..20),
        1 => vec(byte, 200..=255),
    ]
    .prop_filter("not a special name", usable)
}

fn items() -> impl Strategy<Value = Item> {
    let what = prop_oneof![
        3 => Just(What::Directory),
        4 => vec(any::<u8>(), 0..3000).prop_map(What::File),
        1 => (0..400_000_usize).prop_map(|len| What::File(noise(len))),
        2 => (vec(0..600_u16, 0..6), 0..50_u16).prop_map(|(at, rest)| What::Sparse(at, rest)),
        2 => "[a-z./]{1,20}".prop_map(|t| What::Symlink(t.into_bytes())),
        1 => "[a-z/]{100,300}".prop_map(|t| What::Symlink(t.into_bytes())),
        2 => any::<usize>().prop_map(What::HardLink),
    ];
    let xattr = ("[a-z=%.]{1,12}", vec(any::<u8>(), 0..100));
    (
        any::<usize>(),
        names(),
        what,
        0..=0o1777_u32,
        (any::<u16>(), 0..3_000_000_u32),
        (-2_000_000_000..8_000_000_000_i64, 0..1_000_000_000_u32),
        vec(xattr, 0..3),
    )
        .prop_map(|(parent, name, what, mode, owner, mtime, xattrs)| Item {
            parent,
            name,
            what,
            mode,
            owner: (owner.0.into(), owner.1),
            mtime,
            xattrs,
        })
}

fn build(root: &Path, items: &[Item]) {
    let mut dirs = vec![PathBuf::new()];
    let mut files: Vec<PathBuf> = Vec::new();
    let mut made = Vec::new();
    for item in items {
        let path = dirs[item.parent % dirs.len()].join(name(&item.name));
        let full = root.join(&path);
        if full.as_os_str().len() > 3500 || full.symlink_metadata().is_ok() {
            continue;
        }
        match &item.what {
            What::Directory => {
                fs::create_dir(&full).unwrap();
                dirs.push(path);
            }
            What::File(content) => {
                fs::write(&full, content).unwrap();
                files.push(path);
            }
            What::Sparse(pages, rest) => {
                let file = fs::File::create(&full).unwrap();
                for page in pages {
                    file.write_at(b"data", u64::from(*page) * 4096).unwrap();
                }
                let len = file.metadata().unwrap().len();
                file.set_len(len + u64::from(*rest) * 4096).unwrap();
                files.push(path);
            }
            What::Symlink(target) => symlink(name(target), &full).unwrap(),
            What::HardLink(which) => match files.get(which % files.len().max(1)) {
                Some(first) => {
                    fs::hard_link(root.join(first), &full).unwrap();
                    continue;
                }
                None => continue,
            },
        }
        made.push((full, item));
    }
    for (full, item) in made.iter().rev() {
        dress(full, item);
    }
}

fn dress(path: &Path, item: &Item) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    if is_root() {
        std::os::unix::fs::lchown(path, Some(item.owner.0), Some(item.owner.1)).unwrap();
    }
    if !path.is_symlink() {
        for (key, value) in &item.xattrs {
            xattr::set(path, format!("user.{key}"), value).unwrap();
        }
        // Without privileges an unreadable file cannot be archived.
        let mode = if is_root() { item.mode } else { item.mode | 0o700 };
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let time = Timespec { tv_sec: item.mtime.0, tv_nsec: item.mtime.1.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn round_trip(home: &Path) -> PackSummary {
    let before = snapshot(home);
    let (bytes, packed) = pack_bytes(home).unwrap();
    let target = tempdir();
    let unpacked = unpack_bytes(&bytes, target.path()).unwrap();
    assert_same(&before, &snapshot(target.path()));
    assert_eq!(packed.sha256, unpacked.sha256);
    assert_eq!(packed.size, unpacked.size);
    assert_eq!(packed.uncompressed, unpacked.uncompressed);
    assert_eq!(packed.entries, unpacked.entries);
    assert_eq!(packed.entries, before.len() as u64);
    packed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn any_home_survives(items in vec(items(), 0..40)) {
        let home = tempdir();
        build(home.path(), &items);
        round_trip(home.path());
    }

    #[test]
    fn gnu_tar_extracts_any_home(items in vec(items(), 0..25)) {
        if gnu::missing() {
            return Ok(());
        }
        let home = tempdir();
        build(home.path(), &items);
        gnu::extracts_ours(home.path());
    }

    #[test]
    fn any_home_of_gnu_tar_is_extracted(items in vec(items(), 0..25)) {
        if gnu::missing() {
            return Ok(());
        }
        let home = tempdir();
        build(home.path(), &items);
        gnu::is_extracted(home.path(), &["--format=posix", "-S"]);
    }
}

#[test]
fn sample_survives_and_is_the_same_archive_every_time() {
    let home = sample_home();
    round_trip(home.path());
    let one = |workers| {
        let mut bytes = Vec::new();
        let options = PackOptions { level: 3, workers };
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        pack(home.path(), &mut bytes, options, &progress, &cancel).unwrap();
        bytes
    };
    fs::write(home.path().join("large"), noise(20 << 20)).unwrap();
    let first = one(1);
    assert!(first == one(1) && first == one(3));
}

#[test]
fn empty_home_survives() {
    assert_eq!(round_trip(tempdir().path()).entries, 1);
}

#[test]
fn special_files_are_skipped_and_counted() {
    let home = sample_home();
    let before = snapshot(home.path());
    let fifo = home.path().join("src/fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(home.path().join("socket")).unwrap();
    let (bytes, summary) = pack_bytes(home.path()).unwrap();
    assert_eq!(summary.skipped, 2);
    let target = tempdir();
    unpack_bytes(&bytes, target.path()).unwrap();
    assert_eq!(before.len(), snapshot(target.path()).len());
}

#[test]
fn closed_files_and_directories_survive() {
    if !is_root() {
        codehub_testing::skip("needs root to read what nobody may");
        return;
    }
    let home = sample_home();
    for path in ["src/deep", "src/main.rs", "empty"] {
        let mode = PermissionsExt::from_mode(0o0);
        fs::set_permissions(home.path().join(path), mode).unwrap();
    }
    round_trip(home.path());
}

/// Whoever restores as root could make programs that act with others' rights, and must not.
#[test]
fn root_restores_no_rights_and_gives_the_home_to_its_new_owner() {
    if !is_root() {
        codehub_testing::skip("needs root to give files away");
        return;
    }
    let home = sample_home();
    let at = |path: &str| home.path().join(path);
    let mode = |path: &str, mode| fs::set_permissions(at(path), PermissionsExt::from_mode(mode)).unwrap();
    let own = |path: &str, uid, gid| std::os::unix::fs::lchown(at(path), Some(uid), Some(gid)).unwrap();
    // A home from a container: its user's, except for what root left there.
    for path in ["", "src", "src/deep", "src/deep/er", "src/deep/er/leaf", "script", "link", "empty"] {
        own(path, 1000, 1000);
    }
    own("src/main.rs", 0, 1000);
    mode("script", 0o6755);
    mode("src/main.rs", 0o2644);
    mode("src", 0o2775);
    mode("empty", 0o1777);
    let (bytes, _) = pack_bytes(home.path()).unwrap();
    let target = tempdir();
    std::os::unix::fs::chown(target.path(), Some(4321), Some(5432)).unwrap();
    unpack_bytes(&bytes, target.path()).unwrap();
    let found = |path: &str| {
        use std::os::unix::fs::MetadataExt;
        let meta = fs::symlink_metadata(target.path().join(path)).unwrap();
        (meta.uid(), meta.gid(), meta.mode() & 0o7777)
    };
    assert_eq!(found("script"), (4321, 5432, 0o755));
    assert_eq!(found("src/main.rs"), (0, 5432, 0o644), "what was somebody else's stays theirs");
    assert_eq!(found("src"), (4321, 5432, 0o2775), "on a directory it is no right but a default");
    assert_eq!(found("empty"), (4321, 5432, 0o1777));
    assert_eq!(found("src/deep/er/leaf").0, 4321);
    assert_eq!(found("link").0, 4321);
    assert_eq!(found("").0, 4321);
}

#[test]
fn root_restores_no_capabilities() {
    let home = sample_home();
    // Version 2, cap_net_bind_service, effective and permitted.
    let mut capability = [0_u8; 20];
    (capability[0], capability[3], capability[5]) = (1, 2, 4);
    let set = xattr::set(home.path().join("script"), "security.capability", &capability);
    if let Err(error) = set {
        codehub_testing::skip(format_args!("capabilities may not be set here ({error})"));
        return;
    }
    let (bytes, _) = pack_bytes(home.path()).unwrap();
    let target = tempdir();
    unpack_bytes(&bytes, target.path()).unwrap();
    assert_eq!(xattr::get(target.path().join("script"), "security.capability").unwrap(), None);
}

#[test]
fn hard_links_to_symlinks_survive() {
    let home = sample_home();
    fs::hard_link(home.path().join("dangling"), home.path().join("again")).unwrap();
    round_trip(home.path());
}

#[test]
fn deeper_than_any_path_survives() {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    let home = tempdir();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut dir = rustix::fs::open(home.path(), flags, Mode::empty()).unwrap();
    let segment = "d".repeat(50);
    for _ in 0..200 {
        mkdirat(&dir, &segment, Mode::RWXU).unwrap();
        dir = openat(&dir, &segment, flags, Mode::empty()).unwrap();
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let file = openat(&dir, "leaf", flags, Mode::from_raw_mode(0o640)).unwrap();
    fs::File::from(file).write_all(b"bottom").unwrap();
    rustix::fs::linkat(&dir, "leaf", &dir, "leaf2", rustix::fs::AtFlags::empty()).unwrap();

    let (bytes, packed) = pack_bytes(home.path()).unwrap();
    let target = tempdir();
    assert_eq!(unpack_bytes(&bytes, target.path()).unwrap().entries, packed.entries);
    let (again, _) = pack_bytes(target.path()).unwrap();
    assert!(bytes == again, "the copy packs to the same bytes");
}

#[test]
fn huge_sparse_file_stays_sparse() {
    let home = tempdir();
    let file = fs::File::create(home.path().join("disk.img")).unwrap();
    file.write_at(b"start", 0).unwrap();
    file.write_at(b"far away", 9 << 30).unwrap();
    file.set_len(20 << 30).unwrap();
    let (bytes, packed) = pack_bytes(home.path()).unwrap();
    assert!(packed.uncompressed < 1 << 20);
    let target = tempdir();
    unpack_bytes(&bytes, target.path()).unwrap();
    let copy = fs::File::open(target.path().join("disk.img")).unwrap();
    assert_eq!(copy.metadata().unwrap().len(), 20 << 30);
    assert!(copy.metadata().unwrap().blocks() < 2048);
    let mut there = [0; 8];
    copy.read_exact_at(&mut there, 9 << 30).unwrap();
    assert_eq!(&there, b"far away");
}

#[test]
fn many_holes_are_filled_up_to_a_bound() {
    let home = tempdir();
    let file = fs::File::create(home.path().join("holes")).unwrap();
    for page in 0..17_000 {
        file.write_at(b"x", page * 8192).unwrap();
    }
    file.set_len(17_000 * 8192).unwrap();
    drop(file);
    let (bytes, _) = pack_bytes(home.path()).unwrap();
    let target = tempdir();
    unpack_bytes(&bytes, target.path()).unwrap();
    let read = |dir: &Path| fs::read(dir.join("holes")).unwrap();
    assert!(read(home.path()) == read(target.path()));
}

/// Does something to the home as soon as bytes of it come out.
struct Meddler<F: FnMut()>(Option<F>);

impl<F: FnMut()> Write for Meddler<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // What precedes a home says nothing about it, and is short.
        if bytes.len() > 100
            && let Some(mut meddle) = self.0.take()
        {
            meddle();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_home_that_is_not_at_rest_is_an_error() {
    type Meddle = fn(&Path);
    let table: [(&str, Meddle); 5] = [
        ("shrinks", |home| {
            let file = fs::File::options().write(true).open(home.join("a"));
            file.unwrap().set_len(1).unwrap();
        }),
        ("grows", |home| {
            let file = fs::File::options().append(true).open(home.join("a"));
            file.unwrap().write_all(b"more").unwrap();
        }),
        ("is overwritten", |home| {
            let file = fs::File::options().write(true).open(home.join("a"));
            file.unwrap().write_all(b"other").unwrap();
        }),
        ("vanishes", |home| fs::remove_file(home.join("b")).unwrap()),
        ("appears", |home| fs::write(home.join("0"), b"").unwrap()),
    ];
    for (what, meddle) in table {
        let home = tempdir();
        fs::write(home.path().join("a"), noise(48 << 20)).unwrap();
        fs::write(home.path().join("b"), b"b").unwrap();
        let sink = Meddler(Some(|| meddle(home.path())));
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        let outcome = pack(home.path(), sink, PackOptions::default(), &progress, &cancel);
        let changed = matches!(outcome, Err(ArchiveError::Changed { .. }));
        assert!(changed, "{what}: {outcome:?}");
    }
}
