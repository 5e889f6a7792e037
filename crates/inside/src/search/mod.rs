//! Finding things in the home: text in files, files by name, and replacing what was found.
//!
//! * [`walk`] visits the files people mean: beneath the home, links not followed, `.gitignore` respected.
//! * [`pattern`] is what to look for; searching and replacing find the same things with it.
//! * [`text`] is `POST api/search`, [`replace`] is `POST api/replace`, [`names`] is `GET api/find`.
//!
//! All of it is bounded in files, results and time, says so when a bound was met, and ends when the page stops reading.

mod names;
mod pattern;
mod replace;
mod text;
mod walk;

use axum::Router;
use axum::routing::{get, post};

use crate::files::Files;

/// What the handlers share: the files, and the list of names that is kept for a moment.
#[derive(Clone)]
struct Searching {
    files: Files,
    names: names::Names,
}

pub(crate) fn router(files: Files) -> Router {
    Router::new()
        .route("/api/search", post(text::search))
        .route("/api/replace", post(replace::replace))
        .route("/api/find", get(names::find))
        .with_state(Searching { files, names: names::Names::default() })
}
