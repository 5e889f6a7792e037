//! The screen of one terminal: bytes in, a picture and replies out.
//!
//! Wraps `alacritty_terminal`, which answers what programs ask and wraps long lines anew when the width changes, and numbers
//! the lines that scrolled away, so that a browser can fetch them later without confusion.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alacritty_terminal::Term;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use alacritty_terminal::term::{Config, Osc52, TermMode};
use alacritty_terminal::vte::ansi::{CursorShape, NamedColor, Processor, Rgb, Timeout};

use super::encode;

/// Lines kept above the screen.
pub(crate) const SCROLLBACK: usize = 5_000;

/// Room above those for what one piece of output scrolls away, so that it can be counted before it goes.
const ROOM: usize = 2 * PIECE;
const PIECE: usize = 4 << 10;

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
    term: Term<Side>,
    parser: Processor<AtOnce>,
    side: Side,
    /// Lines that fell off the far end of the scrollback.
    discarded: usize,
    last_base: usize,
    epoch: u32,
    last_byte: u8,
}

/// What the terminal reports besides the screen.
#[derive(Clone, Default)]
struct Side(Arc<Mutex<Reported>>);

#[derive(Default)]
struct Reported {
    replies: Vec<u8>,
    title: Arc<str>,
    bells: u32,
    light: bool,
}

impl Side {
    fn lock(&self) -> MutexGuard<'_, Reported> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Output is drawn as it comes: browsers get pictures, not bytes, so nothing is gained by holding it back.
#[derive(Default)]
struct AtOnce;

impl Timeout for AtOnce {
    fn set_timeout(&mut self, _: Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
struct Size {
    rows: NonZeroU16,
    cols: NonZeroU16,
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        self.rows.get().into()
    }

    fn columns(&self) -> usize {
        self.cols.get().into()
    }
}

impl Emulator {
    pub(crate) fn new(rows: NonZeroU16, cols: NonZeroU16) -> Self {
        let side = Side::default();
        let config =
            Config { scrolling_history: SCROLLBACK + ROOM, osc52: Osc52::Disabled, ..Config::default() };
        Self {
            term: Term::new(config, &Size { rows, cols }, side.clone()),
            parser: Processor::new(),
            side,
            discarded: 0,
            last_base: 0,
            epoch: 0,
            last_byte: 0,
        }
    }

    /// Feeds program output; returns what the terminal answers to the program.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        for piece in bytes.chunks(PIECE) {
            // What empties the scrollback has to be seen before it is filled again.
            let mut last = std::mem::replace(&mut self.last_byte, piece[piece.len() - 1]);
            for part in piece.split_inclusive(|&byte| {
                let before = std::mem::replace(&mut last, byte);
                byte == b'J' || byte == b'c' && before == 0x1b
            }) {
                self.process(part);
                self.count_lines();
            }
        }
        std::mem::take(&mut self.side.lock().replies)
    }

    /// A program can print anything; a bug in the emulator must cost it its
    /// screen, not the whole server.
    fn process(&mut self, bytes: &[u8]) {
        let Self { parser, term, .. } = self;
        if catch_unwind(AssertUnwindSafe(|| parser.advance(term, bytes))).is_err() {
            self.start_over(self.dimensions());
        }
    }

    fn start_over(&mut self, Size { rows, cols }: Size) {
        tracing::error!("the screen emulator failed on some output; the screen was reset");
        let (epoch, light) = (self.epoch, self.side.lock().light);
        *self = Self::new(rows, cols);
        self.epoch = epoch + 1;
        self.side.lock().light = light;
    }

