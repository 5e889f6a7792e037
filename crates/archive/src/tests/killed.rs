//! Processes that die, sinks that break, homes that are large: run in a
//! process of their own, which is this test binary again.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::ObjectArchives;
use super::*;
use codehub_testing::let_time_pass;

const KEY: &str = "ws-1/op-1/home.tar.zst";

const ROLE: &str = "CODEHUB_TEST_ARCHIVE_ROLE";
const HOME: &str = "CODEHUB_TEST_ARCHIVE_HOME";
const PLACE: &str = "CODEHUB_TEST_ARCHIVE_PLACE";

/// Archives in format 3.
const PUT_CHUNKS: &str = "put-chunks";

/// Begins a place that is not a directory.
const BUCKET: &str = "bucket:";

/// Archives `home` into the store `place`, or restores from it, elsewhere.
fn elsewhere(role: &str, home: &Path, place: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["tests::killed::the_other_process", "--exact", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .env(HOME, home)
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
#[ignore = "is run by the other tests here"]
async fn the_other_process() {
    let (Ok(role), Ok(home), Ok(place)) = (std::env::var(ROLE), std::env::var(HOME), std::env::var(PLACE))
    else {
        return;
    };
    let archives = match place.strip_prefix(BUCKET) {
        Some(prefix) => ObjectArchives::open_s3(&s3::server().unwrap(), prefix),
        None => ObjectArchives::open_local(Path::new(&place), ""),
    };
    let archives = archives.unwrap().incremental(role == PUT_CHUNKS);
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let watched = progress.clone();
    tokio::spawn(async move {
        loop {
            if let Some(percent) = (watched.done() * 100).checked_div(watched.total()) {
                println!("at:{percent}");
            }
            let_time_pass(Duration::from_millis(1)).await;
        }
    });
    match role.as_str() {
        "put" | PUT_CHUNKS => archives.put(KEY, Path::new(&home), &progress, &cancel).await.unwrap(),
        _ => archives.fetch(KEY, Path::new(&home), &progress, &cancel).await.unwrap(),
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    println!("peak:{}", peak.trim().trim_end_matches(" kB"));
}

/// Something that takes a while to archive and to restore.
fn slow_home() -> TempDir {
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(24 << 20)).unwrap();
    for file in 0..500 {
        std::fs::write(home.path().join(format!("src/deep/{file}")), file.to_string()).unwrap();
    }
    home
}

/// When to kill: after so many percent of the home, or so many milliseconds after all of it, when it is
/// being synced, read back, named.
fn moments() -> impl Iterator<Item = (u64, u64)> {
    (0..=100)
        .step_by(10)
        .map(|percent| (percent, 0))
        .chain([20, 60, 200].map(|milliseconds| (100, milliseconds)))
}

/// Whether it was killed before it ended.
async fn killed_at(mut child: Child, (percent, milliseconds): (u64, u64)) -> bool {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let far_enough = |line: &String| {
        line.split_once("at:").and_then(|(_, at)| at.parse().ok()).is_some_and(|at: u64| at >= percent)
    };
    let _ = lines.find(far_enough);
    let_time_pass(Duration::from_millis(milliseconds)).await;
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

/// Whenever it is killed, what looks finished is, and the next try gets there.
async fn survives_a_kill(
    archives: &ObjectArchives,
    role: &str,
    home: &Path,
    place: &Path,
    moment: (u64, u64),
) -> bool {
    let killed = killed_at(elsewhere(role, home, place), moment).await;
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let there = archives.head(KEY).await.unwrap();
    assert!(killed || there.is_some(), "said to be stored");
    if there.is_none() {
        archives.put(KEY, home, &progress, &cancel).await.unwrap();
    }
    let target = tempdir();
    archives.fetch(KEY, target.path(), &progress, &cancel).await.unwrap();
    assert_same(&snapshot(home), &snapshot(target.path()));
    there.is_none()
}

#[tokio::test]
async fn a_process_killed_at_any_moment_leaves_no_false_archive() {
    a_killed_process_leaves_no_false_archive("put").await;
}

#[tokio::test]
async fn a_process_killed_at_any_moment_leaves_no_false_archive_of_chunks() {
    a_killed_process_leaves_no_false_archive(PUT_CHUNKS).await;
}

async fn a_killed_process_leaves_no_false_archive(role: &str) {
    let home = slow_home();
    let mut unfinished = 0;
    for moment in moments() {
        let place = tempdir();
        let archives = ObjectArchives::open_local(place.path(), "").unwrap().incremental(role == PUT_CHUNKS);
        unfinished += u64::from(survives_a_kill(&archives, role, home.path(), place.path(), moment).await);
        let left = std::fs::read_dir(place.path().join("ws-1/op-1")).unwrap();
        assert_eq!(left.count(), 2, "nothing of the dead process is left");
    }
    eprintln!("killed before it was finished: {unfinished} of 14");
    assert!(unfinished >= 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_at_any_moment_leaves_no_false_archive_in_a_bucket() {
    let Some(config) = s3::server() else { return };
    let home = slow_home();
    let mut unfinished = 0;
    for (percent, milliseconds) in moments() {
        let prefix = s3::unique();
        let archives = ObjectArchives::open_s3(&config, &prefix).unwrap();
        let place = format!("{BUCKET}{prefix}");
        // What comes after the last byte takes longer here.
        let moment = (percent, milliseconds * 4);
        let killed = survives_a_kill(&archives, "put", home.path(), Path::new(&place), moment).await;
        unfinished += u64::from(killed);
        assert_eq!(archives.sweep_unfinished(Duration::ZERO).await.unwrap(), 0, "no upload is left");
    }
    eprintln!("killed before it was finished: {unfinished} of 14");
    assert!(unfinished >= 7);
}

/// Whenever it is killed, the archive is as it was, nothing goes on where it
/// stopped, and a new target gets all of it.
#[tokio::test]
async fn a_restore_killed_at_any_moment_is_begun_anew() {
    let (home, place) = (slow_home(), tempdir());
    let expected = snapshot(home.path());
    let archives = ObjectArchives::open_local(place.path(), "").unwrap();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    archives.put(KEY, home.path(), &progress, &cancel).await.unwrap();
    let stored = snapshot(place.path());
    let mut interrupted = 0;
    for moment in moments() {
        let target = tempdir();
        if killed_at(elsewhere("fetch", target.path(), place.path()), moment).await {
            if std::fs::read_dir(target.path()).unwrap().count() > 0 {
                interrupted += 1;
                let again = archives.fetch(KEY, target.path(), &progress, &cancel).await;
                assert!(matches!(again, Err(ArchiveError::Io { .. })), "{again:?}");
            }
            let fresh = tempdir();
            archives.fetch(KEY, fresh.path(), &progress, &cancel).await.unwrap();
            assert_same(&expected, &snapshot(fresh.path()));
        } else {
            assert_same(&expected, &snapshot(target.path()));
        }
        assert_same(&stored, &snapshot(place.path()));
    }
    eprintln!("killed in the middle of it: {interrupted} of 14");
    assert!(interrupted >= 7);
}

/// A sink that takes so many bytes and no more.
struct Short {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let take = bytes.len().min(self.room - self.bytes.len());
        if take == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&bytes[..take]);
        Ok(take)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_cut_at_any_percent_is_an_error_on_both_sides() {
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(9 << 20)).unwrap();
    let (whole, _) = pack_bytes(home.path()).unwrap();
    for percent in 0..100 {
        let mut sink = Short { bytes: Vec::new(), room: whole.len() * percent / 100 };
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        let outcome = pack(home.path(), &mut sink, PackOptions::default(), &progress, &cancel);
        assert!(matches!(outcome, Err(ArchiveError::NoSpace { .. })), "{percent} %: {outcome:?}");
        assert!(whole.starts_with(&sink.bytes), "the same bytes, only fewer");
        let error = unpack_bytes(&sink.bytes, tempdir().path()).unwrap_err();
        assert!(error.is_corrupted(), "{percent} %: {error:?}");
    }
}

/// In memory where there is room: a disk takes minutes to forget a hundred thousand files.
fn roomy() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempdir())
}

/// A hundred thousand files in one directory, and twenty gibibytes, most of
/// them a hole.
#[test]
fn large_homes_need_no_more_memory_than_small_ones() {
    const FILES: usize = 100_000;
    let (small, large) = (sample_home(), roomy());
    let many = large.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for file in 0..FILES {
        std::fs::write(many.join(format!("file-{file}")), file.to_string()).unwrap();
    }
    let image = std::fs::File::create(large.path().join("image")).unwrap();
    let data = noise(300_000);
    for gib in 0..20 {
        image.write_all_at(&data, gib << 30).unwrap();
    }
    image.set_len(20 << 30).unwrap();
    std::fs::write(large.path().join("noise"), noise(100 << 20)).unwrap();

    let peak = |role: &str, home: &Path, place: &Path| -> u64 {
        let output = elsewhere(role, home, place).wait_with_output().unwrap();
        assert!(output.status.success(), "{role}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find_map(|line| line.split_once("peak:")).unwrap().1.trim().parse().unwrap()
    };
    for role in [PUT_CHUNKS, "put"] {
        let (place, restored) = (roomy(), roomy());
        let baseline = peak(role, small.path(), tempdir().path());
        let put = peak(role, large.path(), place.path());
        let fetch = peak("fetch", restored.path(), place.path());
        eprintln!(
            "{role}, KiB at most: {baseline} for a small home, {put} archiving, {fetch} restoring a large one"
        );
        // Several frames are kept where they come from several archives.
        let most = if role == PUT_CHUNKS { 96 * 1024 } else { baseline + 64 * 1024 };
        assert!(put.max(fetch) < most, "{role}: {baseline} {put} {fetch}");
        is_the_large_home(large.path(), restored.path(), FILES, &data);
    }
}

fn is_the_large_home(large: &Path, restored: &Path, files: usize, data: &[u8]) {
    let same = |name: &str| std::fs::read(large.join(name)).ok() == std::fs::read(restored.join(name)).ok();
    assert!(same("noise"));
    assert_eq!(std::fs::read_dir(restored.join("many")).unwrap().count(), files);
    for file in 0..files {
        assert!(same(&format!("many/file-{file}")), "{file}");
    }
    let copy = std::fs::File::open(restored.join("image")).unwrap();
    assert_eq!(copy.metadata().unwrap().len(), 20 << 30);
    assert!(copy.metadata().unwrap().blocks() * 512 < 64 << 20, "still a hole");
    let mut there = vec![0; data.len() + 1];
    for gib in 0..20 {
        copy.read_exact_at(&mut there, gib << 30).unwrap();
        assert!(there.starts_with(data) && there.ends_with(&[0]), "{gib}");
    }
}
