//! The judge of what a tar archive is: GNU tar.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Stdio};

use super::*;

/// Whether the programs are not installed; says so.
pub(super) fn missing() -> bool {
    let runs = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let missing = !(runs("tar") && runs("zstd"));
    if missing {
        codehub_testing::skip("no GNU tar or no zstd");
    }
    missing
}

fn shell(script: &str, arguments: &[&Path]) {
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", script, "bash"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {errors}");
}

/// `zstd -dc | tar -x` makes the same home of our archive.
pub(super) fn extracts_ours(home: &Path) {
    let (bytes, _) = pack_bytes(home).unwrap();
    let scratch = tempdir();
    let archive = scratch.path().join("home.tar.zst");
    let target = scratch.path().join("target");
    std::fs::write(&archive, bytes).unwrap();
    std::fs::create_dir(&target).unwrap();
    let script = "zstd -qdc \"$1\" | tar -xp --xattrs --xattrs-include='*' --numeric-owner -C \"$2\"";
    shell(script, &[&archive, &target]);
    assert_same(&snapshot(home), &snapshot(&target));
}

/// We make the same home of an archive by `tar -c | zstd`.
pub(super) fn is_extracted(home: &Path, options: &[&str]) {
    let scratch = tempdir();
    let archive = scratch.path().join("home.tar.zst");
    let options = options.join(" ");
    let script = format!("tar -c {options} --xattrs --numeric-owner -C \"$1\" . | zstd -q > \"$2\"");
    shell(&script, &[home, &archive]);
    let target = tempdir();
    let bytes = std::fs::read(&archive).unwrap();
    unpack_bytes(&bytes, target.path()).unwrap();
    assert_same(&snapshot(home), &snapshot(target.path()));
}

/// One of everything, with whole seconds and no attributes, so that every
/// format can say it.
fn plain_home() -> TempDir {
    let home = sample_home();
    let long = format!("{}/{}", "n".repeat(120), "m".repeat(200));
    std::fs::create_dir(home.path().join("n".repeat(120))).unwrap();
    std::fs::write(home.path().join(&long), b"long").unwrap();
    std::os::unix::fs::symlink(&long, home.path().join("to-long")).unwrap();
    std::fs::hard_link(home.path().join(&long), home.path().join("same-as-long")).unwrap();
    let sparse = std::fs::File::create(home.path().join("sparse")).unwrap();
    for page in 0..40 {
        sparse.write_at(b"data", page * 3 * 65536).unwrap();
    }
    sparse.set_len(10 << 20).unwrap();
    let hole = std::fs::File::create(home.path().join("hole")).unwrap();
    hole.set_len(1 << 20).unwrap();
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o750)).unwrap();
    shell("find \"$1\" -depth -print0 | xargs -0 touch -h -d @1700000000", &[home.path()]);
    home
}

#[test]
fn every_format_of_gnu_tar_is_extracted() {
    if missing() {
        return;
    }
    let home = plain_home();
    for options in [
        ["--format=gnu", "-S"],
        ["--format=posix", "-S --sparse-version=1.0"],
        ["--format=posix", "-S --sparse-version=0.1"],
        ["--format=posix", "-S --sparse-version=0.0"],
        ["--format=gnu", "-S --sort=name"],
    ] {
        is_extracted(home.path(), &options);
    }
}

#[test]
fn gnu_tar_extracts_ours() {
    if !missing() {
        extracts_ours(plain_home().path());
    }
}

/// Files named one by one: no entries for the directories they are in, and
/// coming back to a directory that was left.
#[test]
fn entries_in_no_order_are_extracted() {
    if missing() {
        return;
    }
    let home = sample_home();
    let scratch = tempdir();
    let archive = scratch.path().join("some.tar.zst");
    let files = "src/main.rs script src/deep/er/leaf empty src same.rs";
    let script = format!("tar -c --format=posix --no-recursion -C \"$1\" {files} | zstd -q > \"$2\"");
    shell(&script, &[home.path(), &archive]);
    let target = tempdir();
    unpack_bytes(&std::fs::read(&archive).unwrap(), target.path()).unwrap();
    let (before, after) = (snapshot(home.path()), snapshot(target.path()));
    for file in ["script", "src/deep/er/leaf", "empty"] {
        assert_eq!(before.get(Path::new(file)), after.get(Path::new(file)));
    }
    let mtime = |snapshot: &Snapshot| snapshot[Path::new("src")].mtime.0;
    assert_eq!(mtime(&before), mtime(&after));
}
