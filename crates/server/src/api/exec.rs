//! Running programs in a workspace: by a WebSocket for people and tools, by one request for scripts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, response::Response, routing::get};
use bytes::{BufMut as _, Bytes, BytesMut};
use codehub_domain::{
    Workspace, WorkspaceId,
    audit::{AuditAction, AuditEntry, AuditObject},
};
use codehub_inside::line::{
    client::{Exec, ExecInput, Output},
    messages::channel,
    protocol::{ExecEnd, ExecStart, Exit, Problem, Tty, may_set, signal_number},
};
use codehub_proxy::activity::{ActivityKind, OpenSocket};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout, timeout_at};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{self, CurrentUser, PathId},
    inside,
    revalidated::Revalidated,
    websocket::{ASK_EVERY, Ended, Handshake, LONGEST, Sink, Socket, Source},
};
use crate::{
    app::App,
    auth::{Identity, act},
    lines::OpenLine,
    telemetry::metrics::{EXECS, EXECS_OPEN},
};

const PROTOCOL: &str = "codehub.exec.v1";
const FIRST_WITHIN: Duration = Duration::from_secs(10);
/// What a script gets of each of a program's outputs.
const MOST_OUTPUT: usize = 1024 * 1024;
const TIMEOUT_DEFAULT: u32 = 300;
const TIMEOUT_MAX: u32 = 3600;
/// Enough for any program, few enough for one message.
const MOST_WORDS: usize = 1000;

#[derive(OpenApi)]
#[openapi(paths(open, run))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/exec", get(open).post(run))
}

/// The first message of a WebSocket.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    #[serde(default)]
    command: Option<Vec<String>>,
    #[serde(default)]
    tty: Option<Tty>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    wake: bool,
}

/// What is wrong with what is to be run, if anything is.
fn check(start: &ExecStart) -> Result<()> {
    if let Some(command) = &start.command
        && (command.is_empty() || command[0].is_empty() || command.len() > MOST_WORDS)
    {
        return Err(ApiError::invalid("command", format!("needs a program, and at most {MOST_WORDS} words")));
    }
    if let Some(name) = start.env.keys().find(|name| !may_set(name)) {
        return Err(ApiError::invalid(
            "env",
            format!(
                "{name:?} cannot be set: names are letters, digits and _, and do not begin with CODEHUB_"
            ),
        ));
    }
    let texts = start.command.iter().flatten().chain(start.env.values()).chain(&start.cwd);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err(ApiError::new(Code::InvalidRequest, "a NUL byte cannot be part of a command"));
    }
    Ok(())
}

/// What the audit trail calls it: the program, never its arguments.
fn program(start: &ExecStart) -> String {
    let name = start.command.as_ref().and_then(|command| command.first());
    name.map_or("login shell", |name| name.rsplit('/').next().unwrap_or_default()).to_owned()
}

/// A program that runs for somebody, and who it runs for.
struct Running {
    exec: Exec,
    /// Open for as long as it runs.
    _line: OpenLine,
    socket: OpenSocket,
}

impl Drop for Running {
    fn drop(&mut self) {
        metrics::gauge!(EXECS_OPEN).decrement(1.0);
    }
}

async fn start(
    app: &App,
    me: &Identity,
    workspace: &Workspace,
    line: OpenLine,
    start: &ExecStart,
) -> Result<Running> {
    let entry =
        AuditEntry::ok(AuditAction::ExecStarted, AuditObject::workspace(workspace.id, &workspace.name));
    act::note(app, &me.act, AuditEntry { after: Some(program(start)), ..entry }).await;
    let exec = line.exec(start).await.map_err(inside::failed)?;
    metrics::gauge!(EXECS_OPEN).increment(1.0);
    let socket = app.activity.open_socket(&app.activity.cell(workspace.id), false);
    Ok(Running { exec, _line: line, socket })
}

/// Counts how it ended, and writes down that it did not run at all.
async fn ended(app: &App, me: &Identity, workspace: &Workspace, start: &ExecStart, end: &ExecEnd) {
    let outcome = match end {
        ExecEnd::Exit(Exit::Code(0)) => "ok",
        ExecEnd::Exit(_) => "failed",
        ExecEnd::Error(problem) => {
            let object = AuditObject::workspace(workspace.id, &workspace.name);
            let entry = AuditEntry::failed(AuditAction::ExecStarted, Some(object), &problem.code);
            act::note(app, &me.act, AuditEntry { after: Some(program(start)), ..entry }).await;
            "not_started"
        }
    };
    metrics::counter!(EXECS, "outcome" => outcome).increment(1);
}

