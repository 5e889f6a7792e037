//! The file interface: listing, reading, saving, moving, up- and downloads.
//!
//! Every path goes through [`Home`], every failure through `ApiError`. Uploads
//! and downloads are streamed; nothing here holds a whole file except the
//! editor's `GET api/file`, which has a size limit for that reason.

mod archive;
mod change;
mod download;
mod list;
mod read;
mod remove;
mod save;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::home::Home;

/// Text files up to this size open in the editor.
pub(crate) const MAX_TEXT_BYTES: u64 = 2 * 1024 * 1024;

/// What the file handlers share.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) home: Home,
    /// Held from the last version check to the rename of a save, so that two
    /// savers of the same file cannot both pass the check.
    pub(crate) commit: Arc<std::sync::Mutex<()>>,
}

pub(crate) fn router(home: Home) -> Router {
    let files = Files { home, commit: Arc::default() };
    Router::new()
        .route("/api/tree", get(list::tree))
        .route("/api/stat", get(read::stat))
        .route("/api/file", get(read::file).put(save::put).delete(remove::delete))
        .route("/api/download", get(download::download))
        .route("/api/mkdir", post(change::mkdir))
        .route("/api/rename", post(change::rename))
        .layer(DefaultBodyLimit::disable())
        .with_state(files)
}