    fn dimensions(&self) -> Size {
        let side = |n: usize| u16::try_from(n).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN);
        Size { rows: side(self.term.screen_lines()), cols: side(self.term.columns()) }
    }

    pub(crate) fn size(&self) -> (u16, u16) {
        let Size { rows, cols } = self.dimensions();
        (rows.get(), cols.get())
    }

    /// True when the size really changed.
    pub(crate) fn resize(&mut self, rows: NonZeroU16, cols: NonZeroU16) -> bool {
        let size = Size { rows, cols };
        if self.size() == (rows.get(), cols.get()) {
            return false;
        }
        let term = &mut self.term;
        if catch_unwind(AssertUnwindSafe(|| term.resize(size))).is_err() {
            self.start_over(size);
        }
        // Lines move between screen and scrollback here.
        self.epoch += 1;
        self.count_lines();
        true
    }

    /// Whether the browser draws light on dark, for programs that ask.
    pub(crate) fn set_dark(&mut self, dark: bool) {
        self.side.lock().light = !dark;
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let (rows, cols) = self.size();
        let (grid, modes) = (self.term.grid(), *self.term.mode());
        let lines = (0..rows).map(|row| Arc::from(encode::row(&grid[Line(row.into())]))).collect();
        let at = grid.cursor.point;
        let row = u16::try_from(at.line.0).unwrap_or(0);
        let col = u16::try_from(at.column.0).unwrap_or(u16::MAX).min(cols - 1);
        let shape = match self.term.cursor_style().shape {
            CursorShape::Underline => 1,
            CursorShape::Beam => 2,
            CursorShape::Block | CursorShape::HollowBlock | CursorShape::Hidden => 0,
        };
        let side = self.side.lock();
        Snapshot {
            rows,
            cols,
            lines,
            cursor: (row, col, modes.contains(TermMode::SHOW_CURSOR), shape),
            modes: mode_bits(modes),
            first: self.discarded,
            base: self.last_base,
            epoch: self.epoch,
            title: side.title.clone(),
            bells: side.bells,
        }
    }

    /// Lines `from..to` that scrolled away, as far as they are still kept.
    pub(crate) fn history(&mut self, from: usize, to: usize) -> History {
        let base = self.last_base;
        let from = from.clamp(self.discarded, base);
        // The other screen's scrollback is out of reach while a program has this one.
        let to = if self.on_other_screen() { from } else { to.clamp(from, base) };
        let grid = self.term.grid();
        let line = |n: usize| Line(-i32::try_from(base - n).unwrap_or(i32::MAX));
        let lines = (from..to).map(|n| encode::row(&grid[line(n)])).collect();
        History { epoch: self.epoch, from, lines }
    }

    fn on_other_screen(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Cuts the scrollback to its length, and numbers what is left.
    fn count_lines(&mut self) {
        if self.on_other_screen() {
            return;
        }
        let kept = self.term.history_size();
        if kept >= SCROLLBACK + ROOM {
            // More than that came at once, and nobody knows how much.
            self.epoch += 1;
        }
        if kept > SCROLLBACK {
            self.discarded += kept - SCROLLBACK;
            let grid = self.term.grid_mut();
            grid.update_history(SCROLLBACK);
            grid.update_history(SCROLLBACK + ROOM);
        }
        let base = self.discarded + self.term.history_size();
        if base < self.last_base {
            self.epoch += 1;
        }
        self.last_base = base;
    }
}

fn mode_bits(modes: TermMode) -> u16 {
    let bits = [
        (TermMode::APP_CURSOR, mode::APP_CURSOR),
        (TermMode::BRACKETED_PASTE, mode::BRACKETED_PASTE),
        (TermMode::APP_KEYPAD, mode::APP_KEYPAD),
        (TermMode::ALT_SCREEN, mode::ALT_SCREEN),
        (TermMode::FOCUS_IN_OUT, mode::FOCUS),
        (TermMode::MOUSE_MODE, mode::MOUSE_PRESS),
        (TermMode::MOUSE_DRAG | TermMode::MOUSE_MOTION, mode::MOUSE_DRAG),
        (TermMode::MOUSE_MOTION, mode::MOUSE_MOVE),
        (TermMode::SGR_MOUSE, mode::MOUSE_SGR),
    ];
    bits.iter().filter(|(any, _)| modes.intersects(*any)).map(|(_, bit)| bit).sum()
}

