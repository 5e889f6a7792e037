//! Bodies, taken apart by whatever frames them, whichever side they come from. Strict, as heads are.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use super::head::{MAX_HEADERS, fields, lines_end_as_they_should};
use crate::{
    error::Malformed,
    policy::{HeaderKind, kind},
};

/// The size of a chunk with all its extensions, the line end included.
const MAX_SIZE_LINE: usize = 1024;
/// All trailers together.
const MAX_TRAILERS: usize = 64 * 1024;

/// Where in a body we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// So much is still to come.
    Length(u64),
    Chunks(Chunk),
    /// Whatever comes until the connection is closed.
    UntilClose,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Before a line with a size.
    Size,
    Data(u64),
    /// Before the line end that follows the data.
    DataEnd,
    /// After the last chunk.
    Trailers,
}

/// What the bytes at hand give of a body.
pub(crate) enum Decoded {
    Frame(Frame<Bytes>),
    /// Nothing, before more has been read.
    More,
    Ended,
}

impl Decoder {
    pub(crate) fn size_hint(self) -> SizeHint {
        match self {
            Self::Ended => SizeHint::with_exact(0),
            Self::Length(left) => SizeHint::with_exact(left),
            Self::Chunks(_) | Self::UntilClose => SizeHint::default(),
        }
    }

    /// Takes the next piece from what has been read.
    ///
    /// # Errors
    /// The body is not framed as it was announced.
    pub(crate) fn step(&mut self, bytes: &mut BytesMut) -> Result<Decoded, Malformed> {
        loop {
            match self {
                Self::Ended => return Ok(Decoded::Ended),
                _ if bytes.is_empty() => return Ok(Decoded::More),
                Self::UntilClose => return Ok(Decoded::Frame(Frame::data(bytes.split().freeze()))),
                Self::Length(left) => {
                    let data = up_to(left, bytes);
                    if *left == 0 {
                        *self = Self::Ended;
                    }
                    return Ok(Decoded::Frame(Frame::data(data)));
                }
                Self::Chunks(chunk) => match chunk.step(bytes)? {
                    Chunked::Next(next) => *chunk = next,
                    Chunked::Data(data) => return Ok(Decoded::Frame(Frame::data(data))),
                    Chunked::More => return Ok(Decoded::More),
                    Chunked::Ended(trailers) => {
                        *self = Self::Ended;
                        if !trailers.is_empty() {
                            return Ok(Decoded::Frame(Frame::trailers(trailers)));
                        }
                    }
                },
            }
        }
    }
}

enum Chunked {
    Next(Chunk),
    Data(Bytes),
    More,
    Ended(HeaderMap),
}

impl Chunk {
    fn step(&mut self, bytes: &mut BytesMut) -> Result<Chunked, Malformed> {
        match self {
            Self::Size => {
                let Some(line) = bytes.iter().take(MAX_SIZE_LINE).position(|&b| b == b'\n') else {
                    let endless = bytes.len() >= MAX_SIZE_LINE;
                    return if endless {
                        Err(Malformed::new("an endless chunk size"))
                    } else {
                        Ok(Chunked::More)
                    };
                };
                let size = size(&bytes[..line]).ok_or(Malformed::new("an invalid chunk size"))?;
                bytes.advance(line + 1);
                Ok(Chunked::Next(if size == 0 { Self::Trailers } else { Self::Data(size) }))
            }
            Self::Data(0) => Ok(Chunked::Next(Self::DataEnd)),
            Self::Data(left) => {
                if bytes.is_empty() {
                    return Ok(Chunked::More);
                }
                Ok(Chunked::Data(up_to(left, bytes)))
            }
            Self::DataEnd => {
                if !b"\r\n".starts_with(&bytes[..bytes.len().min(2)]) {
                    return Err(Malformed::new("a chunk longer than its size"));
                }
                if bytes.len() < 2 {
                    return Ok(Chunked::More);
                }
                bytes.advance(2);
                Ok(Chunked::Next(Self::Size))
            }
            Self::Trailers => {
                let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
                let length = match httparse::parse_headers(bytes, &mut lines)? {
                    httparse::Status::Complete((length, _)) => Some(length),
                    httparse::Status::Partial => None,
                };
                if !lines_end_as_they_should(&bytes[..length.unwrap_or(bytes.len())]) {
                    return Err(Malformed::new("a bare line feed"));
                }
                match length {
                    Some(length) => trailers(&bytes.split_to(length).freeze()).map(Chunked::Ended),
                    None if bytes.len() >= MAX_TRAILERS => Err(Malformed::too_large("endless trailers")),
                    None => Ok(Chunked::More),
                }
            }
        }
    }
}

fn trailers(section: &Bytes) -> Result<HeaderMap, Malformed> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
    match httparse::parse_headers(section, &mut lines)? {
        httparse::Status::Complete((_, lines)) => {
            // What frames, addresses or speaks for a message has no place behind it.
            let is_own = |line: &&httparse::Header<'_>| kind(line.name.as_bytes()) == HeaderKind::Other;
            fields(section, lines.iter().filter(is_own))
        }
        httparse::Status::Partial => Ok(HeaderMap::new()),
    }
}

fn up_to(left: &mut u64, bytes: &mut BytesMut) -> Bytes {
    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= now as u64;
    bytes.split_to(now).freeze()
}

/// The number on the line before a chunk, without its line feed. Extensions are passed over.
fn size(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r")?;
    let end = line.iter().position(|&b| b == b';').unwrap_or(line.len());
    let (digits, extensions) = line.split_at(end);
    let blank = digits.iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let digits = &digits[..digits.len() - blank];
    let plain = (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    if !plain || extensions.iter().any(|b| b.is_ascii_control() && *b != b'\t') {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
