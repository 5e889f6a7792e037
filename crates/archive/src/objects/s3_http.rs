//! How requests to a store travel: HTTP/1.1, over TLS with the machine's own root certificates, each
//! within its time, body included.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector as Tcp},
    rt::TokioExecutor,
};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
        HttpResponseBody, HttpService,
    },
};

/// Gives everybody the same client.
#[derive(Debug)]
pub(crate) struct Connector(pub(crate) HttpClient);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.0.clone())
    }
}

/// A client that gives up a connection after `connect` and a request after `request`.
pub(crate) fn client(connect: Duration, request: Duration) -> Result<HttpClient, String> {
    let mut tcp = Tcp::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect));
    let tls = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| format!("the root certificates cannot be read: {error}"))?
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    let client = Client::builder(TokioExecutor::new()).build(tls);
    Ok(HttpClient::new(Service { client, request }))
}

#[derive(Debug)]
struct Service {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
    request: Duration,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = async {
            let answer = self.client.request(request).await.map_err(|error| {
                let kind =
                    if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
                HttpError::new(kind, error)
            })?;
            // Nothing that is asked for is larger than a few MiB: see `transfer`.
            let (parts, body) = answer.into_parts();
            let body =
                body.collect().await.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
            let body = Full::new(body.to_bytes()).map_err(|never| match never {});
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
        };
        match tokio::time::timeout(self.request, answer).await {
            Ok(outcome) => outcome,
            Err(elapsed) => Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        }
    }
}
