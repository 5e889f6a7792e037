//! A directory as a zip stream, for machines without tar.
//!
//! Written front to back as it is packed, so memory grows only with the number of entries, which is bounded. What
//! goes wrong on the way breaks the download off, so that half an archive is not taken for one. What cannot be packed
//! (see [`LeftOut`]) is listed in a last entry.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use tokio::sync::mpsc;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use super::download::{disposition, internal};
use super::left_out::LeftOut;
use crate::error::Result;
use crate::home::Home;
use crate::path::{RelPath, is_temp, lossy};

const CHUNK: usize = 64 * 1024;
const MAX_DEPTH: usize = 256;
/// Each entry's name stays in memory until the end.
const MAX_ENTRIES: usize = 200_000;

pub(super) fn directory(home: &Home, path: &RelPath) -> Result<Response> {
    let dir = home.open_dir(path)?;
    let name = path.name().map_or_else(|| "home".to_owned(), lossy);
    let (sender, receiver) = mpsc::channel(4);
    let top = name.clone();
    tokio::task::spawn_blocking(move || {
        let pipe = Pipe { sender: sender.clone(), chunk: Vec::with_capacity(CHUNK) };
        let zip = ZipWriter::new_stream(pipe);
        let mut packing = Packing { zip, entries: 0, left_out: LeftOut::default() };
        let packed = packing.directory(&dir, &top, 0).and_then(|()| packing.finish(&top));
        if let Err(error) = packed
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            tracing::warn!("packing a directory for download stopped: {error}");
            let _ = sender.blocking_send(Err(error));
        }
    });
    let body = futures::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<io::Result<Bytes>>| {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "application/zip")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::CONTENT_DISPOSITION, disposition(&format!("{name}.zip")))
        .body(Body::from_stream(body))
        .map_err(|error| internal(&error))
}

struct Packing {
    zip: ZipWriter<StreamWriter<Pipe>>,
    entries: usize,
    left_out: LeftOut,
}

impl Packing {
    fn directory(&mut self, dir: &OwnedFd, at: &str, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!("folders are more than {MAX_DEPTH} deep")));
        }
        self.count()?;
        self.zip.add_directory(at, options(0o755)).map_err(io::Error::other)?;
        for item in Dir::read_from(dir)? {
            let item = item?;
            let bytes = item.file_name().to_bytes();
            if bytes == b"." || bytes == b".." || is_temp(bytes) {
                continue;
            }
            let name = OsStr::from_bytes(bytes);
            let inner = format!("{at}/{}", lossy(name));
            let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue, // gone meanwhile
                Err(errno) => {
                    self.left_out.note(&inner, errno);
                    continue;
                }
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => match open(dir, name, OFlags::DIRECTORY) {
                    Ok(next) => self.directory(&next, &inner, depth + 1)?,
                    Err(errno) => self.left_out.note(&inner, errno),
                },
                FileType::RegularFile => match open(dir, name, OFlags::NONBLOCK) {
                    Ok(file) => {
                        self.count()?;
                        let large = stat.st_size >= i64::from(u32::MAX);
                        let options = options(stat.st_mode & 0o777).large_file(large);
                        self.zip.start_file(&*inner, options).map_err(io::Error::other)?;
                        io::copy(&mut File::from(file), &mut self.zip)?;
                    }
                    Err(errno) => self.left_out.note(&inner, errno),
                },
                FileType::Symlink => {
                    self.count()?;
                    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
                    let target = String::from_utf8_lossy(target.as_bytes()).into_owned();
                    self.zip.add_symlink(&*inner, &*target, options(0o777)).map_err(io::Error::other)?;
                }
                kind => self.left_out.note_kind(&inner, kind),
            }
        }
        Ok(())
    }

    fn finish(mut self, name: &str) -> io::Result<()> {
        if let Some(text) = self.left_out.text() {
            self.zip.start_file(LeftOut::name(name), options(0o644)).map_err(io::Error::other)?;
            self.zip.write_all(text.as_bytes())?;
        }
        self.zip.finish().map_err(io::Error::other)?.into_inner().flush()
    }

    fn count(&mut self) -> io::Result<()> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(io::Error::other(format!("more than {MAX_ENTRIES} entries; download it as tar")));
        }
        Ok(())
    }
}

fn options(mode: u32) -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).unix_permissions(mode)
}

fn open(dir: &OwnedFd, name: &OsStr, extra: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra, Mode::empty())
}

/// Hands over what is written in chunks, and waits for whoever reads.
struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        self.sender.blocking_send(Ok(chunk.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
