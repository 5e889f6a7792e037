//! The heads of messages. Strict: what two readers could take differently is no message (RFC 9112 §§ 2–6).

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};

use super::decode::{Chunk, Decoder};
use crate::{
    error::Malformed,
    policy::{HeaderKind, Line, items, kind},
};

/// More are refused, from either side.
pub(crate) const MAX_HEADERS: usize = 100;
/// A head is not longer than this.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

type Slots<'b> = [MaybeUninit<httparse::Header<'b>>; MAX_HEADERS];

/// The lines of a head, and what each is to us.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'b> {
    /// The whole head, from its first byte to its empty line.
    raw: &'b [u8],
    lines: &'b [httparse::Header<'b>],
    kinds: &'b [HeaderKind],
}

impl<'b> Lines<'b> {
    pub(crate) fn iter(self) -> impl Iterator<Item = Line<'b>> + Clone {
        let begin = move |line: &httparse::Header<'_>| line.name.as_ptr().addr() - self.raw.as_ptr().addr();
        // The empty line at the end is not one of them.
        let end = self.raw.len() - 2;
        self.lines.iter().zip(self.kinds).enumerate().map(move |(n, (line, kind))| {
            let next = self.lines.get(n + 1).map_or(end, begin);
            Line {
                name: line.name.as_bytes(),
                value: line.value,
                kind: *kind,
                raw: &self.raw[begin(line)..next],
            }
        })
    }

    /// The whole head, as it came.
    pub(crate) fn raw(self) -> &'b [u8] {
        self.raw
    }
}

/// The head of a request, as it was sent.
pub(crate) struct Request<'b> {
    pub method: &'b str,
    pub target: &'b str,
    pub version: Version,
    pub lines: Lines<'b>,
    pub body: Decoder,
    /// The client wants no other answer on this connection.
    pub close: bool,
}

/// The head of an answer, as it was sent.
pub(crate) struct Answer<'b> {
    pub status: StatusCode,
    pub lines: Lines<'b>,
    pub body: Decoder,
    /// The connection may be used again afterwards.
    pub keep: bool,
}

/// Looks at the head of a request, if all of it is there.
///
/// # Errors
/// It is none.
pub(crate) fn request<T>(bytes: &[u8], then: impl FnOnce(&Request<'_>) -> T) -> Result<Option<T>, Malformed> {
    let mut slots: Slots<'_> = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(bytes, &mut slots)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return partial(bytes),
    };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Malformed::new("an invalid request line"));
    };
    let mut kinds = [HeaderKind::Other; MAX_HEADERS];
    let lines = lines(&bytes[..length], parsed.headers, &mut kinds)?;
    let facts = Facts::of(lines, minor)?;
    if facts.hosts > 1 {
        return Err(Malformed::new("more than one Host"));
    }
    let body = match facts.length {
        _ if facts.chunked => Decoder::Chunks(Chunk::Size),
        Some(length) if length > 0 => Decoder::Length(length),
        _ => Decoder::Ended,
    };
    let close = !facts.keeps_alive(minor);
    Ok(Some(then(&Request { method, target, version: version(minor), lines, body, close })))
}

/// Looks at the head of an answer to a request of this method, if all of it is there.
///
/// # Errors
/// It is none.
pub(crate) fn answer<T>(
    bytes: &[u8],
    to: &Method,
    then: impl FnOnce(&Answer<'_>) -> T,
) -> Result<Option<T>, Malformed> {
    let mut slots: Slots<'_> = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let parsing = httparse::ParserConfig::default();
    let length = match parsing.parse_response_with_uninit_headers(&mut parsed, bytes, &mut slots)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return partial(bytes),
    };
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let (Some(status), Some(minor)) = (status, parsed.version) else {
        return Err(Malformed::new("an invalid status"));
    };
    let mut kinds = [HeaderKind::Other; MAX_HEADERS];
    let lines = lines(&bytes[..length], parsed.headers, &mut kinds)?;
    let facts = Facts::of(lines, minor)?;
    let never = status.is_informational() || status == StatusCode::NO_CONTENT;
    let body = match facts.length {
        _ if never || *to == Method::HEAD || status == StatusCode::NOT_MODIFIED => Decoder::Ended,
        _ if facts.chunked => Decoder::Chunks(Chunk::Size),
        Some(0) => Decoder::Ended,
        Some(length) => Decoder::Length(length),
        None => Decoder::UntilClose,
    };
    // One that frames a body it cannot have may well send it.
    let contradicts = never && (facts.chunked || facts.length.is_some_and(|length| length > 0));
    let keep = facts.keeps_alive(minor) && !contradicts;
    Ok(Some(then(&Answer { status, lines, body, keep })))
}

/// More has to be read, unless what is there is wrong already.
fn partial<T>(bytes: &[u8]) -> Result<Option<T>, Malformed> {
    if !lines_end_as_they_should(bytes) {
        return Err(Malformed::new("a bare line feed"));
    }
    if bytes.len() >= MAX_HEAD { Err(Malformed::too_large("an endless head")) } else { Ok(None) }
}

