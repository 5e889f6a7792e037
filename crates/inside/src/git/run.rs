//! Running `git`: never longer than a time, never more output than a bound, and never with questions.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use crate::error::{ApiError, Result};
use crate::home::Home;
use crate::path::RelPath;

/// Looking at a repository.
const LOOK_TIME: Duration = Duration::from_secs(20);
/// Changing it; hooks of a commit may run tests.
const CHANGE_TIME: Duration = Duration::from_secs(300);
const MAX_OUTPUT: u64 = 16 * 1024 * 1024;
const MAX_COMPLAINT: u64 = 16 * 1024;
/// At most this many at a time; others wait.
const AT_ONCE: usize = 4;

/// `git` in the repositories of one home.
#[derive(Clone)]
pub(super) struct Git {
    home: Home,
    turns: Arc<Semaphore>,
}

/// What `git` printed, perhaps cut.
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    pub(super) truncated: bool,
}

impl Git {
    pub(super) fn new(home: Home) -> Self {
        Self { home, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// Whether there is a `git` to run.
    pub(super) async fn available(&self) -> bool {
        self.look(&RelPath::default(), &["version"]).await.is_ok()
    }

    /// The top of the repository around a directory; `None` without one beneath the home, or without `git`.
    pub(super) async fn root_of(&self, dir: &RelPath) -> Result<Option<RelPath>> {
        let found = match self.look(dir, &["rev-parse", "--show-toplevel"]).await {
            Ok(output) => output.bytes,
            Err(error) if ["GIT_FAILED", "NO_GIT"].contains(&error.code) => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = found.strip_suffix(b"\n").unwrap_or(&found).to_vec();
        let root = PathBuf::from(std::ffi::OsString::from_vec(line));
        Ok(root.strip_prefix(self.home.real_path()).ok().map(RelPath::beneath))
    }

    /// Runs a command that writes nothing.
    pub(super) async fn look(&self, dir: &RelPath, arguments: &[&str]) -> Result<Output> {
        self.run(dir, &[], arguments, Vec::new(), LOOK_TIME).await
    }

    /// Runs a command that changes the repository, with this input.
    pub(super) async fn change(&self, dir: &RelPath, arguments: &[&str], input: Vec<u8>) -> Result<Output> {
        self.run(dir, &["--literal-pathspecs"], arguments, input, CHANGE_TIME).await
    }

    async fn run(
        &self,
        dir: &RelPath,
        options: &[&str],
        arguments: &[&str],
        input: Vec<u8>,
        time: Duration,
    ) -> Result<Output> {
        let _turn = self.turns.acquire().await;
        let mut command = Command::new("git");
        command
            .args(["--no-pager", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false"])
            .args(options)
            .args(arguments)
            .current_dir(self.home.real_path().join(dir.to_path_buf()))
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "false")
            .env("LC_ALL", "C.UTF-8")
            // A repository around the home is not the workspace's.
            .env("GIT_CEILING_DIRECTORIES", self.home.real_path().parent().unwrap_or(self.home.real_path()))
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_ASKPASS")
            .env_remove("SSH_ASKPASS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                ApiError::new(StatusCode::NOT_FOUND, "NO_GIT", "git is not installed in this workspace")
            }
            _ => ApiError::from_io(&error, "git"),
        })?;
        let mut running = Running { child };
        let finished = tokio::time::timeout(time, running.finish(input)).await.map_err(|_| {
            ApiError::new(
                StatusCode::GATEWAY_TIMEOUT,
                "GIT_SLOW",
                format!("git {} took longer than {} s and was stopped", arguments[0], time.as_secs()),
            )
        })?;
        let (status, output, complaint) = finished.map_err(|error| ApiError::from_io(&error, "git"))?;
        // A command that printed too much was not left to end.
        if status.is_some_and(|status| status.success()) || output.truncated {
            return Ok(output);
        }
        Err(failure(arguments[0], &complaint, &output.bytes))
    }
}

/// What `git` said when it failed, for people.
fn failure(command: &str, complaint: &[u8], output: &[u8]) -> ApiError {
    let said = if complaint.is_empty() { output } else { complaint };
    let said = String::from_utf8_lossy(said).trim().to_owned();
    if said.contains("user.email") && said.contains("user.name") {
        return ApiError::new(
            StatusCode::CONFLICT,
            "NO_IDENTITY",
            "git does not know who you are. In a terminal: git config --global user.name \"Your Name\" and \
             git config --global user.email you@example.com",
        );
    }
    let said = if said.is_empty() { format!("git {command} failed") } else { said };
    ApiError::new(StatusCode::CONFLICT, "GIT_FAILED", said)
}

/// Ends with what it started when it is dropped, as when nobody waits for the answer any more.
struct Running {
    child: Child,
}

impl Running {
    async fn finish(&mut self, input: Vec<u8>) -> std::io::Result<(Option<ExitStatus>, Output, Vec<u8>)> {
        let stdin = self.child.stdin.take();
        let stdout = self.child.stdout.take();
        let stderr = self.child.stderr.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // It may end without reading all of it, and then says why.
                let _ = stdin.write_all(&input).await;
            }
        };
        let (bytes, complaint, ()) =
            tokio::join!(bounded(stdout, MAX_OUTPUT), bounded(stderr, MAX_COMPLAINT), feed);
        let (bytes, complaint) = (bytes?, complaint?);
        let truncated = bytes.len() as u64 >= MAX_OUTPUT;
        let status = if truncated { None } else { Some(self.child.wait().await?) };
        Ok((status, Output { bytes, truncated }, complaint))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only while it runs: its number may be another's afterwards.
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).unwrap_or(0))) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

async fn bounded(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take(most);
        pipe.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
