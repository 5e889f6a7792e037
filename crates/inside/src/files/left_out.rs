//! What of a directory could not be packed, for whoever unpacks it: nothing is left out without a word.

use std::fmt::{Display, Write as _};

use rustix::fs::FileType;

/// A list longer than this ends with a word that there is more.
const LONGEST: usize = 1 << 20;

/// A line for each entry, with why.
#[derive(Default)]
pub(super) struct LeftOut {
    lines: String,
    more: bool,
}

impl LeftOut {
    /// Notes an entry. Names may have line ends in them.
    pub(super) fn note(&mut self, path: &str, why: impl Display) {
        self.more |= self.lines.len() > LONGEST;
        if !self.more {
            let _ = writeln!(self.lines, "{}: {why}", path.escape_debug());
        }
    }

    /// Notes something that has no content.
    pub(super) fn note_kind(&mut self, path: &str, kind: FileType) {
        let what = match kind {
            FileType::Fifo => "a pipe",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            _ => "not a file",
        };
        self.note(path, what);
    }

    /// What its own entry is called, beside that of the directory.
    pub(super) fn name(directory: &str) -> String {
        format!("{directory}.left-out.txt")
    }

    /// Its text, if anything was left out.
    pub(super) fn text(self) -> Option<String> {
        let end = if self.more { "and more\n" } else { "" };
        (!self.lines.is_empty()).then(|| format!("Not in this archive:\n{}{end}", self.lines))
    }
}
