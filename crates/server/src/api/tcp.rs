//! Connections to what listens in a workspace, as raw bytes: what port forwarding stands on.

use std::{io, sync::Arc};

use axum::{Router, body::Body, extract::State, response::Response, routing::get};
use bytes::Bytes;
use codehub_domain::WorkspaceId;
use codehub_proxy::activity::{ActivityKind, OpenSocket};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use utoipa::OpenApi;

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{CurrentUser, PathIds},
    inside,
    revalidated::Revalidated,
    websocket::{ASK_EVERY, Ended, Handshake, LONGEST, Sink, Socket, Source},
};
use crate::{app::App, service};

const PROTOCOL: &str = "codehub.tcp.v1";
const WAITING: usize = 4;

#[derive(OpenApi)]
#[openapi(paths(open))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/tcp/{port}", get(open))
}

/// Connect to a port
///
/// A WebSocket (HTTP/1.1) with the subprotocol `codehub.tcp.v1`: the bytes of its binary messages are those of a TCP
/// connection to what listens on that port in the workspace, its loopback addresses included. An empty message says that the
/// client sends nothing more; it may still receive. The owner only.
#[utoipa::path(get, path = "/workspaces/{id}/tcp/{port}", tag = "exec", params(("id" = String, Path, description = "The workspace"), ("port" = u16, Path, description = "The port")), responses(
    (status = 101, description = "The WebSocket"),
    (status = 400, description = "INVALID_REQUEST: not a handshake of this protocol", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's, another site's page, the IDE's own port, or switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: in ERROR, or started by a CodeHub that could not do this: restart it", body = ErrorBody),
    (status = 503, description = "WORKSPACE_STANDBY: it sleeps; UPSTREAM_UNAVAILABLE: nothing listens there", body = ErrorBody),
))]
async fn open(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    revalidated: Revalidated,
    PathIds(id, port): PathIds<WorkspaceId, u16>,
    handshake: Handshake,
) -> Result<Response> {
    let workspace = inside::find(&app, &me, id).await?;
    handshake.check(PROTOCOL)?;
    if app.config.ports.denies(port) {
        let message = format!("nobody gets a connection to port {port} on this server (PORTS_DENIED)");
        return Err(ApiError::new(Code::Forbidden, message));
    }
    if service::ports::ide_port(&app, id).await == Some(port) {
        return Err(ApiError::new(
            Code::Forbidden,
            "this is the port of the workspace's IDE: open the workspace",
        ));
    }
    let line = inside::line(&app, &me, workspace, false).await?;
    let (sent, mut queue) = mpsc::channel::<Bytes>(WAITING);
    let body =
        Body::from_stream(futures::stream::poll_fn(move |cx| queue.poll_recv(cx)).map(Ok::<_, io::Error>));
    let mut received = line.connect(port, body).await.map_err(inside::failed)?;
    let counted = app.activity.open_socket(&app.activity.cell(id), false);
    Ok(handshake.accept(PROTOCOL, move |socket| async move {
        let Socket { mut sink, mut source } = socket;
        let (code, reason) = tokio::select! {
            ending = pass_both(&mut sink, &mut source, sent, &mut received, &counted) => match ending {
                Some(ending) => ending,
                None => return,
            },
            () = revalidated.ended(Arc::clone(&app), Some(id)) => (CloseCode::Policy, "signed out"),
            () = app.shutdown.cancelled() => (CloseCode::Away, "the server is shutting down"),
        };
        sink.close(code, reason).await;
        drop(line);
    }))
}

async fn pass_both(
    sink: &mut Sink,
    source: &mut Source,
    sent: mpsc::Sender<Bytes>,
    received: &mut Incoming,
    counted: &OpenSocket,
) -> Option<(CloseCode, &'static str)> {
    let mut sent = Some(sent);
    let input = async {
        loop {
            match source.next().await {
                Ok(bytes) if bytes.is_empty() => drop(sent.take()),
                Ok(bytes) => {
                    counted.message(ActivityKind::FromClient);
                    let Some(sent) = &sent else {
                        return Some((CloseCode::Protocol, "bytes after the end"));
                    };
                    if sent.send(bytes).await.is_err() {
                        // What listens there does not read any more; it may still write.
                        std::future::pending::<()>().await;
                    }
                }
                Err(Ended::Gone) => return None,
                Err(Ended::NotBinary) => return Some((CloseCode::Unsupported, "messages are binary")),
            }
        }
    };
    let output = async {
        let mut ask = interval_at(Instant::now() + ASK_EVERY, ASK_EVERY);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let frame = tokio::select! {
                frame = received.frame() => frame,
                _ = ask.tick() => {
                    if !sink.ask().await {
                        return None;
                    }
                    continue;
                }
            };
            let mut bytes = match frame {
                None => return Some((CloseCode::Normal, "")),
                Some(Err(_)) => return Some((CloseCode::Error, "the connection broke")),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            counted.message(ActivityKind::FromWorkspace);
            while !bytes.is_empty() {
                let piece = bytes.split_to(bytes.len().min(LONGEST));
                if !sink.send(piece).await {
                    return None;
                }
            }
        }
    };
    tokio::select! {
        ending = input => ending,
        ending = output => ending,
    }
}
