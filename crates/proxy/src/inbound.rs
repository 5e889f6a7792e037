//! What a workspace answers, taken apart: the head of an HTTP/1.1 response, and its body by whatever
//! frames it. Strict: what two readers could take differently is no answer.

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header};
use http_body::{Frame, SizeHint};

use super::headers;

/// As many as are taken from clients.
pub(super) const MAX_HEADERS: usize = 100;
/// The size of a chunk with all its extensions, the line end included.
const MAX_SIZE_LINE: usize = 1024;

/// It is not HTTP, or could be read in two ways.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(pub(super) &'static str);

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Self {
        Self(match error {
            httparse::Error::TooManyHeaders => "too many headers",
            httparse::Error::HeaderName => "an invalid header name",
            httparse::Error::HeaderValue => "an invalid header value",
            httparse::Error::Status => "an invalid status",
            httparse::Error::Version => "an invalid version",
            _ => "invalid bytes in a head",
        })
    }
}

/// The head of an answer, if all of it is there; it is then taken from the bytes.
///
/// # Errors
/// It is none.
pub(super) fn head(bytes: &mut Bytes) -> Result<Option<Response<()>>, Malformed> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let parsing = httparse::ParserConfig::default();
    let found = parsing.parse_response_with_uninit_headers(&mut parsed, bytes, &mut lines)?;
    let httparse::Status::Complete(length) = found else { return Ok(None) };
    let mut response = Response::new(());
    *response.status_mut() =
        parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(Malformed("an invalid status"))?;
    *response.version_mut() = if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    *response.headers_mut() = fields(bytes, parsed.headers)?;
    bytes.advance(length);
    Ok(Some(response))
}

/// Values are not copied: they are parts of what was read.
pub(super) fn fields(bytes: &Bytes, lines: &[httparse::Header<'_>]) -> Result<HeaderMap, Malformed> {
    let mut headers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let name = name.map_err(|_| Malformed("an invalid header name"))?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(line.value));
        headers.append(name, value.map_err(|_| Malformed("an invalid header value"))?);
    }
    Ok(headers)
}

/// Whether the connection may be used again after this answer.
pub(super) fn keeps_alive(response: &Response<()>) -> bool {
    let says = |what: &[u8]| {
        headers::tokens(response.headers(), &header::CONNECTION).any(|it| it.eq_ignore_ascii_case(what))
    };
    if response.version() == Version::HTTP_11 { !says(b"close") } else { says(b"keep-alive") }
}

/// Where in the body of an answer we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Incoming {
    /// So much is still to come.
    Length(u64),
    Chunks(Chunk),
    /// Whatever comes until the connection is closed.
    UntilClose,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Before a line with a size.
    Size,
    Data(u64),
    /// Before the line end that follows the data.
    DataEnd,
    /// After the last chunk.
    Trailers,
}

/// What the bytes at hand give of a body.
pub(super) enum Step {
    Frame(Frame<Bytes>),
    /// Nothing, before more has been read.
    More,
    Ended,
}

impl Incoming {
    /// How the body of this answer is framed (RFC 9112 §6.3).
    ///
    /// # Errors
    /// It says so in more than one way, or in one that we do not know.
    pub(super) fn of(request: &Method, response: &Response<()>) -> Result<Self, Malformed> {
        let (status, headers) = (response.status(), response.headers());
        let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
        let length = lengths.next();
        if lengths.next().is_some() {
            return Err(Malformed("more than one Content-Length"));
        }
        let chunked = headers.contains_key(header::TRANSFER_ENCODING);
        if chunked {
            let mut codings = headers::tokens(headers, &header::TRANSFER_ENCODING);
            if !codings.next().is_some_and(|it| it.eq_ignore_ascii_case(b"chunked"))
                || codings.next().is_some()
            {
                return Err(Malformed("an unknown Transfer-Encoding"));
            }
            if length.is_some() {
                return Err(Malformed("both Content-Length and Transfer-Encoding"));
            }
            if response.version() == Version::HTTP_10 {
                return Err(Malformed("Transfer-Encoding in HTTP/1.0"));
            }
        }
        let length =
            length.map(|length| decimal(length.as_bytes()).ok_or(Malformed("an invalid Content-Length")));
        let length = length.transpose()?;
        let none = *request == Method::HEAD
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        Ok(match length {
            _ if none => Self::Ended,
            _ if chunked => Self::Chunks(Chunk::Size),
            Some(0) => Self::Ended,
            Some(length) => Self::Length(length),
            None => Self::UntilClose,
        })
    }

    pub(super) fn size_hint(self) -> SizeHint {
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
    pub(super) fn step(&mut self, bytes: &mut Bytes) -> Result<Step, Malformed> {
        loop {
            match self {
                Self::Ended => return Ok(Step::Ended),
                _ if bytes.is_empty() => return Ok(Step::More),
                Self::UntilClose => return Ok(Step::Frame(Frame::data(std::mem::take(bytes)))),
                Self::Length(left) => {
                    let data = up_to(left, bytes);
                    if *left == 0 {
                        *self = Self::Ended;
                    }
                    return Ok(Step::Frame(Frame::data(data)));
                }
                Self::Chunks(chunk) => match chunk.step(bytes)? {
                    Chunked::Next(next) => *chunk = next,
                    Chunked::Data(data) => return Ok(Step::Frame(Frame::data(data))),
                    Chunked::More => return Ok(Step::More),
                    Chunked::Ended(trailers) => {
                        *self = Self::Ended;
                        if !trailers.is_empty() {
                            return Ok(Step::Frame(Frame::trailers(trailers)));
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
    fn step(&mut self, bytes: &mut Bytes) -> Result<Chunked, Malformed> {
        match self {
            Self::Size => {
                let Some(line) = bytes.iter().take(MAX_SIZE_LINE).position(|&b| b == b'\n') else {
                    let endless = bytes.len() >= MAX_SIZE_LINE;
                    return if endless { Err(Malformed("an endless chunk size")) } else { Ok(Chunked::More) };
                };
                let size = size(&bytes[..line]).ok_or(Malformed("an invalid chunk size"))?;
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
                    return Err(Malformed("a chunk longer than its size"));
                }
                if bytes.len() < 2 {
                    return Ok(Chunked::More);
                }
                bytes.advance(2);
                Ok(Chunked::Next(Self::Size))
            }
            Self::Trailers => {
                let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
                let httparse::Status::Complete((length, lines)) = httparse::parse_headers(bytes, &mut lines)?
                else {
                    return Ok(Chunked::More);
                };
                let trailers = fields(bytes, lines)?;
                bytes.advance(length);
                Ok(Chunked::Ended(trailers))
            }
        }
    }
}

fn up_to(left: &mut u64, bytes: &mut Bytes) -> Bytes {
    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= now as u64;
    bytes.split_to(now)
}

/// Digits, and nothing but digits.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// The number on the line before a chunk, without its line feed.
fn size(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r")?;
    let end = line.iter().position(|&b| b == b';').unwrap_or(line.len());
    let (digits, extensions) = line.split_at(end);
    let digits = digits.trim_ascii_end();
    let plain = !digits.is_empty() && digits.len() <= 16 && digits.iter().all(u8::is_ascii_hexdigit);
    if !plain || extensions.contains(&b'\r') {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
#[path = "tests/inbound.rs"]
mod tests;
