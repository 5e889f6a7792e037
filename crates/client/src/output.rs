//! What is printed: tables and colours for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write as _};

use jiff::{SpanRound, Timestamp, Unit};
use serde_json::Value;

pub(crate) use crate::text::clean;
use crate::{
    failure::{Failure, Result},
    text::shown,
};

/// A line on standard output. Whoever reads it may have gone: then there is nobody to tell.
pub(crate) fn line(text: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{}", shown(&text.to_string())) {
        gone(&error);
    }
}

/// Bytes on standard output, as they are.
///
/// # Errors
/// They cannot be written.
pub(crate) fn raw(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => gone(&error),
        Err(error) => Err(Failure::local("standard output", error)),
    }
}

/// As programs end whose reader has gone.
fn gone(_: &io::Error) -> ! {
    std::process::exit(128 + 13)
}

/// An object of the API's, on one line.
pub(crate) fn json(value: &Value) {
    line(value);
}

/// What happens, for people: on standard error.
pub(crate) fn note(text: impl std::fmt::Display) {
    eprintln!("codehub: {}", shown(&text.to_string()));
}

/// Whether standard output shows colours.
pub(crate) fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A phase, in its colour where there are any.
pub(crate) fn phase(word: &str) -> String {
    if !colours() {
        return word.to_owned();
    }
    let colour = match word {
        "RUNNING" => 32,
        "ERROR" => 31,
        "PENDING" | "DELETING" => 33,
        _ => 2,
    };
    format!("\x1b[{colour}m{word}\x1b[0m")
}

/// Columns, as wide as they have to be. Cells may have colours.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) {
    let width = |cell: &str| shown_width(cell);
    let mut widths: Vec<usize> = head.iter().map(|cell| width(cell)).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(width(cell));
        }
    }
    let print = |cells: &[String]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < cells.len() {
                text.push_str(&" ".repeat(widths[column] - width(cell) + 2));
            }
        }
        line(text.trim_end());
    };
    print(&head.iter().map(ToString::to_string).collect::<Vec<_>>());
    for row in rows {
        print(row);
    }
}

/// How many columns a cell takes, without its colours.
fn shown_width(cell: &str) -> usize {
    console::measure_text_width(cell)
}

/// A time of the API's, as how long ago or ahead: `3h ago`, `in 20m`.
pub(crate) fn relative(value: &Value) -> String {
    let Some(at) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "-".into();
    };
    let seconds = at.duration_since(Timestamp::now()).as_secs();
    let size = seconds.unsigned_abs();
    let text = match size {
        0..=59 => format!("{size}s"),
        60..=3599 => format!("{}m", size / 60),
        3600..=172_799 => format!("{}h", size / 3600),
        _ => format!("{}d", size / 86_400),
    };
    if seconds > 0 { format!("in {text}") } else { format!("{text} ago") }
}

/// So many bytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// A duration as people write it: `30m`, `2h`, `1h 30m`, `90` (seconds).
///
/// # Errors
/// It is none.
pub(crate) fn duration(text: &str) -> std::result::Result<std::time::Duration, String> {
    let wrong = || "no duration: write 90s, 30m, 2h or 1d".to_owned();
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(std::time::Duration::from_secs(seconds.into()));
    }
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let round = SpanRound::new().largest(Unit::Second).days_are_24_hours();
    let seconds = span.round(round).map_err(|_| wrong())?.get_seconds();
    u64::try_from(seconds).map(std::time::Duration::from_secs).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1h 30m", 5400), ("1d", 86_400)]
        {
            assert_eq!(duration(text).map(|it| it.as_secs()), Ok(seconds), "{text}");
        }
        for wrong in ["", "soon", "-5m", "1x"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
