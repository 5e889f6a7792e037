//! `codehub cp`: files and directories, in either direction.

use std::{
    fs,
    io::{self, Read, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{SinkExt as _, Stream, StreamExt as _};
use http::{Method, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    api::{Api, Body, component},
    exec::{self, Ended, Heard, Run},
    failure::{Failure, Kind, Result},
    output,
    workspace::{self, Workspace},
};

const PIECE: usize = 64 * 1024;
/// Inside: into a directory that is there, or as one that is new. `-o`: whoever unpacks owns what is unpacked.
const UNPACK: &str =
    r#"if [ -d "$1" ]; then d="$1/$2"; else d="$1"; fi; mkdir -p -- "$d" && exec tar -x -o -f - -C "$d""#;

/// `codehub cp`.
#[derive(Debug, clap::Args)]
pub struct Copy {
    /// Copy directories with all that is in them
    #[arg(long, short)]
    recursive: bool,
    /// What to copy: a file here, WORKSPACE:PATH, or - for standard input
    #[arg(value_name = "FROM")]
    from: String,
    /// Where to: a file or directory here, WORKSPACE:PATH, or - for standard output
    #[arg(value_name = "TO")]
    to: String,
}

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Standard,
    Here(&'a Path),
    /// A workspace, and a path relative to its home.
    There(&'a str, &'a str),
}

/// As scp reads it: a colon before any slash names a workspace.
fn place(text: &str) -> Place<'_> {
    match text.split_once(':') {
        _ if text == "-" => Place::Standard,
        Some((workspace, path)) if !workspace.is_empty() && !workspace.contains('/') => {
            let path = path.strip_prefix("~/").unwrap_or(path);
            Place::There(workspace, if path == "~" { "" } else { path })
        }
        _ => Place::Here(Path::new(text)),
    }
}

pub(crate) async fn copy(api: &Api, options: Copy) -> Result<()> {
    let Copy { recursive, from, to } = options;
    match (place(&from), place(&to)) {
        (Place::There(name, path), to @ (Place::Here(_) | Place::Standard)) => {
            let workspace = workspace::find(api, name).await?;
            fetch(api, &workspace, path, &to, recursive).await
        }
        (from @ (Place::Here(_) | Place::Standard), Place::There(name, path)) => {
            let workspace = workspace::find(api, name).await?;
            send(api, &workspace, &from, path, recursive).await
        }
        (Place::There(..), Place::There(..)) => Err(Failure::new(Kind::Usage, "both are in workspaces")
            .or_next("copy it here first: `codehub cp A:x - | codehub cp - B:x`")),
        _ => Err(Failure::new(Kind::Usage, "neither is in a workspace")
            .or_next("write WORKSPACE:PATH for one of them")),
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {bytes} {binary_bytes_per_sec}") {
        bar.set_style(style);
    }
    bar
}

/// The last part of a path, for something of that name elsewhere.
fn name_of(path: &str) -> Option<&str> {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."))
}

async fn fetch(api: &Api, workspace: &Workspace, path: &str, to: &Place<'_>, recursive: bool) -> Result<()> {
    let query = workspace.path(&format!("/files?path={}", component(path.as_bytes())));
    let answer = api.stream(&query).await.map_err(|failure| asleep(failure, workspace))?;
    let is_directory = answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/x-tar");
    if is_directory && !recursive {
        let failure = Failure::new(Kind::Failed, format!("{}:{path} is a directory", workspace.slug()));
        return Err(failure.or_next("copy it with -r"));
    }
    let progress = bar();
    let mut pieces = Pieces { api, body: answer.into_body(), progress: progress.clone() };
    let here = match to {
        Place::Standard | Place::There(..) => {
            while let Some(bytes) = pieces.next().await? {
                output::raw(&bytes)?;
            }
            return Ok(());
        }
        Place::Here(here) => *here,
    };
    let name = name_of(path).unwrap_or(if is_directory { workspace.slug() } else { "file" });
    let target = if here.is_dir() { here.join(name) } else { here.to_owned() };
    let done =
        if is_directory { unpack(&mut pieces, target).await } else { save(&mut pieces, &target).await };
    progress.finish_and_clear();
    done
}

fn asleep(failure: Failure, workspace: &Workspace) -> Failure {
    match failure.code.as_deref() {
        Some("WORKSPACE_STANDBY") => Failure {
            next: Some(format!("start it with `codehub start {} --wait`", workspace.slug())),
            ..failure
        },
        _ => failure,
    }
}

struct Pieces<'a> {
    api: &'a Api,
    body: Incoming,
    progress: ProgressBar,
}

