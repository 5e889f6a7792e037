//! The process table, as far as it is this workspace's: whatever descends from the program inside.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, getpid};

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// Tells it from a later one of the same number.
    start_time: u64,
    zombie: bool,
}

impl Process {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&read(&format!("/proc/{pid}/stat"))?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The name is in brackets, and may itself hold brackets and spaces.
        let (head, tail) = line.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        Some(Self {
            pid: head.split_once(' ')?.0.parse().ok()?,
            zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether exactly this one still lives.
    pub(crate) fn lives(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.start_time == self.start_time && !now.zombie)
    }

    pub(crate) fn number(&self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }

    /// What it calls itself.
    pub(crate) fn name(&self) -> String {
        read(&format!("/proc/{}/comm", self.pid)).unwrap_or_default().trim_end().to_owned()
    }

    pub(crate) fn open_files(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd", self.pid))
    }

    /// Bytes of memory that are nobody else's, or shared on purpose; files in memory do not count.
    pub(crate) fn memory(&self) -> u64 {
        let status = read(&format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let kilobytes = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_ascii_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        (kilobytes("RssAnon:") + kilobytes("RssShmem:")) * 1024
    }
}

/// What the kernel says of a process. Its name is whatever bytes it gave itself.
fn read(path: &str) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::of).filter(|process| !process.zombie).collect()
}

fn descended(all: &[Process], roots: impl IntoIterator<Item = i32>) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found: Vec<i32> = roots.into_iter().collect();
    let mut looked_at = 0;
    while looked_at < found.len() {
        let below = children.remove(&found[looked_at]).unwrap_or_default();
        found.extend(below);
        looked_at += 1;
    }
    found
}

/// Whatever this process or one of its descendants started. Orphans stay: this is their parent then.
pub(crate) fn ours() -> Vec<Process> {
    let all = all();
    let own = getpid().as_raw_pid();
    let pids = descended(&all, [own]);
    all.into_iter().filter(|process| process.pid != own && pids.contains(&process.pid)).collect()
}

/// What a process started, by descent, group and session; with itself.
pub(crate) fn started_by(leader: Pid) -> Vec<Process> {
    let all = all();
    let leader = leader.as_raw_pid();
    let with_it = |process: &&Process| process.group == leader || process.session == leader;
    let roots: Vec<i32> = all.iter().filter(with_it).map(|process| process.pid).chain([leader]).collect();
    let pids = descended(&all, roots);
    all.into_iter().filter(|process| pids.contains(&process.pid)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        let line = format!("{pid} (a) b) S {parent} {session} {session} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5");
        Process::parse(&line).unwrap()
    }

    #[test]
    fn descent_is_followed_and_strangers_are_not() {
        let all = [process(2, 1, 2), process(3, 2, 3), process(4, 3, 3), process(5, 1, 5), process(6, 5, 5)];
        assert_eq!(descended(&all, [2]), [2, 3, 4]);
        assert_eq!(descended(&all, [6]), [6]);
        assert_eq!(Process::parse("7 (x"), None);
    }

    /// Nor does a name that is no text hide a program.
    #[test]
    fn a_name_of_any_bytes_is_read() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join(std::ffi::OsStr::from_bytes(b"a\xff) R 1"));
        fs::copy("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(program).arg("60").spawn().unwrap();
        let found = Process::of(child.id().cast_signed());
        let name = found.map(|process| process.name());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(name.as_deref(), Some("a\u{fffd}) R 1"));
    }
}
