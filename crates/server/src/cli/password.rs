//! Passwords come from the terminal without an echo, or from standard input; never from the command
//! line, which everybody on the machine can read.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use codehub_domain::fields as rules;

/// More than any password, so that a wrong pipe does not fill the memory.
const LONGEST: u64 = 8 * 1024;

/// A new password: typed twice on a terminal, one line otherwise.
pub(super) fn read_new() -> anyhow::Result<String> {
    let password = if std::io::stdin().is_terminal() {
        let first = prompt("New password: ")?;
        if prompt("Again: ")? != first {
            bail!("the two passwords are not the same");
        }
        first
    } else {
        read_line()?
    };
    rules::password(&password).map_err(anyhow::Error::msg)?;
    Ok(password)
}

fn prompt(text: &str) -> anyhow::Result<String> {
    eprint!("{text}");
    std::io::stderr().flush()?;
    let line = {
        let _quiet = Quiet::begin()?;
        read_line()
    };
    eprintln!();
    let line = line?;
    // Without signals, an interrupt is a character.
    if line.contains(['\u{3}', '\u{1a}', '\u{1c}']) {
        bail!("interrupted");
    }
    Ok(line)
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(LONGEST).read_line(&mut line);
    if read.context("the password cannot be read from standard input")? == 0 {
        bail!("there is no password on standard input");
    }
    Ok(line
        .strip_suffix('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .unwrap_or(&line)
        .to_owned())
}

/// No echo while it lives. Signals are off too: one that ended us here would leave the terminal mute.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> anyhow::Result<Self> {
        let before =
            tcgetattr(std::io::stdin()).context("the terminal cannot be asked to hide the password")?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)
            .context("the terminal cannot be asked to hide the password")?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // Nothing could be done about a failure here.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}