/// Run a program, interactively
///
/// A WebSocket (HTTP/1.1) with the subprotocol `codehub.exec.v1`. Messages are binary, at most 64 KiB; the first byte says
/// what the rest is. To the server: 5 (first) `{command?, tty?: {cols, rows, term?}, env?, cwd?, wake?}`, 0 standard input,
/// 255 and a byte 0 its end, 4 `{cols, rows}`, 6 `{signal: "INT"}`. From it: 1 standard output, 2 standard error (with a
/// terminal 1 only), 3 (last) `{exit: {code} | {signal}}` or `{error: {code, message}}`. Without a command: the login
/// shell. Closing it ends the program. The owner only; at most 64 at once.
#[utoipa::path(get, path = "/workspaces/{id}/exec", tag = "exec", params(("id" = String, Path, description = "The workspace")), responses(
    (status = 101, description = "The WebSocket"),
    (status = 400, description = "INVALID_REQUEST: not a handshake of this protocol", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's, another site's page, or switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn open(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    revalidated: Revalidated,
    PathId(id): PathId<WorkspaceId>,
    handshake: Handshake,
) -> Result<Response> {
    let workspace = inside::find(&app, &me, id).await?;
    handshake.check(PROTOCOL)?;
    Ok(handshake.accept(PROTOCOL, move |socket| async move {
        Session { app, me, workspace }.serve(socket, revalidated).await;
    }))
}

struct Session {
    app: Arc<App>,
    me: Identity,
    workspace: Workspace,
}

/// How a session ends.
enum Ending {
    /// The program did, or could not run.
    Program(ExecEnd),
    /// The client is gone: nobody is told.
    Gone,
    /// We end it.
    Ours(CloseCode, &'static str),
}

impl From<Ended> for Ending {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Gone => Self::Gone,
            Ended::NotBinary => Self::Ours(CloseCode::Unsupported, "messages are binary"),
        }
    }
}

impl From<ApiError> for Ending {
    fn from(error: ApiError) -> Self {
        let code = serde_json::to_value(error.code).ok().and_then(|code| code.as_str().map(str::to_owned));
        Self::Program(ExecEnd::Error(Problem::new(code.unwrap_or_default(), error.message)))
    }
}

impl Session {
    async fn serve(self, socket: Socket, revalidated: Revalidated) {
        let Socket { mut sink, source } = socket;
        let (app, id) = (Arc::clone(&self.app), self.workspace.id);
        let ending = tokio::select! {
            ending = self.run(&mut sink, source) => ending,
            () = revalidated.ended(Arc::clone(&app), Some(id)) => Ending::Ours(CloseCode::Policy, "signed out"),
            () = app.shutdown.cancelled() => Ending::Ours(CloseCode::Away, "the server is shutting down"),
        };
        match ending {
            Ending::Program(end) => {
                let mut message = vec![channel::END];
                message.extend(serde_json::to_vec(&end).unwrap_or_default());
                if sink.send(message.into()).await {
                    sink.close(CloseCode::Normal, "").await;
                }
            }
            Ending::Gone => {}
            Ending::Ours(code, reason) => sink.close(code, reason).await,
        }
    }

    async fn run(&self, sink: &mut Sink, mut source: Source) -> Ending {
        let first = match timeout(FIRST_WITHIN, source.next()).await {
            Err(_) => return Ending::Ours(CloseCode::Policy, "nothing to run was named in time"),
            Ok(Err(ended)) => return ended.into(),
            Ok(Ok(message)) => message,
        };
        let (start, wake) = match parse_first(&first) {
            Ok(parsed) => parsed,
            Err(error) => return error.into(),
        };
        let started = async {
            let line = inside::line(&self.app, &self.me, self.workspace.clone(), wake).await?;
            self::start(&self.app, &self.me, &self.workspace, line, &start).await
        };
        let mut running = match started.await {
            Ok(running) => running,
            Err(error) => return error.into(),
        };
        let input = running.exec.input.clone();
        let ending = tokio::select! {
            ending = pass_input(&mut source, &input, &running.socket) => ending,
            ending = pass_output(sink, &mut running.exec, &running.socket) => ending,
        };
        if let Ending::Program(end) = &ending {
            ended(&self.app, &self.me, &self.workspace, &start, end).await;
        }
        ending
    }
}

fn parse_first(message: &Bytes) -> Result<(ExecStart, bool)> {
    let Some((&channel::START, rest)) = message.split_first() else {
        return Err(ApiError::new(
            Code::InvalidRequest,
            "the first message must say what to run: a byte 5, then JSON",
        ));
    };
    let First { command, tty, env, cwd, wake } = serde_json::from_slice(rest)
        .map_err(|error| ApiError::new(Code::InvalidRequest, format!("the first message: {error}")))?;
    let start = ExecStart { command, tty, env, cwd };
    check(&start)?;
    Ok((start, wake))
}

