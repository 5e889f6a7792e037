//! Archives that were not made by us: refused, and nothing outside the
//! target changes.

use std::io::Read;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::confined_target::ConfinedTarget;
use super::super::header::{self, Header, Mtime, TarKind, Xattr};
use super::super::unpack::unpack_into;
use super::forge::{Forge, sparse};
use super::*;

fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let f = Forge::default;
    let huge = b"8589934592".as_slice();
    vec![
        ("absolute path", f().file("/canary", b"x").end()),
        ("upwards", f().file("../canary", b"x").end()),
        ("upwards inside", f().dir("a").file("a/../../canary", b"x").end()),
        ("upwards and back", f().dir("a").file("a/../b", b"x").end()),
        ("symlink as directory", f().symlink("a", "..").file("a/canary", b"x").end()),
        ("absolute symlink as directory", f().symlink("a", "/tmp").file("a/x", b"x").end()),
        ("symlink to a directory inside", f().dir("d").symlink("a", "d").file("a/x", b"x").end()),
        ("directory over symlink", f().symlink("a", "..").dir("a").file("a/canary", b"x").end()),
        ("file through symlink", f().symlink("a", "../canary").file("a", b"x").end()),
        ("symlink over directory", f().dir("a").symlink("a", "..").file("a/canary", b"x").end()),
        ("symlink over file", f().file("a", b"").symlink("a", "..").end()),
        ("file twice", f().file("a", b"1").file("a", b"2").end()),
        ("directory twice", f().dir("a").dir("a").end()),
        ("home twice", f().dir("").dir("").end()),
        ("same name, other spelling", f().file("a", b"1").file("./a", b"2").end()),
        ("hard link upwards", f().link("a", "../canary").end()),
        ("hard link absolute", f().link("a", "/etc/passwd").end()),
        ("hard link through symlink", f().symlink("s", "..").link("a", "s/canary").end()),
        ("hard link to nothing", f().link("a", "b").end()),
        ("hard link to a directory", f().dir("d").link("a", "d").end()),
        ("hard link to the home", f().link("a", ".").end()),
        ("hard link to itself", f().link("a", "a").end()),
        ("hard link over file", f().file("a", b"").file("b", b"").link("b", "a").end()),
        ("file as directory", f().file("a", b"").file("a/b", b"").end()),
        ("character device", f().typed("null", b'3').end()),
        ("block device", f().typed("sda", b'4').end()),
        ("fifo", f().typed("fifo", b'6').end()),
        ("unknown type", f().typed("what", b'Z').end()),
        ("multi-volume", f().typed("what", b'M').end()),
        ("home is a file", f().file("./.", b"x").end()),
        ("empty symlink", f().symlink("a", "").end()),
        ("name too long", f().file(&"n".repeat(300), b"x").end()),
        ("NUL in name", f().pax(b'x', &[("path", b"a\0b")]).file("a", b"x").end()),
        ("pax path upwards", f().pax(b'x', &[("path", b"../canary")]).file("a", b"x").end()),
        ("pax path empty", f().pax(b'x', &[("path", b"")]).file("a", b"x").end()),
        ("pax link upwards", f().pax(b'x', &[("linkpath", b"../canary")]).link("a", "b").end()),
        ("pax size too large", f().pax(b'x', &[("size", huge)]).file("a", b"x").end()),
        ("pax size too small", f().pax(b'x', &[("size", b"0")]).file("a", b"data").end()),
        ("pax size not a number", f().pax(b'x', &[("size", b"-1")]).file("a", b"x").end()),
        ("pax size twice", f().pax(b'x', &[("size", b"1"), ("size", b"1")]).file("a", b"x").end()),
        ("pax size on directory", f().pax(b'x', &[("size", b"512")]).dir("a").raw(b"x").end()),
        ("pax size on symlink", f().pax(b'x', &[("size", b"1")]).symlink("a", "b").raw(b"x").end()),
        ("pax length lies", f().pax(b'x', &[]).raw(b"99 path=a\n").file("a", b"x").end()),
        ("pax owner out of range", f().pax(b'x', &[("uid", huge)]).file("a", b"x").end()),
        ("pax time out of range", f().pax(b'x', &[("mtime", &[b'9'; 30])]).file("a", b"x").end()),
        ("global header", f().pax(b'g', &[("path", b"b")]).file("a", b"x").end()),
        ("header too large", f().typed("a", b'x').patch(124, b"77777777777").end()),
        (
            "long name upwards",
            f().typed("a", b'L').patch(124, b"00000000011\0").raw(b"../canary").file("a", b"x").end(),
        ),
        ("negative size", f().file("a", b"").patch(124, &[0xff; 12]).end()),
        ("size is no number", f().file("a", b"").patch(124, b"zzzzzzzzzzz").end()),
        ("wrong checksum", f().raw(&[b'a'; 512]).end()),
        ("no end", f().file("a", b"x").0),
        ("half an end", f().file("a", b"x").raw(&[0; 512]).0),
        ("entry after the end", f().raw(&[0; 1024]).file("a", b"x").end()),
        ("zero block between", f().raw(&[0; 512]).file("a", b"x").end()),
        ("nothing at all", Vec::new()),
        ("names that differ in a dot", f().dir("a").file("a/b", b"1").file("a/./b", b"2").end()),
        ("directory over file", f().file("a", b"1").dir("a").end()),
        ("file over hard link", f().file("a", b"1").link("b", "a").file("b", b"2").end()),
        ("pax size negative zero", f().pax(b'x', &[("size", b"-0")]).file("a", b"x").end()),
        ("pax size with sign", f().pax(b'x', &[("size", b"+1")]).file("a", b"x").end()),
        ("pax size in hexadecimal", f().pax(b'x', &[("size", b"0x1")]).file("a", b"x").end()),
        ("pax size of everything", f().pax(b'x', &[("size", b"18446744073709551615")]).file("a", b"x").end()),
        ("pax headers without an entry", f().pax(b'x', &[("path", b"a")]).end()),
        ("sparse without a map", sparse(b"", 0)),
        ("sparse map of words", sparse(b"one\n", 512)),
        ("sparse map too long", sparse(b"99999999999\n", 512)),
        ("sparse map cut", sparse(b"2\n0\n1\n", 512)),
        ("sparse map overlaps", sparse(b"2\n0\n8\n4\n8\n", 528)),
        ("sparse map outside", sparse(b"1\n1000000\n8\n", 520)),
        ("sparse map wraps", sparse(b"1\n18446744073709551615\n8\n", 520)),
        ("sparse map promises more", sparse(b"1\n0\n100\n", 520)),
        ("sparse number without end", sparse(&[b'1'; 512], 512)),
        (
            "sparse name upwards",
            f().pax(
                b'x',
                &[
                    ("GNU.sparse.major", b"1"),
                    ("GNU.sparse.minor", b"0"),
                    ("GNU.sparse.name", b"../canary"),
                    ("GNU.sparse.realsize", b"8"),
                ],
            )
            .file("a", b"1\n0\n0\n")
            .end(),
        ),
        (
            "sparse beyond any file",
            f().pax(
                b'x',
                &[
                    ("GNU.sparse.major", b"1"),
                    ("GNU.sparse.minor", b"0"),
                    ("GNU.sparse.name", b"a"),
                    ("GNU.sparse.realsize", b"9223372036854775807"),
                ],
            )
            .entry("a", TarKind::File { size: 512 })
            .raw(b"1\n9223372036854775807\n0\n")
            .end(),
        ),
    ]
}

