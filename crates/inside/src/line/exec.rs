//! `POST /exec`: runs a program and passes on what it reads, writes and how it ends.
//!
//! The body of the request is the messages to it, the first of which says what to run; the body of the answer is the
//! messages from it, the last of which says how it ended. Whoever gives up on either (or whose line ends) ends what was
//! started: a hang-up, and two seconds later force, for everything that descends from it or is in its group or session.
//! What a program leaves running in the background when it ends by itself stays.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::{BufMut as _, Bytes};
use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::messages::{LONGEST, Message, MessageError, Messages, OpenFrame, channel, encode};
use super::protocol::{
    ExecEnd, ExecStart, Exit, Problem, Resize, SendSignal, may_set, signal_name, signal_number,
};
use super::pty::{self, Terminal};
use crate::children::{Children, Ending};
use crate::process_table::{self, Process};

/// How long the first message may take.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Between asking what an abandoned exec started to go (HUP) and making it (KILL).
const GRACE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// After a program has ended, what it wrote is in the pipe already. Something it left running may hold that open.
const LAST_WORDS: Duration = Duration::from_millis(200);
const LAST_BYTES: usize = 1024 * 1024;
/// Messages that wait for a program to read, or for the line to take them.
const WAITING: usize = 4;

/// Where the messages of an exec go.
pub(super) type Output = mpsc::Sender<Bytes>;

pub(super) async fn exec(State(context): State<Arc<Context>>, body: Body) -> Response {
    let mut input = Messages::new(body);
    let (output, mut receiver) = mpsc::channel::<Bytes>(WAITING);
    match Running::start(&context, &mut input).await {
        Ok(running) => {
            let children = context.children.clone();
            tokio::spawn(async move { running.drive(&children, input, output).await });
        }
        Err(problem) => {
            let _ = output.try_send(last(&ExecEnd::Error(problem)));
        }
    }
    let messages = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    Response::new(Body::from_stream(futures::StreamExt::map(messages, Ok::<_, io::Error>)))
}

fn last(end: &ExecEnd) -> Bytes {
    encode(channel::END, &serde_json::to_vec(end).unwrap_or_default())
}

/// A program that runs.
struct Running {
    pid: Pid,
    ended: oneshot::Receiver<Ending>,
    ends: Ends,
    _place: tokio::sync::OwnedSemaphorePermit,
}

/// What it reads from and writes to.
enum Ends {
    Pipes(ChildStdin, ChildStdout, ChildStderr),
    Terminal(Terminal),
}

impl Running {
    async fn start(context: &Context, input: &mut Messages<Body>) -> Result<Self, Problem> {
        let invalid = |why: String| Problem::new("INVALID_REQUEST", why);
        let first = timeout(START_WITHIN, input.next()).await;
        let first = first.map_err(|_| invalid("the first message did not come in time".into()))?;
        let start = match first.map_err(|error| invalid(error.to_string()))? {
            Some(Message { channel: channel::START, payload }) => {
                serde_json::from_slice::<ExecStart>(&payload)
                    .map_err(|error| invalid(format!("what to run is not understood: {error}")))?
            }
            _ => return Err(invalid("the first message must say what to run".into())),
        };
        let place = context.execs.clone().try_acquire_owned().map_err(|_| {
            let limit = super::protocol::EXECS_AT_ONCE;
            Problem::new("LIMIT_EXCEEDED", format!("{limit} programs run by exec already: end one first"))
        })?;
        let program = Program::of(&start, &context.home, &context.env)?;
        let started = context.children.start(|| match &start.tty {
            None => program.with_pipes(),
            Some(tty) => pty::start(&program, tty).map(|(pid, terminal)| (pid, Ends::Terminal(terminal))),
        });
        let (pid, ended, ends) = started.map_err(|error| program.did_not_start(&error))?;
        Ok(Self { pid, ended, ends, _place: place })
    }

    /// Passes messages until it has ended, or whoever wanted it has gone.
    async fn drive(self, children: &Arc<Children>, input: Messages<Body>, output: Output) {
        let Self { pid, mut ended, ends, _place } = self;
        let over = CancellationToken::new();
        let _over = over.clone().drop_guard();
        let (stdin, terminal, mut readers) = ends.serve(&output, &over);
        let fed = feed(input, Some(stdin), terminal, |signal| children.signal_group(pid, signal));
        let ending = tokio::select! {
            ending = &mut ended => ending.ok(),
            () = output.closed() => None,
            _broken = fed => None,
        };
        let Some(ending) = ending else {
            drop(output);
            return end(children, pid).await;
        };
        over.cancel();
        while readers.join_next().await.is_some() {}
        let exit = match ending {
            Ending::Code(code) => Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            Ending::Signal(number) => Exit::Signal(signal_name(number)),
        };
        let _ = output.send(last(&ExecEnd::Exit(exit))).await;
    }
}

