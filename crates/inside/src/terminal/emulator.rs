//! The screen of one terminal: bytes in, a picture and replies out.
//!
//! Wraps the `vt100` parser with what a real terminal also does: answering the
//! questions programs ask (where is the cursor, what are you, what colours),
//! remembering the title and the bell, and numbering the lines that scrolled
//! away so that a browser can fetch them later without confusion.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use vt100::{CursorStyle, MouseProtocolEncoding, MouseProtocolMode, Parser, Screen};

use super::encode;
use super::filter::{Filter, Special};

/// Lines kept above the screen.
pub(crate) const SCROLLBACK: usize = 5_000;

/// The longest title kept; programs can send anything.
const MAX_TITLE: usize = 200;

/// Mode bits of a frame; the page turns keys, pastes and clicks into bytes by them.
mod mode {
    pub(super) const APP_CURSOR: u16 = 1;
    pub(super) const BRACKETED_PASTE: u16 = 2;
    pub(super) const APP_KEYPAD: u16 = 4;
    pub(super) const ALT_SCREEN: u16 = 8;
    pub(super) const FOCUS: u16 = 16;
    pub(super) const MOUSE_PRESS: u16 = 32;
    pub(super) const MOUSE_DRAG: u16 = 64;
    pub(super) const MOUSE_MOVE: u16 = 128;
    pub(super) const MOUSE_SGR: u16 = 256;
}

/// Everything a browser needs to draw the terminal.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) rows: u16,
    pub(crate) cols: u16,
    /// Encoded rows, see [`encode`].
    pub(crate) lines: Vec<Arc<str>>,
    /// Row, column, visible, style (0 block, 1 underline, 2 bar).
    pub(crate) cursor: (u16, u16, bool, u8),
    pub(crate) modes: u16,
    /// Number of the oldest line kept, and of the screen's first line.
    pub(crate) first: usize,
    pub(crate) base: usize,
    /// Changes when line numbers start to mean other lines.
    pub(crate) epoch: u32,
    pub(crate) title: Arc<str>,
    pub(crate) bells: u32,
}

/// Lines from the scrollback, encoded like those of a snapshot.
pub(crate) struct History {
    pub(crate) epoch: u32,
    /// The number of the first line.
    pub(crate) from: usize,
    pub(crate) lines: Vec<String>,
}

pub(crate) struct Emulator {
    parser: Parser<Side>,
    filter: Filter,
    last_base: usize,
    epoch: u32,
}

/// What the parser reports besides the screen.
struct Side {
    replies: Vec<u8>,
    title: Arc<str>,
    bells: u32,
    focus_reports: bool,
    dark: bool,
    /// Lines that fell off the far end of the scrollback.
    discarded: usize,
}

impl Emulator {
    pub(crate) fn new(rows: NonZeroU16, cols: NonZeroU16) -> Self {
        let side = Side {
            replies: Vec::new(),
            title: Arc::from(""),
            bells: 0,
            focus_reports: false,
            dark: true,
            discarded: 0,
        };
        Self {
            parser: Parser::new_with_callbacks(rows, cols, SCROLLBACK, side),
            filter: Filter::default(),
            last_base: 0,
            epoch: 0,
        }
    }

