use std::{io::Write, os::unix::fs::MetadataExt};

use futures::StreamExt;

use super::*;

struct Place {
    _dir: tempfile::TempDir,
    logs: Logs,
    id: WorkspaceId,
}

impl Place {
    fn new(max_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let limits = LogLimits { max_bytes, ..LogLimits::default() };
        let logs = Logs::open(dir.path(), limits).unwrap();
        Self { _dir: dir, logs, id: "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap() }
    }

    fn print(&self, text: &str) {
        self.logs.append(self.id).unwrap().write_all(text.as_bytes()).unwrap();
    }

    async fn tail(&self, tail: usize) -> String {
        let parts: Vec<_> =
            self.logs.read(self.id, LogQuery { tail, follow: false }).await.unwrap().collect().await;
        let bytes: Vec<u8> = parts.into_iter().flat_map(|part| part.unwrap().to_vec()).collect();
        String::from_utf8(bytes).unwrap()
    }

    fn size(&self) -> u64 {
        [self.logs.current(self.id), self.logs.older(self.id)]
            .iter()
            .map(|path| path.metadata().map_or(0, |it| it.blocks() * 512))
            .sum()
    }
}

#[tokio::test]
async fn the_last_lines_are_read() {
    let place = Place::new(1 << 20);
    assert_eq!(place.tail(10).await, "", "nothing was ever printed");
    place.print("one\ntwo\nthree\n");
    assert_eq!(place.tail(0).await, "");
    assert_eq!(place.tail(1).await, "three\n");
    assert_eq!(place.tail(2).await, "two\nthree\n");
    assert_eq!(place.tail(3).await, "one\ntwo\nthree\n");
    assert_eq!(place.tail(99).await, "one\ntwo\nthree\n");
    place.print("unfinished");
    assert_eq!(place.tail(2).await, "three\nunfinished");
    let long: String = (0..50_000).map(|line| format!("line {line}\n")).collect();
    place.print(&long);
    assert_eq!(place.tail(20_000).await.lines().count(), 20_000);
    assert!(place.tail(20_000).await.starts_with("line 30000\n"));
}

#[tokio::test]
async fn a_log_is_bounded_and_reading_goes_on_across_the_pieces() {
    let place = Place::new(20_000);
    for line in 0..10_000 {
        place.print(&format!("line {line:04}\n"));
        place.logs.rotate(&[place.id]).unwrap();
        assert!(place.size() <= 2 * 20_000 + 2 * BLOCK, "{}", place.size());
    }
    let tail = place.tail(2500).await;
    assert!(tail.starts_with("line 7500\n") && tail.ends_with("line 9999\n"), "{tail}");
    // More than both pieces at once: the newest is what stays.
    place.print(&"x".repeat(1_000_000));
    place.print("\nthe end\n");
    place.logs.rotate(&[place.id]).unwrap();
    assert!(place.size() <= 20_000 + 2 * BLOCK, "{}", place.size());
    assert_eq!(place.tail(1).await, "the end\n");
    assert!(place.tail(9).await.starts_with('x'), "no holes are shown");
}

#[tokio::test]
async fn following_sees_every_line_also_across_rotations() {
    let place = Place::new(1000);
    place.print("before\n");
    let mut stream = place.logs.read(place.id, LogQuery { tail: 1, follow: true }).await.unwrap();
    let mut seen = String::new();
    let mut expected = "before\n".to_owned();
    for round in 0..6 {
        for line in 0..45 {
            let text = format!("line {round} {line}\n");
            place.print(&text);
            expected.push_str(&text);
        }
        if round % 2 == 0 {
            place.logs.rotate(&[place.id]).unwrap();
        }
        while seen.len() < expected.len() {
            let next = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
            let next = next.unwrap_or_else(|_| panic!("stuck at {} of {}", seen.len(), expected.len()));
            seen.push_str(std::str::from_utf8(&next.unwrap().unwrap()).unwrap());
        }
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn old_logs_are_removed_and_living_ones_are_not() {
    let place = Place::new(1000);
    place.print("x\n");
    let old = SystemTime::now() - Duration::from_secs(60 * 24 * 3600);
    File::options().append(true).open(place.logs.current(place.id)).unwrap().set_modified(old).unwrap();
    place.logs.prune(&HashSet::from([place.id])).unwrap();
    assert_eq!(place.tail(1).await, "x\n");
    place.logs.prune(&HashSet::new()).unwrap();
    assert_eq!(place.size(), 0);
}
