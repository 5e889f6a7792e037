//! Shutting a workspace in with bubblewrap, where it is installed and the kernel lets it.
//!
//! Inside, the machine is read-only; `/tmp`, `/dev` and the process table are its own; CodeHub's data
//! directory is empty but for this workspace's home and the place of its socket. The network is the
//! machine's. There are no privileges inside, also not for root: whoever could mount could undo all of
//! this. Seen from outside, `bwrap` is the leader of the workspace's session and ends with its program's
//! status.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use super::super::{SandboxChoice, ide::which};

/// What the inside looks like.
pub(super) struct Inside<'a> {
    pub(super) data_dir: &'a Path,
    /// Where the home really is.
    pub(super) home: &'a Path,
    /// Where the program finds it.
    pub(super) seen_as: &'a Path,
    /// Where it listens, if that is a socket.
    pub(super) socket_dir: Option<&'a Path>,
    /// More that is not for workspaces.
    pub(super) hidden: &'a [PathBuf],
    /// The program and its words: what they name has to be there inside.
    pub(super) command: &'a [String],
}

impl Inside<'_> {
    fn program(&self) -> &Path {
        self.command.first().map_or(Path::new(""), Path::new)
    }

    /// What the command needs of the machine's `/tmp`, which is otherwise not shown: the directories
    /// directly below it in which the program, or a script it is given, lies. Not what leads to the home or the
    /// socket: those are shown by themselves.
    fn needed_of_tmp(&self) -> BTreeSet<PathBuf> {
        let mut needed = BTreeSet::new();
        for word in self.command {
            if let Ok(below) = Path::new(word).strip_prefix("/tmp")
                && let Some(first) = below.components().next()
            {
                let path = Path::new("/tmp").join(first);
                let shown = Path::new(word).starts_with(self.data_dir) || self.seen_as.starts_with(word);
                if path.exists() && !shown {
                    needed.insert(path);
                }
            }
        }
        needed
    }
}

/// Finds out once whether workspaces will be shut in, and with which `bwrap`.
pub(super) async fn probe(choice: SandboxChoice) -> Result<Option<PathBuf>, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (found, must) = match choice {
        SandboxChoice::Never => return Ok(None),
        SandboxChoice::Auto => (which("bwrap", &path), false),
        SandboxChoice::Always => (which("bwrap", &path), true),
    };
    let verdict = match found {
        None => Err("bubblewrap is not installed: there is no `bwrap` on the PATH".to_owned()),
        Some(bwrap) => works(&bwrap).await.map(|()| bwrap),
    };
    match verdict {
        Ok(bwrap) => Ok(Some(bwrap)),
        Err(why) if must => Err(format!(
            "PROCESS_SANDBOX=always, but {why}. Install bubblewrap and allow user namespaces, or set \
             PROCESS_SANDBOX=auto"
        )),
        Err(why) => {
            tracing::info!(%why, "workspaces run without a sandbox");
            Ok(None)
        }
    }
}

async fn works(bwrap: &Path) -> Result<(), String> {
    let mut command = tokio::process::Command::new(bwrap);
    command.args(BASE).args(["--", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let run = tokio::time::timeout(Duration::from_secs(5), command.output()).await;
    match run {
        Err(_) => Err("bubblewrap does not come back".to_owned()),
        Ok(Err(error)) => Err(format!("bubblewrap cannot be run: {error}")),
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(format!("bubblewrap does not work here ({})", words.trim()))
        }
    }
}

const BASE: &[&str] = &[
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--unshare-pid",
    "--proc",
    "/proc",
    "--tmpfs",
    "/tmp",
    "--cap-drop",
    "ALL",
];

/// `bwrap` and its arguments, up to where the program's own words follow.
pub(super) fn words(bwrap: &Path, inside: &Inside<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![bwrap.into()];
    words.extend(BASE.iter().map(OsString::from));
    let mut add = |parts: &[&Path], option: &str| {
        words.push(option.into());
        words.extend(parts.iter().map(|part| part.as_os_str().to_owned()));
    };
    for path in inside.needed_of_tmp() {
        add(&[&path, &path], "--ro-bind");
    }
    for path in inside.hidden {
        // Before the data directory, since they may be above it.
        match path.metadata() {
            Ok(found) if found.is_dir() => add(&[path], "--tmpfs"),
            Ok(_) => add(&[Path::new("/dev/null"), path], "--ro-bind"),
            Err(_) => {}
        }
    }
    add(&[inside.data_dir], "--tmpfs");
    let program = inside.program();
    if program.starts_with(inside.data_dir) && !program.starts_with(inside.home) {
        add(&[program, program], "--ro-bind");
    }
    add(&[inside.home, inside.seen_as], "--bind");
    if let Some(dir) = inside.socket_dir {
        add(&[dir, dir], "--bind");
    }
    add(&[inside.seen_as], "--chdir");
    words.push("--".into());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_tmp_only_what_the_command_needs_is_shown() {
        let tmp = tempfile::tempdir_in("/tmp").unwrap();
        let (data, tools) = (tmp.path().join("data"), tempfile::tempdir_in("/tmp").unwrap());
        let (home, socket) = (data.join("homes/h"), data.join("run/x/ide"));
        let words = ["sh", "run.py", "ide"].map(|name| tools.path().join(name).display().to_string());
        let mut command = words.to_vec();
        command.extend([home.display().to_string(), socket.display().to_string()]);
        let inside = Inside {
            data_dir: &data,
            home: &home,
            seen_as: &home,
            socket_dir: socket.parent(),
            hidden: &[],
            command: &command,
        };
        assert_eq!(
            inside.needed_of_tmp(),
            BTreeSet::from([tools.path().to_owned()]),
            "no neighbours of the data"
        );
    }
}