/// From the client to the program. Returns only where the client is gone or breaks the protocol.
async fn pass_input(source: &mut Source, input: &ExecInput, socket: &OpenSocket) -> Ending {
    const WRONG: Ending = Ending::Ours(CloseCode::Protocol, "not a message of codehub.exec.v1");
    loop {
        let message = match source.next().await {
            Ok(message) => message,
            Err(ended) => return ended.into(),
        };
        let Some((&kind, rest)) = message.split_first() else { return WRONG };
        match kind {
            channel::STDIN | channel::RESIZE => {}
            channel::CLOSE if rest == [channel::STDIN] => {}
            channel::SIGNAL => {
                let named = serde_json::from_slice::<codehub_inside::line::protocol::SendSignal>(rest);
                if !named.is_ok_and(|named| signal_number(&named.signal).is_some()) {
                    return Ending::Ours(CloseCode::Protocol, "no such signal");
                }
            }
            _ => return WRONG,
        }
        if kind == channel::STDIN {
            socket.message(ActivityKind::FromClient);
        }
        // Who does not read any more may still write.
        input.send(kind, rest).await;
    }
}

async fn pass_output(sink: &mut Sink, exec: &mut Exec, socket: &OpenSocket) -> Ending {
    let mut ask = interval_at(Instant::now() + ASK_EVERY, ASK_EVERY);
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let output = tokio::select! {
            output = exec.output.next() => output,
            _ = ask.tick() => {
                if !sink.ask().await {
                    return Ending::Gone;
                }
                continue;
            }
        };
        let (kind, bytes) = match output {
            Ok(Output::Stdout(bytes)) => (channel::STDOUT, bytes),
            Ok(Output::Stderr(bytes)) => (channel::STDERR, bytes),
            Ok(Output::End(end)) => return Ending::Program(end),
            Err(error) => return inside::failed(error).into(),
        };
        socket.message(ActivityKind::FromWorkspace);
        let mut message = BytesMut::with_capacity(1 + bytes.len());
        message.put_u8(kind);
        message.put_slice(&bytes[..bytes.len().min(LONGEST - 1)]);
        if !sink.send(message.freeze()).await {
            return Ending::Gone;
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RunProgram, example = json!({ "command": ["python3", "-c", "print(6 * 7)"] }))]
struct Run {
    /// The program and its arguments. No shell is between: for one, run `["sh", "-c", "…"]`.
    #[serde(default)]
    command: Option<Vec<String>>,
    /// What it reads; nothing unless said.
    #[serde(default)]
    stdin: Option<String>,
    /// Added to its environment; names that begin with CODEHUB_ cannot be set.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Where it runs; the home unless said, and relative to it.
    #[serde(default)]
    cwd: Option<String>,
    /// After so many seconds it is ended; 300 unless said.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    timeout_seconds: Option<u32>,
    /// Starts a workspace that sleeps first, as `start` does.
    #[serde(default)]
    wake: bool,
}

/// What became of a program.
#[derive(Serialize, ToSchema)]
#[schema(as = ProgramResult)]
struct Ran {
    /// `{"code": 0}`, or `{"signal": "TERM"}`; null where it was ended after its time.
    #[schema(value_type = Option<Object>)]
    exit: Option<Exit>,
    /// What it printed: its first MiB, where bytes that are not UTF-8 are replaced.
    stdout: String,
    stderr: String,
    /// It printed more than that.
    truncated: bool,
    /// It took longer than `timeout_seconds`, and was ended.
    timed_out: bool,
}

/// Run a program
///
/// And wait for its end: for scripts. Whoever hangs up ends it, and so does the end of the session or token. The owner
/// only; at most 64 at once.
#[utoipa::path(post, path = "/workspaces/{id}/exec", tag = "exec", params(("id" = String, Path, description = "The workspace")), request_body = Run, responses(
    (status = 200, description = "It ran", body = Ran),
    (status = 400, description = "INVALID_REQUEST: no such program, or what to run is not understood", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's, or switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: in ERROR, or started by a CodeHub that could not do this: restart it", body = ErrorBody),
    (status = 429, description = "LIMIT_EXCEEDED: 64 run already", body = ErrorBody),
    (status = 503, description = "WORKSPACE_STANDBY: it sleeps, and `wake` was not said; UPSTREAM_UNAVAILABLE", body = ErrorBody),
))]
async fn run(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    revalidated: Revalidated,
    PathId(id): PathId<WorkspaceId>,
    extract::Json(body): extract::Json<Run>,
) -> Result<Json<Ran>> {
    revalidated.during(&app, id, run_to_its_end(&app, &me, id, body)).await.map(Json)
}