impl EventListener for Side {
    fn send_event(&self, event: Event) {
        let mut side = self.lock();
        match event {
            Event::PtyWrite(reply) => side.replies.extend_from_slice(reply.as_bytes()),
            Event::Title(title) => {
                let title: String = title.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect();
                side.title = Arc::from(title);
            }
            Event::ResetTitle => side.title = Arc::from(""),
            Event::Bell => side.bells = side.bells.wrapping_add(1),
            // Default colours, which editors ask for to pick a light or dark scheme.
            Event::ColorRequest(which, format) => {
                let light = match which {
                    _ if which == NamedColor::Foreground as usize => !side.light,
                    _ if which == NamedColor::Background as usize => side.light,
                    _ => return,
                };
                let [r, g, b] = if light { [0xfa, 0xfb, 0xfc] } else { [0x14, 0x16, 0x1b] };
                side.replies.extend_from_slice(format(Rgb { r, g, b }).as_bytes());
            }
            _ => {}
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
        let cases: [(&str, &str); 6] = [
            ("ab\x1b[6n", "\x1b[1;3R"),
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[c", "\x1b[?6c"),
            ("\x1b[18t", "\x1b[8;24;80t"),
            ("\x1b[?2004$p", "\x1b[?2004;2$y"),
            ("\x1b]11;?\x07", "\x1b]11;rgb:1414/1616/1b1b\x07"),
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
        emulator.feed(b"\r\n6\r\n7\r\n8");
        emulator.feed(b"\x1bc");
        assert_ne!(emulator.snapshot().epoch, grown.epoch);
    }

    fn resized(emulator: &mut Emulator, rows: u16, cols: u16) {
        emulator.resize(NonZeroU16::new(rows).unwrap(), NonZeroU16::new(cols).unwrap());
    }

    /// All that is kept, as text, a line for each row.
    fn text(emulator: &mut Emulator) -> Vec<String> {
        let snapshot = emulator.snapshot();
        let above = emulator.history(snapshot.first, snapshot.base).lines;
        let rows = above.into_iter().chain(snapshot.lines.iter().map(|line| line.to_string()));
        rows.map(|row| row.split_once(',').map_or_else(String::new, |(_, text)| text.replace(['"', ']'], "")))
            .collect()
    }

    #[test]
    fn a_narrower_screen_wraps_lines_anew_and_loses_nothing() {
        let mut emulator = emulator(3, 12);
        emulator.feed("above\r\n0123456789ab\r\n한글한글한글\r\n$ ".as_bytes());
        let before = text(&mut emulator);
        resized(&mut emulator, 3, 5);
        let narrow = text(&mut emulator);
        assert_eq!(narrow[..5], ["above", "01234", "56789", "ab", "[[한,글,-1,-1,32"], "{narrow:?}");
        resized(&mut emulator, 3, 12);
        assert_eq!(text(&mut emulator), before);
        // Behind the other screen as well.
        emulator.feed(b"\x1b[?1049hother");
        resized(&mut emulator, 4, 5);
        assert!(emulator.history(0, 9).lines.is_empty(), "out of reach meanwhile");
        resized(&mut emulator, 3, 12);
        emulator.feed(b"\x1b[?1049l");
        assert_eq!(text(&mut emulator), before);
    }

    #[test]
    fn what_is_cleared_and_filled_again_at_once_has_other_numbers() {
        for clear in ["\x1bc", "\x1b[H\x1b[2J\x1b[3J"] {
            let mut emulator = emulator(3, 10);
            emulator.feed("old\r\n".repeat(50).as_bytes());
            let before = emulator.snapshot();
            emulator.feed(format!("{clear}{}", "new\r\n".repeat(100)).as_bytes());
            let after = emulator.snapshot();
            assert!(after.base > before.base && after.epoch != before.epoch, "{clear:?}");
            assert!(text(&mut emulator).iter().all(|line| line != "old"));
        }
    }

    #[test]
    fn more_at_once_than_can_be_counted_has_other_numbers() {
        let mut emulator = emulator(3, 2);
        emulator.feed(b"\r\n\r\n\r\nx");
        let before = emulator.snapshot();
        emulator.feed(b"\x1b[65535b");
        let after = emulator.snapshot();
        assert_ne!(after.epoch, before.epoch);
        assert_eq!(after.base - after.first, SCROLLBACK);
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
                // Two, so that wide characters fit: callers give no less.
                NonZeroU16::new(2 + (seed / 7 % 30) as u16).unwrap(),
            );
            emulator.snapshot();
        }
    }
}
