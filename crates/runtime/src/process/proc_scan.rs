//! Looking at processes: who is who, and who belongs to which workspace.
//!
//! A process id alone names nobody: numbers are used again. An [`Identity`] is the number, the moment
//! the kernel started it and the boot (and process namespace) in which that was; whoever differs in
//! any of them is a stranger. What CodeHub started can also be recognised without any record, by the
//! environment it was started with ([`Marks`]).

use std::{fs, io};

use codehub_domain::{Generation, WorkspaceId};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};

use super::shim::LEADER;

pub(super) const INSTANCE: &str = "CODEHUB_INSTANCE";
pub(super) const WORKSPACE: &str = "CODEHUB_WORKSPACE_ID";
pub(super) const GENERATION: &str = "CODEHUB_GENERATION";
pub(super) const PORT: &str = "PORT";
/// Where it listens, if that is not the port.
pub(super) const SOCKET: &str = "CODEHUB_SOCKET";

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Clock ticks after boot.
    pub(super) start_time: u64,
    pub(super) boot: String,
}

/// This boot of this machine, and the process namespace we are in.
pub(super) fn boot() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = fs::read_link("/proc/self/ns/pid")
        .map_or_else(|_| String::new(), |link| format!(" {}", link.to_string_lossy()));
    Ok(format!("{}{namespace}", id.trim()))
}

/// A line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) start_time: u64,
    /// Dead, only its parent has not asked yet.
    pub(super) zombie: bool,
    /// A thread of the kernel's.
    kernel: bool,
    /// How long its environment is; `None` while it becomes another program, or if that is not for us.
    environ_len: Option<usize>,
}

/// The kernel's `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What the kernel says of a process. Its name is whatever bytes it gave itself.
fn read(path: &str) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

