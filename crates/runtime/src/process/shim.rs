//! What runs between CodeHub and a workspace's program: CodeHub itself, for a moment.
//!
//! A new session, limits and a umask can only be set by the process they are for, before it becomes
//! the program; doing that in a program of our own needs no unsafe code between fork and exec. The
//! shim makes itself the leader of a new session, lowers what is to be lowered, leaves its process id
//! in the environment ([`LEADER`]: that is how the program is told from its children later) and
//! becomes the program. It has the runtime's launch lock as its standard input and so gives it back
//! at exactly that moment, or by dying.
//!
//! | words | which shim |
//! |---|---|
//! | limits | the first one; becomes the sandbox, or the program |
//! | limits, `stay` | the first one, around a network of the workspace's own: stays, because `pasta` hides its own environment, and with it whose it is |
//! | `inner`, `routes=…` | between `pasta` and the sandbox: in the workspace's network, and still allowed to change it |
//! | `inner`, `processes=…` | in the sandbox: a limit that counts for this workspace and no other |
//! | `line=…`, `shared-network` | the last one of them, whichever that is: stays as the workspace's first process, parent of the program, and answers CodeHub there |
//!
//! Its output is the workspace's log already, so that is where it says why it could not.

use std::{
    ffi::{OsStr, OsString},
    fmt::Display,
    fs::File,
    io::{Seek as _, Write as _},
    os::{
        fd::AsFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit, setsid, umask};

/// The environment variable with the process id of the program itself.
pub const LEADER: &str = "CODEHUB_LEADER";
/// The status of a shim whose program could not be run.
pub const FAILED: i32 = 127;
/// The word of a shim that is not the first one: it has a session already.
pub(super) const INNER: &str = "inner";
/// The word of a shim that stays, as the parent of the program.
const STAY: &str = "stay";
/// The word of one whose workspace is in the machine's own network.
const SHARED_NETWORK: &str = "shared-network";

/// What a workspace's first process must know besides its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The socket on which it answers.
    pub path: PathBuf,
    /// The workspace is in the machine's own network.
    pub shares_network: bool,
}

impl Line {
    /// The words of the shim that becomes it.
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut word = OsString::from("line=");
        word.push(&self.path);
        let shared = self.shares_network.then(|| OsString::from(SHARED_NETWORK));
        std::iter::once(word).chain(shared).collect()
    }
}

/// Runs a program as a workspace's first process until it has ended, and returns its status. Calls its last argument once
/// the program runs.
pub type FirstProcess = fn(Line, Command, &mut dyn FnMut()) -> std::io::Result<i32>;

/// Limits for every workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open files (capped by what CodeHub itself may have).
    pub open_files: u64,
    /// Bytes of a core dump.
    pub core: u64,
    /// Processes and threads in a sandbox; 0: no limit. Nothing for a CodeHub that is root, and for a workspace
    /// without a sandbox: there the kernel counts nobody, or everything of CodeHub's user.
    pub processes: u64,
    /// Added to the score by which the kernel picks whom to kill when memory is short: workspaces
    /// go before CodeHub.
    pub oom_score_adj: i16,
    pub umask: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open_files: 65_536, core: 0, processes: 1024, oom_score_adj: 300, umask: 0o022 }
    }
}

impl Limits {
    /// The words of the first shim, before the program; [`main`] reads them. Either it stays, or it is the last one and
    /// may have a line.
    pub(super) fn words(&self, stay: bool, line: Option<&Line>) -> Vec<OsString> {
        let mut words = vec![
            format!("open-files={}", self.open_files).into(),
            format!("core={}", self.core).into(),
            format!("oom-score-adj={}", self.oom_score_adj).into(),
            format!("umask={}", self.umask).into(),
        ];
        words.extend(stay.then(|| STAY.into()));
        words.extend(line.map(Line::words).unwrap_or_default());
        words.push("--".into());
        words
    }

    /// The words of the shim in the sandbox.
    pub(super) fn inside(&self, line: Option<&Line>) -> Vec<OsString> {
        let mut words = vec![OsString::from(INNER)];
        words.extend(line.map(Line::words).unwrap_or_default());
        if self.processes > 0 && counts_by_workspace() {
            words.push(format!("processes={}", self.processes).into());
        }
        words
    }
}

/// Whether the kernel counts the processes of a user namespace on its own, and not with all others of CodeHub's user:
/// from Linux 5.14 on.
pub(super) fn counts_by_workspace() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(14))
}

/// The word that has `ip` make these routes.
pub(super) fn routes(ip: &Path, batch: &str) -> OsString {
    let mut word = OsString::from("routes=");
    word.push(ip);
    word.push("\n");
    word.push(batch);
    word
}

/// Becomes the program, or its parent. `args` is what follows the name of the hidden subcommand.
pub fn main(args: impl IntoIterator<Item = OsString>, first_process: FirstProcess) -> ! {
    // A copy that the kernel closes when this has become the program, and not a moment before.
    let mut launch = std::io::stdin().as_fd().try_clone_to_owned().ok();
    let why = run(args.into_iter(), &mut launch, first_process);
    // Before the lock is given back: whoever waits for it then reads why.
    let _ = writeln!(std::io::stderr(), "codehub: {why}");
    std::process::exit(FAILED)
}