/// Unpacks into `target` beside a canary and returns what became of both.
fn attempt(tar: &[u8], openat2: bool) -> (Result<UnpackSummary>, Snapshot, Snapshot) {
    let scratch = tempdir();
    std::fs::write(scratch.path().join("canary"), b"alive").unwrap();
    let target = scratch.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let outside = || {
        let mut all = snapshot(scratch.path());
        all.retain(|path, _| !path.starts_with("target"));
        all
    };
    let before = outside();
    let stored = zstd::encode_all(tar, 1).unwrap();
    let mut confined = ConfinedTarget::open(&target).unwrap();
    if !openat2 {
        confined = confined.without_openat2();
    }
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let limits = Limits::default();
    let outcome = unpack_into(&stored[..], confined, limits, &progress, &cancel);
    (outcome, before, outside())
}

#[test]
fn hostile_archives_are_refused() {
    for (what, tar) in hostile() {
        for openat2 in [true, false] {
            let (outcome, before, after) = attempt(&tar, openat2);
            let error = outcome.expect_err(what);
            assert!(error.is_corrupted(), "{what}: {error:?}");
            assert_same(&before, &after);
        }
    }
}

#[test]
fn harmless_oddities_are_accepted() {
    let f = Forge::default;
    let table = [
        ("dots", f().dir("./a").file("./a/./b", b"x").end()),
        ("comment", f().pax(b'g', &[("comment", b"hi")]).file("a", b"x").end()),
        ("unknown keyword", f().pax(b'x', &[("VENDOR.what", b"1")]).file("a", b"x").end()),
        ("record padding", f().file("a", b"x").raw(&[0; 9 * 1024]).end()),
        (
            "pax size takes the next entry for data",
            f().pax(b'x', &[("size", b"1024")]).file("a", b"").file("../canary", b"x").end(),
        ),
        ("symlink upwards, unused", f().symlink("a", "../../..").end()),
        ("base 256 owner", f().file("a", b"").patch(108, &[0x80, 0, 0, 0, 0, 0, 0, 7]).end()),
        ("missing directories", f().file("a/b/c", b"x").dir("a").end()),
    ];
    for (what, tar) in table {
        for openat2 in [true, false] {
            let (outcome, before, after) = attempt(&tar, openat2);
            assert!(outcome.is_ok(), "{what}: {outcome:?}");
            assert_same(&before, &after);
        }
    }
}

