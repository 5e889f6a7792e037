//! The beginning of VS Code's messages, as far as the rules need it.
//!
//! A WebSocket of VS Code carries a stream of messages with a header of 13 bytes: type, id,
//! acknowledged id, length. Inside a regular message is one of two protocols: that of the management
//! connection (a serialized array: kind, request id, channel, command) or that of the extension host
//! (kind, request id, a number, the method's name). Both are internal to VS Code, so nothing here is
//! relied on: what does not read like this is work.

/// Type, id, acknowledged id, length.
pub(super) const HEADER: usize = 13;
pub(super) const REGULAR: u8 = 1;
/// The largest known type: KeepAlive.
pub(super) const LAST_TYPE: u8 = 9;

/// What a regular message says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientMessage<'a> {
    /// A request: its number, and where it goes. The extension host has no channels.
    Call {
        id: u32,
        name: (&'a [u8], &'a [u8]),
    },
    /// The answer to a request of the other side.
    Reply {
        id: u32,
    },
    /// "I got request N", which says nothing.
    Receipt,
    Other,
}

/// `remoteterminal.$input`, or `telemetry.*`.
pub(super) fn is_call(pattern: &str, (channel, command): (&[u8], &[u8])) -> bool {
    let pattern = pattern.as_bytes();
    let (head, any) = pattern.strip_suffix(b"*").map_or((pattern, false), |head| (head, true));
    let dot: &[u8] = if channel.is_empty() { b"" } else { b"." };
    let mut name = channel.iter().chain(dot).chain(command);
    let same = head.iter().all(|byte| name.next() == Some(byte));
    same && (any || name.next().is_none())
}

pub(super) fn read(body: &[u8]) -> ClientMessage<'_> {
    // An extension host's second byte is the high byte of a small number: zero.
    if let [4, 2..=4, 6, ..] = body { management(body) } else { extension_host(body) }
}

fn management(body: &[u8]) -> ClientMessage<'_> {
    let mut reader = Reader(body.get(2..).unwrap_or_default());
    let (Some(kind), Some(id)) = (reader.number(), reader.number()) else { return ClientMessage::Other };
    match kind {
        // Promise, PromiseCancel, EventListen, EventDispose.
        100..=103 => match (reader.text(), reader.text()) {
            (Some(channel), Some(command)) => ClientMessage::Call { id, name: (channel, command) },
            _ => ClientMessage::Other,
        },
        // PromiseSuccess, PromiseError, PromiseErrorObj.
        201..=203 => ClientMessage::Reply { id },
        _ => ClientMessage::Other,
    }
}

fn extension_host(body: &[u8]) -> ClientMessage<'_> {
    let [kind, a, b, c, d, rest @ ..] = body else { return ClientMessage::Other };
    let id = u32::from_be_bytes([*a, *b, *c, *d]);
    match kind {
        // Requests with JSON or mixed arguments, each with and without cancellation.
        1..=4 => match rest {
            [_, length, rest @ ..] if usize::from(*length) <= rest.len() => {
                ClientMessage::Call { id, name: (&[], &rest[..usize::from(*length)]) }
            }
            _ => ClientMessage::Other,
        },
        5 => ClientMessage::Receipt,
        7..=12 => ClientMessage::Reply { id },
        _ => ClientMessage::Other,
    }
}

/// Reads VS Code's serialized values: a type, then the value.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u32> {
        self.tag(6)?;
        self.varint()
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        self.tag(1)?;
        let length = usize::try_from(self.varint()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn tag(&mut self, tag: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[tag])?;
        Some(())
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for shift in (0..28).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_protocols_are_read() {
        let call = b"\x04\x04\x06\x64\x06\x81\x02\x01\x0eremoteterminal\x01\x06$inputrest";
        assert_eq!(read(call), ClientMessage::Call { id: 257, name: (b"remoteterminal", b"$input") });
        assert_eq!(read(b"\x04\x02\x06\xc9\x01\x06\x07\x00"), ClientMessage::Reply { id: 7 });
        assert_eq!(read(b"\x04\x02\x06\xcc\x01\x06\x07{}"), ClientMessage::Other, "an event");
        let call = b"\x01\0\0\0\x09\x45\x05$ping\0\0\0\x02[]";
        assert_eq!(read(call), ClientMessage::Call { id: 9, name: (b"", b"$ping") });
        assert_eq!(read(b"\x05\0\0\0\x09"), ClientMessage::Receipt);
        assert_eq!(read(b"\x07\0\0\0\x09"), ClientMessage::Reply { id: 9 });
        for broken in [
            &b""[..],
            b"\x04\x04\x06",
            b"\x04\x04\x06\x64\x06\x01\x01\xff\xff\xff\xff\xff",
            b"\x01\0\0\0\x09\x45\xffshort",
            b"{}",
        ] {
            assert_eq!(read(broken), ClientMessage::Other, "{broken:?}");
        }
    }

    #[test]
    fn calls_are_named_exactly() {
        let telemetry = (&b"telemetry"[..], &b"ping"[..]);
        assert!(is_call("telemetry.ping", telemetry));
        assert!(is_call("telemetry.*", telemetry));
        assert!(!is_call("telemetry.pin", telemetry));
        assert!(!is_call("telemetry.pings", telemetry));
        assert!(is_call("$ping", (b"", b"$ping")));
        assert!(!is_call("$ping", (b"x", b"$ping")));
    }
}
