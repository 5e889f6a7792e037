//! The fork in the road: `/w/…` goes straight to the proxy, everything else to the application.
//!
//! The proxy's requests do not pass through the application's router: its layers are made for small
//! answers, and every box and middleware on the way would be paid for by every asset of every IDE.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use axum::extract::ConnectInfo;
use http::{Request, Response};
use hyper::body::Incoming;
use tower::ServiceExt;

use super::{Peer, Proxy, ProxyBody, is_ours};

/// Answers one request of a connection. Connections should be read through
/// [`super::framing::Strict`] and served with upgrades.
///
/// # Errors
/// Never: failures are answers.
pub async fn answer(
    mut request: Request<Incoming>,
    addr: SocketAddr,
    proxy: Arc<Proxy>,
    application: axum::Router,
) -> Result<Response<ProxyBody>, Infallible> {
    if is_ours(request.uri()) {
        request.extensions_mut().insert(Peer { addr, tls: false });
        return Ok(proxy.serve(request.map(ProxyBody::from)).await);
    }
    request.extensions_mut().insert(ConnectInfo(addr));
    let response = application.oneshot(request.map(axum::body::Body::new)).await?;
    Ok(response.map(ProxyBody::boxed))
}
