//! Starting a shell on a pseudo-terminal, and the threads that serve it.
//!
//! The PTY handles are blocking, so each terminal has three small threads: one
//! reads output, one writes input (a program that does not read must not stall
//! anybody else), one waits for the shell to exit.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::fs::Access;
use tokio::sync::mpsc;

use super::{Exit, Terminal};

const READ_CHUNK: usize = 16 * 1024;
const LAST_WORDS: Duration = Duration::from_millis(300);
const STACK: usize = 256 * 1024;

/// A shell that runs but has no threads yet.
pub(super) struct Spawned {
    pub(super) master: Box<dyn MasterPty + Send>,
    pub(super) child: Box<dyn Child + Send + Sync>,
    pub(super) shell: PathBuf,
}

pub(super) fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

pub(super) fn spawn(home: &Path, rows: u16, cols: u16) -> Result<Spawned> {
    let shell = find_shell()?;
    let pair = native_pty_system().openpty(size(rows, cols)).context("no pseudo-terminal could be opened")?;
    // The default program is the shell as a login shell, named by SHELL.
    let mut command = CommandBuilder::new_default_prog();
    command.env("SHELL", &shell);
    command.env("HOME", home);
    command.env("TERM", "xterm-256color");
    command.env("COLORTERM", "truecolor");
    command.env("TERM_PROGRAM", "codehub");
    if ["LC_ALL", "LC_CTYPE", "LANG"].iter().all(|name| std::env::var_os(name).is_none()) {
        command.env("LANG", "C.UTF-8");
    }
    // PORT is this server's own; a program started by hand must not inherit it.
    command.env_remove("PORT");
    command.env_remove("CODEHUB_SECRET");
    command.cwd(home);
    let child = pair
        .slave
        .spawn_command(command)
        .with_context(|| format!("{} could not be started", shell.display()))?;
    Ok(Spawned { master: pair.master, child, shell })
}

/// `$SHELL`, then the usual ones. Checked here because a failing exec inside
/// the PTY would only look like a shell that ended at once.
fn find_shell() -> Result<PathBuf> {
    let preferred = std::env::var_os("SHELL").map(PathBuf::from);
    let usual = ["/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"].map(PathBuf::from);
    for shell in preferred.into_iter().chain(usual) {
        if shell.is_absolute() && shell.is_file() && rustix::fs::access(&shell, Access::EXEC_OK).is_ok() {
            return Ok(shell);
        }
    }
    bail!("no shell was found in this workspace (looked for $SHELL, /bin/bash and /bin/sh)")
}

/// Starts the three threads. They hold the terminal weakly where they may block
/// for long, so that closing it frees its screen at once.
pub(super) fn serve(
    terminal: &Arc<Terminal>,
    reader: Box<dyn Read + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    input: mpsc::UnboundedReceiver<Vec<u8>>,
) -> std::io::Result<()> {
    let weak = Arc::downgrade(terminal);
    let (drained, all_read) = std::sync::mpsc::channel::<()>();
    thread("pty-read", move || {
        read_output(reader, &weak);
        drop(drained);
    })?;
    let weak = Arc::downgrade(terminal);
    thread("pty-write", move || write_input(writer, input, &weak))?;
    let terminal = Arc::downgrade(terminal);
    thread("pty-wait", move || wait(child, &terminal, &all_read))
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run).map(drop)
}

fn read_output(mut reader: Box<dyn Read + Send>, terminal: &Weak<Terminal>) {
    let mut buffer = vec![0; READ_CHUNK];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => match terminal.upgrade() {
                Some(terminal) => terminal.output(&buffer[..n]),
                None => return,
            },
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn write_input(
    mut writer: Box<dyn Write + Send>,
    mut input: mpsc::UnboundedReceiver<Vec<u8>>,
    terminal: &Weak<Terminal>,
) {
    while let Some(bytes) = input.blocking_recv() {
        let failed = writer.write_all(&bytes).is_err();
        match terminal.upgrade() {
            Some(terminal) => terminal.input_written(bytes.len()),
            None => return,
        }
        if failed {
            return;
        }
    }
}

fn wait(mut child: Box<dyn Child + Send + Sync>, terminal: &Weak<Terminal>, all_read: &Receiver<()>) {
    let exit = match child.wait() {
        Ok(status) => Exit { code: status.exit_code(), signal: status.signal().map(str::to_owned) },
        Err(_) => Exit { code: 1, signal: None },
    };
    // Last words first, then the news. Something left in the background may
    // hold the terminal open, so this does not wait for long.
    let _ = all_read.recv_timeout(LAST_WORDS);
    if let Some(terminal) = terminal.upgrade() {
        terminal.exited(exit);
    }
}
