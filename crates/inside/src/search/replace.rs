//! `POST api/replace`: replaces what a search found, in the files and lines that were chosen.
//!
//! Each file is written as saving writes it: as a whole, and only over the version that was searched, so what
//! somebody wrote meanwhile stays. A file that cannot be done is named; the others are done all the same.

use std::collections::HashSet;
use std::io::Read;

use axum::Json;
use axum::extract::State;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::Searching;
use super::pattern::{Pattern, Query, without_end};
use super::text::MAX_FILE_BYTES;
use crate::error::{ApiError, Result, blocking};
use crate::files::{Files, open_regular, write_over};
use crate::home::version;
use crate::path::RelPath;

/// Files in one request; a search shows no more.
const MAX_FILES: usize = 5_000;

#[derive(Deserialize)]
pub(super) struct Request {
    #[serde(flatten)]
    query: Query,
    files: Vec<Chosen>,
}

#[derive(Deserialize)]
struct Chosen {
    file: String,
    /// As the search said it.
    version: String,
    /// Line numbers from one, in which every match is replaced.
    lines: HashSet<u64>,
}

#[derive(Serialize)]
pub(super) struct Answer {
    replaced: Vec<Replaced>,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Replaced {
    file: String,
    version: String,
    lines: usize,
}

#[derive(Serialize)]
struct Failed {
    file: String,
    code: &'static str,
    message: String,
}

pub(super) async fn replace(
    State(searching): State<Searching>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>> {
    let pattern = request.query.compile()?;
    if !pattern.replaces() {
        return Err(ApiError::bad_request("MISSING_PARAMETER", "“replacement” is missing"));
    }
    if request.files.len() > MAX_FILES {
        return Err(ApiError::bad_request("TOO_MANY_FILES", format!("at most {MAX_FILES} files at a time")));
    }
    blocking(move || {
        let mut answer = Answer { replaced: Vec::new(), failed: Vec::new() };
        for chosen in request.files {
            match in_file(&searching.files, &pattern, &chosen) {
                Ok((version, lines)) => answer.replaced.push(Replaced { file: chosen.file, version, lines }),
                Err(ApiError { code, message, .. }) => {
                    answer.failed.push(Failed { file: chosen.file, code, message });
                }
            }
        }
        Ok(Json(answer))
    })
    .await
}

/// The version that was written, and how many lines changed.
fn in_file(files: &Files, pattern: &Pattern, chosen: &Chosen) -> Result<(String, usize)> {
    let path = RelPath::decode(&chosen.file)?;
    let (file, stat) = open_regular(&files.home, &path, OFlags::NOFOLLOW)?;
    if version(&stat) != chosen.version {
        return Err(ApiError::changed(&path.shown()));
    }
    let mut before = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut before)
        .map_err(|error| ApiError::from_io(&error, &path.shown()))?;
    // What was read is of the version only if it is still there afterwards, which `write_over` checks.
    let (after, lines) = in_text(pattern, &before, &chosen.lines);
    if lines == 0 {
        return Err(ApiError::changed(&path.shown()));
    }
    Ok((write_over(files, &path, &chosen.version, &after)?, lines))
}

fn in_text(pattern: &Pattern, before: &[u8], chosen: &HashSet<u64>) -> (Vec<u8>, usize) {
    let mut after = Vec::with_capacity(before.len());
    let mut changed = 0;
    for (number, line) in (1..).zip(before.split_inclusive(|byte| *byte == b'\n')) {
        let text = without_end(line);
        match chosen.contains(&number).then(|| pattern.replaced(text)).flatten() {
            Some(replaced) => {
                after.extend_from_slice(&replaced);
                after.extend_from_slice(&line[text.len()..]);
                changed += 1;
            }
            None => after.extend_from_slice(line),
        }
    }
    (after, changed)
}
