//! `codehub storage-job`: what runs inside a helper container. It knows one directory and its own
//! standard streams, no database, no bucket and no network.
//!
//! | job | as | stdin | stdout |
//! |---|---|---|---|
//! | `prepare UID GID BYTES` | root, may change owners | – | – |
//! | `give UID GID` | root, may read everything and change owners | – | – |
//! | `pack LEVEL` | root, may read everything, on a read-only mount | – | the archive |
//! | `pack-chunks LEVEL BYTES` | the same | what need not be stored again, in so many bytes | the archive, of format 3 |
//! | `unpack SIZE UNCOMPRESSED ENTRIES` | the IDE's user, no privileges | the archive | – |
//! | `unpack-tar UNCOMPRESSED ENTRIES` | the same | the tar stream that an archive of format 3 is read as | – |
//!
//! On stderr it says how it goes, one JSON object ([`JobMessage`]) per line; the last one is the result.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    path::Path,
    process::ExitCode,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    time::Duration,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use codehub_archive as archive;
use codehub_archive::{ArchiveError, Limits, PackOptions, PackSummary, Progress};

/// Where the volume is mounted in a helper.
pub(super) const VOLUME: &str = "/volume";

const REPORT_EVERY: Duration = Duration::from_millis(500);

/// What a job says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobMessage {
    /// How much there is to do, near enough.
    Total(u64),
    /// How much is done.
    Done(u64),
    Finished(Summary),
    Failed {
        kind: String,
        message: String,
    },
}

/// The numbers both ends compare.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) size: u64,
    pub(super) sha256: String,
    pub(super) uncompressed: u64,
    pub(super) entries: u64,
    pub(super) skipped: u64,
    /// Of what was packed; empty otherwise.
    #[serde(default)]
    pub(super) index_sha256: String,
    /// Of what was packed; 0 otherwise.
    #[serde(default)]
    pub(super) format: u32,
    #[serde(default)]
    pub(super) parts: Vec<String>,
}

impl From<PackSummary> for Summary {
    fn from(packed: PackSummary) -> Self {
        let PackSummary { size, sha256, uncompressed, entries, skipped, index_sha256, format, parts } =
            packed;
        Self { size, sha256, uncompressed, entries, skipped, index_sha256, format, parts }
    }
}

impl From<archive::UnpackSummary> for Summary {
    fn from(unpacked: archive::UnpackSummary) -> Self {
        let archive::UnpackSummary { size, sha256, uncompressed, entries } = unpacked;
        Self { size, sha256, uncompressed, entries, ..Self::default() }
    }
}

