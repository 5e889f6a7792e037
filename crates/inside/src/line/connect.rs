//! `POST /connect/{port}`: a connection to what listens on a port of this workspace, loopback included.
//!
//! Where the workspace shares the machine's network, only what one of its own processes listens on is connected to, and
//! that is asked before and after: a number that somebody else has taken meanwhile is not passed on.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use futures::StreamExt as _;
use http::StatusCode;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::io::ReaderStream;

use super::{Context, ports};
use crate::error::{ApiError, Result, blocking};

const WITHIN: Duration = Duration::from_secs(10);
const CHUNK: usize = 32 * 1024;

pub(super) async fn connect(
    State(context): State<Arc<Context>>,
    Path(port): Path<u16>,
    body: Body,
) -> Result<Response> {
    let place = context.connections.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "LIMIT_EXCEEDED",
            format!("{} connections are open already", super::protocol::CONNECTIONS_AT_ONCE),
        )
    })?;
    let addresses = context.addresses(port).await?;
    let stream = timeout(WITHIN, to_one_of(&addresses, port)).await;
    let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|error| {
        ApiError::new(
            StatusCode::BAD_GATEWAY,
            "NOTHING_LISTENS",
            format!("nothing answers on port {port}: {error}"),
        )
    })?;
    let reached = stream.peer_addr().map(|peer| peer.ip());
    if !reached.is_ok_and(|reached| addresses.contains(&reached))
        || context.addresses(port).await? != addresses
    {
        return Err(nobody(port));
    }
    let (from, mut to) = stream.into_split();
    tokio::spawn(async move {
        let mut sent = body.into_data_stream();
        while let Some(Ok(bytes)) = sent.next().await {
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    let received = ReaderStream::with_capacity(from, CHUNK).map(move |bytes| {
        let _held = &place;
        bytes
    });
    Ok(Response::new(Body::from_stream(received)))
}

/// The first that answers, or why the first did not.
async fn to_one_of(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut why = None;
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(*address, port)).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or_else(|| io::ErrorKind::ConnectionRefused.into()))
}

fn nobody(port: u16) -> ApiError {
    ApiError::new(
        StatusCode::BAD_GATEWAY,
        "NOTHING_LISTENS",
        format!("nothing in this workspace listens on port {port}"),
    )
}

impl Context {
    /// Where this port is the workspace's, and nobody else's.
    async fn addresses(&self, port: u16) -> Result<Vec<IpAddr>> {
        if !self.shares_network {
            return Ok(ports::LOOPBACKS.to_vec());
        }
        let found = blocking(move || Ok(ports::our_loopbacks(port))).await?;
        if found.is_empty() { Err(nobody(port)) } else { Ok(found) }
    }
}
