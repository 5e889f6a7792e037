//! `GET api/git/repositories`: folders in the home that are git repositories.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use ignore::WalkBuilder;
use serde_json::{Value, json};

use super::run::Git;
use crate::error::Result;
use crate::error::blocking;
use crate::path::RelPath;

/// Deeper down nobody keeps projects, but programs keep caches.
const MAX_DEPTH: usize = 5;
const MAX_REPOSITORIES: usize = 100;
const MAX_FOLDERS: usize = 20_000;
const MAX_TIME: Duration = Duration::from_secs(3);

pub(super) async fn list(State(git): State<Git>) -> Result<Json<Value>> {
    let home = git.home().real_path().to_owned();
    let found = blocking(move || {
        let until = Instant::now() + MAX_TIME;
        let mut found = Vec::new();
        let walk = WalkBuilder::new(&home)
            .standard_filters(false)
            .hidden(true)
            .max_depth(Some(MAX_DEPTH))
            .sort_by_file_name(Ord::cmp)
            .filter_entry(|entry| {
                entry.file_type().is_some_and(|kind| kind.is_dir()) && entry.file_name() != "node_modules"
            })
            .build();
        for entry in walk.flatten().take(MAX_FOLDERS) {
            if found.len() == MAX_REPOSITORIES || Instant::now() > until {
                break;
            }
            if entry.path().join(".git").symlink_metadata().is_ok()
                && let Ok(path) = entry.path().strip_prefix(&home)
            {
                found.push(RelPath::beneath(path).encoded());
            }
        }
        Ok(found)
    })
    .await?;
    Ok(Json(json!({ "repositories": found })))
}
