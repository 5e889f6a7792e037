//! The HTTP API of one server: requests, streams and WebSockets.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE, USER_AGENT,
    },
};
use http_body_util::{BodyExt as _, Empty, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::Value;
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};

use crate::{
    context::Target,
    failure::{Failure, Kind, Result},
};

/// How long the head of an answer may take, besides what was asked to be waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// The longest message of our WebSockets.
pub const LONGEST_MESSAGE: usize = 64 * 1024;

/// A request's body.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;
/// An open WebSocket.
pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// One server.
pub struct Api {
    /// As people know it.
    pub url: String,
    /// Where requests go: the same, or a way around a network that does not lead there.
    to: String,
    host: HeaderValue,
    token: Option<HeaderValue>,
    client: Client<HttpsConnector<HttpConnector>, Body>,
}

impl Api {
    /// Speaks to this server. Connects only where there are two ways to it.
    ///
    /// # Errors
    /// The address, the token or a certificate will not do.
    pub async fn new(target: &Target) -> Result<Self> {
        let url = target.url.clone();
        let host = url.split_once("://").map_or(&url[..], |(_, host)| host).to_owned();
        let https = url.starts_with("https:");
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(https, target.ca_file.as_deref())?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let token = target.token.as_ref().map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Failure::new(Kind::Denied, "the token has characters that no token has"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let to = around(&url, &host).await.unwrap_or_else(|| url.clone());
        let host = HeaderValue::try_from(host).map_err(|error| Failure::local(&url, error))?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { url, to, host, token: token.transpose()?, client })
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/api/v1{path}", self.to))
            // Whichever way leads there, the server answers to its public name.
            .header(HOST, self.host.clone())
            .header(USER_AGENT, concat!("codehub/", env!("CARGO_PKG_VERSION")));
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token.clone()),
            None => request,
        }
    }

    async fn exchange(&self, request: Request<Body>, within: Duration) -> Result<Response<Incoming>> {
        match timeout(within, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => Err(self.silent(within)),
        }
    }

    fn silent(&self, within: Duration) -> Failure {
        let message = format!("{} has not answered for {} seconds", self.url, within.as_secs());
        Failure::new(Kind::Unreachable, message)
    }

    fn unreachable(&self, error: &hyper_util::client::legacy::Error) -> Failure {
        let mut why = error.to_string();
        let mut deeper = std::error::Error::source(error);
        while let Some(inner) = deeper {
            why = inner.to_string();
            deeper = inner.source();
        }
        let failure = Failure::new(Kind::Unreachable, format!("{} cannot be reached: {why}", self.url));
        if why.contains("certificate") || why.contains("UnknownIssuer") {
            return failure.or_next("name the certificate of its authority: CODEHUB_CA_FILE=ca.pem");
        }
        failure
            .or_next("is the address right, and the server running? `codehub context ls` shows the address")
    }

    /// An answer whose body has not been read.
    ///
    /// # Errors
    /// There is none, or it is not the one hoped for.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        body: Body,
        kind: &'static str,
    ) -> Result<Response<Incoming>> {
        let request = self.request(method, path).header(CONTENT_TYPE, kind).body(body);
        let request = request.map_err(|error| Failure::local(path, error))?;
        // An upload is answered when it has been sent.
        let answer = self.exchange(request, Duration::from_secs(24 * 3600)).await?;
        hoped_for(answer).await
    }

    /// A stream that is read as it comes.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn stream(&self, path: &str) -> Result<Response<Incoming>> {
        let request = self.request(Method::GET, path).body(nothing());
        let request = request.map_err(|error| Failure::local(path, error))?;
        hoped_for(self.exchange(request, ANSWER_WITHIN).await?).await
    }

    /// Asks, and reads the answer. `wait`: how long the server was asked to take at most.
    ///
    /// # Errors
    /// There is none, or it is not the one hoped for.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        wait: Duration,
    ) -> Result<(StatusCode, Value)> {
        self.ask_with(method, path, body, wait, &[]).await
    }

    /// [`Self::ask`], with more headers.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_with(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        wait: Duration,
        headers: &[(&'static str, String)],
    ) -> Result<(StatusCode, Value)> {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = match body {
            Some(body) => request.header(CONTENT_TYPE, "application/json").body(bytes(body.to_string())),
            None => request.body(nothing()),
        };
        let request = request.map_err(|error| Failure::local(path, error))?;
        let within = ANSWER_WITHIN + wait;
        let whole = async {
            let answer = hoped_for(self.exchange(request, within).await?).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await;
            let body = body.map_err(|error| self.broke_off(&error))?.to_bytes();
            Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
        };
        timeout(within, whole).await.unwrap_or_else(|_| Err(self.silent(within)))
    }

    /// The body of an answer ended before its end.
    pub fn broke_off(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(Kind::Unreachable, format!("the connection to {} broke: {error}", self.url))
    }

    /// [`Self::ask`] for what is there.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.ask(Method::GET, path, None, Duration::ZERO).await?.1)
    }

    /// Every page of a list, as one.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn list(&self, path: &str, query: &[(&str, String)]) -> Result<Value> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut all: Vec<(&str, String)> = query.to_vec();
            all.push(("limit", "200".into()));
            all.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page = self.get(&format!("{path}?{}", encoded(&all))).await?;
            items.extend(page["items"].as_array().into_iter().flatten().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => {
                    let total = items.len();
                    return Ok(serde_json::json!({ "items": items, "next_cursor": null, "total": total }));
                }
            }
        }
    }

    /// A WebSocket with this subprotocol.
    ///
    /// # Errors
    /// The server does not open one.
    pub async fn websocket(&self, path: &str, protocol: &'static str) -> Result<Socket> {
        let key = generate_key();
        let request = self
            .request(Method::GET, path)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .header(SEC_WEBSOCKET_PROTOCOL, protocol)
            .body(nothing())
            .map_err(|error| Failure::local(path, error))?;
        let answer = self.exchange(request, ANSWER_WITHIN).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let answer = hoped_for(answer).await?;
            let message = format!("{} opens no WebSockets (it answered {})", self.url, answer.status());
            let failure = Failure::new(Kind::Unreachable, message);
            return Err(failure.or_next("a proxy in front of it may not pass them on"));
        }
        let accepted = answer.headers().get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
        let spoken = answer.headers().get(SEC_WEBSOCKET_PROTOCOL).map(HeaderValue::as_bytes);
        if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes())
            || spoken != Some(protocol.as_bytes())
        {
            let message = format!("what answers at {} does not speak {protocol}", self.url);
            return Err(Failure::new(Kind::Unreachable, message));
        }
        let upgraded = hyper::upgrade::on(answer).await.map_err(|error| self.broke_off(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(LONGEST_MESSAGE))
            .max_frame_size(Some(LONGEST_MESSAGE))
            .max_write_buffer_size(4 * LONGEST_MESSAGE);
        Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await)
    }
}

