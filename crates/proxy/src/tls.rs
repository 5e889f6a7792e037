//! TLS of our own at a listener. What a connection is from then on: a client's bytes, by TLS or without.
//!
//! A connection without TLS is an enum's branch away from its socket; only those with TLS pay for it.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{ReadHalf, WriteHalf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, server::ResolvesServerCert},
    server::TlsStream,
};
use tokio_util::either::Either;

/// A client's connection.
pub type ClientStream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Its side that is read.
pub(crate) type ReadSide = Either<OwnedReadHalf, ReadHalf<Box<TlsStream<TcpStream>>>>;
/// Its side that is written.
pub(crate) type WriteSide = Either<OwnedWriteHalf, WriteHalf<Box<TlsStream<TcpStream>>>>;

/// What a client that speaks TLS says first.
const HANDSHAKE: u8 = 22;

/// Greets clients by TLS.
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Asks for the certificate at every handshake, so that it may change.
    ///
    /// # Errors
    /// The provider of cryptography knows no version of TLS that is safe.
    pub fn new(certificate: Arc<dyn ResolvesServerCert>) -> Result<Self, tokio_rustls::rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands. A client that begins with something else than TLS is passed on as it is: it can be told why that
    /// leads nowhere.
    ///
    /// # Errors
    /// The client left, wants something that we do not have, or took too long.
    pub async fn accept(&self, stream: TcpStream, within: Duration) -> io::Result<ClientStream> {
        let shake = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
                return Ok(Either::Left(stream));
            }
            Ok(Either::Right(Box::new(self.0.accept(stream).await?)))
        };
        timeout(within, shake).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

pub(crate) fn split(stream: ClientStream) -> (ReadSide, WriteSide) {
    match stream {
        Either::Left(stream) => {
            let (reading, writing) = stream.into_split();
            (Either::Left(reading), Either::Left(writing))
        }
        Either::Right(stream) => {
            let (reading, writing) = tokio::io::split(stream);
            (Either::Right(reading), Either::Right(writing))
        }
    }
}

/// Both sides of one connection again.
pub(crate) fn unsplit(reading: ReadSide, writing: WriteSide) -> Option<ClientStream> {
    match (reading, writing) {
        (Either::Left(reading), Either::Left(writing)) => reading.reunite(writing).ok().map(Either::Left),
        (Either::Right(reading), Either::Right(writing)) if reading.is_pair_of(&writing) => {
            Some(Either::Right(reading.unsplit(writing)))
        }
        _ => None,
    }
}