fn version(minor: u8) -> Version {
    if minor == 1 { Version::HTTP_11 } else { Version::HTTP_10 }
}

fn lines<'b>(
    raw: &'b [u8],
    lines: &'b [httparse::Header<'b>],
    kinds: &'b mut [HeaderKind; MAX_HEADERS],
) -> Result<Lines<'b>, Malformed> {
    if raw.len() > MAX_HEAD {
        return Err(Malformed::too_large("an endless head"));
    }
    if !lines_end_as_they_should(raw) {
        return Err(Malformed::new("a bare line feed"));
    }
    for (line, kind_of) in lines.iter().zip(kinds.iter_mut()) {
        *kind_of = kind(line.name.as_bytes());
    }
    Ok(Lines { raw, lines, kinds: &kinds[..lines.len()] })
}

/// Every line feed has its carriage return. The parser takes them without, and what is passed on as it came must
/// mean the same to everybody.
pub(crate) fn lines_end_as_they_should(head: &[u8]) -> bool {
    // Without an early end, so that many bytes are compared at once.
    let bare = head.iter().zip(head.iter().skip(1)).filter(|(a, b)| **b == b'\n' && **a != b'\r').count();
    bare == 0 && !head.starts_with(b"\n")
}

/// What the lines of a head say about the message and its connection.
#[derive(Default)]
struct Facts {
    length: Option<u64>,
    chunked: bool,
    hosts: usize,
    close: bool,
    keep_alive: bool,
}

impl Facts {
    fn of(lines: Lines<'_>, minor: u8) -> Result<Self, Malformed> {
        let mut facts = Self::default();
        for line in lines.iter() {
            match line.kind {
                HeaderKind::ContentLength => {
                    let length = decimal(line.value).ok_or(Malformed::new("an invalid Content-Length"))?;
                    if facts.length.replace(length).is_some() {
                        return Err(Malformed::new("more than one Content-Length"));
                    }
                }
                HeaderKind::TransferEncoding => {
                    // Anything but plain chunked would be passed on still encoded but no longer marked.
                    if facts.chunked || !line.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Malformed::new("an unknown Transfer-Encoding"));
                    }
                    facts.chunked = true;
                }
                HeaderKind::Host => facts.hosts += 1,
                HeaderKind::Connection => {
                    for token in items(line.value) {
                        facts.close |= token.eq_ignore_ascii_case(b"close");
                        facts.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                _ => {}
            }
        }
        if facts.chunked && facts.length.is_some() {
            return Err(Malformed::new("both Content-Length and Transfer-Encoding"));
        }
        if facts.chunked && minor == 0 {
            return Err(Malformed::new("Transfer-Encoding in HTTP/1.0"));
        }
        Ok(facts)
    }

    fn keeps_alive(&self, minor: u8) -> bool {
        !self.close && (minor == 1 || self.keep_alive)
    }
}

/// Digits, and nothing but digits.
fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// The head of a request that [`request`] took, taken apart. `None`: its target is no address.
pub(crate) fn whole_request(head: &Bytes) -> Option<http::Request<()>> {
    let mut slots: Slots<'_> = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    parsed.parse_with_uninit_headers(head, &mut slots).ok()?;
    let mut request = http::Request::new(());
    *request.method_mut() = parsed.method?.parse().ok()?;
    *request.uri_mut() = http::Uri::from_maybe_shared(head.slice_ref(parsed.path?.as_bytes())).ok()?;
    *request.version_mut() = version(parsed.version?);
    *request.headers_mut() = fields(head, &*parsed.headers).ok()?;
    Some(request)
}

/// The head of an answer that [`answer`] took, taken apart.
///
/// # Errors
/// A name or value is none.
pub(crate) fn whole_answer(head: &Bytes) -> Result<Response<()>, Malformed> {
    let mut slots: Slots<'_> = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, head, &mut slots)?;
    let mut response = Response::new(());
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    *response.status_mut() = status.ok_or(Malformed::new("an invalid status"))?;
    *response.version_mut() = version(parsed.version.unwrap_or_default());
    *response.headers_mut() = fields(head, &*parsed.headers)?;
    Ok(response)
}

/// Values are not copied: they are parts of what was read.
pub(super) fn fields<'l>(
    bytes: &Bytes,
    lines: impl IntoIterator<Item = &'l httparse::Header<'l>>,
) -> Result<HeaderMap, Malformed> {
    let lines = lines.into_iter();
    let mut headers = HeaderMap::with_capacity(lines.size_hint().0);
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let name = name.map_err(|_| Malformed::new("an invalid header name"))?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(line.value));
        headers.append(name, value.map_err(|_| Malformed::new("an invalid header value"))?);
    }
    Ok(headers)
}
