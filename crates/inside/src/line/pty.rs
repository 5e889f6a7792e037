//! A program on a terminal of its own. The library's handles block, so each has two small threads.

use std::io::{self, Read, Write};

use bytes::{BufMut as _, Bytes};
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::sync::{mpsc, oneshot};

use super::exec::{NOT_INHERITED, Output, Program};
use super::messages::{LONGEST, OpenFrame, channel};
use super::protocol::Tty;

const STACK: usize = 128 * 1024;
/// Terminals give a few kilobytes at a time.
const CHUNK: usize = 16 * 1024;
const LONGEST_SIDE: u16 = 1000;

/// The outer end of a terminal.
pub(super) struct Terminal {
    master: Box<dyn MasterPty + Send>,
    reader: Option<Box<dyn Read + Send>>,
    writer: Option<Box<dyn Write + Send>>,
}

fn size(rows: u16, cols: u16) -> PtySize {
    let side = |n: u16| n.clamp(1, LONGEST_SIDE);
    PtySize { rows: side(rows), cols: side(cols), pixel_width: 0, pixel_height: 0 }
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

/// Runs a program as the leader of a session whose terminal that is.
pub(super) fn start(program: &Program, tty: &Tty) -> io::Result<(u32, Terminal)> {
    let pair = native_pty_system().openpty(size(tty.rows, tty.cols)).map_err(failed)?;
    let mut command = if program.is_login_shell() {
        let mut command = CommandBuilder::new_default_prog();
        command.env("SHELL", &program.file);
        command
    } else {
        let mut command = CommandBuilder::new(&program.file);
        command.args(&program.arguments);
        command
    };
    command.env_remove(NOT_INHERITED);
    command.env("TERM", tty.term.as_deref().unwrap_or("xterm-256color"));
    for (name, value) in &program.env {
        command.env(name, value);
    }
    command.cwd(&program.folder);
    let reader = pair.master.try_clone_reader().map_err(failed)?;
    let writer = pair.master.take_writer().map_err(failed)?;
    let child = pair.slave.spawn_command(command).map_err(failed)?;
    let pid = child.process_id().ok_or_else(|| io::Error::other("the new process has no number"))?;
    let terminal = Terminal { master: pair.master, reader: Some(reader), writer: Some(writer) };
    Ok((pid, terminal))
}

impl Terminal {
    pub(super) fn resize(&self, rows: u16, cols: u16) {
        let _ = self.master.resize(size(rows, cols));
    }

    /// Starts the threads. Resolves when all that was written has been read: when nobody has the terminal any more.
    pub(super) fn serve(
        &mut self,
        mut input: mpsc::Receiver<Bytes>,
        output: Output,
    ) -> oneshot::Receiver<()> {
        let (all_read, told) = oneshot::channel();
        if let Some(mut writer) = self.writer.take() {
            let _ = thread("exec-write", move || {
                while let Some(bytes) = input.blocking_recv() {
                    if writer.write_all(&bytes).is_err() {
                        return;
                    }
                }
            });
        }
        if let Some(mut reader) = self.reader.take() {
            let _ = thread("exec-read", move || {
                let mut buffer = vec![0; CHUNK.min(LONGEST - 1)];
                loop {
                    match reader.read(&mut buffer) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Ok(count) if count > 0 => {
                            let mut frame = OpenFrame::new(channel::STDOUT, count);
                            frame.0.put_slice(&buffer[..count]);
                            if output.blocking_send(frame.close()).is_err() {
                                break;
                            }
                        }
                        Ok(_) | Err(_) => break,
                    }
                }
                let _ = all_read.send(());
            });
        }
        told
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run).map(drop)
}