#[test]
fn limits_stop_bombs() {
    let bomb = zstd::encode_all(std::io::repeat(0).take(64 << 20), 3).unwrap();
    let target = tempdir();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let limits = Limits { uncompressed: 1 << 20, entries: 3 };
    let outcome = unpack(&bomb[..], target.path(), limits, &progress, &cancel);
    assert!(outcome.is_err_and(|e| e.is_corrupted()));

    let mut many = Forge::default();
    for n in 0..4 {
        many = many.file(&n.to_string(), b"");
    }
    let many = zstd::encode_all(&many.end()[..], 3).unwrap();
    let outcome = unpack(&many[..], target.path(), limits, &progress, &cancel);
    assert!(outcome.is_err_and(|e| e.is_corrupted()));
}

/// A few kilobytes that become gigabytes stop at what the meta object said, long before.
#[test]
fn bombs_of_frames_stop_too() {
    let frame = zstd::encode_all(std::io::repeat(0).take(8 << 20), 19).unwrap();
    let bomb: Vec<u8> = std::iter::repeat_n(frame, 200).flatten().collect();
    let target = tempdir();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let limits = Limits { uncompressed: 32 << 20, entries: 3 };
    let outcome = unpack(&bomb[..], target.path(), limits, &progress, &cancel);
    assert!(outcome.is_err_and(|e| e.is_corrupted()));
    assert!(progress.moved() <= 34 << 20);
    // Frames that say nothing at all end with the input.
    let nothing: Vec<u8> = b"\x50\x2a\x4d\x18\0\0\0\0".repeat(100_000);
    let outcome = unpack(&nothing[..], tempdir().path(), limits, &progress, &cancel);
    assert!(outcome.is_err_and(|e| e.is_corrupted()));
}

/// A terabyte of nothing takes no room, and names that differ in case are two files.
#[test]
fn a_terabyte_of_holes_and_names_by_case_are_harmless() {
    let records: [(&str, &[u8]); 4] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"terabyte"),
        ("GNU.sparse.realsize", b"1099511627776"),
    ];
    let tar = Forge::default()
        .file("Name", b"1")
        .file("name", b"2")
        .dir("NAME")
        .pax(b'x', &records)
        .entry("s", TarKind::File { size: 512 })
        .raw(b"1\n1099511627776\n0\n")
        .end();
    let target = tempdir();
    unpack_bytes(&zstd::encode_all(&tar[..], 1).unwrap(), target.path()).unwrap();
    let meta = target.path().join("terabyte").metadata().unwrap();
    assert_eq!(meta.len(), 1 << 40);
    assert!(meta.blocks() < 1024);
    assert_eq!(std::fs::read(target.path().join("Name")).unwrap(), b"1");
    assert_eq!(std::fs::read(target.path().join("name")).unwrap(), b"2");
}

