//! The head of a request as a workspace gets it: the client's lines as far as they pass, and what we add.

use std::net::IpAddr;

use bytes::{BufMut as _, BytesMut};
use http::{HeaderMap, HeaderName};

use super::{Cookies, Line, RequestPolicy, Verdict};

pub(crate) const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Where a request came from, as the workspace is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forwarded<'a> {
    /// The chain of addresses up to us.
    pub chain: &'a [u8],
    pub proto: &'a [u8],
    pub host: Option<&'a [u8]>,
    /// `/w/{id}`
    pub prefix: &'a [u8],
}

impl<'a> Forwarded<'a> {
    /// What the connection shows, unless a trusted proxy says more. `chain` as [`forwarded_chain`] made it.
    pub(crate) fn new(
        claims: Option<&'a HeaderMap>,
        chain: &'a [u8],
        tls: bool,
        host: Option<&'a [u8]>,
        prefix: &'a [u8],
    ) -> Self {
        let claimed = |name| claims.and_then(|headers| headers.get(name)).map(http::HeaderValue::as_bytes);
        let scheme: &[u8] = if tls { b"https" } else { b"http" };
        let proto = claimed(FORWARDED_PROTO).unwrap_or(scheme);
        Self { chain, proto, host: claimed(FORWARDED_HOST).or(host), prefix }
    }
}

/// The addresses a request came by: what a trusted proxy says, and then its own.
pub(crate) fn forwarded_chain(claims: Option<&HeaderMap>, peer: IpAddr) -> Vec<u8> {
    let before = claims.and_then(|headers| headers.get(FORWARDED_FOR));
    let mut chain = before.map(|before| [before.as_bytes(), b", "].concat()).unwrap_or_default();
    chain.extend_from_slice(peer.to_canonical().to_string().as_bytes());
    chain
}

/// How the body of a request is framed on its way to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// There is none, and nothing is said about it.
    Nothing,
    /// So many bytes, none among them.
    Length(u64),
    Chunked,
}

/// Everything of a request's head that is ours to say.
pub(crate) struct RequestHead<'a> {
    pub method: &'a str,
    /// Path and query.
    pub target: &'a [u8],
    pub host: Option<&'a [u8]>,
    pub policy: RequestPolicy<'a>,
    /// `None`: it is told nothing of the way here.
    pub forwarded: Option<Forwarded<'a>>,
    pub request_id: &'a [u8],
    /// A header by which the workspace knows us.
    pub secret: Option<&'a str>,
    /// The protocol to switch to.
    pub upgrade: Option<&'a [u8]>,
    /// The client takes trailers.
    pub trailers: bool,
    /// The client waits for "100 Continue".
    pub expects: bool,
    pub body: Sent,
}

impl RequestHead<'_> {
    /// Writes the whole head, its empty line included.
    pub(crate) fn write<'l>(&self, out: &mut BytesMut, lines: impl Iterator<Item = Line<'l>>) {
        put(out, &[self.method.as_bytes(), b" ", self.target, b" HTTP/1.1\r\n"]);
        if let Some(host) = self.host {
            put(out, &[b"host: ", host, b"\r\n"]);
        }
        copy_lines(out, lines, |line| self.policy.judge(line));
        if let Cookies::Replaced(left) = self.policy.cookies
            && !left.trim_ascii().is_empty()
        {
            put(out, &[b"cookie: ", left, b"\r\n"]);
        }
        if let Some(secret) = self.secret {
            put(out, &[secret.as_bytes(), b"\r\n"]);
        }
        if let Some(protocol) = self.upgrade {
            put(out, &[b"connection: upgrade\r\nupgrade: ", protocol, b"\r\n"]);
        }
        if self.trailers {
            out.put_slice(b"te: trailers\r\n");
        }
        if self.expects {
            out.put_slice(b"expect: 100-continue\r\n");
        }
        if let Some(Forwarded { chain, proto, host, prefix }) = self.forwarded {
            put(out, &[b"x-forwarded-for: ", chain, b"\r\nx-forwarded-proto: ", proto]);
            if let Some(host) = host {
                put(out, &[b"\r\nx-forwarded-host: ", host]);
            }
            put(out, &[b"\r\nx-forwarded-prefix: ", prefix, b"\r\n"]);
        }
        put(out, &[b"x-request-id: ", self.request_id]);
        match self.body {
            Sent::Nothing => {}
            Sent::Length(length) => {
                put(out, &[b"\r\ncontent-length: ", length.to_string().as_bytes()]);
            }
            Sent::Chunked => out.put_slice(b"\r\ntransfer-encoding: chunked"),
        }
        out.put_slice(b"\r\n\r\n");
    }
}

/// Writes those lines that pass.
pub(crate) fn copy_lines<'l>(
    out: &mut BytesMut,
    lines: impl Iterator<Item = Line<'l>>,
    judge: impl Fn(&Line<'l>) -> Verdict<'l>,
) {
    for line in lines {
        match judge(&line) {
            Verdict::Keep if !line.raw.is_empty() => out.put_slice(line.raw),
            Verdict::Keep => put(out, &[line.name, b": ", line.value, b"\r\n"]),
            Verdict::Drop => {}
            Verdict::Replace(value) => put(out, &[line.name, b": ", &value, b"\r\n"]),
        }
    }
}

pub(crate) fn put(out: &mut BytesMut, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.put_slice(part));
}
