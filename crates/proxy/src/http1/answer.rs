//! Answers to HTTP/1 clients: copied line by line as they come from a workspace, or written from a response.

use std::{cell::RefCell, time::SystemTime};

use bytes::{BufMut as _, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header};
use http_body::Body as _;

use super::{
    decode::Decoder,
    encode::{Framing, Outbound},
    head,
};
use crate::{
    http1::body::ProxyBody,
    policy::{
        self, HeaderKind, Named, ResponsePolicy, Verdict, copy_lines, is_event_stream, location::Mount, put,
    },
};

/// What the client that is answered asked, as far as it shapes the answer.
pub(crate) struct Asked {
    pub method: Method,
    pub version: Version,
    /// It takes trailers.
    pub trailers: bool,
    /// It wants no other answer on this connection.
    pub close: bool,
}

/// An answer of a workspace, whose head has been written for the client.
pub(crate) struct Copied {
    pub status: StatusCode,
    /// How its body leaves; `None`: there is none.
    pub framing: Option<Framing>,
    /// An event stream, whose heartbeats are nobody's work.
    pub events: bool,
}

/// Writes the head of a workspace's answer for an HTTP/1.1 client that takes no trailers.
pub(crate) fn copy(
    out: &mut BytesMut,
    answer: &head::Answer<'_>,
    method: &Method,
    place: Mount<'_>,
    request_id: &[u8],
    close: bool,
) -> Copied {
    let named = Named::of(answer.lines.iter());
    let policy = ResponsePolicy { named: &named, place };
    let (mut dated, mut events, mut opener) = (false, false, false);
    let counts =
        *method == Method::HEAD && answer.status != StatusCode::NO_CONTENT || !has_no_body(answer.status);
    out.reserve(answer.lines.raw().len() + 256);
    begin(out, answer.status);
    for line in answer.lines.iter() {
        dated |= line.kind == HeaderKind::Date;
        events |= line.kind == HeaderKind::ContentType && is_event_stream(line.value);
        opener |= line.kind == HeaderKind::OpenerPolicy;
    }
    copy_lines(out, answer.lines.iter(), |line| {
        if line.kind == HeaderKind::ContentLength && !counts { Verdict::Drop } else { policy.judge(line) }
    });
    put(out, &[b"x-request-id: ", request_id, b"\r\n"]);
    if place.apart {
        let says = policy::APART.into_iter().chain((!opener).then_some(policy::OPENER_POLICY));
        for (name, value) in says {
            put(out, &[name.as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
    }
    let framing = match answer.body {
        Decoder::Ended => None,
        Decoder::Length(length) => Some(Framing::Length(length)),
        Decoder::Chunks(_) | Decoder::UntilClose => {
            out.put_slice(b"transfer-encoding: chunked\r\n");
            Some(Framing::Chunks(Vec::new()))
        }
    };
    end_head(out, dated, close, Version::HTTP_11);
    Copied { status: answer.status, framing, events }
}

/// Writes the head of an answer and takes its body. Whether the connection has to be closed behind it.
pub(crate) fn write(
    answer: &mut Outbound<ProxyBody>,
    response: Response<ProxyBody>,
    asked: &Asked,
    close: bool,
) -> bool {
    let (parts, body) = response.into_parts();
    let mut close = close || asked.close || says_close(&parts.headers);
    let out = answer.head();
    begin(out, parts.status);
    let frames = [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    for (name, value) in parts.headers.iter().filter(|(name, _)| !frames.contains(name)) {
        put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    let framing = if asked.method == Method::HEAD || has_no_body(parts.status) {
        // What there would be to get.
        let asked_for = asked.method == Method::HEAD && parts.status != StatusCode::NO_CONTENT;
        let length = match parts.headers.get(header::CONTENT_LENGTH) {
            Some(length) => Some(length.clone()),
            None => body.size_hint().exact().filter(|length| *length > 0).map(HeaderValue::from),
        };
        if let Some(length) = length.filter(|_| asked_for) {
            put(out, &[b"content-length: ", length.as_bytes(), b"\r\n"]);
        }
        None
    } else {
        match body.size_hint().exact() {
            Some(length) => {
                put(out, &[b"content-length: ", length.to_string().as_bytes(), b"\r\n"]);
                (length > 0).then_some(Framing::Length(length))
            }
            None if asked.version == Version::HTTP_10 => {
                close = true;
                Some(Framing::UntilClose)
            }
            None => {
                out.put_slice(b"transfer-encoding: chunked\r\n");
                let wanted = asked.trailers.then(|| policy::announced_trailers(&parts.headers));
                Some(Framing::Chunks(wanted.unwrap_or_default()))
            }
        }
    };
    let dated = parts.headers.contains_key(header::DATE);
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        out.put_slice(b"connection: upgrade\r\n");
        end_head(out, dated, false, Version::HTTP_11);
    } else {
        end_head(out, dated, close, asked.version);
    }
    if let Some(framing) = framing {
        answer.follow_with(body, framing);
    }
    close
}

fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

fn says_close(headers: &HeaderMap) -> bool {
    policy::tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case(b"close"))
}

fn begin(out: &mut BytesMut, status: StatusCode) {
    let reason = status.canonical_reason().unwrap_or_default();
    put(out, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
}

fn end_head(out: &mut BytesMut, dated: bool, close: bool, version: Version) {
    if !dated {
        put_date(out);
    }
    if close {
        out.put_slice(b"connection: close\r\n");
    } else if version == Version::HTTP_10 {
        out.put_slice(b"connection: keep-alive\r\n");
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
