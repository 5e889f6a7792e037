//! `POST api/search`: lines that match, file by file, as they are found.
//!
//! The answer is one JSON object a line: `{"file","version","lines":[…]}` for a file with matches, and at the end
//! `{"done":{…}}` with what was looked at and why it stopped. Searching ends when the page stops reading.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use grep_matcher::LineTerminator;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use http::header;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Searching;
use super::pattern::{Pattern, Query, without_end};
use super::walk::Scope;
use crate::error::{Result, blocking};
use crate::files::{internal, open_regular};
use crate::home::{Home, version};
use crate::path::RelPath;

/// Lines in one answer.
const MAX_LINES: usize = 5_000;
/// Lines of one file.
const MAX_LINES_OF_FILE: usize = 500;
/// Larger files are counted, not searched. Replacing reads a whole file, and has the same bound.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
const MAX_TIME: Duration = Duration::from_secs(20);
/// Of a long line, this many characters around the first match are shown.
const SHOWN_CHARS: usize = 300;
const SHOWN_BEFORE: usize = 60;

#[derive(Deserialize)]
pub(super) struct Request {
    #[serde(flatten)]
    query: Query,
    #[serde(flatten)]
    scope: Scope,
}

/// One matching line. Spans count UTF-16 units, as the page's strings do.
#[derive(Serialize)]
struct Line {
    line: u64,
    text: String,
    spans: Vec<(usize, usize)>,
    /// Where the first match is in the whole line, in UTF-16 units.
    column: usize,
    /// The line after replacing, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

#[derive(Serialize)]
struct Found<'a> {
    file: &'a str,
    version: &'a str,
    lines: &'a [Line],
    /// True when the file has more lines that match.
    more: bool,
}

#[derive(Serialize, Default)]
struct Done {
    files: usize,
    lines: usize,
    searched: usize,
    /// Files that were too large to search.
    large: usize,
    /// Why it stopped early: `lines` or `time`.
    stopped: Option<&'static str>,
}

pub(super) async fn search(
    State(searching): State<Searching>,
    Json(request): Json<Request>,
) -> Result<Response> {
    let pattern = request.query.compile()?;
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(16);
    let home = searching.files.home.clone();
    let files = {
        let (home, scope) = (home.clone(), request.scope);
        blocking(move || scope.files(&home)).await?
    };
    // Dropped with the answer's body: then also a search that finds nothing ends.
    let read_on = CancellationToken::new();
    let gone = read_on.clone();
    tokio::task::spawn_blocking(move || run(&home, files, &pattern, &sender, &gone));
    let guard = read_on.drop_guard();
    let body = futures::stream::unfold((receiver, guard), async |(mut receiver, guard)| {
        receiver.recv().await.map(|chunk| (chunk, (receiver, guard)))
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "application/x-ndjson")
        .header(header::CACHE_CONTROL, "no-store")
        .body(Body::from_stream(body))
        .map_err(|error| internal(&error))
}

fn run(
    home: &Home,
    files: impl Iterator<Item = RelPath>,
    pattern: &Pattern,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    gone: &CancellationToken,
) {
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .bom_sniffing(false)
        .binary_detection(BinaryDetection::quit(0))
        .build();
    let until = Instant::now() + MAX_TIME;
    let mut done = Done::default();
    for path in files {
        if gone.is_cancelled() {
            return;
        }
        if Instant::now() > until {
            done.stopped = Some("time");
            break;
        }
        if done.lines >= MAX_LINES {
            done.stopped = Some("lines");
            break;
        }
        let Ok((file, stat)) = open_regular(home, &path, OFlags::NOFOLLOW) else {
            continue; // gone meanwhile, or not ours to read
        };
        done.searched += 1;
        if u64::try_from(stat.st_size).unwrap_or(0) > MAX_FILE_BYTES {
            done.large += 1;
            continue;
        }
        let most = MAX_LINES_OF_FILE.min(MAX_LINES - done.lines);
        let (lines, more) = lines_of(&mut searcher, &file, pattern, most, until, gone);
        if lines.is_empty() {
            continue;
        }
        done.files += 1;
        done.lines += lines.len();
        let found = Found { file: &path.encoded(), version: &version(&stat), lines: &lines, more };
        if !send(sender, &found) {
            return;
        }
    }
    send(sender, &serde_json::json!({ "done": done }));
}

/// False when nobody reads on.
fn send(sender: &mpsc::Sender<io::Result<Bytes>>, message: &impl Serialize) -> bool {
    let Ok(mut line) = serde_json::to_vec(message) else { return false };
    line.push(b'\n');
    sender.blocking_send(Ok(line.into())).is_ok()
}

fn lines_of(
    searcher: &mut Searcher,
    file: &File,
    pattern: &Pattern,
    most: usize,
    until: Instant,
    gone: &CancellationToken,
) -> (Vec<Line>, bool) {
    let mut collected =
        Collector { pattern, most, until, gone, lines: Vec::new(), more: false, binary: false };
    let searched = searcher.search_file(&pattern.matcher, file, &mut collected);
    if searched.is_err() || collected.binary {
        return (Vec::new(), false);
    }
    (collected.lines, collected.more)
}

struct Collector<'a> {
    pattern: &'a Pattern,
    most: usize,
    until: Instant,
    gone: &'a CancellationToken,
    lines: Vec<Line>,
    more: bool,
    binary: bool,
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let bytes = without_end(found.bytes());
        let Some(line) = shown(self.pattern, found.line_number().unwrap_or(0), bytes) else {
            return Ok(true);
        };
        if self.lines.len() == self.most {
            self.more = true;
            return Ok(false);
        }
        self.lines.push(line);
        Ok(!self.gone.is_cancelled() && Instant::now() < self.until)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

/// A line as the page shows it: cut around its first match when it is long.
fn shown(pattern: &Pattern, line: u64, bytes: &[u8]) -> Option<Line> {
    let matches = pattern.matches(bytes);
    let first = matches.first()?.start();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let units = |bytes: &[u8]| text(bytes).encode_utf16().count();
    let column = units(&bytes[..first]);
    let from = cut(bytes, first.saturating_sub(SHOWN_BEFORE));
    let long = bytes.len() > SHOWN_CHARS;
    let (from, to) = if long { (from, cut(bytes, from + SHOWN_CHARS)) } else { (0, bytes.len()) };
    let spans = matches
        .iter()
        .filter(|at| at.start() >= from && at.start() < to)
        .map(|at| (units(&bytes[from..at.start()]), units(&bytes[from..at.end().min(to)])))
        .collect();
    // Of a long line the same part is shown after as before: what is replaced before it is not in view.
    let after = pattern.replaced(&bytes[from..to]).map(|after| text(&after));
    Some(Line {
        line,
        text: text(&bytes[from..to]),
        spans,
        column,
        after: after.filter(|_| pattern.replaces()),
    })
}

/// The start of the character that `at` is in, or the end.
fn cut(bytes: &[u8], at: usize) -> usize {
    let mut at = at.min(bytes.len());
    while at > 0 && at < bytes.len() && bytes[at] & 0xc0 == 0x80 {
        at -= 1;
    }
    at
}