impl Pieces<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.api.broke_off(&error)),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.progress.inc(bytes.len() as u64);
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

/// The whole file, or none of it.
async fn save(pieces: &mut Pieces<'_>, target: &Path) -> Result<()> {
    let failed = |error: io::Error| Failure::local(target.display(), error);
    // What is no plain file is written to as it is.
    if fs::metadata(target).is_ok_and(|there| !there.is_file()) {
        let mut file = fs::OpenOptions::new().write(true).open(target).map_err(failed)?;
        while let Some(bytes) = pieces.next().await? {
            file.write_all(&bytes).map_err(failed)?;
        }
        return Ok(());
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = target.with_file_name(name);
    let written = async {
        let mut file = fs::File::create(&part).map_err(failed)?;
        while let Some(bytes) = pieces.next().await? {
            file.write_all(&bytes).map_err(failed)?;
        }
        fs::rename(&part, target).map_err(failed)
    };
    let written = written.await;
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Bytes that come over a channel, for who reads them where that may block.
struct FromChannel {
    receiver: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl Read for FromChannel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                None => return Ok(0),
                Some(bytes) => self.rest = bytes,
            }
        }
        let length = self.rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.rest.split_to(length));
        Ok(length)
    }
}

/// Unpacks what the workspace sends, never outside of the target: whatever runs there wrote it.
async fn unpack(pieces: &mut Pieces<'_>, target: PathBuf) -> Result<()> {
    let (sender, receiver) = mpsc::channel(4);
    let shown = target.display().to_string();
    let unpacking = tokio::task::spawn_blocking(move || {
        fs::create_dir_all(&target)?;
        let mut archive = tar::Archive::new(FromChannel { receiver, rest: Bytes::new() });
        archive.set_mask(own_mask());
        let mut left_out = false;
        for entry in archive.entries()? {
            let mut entry = entry?;
            // The directory's own name comes first: it is called something else here.
            let path = entry.path()?.into_owned();
            let below: PathBuf = path.components().skip(1).collect();
            let below = match below.as_os_str().is_empty() {
                true if entry.header().entry_type().is_dir() => continue,
                // Beside it stands the list of what could not be packed.
                true => {
                    left_out = true;
                    output::note(format_args!(
                        "some of it could not be read: see {}",
                        output::clean(&target.join(&path).display().to_string())
                    ));
                    path.clone()
                }
                false => below,
            };
            if !matches!(below.components().next(), Some(std::path::Component::Normal(_))) {
                return Err(io::Error::other(format!("{} is not below it", path.display())));
            }
            left_out |= !unpack_entry(&mut entry, &target, &below)?;
        }
        Ok::<_, io::Error>(left_out)
    });
    let mut broke = None;
    loop {
        match pieces.next().await {
            // Whoever unpacks has failed, and says why.
            Ok(Some(bytes)) => {
                if sender.send(bytes).await.is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(failure) => {
                broke = Some(failure);
                break;
            }
        }
    }
    drop(sender);
    let unpacked = unpacking.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    match (broke, unpacked) {
        (Some(failure), _) => Err(failure),
        (None, Ok(false)) => Ok(()),
        (None, Ok(true)) => Err(Failure::new(Kind::Failed, format!("{shown}: not all of it was copied"))),
        (None, Err(error)) => Err(Failure::local(shown, error)),
    }
}

/// One entry, at another path than it says; whole, or not at all. `false`: it is something that is left out. No part of that
/// path may be a link: one that was unpacked before it might lead anywhere.
fn unpack_entry<R: Read>(entry: &mut tar::Entry<'_, R>, target: &Path, below: &Path) -> io::Result<bool> {
    let mut at = target.to_owned();
    let parts: Vec<_> = below.components().collect();
    for part in &parts[..parts.len() - 1] {
        let std::path::Component::Normal(part) = part else {
            return Err(io::Error::other(format!("{} is no plain path", below.display())));
        };
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(there) if there.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("{} is not a directory", at.display()))),
            Err(_) => fs::create_dir(&at)?,
        }
    }
    let Some(std::path::Component::Normal(name)) = parts.last() else {
        return Err(io::Error::other(format!("{} is no plain path", below.display())));
    };
    at.push(name);
    let kind = entry.header().entry_type();
    let there = fs::symlink_metadata(&at);
    if kind.is_dir() {
        return match there {
            Ok(there) if there.is_dir() => Ok(true),
            Ok(_) => Err(io::Error::other(format!("{} is not a directory", at.display()))),
            Err(_) => {
                let mode = entry.header().mode()? & 0o777 | 0o700;
                fs::DirBuilder::new().mode(mode).create(&at).map(|()| true)
            }
        };
    }
    if kind.is_symlink() {
        let to = entry.link_name()?.ok_or_else(|| io::Error::other("a link without a target"))?;
        remove(&at)?;
        return std::os::unix::fs::symlink(to, &at).map(|()| true);
    }
    if kind.is_hard_link() {
        let to = entry.link_name()?.ok_or_else(|| io::Error::other("a link without a target"))?;
        let to: PathBuf = to.components().skip(1).collect();
        if !to.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            return Err(io::Error::other(format!("{} is not below it", to.display())));
        }
        let from = fs::canonicalize(target.join(&to)).and_then(|found| inside(found, target))?;
        remove(&at)?;
        return fs::copy(from, &at).map(|_| true);
    }
    if !kind.is_file() && !kind.is_contiguous() && !kind.is_gnu_sparse() {
        let name = output::clean(&below.display().to_string());
        output::note(format_args!("left out {name}: neither a file nor a directory"));
        return Ok(false);
    }
    // A name that no entry has: what is there stays until this is whole.
    let part = tempfile::Builder::new().prefix(".codehub-").tempdir_in(at.parent().unwrap_or(target))?;
    let whole = part.path().join("part");
    entry.unpack(&whole)?;
    fs::rename(whole, &at).map(|()| true)
}