/// Does not come back but with a reason.
fn run(
    mut args: impl Iterator<Item = OsString>,
    launch: &mut Option<std::os::fd::OwnedFd>,
    first_process: FirstProcess,
) -> String {
    let (mut inner, mut stay) = (false, false);
    let (mut line, mut shares_network) = (None, false);
    for word in args.by_ref() {
        if word == "--" {
            break;
        } else if word == INNER {
            inner = true;
        } else if word == STAY {
            stay = true;
        } else if word == SHARED_NETWORK {
            shares_network = true;
        } else if let Some(path) = word.as_bytes().strip_prefix(b"line=") {
            line = Some(PathBuf::from(OsStr::from_bytes(path)));
        } else if let Err(why) = apply(&word) {
            return why;
        }
    }
    let Some(program) = args.next() else {
        return "no program to run was given".to_owned();
    };
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::null());
    if !inner {
        if let Err(error) = setsid() {
            return format!("no session of its own: {error}");
        }
        command.env(LEADER, getpid().as_raw_pid().to_string());
    }
    // From here on this process is found by its environment: nobody has to wait any more.
    let mut launched = || {
        drop(launch.take());
        let _ = File::open("/dev/null").and_then(|null| Ok(rustix::stdio::dup2_stdin(null)?));
    };
    let ended = if let Some(path) = line {
        first_process(Line { path, shares_network }, command, &mut launched)
    } else if stay {
        let notes = notes();
        if let Some(copy) = notes.as_ref().and_then(|notes| notes.try_clone().ok()) {
            command.stderr(copy);
        }
        command.spawn().and_then(|mut child| {
            launched();
            let status = child.wait()?;
            if let Some(mut notes) = notes.filter(|_| !status.success()) {
                // There are none where it was the program that failed.
                let _ = notes.rewind().and_then(|()| std::io::copy(&mut notes, &mut std::io::stderr()));
            }
            let signal = status.signal().map(|signal| 128 + signal);
            Ok(status.code().or(signal).unwrap_or(FAILED))
        })
    } else {
        return format!("cannot run {}: {}", program.display(), command.exec());
    };
    match ended {
        Ok(status) => std::process::exit(status),
        Err(error) => format!("cannot run {}: {error}", program.display()),
    }
}

/// Takes what `pasta` says before there is a network. That is for the log only where it does not get that far: it complains
/// about much that does not matter. A file without a name that cannot grow any more once there is one.
fn notes() -> Option<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    memfd_create("notes", flags).ok().map(File::from)
}

/// In the process after `pasta`: from here on what goes wrong is told in the log, where output goes, too.
fn leave_notes() {
    let stderr = std::io::stderr();
    // Nothing but [`notes`] can be sealed.
    if fcntl_add_seals(&stderr, SealFlags::GROW).is_ok() {
        let _ = ftruncate(&stderr, 0);
        let _ = rustix::stdio::dup2_stderr(std::io::stdout());
    }
}

fn apply(word: &OsStr) -> Result<(), String> {
    let bytes = word.as_bytes();
    let no_limit = || format!("{word:?} is no limit");
    let equals = bytes.iter().position(|&byte| byte == b'=').ok_or_else(no_limit)?;
    let name = std::str::from_utf8(&bytes[..equals]).map_err(|_| no_limit())?;
    let value = &bytes[equals + 1..];
    if name == "routes" {
        return make_routes(value);
    }
    let value = std::str::from_utf8(value).map_err(|_| no_limit())?;
    match name {
        "open-files" => limit(Resource::Nofile, number(value)?, Hard::Keep),
        "core" => limit(Resource::Core, number(value)?, Hard::Keep),
        // What is inside must not be able to raise it.
        "processes" => limit(Resource::Nproc, number(value)?, Hard::Lower),
        // A kernel that does not offer it is no reason not to work.
        "oom-score-adj" => {
            let _ = std::fs::write("/proc/self/oom_score_adj", value);
            Ok(())
        }
        "umask" => {
            umask(rustix::fs::Mode::from_raw_mode(number(value)?));
            Ok(())
        }
        _ => Err(format!("{name:?} is no limit")),
    }
}

/// All of them or an error: a workspace that could reach more than it should does not start.
fn make_routes(value: &[u8]) -> Result<(), String> {
    leave_notes();
    let end = value.iter().position(|&byte| byte == b'\n').unwrap_or(value.len());
    let (ip, batch) = value.split_at(end);
    let ip = OsString::from_vec(ip.to_vec());
    let failed = |why: &dyn Display| format!("the routes of the workspace's network cannot be made: {why}");
    let mut child = Command::new(&ip)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| failed(&format!("cannot run {}: {error}", ip.display())))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(batch).map_err(|error| failed(&error))?;
    }
    let status = child.wait().map_err(|error| failed(&error))?;
    if status.success() { Ok(()) } else { Err(failed(&format!("ip says {status}"))) }
}

fn number<T: std::str::FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{value:?}: {error}"))
}

/// What happens to the limit above which nobody may raise theirs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hard {
    Keep,
    Lower,
}

fn limit(resource: Resource, wanted: u64, hard: Hard) -> Result<(), String> {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let maximum = if hard == Hard::Lower { Some(current) } else { maximum };
    setrlimit(resource, Rlimit { current: Some(current), maximum })
        .map_err(|error| format!("cannot limit {resource:?} to {current}: {error}"))
}
