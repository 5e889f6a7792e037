//! What can go wrong with an archive, in the kinds a caller decides by.
//!
//! The split matters more than the words: `NotFound` and `Corrupted` are
//! statements about the archive itself and end an operation, everything else
//! says "this attempt failed" and may be tried again.

use std::error::Error as StdError;
use std::io;

use rustix::io::Errno;

use super::said::said;

pub(super) type Result<T, E = ArchiveError> = std::result::Result<T, E>;

/// Why something with an archive did not work. An error never means "there is no archive", except `NotFound`.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store answered, and the archive (or its commit mark) is not there.
    #[error("archive {key} does not exist")]
    NotFound { key: String },
    /// What is stored is not what was archived: checksum, truncation, bad
    /// zstd or tar, or numbers that disagree with the meta object.
    #[error("archive is corrupted: {message}")]
    Corrupted { message: String },
    /// An entry that would leave the target, name a device, replace another
    /// entry or exceed the limits. Never written by us, so a kind of
    /// corruption; see [`ArchiveError::is_corrupted`].
    #[error("archive entry refused: {message}")]
    Refused { message: String },
    /// Written by a later version of CodeHub; nothing is wrong with it.
    #[error("archive format {format} is not understood by this version")]
    Unsupported { format: u32 },
    /// Written before archives had a list of their files.
    #[error("the archive has no list of its files")]
    NotListed,
    /// The store could not be asked, so nothing is known.
    #[error("archive store: {message}")]
    Unreachable { message: String },
    /// A disk or quota is full; the message says whose.
    #[error("no space left on device: {message}")]
    NoSpace { message: String },
    /// The home was not at rest while it was being read.
    #[error("home changed while it was being archived: {message}")]
    Changed { message: String },
    /// Trouble with the home directory or the restore target.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, to which path.
        context: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The caller stopped it; nothing was committed.
    #[error("cancelled")]
    Cancelled,
}

impl ArchiveError {
    /// True when trying again cannot help: the stored bytes are wrong.
    #[must_use]
    pub fn is_corrupted(&self) -> bool {
        matches!(self, Self::Corrupted { .. } | Self::Refused { .. })
    }

    /// Whether this is a mistake of our own; see [`panicked`].
    pub(super) fn is_panic(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.to_string() == PANICKED)
    }

    pub(super) fn corrupted(message: impl Into<String>) -> Self {
        Self::Corrupted { message: message.into() }
    }

    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::Refused { message: message.into() }
    }

    pub(super) fn changed(path: &[u8], what: &str) -> Self {
        Self::Changed { message: format!("{}: {what}", show(path)) }
    }

    /// An error of the local file system, sorted into full disk and the rest.
    pub(super) fn local(context: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (context, source) = (context.into(), source.into());
        if is_no_space(&source) { Self::NoSpace { message: context } } else { Self::Io { context, source } }
    }

    /// An error while reading the home. Something that was listed and is gone
    /// means that somebody else is at work in there.
    pub(super) fn reading(path: &[u8], source: impl Into<io::Error>) -> Self {
        let source = source.into();
        if source.kind() == io::ErrorKind::NotFound {
            return Self::changed(path, "vanished");
        }
        Self::local(format!("cannot read {}", show(path)), source)
    }

    /// An error while creating something in the restore target. What the
    /// kernel refuses because of the *name* is the archive's fault.
    pub(super) fn creating(path: &[u8], source: Errno) -> Self {
        let path = show(path);
        match source {
            Errno::EXIST => Self::refused(format!("{path}: appears twice")),
            Errno::LOOP | Errno::NOTDIR | Errno::XDEV => {
                Self::refused(format!("{path}: leads through something not a directory"))
            }
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
                Self::refused(format!("{path}: not a possible name"))
            }
            Errno::FBIG => Self::refused(format!("{path}: larger than any file can be")),
            _ => Self::local(format!("cannot restore {path}"), source),
        }
    }

    /// An error while setting metadata: whatever it is, the name was fine.
    pub(super) fn dressing(path: &[u8], source: Errno) -> Self {
        Self::local(format!("cannot set attributes of {}", show(path)), source)
    }

    /// An error of a store that is a directory.
    pub(super) fn storing(object: &str, error: &io::Error) -> Self {
        match is_no_space(error) {
            true => Self::NoSpace { message: format!("cannot write {object} in the archive store") },
            false => Self::Unreachable { message: format!("cannot write {object}: {error}") },
        }
    }

    /// An error the object store reported.
    pub(super) fn store(action: &str, key: &str, error: &object_store::Error) -> Self {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(current) = cause {
            if current.downcast_ref().is_some_and(is_no_space) {
                return Self::NoSpace { message: format!("cannot {action} {key} in the archive store") };
            }
            cause = current.source();
        }
        match error {
            object_store::Error::NotFound { .. } => Self::NotFound { key: key.into() },
            _ => Self::Unreachable { message: format!("cannot {action} {key}: {}", said(error)) },
        }
    }
}

/// Runs `work`; a panic in it is an error like any other, so that whoever waits
/// for its outcome on another thread gets one.
pub(super) fn caught<T>(context: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that `work` may have left half-changed is used after an error.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    outcome.unwrap_or_else(|_| Err(panicked(context)))
}

/// Of a thread that ended by a panic; where and why is in the log.
pub(super) fn panicked(context: &str) -> ArchiveError {
    ArchiveError::local(context, io::Error::other(PANICKED))
}

const PANICKED: &str = "a thread panicked";

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A path for people: names are bytes, messages are text.
pub(super) fn show(path: &[u8]) -> String {
    if path.is_empty() {
        return "the home directory".into();
    }
    format!("\"{}\"", path.escape_ascii())
}
