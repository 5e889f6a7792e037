//! Refuses HTTP/1 requests that two servers could read differently.
//!
//! The HTTP library reads some of them the lenient way the RFC allows: with both `Content-Length` and
//! `Transfer-Encoding` it drops the length, and a bare line feed ends a line. Both are safe here,
//! since every request is framed anew for the workspace, but both are also how smuggling begins, and
//! nothing honest sends them. By the time a handler sees the headers the evidence is gone, so this
//! stands between the socket and the library, follows where each request begins, and spoils such a
//! head: the library then answers 400 and closes.
//!
//! It is a filter for strictness only. Where it loses track (an upgrade, HTTP/2, a malformed body) it
//! steps aside, and the library's own parser remains the judge.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::small_writes::SmallWrites;

/// A head longer than this is the library's to refuse.
const MAX_HEAD: usize = 256 * 1024;
/// No head can contain this and be accepted.
const SPOILER: &[u8] = b"\0\r\n\r\n";

/// A connection from a client, as it should be served.
pub type Accepted = Strict<SmallWrites<TcpStream>>;

/// Puts a connection that was accepted behind the filter, with what has been read of it.
pub fn accepted(stream: TcpStream, read: BytesMut) -> Accepted {
    Strict { read, ..Strict::new(SmallWrites(stream)) }
}

/// A connection on which ambiguous requests are refused.
#[derive(Debug)]
pub struct Strict<T> {
    io: T,
    reader: Reader,
    /// Came before what is still to be read.
    read: BytesMut,
    /// What of the spoiler did not fit into the caller's buffer.
    rest: &'static [u8],
}

impl<T> Strict<T> {
    pub fn new(io: T) -> Self {
        Self { io, reader: Reader::default(), read: BytesMut::new(), rest: &[] }
    }