    /// Feeds program output; returns what the terminal answers to the program.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = bytes;
        let mut out = Vec::with_capacity(bytes.len());
        loop {
            let special = self.filter.run(&mut input, &mut out);
            self.process(&out);
            out.clear();
            match special {
                Some(Special::BackTab(count)) => {
                    let (_, col) = self.parser.screen().cursor_position();
                    let stop = (col.saturating_sub(1) / 8).saturating_sub(count - 1) * 8;
                    self.process(format!("\x1b[{}G", stop + 1).as_bytes());
                }
                Some(Special::Reset) => self.epoch += 1,
                None => break,
            }
        }
        self.track_base();
        std::mem::take(&mut self.parser.callbacks_mut().replies)
    }

    /// A program can print anything; a bug in the emulator must cost it its
    /// screen, not the whole server.
    fn process(&mut self, bytes: &[u8]) {
        let parser = &mut self.parser;
        if catch_unwind(AssertUnwindSafe(|| parser.process(bytes))).is_ok() {
            return;
        }
        tracing::error!("the screen emulator failed on some output; the screen was reset");
        let (rows, cols) = self.parser.screen().size();
        let dark = self.parser.callbacks().dark;
        let epoch = self.epoch;
        *self = Self::new(rows, cols);
        self.epoch = epoch + 1;
        self.parser.callbacks_mut().dark = dark;
    }

    pub(crate) fn size(&self) -> (u16, u16) {
        let (rows, cols) = self.parser.screen().size();
        (rows.get(), cols.get())
    }

    /// True when the size really changed.
    pub(crate) fn resize(&mut self, rows: NonZeroU16, cols: NonZeroU16) -> bool {
        if self.parser.screen().size() == (rows, cols) {
            return false;
        }
        let parser = &mut self.parser;
        if catch_unwind(AssertUnwindSafe(|| parser.set_size(rows, cols))).is_err() {
            *self = Self::new(rows, cols);
        }
        // Lines move between screen and scrollback here.
        self.epoch += 1;
        self.last_base = self.base();
        true
    }

    /// Whether the browser draws light on dark, for programs that ask.
    pub(crate) fn set_dark(&mut self, dark: bool) {
        self.parser.callbacks_mut().dark = dark;
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let (rows, cols) = self.size();
        let base = self.base();
        let screen = self.parser.screen();
        let lines = (0..rows).map(|row| Arc::from(encode::row(screen, row, cols))).collect();
        let (row, col) = screen.cursor_position();
        let side = self.parser.callbacks();
        Snapshot {
            rows,
            cols,
            lines,
            cursor: (row, col.min(cols - 1), !screen.hide_cursor(), cursor_shape(screen.cursor_style())),
            modes: modes(screen, side.focus_reports),
            first: side.discarded,
            base,
            epoch: self.epoch,
            title: side.title.clone(),
            bells: side.bells,
        }
    }

    /// Lines `from..to` that scrolled away, as far as they are still kept.
    pub(crate) fn history(&mut self, from: usize, to: usize) -> History {
        let first = self.parser.callbacks().discarded;
        let base = self.base();
        let (rows, cols) = self.size();
        let from = from.clamp(first, base);
        let to = to.clamp(from, base);
        let screen = self.parser.screen_mut();
        let mut lines = Vec::with_capacity(to - from);
        let mut at = from;
        while at < to && !screen.alternate_screen() {
            screen.set_scrollback(base - at);
            let take = u16::try_from(to - at).unwrap_or(u16::MAX).min(rows);
            lines.extend((0..take).map(|row| encode::row(screen, row, cols)));
            at += usize::from(take);
        }
        screen.set_scrollback(0);
        History { epoch: self.epoch, from, lines }
    }

    fn base(&self) -> usize {
        let screen = self.parser.screen();
        if screen.alternate_screen() {
            // The other screen's scrollback is out of reach meanwhile.
            return self.last_base.max(self.parser.callbacks().discarded);
        }
        self.parser.callbacks().discarded + screen.scrollback_len()
    }

    fn track_base(&mut self) {
        let base = self.base();
        if base < self.last_base {
            self.epoch += 1;
        }
        self.last_base = base;
    }
}

fn modes(screen: &Screen, focus: bool) -> u16 {
    let mouse = screen.mouse_protocol_mode();
    let bits = [
        (screen.application_cursor(), mode::APP_CURSOR),
        (screen.bracketed_paste(), mode::BRACKETED_PASTE),
        (screen.application_keypad(), mode::APP_KEYPAD),
        (screen.alternate_screen(), mode::ALT_SCREEN),
        (focus, mode::FOCUS),
        (mouse != MouseProtocolMode::None, mode::MOUSE_PRESS),
        (matches!(mouse, MouseProtocolMode::ButtonMotion | MouseProtocolMode::AnyMotion), mode::MOUSE_DRAG),
        (mouse == MouseProtocolMode::AnyMotion, mode::MOUSE_MOVE),
        (screen.mouse_protocol_encoding() == MouseProtocolEncoding::Sgr, mode::MOUSE_SGR),
    ];
    bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum()
}

fn cursor_shape(style: CursorStyle) -> u8 {
    match style {
        CursorStyle::Default | CursorStyle::BlinkBlock | CursorStyle::SteadyBlock => 0,
        CursorStyle::BlinkUnderline | CursorStyle::SteadyUnderline => 1,
        CursorStyle::BlinkVerticalBar | CursorStyle::SteadyVerticalBar => 2,
    }
}

impl vt100::Callbacks for Side {
    fn audible_bell(&mut self, _: &mut Screen) {
        self.bells = self.bells.wrapping_add(1);
    }