impl Ends {
    /// Starts reading. What there is to be read ends a little after `over`.
    fn serve(
        self,
        output: &Output,
        over: &CancellationToken,
    ) -> (mpsc::Sender<Bytes>, Option<Terminal>, tokio::task::JoinSet<()>) {
        let mut readers = tokio::task::JoinSet::new();
        let (sender, queue) = mpsc::channel(WAITING);
        match self {
            Self::Pipes(stdin, stdout, stderr) => {
                tokio::spawn(write(stdin, queue));
                readers.spawn(read(stdout, channel::STDOUT, output.clone(), over.clone()));
                readers.spawn(read(stderr, channel::STDERR, output.clone(), over.clone()));
                (sender, None, readers)
            }
            Self::Terminal(mut terminal) => {
                let all_read = terminal.serve(queue, output.clone());
                let over = over.clone();
                readers.spawn(async move {
                    let late = async {
                        over.cancelled().await;
                        sleep(LAST_WORDS).await;
                    };
                    tokio::select! {
                        _ = all_read => {}
                        () = late => {}
                    }
                });
                (sender, Some(terminal), readers)
            }
        }
    }
}

/// Hands on the messages to the program, for as long as there can be any.
///
/// Returns when whoever sends them is gone or does not keep to the protocol; never where they have only ended.
async fn feed(
    mut input: Messages<Body>,
    mut stdin: Option<mpsc::Sender<Bytes>>,
    terminal: Option<Terminal>,
    signal: impl Fn(Signal),
) -> MessageError {
    loop {
        let message = match input.next().await {
            Ok(Some(message)) => message,
            Ok(None) => {
                drop(stdin.take());
                std::future::pending().await
            }
            Err(error) => return error,
        };
        let Message { channel, payload } = message;
        match channel {
            channel::STDIN => {
                if let Some(writer) = &stdin
                    && writer.send(payload).await.is_err()
                {
                    // It does not read any more, which is its right.
                    stdin = None;
                }
            }
            channel::CLOSE if payload[..] == [channel::STDIN] => drop(stdin.take()),
            channel::RESIZE => {
                if let (Some(terminal), Ok(Resize { cols, rows })) =
                    (&terminal, serde_json::from_slice(&payload))
                {
                    terminal.resize(rows, cols);
                }
            }
            channel::SIGNAL => {
                let named = serde_json::from_slice::<SendSignal>(&payload).ok();
                let number = named.and_then(|named| signal_number(&named.signal));
                if let Some(known) = number.and_then(Signal::from_named_raw) {
                    signal(known);
                }
            }
            other => return MessageError::Line(format!("a message of an unknown kind ({other})")),
        }
    }
}

async fn write(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = queue.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(mut from: impl AsyncRead + Unpin, channel: u8, output: Output, over: CancellationToken) {
    let mut left = LAST_BYTES;
    while left > 0 {
        let mut frame = OpenFrame::new(channel, LONGEST - 1);
        let late = async {
            over.cancelled().await;
            sleep(LAST_WORDS).await;
        };
        let mut room = (&mut frame.0).limit(LONGEST - 1);
        let count = tokio::select! {
            read = from.read_buf(&mut room) => read.unwrap_or(0),
            () = late => return,
        };
        if count == 0 || output.send(frame.close()).await.is_err() {
            return;
        }
        if over.is_cancelled() {
            left = left.saturating_sub(count);
        }
    }
}

/// Ends what an exec started and nobody wants any more.
async fn end(children: &Children, leader: Pid) {
    let found =
        tokio::task::spawn_blocking(move || process_table::started_by(leader)).await.unwrap_or_default();
    let signal = |process: &Process, signal| {
        if process.lives()
            && let Some(pid) = process.number()
        {
            let _ = kill_process(pid, signal);
        }
    };
    children.signal_group(leader, Signal::HUP);
    for process in &found {
        signal(process, Signal::HUP);
        // What was stopped cannot end.
        signal(process, Signal::CONT);
    }
    let mut waited = Duration::ZERO;
    while waited < GRACE && found.iter().any(Process::lives) {
        sleep(LOOK_AGAIN).await;
        waited += LOOK_AGAIN;
    }
    let left =
        tokio::task::spawn_blocking(move || process_table::started_by(leader)).await.unwrap_or_default();
    for process in found.iter().chain(&left) {
        signal(process, Signal::KILL);
    }
}

/// A program that can be run.
pub(super) struct Program {
    pub(super) file: PathBuf,
    /// What it is told it is called.
    called: OsString,
    pub(super) arguments: Vec<String>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) folder: PathBuf,
}

