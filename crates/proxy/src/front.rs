//! The fork in the road: `/w/…` goes straight to the proxy, everything else to the application. A process
//! that only coordinates has no proxy: there it is all the application's to refuse.
//!
//! The proxy's requests do not pass through the application's router: its layers are made for small
//! answers, and every box and middleware on the way would be paid for by every asset of every IDE.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, extract::ConnectInfo};
use futures::future::Either;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::{runtime::Handle, task::JoinError};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use super::{Peer, Proxy, ProxyBody, is_ours};

/// Everything that is not the proxy's, and the threads it runs on.
#[derive(Clone)]
pub struct Application {
    router: Router,
    runtime: Handle,
}

impl Application {
    /// Runs on the runtime this is called in, wherever the connections are served.
    pub fn here(router: Router) -> Self {
        Self { router, runtime: Handle::current() }
    }

    async fn answer(self, request: Request<axum::body::Body>) -> Result<Response<ProxyBody>, JoinError> {
        // Ends with the connection, as it would if it ran there.
        let answer = AbortOnDropHandle::new(self.runtime.spawn(self.router.oneshot(request)));
        let Ok(response) = answer.await?;
        Ok(response.map(ProxyBody::boxed))
    }
}

/// Answers one request of a connection. Connections should be read through
/// [`super::framing::Strict`] and served with upgrades. Without a proxy everything is the application's.
///
/// # Errors
/// The application's task ended without an answer; the connection should, too.
pub fn answer(
    mut request: Request<Incoming>,
    addr: SocketAddr,
    proxy: Option<&Arc<Proxy>>,
    application: &Application,
) -> impl Future<Output = Result<Response<ProxyBody>, JoinError>> + Send + use<> {
    if let Some(proxy) = proxy.filter(|_| is_ours(request.uri())) {
        let (proxy, peer) = (proxy.clone(), Peer { addr, tls: false });
        return Either::Left(async move { Ok(proxy.serve(request.map(ProxyBody::from), Some(peer)).await) });
    }
    request.extensions_mut().insert(ConnectInfo(addr));
    Either::Right(Box::pin(application.clone().answer(request.map(axum::body::Body::new))))
}