async fn run_to_its_end(app: &App, me: &Identity, id: WorkspaceId, body: Run) -> Result<Ran> {
    let workspace = inside::find(app, me, id).await?;
    let Run { command, stdin, env, cwd, timeout_seconds, wake } = body;
    if command.is_none() {
        return Err(ApiError::invalid("command", "this field is missing"));
    }
    let seconds = timeout_seconds.unwrap_or(TIMEOUT_DEFAULT);
    if !(1..=TIMEOUT_MAX).contains(&seconds) {
        return Err(ApiError::invalid("timeout_seconds", format!("must be 1 to {TIMEOUT_MAX}")));
    }
    let start = ExecStart { command, tty: None, env, cwd };
    check(&start)?;
    let line = inside::line(app, me, workspace.clone(), wake).await?;
    let mut running = self::start(app, me, &workspace, line, &start).await?;
    let deadline = Instant::now() + Duration::from_secs(seconds.into());
    let (mut stdout, mut stderr) = (Collected::default(), Collected::default());
    let input = running.exec.input.clone();
    let fed = async {
        for piece in stdin.unwrap_or_default().as_bytes().chunks(LONGEST / 2) {
            input.send(channel::STDIN, piece).await;
        }
        input.send(channel::CLOSE, &[channel::STDIN]).await;
        std::future::pending::<()>().await;
    };
    let socket = &running.socket;
    let collected = async {
        loop {
            match running.exec.output.next().await? {
                Output::Stdout(bytes) => stdout.add(&bytes),
                Output::Stderr(bytes) => stderr.add(&bytes),
                Output::End(end) => return Ok(end),
            }
            socket.message(ActivityKind::FromWorkspace);
        }
    };
    let end = timeout_at(deadline, async {
        tokio::select! {
            end = collected => end.map_err(inside::failed),
            () = fed => Err(ApiError::new(Code::Internal, "the input ended")),
        }
    })
    .await;
    let exit = match end {
        Err(_) => None,
        Ok(end) => {
            let end = end?;
            ended(app, me, &workspace, &start, &end).await;
            match end {
                ExecEnd::Exit(exit) => Some(exit),
                ExecEnd::Error(problem) if problem.code == "LIMIT_EXCEEDED" => {
                    return Err(ApiError::new(Code::LimitExceeded, problem.message));
                }
                ExecEnd::Error(problem) => return Err(ApiError::invalid("command", problem.message)),
            }
        }
    };
    let truncated = stdout.more || stderr.more;
    drop(running);
    Ok(Ran { timed_out: exit.is_none(), exit, stdout: stdout.text(), stderr: stderr.text(), truncated })
}

/// The beginning of what a program prints.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    more: bool,
}

impl Collected {
    fn add(&mut self, bytes: &[u8]) {
        let room = MOST_OUTPUT - self.bytes.len();
        self.more |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_says_what_to_run_and_nothing_else() {
        let first = |text: &str| parse_first(&[&[5], text.as_bytes()].concat().into());
        let (start, wake) = first(r#"{"command":["/usr/bin/env","x"],"wake":true,"cwd":"a"}"#).unwrap();
        assert!(wake && start.cwd.as_deref() == Some("a"));
        assert_eq!(program(&start), "env", "never its arguments");
        assert_eq!(program(&first("{}").unwrap().0), "login shell");
        for wrong in [
            "",
            r#"{"command":[]}"#,
            r#"{"command":[""]}"#,
            r#"{"command":["a\u0000b"]}"#,
            r#"{"comand":["a"]}"#,
            r#"{"env":{"CODEHUB_TOKEN":"x"}}"#,
            r#"{"env":{"a=b":"x"}}"#,
            r#"{"tty":{"cols":80}}"#,
        ] {
            assert!(first(wrong).is_err(), "{wrong}");
        }
        assert!(parse_first(&Bytes::from_static(b"\x00{}")).is_err());
        assert!(parse_first(&Bytes::new()).is_err());
    }

    #[test]
    fn output_is_collected_up_to_a_limit() {
        let mut collected = Collected::default();
        collected.add(&[b'x'; MOST_OUTPUT - 1]);
        assert!(!collected.more);
        collected.add(b"yz");
        assert!(collected.more && collected.bytes.len() == MOST_OUTPUT);
        collected.add(b"more");
        assert_eq!(collected.text().len(), MOST_OUTPUT);
    }
}
