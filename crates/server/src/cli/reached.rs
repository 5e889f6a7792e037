//! Asks, from outside as far as that can be done from here, whether people get to this deployment by its public names, and
//! which part is missing where they do not.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustls::{CertificateError, ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// Whoever takes longer does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is at an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// This deployment.
    Ours,
    /// Something else answers.
    Elsewhere(String),
    /// The name does not resolve.
    NoName,
    /// Nobody answers.
    Nobody(String),
    /// Browsers will not go there.
    BadCertificate(String),
    /// This machine does not know who signed the certificate. Browsers may.
    UnknownIssuer,
}

/// Whom this machine trusts to sign certificates.
pub(super) fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// An address by which people come.
pub(super) struct Address<'a> {
    pub https: bool,
    pub host: &'a str,
    pub port: u16,
}

impl Address<'_> {
    /// Host and port of a base address.
    pub(super) fn of(base_url: &str) -> Option<Address<'_>> {
        let (scheme, authority) = base_url.split_once("://")?;
        let https = scheme == "https";
        let usual = if https { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, usual),
        };
        Some(Address { https, host, port })
    }

    /// Who answers there.
    pub(super) async fn ask(&self, deployment: &str, roots: &RootCertStore) -> Reached {
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let found: Vec<SocketAddr> = match timeout(PATIENCE, lookup_host((name, self.port))).await {
            Ok(Ok(found)) => found.collect(),
            _ => Vec::new(),
        };
        if found.is_empty() {
            return Reached::NoName;
        }
        let stream = match timeout(PATIENCE, TcpStream::connect(&found[..])).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Reached::Nobody(error.to_string()),
            Err(_) => return Reached::Nobody("no connection within 5 s".into()),
        };
        let asked = if self.https {
            timeout(PATIENCE, self.ask_by_tls(name, stream, deployment, roots.clone())).await
        } else {
            timeout(PATIENCE, self.ping(stream, deployment)).await
        };
        match asked {
            Ok(Ok(reached)) => reached,
            Ok(Err(error)) => self.explain(&error),
            Err(_) => Reached::Nobody("no answer within 5 s".into()),
        }
    }

    async fn ask_by_tls(
        &self,
        name: &str,
        stream: TcpStream,
        deployment: &str,
        roots: RootCertStore,
    ) -> io::Result<Reached> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(server, stream).await?;
        self.ping(stream, deployment).await
    }

    async fn ping(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        deployment: &str,
    ) -> io::Result<Reached> {
        let nonce = format!("{:032x}", rand::random::<u128>());
        let (host, port) = (self.host, self.port);
        let request = format!(
            "GET /.codehub/ping?nonce={nonce} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // Some end TLS without a word.
        let read = stream.take(64 * 1024).read_to_end(&mut answer).await;
        if answer.is_empty() {
            read?;
        }
        let answer = String::from_utf8_lossy(&answer);
        let expected = codehub_proxy::ping_answer(deployment, &nonce);
        if answer.starts_with("HTTP/1.1 200") && answer.contains(&expected) {
            return Ok(Reached::Ours);
        }
        Ok(Reached::Elsewhere(answer.lines().next().unwrap_or("nothing").to_owned()))
    }

    fn explain(&self, error: &io::Error) -> Reached {
        let host = self.host;
        match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(why)) => match why {
                CertificateError::UnknownIssuer => Reached::UnknownIssuer,
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    Reached::BadCertificate(format!("it is not for {host}"))
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Reached::BadCertificate("it has expired".into())
                }
                why => Reached::BadCertificate(why.to_string()),
            },
            Some(error) => Reached::Nobody(format!("no TLS: {error}")),
            None => Reached::Nobody(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};

    use super::*;

    #[test]
    fn an_address_has_the_port_that_it_says_or_the_usual_one() {
        for (base, https, host, port) in [
            ("https://code.example.com", true, "code.example.com", 443),
            ("http://code.example.com", false, "code.example.com", 80),
            ("https://code.example.com:8443", true, "code.example.com", 8443),
            ("http://[::1]:8080", false, "[::1]", 8080),
            ("http://[::1]", false, "[::1]", 80),
        ] {
            let found = Address::of(base).unwrap();
            assert_eq!((found.https, found.host, found.port), (https, host, port), "{base}");
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_told_apart() {
        let ask = async |base: String| Address::of(&base).unwrap().ask("x", &RootCertStore::empty()).await;
        assert_eq!(ask("http://no-such-name.invalid".into()).await, Reached::NoName);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\nnobody").await;
            }
        });
        assert_eq!(ask(format!("http://{at}")).await, Reached::Elsewhere("HTTP/1.1 404 Not Found".into()));
        assert!(matches!(ask(format!("https://{at}")).await, Reached::Nobody(_)), "it speaks no TLS");
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(matches!(ask(format!("http://{free}")).await, Reached::Nobody(_)));
    }

    /// Answers pings by TLS, as `deployment`.
    async fn answering(made: &rcgen::CertifiedKey<rcgen::KeyPair>, deployment: &'static str) -> u16 {
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let (acceptor, listener) = (
            tokio_rustls::TlsAcceptor::from(Arc::new(config)),
            tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = [0; 512];
                let n = stream.read(&mut request).await.unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..n]).into_owned();
                let nonce = request.split("nonce=").nth(1).and_then(|it| it.split(' ').next()).unwrap();
                let answer = codehub_proxy::ping_answer(deployment, nonce);
                let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{answer}\n");
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        port
    }

    #[tokio::test]
    async fn by_tls_a_wrong_certificate_is_told_from_a_wrong_place() {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["code.example.com".to_owned()]).unwrap();
        let mut old = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        old.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let signing_key = rcgen::KeyPair::generate().unwrap();
        let old = rcgen::CertifiedKey { cert: old.self_signed(&signing_key).unwrap(), signing_key };
        let mut roots = RootCertStore::empty();
        for made in [&made, &other, &old] {
            roots.add(made.cert.der().clone()).unwrap();
        }
        let ask = async |port, roots: &RootCertStore| {
            Address { https: true, host: "127.0.0.1", port }.ask("ours", roots).await
        };
        let ours = answering(&made, "ours").await;
        assert_eq!(ask(ours, &roots).await, Reached::Ours);
        assert_eq!(ask(ours, &RootCertStore::empty()).await, Reached::UnknownIssuer);
        let theirs = answering(&made, "theirs").await;
        assert_eq!(ask(theirs, &roots).await, Reached::Elsewhere("HTTP/1.1 200 OK".into()));
        let misnamed = answering(&other, "ours").await;
        assert_eq!(ask(misnamed, &roots).await, Reached::BadCertificate("it is not for 127.0.0.1".into()));
        let expired = answering(&old, "ours").await;
        assert_eq!(ask(expired, &roots).await, Reached::BadCertificate("it has expired".into()));
    }
}