/// Runs a job with these arguments (without the subcommand's name).
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = arguments.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = match run(&words) {
        Ok(summary) => JobMessage::Finished(summary),
        Err(error) => match error.downcast::<ArchiveError>() {
            Ok(error) => JobMessage::Failed { kind: kind_of(&error).to_owned(), message: error.to_string() },
            Err(error) => JobMessage::Failed { kind: "io".to_owned(), message: format!("{error:#}") },
        },
    };
    say(&said);
    if matches!(said, JobMessage::Finished(_)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(words: &[&str]) -> anyhow::Result<Summary> {
    let volume = Path::new(VOLUME);
    match words {
        ["prepare", uid, gid, at_least] => {
            check_room(volume, at_least.parse()?)?;
            std::os::unix::fs::chown(volume, Some(uid.parse()?), Some(gid.parse()?))
                .context("the volume cannot be given to the workspace's user")?;
            let root = std::fs::File::open(volume).context("the volume cannot be opened")?;
            root.sync_all().context("the volume cannot be written to disk")?;
            Ok(Summary::default())
        }
        ["give", uid, gid] => {
            let owner = (uid.parse()?, gid.parse()?);
            let entries = archive::give_home(volume, owner, &CancellationToken::new())?;
            Ok(Summary { entries, ..Summary::default() })
        }
        ["pack", level] => {
            let options = PackOptions { level: level.parse()?, ..PackOptions::default() };
            packed(volume, |out, progress, cancel| archive::pack(volume, out, options, progress, cancel))
        }
        ["pack-chunks", level, bytes] => {
            let options = PackOptions { level: level.parse()?, ..PackOptions::default() };
            let (bytes, mut known) = (bytes.parse()?, Vec::new());
            io::stdin().take(bytes).read_to_end(&mut known).context("what is known cannot be read")?;
            anyhow::ensure!(known.len() as u64 == bytes, "what is known was cut off");
            packed(volume, |out, progress, cancel| {
                archive::pack_chunked(volume, &known, out, options, progress, cancel)
            })
        }
        ["unpack", size, uncompressed, entries] => {
            let limits = Limits { uncompressed: uncompressed.parse()?, entries: entries.parse()? };
            let progress = Progress::new();
            let _reporting = report(&progress);
            let stream = io::stdin().take(size.parse()?);
            Ok(archive::unpack(stream, volume, limits, &progress, &CancellationToken::new())?.into())
        }
        ["unpack-tar", uncompressed, entries] => {
            let limits = Limits { uncompressed: uncompressed.parse()?, entries: entries.parse()? };
            let progress = Progress::new();
            let _reporting = report(&progress);
            let stream = io::stdin().take(limits.uncompressed);
            Ok(archive::unpack_tar(stream, volume, limits, &progress, &CancellationToken::new())?.into())
        }
        _ => anyhow::bail!(
            "usage: storage-job prepare UID GID BYTES | give UID GID | pack LEVEL | pack-chunks LEVEL BYTES \
             | unpack SIZE UNCOMPRESSED ENTRIES | unpack-tar UNCOMPRESSED ENTRIES"
        ),
    }
}

/// Packs the volume to stdout.
fn packed(
    volume: &Path,
    pack: impl FnOnce(&mut io::StdoutLock<'_>, &Progress, &CancellationToken) -> Result<PackSummary, ArchiveError>,
) -> anyhow::Result<Summary> {
    let cancel = CancellationToken::new();
    say(&JobMessage::Total(archive::estimate_home(volume, &cancel)?));
    let progress = Progress::new();
    let _reporting = report(&progress);
    let mut out = io::stdout().lock();
    let summary = pack(&mut out, &progress, &cancel)?;
    out.flush().context("the archive cannot be handed on")?;
    Ok(summary.into())
}

/// Refuses what the volume's disk plainly cannot hold.
fn check_room(volume: &Path, at_least: u64) -> anyhow::Result<()> {
    let disk = rustix::fs::statvfs(volume).context("the volume's disk cannot be looked at")?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < at_least {
        let message = format!(
            "the engine's disk has {} MiB free, and this home needs {} MiB",
            free >> 20,
            at_least.div_ceil(1 << 20)
        );
        return Err(ArchiveError::NoSpace { message }.into());
    }
    Ok(())
}

/// Says every now and then how far it is, until what it returns is dropped.
fn report(progress: &Progress) -> Sender<()> {
    let progress = progress.clone();
    let (end, ended) = channel();
    std::thread::spawn(move || {
        let mut last = 0;
        while ended.recv_timeout(REPORT_EVERY) == Err(RecvTimeoutError::Timeout) {
            let done = progress.done();
            if done != last {
                say(&JobMessage::Done(done));
                last = done;
            }
        }
    });
    end
}

fn say(said: &JobMessage) {
    let line = serde_json::to_string(said).unwrap_or_default();
    // Nobody listening any more is noticed by the data, not here.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn kind_of(error: &ArchiveError) -> &'static str {
    match error {
        ArchiveError::Corrupted { .. } => "corrupted",
        ArchiveError::Refused { .. } => "refused",
        ArchiveError::NoSpace { .. } => "no_space",
        ArchiveError::Changed { .. } => "changed",
        // A stream that broke: the other end knows why.
        ArchiveError::Unreachable { .. } | ArchiveError::Cancelled | ArchiveError::NotFound { .. } => {
            "broken"
        }
        ArchiveError::Unsupported { .. } | ArchiveError::NotListed | ArchiveError::Io { .. } => "io",
    }
}

/// The job's failure as the archive engine would have reported it.
pub(super) fn failure(kind: &str, message: String) -> ArchiveError {
    match kind {
        "corrupted" => ArchiveError::Corrupted { message },
        "refused" => ArchiveError::Refused { message },
        "no_space" => ArchiveError::NoSpace { message },
        "changed" => ArchiveError::Changed { message },
        "broken" => ArchiveError::Unreachable { message },
        _ => ArchiveError::Io {
            context: "the storage job failed".to_owned(),
            source: io::Error::other(message),
        },
    }
}
