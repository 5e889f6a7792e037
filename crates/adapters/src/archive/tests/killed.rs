//! Processes that die, sinks that break, homes that are large: run in a
//! process of their own, which is this test binary again.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::ObjectArchives;
use super::*;

const KEY: &str = "ws-1/op-1/home.tar.zst";

const ROLE: &str = "CODEHUB_TEST_ARCHIVE_ROLE";
const HOME: &str = "CODEHUB_TEST_ARCHIVE_HOME";
const PLACE: &str = "CODEHUB_TEST_ARCHIVE_PLACE";

/// Archives `home` into the store `place`, or restores from it, elsewhere.
fn elsewhere(role: &str, home: &Path, place: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["archive::tests::killed::the_other_process", "--exact", "--ignored", "--nocapture"])
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
    let archives = ObjectArchives::open_local(Path::new(&place), "").unwrap();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    match role.as_str() {
        "put" => archives.put(KEY, Path::new(&home), &progress, &cancel).await.unwrap(),
        _ => archives.fetch(KEY, Path::new(&home), &progress, &cancel).await.unwrap(),
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    println!("peak:{}", peak.trim().trim_end_matches(" kB"));
}

/// Whenever it is killed, what looks finished is, and the next try gets there.
#[tokio::test]
async fn a_process_killed_at_any_moment_leaves_no_false_archive() {
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(24 << 20)).unwrap();
    let expected = snapshot(home.path());
    let (mut unfinished, mut finished) = (0, 0);
    for round in 0..14 {
        let place = tempdir();
        let mut child = elsewhere("put", home.path(), place.path());
        // From the first moments to about when it is done, in no order.
        tokio::time::sleep(Duration::from_millis(10 + (round * 173) % 640)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let archives = ObjectArchives::open_local(place.path(), "").unwrap();
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        if archives.head(KEY).await.unwrap().is_some() {
            finished += 1;
        } else {
            unfinished += 1;
            archives.put(KEY, home.path(), &progress, &cancel).await.unwrap();
        }
        let target = tempdir();
        archives.fetch(KEY, target.path(), &progress, &cancel).await.unwrap();
        assert_same(&expected, &snapshot(target.path()));
        let left = std::fs::read_dir(place.path().join("ws-1/op-1")).unwrap();
        assert_eq!(left.count(), 2, "nothing of the dead process is left");
    }
    eprintln!("killed before it was finished: {unfinished}, after: {finished}");
    assert!(unfinished > 0);
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

/// Twenty thousand files and twenty gibibytes, most of them a hole.
#[test]
fn large_homes_need_no_more_memory_than_small_ones() {
    let (small, large) = (sample_home(), tempdir());
    for directory in 0..20 {
        let path = large.path().join(format!("directory-{directory}"));
        std::fs::create_dir(&path).unwrap();
        for file in 0..1_000 {
            std::fs::write(path.join(format!("file-{file}")), file.to_string()).unwrap();
        }
    }
    let image = std::fs::File::create(large.path().join("image")).unwrap();
    for gib in 0..20 {
        std::os::unix::fs::FileExt::write_at(&image, &noise(300_000), gib << 30).unwrap();
    }
    image.set_len(20 << 30).unwrap();
    std::fs::write(large.path().join("noise"), noise(100 << 20)).unwrap();

    let peak = |role: &str, home: &Path, place: &Path| -> u64 {
        let output = elsewhere(role, home, place).wait_with_output().unwrap();
        assert!(output.status.success(), "{role}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find_map(|line| line.split_once("peak:")).unwrap().1.trim().parse().unwrap()
    };
    let (place, restored) = (tempdir(), tempdir());
    let baseline = peak("put", small.path(), tempdir().path());
    let put = peak("put", large.path(), place.path());
    let fetch = peak("fetch", restored.path(), place.path());
    eprintln!("KiB at most: {baseline} for a small home, {put} archiving, {fetch} restoring a large one");
    assert!(put.max(fetch) < baseline + 64 * 1024, "{baseline} {put} {fetch}");

    let count = |path: &Path| std::fs::read_dir(path).unwrap().count();
    assert_eq!(count(restored.path()), count(large.path()));
    assert_eq!(count(&restored.path().join("directory-7")), 1_000);
    let (before, after) = (&image, std::fs::File::open(restored.path().join("image")).unwrap());
    let (before, after) = (before.metadata().unwrap(), after.metadata().unwrap());
    assert_eq!(before.len(), after.len());
    assert!(after.blocks() * 512 < 64 << 20, "still a hole");
}
