//! `codehub exec`: a program in a workspace, with this terminal or with pipes (`codehub.exec.v1`).

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Read as _},
    process::ExitCode,
    time::Duration,
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use rustix::termios::{self, OptionalActions, Termios};
use serde_json::{Value, json};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

use crate::{
    api::{Api, LONGEST_MESSAGE, Socket},
    failure::{Failure, Kind, Result},
    output, workspace,
};

const PROTOCOL: &str = "codehub.exec.v1";
/// CodeHub's fault, as `docker exec` has it.
const OURS: u8 = 125;
/// Who says nothing for long is taken for gone, also while what it was told is still being read.
const STILL_HERE: Duration = Duration::from_secs(25);
/// So many signals in a row, and we do not wait for the program any more.
const INTERRUPTS: u32 = 3;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const END: u8 = 3;
const RESIZE: u8 = 4;
const START: u8 = 5;
const SIGNAL: u8 = 6;
const CLOSE: u8 = 255;

/// `codehub exec`.
#[derive(Debug, clap::Args)]
pub struct Exec {
    /// Pass standard input on
    #[arg(long, short = 'i')]
    stdin: bool,
    /// With a terminal: this one
    #[arg(long, short)]
    tty: bool,
    /// Start the workspace first where it sleeps
    #[arg(long)]
    wake: bool,
    /// Where to run it; the home directory unless said
    #[arg(long, value_name = "DIRECTORY")]
    cwd: Option<String>,
    /// A variable, NAME=VALUE; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    workspace: String,
    /// The program and its arguments; the login shell unless said
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn variable(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// What is to be run in which workspace.
pub(crate) struct Run {
    pub(crate) command: Vec<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) tty: bool,
    pub(crate) wake: bool,
}

/// How it ended.
pub(crate) enum Ended {
    Code(u8),
    Signal(String),
    /// It did not run; the API's word and sentence.
    Error(String, String),
}

/// Ends with the program's own code. What is not its doing is 125.
pub(crate) async fn exec(api: Result<Api>, options: Exec) -> ExitCode {
    let ended = async {
        let api = api?;
        let found = workspace::find(&api, &options.workspace).await?;
        // A shell that nobody asked for by name is for whoever sits here.
        let by_hand = options.command.is_empty() && !options.stdin && io::stdin().is_terminal();
        let (stdin, tty) = (options.stdin || by_hand, options.tty || by_hand);
        if tty && stdin && !io::stdin().is_terminal() {
            return Err(Failure::new(Kind::Usage, "standard input is not a terminal")
                .or_next("leave out -t to pass bytes on as they are"));
        }
        let run = Run {
            command: options.command,
            cwd: options.cwd,
            env: options.env.into_iter().collect(),
            tty,
            wake: options.wake,
        };
        let socket = open(&api, &found.path("/exec"), &run).await?;
        let _raw = if tty && stdin { Raw::enter()? } else { None };
        attached(socket, stdin, tty).await
    };
    match ended.await {
        Ok(ended) => code_of(&ended),
        Err(failure) => {
            output::note(failure);
            ExitCode::from(OURS)
        }
    }
}

fn code_of(ended: &Ended) -> ExitCode {
    match ended {
        Ended::Code(code) => ExitCode::from(*code),
        Ended::Signal(name) => ExitCode::from(128_u8.saturating_add(signal_number(name))),
        Ended::Error(code, message) => {
            let next = (code == "WORKSPACE_STANDBY").then_some("\n         or let exec start it: --wake");
            output::note(format_args!("{}{}", output::clean(message), next.unwrap_or_default()));
            ExitCode::from(match code.as_str() {
                "NOT_EXECUTABLE" => 126,
                "NOT_FOUND" => 127,
                _ => OURS,
            })
        }
    }
}

/// As Linux numbers them; 0 where there is none of that name.
fn signal_number(name: &str) -> u8 {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    NAMES.iter().zip(1..).find(|(known, _)| **known == name).map_or(0, |(_, number)| number)
}

/// A socket on which the program has been named.
pub(crate) async fn open(api: &Api, path: &str, run: &Run) -> Result<Socket> {
    let mut first = json!({ "env": run.env, "wake": run.wake });
    if !run.command.is_empty() {
        first["command"] = json!(run.command);
    }
    if let Some(cwd) = &run.cwd {
        first["cwd"] = json!(cwd);
    }
    if run.tty {
        let (cols, rows) = size();
        first["tty"] = json!({ "cols": cols, "rows": rows });
        if let Ok(term) = std::env::var("TERM") {
            first["tty"]["term"] = json!(term);
        }
    }
    let mut socket = api.websocket(path, PROTOCOL).await?;
    socket.send(message(START, first.to_string().as_bytes())).await.map_err(|error| api.broke_off(&error))?;
    Ok(socket)
}

/// One message of ours.
pub(crate) fn message(kind: u8, rest: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(1 + rest.len());
    bytes.put_u8(kind);
    bytes.put_slice(rest);
    Message::Binary(bytes.freeze())
}

/// Standard input in messages.
pub(crate) fn input(bytes: &[u8]) -> Message {
    message(STDIN, bytes)
}

/// The end of standard input.
pub(crate) fn end_of_input() -> Message {
    message(CLOSE, &[STDIN])
}

/// The longest piece of standard input that fits into a message.
pub(crate) const PIECE: usize = LONGEST_MESSAGE - 1;

/// What came of one message.
pub(crate) enum Heard {
    Stdout(Bytes),
    Stderr(Bytes),
    End(Ended),
}

/// The next thing the program says.
///
/// # Errors
/// The connection ended before the program did.
pub(crate) async fn hear(source: &mut SplitStream<Socket>) -> Result<Heard> {
    let broke = |why: String| Failure::new(Kind::Unreachable, why);
    loop {
        let mut bytes = match source.next().await {
            Some(Ok(Message::Binary(bytes))) => bytes,
            Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) => {
                return Err(broke(format!("the server ended it ({code}): {}", output::clean(&reason))));
            }
            Some(Ok(Message::Close(None))) | None => return Err(broke("the connection ended".into())),
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(broke(format!("the connection broke: {error}"))),
        };
        if bytes.is_empty() {
            continue;
        }
        let kind = bytes.split_to(1)[0];
        match kind {
            STDOUT => return Ok(Heard::Stdout(bytes)),
            STDERR => return Ok(Heard::Stderr(bytes)),
            END => return Ok(Heard::End(ended(&bytes))),
            _ => {}
        }
    }
}

