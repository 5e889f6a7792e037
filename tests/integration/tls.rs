//! A real server that ends TLS itself: people, programs, renewals, and what is wrong with its files.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use codehub_testing::eventually;
use futures::{SinkExt as _, StreamExt as _};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use crate::support::{ADMIN, PASSWORD, Server, Setup};

/// A CA of the test's own.
struct Ca {
    cert: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, KeyPair>,
}

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { cert: params.self_signed(&key).unwrap(), issuer: rcgen::Issuer::new(params, key) }
    }

    /// Certificate and key, in PEM.
    fn sign(&self, names: &[&str], until: i32) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

const NAMES: [&str; 3] = ["code.test", "*.apps.test", "localhost"];

fn files(setup: &Setup) -> (PathBuf, PathBuf) {
    (setup.data.path().join("cert.pem"), setup.data.path().join("key.pem"))
}

fn write(setup: &Setup, (cert, key): &(String, String)) {
    let (cert_file, key_file) = files(setup);
    fs::write(cert_file, cert).unwrap();
    fs::write(&key_file, key).unwrap();
    fs::set_permissions(key_file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn setup(pair: &(String, String)) -> Setup {
    let setup = Setup::new().without("PROXY_ORIGINS").env("PROXY_DOMAIN", "apps.test");
    write(&setup, pair);
    let ((cert, key), base) = (files(&setup), format!("https://code.test:{}", setup.port));
    let setup = setup.env("TLS_CERT", cert.to_str().unwrap()).env("TLS_KEY", key.to_str().unwrap());
    // The machine's own name, too: a program that is run finds no other.
    setup.env("PUBLIC_BASE_URL", &base).env("HOSTS_ALLOWED", "localhost")
}

struct Secured {
    server: Server,
    roots: RootCertStore,
}

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

impl Secured {
    async fn start(ca: &Ca) -> Self {
        let setup = setup(&ca.sign(&NAMES, 2090));
        let mut server =
            Server { child: setup.spawn(), setup, client: reqwest::Client::new(), token: String::new() };
        // Machines may ask without TLS whether it is up.
        server.until_ready().await;
        let mut roots = RootCertStore::empty();
        roots.add(ca.cert.der().clone()).unwrap();
        let mut secured = Self { server, roots };
        let body = json!({ "username": ADMIN, "password": PASSWORD });
        let (login, _) = secured.api(Method::POST, "/auth/login", "", Some(body)).await;
        let cookie = cookie(&login);
        assert!(cookie.starts_with("__Host-Http-session="), "{cookie}");
        assert!(login.headers()["set-cookie"].to_str().unwrap().contains("; Secure"));
        let name = Some(json!({ "name": "test" }));
        let (_, token) = secured.api(Method::POST, "/auth/tokens", &cookie, name).await;
        secured.server.token = token["token"].as_str().unwrap().to_owned();
        secured
    }

    fn port(&self) -> u16 {
        self.server.setup.port
    }

    async fn connect(&self, host: &str) -> TlsStream<TcpStream> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", self.port())).await.unwrap();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// The certificate that is shown to whoever comes now.
    async fn shown(&self) -> Vec<u8> {
        let stream = self.connect("code.test").await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    async fn speak(&self, host: &str) -> Sender {
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect(host).await)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn send(&self, sender: &mut Sender, request: Request<Full<Bytes>>) -> (Response<()>, Bytes) {
        let answer = sender.send_request(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        (Response::from_parts(parts, ()), body.collect().await.unwrap().to_bytes())
    }

    async fn api(
        &self,
        method: Method,
        path: &str,
        cookie: &str,
        body: Option<Value>,
    ) -> (Response<()>, Value) {
        let base = format!("https://code.test:{}", self.port());
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        request = request.header("host", format!("code.test:{}", self.port())).header("origin", base);
        request = request.header("content-type", "application/json");
        request = if cookie.is_empty() {
            request.header("authorization", format!("Bearer {}", self.server.token))
        } else {
            request.header("cookie", cookie)
        };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut sender = self.speak("code.test").await;
        let (answer, body) = self.send(&mut sender, request.body(Full::from(body)).unwrap()).await;
        assert!(answer.status().is_success(), "{path}: {} {body:?}", answer.status());
        (answer, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// A person opens an address, and follows nothing.
    async fn open(&self, url: &str, cookie: &str) -> (Response<()>, Bytes) {
        let rest = url.strip_prefix("https://").expect("by https");
        let (host, path) = rest.split_at(rest.find('/').unwrap());
        let request = Request::get(path).header("host", host).header("cookie", cookie);
        let request = request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
        let request = request.header("sec-fetch-site", "none").header("accept", "text/html");
        let mut sender = self.speak(host.split(':').next().unwrap()).await;
        self.send(&mut sender, request.body(Full::default()).unwrap()).await
    }

    async fn workspace(&self) -> (String, String) {
        let (_, made) = self.api(Method::POST, "/workspaces", "", Some(json!({ "name": "mine" }))).await;
        let id = made["id"].as_str().unwrap().to_owned();
        eventually("it runs", async || {
            self.api(Method::GET, &format!("/workspaces/{id}"), "", None).await.1["phase"] == "RUNNING"
        })
        .await;
        (id, made["url"].as_str().unwrap().to_owned())
    }
}

fn cookie(answer: &Response<()>) -> String {
    answer.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
}

fn location(answer: &Response<()>) -> String {
    answer.headers()[header::LOCATION].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_handed_over_and_programs_are_run_by_tls() {
    let secured = Secured::start(&Ca::new()).await;
    let (id, url) = secured.workspace().await;
    assert_eq!(url, format!("https://{id}.apps.test:{}/", secured.port()));

    let body = json!({ "username": ADMIN, "password": PASSWORD });
    let session = cookie(&secured.api(Method::POST, "/auth/login", "", Some(body)).await.0);
    let (first, _) = secured.open(&format!("{url}pid"), "").await;
    let nonce = cookie(&first);
    assert!(nonce.starts_with("__Host-"), "{nonce}");
    let (opened, _) = secured.open(&location(&first), &session).await;
    let (entered, _) = secured.open(&location(&opened), &nonce).await;
    let inside = cookie(&entered);
    assert!(inside.starts_with("__Host-Http-workspace="), "{inside}");
    let (page, body) = secured.open(&format!("{url}pid"), &inside).await;
    assert_eq!(page.status(), 200, "{body:?}");

    // A WebSocket of the workspace's own program.
    let address = format!("wss://{id}.apps.test:{}/echo", secured.port());
    let mut request = address.into_client_request().unwrap();
    let origin = format!("https://{id}.apps.test:{}", secured.port());
    request.headers_mut().insert("cookie", inside.parse().unwrap());
    request.headers_mut().insert("origin", origin.parse().unwrap());
    let stream = secured.connect(&format!("{id}.apps.test")).await;
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    for text in ["one", "two", "three"] {
        socket.send(Message::text(text)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(text));
    }

    // And one of ours: a program, with more output than any buffer holds.
    let address = format!("wss://code.test:{}/api/v1/workspaces/{id}/exec", secured.port());
    let mut request = address.into_client_request().unwrap();
    let bearer = format!("Bearer {}", secured.server.token);
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    request.headers_mut().insert("sec-websocket-protocol", "codehub.exec.v1".parse().unwrap());
    let stream = secured.connect("code.test").await;
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let ask = json!({ "command": ["head", "-c", "3000000", "/dev/zero"] }).to_string();
    socket.send(Message::binary([b"\x05", ask.as_bytes()].concat())).await.unwrap();
    let (mut output, mut exit) = (0, Value::Null);
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(bytes) = message else { break };
        match bytes[0] {
            1 => output += bytes.len() - 1,
            3 => exit = serde_json::from_slice(&bytes[1..]).unwrap(),
            other => panic!("{other}"),
        }
    }
    assert_eq!((output, exit), (3_000_000, json!({ "exit": { "code": 0 } })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_shown_and_a_bad_one_is_not() {
    let ca = Ca::new();
    let secured = Secured::start(&ca).await;
    let setup = &secured.server.setup;
    let first = secured.shown().await;
    let mut open = secured.speak("code.test").await;
    let bearer = format!("Bearer {}", secured.server.token);
    let again = async |open: &mut Sender| {
        let host = format!("code.test:{}", secured.port());
        let request = Request::get("/metrics")
            .header("host", host)
            .header("authorization", bearer.as_str())
            .body(Full::default())
            .unwrap();
        let (answer, body) = secured.send(open, request).await;
        assert_eq!(answer.status(), 200);
        String::from_utf8(body.to_vec()).unwrap()
    };
    assert!(again(&mut open).await.contains("codehub_tls_certificate_expires_timestamp_seconds 37"));

    write(setup, &ca.sign(&NAMES, 2091));
    eventually("the new one is shown", async || secured.shown().await != first).await;
    let second = secured.shown().await;
    let metrics = again(&mut open).await;
    assert!(metrics.contains("codehub_tls_certificate_rereads_total{outcome=\"ok\"} 1"), "{metrics}");

    fs::write(files(setup).1, ca.sign(&NAMES, 2091).1).unwrap();
    eventually("it says that it is bad", async || {
        let log = fs::read_to_string(setup.log_file()).unwrap();
        log.contains("the new TLS certificate cannot be used") && log.contains("is not the key")
    })
    .await;
    assert_eq!(secured.shown().await, second);
    let metrics = again(&mut open).await;
    assert!(metrics.contains("codehub_tls_certificate_rereads_total{outcome=\"failed\"} 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_says_what_is_wrong_with_the_files() {
    let ca = Ca::new();
    let (good, other) = (ca.sign(&NAMES, 2090), ca.sign(&NAMES, 2090));
    for (pair, said) in [
        ((good.0.clone(), other.1), "is not the key of the certificate"),
        (ca.sign(&NAMES, 2021), "expired on 2021-01-01"),
        ((String::new(), good.1.clone()), "holds no certificate"),
    ] {
        let output = setup(&pair).command(&["serve"]).output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && text.contains(said), "{said}: {text}");
    }
    let setup = setup(&good);
    let (_, key) = files(&setup);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let output = setup.command(&["serve"]).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("others can read it"), "{text}");

    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let doctor = |setup: &Setup| {
        let output = setup.command(&["doctor"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = doctor(&setup);
    assert!(text.contains("ok    certificate: for code.test and *.apps.test, until 2090-01-01"), "{text}");
    assert!(text.contains("FIX   dashboard's name: code.test does not resolve"), "{text}");
    write(&setup, &ca.sign(&["code.test"], 2090));
    let text = doctor(&setup);
    assert!(text.contains("FIX   certificate: ") && text.contains("is not for *.apps.test"), "{text}");
}

/// A second port for workspaces speaks TLS as well.
#[tokio::test(flavor = "multi_thread")]
async fn both_ports_speak_tls() {
    let ca = Ca::new();
    let other = crate::support::free_port();
    let setup = setup(&ca.sign(&["code.test"], 2090))
        .without("PROXY_DOMAIN")
        .env("PROXY_ORIGINS", "port")
        .env("PROXY_LISTEN", &format!("127.0.0.1:{other}"));
    let mut server =
        Server { child: setup.spawn(), setup, client: reqwest::Client::new(), token: String::new() };
    server.until_ready().await;
    let mut roots = RootCertStore::empty();
    roots.add(ca.cert.der().clone()).unwrap();
    let secured = Secured { server, roots };
    for port in [secured.port(), other] {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(secured.roots.clone())
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from("code.test").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/.codehub/ping?nonce=1").header("host", format!("code.test:{port}"));
        let (answer, body) = secured.send(&mut sender, request.body(Full::default()).unwrap()).await;
        assert_eq!((answer.status().as_u16(), body.len()), (200, 65), "{port}");
        let plain = format!("http://127.0.0.1:{port}/x");
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let answer = client.get(plain).header("host", format!("code.test:{port}")).send();
        let answer = tokio::time::timeout(Duration::from_secs(10), answer).await.unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), 307);
        assert_eq!(answer.headers()["location"], format!("https://code.test:{port}/x"));
    }
}

/// The command line, with a CA of one's own.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_trusts_the_authority_it_is_told_of() {
    let ca = Ca::new();
    let secured = Secured::start(&ca).await;
    let (id, _) = secured.workspace().await;
    let file = secured.server.setup.data.path().join("ca.pem");
    fs::write(&file, ca.cert.pem()).unwrap();
    let run = |arguments: &[&str], ca: Option<&str>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_codehub"));
        command.args(arguments).env_clear().env("HOME", secured.server.setup.data.path());
        command.env("CODEHUB_URL", format!("https://localhost:{}", secured.port()));
        command.env("CODEHUB_TOKEN", &secured.server.token);
        command.envs(ca.map(|file| ("CODEHUB_CA_FILE", file)));
        command.output().unwrap()
    };
    let refused = run(&["ls"], None);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(7) && text.contains("CODEHUB_CA_FILE"), "{text}");
    let said = run(&["exec", &id, "--", "echo", "hello"], file.to_str());
    assert_eq!((said.status.code(), &said.stdout[..]), (Some(0), &b"hello\n"[..]), "{said:?}");
}