impl Stat {
    /// `None`: there is no such process.
    pub(super) fn of(pid: i32) -> io::Result<Option<Self>> {
        match read(&format!("/proc/{pid}/stat")) {
            Ok(line) => Self::parse(&line)
                .map(Some)
                .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not understood: {line:?}"))),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        // The name is in brackets, and may itself hold brackets and spaces.
        let (head, tail) = line.rsplit_once(')')?;
        let pid = head.split_once(' ')?.0.parse().ok()?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let environ_len = match (number(47), number(48)) {
            (Some(start), Some(end)) if end != 0 => usize::try_from(end.saturating_sub(start)).ok(),
            _ => None,
        };
        Some(Self {
            kernel: number(6)? & KERNEL_THREAD != 0,
            environ_len,
            pid,
            zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

impl Identity {
    /// Whether it was started since the machine was.
    pub(super) fn is_of(&self, boot: &str) -> bool {
        self.boot == boot
    }

    /// Whether exactly that process lives.
    pub(super) fn alive(&self, boot: &str) -> io::Result<bool> {
        if self.boot != boot {
            return Ok(false);
        }
        Ok(Stat::of(self.pid)?.is_some_and(|it| it.start_time == self.start_time && !it.zombie))
    }

    /// In how many process namespaces it has a number, from ours on inwards; 0 where that cannot be told.
    pub(super) fn depth(&self) -> usize {
        let status = read(&format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.map_or(0, |numbers| numbers.split_ascii_whitespace().count())
    }

    /// Whether it has begun to exit: a process gives up its memory, and with that its program, before its files.
    pub(super) fn is_exiting(&self) -> bool {
        fs::read_link(format!("/proc/{}/exe", self.pid)).is_err_and(|error| is_gone(&error))
    }

    /// Signals exactly that process, or nobody. Fine if it is gone.
    pub(super) fn signal(&self, boot: &str, signal: Signal) -> io::Result<()> {
        // 0 and below are groups of processes, or all there are; 1 is everybody's parent.
        let Some(pid) = (self.pid > 1).then(|| Pid::from_raw(self.pid)).flatten() else { return Ok(()) };
        // The handle holds whoever has the number now; if that is the one we mean, it stays the one.
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(Errno::SRCH) => return Ok(()),
            Err(Errno::NOSYS) => None,
            Err(error) => return Err(error.into()),
        };
        if !self.alive(boot)? {
            return Ok(());
        }
        let sent = handle.map_or_else(|| kill_process(pid, signal), |it| pidfd_send_signal(it, signal));
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a process was started with, if it was started for a workspace of this deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) workspace: WorkspaceId,
    pub(super) generation: Generation,
    pub(super) port: u16,
    pub(super) socket: bool,
    /// The program's own process id; the shim has not set it yet.
    leader: Option<i32>,
}

impl Marks {
    fn parse(environ: &[u8], deployment: &str) -> Option<Self> {
        let get = |name: &str| {
            environ.split(|&byte| byte == 0).find_map(|pair| {
                let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                std::str::from_utf8(value).ok()
            })
        };
        if get(INSTANCE)? != deployment {
            return None;
        }
        Some(Self {
            workspace: get(WORKSPACE)?.parse().ok()?,
            generation: Generation(get(GENERATION)?.parse().ok()?),
            port: get(PORT)?.parse().ok()?,
            socket: get(SOCKET).is_some(),
            leader: get(LEADER).and_then(|pid| pid.parse().ok()),
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub(super) stat: Stat,
    pub(super) marks: Option<Marks>,
}

impl Process {
    pub(super) fn identity(&self, boot: &str) -> Identity {
        Identity { pid: self.stat.pid, start_time: self.stat.start_time, boot: boot.to_owned() }
    }

    /// Whether it is a workspace's program itself (or still the shim), not something it started.
    pub(super) fn is_main(&self) -> bool {
        self.marks.is_some_and(|marks| marks.leader.unwrap_or(self.stat.session) == self.stat.pid)
    }
}

/// Every living process but ourselves and init. Costs two small reads per process.
pub(super) fn processes(deployment: &str) -> io::Result<Vec<Process>> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let lengths_are_known = Stat::of(own)?.is_some_and(|own| own.environ_len.is_some());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if pid == own || pid == 1 {
            continue;
        }
        if let Some((stat, environ)) = look_at(pid, lengths_are_known)?.filter(|(stat, _)| !stat.zombie) {
            found.push(Process { stat, marks: Marks::parse(&environ, deployment) });
        }
    }
    Ok(found)
}

/// A process with what it was started with. Other people's environment cannot be read, and is not ours.
///
/// While a process becomes another program its environment is empty, or read half from the old one.
/// That of a workspace must not be missed, so what was read has to be as long as the kernel says.
#[expect(clippy::disallowed_methods, reason = "a millisecond, on a thread that may block")]
fn look_at(pid: i32, lengths_are_known: bool) -> io::Result<Option<(Stat, Vec<u8>)>> {
    const TRIES: usize = 1000;
    let mut environ = Vec::new();
    for _ in 0..TRIES {
        let read = fs::read(format!("/proc/{pid}/environ"));
        let Some(stat) = Stat::of(pid)? else { return Ok(None) };
        let Ok(read) = read else { return Ok(Some((stat, Vec::new()))) };
        if stat.kernel || stat.zombie || !lengths_are_known || stat.environ_len == Some(read.len()) {
            return Ok(Some((stat, read)));
        }
        environ = read;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(Stat::of(pid)?.map(|stat| (stat, environ)))
}

/// The program of a workspace: of several (there never should be), the one that was first.
pub(super) fn main_of(processes: &[Process], workspace: WorkspaceId) -> Option<&Process> {
    processes
        .iter()
        .filter(|it| it.is_main() && it.marks.is_some_and(|marks| marks.workspace == workspace))
        .min_by_key(|it| (it.stat.start_time, it.stat.pid))
}

/// Everything that belongs to a workspace: marked for it, in its program's session or group, or a
/// child of such a process.
pub(super) fn members(
    processes: &[Process],
    workspace: WorkspaceId,
    main: Option<&Identity>,
    boot: &str,
) -> Vec<Identity> {
    // A number is not used again while a session or group still has it. So if nobody else has it
    // now, whoever is in the session of that number is in our session.
    let main = main.filter(|main| {
        main.boot == boot
            && processes
                .iter()
                .find(|it| it.stat.pid == main.pid)
                .is_none_or(|it| it.stat.start_time == main.start_time)
    });
    let mut ours: Vec<i32> = Vec::new();
    for it in processes {
        let marked = it.marks.is_some_and(|marks| marks.workspace == workspace);
        let grouped = main.is_some_and(|main| it.stat.session == main.pid || it.stat.group == main.pid);
        if marked || grouped {
            ours.push(it.stat.pid);
        }
    }
    let mut looked_at = 0;
    while looked_at < ours.len() {
        let parent = ours[looked_at];
        looked_at += 1;
        for it in processes {
            if it.stat.parent == parent && !ours.contains(&it.stat.pid) {
                ours.push(it.stat.pid);
            }
        }
    }
    processes.iter().filter(|it| ours.contains(&it.stat.pid)).map(|it| it.identity(boot)).collect()
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn process(pid: i32, parent: i32, session: i32, environ: &str) -> Process {
        let started = 100 + pid;
        let line =
            format!("{pid} (x) S {parent} {session} {session} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 {started}");
        let stat = Stat::parse(&line).unwrap();
        Process { stat, marks: Marks::parse(environ.replace(' ', "\0").as_bytes(), "dep") }
    }

    fn marked(leader: &str) -> String {
        format!("{INSTANCE}=dep {WORKSPACE}={ID} {GENERATION}=2 {PORT}=4000 {leader}")
    }

    /// One program anywhere on the machine must not keep everybody's workspaces from being found.
    #[test]
    fn a_name_that_is_no_text_is_read() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join(std::ffi::OsStr::from_bytes(b"a\xff) R 1"));
        fs::copy("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(program).arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        let (found, depth) = (Stat::of(pid), Identity { pid, start_time: 0, boot: String::new() }.depth());
        child.kill().unwrap();
        child.wait().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(found.unwrap().map(|stat| (stat.pid, stat.parent)), Some((pid, own)));
        assert_ne!(depth, 0);
    }

    #[test]
    fn a_stat_line_with_a_hostile_name_is_read() {
        let line = "42 (a) S 1) R 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 11 12";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            (stat.pid, stat.parent, stat.group, stat.session, stat.start_time, stat.zombie),
            (42, 7, 8, 9, 987_654, false)
        );
        assert!(Stat::parse("42 (x) Z 7 8 9").is_none(), "too short");
        let own = i32::try_from(std::process::id()).unwrap();
        let own_environ = fs::read("/proc/self/environ").unwrap();
        assert_eq!(Stat::of(own).unwrap().unwrap().environ_len, Some(own_environ.len()));
    }

    #[test]
    fn marks_are_ours_only_with_our_deployment() {
        let environ = marked("").replace(' ', "\0");
        assert_eq!(Marks::parse(environ.as_bytes(), "dep").unwrap().port, 4000);
        assert_eq!(Marks::parse(environ.as_bytes(), "other"), None);
        assert_eq!(Marks::parse(b"", "dep"), None);
    }

    #[test]
    fn the_program_is_told_from_what_it_started() {
        let id = ID.parse().unwrap();
        let shell = process(20, 10, 20, &marked("CODEHUB_LEADER=10"));
        let program = process(10, 1, 10, &marked("CODEHUB_LEADER=10"));
        let shim = process(30, 1, 30, &marked(""));
        assert_eq!(main_of(&[shell, program], id).unwrap().stat.pid, 10);
        assert!(main_of(&[shell], id).is_none(), "a terminal that outlived its IDE");
        assert_eq!(main_of(&[shim], id).unwrap().stat.pid, 30);
    }

    #[test]
    fn members_are_found_by_mark_session_and_descent_but_never_strangers() {
        let id = ID.parse().unwrap();
        let main = Identity { pid: 10, start_time: 110, boot: "b".into() };
        let all = [
            process(1, 0, 1, ""),
            process(10, 1, 10, ""),
            process(11, 10, 10, ""),
            process(12, 11, 12, ""),
            process(13, 1, 13, &marked("CODEHUB_LEADER=10")),
            process(50, 1, 50, ""),
        ];
        let pids = |main: Option<&Identity>, boot: &str| {
            members(&all, id, main, boot).iter().map(|it| it.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(Some(&main), "b"), [10, 11, 12, 13]);
        let reused = Identity { start_time: 7, ..main.clone() };
        assert_eq!(pids(Some(&reused), "b"), [13], "somebody else has the number now");
        assert_eq!(pids(Some(&main), "another boot"), [13]);
        assert_eq!(pids(None, "b"), [13]);
    }
}
