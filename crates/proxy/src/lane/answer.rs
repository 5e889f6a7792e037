//! Answers to the client: as they came where they are plain, else from what the phases made of them.

use std::{cell::RefCell, mem::MaybeUninit, time::SystemTime};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body::Body as _;

use super::{
    super::{
        ProxyBody, headers,
        inbound::{self, MAX_HEADERS, Malformed},
        outbound::{Framing, Outbound, field},
        wire::Answered,
    },
    express::{copy_lines, put},
    names::{Known, known},
    request::{closes, lines_end_as_they_should},
};

/// The head of a workspace's answer to an express request.
pub(super) enum Read {
    /// Already written for the client; so many bytes follow. The connection may be used again, or not.
    Plain { status: StatusCode, length: u64, keep: bool },
    /// To be taken apart.
    Other(Response<()>),
}

impl Answered for Read {
    fn status(&self) -> StatusCode {
        match self {
            Self::Plain { status, .. } => *status,
            Self::Other(response) => response.status(),
        }
    }
}

/// Reads the head of an answer, if all of it is there, and writes it for the client, if it is plain.
pub(super) fn read(
    ahead: &mut Bytes,
    method: &Method,
    id: &[u8; 32],
    close: bool,
    out: &mut BytesMut,
) -> Result<Option<Read>, Malformed> {
    match plain(ahead, method, id, close, out) {
        Some((length, read)) => {
            ahead.advance(length);
            Ok(Some(read))
        }
        None => Ok(inbound::head(ahead)?.map(Read::Other)),
    }
}

fn plain(
    ahead: &[u8],
    method: &Method,
    id: &[u8; 32],
    close: bool,
    out: &mut BytesMut,
) -> Option<(usize, Read)> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let parsing = httparse::ParserConfig::default();
    let found = parsing.parse_response_with_uninit_headers(&mut parsed, ahead, &mut lines).ok()?;
    let httparse::Status::Complete(end) = found else { return None };
    let head = &ahead[..end];
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok())?;
    if *method != Method::GET
        || parsed.version != Some(1)
        || has_no_body(status)
        || !lines_end_as_they_should(head)
    {
        return None;
    }
    let mut kinds = [Known::Other; MAX_HEADERS];
    let (mut length, mut keep, mut dated) = (None, true, false);
    for (line, kind) in parsed.headers.iter().zip(&mut kinds) {
        *kind = known(line.name);
        match kind {
            Known::Rewritten | Known::TransferEncoding => return None,
            Known::ContentType if headers::is_event_stream(line.value) => return None,
            Known::ContentLength => {
                let announced = inbound::decimal(line.value)?;
                if length.replace(announced).is_some() {
                    return None;
                }
            }
            Known::Connection => keep &= !closes(line.value)?,
            Known::Date => dated = true,
            _ => {}
        }
    }
    let length = length?;
    let goes = |kind: Known| {
        matches!(
            kind,
            Known::Connection | Known::HopByHop | Known::Switch | Known::OriginWide | Known::RequestId
        )
    };
    out.reserve(head.len() + 256);
    begin(out, status);
    copy_lines(out, head, parsed.headers, &kinds[..parsed.headers.len()], goes);
    put(out, &[b"x-request-id: ", id, b"\r\n"]);
    end_head(out, dated, close);
    Some((end, Read::Plain { status, length, keep }))
}

/// Writes the head of an answer and takes its body. Whether the connection has to be closed behind it.
pub(super) fn write(
    answer: &mut Outbound<ProxyBody>,
    response: Response<ProxyBody>,
    method: &Method,
    close: bool,
) -> bool {
    let (parts, body) = response.into_parts();
    let close = close || says_close(&parts.headers);
    let out = answer.head();
    begin(out, parts.status);
    let frames = [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    for (name, value) in parts.headers.iter().filter(|(name, _)| !frames.contains(name)) {
        field(out, name, value.as_bytes());
    }
    let framing = if *method == Method::HEAD || has_no_body(parts.status) {
        // What there would be to get.
        let asked_for = *method == Method::HEAD && parts.status != StatusCode::NO_CONTENT;
        let length = match parts.headers.get(header::CONTENT_LENGTH) {
            Some(length) => Some(length.clone()),
            None => body.size_hint().exact().filter(|length| *length > 0).map(HeaderValue::from),
        };
        if let Some(length) = length.filter(|_| asked_for) {
            field(out, &header::CONTENT_LENGTH, length.as_bytes());
        }
        None
    } else {
        match body.size_hint().exact() {
            Some(length) => {
                field(out, &header::CONTENT_LENGTH, length.to_string().as_bytes());
                (length > 0).then_some(Framing::Length(length))
            }
            None => {
                field(out, &header::TRANSFER_ENCODING, b"chunked");
                // Only requests that are not plain can ask for trailers.
                Some(Framing::Chunks(Vec::new()))
            }
        }
    };
    end_head(out, parts.headers.contains_key(header::DATE), close);
    if let Some(framing) = framing {
        answer.follow_with(body, framing);
    }
    close
}

fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

fn says_close(headers: &HeaderMap) -> bool {
    headers::tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case(b"close"))
}

fn begin(out: &mut BytesMut, status: StatusCode) {
    let reason = status.canonical_reason().unwrap_or_default();
    put(out, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
}

fn end_head(out: &mut BytesMut, dated: bool, close: bool) {
    if !dated {
        put_date(out);
    }
    if close {
        out.put_slice(b"connection: close\r\n");
    }
    out.put_slice(b"\r\n");
}

/// The time of day, written anew once a second.
fn put_date(out: &mut BytesMut) {
    thread_local!(static LINE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) });
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    LINE.with_borrow_mut(|(second, line)| {
        if *second != now {
            let date = i64::try_from(now).ok().and_then(|now| {
                let now = jiff::Timestamp::from_second(now).ok()?;
                jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok()
            });
            *line = date.map(|date| format!("date: {date}\r\n")).unwrap_or_default();
            *second = now;
        }
        out.put_slice(line.as_bytes());
    });
}