fn ended(bytes: &[u8]) -> Ended {
    let end: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = |pointer: &str| end.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    if let Some(code) = end.pointer("/exit/code").and_then(Value::as_u64) {
        return Ended::Code(u8::try_from(code).unwrap_or(u8::MAX));
    }
    match text("/exit/signal") {
        Some(signal) => Ended::Signal(signal),
        None => Ended::Error(
            text("/error/code").unwrap_or_default(),
            text("/error/message").unwrap_or_else(|| "nobody knows how it ended".into()),
        ),
    }
}

/// The terminal in raw mode, until this is dropped.
struct Raw(Termios);

impl Raw {
    fn enter() -> Result<Option<Self>> {
        let failed = |error| Failure::local("the terminal", error);
        let before = termios::tcgetattr(io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Drain, &raw).map_err(failed)?;
        Ok(Some(Self(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}

/// Columns and lines of this terminal.
fn size() -> (u16, u16) {
    let found = termios::tcgetwinsize(io::stdout()).or_else(|_| termios::tcgetwinsize(io::stdin()));
    match found {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => (80, 24),
    }
}

/// Standard input, read where it may block. The thread ends with the process.
fn read_stdin() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut buffer = vec![0; PIECE];
        loop {
            match io::stdin().read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    if sender.blocking_send(Bytes::copy_from_slice(&buffer[..length])).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// Passes everything on, both ways, until the program has ended.
async fn attached(socket: Socket, stdin: bool, tty: bool) -> Result<Ended> {
    let (mut sink, mut source) = socket.split();
    let speaking = speak(&mut sink, stdin, tty);
    let hearing = async {
        loop {
            match hear(&mut source).await? {
                Heard::Stdout(bytes) => print(io::stdout(), bytes).await?,
                Heard::Stderr(bytes) => print(io::stderr(), bytes).await?,
                Heard::End(ended) => return Ok(ended),
            }
        }
    };
    tokio::select! {
        ended = hearing => ended,
        failure = speaking => Err(failure),
    }
}

/// Where it may block: whoever reads slowly keeps nobody else waiting. They may also have gone, as in a pipe to `head`.
async fn print(mut to: impl io::Write + Send + 'static, bytes: Bytes) -> Result<()> {
    let written = tokio::task::spawn_blocking(move || to.write_all(&bytes).and_then(|()| to.flush()));
    let written = written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    written.map_err(|error| Failure::local("what the program prints cannot be written", error))
}

/// The signals that are caught, by their names.
fn signals(tty: bool) -> io::Result<Vec<(&'static str, Signal)>> {
    let mut all = Vec::new();
    let kinds = [
        ("INT", SignalKind::interrupt()),
        ("TERM", SignalKind::terminate()),
        ("HUP", SignalKind::hangup()),
        ("QUIT", SignalKind::quit()),
        ("USR1", SignalKind::user_defined1()),
        ("USR2", SignalKind::user_defined2()),
    ];
    // With a terminal the keys are the program's, and only our own end is ours.
    for (name, kind) in kinds.into_iter().filter(|(name, _)| !tty || matches!(*name, "TERM" | "HUP")) {
        all.push((name, signal(kind)?));
    }
    Ok(all)
}

/// What goes to the program. Returns only where the connection broke.
async fn speak(sink: &mut SplitSink<Socket, Message>, stdin: bool, tty: bool) -> Failure {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Kind::Unreachable, format!("the connection broke: {error}"))
    };
    let (mut resized, mut caught) = match (signal(SignalKind::window_change()), signals(tty)) {
        (Ok(resized), Ok(caught)) => (resized, caught),
        (Err(error), _) | (_, Err(error)) => return Failure::local("signals", error),
    };
    let mut input = stdin.then(read_stdin);
    if !stdin && let Err(error) = sink.send(end_of_input()).await {
        return failed(&error);
    }
    let mut interrupts = 0;
    let mut still_here = interval_at(Instant::now() + STILL_HERE, STILL_HERE);
    still_here.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            bytes = async {
                match &mut input {
                    Some(input) => input.recv().await,
                    None => std::future::pending().await,
                }
            } => match bytes {
                Some(bytes) => self::input(&bytes),
                None => {
                    input = None;
                    end_of_input()
                }
            },
            _ = still_here.tick() => Message::Pong(Bytes::new()),
            _ = resized.recv(), if tty => {
                let (cols, rows) = size();
                message(RESIZE, json!({ "cols": cols, "rows": rows }).to_string().as_bytes())
            }
            name = any(&mut caught) => {
                if tty {
                    return Failure::new(Kind::Failed, format!("ended by SIG{name}"));
                }
                interrupts += u32::from(name == "INT");
                if interrupts >= INTERRUPTS {
                    return Failure::new(Kind::Failed, "interrupted three times: not waiting for the program any more");
                }
                message(SIGNAL, json!({ "signal": name }).to_string().as_bytes())
            }
        };
        if let Err(error) = sink.send(next).await {
            return failed(&error);
        }
    }
}

/// The next of these signals.
async fn any(signals: &mut [(&'static str, Signal)]) -> &'static str {
    if signals.is_empty() {
        return std::future::pending().await;
    }
    let each = signals.iter_mut().map(|(name, signal)| {
        Box::pin(async move {
            signal.recv().await;
            *name
        })
    });
    futures::future::select_all(each).await.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_they_are_written() {
        assert!(matches!(ended(br#"{"exit":{"code":7}}"#), Ended::Code(7)));
        assert!(
            matches!(ended(br#"{"exit":{"signal":"TERM"}}"#), Ended::Signal(name) if signal_number(&name) == 15)
        );
        assert!(
            matches!(ended(br#"{"error":{"code":"NOT_FOUND","message":"x"}}"#), Ended::Error(code, _) if code == "NOT_FOUND")
        );
        assert!(matches!(ended(b"{}"), Ended::Error(..)));
        assert_eq!(
            [signal_number("HUP"), signal_number("KILL"), signal_number("SYS"), signal_number("?")],
            [1, 9, 31, 0]
        );
    }
}
