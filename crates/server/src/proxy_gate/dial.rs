//! Connections to ports of workspaces, over the line to the program inside: there is no other way, and none by an address
//! that a request names.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
    task::{Context, Poll},
};

use codehub_domain::{WorkspaceId, ports::PortScheme};
use codehub_inside::line::client::{LineError, PortStream};
use codehub_runtime::{Carried, Dial, Dialling, Inside, InstanceTag, NotDialled, Upstream};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    app::App,
    lines::{NoLine, OpenLine},
    telemetry::metrics::PORT_CONNECTIONS,
};

/// How many connections of this process one port has at once, those that are kept for the next request included.
const PER_PORT: usize = 256;
/// The same for all ports of a workspace together.
const PER_WORKSPACE: usize = 1024;

/// The connections of this process.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<Mutex<Counts>>);

type Counts = HashMap<WorkspaceId, HashMap<u16, usize>>;

impl Connections {
    /// What listens on this port, if anything does.
    pub(super) fn to(&self, app: &Weak<App>, id: WorkspaceId, port: u16, scheme: PortScheme) -> Upstream {
        let name = format!("{scheme} at port {port} of {id}");
        let dial = DialPort { app: app.clone(), connections: self.clone(), id, port, scheme };
        let instance = InstanceTag::of(&name);
        Upstream { instance, ..Upstream::at(Inside::new(name, Arc::new(dial))) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Room for one more, if there is.
    fn place(&self, id: WorkspaceId, port: u16) -> Option<Place> {
        let taken = self.change(|counts| {
            let ports = counts.entry(id).or_default();
            let (all, here) = (ports.values().sum::<usize>(), ports.entry(port).or_default());
            let free = all < PER_WORKSPACE && *here < PER_PORT;
            *here += usize::from(free);
            free
        });
        taken.then(|| {
            metrics::gauge!(PORT_CONNECTIONS).increment(1.0);
            Place { connections: self.clone(), id, port }
        })
    }
}

/// One of the connections there may be.
struct Place {
    connections: Connections,
    id: WorkspaceId,
    port: u16,
}

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!(PORT_CONNECTIONS).decrement(1.0);
        self.connections.change(|counts| {
            let Some(ports) = counts.get_mut(&self.id) else { return };
            if let Some(here) = ports.get_mut(&self.port) {
                *here -= 1;
            }
            ports.retain(|_, here| *here > 0);
            if ports.is_empty() {
                counts.remove(&self.id);
            }
        });
    }
}

struct DialPort {
    app: Weak<App>,
    connections: Connections,
    id: WorkspaceId,
    port: u16,
    scheme: PortScheme,
}

impl Dial for DialPort {
    fn dial(&self) -> Dialling<'_> {
        Box::pin(async move {
            let Some(app) = self.app.upgrade() else {
                return Err(NotDialled::Unreachable("the server is shutting down".into()));
            };
            let place = self.connections.place(self.id, self.port).ok_or(NotDialled::TooMany)?;
            let line =
                app.lines.to(&*app.backends.instances, self.id).await.map_err(|error| no_line(&error))?;
            let stream = line.dial(self.port).await.map_err(|error| refused(&error))?;
            let connected = Connected { stream, _line: line, _place: place };
            match self.scheme {
                PortScheme::Http => Ok(Box::new(connected) as Carried),
                PortScheme::Https => Ok(Box::new(unverified(connected).await?) as Carried),
            }
        })
    }
}

/// By TLS, to whoever is there: the line leads into the workspace, and a certificate would be the workspace's own claim.
async fn unverified(connected: Connected) -> Result<TlsStream<Connected>, NotDialled> {
    static CONFIG: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| {
        let provider = Arc::new(ring::default_provider());
        let any = Arc::new(AnyCertificate(provider.signature_verification_algorithms));
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
        Some(Arc::new(config.dangerous().with_custom_certificate_verifier(any).with_no_client_auth()))
    });
    let name = ServerName::try_from("localhost").ok();
    let Some((config, name)) = CONFIG.clone().zip(name) else {
        return Err(NotDialled::Unreachable("there is no TLS".into()));
    };
    let greeted = TlsConnector::from(config).connect(name, connected).await;
    greeted.map_err(|error| NotDialled::Unreachable(format!("the program does not speak https: {error}")))
}

/// Takes any certificate. Signatures are checked all the same: what is not TLS is told apart.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

fn no_line(error: &NoLine) -> NotDialled {
    match error {
        NoLine::Nobody(why) => NotDialled::Nobody((*why).to_owned()),
        NoLine::NotRunning | NoLine::Runtime(_) | NoLine::Line(_) => {
            NotDialled::Unreachable(error.to_string())
        }
    }
}

fn refused(error: &LineError) -> NotDialled {
    match error {
        LineError::Refused(_, problem) if problem.code == "NOTHING_LISTENS" => NotDialled::NothingListens,
        LineError::Refused(_, problem) if problem.code == "LIMIT_EXCEEDED" => NotDialled::TooMany,
        LineError::Refused(..) | LineError::Ended(_) | LineError::Silent(_) | LineError::Garbage(_) => {
            NotDialled::Unreachable(error.to_string())
        }
    }
}

/// A connection, which keeps the line open.
struct Connected {
    stream: PortStream,
    _line: OpenLine,
    _place: Place,
}

impl AsyncRead for Connected {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connected {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let connections = Connections::default();
        let id = WorkspaceId::from_uuid(uuid::Uuid::now_v7());
        let mut held: Vec<Place> = (0..PER_PORT).map(|_| connections.place(id, 3000).unwrap()).collect();
        assert!(connections.place(id, 3000).is_none(), "this port has all it may have");
        let other = WorkspaceId::from_uuid(uuid::Uuid::now_v7());
        assert!(connections.place(other, 3000).is_some(), "another workspace's has not");
        for port in 3001..3004 {
            held.extend((0..PER_PORT).map(|_| connections.place(id, port).unwrap()));
        }
        assert!(connections.place(id, 4000).is_none(), "the workspace has all it may have");
        held.pop();
        drop(connections.place(id, 4000).unwrap());
        drop(held);
        assert!(connections.change(|counts| counts.is_empty()), "nothing is kept of those that have ended");
    }
}
