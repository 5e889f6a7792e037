//! A small pass before the screen emulator, for what it leaves out.
//!
//! The emulator ignores character sets, `CSI s`/`CSI u`, `ESC D`/`ESC E` and
//! the backward tab, yet curses programs use all of them: line drawing in
//! `dialog` or `mc` arrives as letters after `ESC ( 0`. This pass follows the
//! escape-sequence grammar just far enough to rewrite those into what the
//! emulator does understand, and lets every other byte through unchanged. A
//! sequence that was begun and then replaced is cancelled with CAN, as the
//! grammar provides.

const ESC: u8 = 0x1b;
const CAN: u8 = 0x18;

/// DEC special graphics for 0x60..=0x7e.
const GRAPHICS: [char; 31] = [
    '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├',
    '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After `ESC` and an intermediate byte, which is kept.
    Designate(u8),
    /// In a CSI sequence; whether anything but plain digits was seen, and the number.
    Csi {
        plain: bool,
        empty: bool,
        number: u16,
    },
    /// In an OSC, DCS, PM, APC or SOS string.
    Text,
    TextEscape,
}

/// What the caller must do or know itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// Move left to a tab stop, this many times.
    BackTab(u16),
    /// The terminal was reset, scrollback and all.
    Reset,
}

#[derive(Default)]
pub(super) struct Filter {
    state: State,
    /// Whether G0 and G1 hold line drawing.
    graphics: [bool; 2],
    shifted: bool,
}

impl Filter {
    /// Consumes input into `out` until it ends (`None`) or something special is met.
    pub(super) fn run(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Special> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            if let Some(special) = self.byte(byte, out) {
                return Some(special);
            }
        }
        None
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Special> {
        match (self.state, byte) {
            (State::Ground, 0x0e) => self.shifted = true,
            (State::Ground, 0x0f) => self.shifted = false,
            (State::Ground, 0x60..=0x7e) if self.graphics[usize::from(self.shifted)] => {
                let drawn = GRAPHICS[usize::from(byte - 0x60)];
                out.extend_from_slice(drawn.encode_utf8(&mut [0; 4]).as_bytes());
                return None;
            }
            (State::Ground, ESC) => self.state = State::Escape,
            (State::Ground, _) => {}

            (State::Text, 0x07 | CAN | 0x1a) => self.state = State::Ground,
            (State::Text, ESC) => self.state = State::TextEscape,
            (State::Text, _) => {}
            (State::TextEscape, b'\\') => self.state = State::Ground,

            (_, CAN | 0x1a) => self.state = State::Ground,
            (_, ESC) => self.state = State::Escape,
            // Other control characters act at once and change no state.
            (_, 0x00..=0x1f) => {}

            (State::Escape | State::TextEscape, b'[') => {
                self.state = State::Csi { plain: true, empty: true, number: 0 };
            }
            (State::Escape | State::TextEscape, b']' | b'P' | b'^' | b'_' | b'X') => {
                self.state = State::Text;
            }
            (State::Escape | State::TextEscape, 0x20..=0x2f) => {
                self.state = State::Designate(byte);
            }
            (State::Escape, b'D') => return self.replace(b"\n", out),
            (State::Escape, b'E') => return self.replace(b"\r\n", out),
            (State::Escape, b'c') => {
                *self = Self::default();
                out.push(byte);
                return Some(Special::Reset);
            }
            (State::Escape | State::TextEscape, _) => self.state = State::Ground,

            (State::Designate(_), 0x20..=0x2f) => self.state = State::Designate(0),
            (State::Designate(set), _) => {
                match set {
                    b'(' => self.graphics[0] = byte == b'0',
                    b')' => self.graphics[1] = byte == b'0',
                    _ => {}
                }
                self.state = State::Ground;
            }

            (State::Csi { .. }, _) => return self.csi(byte, out),
        }
        out.push(byte);
        None
    }

    fn csi(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Special> {
        let State::Csi { plain, empty, number } = self.state else {
            return None;
        };
        match byte {
            b's' if empty => return self.replace(b"\x1b7", out),
            b'u' if empty => return self.replace(b"\x1b8", out),
            b'Z' if plain => {
                self.replace(b"", out);
                return Some(Special::BackTab(number.max(1)));
            }
            b'0'..=b'9' => {
                self.state = State::Csi {
                    plain,
                    empty: false,
                    number: number.saturating_mul(10).saturating_add(u16::from(byte - b'0')),
                };
            }
            0x40..=0x7e => self.state = State::Ground,
            _ => {
                self.state = State::Csi { plain: false, empty: false, number };
            }
        }
        out.push(byte);
        None
    }

    fn replace(&mut self, with: &[u8], out: &mut Vec<u8>) -> Option<Special> {
        self.state = State::Ground;
        out.push(CAN);
        out.extend_from_slice(with);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(input: &str) -> String {
        let mut out = Vec::new();
        // One byte at a time, as a slow pipe would deliver it.
        let mut filter = Filter::default();
        for byte in input.bytes() {
            filter.run(&mut [byte].as_slice(), &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn ordinary_output_is_untouched() {
        for text in [
            "plain 한글 text\r\n",
            "\x1b[1;31mred\x1b[0m",
            "\x1b]0;title qx\x07after",
            "\x1b]8;;http://x/\x1b\\link",
            "\x1bP+q544e\x1b\\x",
            "\x1b[?1049h\x1b[2J\x1b[>4;2m",
            "\x1b[1;2s",
        ] {
            assert_eq!(filtered(text), text);
        }
    }

    #[test]
    fn line_drawing_becomes_unicode() {
        assert_eq!(filtered("\x1b(0lqk\x1b(Blqk"), "\x1b(0┌─┐\x1b(Blqk");
        assert_eq!(filtered("\x1b)0a\x0eq\x0fq"), "\x1b)0a\x0e─\x0fq");
        assert_eq!(filtered("\x1b(0\x1b[1mq"), "\x1b(0\x1b[1m─");
    }

    #[test]
    fn missing_sequences_are_replaced() {
        assert_eq!(filtered("\x1b[s"), "\x1b[\x18\x1b7");
        assert_eq!(filtered("\x1b[u"), "\x1b[\x18\x1b8");
        assert_eq!(filtered("\x1bE"), "\x1b\x18\r\n");
        let mut out = Vec::new();
        let special = Filter::default().run(&mut b"\x1b[3Z".as_slice(), &mut out);
        assert_eq!(special, Some(Special::BackTab(3)));
    }
}
