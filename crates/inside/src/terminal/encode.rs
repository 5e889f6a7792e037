//! One row of the screen as compact JSON.
//!
//! A row is `[wrapped, run, run, …]`. A run in the default style is a plain
//! string; a styled one is `[text, fg, bg, flags]`. Colours: -1 default, 0–255
//! the palette, `0x1000000 | rgb` exact. Cells that do not fit the browser's
//! fixed grid by themselves (wide characters, and anything not ASCII, whose
//! glyph may come from a fallback font) travel one string per cell in an array,
//! so that the page can give each its exact width. Trailing blanks are left out.

use serde_json::{Value, json};
use vt100::{Cell, Color, Screen};

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

/// The visible row `row` of `screen` (with its scrollback offset applied).
pub(super) fn row(screen: &Screen, row: u16, cols: u16) -> String {
    let mut runs = vec![Value::from(u8::from(screen.row_wrapped(row)))];
    let mut style = PLAIN;
    let mut cells: Vec<&str> = Vec::new();
    // Blanks are held back until something visible follows them.
    let mut blanks = 0;
    for col in 0..cols {
        let Some(cell) = screen.cell(row, col) else {
            break;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        let next = style_of(cell);
        let text = if cell.has_contents() { cell.contents() } else { " " };
        if next == PLAIN && text == " " {
            blanks += 1;
            continue;
        }
        if blanks > 0 {
            if style != PLAIN {
                push(&mut runs, style, &mut cells);
                style = PLAIN;
            }
            cells.extend(std::iter::repeat_n(" ", blanks));
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

fn push(runs: &mut Vec<Value>, style: Style, cells: &mut Vec<&str>) {
    if cells.is_empty() {
        return;
    }
    let text = if style.apart { Value::from(cells.clone()) } else { Value::from(cells.concat()) };
    runs.push(if style == PLAIN { text } else { json!([text, style.fg, style.bg, style.flags]) });
    cells.clear();
}

fn style_of(cell: &Cell) -> Style {
    let flags = [
        (cell.bold(), BOLD),
        (cell.dim(), DIM),
        (cell.italic(), ITALIC),
        (cell.underline(), UNDERLINE),
        (cell.inverse(), INVERSE),
        (cell.is_wide(), WIDE),
    ];
    Style {
        fg: color(cell.fgcolor()),
        bg: color(cell.bgcolor()),
        flags: flags.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum(),
        apart: !cell.contents().is_ascii(),
    }
}

fn color(color: Color) -> i32 {
    match color {
        Color::Default => -1,
        Color::Idx(index) => i32::from(index),
        Color::Rgb(r, g, b) => 0x100_0000 | i32::from(r) << 16 | i32::from(g) << 8 | i32::from(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU16;

    fn encoded(input: &str) -> String {
        let size = |n| NonZeroU16::new(n).unwrap();
        let mut parser = vt100::Parser::new(size(2), size(20), 0);
        parser.process(input.as_bytes());
        row(parser.screen(), 0, 20)
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
            ("0123456789012345678901", r#"[1,"01234567890123456789"]"#),
        ];
        for (input, expected) in cases {
            assert_eq!(encoded(input), expected, "{input:?}");
        }
    }
}
