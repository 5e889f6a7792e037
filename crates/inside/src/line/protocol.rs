//! What is said on the line, besides bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many programs a workspace runs at once by exec.
pub const EXECS_AT_ONCE: usize = 64;
/// How many connections to its ports a workspace has at once.
pub const CONNECTIONS_AT_ONCE: usize = 1024;

/// What to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecStart {
    /// The program and its arguments; none: the login shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// With a terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<Tty>,
    /// Added to the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where; the home unless said, and relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tty {
    /// Columns.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
    /// What the terminal is called; `xterm-256color` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
}

/// A terminal's new size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// Columns.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// A signal for what runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendSignal {
    /// Its name, without `SIG`.
    pub signal: String,
}

/// The last message of an exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExecEnd {
    /// It ran.
    Exit(Exit),
    /// It did not, or nobody knows how it ended.
    Error(Problem),
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Exit {
    /// By itself.
    Code(u8),
    /// By this signal, without `SIG`.
    Signal(String),
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

impl Problem {
    /// A code for programs, a sentence for people.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// What a request that was refused is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) error: Problem,
}

/// A port that something listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListeningPort {
    /// The port.
    pub port: u16,
    /// What the program calls itself; empty where that cannot be told.
    pub process: String,
    /// It listens on loopback addresses only.
    pub loopback_only: bool,
}

/// What a workspace uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Bytes of the home on its disk.
    pub home_bytes: u64,
    /// Whether that is all of it: a home of very many files is not counted to the end.
    pub home_complete: bool,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Processes.
    pub processes: u32,
}

/// Signals by name, without `SIG`.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// The number of a signal of this name.
pub fn signal_number(name: &str) -> Option<i32> {
    SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name of a signal, or its number.
pub(crate) fn signal_name(number: i32) -> String {
    let known = SIGNALS.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

/// Whether a name may be set in the environment of a program: CodeHub's own are CodeHub's.
pub fn may_set(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic());
    first && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) && !name.starts_with("CODEHUB_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_is_as_documented() {
        let text = |end: ExecEnd| serde_json::to_string(&end).unwrap();
        assert_eq!(text(ExecEnd::Exit(Exit::Code(3))), r#"{"exit":{"code":3}}"#);
        assert_eq!(text(ExecEnd::Exit(Exit::Signal("TERM".into()))), r#"{"exit":{"signal":"TERM"}}"#);
        assert_eq!(
            text(ExecEnd::Error(Problem::new("NOT_FOUND", "x"))),
            r#"{"error":{"code":"NOT_FOUND","message":"x"}}"#
        );
        for wrong in
            [r#"{"exit":{"code":300}}"#, r#"{"exit":{}}"#, r#"{"exit":{"code":0},"x":1}"#, "[]", "{}"]
        {
            assert!(serde_json::from_str::<ExecEnd>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn codehubs_own_environment_cannot_be_set() {
        assert!(may_set("PATH") && may_set("_x1"));
        for wrong in ["CODEHUB_TOKEN", "CODEHUB_", "", "1x", "a=b", "a b", "ä"] {
            assert!(!may_set(wrong), "{wrong}");
        }
    }

    #[test]
    fn signals_have_names_both_ways() {
        assert_eq!(signal_number("INT"), Some(2));
        assert_eq!(signal_number("SIGINT"), None);
        assert_eq!(signal_name(9), "KILL");
        assert_eq!(signal_name(40), "40");
    }
}
