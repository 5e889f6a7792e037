//! The line: what CodeHub asks of the program inside, as HTTP/2 over any stream of bytes.
//!
//! | request | what for |
//! |---|---|
//! | `POST /exec` | runs a program; the bodies are [`messages`] |
//! | `POST /connect/{port}` | a connection to a port of the workspace; the bodies are its bytes |
//! | `GET /ports` | what listens |
//! | `GET`, `PUT /file?path=` | a file of the home |
//! | `GET /usage` | what the workspace uses |
//!
//! Both ends are here: [`Inside`] answers, [`client::Line`] asks. Whoever asks must treat what is answered as somebody
//! else's claim: any program of the workspace can stand at this end instead.

pub mod client;
mod connect;
mod exec;
pub mod messages;
mod ports;
pub mod protocol;
mod pty;
mod usage;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

use crate::children::{Children, Reaps};
use crate::files::{self, Files};
use crate::home::Home;

/// What is on its way on one stream, at most: enough to be fast over the stdio of a container's engine.
pub(crate) const STREAM_WINDOW: u32 = 128 * 1024;
/// Streams that nobody reads must not hold up the others: there is room for all of them.
pub(crate) const LINE_WINDOW: u32 = 1 << 30;
/// Every exec and connection there may be, and the short requests beside them.
pub(crate) const STREAMS: u32 = 1200;
/// Asked this often whether the other end is still there, and for how long.
const STILL_THERE: Duration = Duration::from_secs(20);
const HEADERS: u32 = 16 * 1024;
/// One for each server process that speaks to this workspace, with room for those that are about to end.
const LINES_AT_ONCE: usize = 64;

/// What the requests share.
pub(crate) struct Context {
    children: Arc<Children>,
    home: PathBuf,
    /// What the IDE has in its environment besides what this process has.
    env: Vec<(OsString, OsString)>,
    /// Whether the workspace is in the machine's own network, with others.
    shares_network: bool,
    execs: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    counted: usage::CountedHome,
}

/// The end of the line inside a workspace.
#[derive(Clone)]
pub struct Inside {
    context: Arc<Context>,
    router: Router,
}

impl Inside {
    /// Over this home, in a process that has other things to do than to wait for orphans.
    ///
    /// # Errors
    /// The home cannot be opened.
    pub fn new(home: &Path, shares_network: bool) -> io::Result<Self> {
        Self::with(home, shares_network, Arc::new(Children::new(Reaps::Own)), Vec::new())
    }

    pub(crate) fn with(
        home: &Path,
        shares_network: bool,
        children: Arc<Children>,
        env: Vec<(OsString, OsString)>,
    ) -> io::Result<Self> {
        let opened = Home::open(home)?;
        let context = Arc::new(Context {
            children,
            home: opened.real_path().to_owned(),
            env,
            shares_network,
            execs: Arc::new(Semaphore::new(protocol::EXECS_AT_ONCE)),
            connections: Arc::new(Semaphore::new(protocol::CONNECTIONS_AT_ONCE)),
            counted: usage::CountedHome::default(),
        });
        let router = Router::new()
            .route("/exec", post(exec::exec))
            .route("/connect/{port}", post(connect::connect))
            .route("/ports", get(ports::list))
            .route("/usage", get(usage::usage))
            .with_state(context.clone())
            .merge(files::plain_router(Files::new(opened)));
        Ok(Self { context, router })
    }

    /// Waits for the programs that were run, as long as it is polled.
    ///
    /// # Errors
    /// Nobody tells of them.
    pub async fn watch_children(&self) -> io::Result<()> {
        self.context.children.watch().await
    }

    /// Answers on one line until it ends. What its execs started ends with it.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let mut server = http2::Builder::new(TokioExecutor::new());
        server
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(LINE_WINDOW)
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADERS)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .keep_alive_interval(STILL_THERE)
            .keep_alive_timeout(STILL_THERE);
        let service = TowerToHyperService::new(self.router.clone());
        if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "a line ended early");
        }
    }

    /// Answers on whatever lines are opened to a socket.
    pub(crate) async fn accept(self, listener: UnixListener) {
        let places = Arc::new(Semaphore::new(LINES_AT_ONCE));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let inside = self.clone();
                    tokio::spawn(async move {
                        inside.serve(stream).await;
                        drop(place);
                    });
                }
                // Out of descriptors: those that are open will be closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}
