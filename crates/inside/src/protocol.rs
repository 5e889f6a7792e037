//! The messages on the page's one WebSocket (`GET ws`), all JSON text.
//!
//! The socket carries every terminal of the page and the news about files. Both
//! sides speak only when something happened: there are no heartbeats, no polls
//! and no acknowledgements, so an idle page is silent.
//!
//! From the page:
//!
//! | `t` | fields | means |
//! |---|---|---|
//! | `open` | `rows cols dark` | start a terminal and attach to it |
//! | `attach` | `id rows cols dark` | send me this terminal from now on |
//! | `detach` | `id` | stop sending it |
//! | `in` | `id d` | typed or pasted text `d` |
//! | `size` | `id rows cols` | my view has this size; the last one to say so wins |
//! | `lines` | `id from to` | send lines that scrolled away, by number |
//! | `close` | `id` | end the terminal |
//! | `active` | | somebody types, clicks or scrolls in the page; said every 20 s at most, so that it counts as activity |
//! | `probe` | | are you there? asked only when something was sent and nothing came back |
//! | `watch` | `dirs: [{dir, files, list}]` | tell me when these change; replaces the last one |
//!
//! To the page:
//!
//! | `t` | fields | means |
//! |---|---|---|
//! | `terms` | `terms: [{id, name}]` | the terminals there are; first message, and on change |
//! | `opened` | `id` | the answer to `open` |
//! | `screen` | `id full rows cols lines cur modes first base epoch title bells exit` | what changed since the last one; `lines` maps row numbers to rows as described in `terminal::encode` |
//! | `lines` | `id epoch from lines` | the answer to `lines` |
//! | `here` | | the answer to `probe` and to `active` |
//! | `fs` | `dirs files` | these encoded paths changed on disk |
//! | `error` | `message`, perhaps `id` | a request could not be done |
//!
//! A reconnecting page attaches again and gets a full screen; nothing is replayed.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::terminal::{Exit, History, Snapshot};
use crate::watch::{Changes, Wanted};

#[derive(Deserialize, Debug)]
#[serde(tag = "t", rename_all = "lowercase")]
pub(crate) enum FromPage {
    Open {
        rows: u16,
        cols: u16,
        #[serde(default)]
        dark: bool,
    },
    Attach {
        id: u32,
        rows: u16,
        cols: u16,
        #[serde(default)]
        dark: bool,
    },
    Detach {
        id: u32,
    },
    In {
        id: u32,
        d: String,
    },
    Size {
        id: u32,
        rows: u16,
        cols: u16,
    },
    Lines {
        id: u32,
        from: usize,
        to: usize,
    },
    Close {
        id: u32,
    },
    Active,
    Probe,
    Watch {
        dirs: Vec<Wanted>,
    },
}

pub(crate) fn terms<'a>(terms: impl Iterator<Item = (u32, &'a str)>) -> String {
    let terms: Vec<Value> = terms.map(|(id, name)| json!({ "id": id, "name": name })).collect();
    json!({ "t": "terms", "terms": terms }).to_string()
}

pub(crate) fn opened(id: u32) -> String {
    json!({ "t": "opened", "id": id }).to_string()
}

pub(crate) fn here() -> String {
    json!({ "t": "here" }).to_string()
}

pub(crate) fn error(id: Option<u32>, message: &str) -> String {
    json!({ "t": "error", "id": id, "message": message }).to_string()
}

pub(crate) fn lines(id: u32, history: &History) -> String {
    let History { epoch, from, lines } = history;
    // Rows are JSON already.
    format!(r#"{{"t":"lines","id":{id},"epoch":{epoch},"from":{from},"lines":[{}]}}"#, lines.join(","))
}

pub(crate) fn changes(changes: &Changes) -> String {
    json!({ "t": "fs", "dirs": changes.dirs, "files": changes.files }).to_string()
}

/// What of `now` is new to a page that has seen `before`; `None` when nothing is.
pub(crate) fn screen(
    id: u32,
    before: Option<&Snapshot>,
    now: &Snapshot,
    exit: Option<&Exit>,
) -> Option<String> {
    if before == Some(now) && exit.is_none() {
        return None;
    }
    let full = before.is_none_or(|old| (old.rows, old.cols, old.epoch) != (now.rows, now.cols, now.epoch));
    let known = |row: usize| before.filter(|_| !full).and_then(|old| old.lines.get(row));
    let mut lines = String::new();
    for (row, line) in now.lines.iter().enumerate() {
        if known(row) != Some(line) {
            let comma = if lines.is_empty() { "" } else { "," };
            let _ = write!(lines, r#"{comma}"{row}":{line}"#);
        }
    }
    let (row, col, visible, shape) = now.cursor;
    let title = Value::from(&*now.title);
    let exit = serde_json::to_string(&exit).unwrap_or_else(|_| "null".to_owned());
    Some(format!(
        concat!(
            r#"{{"t":"screen","id":{},"full":{},"rows":{},"cols":{},"lines":{{{}}},"#,
            r#""cur":[{},{},{},{}],"modes":{},"first":{},"base":{},"epoch":{},"#,
            r#""title":{},"bells":{},"exit":{}}}"#
        ),
        id,
        full,
        now.rows,
        now.cols,
        lines,
        row,
        col,
        u8::from(visible),
        shape,
        now.modes,
        now.first,
        now.base,
        now.epoch,
        title,
        now.bells,
        exit
    ))
}