    fn visual_bell(&mut self, _: &mut Screen) {
        self.bells = self.bells.wrapping_add(1);
    }

    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        let title: String =
            String::from_utf8_lossy(title).chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect();
        self.title = Arc::from(title);
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        i1: Option<u8>,
        i2: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        let first = params.first().and_then(|p| p.first()).copied().unwrap_or(0);
        let (row, col) = screen.cursor_position();
        let (rows, cols) = screen.size();
        let reply = match (i1, i2, c, first) {
            // Primary and secondary device attributes: a VT220 with colour.
            (None, None, 'c', 0) => "\x1b[?62;22c".to_owned(),
            (Some(b'>'), None, 'c', 0) => "\x1b[>1;10;0c".to_owned(),
            // Device status and cursor position.
            (None, None, 'n', 5) => "\x1b[0n".to_owned(),
            (None, None, 'n', 6) => {
                format!("\x1b[{};{}R", row + 1, col.min(cols.get() - 1) + 1)
            }
            (Some(b'?'), None, 'n', 6) => {
                format!("\x1b[?{};{}R", row + 1, col.min(cols.get() - 1) + 1)
            }
            // Text area size in characters.
            (None, None, 't', 18) => format!("\x1b[8;{rows};{cols}t"),
            // "Do you know this mode?" — no.
            (Some(b'?'), Some(b'$'), 'p', mode) => format!("\x1b[?{mode};0$y"),
            (None | Some(b'$'), _, 'p', mode) if i1 == Some(b'$') => {
                format!("\x1b[{mode};0$y")
            }
            (Some(b'?'), None, 'h' | 'l', _) => {
                if params.iter().any(|p| p.first() == Some(&1004)) {
                    self.focus_reports = c == 'h';
                }
                return;
            }
            _ => return,
        };
        self.replies.extend_from_slice(reply.as_bytes());
    }

    fn unhandled_osc(&mut self, _: &mut Screen, params: &[&[u8]]) {
        // Default colours, which editors ask for to pick a light or dark scheme.
        let dark = match params {
            [b"10", b"?", ..] => !self.dark,
            [b"11", b"?", ..] => self.dark,
            _ => return,
        };
        let value = if dark { "1414/1616/1b1b" } else { "fafa/fbfb/fcfc" };
        let code = String::from_utf8_lossy(params[0]);
        self.replies.extend_from_slice(format!("\x1b]{code};rgb:{value}\x1b\\").as_bytes());
    }

    fn on_scroll(&mut self, _: vt100::capture::RowContents<'_>, alternate_screen: bool) {
        if !alternate_screen {
            self.discarded += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulator(rows: u16, cols: u16) -> Emulator {
        Emulator::new(NonZeroU16::new(rows).unwrap(), NonZeroU16::new(cols).unwrap())
    }

    #[test]
    fn answers_what_programs_ask() {
        let mut emulator = emulator(24, 80);
        let cases: [(&str, &str); 7] = [
            ("ab\x1b[6n", "\x1b[1;3R"),
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[c", "\x1b[?62;22c"),
            ("\x1b[>c", "\x1b[>1;10;0c"),
            ("\x1b[18t", "\x1b[8;24;80t"),
            ("\x1b[?2026$p", "\x1b[?2026;0$y"),
            ("\x1b]11;?\x07", "\x1b]11;rgb:1414/1616/1b1b\x1b\\"),
        ];
        for (question, answer) in cases {
            let reply = emulator.feed(question.as_bytes());
            assert_eq!(String::from_utf8_lossy(&reply), answer, "{question:?}");
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let mut emulator = emulator(3, 10);
        for n in 0..SCROLLBACK + 10 {
            emulator.feed(format!("l{n}\r\n").as_bytes());
        }
        let snapshot = emulator.snapshot();
        // Of n lines and the empty one the cursor is on, three are on screen.
        assert_eq!(snapshot.base, SCROLLBACK + 10 - 2);
        assert_eq!(snapshot.first, snapshot.base - SCROLLBACK);
        let history = emulator.history(100, 107);
        assert_eq!(history.from, 100);
        assert_eq!(history.lines.len(), 7);
        assert_eq!(history.lines[6], r#"[0,"l106"]"#);
        // Reading history leaves the live screen in view.
        assert!(emulator.snapshot() == snapshot);
    }

    #[test]
    fn a_resize_or_reset_starts_a_new_epoch() {
        let mut emulator = emulator(3, 10);
        emulator.feed(b"1\r\n2\r\n3\r\n4\r\n5");
        let before = emulator.snapshot();
        assert!(emulator.resize(NonZeroU16::new(5).unwrap(), NonZeroU16::new(10).unwrap()));
        let grown = emulator.snapshot();
        assert_eq!(grown.base, 0);
        assert_ne!(grown.epoch, before.epoch);
        emulator.feed(b"\r\n6\r\n7\x1bc");
        assert_ne!(emulator.snapshot().epoch, grown.epoch);
    }

    #[test]
    fn back_tab_moves_left() {
        let mut emulator = emulator(2, 40);
        emulator.feed(b"0123456789abcdefghij\x1b[Z");
        assert_eq!(emulator.snapshot().cursor.1, 16);
        emulator.feed(b"\x1b[Z");
        assert_eq!(emulator.snapshot().cursor.1, 8);
        emulator.feed(b"\x1b[9Z");
        assert_eq!(emulator.snapshot().cursor.1, 0);
    }

    #[test]
    fn survives_noise() {
        let mut emulator = emulator(5, 7);
        let mut seed = 0x2545_f491_u32;
        let alphabet = b"\x1b[]0123456789;?$mHJKLMPSTXrhl@ \xed\x95\x9c\xff\r\n\x08\tqb(";
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..500)
                .map(|_| {
                    seed ^= seed << 13;
                    seed ^= seed >> 17;
                    seed ^= seed << 5;
                    alphabet[seed as usize % alphabet.len()]
                })
                .collect();
            emulator.feed(&bytes);
            emulator.resize(
                NonZeroU16::new(1 + (seed % 20) as u16).unwrap(),
                NonZeroU16::new(1 + (seed / 7 % 30) as u16).unwrap(),
            );
            emulator.snapshot();
        }
    }
}
