//! One row of the screen as compact JSON.
//!
//! A row is `[wrapped, run, run, …]`. A run in the default style is a plain
//! string; a styled one is `[text, fg, bg, flags]`. Colours: -1 default, 0–255
//! the palette, `0x1000000 | rgb` exact. Cells that do not fit the browser's
//! fixed grid by themselves (wide characters, and anything not ASCII, whose
//! glyph may come from a fallback font) travel one string per cell in an array,
//! so that the page can give each its exact width. Trailing blanks are left out.

use std::borrow::Cow;

use alacritty_terminal::grid::Row;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, NamedColor};
use serde_json::{Value, json};

const BOLD: u8 = 1;
const DIM: u8 = 2;
const ITALIC: u8 = 4;
const UNDERLINE: u8 = 8;
const INVERSE: u8 = 16;
const WIDE: u8 = 32;

#[derive(PartialEq, Eq, Clone, Copy)]
struct Style {
    fg: i32,
    bg: i32,
    flags: u8,
    /// Cells travel one by one.
    apart: bool,
}

const PLAIN: Style = Style { fg: -1, bg: -1, flags: 0, apart: false };

/// What is drawn over one character at most; programs can send any number of accents.
const MAX_OVER: usize = 8;

/// A row of the screen or of what scrolled away.
pub(super) fn row(row: &Row<Cell>) -> String {
    let wrapped = row.len() > 0 && row[Column(row.len() - 1)].flags.contains(Flags::WRAPLINE);
    let mut runs = vec![Value::from(u8::from(wrapped))];
    let mut style = PLAIN;
    let mut cells: Vec<Cow<'static, str>> = Vec::new();
    // Blanks are held back until something visible follows them.
    let mut blanks = 0;
    for cell in row {
        if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
            continue;
        }
        let text = text_of(cell);
        let next = style_of(cell, &text);
        if next == PLAIN && text == " " {
            blanks += 1;
            continue;
        }
        if blanks > 0 {
            if style != PLAIN {
                push(&mut runs, style, &mut cells);
                style = PLAIN;
            }
            cells.extend(std::iter::repeat_n(Cow::Borrowed(" "), blanks));
            blanks = 0;
        }
        if next != style {
            push(&mut runs, style, &mut cells);
            style = next;
        }
        cells.push(text);
    }
    push(&mut runs, style, &mut cells);
    Value::from(runs).to_string()
}

fn text_of(cell: &Cell) -> Cow<'static, str> {
    // A tab leaves its mark in a cell that is blank otherwise.
    if matches!(cell.c, ' ' | '\t') || cell.flags.contains(Flags::HIDDEN) {
        return Cow::Borrowed(" ");
    }
    let over = cell.zerowidth().unwrap_or_default().iter().take(MAX_OVER);
    Cow::Owned(std::iter::once(&cell.c).chain(over).collect())
}

fn push(runs: &mut Vec<Value>, style: Style, cells: &mut Vec<Cow<'static, str>>) {
    if cells.is_empty() {
        return;
    }
    let text = if style.apart { Value::from(cells.clone()) } else { Value::from(cells.concat()) };
    runs.push(if style == PLAIN { text } else { json!([text, style.fg, style.bg, style.flags]) });
    cells.clear();
}

fn style_of(cell: &Cell, text: &str) -> Style {
    let flags = [
        (Flags::BOLD, BOLD),
        (Flags::DIM, DIM),
        (Flags::ITALIC, ITALIC),
        (Flags::ALL_UNDERLINES, UNDERLINE),
        (Flags::INVERSE, INVERSE),
        (Flags::WIDE_CHAR, WIDE),
    ];
    Style {
        fg: color(cell.fg),
        bg: color(cell.bg),
        flags: flags.iter().filter(|(any, _)| cell.flags.intersects(*any)).map(|(_, bit)| bit).sum(),
        apart: !text.is_ascii(),
    }
}

fn color(color: Color) -> i32 {
    match color {
        Color::Named(name) if name <= NamedColor::BrightWhite => name as i32,
        Color::Named(_) => -1,
        Color::Indexed(index) => i32::from(index),
        Color::Spec(rgb) => 0x100_0000 | i32::from(rgb.r) << 16 | i32::from(rgb.g) << 8 | i32::from(rgb.b),
    }
}

#[cfg(test)]
mod tests {
    use super::super::emulator::Emulator;
    use std::num::NonZeroU16;

    fn encoded(input: &str) -> String {
        let size = |n| NonZeroU16::new(n).unwrap();
        let mut emulator = Emulator::new(size(2), size(20));
        emulator.feed(input.as_bytes());
        emulator.snapshot().lines[0].to_string()
    }

    #[test]
    fn rows() {
        let cases = [
            ("", "[0]"),
            ("ab  c  ", r#"[0,"ab  c"]"#),
            ("\x1b[31mred\x1b[0m x", r#"[0,["red",1,-1,0]," x"]"#),
            ("\x1b[38;2;1;2;3mx", r#"[0,["x",16843267,-1,0]]"#),
            ("한글 a", r#"[0,[["한","글"],-1,-1,32]," a"]"#),
            ("─x", r#"[0,[["─"],-1,-1,0],"x"]"#),
            ("e\u{301}x", "[0,[[\"e\u{301}\"],-1,-1,0],\"x\"]"),
            ("\x1b[7m  \x1b[0m", r#"[0,["  ",-1,-1,16]]"#),
            ("a\tb", r#"[0,"a       b"]"#),
            ("\x1b[8mhidden\x1b[0m x", r#"[0,"       x"]"#),
            ("\x1b(0lqk\x1b(B lqk", r#"[0,[["┌","─","┐"],-1,-1,0]," lqk"]"#),
            ("0123456789012345678901", r#"[1,"01234567890123456789"]"#),
        ];
        for (input, expected) in cases {
            assert_eq!(encoded(input), expected, "{input:?}");
        }
    }
}
