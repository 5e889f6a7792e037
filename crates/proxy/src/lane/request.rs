//! Which requests are plain. Whatever is in doubt is not.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{Method, Request, Uri};

use super::{
    super::{ProxyBody, inbound},
    names::{Known, known},
};

/// As many as the library takes.
const MAX_HEADERS: usize = 100;

type Lines<'b> = [MaybeUninit<httparse::Header<'b>>; MAX_HEADERS];

/// What the bytes at hand begin with.
pub(super) enum Judged<T> {
    Plain(T),
    NotPlain,
    /// The beginning of what may become a plain request.
    Half,
}

/// A plain request, as it was sent.
pub(super) struct Plain<'b> {
    pub bytes: &'b [u8],
    pub method: Method,
    pub target: &'b str,
    pub lines: &'b [httparse::Header<'b>],
    /// What each line is to us.
    pub known: &'b [Known],
    /// The client wants no other answer on this connection.
    pub close: bool,
}

pub(super) fn judge<T>(bytes: &[u8], then: impl FnOnce(&Plain<'_>) -> T) -> Judged<T> {
    let beginning = |with: &[u8]| bytes.starts_with(with) || with.starts_with(bytes);
    if bytes.is_empty() {
        return Judged::Half;
    }
    if !beginning(b"GET /w/") && !beginning(b"HEAD /w/") {
        return Judged::NotPlain;
    }
    let mut lines: Lines<'_> = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(bytes, &mut lines) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Judged::Half,
        Err(_) => return Judged::NotPlain,
    };
    let (Some(method), Some(target), Some(1)) = (parsed.method, parsed.path, parsed.version) else {
        return Judged::NotPlain;
    };
    let Some(head) = bytes.get(..length).filter(|head| lines_end_as_they_should(head)) else {
        return Judged::NotPlain;
    };
    let mut kinds = [Known::Other; MAX_HEADERS];
    let (mut hosts, mut close) = (0, false);
    for (line, kind) in parsed.headers.iter().zip(&mut kinds) {
        *kind = known(line.name);
        match kind {
            Known::Host => hosts += 1,
            Known::Connection => match closes(line.value) {
                Some(says) => close |= says,
                None => return Judged::NotPlain,
            },
            Known::ContentLength | Known::TransferEncoding | Known::Switch => return Judged::NotPlain,
            _ => {}
        }
    }
    if hosts != 1 {
        return Judged::NotPlain;
    }
    Judged::Plain(then(&Plain {
        bytes: head,
        method: if method == "GET" { Method::GET } else { Method::HEAD },
        target,
        known: &kinds[..parsed.headers.len()],
        lines: parsed.headers,
        close,
    }))
}

/// The same as the library would hand it out. `None`: it would not.
pub(super) fn whole(head: &[u8]) -> Option<Request<ProxyBody>> {
    let head = Bytes::copy_from_slice(head);
    let mut lines: Lines<'_> = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    parsed.parse_with_uninit_headers(&head, &mut lines).ok()?;
    let mut request = Request::new(ProxyBody::Empty);
    *request.method_mut() = parsed.method?.parse().ok()?;
    *request.uri_mut() = Uri::from_maybe_shared(head.slice_ref(parsed.path?.as_bytes())).ok()?;
    *request.headers_mut() = inbound::fields(&head, parsed.headers).ok()?;
    Some(request)
}

/// Every line feed has its carriage return. The parser takes them without, and what is passed on as it came must
/// mean the same to everybody.
pub(super) fn lines_end_as_they_should(head: &[u8]) -> bool {
    // Without an early end, so that many bytes are compared at once.
    let bare = head.iter().zip(head.iter().skip(1)).filter(|(a, b)| **b == b'\n' && **a != b'\r').count();
    bare == 0 && !head.starts_with(b"\n")
}

/// Whether `Connection` says that this is the end; `None` where it says anything else than that, or the opposite.
pub(super) fn closes(connection: &[u8]) -> Option<bool> {
    let mut closes = false;
    for token in connection.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
        if token.eq_ignore_ascii_case(b"close") {
            closes = true;
        } else if !token.is_empty() && !token.eq_ignore_ascii_case(b"keep-alive") {
            return None;
        }
    }
    Some(closes)
}
