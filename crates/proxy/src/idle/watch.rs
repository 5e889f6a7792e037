//! Follows the messages of one WebSocket, in both directions, and says which of them are work.

use std::sync::Arc;

use super::{Facts, Framing, From, LOOK, Rules, SocketRules, vscode};
use crate::activity::ActivityKind;

/// Requests whose replies are idle too, remembered while they wait: more than these only mean that a
/// late reply counts.
const WAITING: usize = 64;

/// A part of a data frame's payload, as it passes.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    pub bytes: &'a [u8],
    /// Still applied to the bytes.
    pub mask: Option<[u8; 4]>,
    /// Where in the frame the bytes begin.
    pub at: u64,
    /// The first of its message.
    pub starts: bool,
    /// The last of its message.
    pub ends: bool,
    /// An extension changed the payload.
    pub compressed: bool,
}

impl Piece<'_> {
    fn take(&self, from: usize, count: usize, into: &mut Vec<u8>) {
        let bytes = &self.bytes[from..from + count];
        match self.mask {
            None => into.extend_from_slice(bytes),
            Some(mask) => {
                let first = self.at as usize + from;
                into.extend(bytes.iter().enumerate().map(|(i, byte)| byte ^ mask[(first + i) & 3]));
            }
        }
    }
}

/// The messages of one WebSocket.
#[derive(Debug)]
pub struct Watch {
    rules: Arc<Rules>,
    /// Which of them are this socket's.
    at: usize,
    browser: Side,
    workspace: Side,
}

#[derive(Debug, Default)]
struct Side {
    /// Header and first bytes of the message under way, until they are judged. Nothing is allocated
    /// between messages.
    first_bytes: Vec<u8>,
    /// What is left of a message that has been judged.
    left: u64,
    /// What it was judged to be.
    kind: Option<ActivityKind>,
    judged: bool,
    /// The stream is not what the rules were made for: everything is work.
    lost: bool,
    idle_calls: Vec<u32>,
}

impl Watch {
    /// `None` where there are no rules for this path (below `/w/{id}`).
    pub fn new(rules: &Arc<Rules>, path: &str) -> Option<Self> {
        let at = rules.socket_at(path)?;
        Some(Self { rules: rules.clone(), at, browser: Side::default(), workspace: Side::default() })
    }

    /// Whether a WebSocket with this query was opened by nobody.
    pub fn is_reconnection(&self, query: Option<&str>) -> bool {
        self.rules.socket.get(self.at).is_some_and(|rules| rules.is_reconnection(query))
    }

    /// What kinds of work a piece brought; `seen` is told of each.
    pub fn feed(&mut self, from: From, piece: Piece<'_>, mut seen: impl FnMut(ActivityKind)) {
        let Some(rules) = self.rules.socket.get(self.at) else { return seen(from.other_work()) };
        let (side, other) = match from {
            From::Browser => (&mut self.browser, &mut self.workspace),
            From::Workspace => (&mut self.workspace, &mut self.browser),
        };
        if piece.compressed {
            side.lost = true;
        }
        if side.lost {
            return seen(from.other_work());
        }
        match rules.framing {
            Framing::Websocket => side.message(from, piece, rules, &mut seen),
            Framing::Vscode => side.stream(from, piece, rules, other, &mut seen),
        }
        if side.first_bytes.is_empty() {
            side.first_bytes = Vec::new();
        }
    }
}

impl Side {
    fn message(
        &mut self,
        from: From,
        piece: Piece<'_>,
        rules: &SocketRules,
        seen: &mut impl FnMut(ActivityKind),
    ) {
        if piece.starts {
            (self.judged, self.kind) = (false, None);
            self.first_bytes.clear();
        }
        if !self.judged {
            let room = LOOK - self.first_bytes.len();
            piece.take(0, room.min(piece.bytes.len()), &mut self.first_bytes);
            if !piece.ends && self.first_bytes.len() < LOOK {
                return;
            }
            let facts = Facts { from, message_type: None, call: None, first_bytes: &self.first_bytes };
            self.kind = rules.judge(&facts);
            self.judged = true;
            self.first_bytes.clear();
        }
        if let Some(kind) = self.kind {
            seen(kind);
        }
    }

    /// VS Code's messages do not begin and end with those of the WebSocket.
    fn stream(
        &mut self,
        from: From,
        piece: Piece<'_>,
        rules: &SocketRules,
        other: &mut Self,
        seen: &mut impl FnMut(ActivityKind),
    ) {
        let mut at = 0;
        while at < piece.bytes.len() {
            let here = piece.bytes.len() - at;
            if self.left > 0 {
                let skip = usize::try_from(self.left).unwrap_or(usize::MAX).min(here);
                self.left -= skip as u64;
                at += skip;
                if let Some(kind) = self.kind {
                    seen(kind);
                }
                continue;
            }
            let wanted = match self.length() {
                None => vscode::HEADER,
                Some(length) => vscode::HEADER + length.min(LOOK),
            };
            let take = (wanted - self.first_bytes.len()).min(here);
            piece.take(at, take, &mut self.first_bytes);
            at += take;
            let Some(length) = self.length() else { continue };
            if self.first_bytes[0] == 0 || self.first_bytes[0] > vscode::LAST_TYPE {
                self.lost = true;
                return seen(from.other_work());
            }
            if self.first_bytes.len() < vscode::HEADER + length.min(LOOK) {
                continue;
            }
            self.kind = self.judge(from, rules, other);
            self.left = length.saturating_sub(LOOK) as u64;
            self.first_bytes.clear();
            if let Some(kind) = self.kind {
                seen(kind);
            }
        }
    }

    /// Of the body, once the header is there.
    fn length(&self) -> Option<usize> {
        let header = self.first_bytes.first_chunk::<{ vscode::HEADER }>()?;
        Some(u32::from_be_bytes([header[9], header[10], header[11], header[12]]) as usize)
    }

    fn judge(&mut self, from: From, rules: &SocketRules, other: &mut Self) -> Option<ActivityKind> {
        let (header, body) = self.first_bytes.split_at(vscode::HEADER);
        let said =
            if header[0] == vscode::REGULAR { vscode::read(body) } else { vscode::ClientMessage::Other };
        let call = match said {
            vscode::ClientMessage::Receipt => return None,
            vscode::ClientMessage::Reply { id } => {
                if let Some(at) = other.idle_calls.iter().position(|waiting| *waiting == id) {
                    other.idle_calls.swap_remove(at);
                    return None;
                }
                None
            }
            vscode::ClientMessage::Call { name, .. } => Some(name),
            vscode::ClientMessage::Other => None,
        };
        let facts = Facts { from, message_type: Some(header[0]), call, first_bytes: body };
        let kind = rules.judge(&facts);
        if let Some(kind) = kind {
            // Names, never contents: what somebody types is theirs.
            let (channel, command) = call.unwrap_or_default();
            tracing::trace!(
                kind = kind.as_str(),
                message_type = header[0],
                channel = %String::from_utf8_lossy(channel),
                command = %String::from_utf8_lossy(command),
                bytes = body.len(),
                "a message is work"
            );
        }
        if let (None, vscode::ClientMessage::Call { id, .. }) = (kind, said) {
            if self.idle_calls.len() == WAITING {
                self.idle_calls.remove(0);
            }
            self.idle_calls.push(id);
        }
        kind
    }
}
