//! Whether a public address leads to this very deployment: `/.codehub/ping` on any host of ours.

use http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use sha2::{Digest as _, Sha256};

use crate::{Proxy, ProxyBody, error::ProxyError, handover::hex, metrics::Outcome, pages::answers::json};

impl Proxy {
    /// Answers which deployment this is, to somebody who knows that already: a digest of its name and of what they sent.
    pub(crate) async fn ping(&self, method: Method, uri: Uri) -> Response<ProxyBody> {
        let nonce = uri.query().and_then(|query| query.strip_prefix("nonce="));
        let nonce = nonce.filter(|nonce| (1..=64).contains(&nonce.len()));
        let (Some(nonce), Method::GET) = (nonce, method) else {
            let message = "GET with ?nonce= and up to 64 characters";
            return json(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message);
        };
        self.metrics.request(Outcome::Own);
        match self.gate.deployment().await {
            Ok(deployment) => {
                let mut response =
                    Response::new(ProxyBody::Full(format!("{}\n", ping_answer(&deployment, nonce)).into()));
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
                response
            }
            Err(error) => {
                let error = ProxyError::Store(error.to_string());
                json(error.status(), error.code(), &error.public_message())
            }
        }
    }
}

/// What this deployment answers at `/.codehub/ping?nonce=`. Says nothing to whoever does not know its name.
pub fn ping_answer(deployment: &str, nonce: &str) -> String {
    let digest = Sha256::new_with_prefix(b"codehub ping\0").chain_update(deployment).chain_update(b"\0");
    hex(&digest.chain_update(nonce).finalize())
}