/// The answer, or what it says instead.
async fn hoped_for(answer: Response<Incoming>) -> Result<Response<Incoming>> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    if status.is_redirection() {
        let to = answer.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or("somewhere else");
        let failure = Failure::new(Kind::Unreachable, format!("the server sends us to {to}"));
        return Err(failure.or_next("sign in to that address"));
    }
    let body = http_body_util::Limited::new(answer.into_body(), 1 << 20).collect().await;
    Err(Failure::answered(status, &body.map(http_body_util::Collected::to_bytes).unwrap_or_default()))
}

/// In a workspace with a network of its own: the other way to the server, where the usual one leads nowhere.
async fn around(url: &str, host: &str) -> Option<String> {
    let local = std::env::var("CODEHUB_LOCAL_URL").ok().filter(|local| !local.is_empty())?;
    let uri: Uri = url.parse().ok()?;
    let port = uri.port_u16().unwrap_or(if url.starts_with("https:") { 443 } else { 80 });
    let name = uri.host().unwrap_or(host).trim_matches(['[', ']']).to_owned();
    let reached = timeout(CONNECT_WITHIN, tokio::net::TcpStream::connect((name, port))).await;
    match reached {
        Ok(Ok(_)) => None,
        Ok(Err(_)) | Err(_) => Some(local.trim_end_matches('/').to_owned()),
    }
}

fn tls(https: bool, ca_file: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // Reading them takes a while, and only https needs them.
    if https {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca_file {
            let unreadable = |error: &dyn std::fmt::Display| {
                Failure::local(format_args!("certificates in {}", path.display()), error)
            };
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Failure::local("TLS", error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// A body without bytes.
pub fn nothing() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body of these bytes.
pub fn bytes(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// `a=b&c=d`, with what must be encoded.
pub fn encoded(pairs: &[(&str, String)]) -> String {
    let pairs = pairs.iter().map(|(key, value)| format!("{key}={}", component(value.as_bytes())));
    pairs.collect::<Vec<_>>().join("&")
}

/// One part of an address, whatever its bytes are.
pub fn component(bytes: &[u8]) -> String {
    percent_encoding::percent_encode(bytes, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Where certificates are kept, as others find it from another directory.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Failure::local(path.display(), error))
}
