//! What runs between CodeHub and a workspace's program: CodeHub itself, for a moment.
//!
//! A new session, limits and a umask can only be set by the process they are for, before it becomes
//! the program; doing that in a program of our own needs no unsafe code between fork and exec. The
//! shim makes itself the leader of a new session, lowers what is to be lowered, leaves its process id
//! in the environment ([`LEADER`]: that is how the program is told from its children later) and
//! becomes the program. It has the runtime's launch lock as its standard input and so gives it back
//! at exactly that moment, or by dying.
//!
//! Its output is the workspace's log already, so that is where it says why it could not.

use std::{
    ffi::{OsStr, OsString},
    fmt::Display,
    io::Write as _,
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Command, Stdio},
};

use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit, setsid, umask};

/// The environment variable with the process id of the program itself.
pub const LEADER: &str = "CODEHUB_LEADER";
/// The status of a shim whose program could not be run.
pub const FAILED: i32 = 127;

/// Limits for every workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open files (capped by what CodeHub itself may have).
    pub open_files: u64,
    /// Bytes of a core dump.
    pub core: u64,
    /// Added to the score by which the kernel picks whom to kill when memory is short: workspaces
    /// go before CodeHub.
    pub oom_score_adj: i16,
    pub umask: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open_files: 65_536, core: 0, oom_score_adj: 300, umask: 0o022 }
    }
}

impl Limits {
    /// The words before the program; [`main`] reads them.
    pub(super) fn words(&self) -> Vec<String> {
        vec![
            format!("open-files={}", self.open_files),
            format!("core={}", self.core),
            format!("oom-score-adj={}", self.oom_score_adj),
            format!("umask={}", self.umask),
            "--".to_owned(),
        ]
    }
}

/// Becomes the program. `args` is what follows the name of the hidden subcommand.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ! {
    // A copy that the kernel closes when this has become the program, and not a moment before.
    let _launch = std::io::stdin().as_fd().try_clone_to_owned();
    let why = become_program(args.into_iter());
    let _ = writeln!(std::io::stderr(), "codehub: {why}");
    std::process::exit(FAILED)
}

fn become_program(mut args: impl Iterator<Item = OsString>) -> String {
    for word in args.by_ref() {
        if word == "--" {
            break;
        }
        if let Err(why) = apply(&word) {
            return why;
        }
    }
    let Some(program) = args.next() else {
        return "no program to run was given".to_owned();
    };
    if let Err(error) = setsid() {
        return format!("no session of its own: {error}");
    }
    let error = Command::new(&program)
        .args(args)
        .env(LEADER, getpid().as_raw_pid().to_string())
        .stdin(Stdio::null())
        .exec();
    format!("cannot run {}: {error}", program.display())
}

fn apply(word: &OsStr) -> Result<(), String> {
    let (name, value) =
        word.to_str().and_then(|word| word.split_once('=')).ok_or_else(|| format!("{word:?} is no limit"))?;
    match name {
        "open-files" => limit(Resource::Nofile, number(value)?),
        "core" => limit(Resource::Core, number(value)?),
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

fn number<T: std::str::FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{value:?}: {error}"))
}

fn limit(resource: Resource, wanted: u64) -> Result<(), String> {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    setrlimit(resource, Rlimit { current: Some(current), maximum })
        .map_err(|error| format!("cannot limit {resource:?} to {current}: {error}"))
}
