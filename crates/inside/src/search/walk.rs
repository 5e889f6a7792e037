//! The files somebody means who searches "in all files".

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkBuilder};
use serde::Deserialize;

use crate::error::{ApiError, Result};
use crate::home::Home;
use crate::path::{RelPath, is_temp};

/// Which files to visit.
#[derive(Deserialize, Debug, Default, Clone)]
pub(super) struct Scope {
    /// The folder to look in, encoded; empty for the home.
    #[serde(default)]
    folder: String,
    /// Globs separated by commas; only files that match one of them.
    #[serde(default)]
    include: String,
    /// Globs separated by commas; no files that match one of them.
    #[serde(default)]
    exclude: String,
    /// Also what `.gitignore` leaves out, and folders of programs such as `~/.cache`.
    #[serde(default)]
    pub(super) ignored: bool,
}

impl Scope {
    /// Visits regular files in the order of their names. Links are not followed, so nothing outside the home is met.
    pub(super) fn files(&self, home: &Home) -> Result<impl Iterator<Item = RelPath> + use<>> {
        let root = home.real_path().to_owned();
        let start = RelPath::decode(&self.folder)?;
        // Opened once, so that a missing folder and a link out of the home are refused as everywhere.
        home.open_dir(&start)?;
        let globs = self.globs(&root)?;
        let everything = self.ignored;
        let top = root.clone();
        let walk = WalkBuilder::new(root.join(start.to_path_buf()))
            .hidden(false)
            .parents(false)
            .require_git(false)
            .git_ignore(!everything)
            .git_exclude(!everything)
            .git_global(!everything)
            .ignore(!everything)
            .follow_links(false)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(move |entry| wanted(entry, &top, everything) && !excluded(entry, &globs))
            .build();
        Ok(walk.filter_map(move |entry| {
            let entry = entry.ok().filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))?;
            let path = entry.path().strip_prefix(&root).ok()?;
            Some(RelPath::beneath(path))
        }))
    }

    fn globs(&self, root: &Path) -> Result<Override> {
        let mut globs = OverrideBuilder::new(root);
        let bad = |glob: &str, error: &ignore::Error| {
            ApiError::bad_request("BAD_GLOB", format!("“{glob}” is not a file pattern: {error}"))
        };
        for glob in parts(&self.include) {
            // A folder's name means what is in it.
            for form in [anywhere(glob), format!("{}/**", anywhere(glob).trim_end_matches('/'))] {
                globs.add(&form).map_err(|error| bad(glob, &error))?;
            }
        }
        for glob in parts(&self.exclude) {
            globs.add(&format!("!{}", anywhere(glob))).map_err(|error| bad(glob, &error))?;
        }
        globs.build().map_err(|error| bad(&self.include, &error))
    }
}

fn parts(globs: &str) -> impl Iterator<Item = &str> {
    globs.split(',').map(str::trim).filter(|glob| !glob.is_empty())
}

/// At any depth, unless it begins with `/`: then from the home.
fn anywhere(glob: &str) -> String {
    if glob.starts_with('/') { glob.to_owned() } else { format!("**/{glob}") }
}

fn is_dir(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_dir())
}

/// Git's own files and half-written ones never; folders that programs hide in the home only when everything is asked for.
fn wanted(entry: &DirEntry, home: &Path, everything: bool) -> bool {
    let name = entry.file_name().as_bytes();
    if name == b".git" || is_temp(name) {
        return false;
    }
    everything || !(name.starts_with(b".") && is_dir(entry) && entry.path().parent() == Some(home))
}

fn excluded(entry: &DirEntry, globs: &Override) -> bool {
    globs.matched(entry.path(), is_dir(entry)).is_ignore()
}
