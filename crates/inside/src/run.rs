//! The first process of a workspace: parent of the IDE, and the inner end of the line.
//!
//! The IDE is started first and everything else afterwards, so that it does not wait for us. Signals go on to it, and its
//! ending is ours. Whoever has lost its parent becomes a child of this process and is waited for.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::children::{Children, Ending, Reaps};
use crate::line::Inside;

/// Where the line is, unless said.
pub const LINE: &str = "/run/codehub/line";

const USAGE: &str = "usage: inside run [--line SOCKET] [--shared-network] -- PROGRAM [ARGUMENTS]
       inside line [--line SOCKET]

`run` is the first process of a workspace: runs the program and answers CodeHub on the socket.
`line` joins its standard input and output to that socket.
";

/// The status of a program that could not be run.
const FAILED: u8 = 127;
/// Passed on to the program.
const FORWARDED: [(SignalKind, Signal); 6] = [
    (SignalKind::terminate(), Signal::TERM),
    (SignalKind::interrupt(), Signal::INT),
    (SignalKind::hangup(), Signal::HUP),
    (SignalKind::quit(), Signal::QUIT),
    (SignalKind::user_defined1(), Signal::USR1),
    (SignalKind::user_defined2(), Signal::USR2),
];

/// What the first process must know besides its program.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where to listen; without it there is no line.
    pub line: Option<PathBuf>,
    /// The workspace is in the machine's own network: only ports of its own processes are its own.
    pub shares_network: bool,
}

/// `inside` with these words (without the program's name).
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let command = arguments.next();
    let mut options = Options { line: Some(LINE.into()), ..Options::default() };
    while let Some(word) = arguments.next() {
        match word.to_str() {
            Some("--") => break,
            Some("--line") => options.line = arguments.next().map(PathBuf::from),
            Some("--shared-network") => options.shares_network = true,
            _ => return usage(),
        }
    }
    match (command.as_ref().and_then(|command| command.to_str()), options.line.as_deref()) {
        (Some("line"), Some(line)) => join(line),
        (Some("run"), _) => {
            let Some(program) = arguments.next() else { return usage() };
            let mut command = Command::new(&program);
            command.args(arguments);
            let code = run(&options, command, || {}).unwrap_or_else(|error| {
                let _ = writeln!(io::stderr(), "codehub: cannot run {}: {error}", program.display());
                i32::from(FAILED)
            });
            ExitCode::from(u8::try_from(code).unwrap_or(FAILED))
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    let _ = io::stderr().write_all(USAGE.as_bytes());
    ExitCode::from(2)
}

/// Runs a program as the first process of a workspace does, until it has ended. `started` is called once it runs.
///
/// # Errors
/// The program cannot be run. Everything else that fails is said on standard error and done without.
pub fn run(options: &Options, mut program: Command, started: impl FnOnce()) -> io::Result<i32> {
    let _ = set_child_subreaper(Some(getpid()));
    let listener = options.line.as_deref().and_then(|line| {
        let bound = listen(line);
        bound.inspect_err(|error| complain(&format!("cannot listen on {}: {error}", line.display()))).ok()
    });
    let children = Arc::new(Children::new(Reaps::Everybody));
    let env: Vec<_> =
        program.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    let (pid, ended, ()) = children.start(|| program.spawn().map(|child| (child.id(), ())))?;
    started();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending = runtime.block_on(until_it_ends(Serving { options, listener, env }, &children, pid, ended));
    // What still runs on a line is not waited for.
    runtime.shutdown_background();
    if let Ending::Signal(number) = ending {
        die_of(number);
    }
    Ok(ending.as_code())
}

/// Ends as the program did, where a signal can end this process: not the first one of its world, and not by a signal
/// that is passed on.
fn die_of(number: i32) {
    let own = FORWARDED.iter().all(|(_, forwarded)| forwarded.as_raw() != number);
    if let Some(signal) = Signal::from_named_raw(number).filter(|_| own) {
        let _ = kill_process(getpid(), signal);
    }
}

/// What is served beside the program.
struct Serving<'a> {
    options: &'a Options,
    listener: Option<UnixListener>,
    env: Vec<(OsString, OsString)>,
}

fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "codehub: {what}");
}

fn listen(line: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(line) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(line)?;
    std::fs::set_permissions(line, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn until_it_ends(
    Serving { options, listener, env }: Serving<'_>,
    children: &Arc<Children>,
    pid: Pid,
    mut ended: oneshot::Receiver<Ending>,
) -> Ending {
    let waiting = children.clone();
    tokio::spawn(async move { waiting.watch().await });
    for (kind, number) in FORWARDED {
        let children = children.clone();
        let Ok(mut signals) = signal(kind) else { continue };
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                children.signal(pid, number);
            }
        });
    }
    if let Some(listener) = listener {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let opened = Inside::with(&home, options.shares_network, children.clone(), env)
            .and_then(|inside| Ok((inside, tokio::net::UnixListener::from_std(listener)?)));
        match opened {
            Ok((inside, listener)) => drop(tokio::spawn(inside.accept(listener))),
            Err(error) => complain(&format!("nothing can be run or read from outside: {error}")),
        }
    }
    let ending = (&mut ended).await;
    // Nobody else tells of it: a sender that is gone has panicked.
    ending.unwrap_or(Ending::Code(i32::from(FAILED)))
}

/// Passes bytes between standard input and output and the socket, until either side ends.
fn join(line: &Path) -> ExitCode {
    let joined = || -> io::Result<()> {
        let socket = std::os::unix::net::UnixStream::connect(line)?;
        let (mut to, mut from) = (socket.try_clone()?, socket);
        let ending = to.try_clone()?;
        std::thread::spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut to);
            let _ = ending.shutdown(std::net::Shutdown::Both);
        });
        let mut out = io::stdout().lock();
        copy_and_flush(&mut from, &mut out)
    };
    match joined() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("cannot join {}: {error}", line.display()));
            ExitCode::from(FAILED)
        }
    }
}

/// Standard output keeps lines back; whoever waits for these bytes does not wait for a line.
fn copy_and_flush(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..count])?;
        to.flush()?;
    }
}
