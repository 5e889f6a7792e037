//! The file interface: listing, reading, saving, moving, up- and downloads.
//!
//! Every path goes through [`Home`], every failure through `ApiError`. Uploads
//! and downloads are streamed; nothing here holds a whole file except the
//! editor's `GET api/file`, which has a size limit for that reason.

mod archive;
mod change;
mod copy;
mod download;
mod left_out;
mod list;
mod read;
mod remove;
mod save;
mod zip;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::home::Home;

pub(crate) use download::internal;
pub(crate) use read::open_regular;
pub(crate) use save::write_over;

/// Text files up to this size open in the editor.
pub(crate) const MAX_TEXT_BYTES: u64 = 16 * 1024 * 1024;

/// What the file handlers share.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) home: Home,
    /// Held from the last version check to the rename of a save, so that two
    /// savers of the same file cannot both pass the check.
    pub(crate) commit: Arc<std::sync::Mutex<()>>,
}

impl Files {
    pub(crate) fn new(home: Home) -> Self {
        Self { home, commit: Arc::default() }
    }
}

/// `GET` a file as it is (a directory as tar) and `PUT` one, at one path: for the line.
pub(crate) fn plain_router(files: Files) -> Router {
    Router::new()
        .route("/file", get(download::download).put(save::put))
        .layer(DefaultBodyLimit::disable())
        .with_state(files)
}

pub(crate) fn router(files: Files) -> Router {
    Router::new()
        .route("/api/tree", get(list::tree))
        .route("/api/stat", get(read::stat))
        .route("/api/file", get(read::file).put(save::put).delete(remove::delete))
        .route("/api/download", get(download::download))
        .route("/api/mkdir", post(change::mkdir))
        .route("/api/rename", post(change::rename))
        .route("/api/copy", post(copy::copy))
        .layer(DefaultBodyLimit::disable())
        .with_state(files)
}
