//! Reads WebSocket frame headers out of a stream of bytes, wherever it is cut: to tell messages from
//! pings, and to know where a frame of our own may be put. Payloads are passed by, never kept.

use crate::idle::Piece;

/// What a piece of the stream contained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FrameContents {
    /// Bytes of a text, binary or continuation frame.
    pub data: bool,
    /// A close frame began.
    pub close: bool,
}

/// The longest header: two bytes, an eight-byte length, a mask.
const MAX_HEADER: usize = 14;

/// Where in the stream of frames we are.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    header: [u8; MAX_HEADER],
    have: u8,
    /// Of the current frame's payload.
    remaining: u64,
    length: u64,
    in_data: bool,
    /// The current frame is the first of its message.
    starts: bool,
    /// A close frame has passed (or is passing).
    closed: bool,
    /// The stream is no WebSocket (any more): nothing can be said about it, and everything counts.
    opaque: bool,
}

impl Frames {
    /// For protocols that are not WebSocket: every byte is data, and no boundary is known.
    pub(crate) fn opaque() -> Self {
        Self { opaque: true, ..Self::default() }
    }

    /// Between two frames: a control frame may go here.
    pub(crate) fn at_boundary(&self) -> bool {
        !self.opaque && self.have == 0 && self.remaining == 0
    }

    pub(crate) fn close_has_passed(&self) -> bool {
        self.closed
    }

    pub(crate) fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> FrameContents {
        self.feed_each(bytes, |_| {})
    }

    /// Takes the next bytes of the stream and shows the payload of data frames as it passes. Of an opaque stream nothing is shown.
    pub(crate) fn feed_each(&mut self, mut bytes: &[u8], mut show: impl FnMut(Piece<'_>)) -> FrameContents {
        let mut seen = FrameContents::default();
        if self.opaque {
            seen.data = !bytes.is_empty();
            return seen;
        }
        while !bytes.is_empty() {
            if self.remaining > 0 {
                let skip = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(bytes.len());
                let at = self.length - self.remaining;
                self.remaining -= skip as u64;
                let (payload, rest) = bytes.split_at(skip);
                bytes = rest;
                if self.in_data {
                    seen.data = true;
                    show(self.piece(payload, at));
                }
                continue;
            }
            let need = self.header_length();
            let have = usize::from(self.have);
            let take = (need - have).min(bytes.len());
            self.header[have..have + take].copy_from_slice(&bytes[..take]);
            self.have += take as u8;
            bytes = &bytes[take..];
            // The second byte tells how long the header really is.
            if usize::from(self.have) < self.header_length() {
                continue;
            }
            self.begin(&mut seen);
            if self.opaque {
                seen.data = true;
                return seen;
            }
            if self.in_data && self.remaining == 0 {
                show(self.piece(&[], 0));
            }
        }
        seen
    }

    /// Describes a part of the current frame: its header is kept until the next one begins.
    fn piece<'a>(&self, bytes: &'a [u8], at: u64) -> Piece<'a> {
        let [first, second, rest @ ..] = &self.header;
        let length_bytes = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = rest[length_bytes..].first_chunk::<4>().filter(|_| second & 0x80 != 0);
        Piece {
            bytes,
            mask: mask.copied(),
            at,
            starts: self.starts && at == 0,
            ends: first & 0x80 != 0 && self.remaining == 0,
            compressed: first & 0x70 != 0,
        }
    }

    fn header_length(&self) -> usize {
        if self.have < 2 {
            return 2;
        }
        let mask = if self.header[1] & 0x80 != 0 { 4 } else { 0 };
        let length = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + mask
    }

    fn begin(&mut self, seen: &mut FrameContents) {
        let [_, second, rest @ ..] = &self.header;
        self.remaining = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes([rest[0], rest[1]])),
            127 => {
                let mut length = [0; 8];
                length.copy_from_slice(&rest[..8]);
                u64::from_be_bytes(length)
            }
            short => u64::from(short),
        };
        self.length = self.remaining;
        let opcode = self.header[0] & 0x0f;
        self.have = 0;
        match opcode {
            0x0..=0x2 => {
                self.in_data = true;
                self.starts = opcode != 0;
                seen.data = true;
            }
            0x8 => {
                self.in_data = false;
                self.closed = true;
                seen.close = true;
            }
            0x9 | 0xa => self.in_data = false,
            // Reserved: either side knows more than we do.
            _ => self.opaque = true,
        }
    }
}

/// A close frame from us. Towards a server it must be masked; any mask will do, so it is zero.
pub(crate) fn close_frame(code: u16, reason: &str, masked: bool) -> Vec<u8> {
    let mut reason = reason;
    while reason.len() > 123 {
        let mut end = reason.len() - 1;
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason = &reason[..end];
    }
    let length = (reason.len() + 2) as u8;
    let mut frame = vec![0x88, length | if masked { 0x80 } else { 0 }];
    if masked {
        frame.extend_from_slice(&[0; 4]);
    }
    frame.extend_from_slice(&code.to_be_bytes());
    frame.extend_from_slice(reason.as_bytes());
    frame
}