    pub fn into_inner(self) -> T {
        self.io
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Strict<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.rest.is_empty() {
            self.rest = put(buffer, self.rest);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        if self.read.is_empty() {
            ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        } else {
            let now = self.read.len().min(buffer.remaining());
            buffer.put_slice(&self.read.split_to(now));
            if self.read.is_empty() {
                self.read = BytesMut::new();
            }
        }
        if let Some(good) = self.reader.take(&buffer.filled()[before..]) {
            buffer.set_filled(before + good);
            self.rest = put(buffer, SPOILER);
        }
        Poll::Ready(Ok(()))
    }
}

fn put(buffer: &mut ReadBuf<'_>, bytes: &'static [u8]) -> &'static [u8] {
    let (now, later) = bytes.split_at(bytes.len().min(buffer.remaining()));
    buffer.put_slice(now);
    later
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Strict<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// Where in the stream of requests we are.
#[derive(Debug)]
enum Reader {
    /// In a head, of which this much came in earlier reads.
    Head(Vec<u8>),
    /// In a body of known length.
    Body(u64),
    Chunks(Chunk),
    /// Not ours to judge.
    Aside,
}

impl Default for Reader {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

#[derive(Debug, Clone, Copy)]
enum Chunk {
    /// In the size, then (`true`) in what follows it on the line.
    Size(u64, bool),
    Data(u64),
    /// The line end after the data.
    DataEnd,
    /// In a trailer line of that length so far, without its line end.
    Trailer(usize),
}

/// What a complete head says about the body that follows.
enum Head {
    Body(u64),
    Chunked,
    Aside,
}

impl Reader {
    /// Follows the bytes just read. `Some(n)` when a head that began at or before `n` must be
    /// refused: what comes before `n` belongs to earlier requests.
    fn take(&mut self, mut bytes: &[u8]) -> Option<usize> {
        let all = bytes.len();
        while !bytes.is_empty() {
            match self {
                Self::Aside => return None,
                Self::Body(left) => {
                    let skip = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= skip as u64;
                    if *left == 0 {
                        *self = Self::default();
                    }
                    bytes = &bytes[skip..];
                }
                Self::Chunks(chunk) => match chunk.take(&mut bytes) {
                    Follow::More => {}
                    Follow::End => *self = Self::default(),
                    Follow::Lost => *self = Self::Aside,
                },
                Self::Head(earlier) => {
                    let began = all - bytes.len();
                    let had = earlier.len();
                    let head: &[u8] = if had == 0 {
                        bytes
                    } else {
                        earlier.extend_from_slice(bytes);
                        earlier
                    };
                    match judge(head) {
                        Err(Refused) => return Some(began),
                        Ok(None) if head.len() > MAX_HEAD => *self = Self::Aside,
                        Ok(None) => {
                            if had == 0 {
                                earlier.extend_from_slice(bytes);
                            }
                            return None;
                        }
                        Ok(Some((length, head))) => {
                            bytes = &bytes[length - had..];
                            *self = match head {
                                Head::Body(0) => Self::default(),
                                Head::Body(length) => Self::Body(length),
                                Head::Chunked => Self::Chunks(Chunk::Size(0, false)),
                                Head::Aside => Self::Aside,
                            };
                        }
                    }
                }
            }
        }
        None
    }
}

struct Refused;

/// Reads a head up to its empty line. `None`: it is not complete yet.
fn judge(bytes: &[u8]) -> Result<Option<(usize, Head)>, Refused> {
    let mut at = 0;
    let mut first = true;
    let (mut length, mut chunked, mut aside) = (None, false, false);
    loop {
        let Some(end) = bytes[at..].iter().position(|&b| b == b'\n').map(|n| at + n) else {
            return Ok(None);
        };
        let Some(line) = bytes[at..end].strip_suffix(b"\r") else { return Err(Refused) };
        at = end + 1;
        if line.is_empty() {
            if first {
                // Empty lines before a request are ignored.
                continue;
            }
            break;
        }
        if first {
            first = false;
            // HTTP/2, or a tunnel.
            aside = line.starts_with(b"PRI ") || line.starts_with(b"CONNECT ");
            if aside {
                return Ok(Some((at, Head::Aside)));
            }
            continue;
        }
        if let Some(value) = value_of(line, b"content-length") {
            length = Some(std::str::from_utf8(value).ok().and_then(|value| value.parse::<u64>().ok()));
        } else if value_of(line, b"transfer-encoding").is_some() {
            chunked = true;
        } else if value_of(line, b"upgrade").is_some() {
            aside = true;
        }
    }
    let head = match (length, chunked) {
        (Some(_), true) => return Err(Refused),
        _ if aside => Head::Aside,
        (None, true) => Head::Chunked,
        (None, false) => Head::Body(0),
        (Some(Some(length)), false) => Head::Body(length),
        // No number: the library refuses it.
        (Some(None), false) => Head::Aside,
    };
    Ok(Some((at, head)))
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

enum Follow {
    More,
    End,
    Lost,
}

impl Chunk {
    /// Follows a chunked body to its end, one step at a time.
    fn take(&mut self, bytes: &mut &[u8]) -> Follow {
        if let Self::Data(left) = self {
            let skip = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            *left -= skip as u64;
            *bytes = &bytes[skip..];
            if *left == 0 {
                *self = Self::DataEnd;
            }
            return Follow::More;
        }
        let Some((&byte, rest)) = bytes.split_first() else { return Follow::More };
        *bytes = rest;
        *self = match (*self, byte) {
            (Self::Size(0, _), b'\n') => Self::Trailer(0),
            (Self::Size(size, _), b'\n') => Self::Data(size),
            (Self::Size(size, true), _) => Self::Size(size, true),
            (Self::Size(size, false), _) => match (byte as char).to_digit(16) {
                Some(digit) => match size.checked_mul(16) {
                    Some(size) => Self::Size(size + u64::from(digit), false),
                    None => return Follow::Lost,
                },
                None => Self::Size(size, true),
            },
            (Self::DataEnd, b'\n') => Self::Size(0, false),
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, _) => return Follow::Lost,
            (Self::Trailer(0), b'\n') => return Follow::End,
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(length), b'\r') => Self::Trailer(length),
            (Self::Trailer(length), _) => Self::Trailer(length.saturating_add(1)),
            (Self::Data(_), _) => return Follow::Lost,
        };
        Follow::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a stream is refused, whole and cut into every two pieces.
    fn refused(stream: &str) -> bool {
        let whole = Reader::default().take(stream.as_bytes()).is_some();
        for cut in 0..stream.len() {
            let mut reader = Reader::default();
            let (a, b) = stream.as_bytes().split_at(cut);
            let cut_up = reader.take(a).is_some() || reader.take(b).is_some();
            assert_eq!(cut_up, whole, "cut at {cut}: {stream:?}");
        }
        let mut reader = Reader::default();
        let by_bytes = stream.bytes().any(|byte| reader.take(&[byte]).is_some());
        assert_eq!(by_bytes, whole, "{stream:?}");
        whole
    }

    #[test]
    fn ambiguous_heads_are_refused_wherever_they_stand() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        let chunked =
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\n";
        let both = "POST / HTTP/1.1\r\nContent-Length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
        let swapped = "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\ncontent-length: 0\r\n\r\n";
        let bare = "GET / HTTP/1.1\nHost: a\n\n";
        let bare_once = "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n";
        for good in [get, post, chunked] {
            assert!(!refused(good), "{good:?}");
            for bad in [both, swapped, bare, bare_once] {
                assert!(refused(bad), "{bad:?}");
                assert!(refused(&format!("{good}{bad}")), "{good:?} {bad:?}");
            }
            for next in [get, post, chunked] {
                assert!(!refused(&format!("{good}{next}{good}")), "{good:?} {next:?}");
            }
        }
    }

    #[test]
    fn bodies_are_not_mistaken_for_heads() {
        let inner = "GET / HTTP/1.1\nContent-Length: 1\nTransfer-Encoding: chunked\n\n";
        let length = inner.len();
        assert!(!refused(&format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{inner}")));
        let chunk = format!("{length:x}\r\n{inner}\r\n0\r\n\r\n");
        assert!(!refused(&format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}")));
        assert!(!refused(&format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{inner}")));
        assert!(!refused(&format!("GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n{inner}")));
    }

    #[test]
    fn what_came_before_a_refused_head_is_kept() {
        let good = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        let stream = format!("{good}GET / HTTP/1.1\nHost: a\n\n");
        assert_eq!(Reader::default().take(stream.as_bytes()), Some(good.len()));
    }
}
