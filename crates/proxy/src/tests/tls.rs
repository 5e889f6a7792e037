//! TLS of our own: every protocol within it, and what is told to those who come without.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use codehub_domain::origins::Mode;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{PrivatePkcs8KeyDer, ServerName},
        sign::{CertifiedKey, SingleCertAndKey},
    },
};

use super::support::*;
use crate::tls::Tls;

const NAME: &str = "code.example.com";

/// A server's side, and what a client has to trust.
fn certificate() -> (Arc<Tls>, RootCertStore) {
    let names = [NAME.to_owned(), "*.apps.example.com".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let certified = CertifiedKey::from_der(vec![made.cert.der().clone()], key, &ring::default_provider());
    (Arc::new(Tls::new(Arc::new(SingleCertAndKey::from(certified.unwrap()))).unwrap()), roots)
}

struct Secured {
    rig: Rig,
    roots: RootCertStore,
}

impl Secured {
    async fn new(origins: Mode) -> Self {
        let (tls, roots) = certificate();
        Self { rig: Rig::with(Options { tls: Some(tls), origins, ..Options::default() }).await, roots }
    }

    async fn before(upstream: &Upstream) -> Self {
        let secured = Self::new(Mode::Path).await;
        secured.rig.lead_to(upstream);
        secured
    }

    async fn connect(&self, name: &str, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream =
            TlsConnector::from(Arc::new(config)).connect(name, self.rig.connect().await).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        stream
    }
}

fn cookie() -> String {
    format!("Cookie: {COOKIE}")
}

async fn head_from(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(Duration::from_secs(10), stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8_lossy(&head).into_owned()
}

#[tokio::test]
async fn workspaces_learn_that_people_came_by_https() {
    let upstream = Upstream::echoing_heads().await;
    let secured = Secured::before(&upstream).await;
    let mut stream = secured.connect(NAME, b"http/1.1").await;
    // The second one is remembered.
    for _ in 0..3 {
        stream.write_all(head("GET", "/x", &[&cookie()]).as_bytes()).await.unwrap();
        let answer = head_from(&mut stream).await;
        let length: usize = header_of(&answer, "content-length").unwrap().parse().unwrap();
        let mut seen = vec![0; length];
        stream.read_exact(&mut seen).await.unwrap();
        let seen = String::from_utf8(seen).unwrap().to_lowercase();
        assert!(seen.contains("x-forwarded-proto: https\r\n"), "{seen}");
    }
    // And for another name of the same certificate.
    secured.connect("x.apps.example.com", b"http/1.1").await;

    let stream = secured.connect(NAME, b"h2").await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("https://{NAME}/w/{}/x", workspace())).header("cookie", COOKIE);
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let seen = answer.into_body().collect().await.unwrap().to_bytes();
    let seen = String::from_utf8(seen.to_vec()).unwrap().to_lowercase();
    assert!(seen.contains("x-forwarded-proto: https\r\n"), "{seen}");
}

/// More than any buffer holds, both ways, to somebody who takes their time.
#[tokio::test]
async fn large_bodies_arrive_whole() {
    const SIZE: usize = 8 * 1024 * 1024;
    let upstream = Upstream::new(|mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let length: usize =
                header_of(&head, "content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
    })
    .await;
    let secured = Secured::before(&upstream).await;
    let sent: Vec<u8> = (0..SIZE).map(|n| (n / 7) as u8).collect();
    let mut stream = secured.connect(NAME, b"http/1.1").await;
    for _ in 0..2 {
        let length = format!("Content-Length: {SIZE}");
        stream.write_all(head("PUT", "/x", &[&length, &cookie()]).as_bytes()).await.unwrap();
        stream.write_all(&sent).await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(status_of(&head_from(&mut stream).await), 200);
        let mut back = vec![0; SIZE];
        for piece in back.chunks_mut(SIZE / 4) {
            let_time_pass(Duration::from_millis(20)).await;
            timeout(Duration::from_secs(20), stream.read_exact(piece)).await.unwrap().unwrap();
        }
        assert!(back == sent);
    }
    // The last answer says so, and its end is no accident.
    stream.write_all(head("GET", "/x", &[&cookie(), "Connection: close"]).as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 200"));
}

async fn echoes(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), size: usize) {
    let mut frame = vec![0x82, 0xff];
    frame.extend_from_slice(&(size as u64).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend((0..size).map(|n| n as u8));
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut back = vec![0; frame.len()];
    let both = async {
        tokio::join!(
            async {
                writer.write_all(&frame).await.unwrap();
                writer.flush().await.unwrap();
            },
            reader.read_exact(&mut back)
        )
    };
    let ((), read) = timeout(Duration::from_secs(20), both).await.unwrap();
    read.unwrap();
    assert!(back == frame);
}

#[tokio::test]
async fn a_websocket_is_taken_over_with_its_tls() {
    let upstream = super::websocket::echo().await;
    let secured = Secured::before(&upstream).await;
    let mut stream = secured.connect(NAME, b"http/1.1").await;
    let lines = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Origin: http://code.example.com",
        &cookie(),
    ];
    stream.write_all(head("GET", "/ws", &lines).as_bytes()).await.unwrap();
    assert_eq!(status_of(&head_from(&mut stream).await), 101);
    for size in [1, 100, 4 * 1024 * 1024, 5] {
        echoes(&mut stream, size).await;
    }
    // The good-bye arrives, and then the end of TLS itself.
    secured.rig.shutdown.cancel();
    let mut goodbye = Vec::new();
    timeout(Duration::from_secs(10), stream.read_to_end(&mut goodbye)).await.unwrap().unwrap();
    assert_eq!(goodbye[..4], [0x88, goodbye[1], 0x03, 0xe9], "going away: {goodbye:?}");
}

#[tokio::test]
async fn who_comes_without_tls_is_told_so() {
    let upstream = Upstream::echoing_heads().await;
    let secured = Secured::new(Mode::Domain { name: "apps.example.com".into() }).await;
    secured.rig.lead_to(&upstream);
    let own = format!("{}.apps.example.com:8443", workspace());
    let ask = async |method: &str, host: &str, path: &str| {
        let cookie = "codehub_workspace=owner-secret";
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        secured.rig.raw(request).await
    };
    for host in [own.as_str(), "code.example.com"] {
        for _ in 0..2 {
            let answer = ask("GET", host, "/deep?x=1").await;
            assert_eq!(status_of(&answer), 307, "{answer}");
            assert_eq!(header_of(&answer, "location"), Some(format!("https://{host}/deep?x=1").as_str()));
        }
        assert_eq!(status_of(&ask("POST", host, "/x").await), 400);
    }
    assert_eq!(status_of(&ask("GET", "evil.example", "/").await), 421, "nobody is sent elsewhere");
    assert_eq!(status_of(&secured.rig.raw("\x01nonsense\r\n\r\n").await), 400);
    assert_eq!(upstream.connections.load(std::sync::atomic::Ordering::SeqCst), 0);
    let check = "GET /healthz HTTP/1.1\r\nHost: 10.0.0.1\r\nConnection: close\r\n\r\n";
    assert_eq!(status_of(&secured.rig.raw(check).await), 200, "machines may ask whether it is up");
}

/// The clock runs ahead whenever nothing else is left to do.
#[tokio::test(start_paused = true)]
async fn a_handshake_has_a_deadline() {
    let secured = Secured::new(Mode::Path).await;
    for said in [&b""[..], b"\x16\x03\x01"] {
        let begun = tokio::time::Instant::now();
        let mut stream = secured.rig.connect().await;
        stream.write_all(said).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
        assert_eq!(begun.elapsed().as_secs(), 10, "{said:?}");
    }
}
