//! The messages of an exec, in a stream of bytes: four bytes of length, then so many bytes, the first of which says what
//! the rest is. Both sides of the line read with this, and neither trusts the other.

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;

/// The longest message, with its first byte.
pub const LONGEST: usize = 64 * 1024;
/// The length before a message.
const PREFIX: usize = 4;

/// What a message is: its first byte. 0 to 4 and 255 are those of Kubernetes' remote command protocol.
pub mod channel {
    /// To the program.
    pub const STDIN: u8 = 0;
    /// From the program.
    pub const STDOUT: u8 = 1;
    /// From the program, where it has no terminal.
    pub const STDERR: u8 = 2;
    /// How it ended; the last message.
    pub const END: u8 = 3;
    /// The terminal's new size.
    pub const RESIZE: u8 = 4;
    /// What to run; the first message.
    pub const START: u8 = 5;
    /// A signal for the program.
    pub const SIGNAL: u8 = 6;
    /// One byte names a channel that ends.
    pub const CLOSE: u8 = 255;
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is: see [`channel`].
    pub channel: u8,
    /// The rest.
    pub payload: Bytes,
}

/// A stream that is not one of messages.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The other side speaks something else.
    #[error("a message of {0} bytes, where 1 to {LONGEST} are allowed")]
    Length(usize),
    /// It ended within a message.
    #[error("the stream ended within a message")]
    Cut,
    /// The line failed, or the other side gave up.
    #[error("{0}")]
    Line(String),
}

/// A message with its length. The payload must fit ([`LONGEST`]).
pub fn encode(channel: u8, payload: &[u8]) -> Bytes {
    let mut frame = OpenFrame::new(channel, payload.len());
    frame.0.extend_from_slice(payload);
    frame.close()
}

/// A message that is still written.
pub(crate) struct OpenFrame(pub(crate) BytesMut);

impl OpenFrame {
    /// With room for so many bytes.
    pub(crate) fn new(channel: u8, room: usize) -> Self {
        let mut bytes = BytesMut::with_capacity(PREFIX + 1 + room);
        bytes.put_bytes(0, PREFIX);
        bytes.put_u8(channel);
        Self(bytes)
    }

    pub(crate) fn close(self) -> Bytes {
        let mut bytes = self.0;
        let length = u32::try_from(bytes.len() - PREFIX).unwrap_or(u32::MAX);
        bytes[..PREFIX].copy_from_slice(&length.to_be_bytes());
        bytes.freeze()
    }
}

/// The messages of a body.
pub struct Messages<B> {
    body: B,
    read: BytesMut,
}

impl<B> Messages<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// Reads a body from its beginning.
    pub fn new(body: B) -> Self {
        Self { body, read: BytesMut::new() }
    }

    /// The next message; `None` at the end. Can be cancelled without losing anything.
    ///
    /// # Errors
    /// That is no message, or there will not be one. Nothing can be read after that.
    pub async fn next(&mut self) -> Result<Option<Message>, MessageError> {
        loop {
            if let Some(message) = take(&mut self.read)? {
                return Ok(Some(message));
            }
            match self.body.frame().await {
                None if self.read.is_empty() => return Ok(None),
                None => return Err(MessageError::Cut),
                Some(Err(error)) => return Err(MessageError::Line(error.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

fn take(read: &mut BytesMut) -> Result<Option<Message>, MessageError> {
    let Some(prefix) = read.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if !(1..=LONGEST).contains(&length) {
        return Err(MessageError::Length(length));
    }
    if read.len() < PREFIX + length {
        return Ok(None);
    }
    let mut message = read.split_to(PREFIX + length).split_off(PREFIX);
    let payload = message.split_off(1).freeze();
    Ok(Some(Message { channel: message[0], payload }))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::stream;

    use super::*;

    fn in_pieces(bytes: &[u8], size: usize) -> Messages<Body> {
        let pieces: Vec<_> =
            bytes.chunks(size).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
        Messages::new(Body::from_stream(stream::iter(pieces)))
    }

    #[tokio::test]
    async fn messages_come_whole_however_they_are_cut() {
        let sent = [encode(1, b"one"), encode(255, &[0]), encode(2, &[b'x'; LONGEST - 1])].concat();
        for size in [1, 3, 7, 4096, sent.len()] {
            let mut messages = in_pieces(&sent, size);
            let mut found = Vec::new();
            while let Some(message) = messages.next().await.unwrap() {
                found.push((message.channel, message.payload.len()));
            }
            assert_eq!(found, [(1, 3), (255, 1), (2, LONGEST - 1)], "{size}");
        }
    }

    #[tokio::test]
    async fn garbage_is_refused_before_it_is_kept() {
        for (bytes, error) in [
            (&b"\0\0\0\0"[..], "0 bytes"),
            (&b"\0\x01\0\x01x"[..], "65537 bytes"),
            (&b"GET / HTTP/1.1\r\n"[..], "bytes, where"),
            (&b"\0\0\0\x05\x01ab"[..], "ended within"),
        ] {
            let found = in_pieces(bytes, 2).next().await.unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
    }
}
