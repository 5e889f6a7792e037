//! A directory as a tar stream.
//!
//! Packed in a blocking task and handed over through a small in-memory pipe, so
//! memory stays flat whatever the directory holds. Links are stored as links,
//! never followed. What cannot be packed (see [`LeftOut`]) is listed in a last entry.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::response::Response;
use http::header;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tokio_util::io::{ReaderStream, SyncIoBridge};

use super::download::{disposition, internal};
use super::left_out::LeftOut;
use crate::error::Result;
use crate::home::Home;
use crate::path::{RelPath, is_temp, lossy};

const PIPE: usize = 256 * 1024;
const MAX_DEPTH: usize = 256;

pub(super) fn directory(home: &Home, path: &RelPath) -> Result<Response> {
    let dir = home.open_dir(path)?;
    let name = path.name().map_or_else(|| "home".to_owned(), lossy);
    let (reader, writer) = tokio::io::duplex(PIPE);
    let top = PathBuf::from(&name);
    let attachment = disposition(&format!("{name}.tar"));
    tokio::task::spawn_blocking(move || {
        let tar = tar::Builder::new(SyncIoBridge::new(writer));
        let mut packing = Packing { tar, left_out: LeftOut::default() };
        let packed = packing.directory(&dir, &top, 0).and_then(|()| packing.finish(&name));
        if let Err(error) = packed
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            tracing::warn!("packing a directory for download stopped: {error}");
        }
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "application/x-tar")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::CONTENT_DISPOSITION, attachment)
        .body(Body::from_stream(ReaderStream::new(reader)))
        .map_err(|error| internal(&error))
}

struct Packing<W: Write> {
    tar: tar::Builder<W>,
    left_out: LeftOut,
}

impl<W: Write> Packing<W> {
    fn directory(&mut self, dir: &OwnedFd, at: &Path, depth: usize) -> io::Result<()> {
        let mut header = header_for(&rustix::fs::fstat(dir)?, tar::EntryType::Directory, 0);
        self.tar.append_data(&mut header, at, io::empty())?;
        for item in Dir::read_from(dir)? {
            let item = item?;
            let name = item.file_name().to_bytes();
            if name == b"." || name == b".." || is_temp(name) {
                continue;
            }
            let name = OsStr::from_bytes(name);
            let inner = at.join(name);
            let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue, // vanished meanwhile
                Err(errno) => {
                    self.left_out.note(&inner.to_string_lossy(), errno);
                    continue;
                }
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth == MAX_DEPTH => {
                    self.left_out.note(&inner.to_string_lossy(), format!("more than {MAX_DEPTH} deep"));
                }
                FileType::Directory => match open(dir, name, OFlags::DIRECTORY) {
                    Ok(next) => self.directory(&next, &inner, depth + 1)?,
                    Err(errno) => self.left_out.note(&inner.to_string_lossy(), errno),
                },
                FileType::RegularFile => match open(dir, name, OFlags::NONBLOCK) {
                    Ok(file) => append_file(&mut self.tar, File::from(file), &inner)?,
                    Err(errno) => self.left_out.note(&inner.to_string_lossy(), errno),
                },
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
                    let target = std::ffi::OsString::from_vec(target.into_bytes());
                    let mut header = header_for(&stat, tar::EntryType::Symlink, 0);
                    self.tar.append_link(&mut header, &inner, target)?;
                }
                FileType::Fifo => {
                    let mut header = header_for(&stat, tar::EntryType::Fifo, 0);
                    self.tar.append_data(&mut header, &inner, io::empty())?;
                }
                kind => self.left_out.note_kind(&inner.to_string_lossy(), kind),
            }
        }
        Ok(())
    }

    fn finish(mut self, name: &str) -> io::Result<()> {
        if let Some(text) = self.left_out.text() {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(text.len() as u64);
            self.tar.append_data(&mut header, LeftOut::name(name), text.as_bytes())?;
        }
        self.tar.finish()
    }
}

fn open(dir: &OwnedFd, name: &OsStr, extra: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra, Mode::empty())
}

/// A file that shrinks or grows while being read must not break the archive:
/// exactly the announced number of bytes is written, padded with zeros.
fn append_file(tar: &mut tar::Builder<impl Write>, file: File, at: &Path) -> io::Result<()> {
    let stat = rustix::fs::fstat(&file)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let mut header = header_for(&stat, tar::EntryType::Regular, size);
    let exact = file.chain(io::repeat(0)).take(size);
    tar.append_data(&mut header, at, exact)
}

fn header_for(stat: &Stat, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header
}
