//! WebSockets of the API itself. Connections are read by the proxy's own codec, so an answer "101" hands the connection
//! over ([`Takeover`]) instead of being upgraded by a library.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, extract::FromRequestParts, http::request::Parts, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use codehub_proxy::{front::Takeover, tls::ClientStream};
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use http::{
    HeaderValue, StatusCode,
    header::{
        AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::error::{ApiError, Code, Result};
use crate::{app::App, auth::origin};

/// The longest message, either way.
pub(super) const LONGEST: usize = 64 * 1024;
/// Who is silent is asked this often whether they are still there, and given up after a few times.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(30);
const SILENT_FOR: Duration = Duration::from_secs(100);
const GOODBYE_WITHIN: Duration = Duration::from_secs(5);

/// A request that asks for a WebSocket, or not. Taken after it is known who sends it, so that they hear of that first.
pub(super) struct Handshake {
    key: Option<HeaderValue>,
    protocols: String,
    foreign: bool,
}

impl FromRequestParts<Arc<App>> for Handshake {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> std::result::Result<Self, Self::Rejection> {
        let headers = &parts.headers;
        let says = |name, word: &str| {
            headers.get_all(name).iter().any(|value: &HeaderValue| {
                value
                    .to_str()
                    .is_ok_and(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
            })
        };
        let upgrades =
            says(CONNECTION, "upgrade") && says(UPGRADE, "websocket") && says(SEC_WEBSOCKET_VERSION, "13");
        let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter().filter(|_| upgrades);
        let key = match (keys.next(), keys.next()) {
            (Some(_), Some(_)) => Some(HeaderValue::from_static("several")),
            (key, _) => key.cloned(),
        };
        let protocols = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
        // Browsers open WebSockets for any page, with cookies. A token, where there is one, is what counts.
        let by_cookie = !headers.contains_key(AUTHORIZATION);
        let source = origin::source(&app.config, parts);
        let foreign = source == origin::Source::Foreign || (by_cookie && source != origin::Source::Ours);
        Ok(Self { key, protocols: protocols.unwrap_or_default().to_owned(), foreign })
    }
}

impl Handshake {
    /// Whether it can be accepted, as this protocol.
    ///
    /// # Errors
    /// It comes from another site's page, is no handshake, or wants another protocol.
    pub(super) fn check(&self, protocol: &str) -> Result<()> {
        if self.foreign {
            let message = "a WebSocket opened with the session cookie must come from this server's own pages; programs use a token";
            return Err(ApiError::new(Code::Forbidden, message));
        }
        if self.key.is_none() || !self.protocols.split(',').any(|offered| offered.trim() == protocol) {
            let message = format!("this is a WebSocket over HTTP/1.1, with the subprotocol {protocol}");
            return Err(ApiError::new(Code::InvalidRequest, message));
        }
        if !self.key.as_ref().is_some_and(|key| is_key(key.as_bytes())) {
            let message = "Sec-WebSocket-Key must be 16 bytes in base64, once";
            return Err(ApiError::new(Code::InvalidRequest, message));
        }
        Ok(())
    }

    /// "101", after [`Handshake::check`]; `serve` is given the WebSocket.
    pub(super) fn accept<F>(
        self,
        protocol: &'static str,
        serve: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let takeover = Takeover::new(move |stream: ClientStream, early: Bytes| {
            tokio::spawn(async move {
                let config = WebSocketConfig::default()
                    .max_message_size(Some(LONGEST))
                    .max_frame_size(Some(LONGEST))
                    .max_write_buffer_size(4 * LONGEST);
                let socket =
                    WebSocketStream::from_partially_read(stream, early.to_vec(), Role::Server, Some(config))
                        .await;
                let (sink, source) = socket.split();
                serve(Socket { sink: Sink(sink), source: Source(source) }).await;
            });
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let accept = derive_accept_key(self.key.as_ref().map_or(b"", |key| key.as_bytes()));
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        response.extensions_mut().insert(takeover);
        response
    }
}

/// RFC 6455: a nonce of 16 bytes.
fn is_key(key: &[u8]) -> bool {
    STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16)
}

/// An open WebSocket.
pub(super) struct Socket {
    pub(super) sink: Sink,
    pub(super) source: Source,
}

/// Where messages go.
pub(super) struct Sink(SplitSink<WebSocketStream<ClientStream>, Message>);

/// Where messages come from.
pub(super) struct Source(SplitStream<WebSocketStream<ClientStream>>);

/// Why no more messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client closed it, or is gone.
    Gone,
    /// Text, where only bytes are understood.
    NotBinary,
}

impl Source {
    /// The next message.
    ///
    /// # Errors
    /// There will be none.
    pub(super) async fn next(&mut self) -> std::result::Result<Bytes, Ended> {
        loop {
            match timeout(SILENT_FOR, self.0.next()).await {
                Ok(Some(Ok(Message::Binary(bytes)))) => return Ok(bytes),
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                Ok(Some(Ok(Message::Text(_)))) => return Err(Ended::NotBinary),
                Ok(Some(Ok(Message::Close(_) | Message::Frame(_)) | Err(_)) | None) | Err(_) => {
                    return Err(Ended::Gone);
                }
            }
        }
    }
}

impl Sink {
    /// Sends bytes. False: nobody takes them.
    pub(super) async fn send(&mut self, bytes: Bytes) -> bool {
        self.0.send(Message::Binary(bytes)).await.is_ok()
    }

    /// Asks whether somebody is still there.
    pub(super) async fn ask(&mut self) -> bool {
        self.0.send(Message::Ping(Bytes::new())).await.is_ok()
    }

    /// Says goodbye.
    pub(super) async fn close(&mut self, code: CloseCode, reason: &'static str) {
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = timeout(GOODBYE_WITHIN, self.0.send(Message::Close(Some(frame)))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sixteen_bytes_in_base64() {
        assert!(is_key(b"dGhlIHNhbXBsZSBub25jZQ=="));
        for wrong in [
            &b""[..],
            b"x",
            b"dGhlIHNhbXBsZSBub25jZQ",
            b"dGhlIHNhbXBsZSBub25jZXM=",
            b"dGhlIHNhbXBs ZSBub25jZQ==",
            b"several",
        ] {
            assert!(!is_key(wrong), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