#[test]
fn wide_windows_are_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    std::io::Write::write_all(&mut encoder, &Forge::default().end()).unwrap();
    let stored = encoder.finish().unwrap();
    let outcome = unpack_bytes(&stored, tempdir().path());
    assert!(outcome.is_err_and(|e| e.is_corrupted()));
}

#[test]
fn cut_archives_are_corrupted() {
    let (bytes, _) = pack_bytes(sample_home().path()).unwrap();
    for len in 0..bytes.len() {
        let outcome = unpack_bytes(&bytes[..len], tempdir().path());
        let error = outcome.expect_err("cut archive");
        assert!(error.is_corrupted(), "cut at {len}: {error:?}");
    }
}

#[test]
fn bytes_after_the_end_are_corruption() {
    let (bytes, _) = pack_bytes(sample_home().path()).unwrap();
    let (empty_frame, skippable) = (zstd::encode_all(&[][..], 1).unwrap(), b"\x50\x2a\x4d\x18\0\0\0\0");
    for tail in [&b"\0"[..], &empty_frame, skippable, &bytes] {
        let outcome = unpack_bytes(&[&bytes, tail].concat(), tempdir().path());
        let error = outcome.expect_err("trailing bytes");
        assert!(error.is_corrupted(), "{error:?}");
    }
}

#[test]
fn a_target_that_is_not_empty_is_left_alone() {
    let (bytes, _) = pack_bytes(sample_home().path()).unwrap();
    let target = sample_home();
    let before = snapshot(target.path());
    let outcome = unpack_bytes(&bytes, target.path());
    assert!(matches!(outcome, Err(ArchiveError::Io { .. })), "{outcome:?}");
    assert_same(&before, &snapshot(target.path()));
}

#[test]
fn large_numbers_fit_in_headers() {
    use super::super::reader::{EntryKind, Reader};
    let xattrs = [Xattr { name: b"user.a=b%c".to_vec(), value: b"1\n2=\0".to_vec() }];
    let mtime = Mtime { seconds: -7, nanoseconds: 250_000_000 };
    let header = Header {
        path: b"big",
        kind: TarKind::File { size: 20 << 30 },
        mode: 0o7777,
        uid: u32::MAX - 1,
        gid: 3_000_000,
        mtime,
        xattrs: &xattrs,
    };
    let mut bytes = Vec::new();
    header::encode(&header, &mut bytes).unwrap();
    let entry = Reader::new(&bytes[..]).next().unwrap().unwrap();
    assert!(matches!(entry.kind, EntryKind::File { size, .. } if size == 20 << 30));
    assert_eq!(entry.attrs.mode, 0o7777);
    assert_eq!((entry.attrs.uid, entry.attrs.gid), (u32::MAX - 1, 3_000_000));
    assert_eq!(entry.attrs.mtime, mtime);
    assert_eq!(entry.attrs.xattrs, xattrs);
}

/// A tar stream with several kinds of entries, to be damaged.
fn honest() -> Vec<u8> {
    let (bytes, _) = pack_bytes(sample_home().path()).unwrap();
    let mut tar = zstd::decode_all(&bytes[..]).unwrap();
    tar.truncate(tar.len() - header::END.len());
    let mut forge = Forge(tar)
        .symlink("up", "..")
        .link("twin", "script")
        .pax(b'x', &[("SCHILY.xattr.user.a", b"1")])
        .file("with-xattr", b"x");
    let last = sparse(b"2\n0\n8\n100\n8\n", 528);
    forge.0.extend_from_slice(&last);
    forge.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..Default::default() })]

    /// Whatever bytes arrive: no panic, and nothing outside changes.
    #[test]
    fn damaged_streams_stay_inside(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        mend: bool,
    ) {
        let mut tar = honest();
        for (at, value) in damage {
            let at = at.index(tar.len());
            tar[at] = value;
        }
        if mend {
            // Let damaged headers pass the checksum.
            for block in tar.chunks_exact_mut(512).filter(|b| &b[257..262] == b"ustar") {
                block[148..156].fill(b' ');
                let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
                block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
        let (_, before, after) = attempt(&tar, true);
        assert_same(&before, &after);
    }
}

#[test]
fn the_stream_to_be_damaged_is_sound() {
    let (outcome, _, _) = attempt(&honest(), true);
    outcome.unwrap();
}