/// What of a file's mode this person gives to nobody.
fn own_mask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

fn remove(at: &Path) -> io::Result<()> {
    match fs::remove_file(at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn inside(found: PathBuf, target: &Path) -> io::Result<PathBuf> {
    if found.starts_with(fs::canonicalize(target)?) {
        Ok(found)
    } else {
        Err(io::Error::other(format!("{} is not below it", found.display())))
    }
}

async fn send(api: &Api, workspace: &Workspace, from: &Place<'_>, path: &str, recursive: bool) -> Result<()> {
    let Place::Here(here) = from else {
        if name_of(path).is_none() || path.ends_with('/') {
            return Err(Failure::new(Kind::Usage, "standard input has no name")
                .or_next("name the file: WORKSPACE:PATH"));
        }
        return put(api, workspace, path, upload(io::stdin(), &bar())).await;
    };
    let failed = |error: io::Error| Failure::local(here.display(), error);
    let there = fs::metadata(here).map_err(failed)?;
    let name = here.canonicalize().map_err(failed)?;
    let name = name.file_name().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
    let name = name.unwrap_or_else(|| "root".into());
    if there.is_dir() {
        if !recursive {
            let failure = Failure::new(Kind::Failed, format!("{} is a directory", here.display()));
            return Err(failure.or_next("copy it with -r"));
        }
        return send_directory(api, workspace, here, path, &name).await;
    }
    let name = here.file_name().map_or(name, |name| name.to_string_lossy().into_owned());
    let below = || format!("{}/{name}", path.trim_end_matches('/')).trim_start_matches('/').to_owned();
    let executable = there.permissions().mode() & 0o111 != 0;
    let open = || fs::File::open(here).map_err(failed);
    let mut target = if name_of(path).is_none() || path.ends_with('/') { below() } else { path.to_owned() };
    let progress = bar();
    let mut sent = put(api, workspace, &target, upload(open()?, &progress)).await;
    // As `cp` has it: into a directory that is there.
    if target == path && sent.as_ref().is_err_and(|failure| failure.code.as_deref() == Some("INVALID_STATE"))
    {
        let again = put(api, workspace, &below(), upload(open()?, &progress)).await;
        if again.is_ok() {
            (target, sent) = (below(), again);
        }
    }
    progress.finish_and_clear();
    sent?;
    if executable {
        let body = json!({ "command": ["chmod", "+x", "--", target] });
        let _ = api.ask(Method::POST, &workspace.path("/exec"), Some(body), std::time::Duration::ZERO).await;
    }
    Ok(())
}

async fn put(api: &Api, workspace: &Workspace, path: &str, body: Body) -> Result<()> {
    let query = workspace.path(&format!("/files?path={}", component(path.as_bytes())));
    let sent = api.open(Method::PUT, &query, body, "application/octet-stream").await;
    sent.map(|_| ()).map_err(|failure| match failure.kind {
        Kind::NotFound => failure.or_next(format!("is its directory there? {}:{path}", workspace.slug())),
        _ => asleep(failure, workspace),
    })
}

/// What is read where that may block, as a stream.
struct Upload(mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Upload {
    type Item = io::Result<Frame<Bytes>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

fn upload(mut from: impl Read + Send + 'static, progress: &ProgressBar) -> Body {
    let (sender, receiver) = mpsc::channel(4);
    let progress = progress.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => Ok(Bytes::copy_from_slice(&buffer[..length])),
                Err(error) => Err(error),
            };
            progress.inc(piece.as_ref().map_or(0, Bytes::len) as u64);
            let is_last = piece.is_err();
            if sender.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    StreamBody::new(Upload(receiver)).boxed_unsync()
}

/// Writes into a channel, for who writes where that may block.
struct ToChannel(mpsc::Sender<Bytes>);

impl io::Write for ToChannel {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(&buffer[..buffer.len().min(exec::PIECE)]);
        let length = piece.len();
        self.0.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Packed here, unpacked there by its own `tar`: a directory of the home is as likely to have 10,000 files as one.
async fn send_directory(api: &Api, workspace: &Workspace, here: &Path, path: &str, name: &str) -> Result<()> {
    let target = if path.is_empty() { "." } else { path };
    let target = if target.ends_with('/') { format!("{target}{name}") } else { target.to_owned() };
    let run = Run {
        command: ["sh", "-c", UNPACK, "sh", &target, name].map(str::to_owned).to_vec(),
        cwd: None,
        env: std::collections::BTreeMap::new(),
        tty: false,
        wake: false,
    };
    let socket = exec::open(api, &workspace.path("/exec"), &run).await?;
    let (mut sink, mut source) = socket.split();
    let (sender, mut receiver) = mpsc::channel(4);
    let (from, shown) = (here.to_owned(), here.display().to_string());
    let packing = tokio::task::spawn_blocking(move || {
        let mut builder = tar::Builder::new(io::BufWriter::with_capacity(exec::PIECE, ToChannel(sender)));
        builder.follow_symlinks(false);
        builder.append_dir_all(".", &from)?;
        builder.into_inner()?.flush()
    });
    let progress = bar();
    let speaking = async {
        while let Some(bytes) = receiver.recv().await {
            progress.inc(bytes.len() as u64);
            if sink.send(exec::input(&bytes)).await.is_err() {
                return;
            }
        }
        let _ = sink.send(exec::end_of_input()).await;
        std::future::pending::<()>().await;
    };
    let hearing = async {
        let mut said = Vec::new();
        loop {
            match exec::hear(&mut source).await? {
                Heard::Stdout(_) => {}
                Heard::Stderr(bytes) => said.extend_from_slice(&bytes[..bytes.len().min(4096)]),
                Heard::End(ended) => return Ok::<_, Failure>((ended, said)),
            }
        }
    };
    let ended = tokio::select! {
        ended = hearing => ended,
        () = speaking => Err(Failure::new(Kind::Unreachable, "the connection broke")),
    };
    progress.finish_and_clear();
    drop(receiver);
    let packed = packing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let said = |said: Vec<u8>| output::clean(String::from_utf8_lossy(&said).trim());
    match ended? {
        (Ended::Code(0), _) => packed.map_err(|error| Failure::local(shown, error)),
        (Ended::Code(127), text) => {
            Err(Failure::new(Kind::Failed, format!("the workspace has no tar: {}", said(text)))
                .or_next("copy the files one by one, or install tar in it"))
        }
        (Ended::Error(code, message), _) => {
            let kind = if code == "WORKSPACE_STANDBY" { Kind::State } else { Kind::Failed };
            Err(asleep(
                Failure { code: Some(code), ..Failure::new(kind, output::clean(&message)) },
                workspace,
            ))
        }
        (Ended::Code(_) | Ended::Signal(_), text) => Err(Failure::new(
            Kind::Failed,
            format!("it could not be unpacked in {}: {}", workspace.slug(), said(text)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_scp_reads_them() {
        for (text, expected) in [
            ("-", Place::Standard),
            ("a", Place::Here(Path::new("a"))),
            ("./a:b", Place::Here(Path::new("./a:b"))),
            ("/x/a:b", Place::Here(Path::new("/x/a:b"))),
            (":b", Place::Here(Path::new(":b"))),
            ("web:src/a b", Place::There("web", "src/a b")),
            ("web:", Place::There("web", "")),
            ("web:~/x", Place::There("web", "x")),
            ("web:~", Place::There("web", "")),
            ("web:a:b", Place::There("web", "a:b")),
        ] {
            assert_eq!(place(text), expected, "{text}");
        }
    }

    /// What a hostile workspace may send.
    #[test]
    fn nothing_is_unpacked_outside_of_the_target() {
        let directory = tempfile::tempdir().unwrap();
        let (target, outside) = (directory.path().join("target"), directory.path().join("outside"));
        fs::create_dir(&target).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        let unpack = |entries: &[(tar::EntryType, &str, &str)]| {
            let mut builder = tar::Builder::new(Vec::new());
            for (kind, path, link) in entries {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(*kind);
                header.set_mode(0o6755);
                let content: &[u8] = if kind.is_file() { b"evil" } else { b"" };
                header.set_size(content.len() as u64);
                let name = &mut header.as_gnu_mut().unwrap().name;
                name[..path.len()].copy_from_slice(path.as_bytes());
                if !link.is_empty() {
                    header.set_link_name_literal(link).unwrap();
                }
                header.set_cksum();
                builder.append(&header, content).unwrap();
            }
            let bytes = builder.into_inner().unwrap();
            let mut archive = tar::Archive::new(&bytes[..]);
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                let below: PathBuf = entry.path().unwrap().components().skip(1).collect();
                match unpack_entry(&mut entry, &target, &below) {
                    Ok(true) => {}
                    Ok(false) => return Err("left out".to_owned()),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok(())
        };
        use tar::EntryType::{Fifo, Link, Regular, Symlink};
        let out = outside.to_str().unwrap();
        assert!(unpack(&[(Regular, "d/../../outside/x", "")]).is_err());
        assert!(unpack(&[(Symlink, "d/s", out), (Regular, "d/s/x", "")]).is_err());
        assert!(
            unpack(&[(Symlink, "d/f", &format!("{out}/new")), (Regular, "d/f", "")]).is_ok(),
            "the link is replaced"
        );
        assert!(unpack(&[(Link, "d/h", "d/../../outside/secret")]).is_err());
        assert!(unpack(&[(Symlink, "d/l", &format!("{out}/secret")), (Link, "d/h", "d/l")]).is_err());
        assert_eq!(unpack(&[(Fifo, "d/pipe", "")]), Err("left out".to_owned()));
        let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["secret"]);
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "evil");
        assert_eq!(fs::metadata(target.join("f")).unwrap().permissions().mode() & 0o7000, 0, "no setuid");
    }
}
