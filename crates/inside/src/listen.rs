//! Where the IDE listens: a port, or a Unix socket.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

use crate::Options;

pub(crate) enum Listener {
    Port(TcpListener),
    Socket(UnixListener, SocketFile),
}

/// Removed when nobody listens any more.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    pub(crate) async fn bind(options: &Options) -> Result<Self> {
        let Some(path) = &options.socket else {
            let address = SocketAddr::new(options.host, options.port);
            let listener = TcpListener::bind(address).await;
            return Ok(Self::Port(listener.with_context(|| format!("cannot listen on {address}"))?));
        };
        let cannot = || format!("cannot listen on {}", path.display());
        let listener = UnixListener::bind(path).with_context(cannot)?;
        let file = SocketFile(path.clone());
        std::fs::set_permissions(path, PermissionsExt::from_mode(options.socket_mode))
            .with_context(cannot)?;
        Ok(Self::Socket(listener, file))
    }

    pub(crate) fn place(&self) -> String {
        match self {
            Self::Port(listener) => {
                listener.local_addr().map_or_else(|_| "a port".to_owned(), |at| format!("http://{at}/"))
            }
            Self::Socket(_, file) => format!("unix:{}", file.0.display()),
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Either<TcpStream, UnixStream>;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, ()) {
        use axum::serve::Listener;
        match self {
            Self::Port(listener) => (Either::Left(Listener::accept(listener).await.0), ()),
            Self::Socket(listener, _) => (Either::Right(Listener::accept(listener).await.0), ()),
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}
