//! Homes for tests, and what a home looks like from outside.

mod browsing;
mod faults;
mod fidelity;
mod forge;
mod gnu;
mod hostile;
mod incremental;
mod killed;
mod mutants;
mod s3;
mod store;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::error::Result;
use super::{ArchiveError, Limits, PackOptions, PackSummary, Progress, UnpackSummary, pack, unpack};

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(super) fn name(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

pub(super) fn tempdir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Everything about an entry that must survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Content,
    /// The first name of the same inode.
    same_as: PathBuf,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Content {
    Directory,
    /// Holes are part of what a file is, as far as the size on disk tells.
    File {
        data: Vec<u8>,
        sparse: bool,
    },
    Symlink(PathBuf),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory => f.write_str("directory"),
            Self::File { data, sparse } => {
                let head = data[..data.len().min(16)].escape_ascii();
                write!(f, "file of {} (sparse: {sparse}) {head}", data.len())
            }
            Self::Symlink(target) => write!(f, "symlink to {}", target.display()),
        }
    }
}

pub(super) type Snapshot = BTreeMap<PathBuf, Node>;

/// Looks at a tree by plain file system calls, nothing of the engine.
pub(super) fn snapshot(root: &Path) -> Snapshot {
    let mut nodes = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let full = root.join(&path);
        let meta = full.symlink_metadata().unwrap();
        let content = if meta.is_dir() {
            for entry in std::fs::read_dir(&full).unwrap() {
                pending.push(path.join(entry.unwrap().file_name()));
            }
            Content::Directory
        } else if meta.is_symlink() {
            Content::Symlink(std::fs::read_link(&full).unwrap())
        } else if meta.is_file() {
            Content::File {
                data: std::fs::read(&full).unwrap(),
                sparse: meta.blocks() * 512 < meta.len() && meta.len() >= 4096,
            }
        } else {
            continue;
        };
        let xattrs = match meta.is_symlink() {
            true => BTreeMap::new(),
            false => xattr::list(&full)
                .unwrap()
                .map(|key| {
                    let value = xattr::get(&full, &key).unwrap().unwrap();
                    (key.as_bytes().to_vec(), value)
                })
                .collect(),
        };
        let node = Node {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            xattrs,
            content,
            same_as: PathBuf::new(),
        };
        nodes.insert(path, (meta.ino(), node));
    }
    let mut first_names: HashMap<u64, PathBuf> = HashMap::new();
    let named = nodes.into_iter().map(|(path, (inode, mut node))| {
        let first = first_names.entry(inode).or_insert_with(|| path.clone());
        node.same_as = first.clone();
        (path, node)
    });
    named.collect()
}

/// Compares two trees with a message a person can use.
pub(super) fn assert_same(before: &Snapshot, after: &Snapshot) {
    for (path, node) in before {
        assert_eq!(Some(node), after.get(path), "{}", path.display());
    }
    for path in after.keys() {
        assert!(before.contains_key(path), "{} is new", path.display());
    }
}

pub(super) fn pack_bytes(root: &Path) -> Result<(Vec<u8>, PackSummary)> {
    let mut bytes = Vec::new();
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let summary = pack(root, &mut bytes, PackOptions::default(), &progress, &cancel)?;
    assert_eq!(summary.size, bytes.len() as u64);
    assert_eq!(summary.uncompressed, progress.done());
    Ok((bytes, summary))
}

pub(super) fn unpack_bytes(bytes: &[u8], target: &Path) -> Result<UnpackSummary> {
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let summary = unpack(bytes, target, Limits::default(), &progress, &cancel)?;
    assert_eq!(summary.uncompressed, progress.done());
    Ok(summary)
}

/// Bytes that do not compress, the same every time.
pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// What survives of a setuid program: root restores none.
pub(super) fn script_mode() -> u32 {
    if is_root() { 0o755 } else { 0o4755 }
}

/// A small home with one of everything.
pub(super) fn sample_home() -> TempDir {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = tempdir();
    let at = |path: &str| home.path().join(path);
    std::fs::create_dir_all(at("src/deep/er")).unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    std::fs::write(at("src/main.rs"), b"fn main() {}\n").unwrap();
    std::fs::write(at("src/deep/er/leaf"), vec![7; 70_000]).unwrap();
    std::fs::write(at("script"), b"#!/bin/sh\n").unwrap();
    std::fs::hard_link(at("src/main.rs"), at("same.rs")).unwrap();
    symlink("src/main.rs", at("link")).unwrap();
    symlink("/nowhere/at/all", at("dangling")).unwrap();
    std::fs::set_permissions(at("script"), PermissionsExt::from_mode(script_mode())).unwrap();
    home
}
