//! `GET api/find?q=`: files whose path has the typed letters in their order, the likeliest first.
//!
//! The names are listed once and kept for a few seconds, so that typing on does not walk the home again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{RawQuery, State};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::Searching;
use super::walk::Scope;
use crate::error::{Result, blocking};
use crate::home::Home;
use crate::path::query_value;

const MAX_NAMES: usize = 100_000;
const MAX_TIME: Duration = Duration::from_secs(5);
const KEPT_FOR: Duration = Duration::from_secs(10);
const MAX_ANSWERS: usize = 50;

/// The list of names, and when it was made.
#[derive(Clone, Default)]
pub(super) struct Names {
    kept: Arc<Mutex<Option<Kept>>>,
}

type Kept = (Instant, Arc<List>);

struct List {
    /// As shown and as encoded.
    names: Vec<(String, String)>,
    /// True when the home has more files than were listed.
    truncated: bool,
}

#[derive(Serialize)]
pub(super) struct Answer {
    /// Encoded paths.
    files: Vec<String>,
    truncated: bool,
}

pub(super) async fn find(
    State(searching): State<Searching>,
    RawQuery(query): RawQuery,
) -> Result<Json<Answer>> {
    let typed = query_value(query.as_deref(), "q").unwrap_or_default();
    let typed = percent_decode_str(typed).decode_utf8_lossy().into_owned();
    blocking(move || {
        let list = searching.names.list(&searching.files.home)?;
        let letters: Vec<char> =
            typed.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect();
        let mut found: Vec<(i32, &(String, String))> =
            list.names.iter().filter_map(|name| Some((score(&letters, &name.0)?, name))).collect();
        found.sort_by(|(a, left), (b, right)| {
            b.cmp(a).then_with(|| left.0.len().cmp(&right.0.len())).then_with(|| left.0.cmp(&right.0))
        });
        let files = found.into_iter().take(MAX_ANSWERS).map(|(_, name)| name.1.clone()).collect();
        Ok(Json(Answer { files, truncated: list.truncated }))
    })
    .await
}

impl Names {
    fn list(&self, home: &Home) -> Result<Arc<List>> {
        // Held while listing: whoever asks meanwhile waits for the same list.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, list)) = kept.as_ref()
            && made.elapsed() < KEPT_FOR
        {
            return Ok(list.clone());
        }
        let until = Instant::now() + MAX_TIME;
        let mut list = List { names: Vec::new(), truncated: false };
        for path in Scope::default().files(home)? {
            if list.names.len() == MAX_NAMES || Instant::now() > until {
                list.truncated = true;
                break;
            }
            list.names.push((path.shown(), path.encoded()));
        }
        let list = Arc::new(list);
        *kept = Some((Instant::now(), list.clone()));
        Ok(list)
    }
}

/// How well the letters fit; `None` when they are not all there, in their order. Letters that begin a word, follow each
/// other, or are in the file's own name count more.
fn score(letters: &[char], name: &str) -> Option<i32> {
    let base = name.rfind('/').map_or(0, |at| at + 1);
    let whole = walk(letters, name.char_indices(), base, None)?;
    // From the file's own name alone, where it has them all.
    let own = walk(letters, name[base..].char_indices().map(|(at, c)| (at + base, c)), base, Some('/'));
    Some(own.map_or(whole, |own| own.max(whole) + 40))
}

fn walk(
    letters: &[char],
    name: impl Iterator<Item = (usize, char)>,
    base: usize,
    mut before: Option<char>,
) -> Option<i32> {
    let mut wanted = letters.iter().peekable();
    let mut score = 0;
    let mut follows = false;
    for (at, found) in name {
        let Some(letter) = wanted.peek() else { break };
        if found.to_lowercase().eq(std::iter::once(**letter)) {
            wanted.next();
            let begins =
                before.is_none_or(|b| !b.is_alphanumeric() || (b.is_lowercase() && found.is_uppercase()));
            score += 1 + 8 * i32::from(follows) + 6 * i32::from(begins) + 3 * i32::from(at >= base);
            follows = true;
        } else {
            follows = false;
        }
        before = Some(found);
    }
    wanted.peek().is_none().then_some(score)
}

#[cfg(test)]
mod tests {
    use super::score;

    fn best<'a>(typed: &str, names: &[&'a str]) -> Option<&'a str> {
        let letters: Vec<char> = typed.chars().collect();
        names.iter().filter_map(|name| Some((score(&letters, name)?, *name))).max().map(|(_, name)| name)
    }

    #[test]
    fn the_likeliest_file_comes_first() {
        let names = ["src/main.rs", "src/domain/mod.rs", "docs/manual/index.md", "src/module/area/inside.rs"];
        assert_eq!(best("main", &names), Some("src/main.rs"));
        assert_eq!(best("dommod", &names), Some("src/domain/mod.rs"));
        assert_eq!(best("inside", &names), Some("src/module/area/inside.rs"));
        assert_eq!(best("zzz", &names), None);
    }
}