/// Not inherited: where the IDE was told to listen.
pub(super) const NOT_INHERITED: &str = "PORT";

impl Program {
    fn of(start: &ExecStart, home: &Path, env: &[(OsString, OsString)]) -> Result<Self, Problem> {
        let invalid = |why: String| Problem::new("INVALID_REQUEST", why);
        if let Some(name) = start.env.keys().find(|name| !may_set(name)) {
            return Err(invalid(format!("env: {name:?} cannot be set")));
        }
        let folder = start.cwd.as_deref().map_or_else(|| home.to_owned(), |cwd| home.join(cwd));
        if !folder.is_dir() {
            return Err(Problem::new(
                "NOT_FOUND",
                format!("cwd: there is no directory {}", folder.display()),
            ));
        }
        let (file, called, arguments) = match start.command.as_deref() {
            Some([program, arguments @ ..]) if !program.is_empty() => {
                let path = start.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
                let file = find(program, &folder, &path.unwrap_or_default())?;
                (file, OsString::from(program), arguments.to_vec())
            }
            Some(_) => return Err(invalid("command: needs a program".into())),
            None => {
                let shell = login_shell();
                let mut called = OsString::from("-");
                called.push(shell.file_name().unwrap_or_default());
                (shell, called, Vec::new())
            }
        };
        let added = start.env.iter().map(|(name, value)| (name.into(), value.into()));
        let env = env.iter().cloned().chain(added).collect();
        Ok(Self { file, called, arguments, env, folder })
    }

    /// Whether it is the login shell.
    pub(super) fn is_login_shell(&self) -> bool {
        self.called.as_encoded_bytes().first() == Some(&b'-')
    }

    /// Runs it, in a group of its own.
    fn with_pipes(&self) -> io::Result<(u32, Ends)> {
        let mut command = Command::new(&self.file);
        command
            .arg0(&self.called)
            .args(&self.arguments)
            .env_remove(NOT_INHERITED)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("there are no pipes to it"));
        };
        let ends = Ends::Pipes(
            ChildStdin::from_std(stdin)?,
            ChildStdout::from_std(stdout)?,
            ChildStderr::from_std(stderr)?,
        );
        Ok((child.id(), ends))
    }

    fn did_not_start(&self, error: &io::Error) -> Problem {
        let code = match error.kind() {
            io::ErrorKind::NotFound => "NOT_FOUND",
            io::ErrorKind::PermissionDenied => "NOT_EXECUTABLE",
            io::ErrorKind::InvalidInput => "INVALID_REQUEST",
            _ => "NOT_STARTED",
        };
        Problem::new(code, format!("{} could not be started: {error}", self.file.display()))
    }
}

/// Where a program of this name is, as the kernel would find it.
fn find(name: &str, folder: &Path, path: &std::ffi::OsStr) -> Result<PathBuf, Problem> {
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![folder.join(name)]
    } else {
        std::env::split_paths(path).map(|dir| folder.join(dir).join(name)).collect()
    };
    let runs = |file: &&PathBuf| file.is_file() && rustix::fs::access(*file, Access::EXEC_OK).is_ok();
    if let Some(found) = candidates.iter().find(runs) {
        return Ok(found.clone());
    }
    if let Some(file) = candidates.iter().find(|file| file.exists()) {
        return Err(Problem::new("NOT_EXECUTABLE", format!("{} cannot be executed", file.display())));
    }
    Err(Problem::new("NOT_FOUND", format!("there is no program {name} in this workspace")))
}

fn login_shell() -> PathBuf {
    let preferred = std::env::var_os("SHELL").map(PathBuf::from);
    let usual = ["/bin/bash", "/bin/sh"].map(PathBuf::from);
    let runs = |shell: &PathBuf| shell.is_absolute() && rustix::fs::access(shell, Access::EXEC_OK).is_ok();
    preferred.into_iter().chain(usual).find(runs).unwrap_or_else(|| "/bin/sh".into())
}
