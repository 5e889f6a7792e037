//! What listens in a workspace, opened as a browser does: by a name of its own, on a real server and real processes.

use std::net::TcpListener;

use codehub_testing::eventually;
use futures::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method, StatusCode, redirect::Policy};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _, http::HeaderValue};

use super::{sandboxed, sh};
use crate::support::{PASSWORD, Server, Setup, free_port};

/// Names below `localhost`, which nobody has to resolve here.
fn by_name(setup: Setup) -> Setup {
    setup.without("PROXY_ORIGINS")
}

/// A browser's requests to a port, sent to where the server listens.
struct Visitor<'a> {
    server: &'a Server,
    client: Client,
    host: String,
    bearer: Option<String>,
}

impl<'a> Visitor<'a> {
    fn new(server: &'a Server, id: &str, port: u16, token: &str) -> Self {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        let host = format!("{port}-{id}.localhost:{}", server.setup.port);
        Self { server, client, host, bearer: Some(format!("Bearer {token}")) }
    }

    async fn get(&self, path: &str, navigates: bool) -> (StatusCode, String) {
        let url = format!("http://127.0.0.1:{}{path}", self.server.setup.port);
        let mut request = self.client.get(url).header("host", &self.host);
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        if navigates {
            request = request.header("accept", "text/html").header("sec-fetch-mode", "navigate");
        }
        let answer = request.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }
}

/// Serves what it was asked, on an address of the workspace's own.
async fn serve(server: &Server, id: &str, address: &str, port: u16) {
    let script = format!(
        r#"
import http.server, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = (self.requestline + "\n" + str(self.headers)).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in {address:?} else socket.AF_INET
Server(({address:?}, {port}), Handler).serve_forever()
"#
    );
    let url = server.url(&format!("/api/v1/workspaces/{id}/files?path=serve-{port}.py"));
    let put = server.client.put(url).bearer_auth(&server.token).body(script).send().await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    sh(server, id, &format!("python3 serve-{port}.py >/dev/null 2>&1 &")).await;
    let listens = async || {
        let listed = server.get(&format!("/workspaces/{id}/ports")).await;
        listed["items"].as_array().unwrap().iter().any(|it| it["port"] == port && it["listening"] == true)
    };
    eventually("it listens", listens).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_listens_is_opened_by_name_on_any_address() {
    let server = by_name(sandboxed()).start().await;
    let id = server.create(json!({ "name": "ports" })).await;
    for address in ["127.0.0.1", "::1", "0.0.0.0"] {
        let port = free_port();
        let visitor = Visitor::new(&server, &id, port, &server.token);
        let (status, page) = visitor.get("/", true).await;
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{page}");
        assert!(page.contains(&format!("Nothing listens on port {port}")), "{page}");
        serve(&server, &id, address, port).await;
        let (status, seen) = visitor.get("/a?b=c", false).await;
        assert_eq!(status, StatusCode::OK, "{address}: {seen}");
        let seen = seen.to_lowercase();
        assert!(
            seen.starts_with("get /a?b=c http/1.1") && seen.contains(&format!("host: localhost:{port}")),
            "{seen}"
        );
        assert!(!seen.contains("forwarded") && !seen.contains("bearer"), "{seen}");
        let listed = server.get(&format!("/workspaces/{id}/ports")).await;
        let found = listed["items"].as_array().unwrap().iter().find(|it| it["port"] == port).unwrap();
        assert_eq!(found["url"], format!("http://{port}-{id}.localhost:{}/", server.setup.port));
        // Without a token, a person is led through the dashboard, and a program gets nothing.
        let nobody = Visitor { bearer: None, ..visitor };
        assert_eq!(nobody.get("/", true).await.0, StatusCode::SEE_OTHER);
        assert_eq!(nobody.get("/", false).await.0, StatusCode::UNAUTHORIZED);
    }
    // Many at once over one line, and connections are used again.
    let port = free_port();
    serve(&server, &id, "127.0.0.1", port).await;
    let visitor = Visitor::new(&server, &id, port, &server.token);
    let asks =
        futures::stream::iter(0..500).map(|n| visitor.get(if n % 2 == 0 { "/x" } else { "/y" }, false));
    let answers: Vec<_> = asks.buffer_unordered(32).collect().await;
    assert!(answers.iter().all(|(status, _)| *status == StatusCode::OK));
}

/// A stream of events that watches a workspace.
struct Watching {
    answer: reqwest::Response,
    rest: String,
}

impl Watching {
    async fn begin(server: &Server, id: &str) -> Self {
        let url = server.url(&format!("/api/v1/events?watch={id}"));
        let answer = server.client.get(url).bearer_auth(&server.token).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        Self { answer, rest: String::new() }
    }

    /// Reads on until this is said of a port.
    async fn hears(&mut self, port: u16, what: impl Fn(&Value) -> bool) {
        let reading = async {
            loop {
                while let Some((event, rest)) = self.rest.split_once("\n\n") {
                    let (_, data) = event.split_once("data: ").unwrap();
                    let told = event.contains("event: ports_changed\n").then(|| data.to_owned());
                    self.rest = rest.to_owned();
                    let Some(told) = told.map(|told| serde_json::from_str::<Value>(&told).unwrap()) else {
                        continue;
                    };
                    let listed = told["items"].as_array().unwrap().iter().find(|it| it["port"] == port);
                    if what(listed.unwrap_or(&Value::Null)) {
                        return;
                    }
                }
                let chunk = self.answer.chunk().await.unwrap().expect("the stream goes on");
                self.rest.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), reading).await.expect("to hear of it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_a_workspace_hears_of_its_ports() {
    let server = by_name(sandboxed()).start().await;
    let id = server.create(json!({ "name": "watched" })).await;
    let port = free_port();
    let (mut one, mut two) = (Watching::begin(&server, &id).await, Watching::begin(&server, &id).await);
    one.hears(port, Value::is_null).await;
    serve(&server, &id, "127.0.0.1", port).await;
    let url = format!("http://{port}-{id}.localhost:{}/", server.setup.port);
    let answers = |port: &Value| {
        port["listening"] == true
            && port["url"] == url
            && port["process"].as_str().unwrap().contains("python")
    };
    one.hears(port, answers).await;
    two.hears(port, answers).await;
    let path = format!("/workspaces/{id}/ports/{port}");
    server.call(Method::PUT, &path, Some(json!({ "label": "the shop" }))).await;
    one.hears(port, |port| port["label"] == "the shop").await;
    server.go(&id, "stop").await;
    two.hears(port, |port| port["listening"] == false && port["label"] == "the shop").await;
    assert_eq!(server.get(&format!("/workspaces/{id}/usage")).await["memory_bytes"], Value::Null);

    server.post("/users", json!({ "username": "bob", "password": PASSWORD, "role": "user" })).await;
    let bob = server.sign_in("bob", PASSWORD).await;
    for (token, query, status) in [
        (&bob, format!("watch={id}"), 403),
        (&bob, "watch=01890a5d-ac96-774b-bcce-b302099a8057".to_owned(), 404),
        (&server.token, "watch=x".to_owned(), 400),
        (&server.token, "what=x".to_owned(), 400),
    ] {
        let (found, answer) = server.call_as(token, Method::GET, &format!("/events?{query}"), None).await;
        assert_eq!(found.as_u16(), status, "{query}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_passes_and_a_large_answer_streams() {
    let server = by_name(sandboxed()).start().await;
    let id = server.create(json!({ "name": "sockets" })).await;
    let port = free_port();
    let script = format!(
        r#"
import base64, hashlib, socket, threading
def serve(c):
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += c.recv(1)
    if b"GET /large" in head:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n")
        for _ in range(1024): c.sendall(b"x" * 65536)
        return
    key = [l.split(b": ")[1] for l in head.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    c.sendall(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    while True:
        h = c.recv(2)
        if len(h) < 2: return
        n = h[1] & 127
        mask, data = c.recv(4), b""
        while len(data) < n: data += c.recv(n - len(data))
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        if h[0] & 15 == 8: return
        c.sendall(bytes([h[0], len(data)]) + data.upper())
s = socket.create_server(("127.0.0.1", {port}))
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"#
    );
    let url = server.url(&format!("/api/v1/workspaces/{id}/files?path=serve.py"));
    server.client.put(url).bearer_auth(&server.token).body(script).send().await.unwrap();
    sh(&server, &id, "python3 serve.py >/dev/null 2>&1 &").await;
    let visitor = Visitor::new(&server, &id, port, &server.token);
    eventually("it listens", async || {
        server.get(&format!("/workspaces/{id}/ports")).await.to_string().contains(&port.to_string())
    })
    .await;
    let mut request = format!("ws://127.0.0.1:{}/hmr", server.setup.port).into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("host", HeaderValue::from_str(&visitor.host).unwrap());
    headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {}", server.token)).unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    for word in ["hello", "again"] {
        socket.send(Message::Text(word.into())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Text(word.to_uppercase().into()));
    }
    let (status, large) = visitor.get("/large", false).await;
    assert_eq!((status, large.len()), (StatusCode::OK, 64 << 20));
    // The workspace stops: whoever is connected hears of it.
    server.go(&id, "stop").await;
    assert!(
        matches!(socket.next().await, Some(Ok(Message::Close(Some(frame)))) if u16::from(frame.code) == 1001)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn others_ports_and_the_ides_are_refused() {
    // Without networks of their own: the machine's ports are everybody's.
    let server = by_name(Setup::new()).env("PORTS_DENIED", "1-1023, 6000-6010").start().await;
    let (mine, other) =
        (server.create(json!({ "name": "mine" })).await, server.create(json!({ "name": "other" })).await);
    let port = free_port();
    serve(&server, &other, "127.0.0.1", port).await;
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let asks = async |id: &str, port| Visitor::new(&server, id, port, &server.token).get("/", false).await.0;
    assert_eq!(asks(&other, port).await, StatusCode::OK);
    assert_eq!(asks(&mine, port).await, StatusCode::BAD_GATEWAY, "another workspace's");
    let foreign = foreign.local_addr().unwrap().port();
    assert_eq!(asks(&mine, foreign).await, StatusCode::BAD_GATEWAY, "another program's");
    assert_eq!(asks(&mine, server.setup.port).await, StatusCode::BAD_GATEWAY, "CodeHub's own");
    let ide = server.port_of(&mine).unwrap();
    assert_eq!(asks(&mine, ide).await, StatusCode::FORBIDDEN, "the IDE's");
    let visitor = Visitor::new(&server, &mine, ide, &server.token);
    assert_eq!(visitor.get("/", true).await.0, StatusCode::TEMPORARY_REDIRECT);
    for denied in [80, 6005] {
        assert_eq!(asks(&mine, denied).await, StatusCode::FORBIDDEN);
    }
    let put = async |port: u16, body: Value| {
        server.call(Method::PUT, &format!("/workspaces/{mine}/ports/{port}"), Some(body)).await
    };
    for (port, body, status, word) in [
        (6005, json!({}), 403, "PORTS_DENIED"),
        (ide, json!({ "visibility": "signed-in" }), 403, "IDE"),
        (3000, json!({ "visibility": "everybody" }), 400, "owner, signed-in"),
        (3000, json!({ "label": "x".repeat(61) }), 400, "60"),
        (3000, json!({ "colour": "red" }), 400, "expected: "),
    ] {
        let (found, answer) = put(port, body).await;
        assert!(found.as_u16() == status && answer.to_string().contains(word), "{found}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_shared_with_people_by_hand_over_and_taken_back() {
    let server = by_name(sandboxed()).start().await;
    let id = server.create(json!({ "name": "shared" })).await;
    let port = free_port();
    serve(&server, &id, "127.0.0.1", port).await;
    let new = json!({ "username": "bob", "password": PASSWORD, "role": "user" });
    server.post("/users", new).await;
    let token = server.sign_in("bob", PASSWORD).await;
    let by_token = Visitor::new(&server, &id, port, &token);
    assert_eq!(by_token.get("/", false).await.0, StatusCode::FORBIDDEN);
    let path = format!("/workspaces/{id}/ports/{port}");
    let (status, shared) = server
        .call(Method::PUT, &path, Some(json!({ "visibility": "signed-in", "label": " the shop " })))
        .await;
    assert_eq!(status, StatusCode::OK, "{shared}");
    assert_eq!((&shared["visibility"], &shared["label"]), (&json!("signed-in"), &json!("the shop")));
    let (status, _) = server.call_as(&token, Method::PUT, &path, Some(json!({}))).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "nobody else says so");
    assert_eq!(by_token.get("/", false).await.0, StatusCode::FORBIDDEN, "by their session, not by a program");

    // The workspace's programs know where its ports are.
    let pattern = sh(&server, &id, "printf %s \"$CODEHUB_PORT_URL\"").await;
    assert_eq!(pattern.replace("{port}", &port.to_string()), shared["url"].as_str().unwrap());

    let bob = Browser::signed_in(&server, "bob").await;
    let (status, seen) = bob.open(&by_token.host, "/x").await;
    assert_eq!(status, StatusCode::OK, "{seen}");
    assert!(!seen.to_lowercase().contains("codehub"), "{seen}");
    assert_ne!(bob.open(&format!("{id}.localhost:{}", server.setup.port), "/").await.0, StatusCode::OK);
    let listed = server.get(&format!("/workspaces/{id}/ports")).await;
    let found = listed["items"].as_array().unwrap().iter().find(|it| it["port"] == port).unwrap();
    assert_eq!((&found["label"], &found["listening"]), (&json!("the shop"), &json!(true)), "{listed}");

    server.call(Method::PUT, &path, Some(json!({ "label": "mine" }))).await;
    let gone = async || bob.open(&by_token.host, "/x").await.0 == StatusCode::FORBIDDEN;
    eventually("it is taken back", gone).await;
    let (_, audit) = server.call(Method::GET, "/audit?action=port.edited", None).await;
    let audit = audit.to_string();
    assert!(audit.contains("visibility: signed-in") && audit.contains(&format!("port {port}")), "{audit}");
    let mut visits = Value::Null;
    eventually("their visit is written down", async || {
        (_, visits) = server.call(Method::GET, "/audit?action=port.opened", None).await;
        visits["items"].as_array().is_some_and(|visits| !visits.is_empty())
    })
    .await;
    let visits = visits.to_string();
    assert!(visits.contains("\"bob\"") && visits.contains(&format!("port {port}")), "{visits}");
}

/// Some development servers speak TLS only, with a certificate of their own making.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_speaks_tls_is_opened_where_its_owner_says_so() {
    let server = by_name(sandboxed()).start().await;
    let id = server.create(json!({ "name": "tls" })).await;
    let port = free_port();
    let made = rcgen::generate_simple_self_signed(["dev.example".to_owned()]).unwrap();
    let script = format!(
        r#"
import http.server, ssl
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = str(self.headers).encode()
        self.send_response(302 if self.path == "/away" else 200)
        if self.path == "/away": self.send_header("Location", "https://localhost:{port}/there")
        self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", {port}), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("both.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#
    );
    let both = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    for (path, text) in [("serve.py", script), ("both.pem", both)] {
        let url = server.url(&format!("/api/v1/workspaces/{id}/files?path={path}"));
        let put = server.client.put(url).bearer_auth(&server.token).body(text).send().await.unwrap();
        assert!(put.status().is_success(), "{put:?}");
    }
    sh(&server, &id, "python3 serve.py >/dev/null 2>&1 &").await;
    eventually("it listens", async || {
        server.get(&format!("/workspaces/{id}/ports")).await.to_string().contains(&port.to_string())
    })
    .await;
    let visitor = Visitor::new(&server, &id, port, &server.token);
    assert_eq!(visitor.get("/", false).await.0, StatusCode::BAD_GATEWAY, "http is not what it speaks");
    let path = format!("/workspaces/{id}/ports/{port}");
    let (status, said) = server.call(Method::PUT, &path, Some(json!({ "scheme": "gopher" }))).await;
    assert!(status == StatusCode::BAD_REQUEST && said.to_string().contains("http, https"), "{said}");
    let (_, said) = server.call(Method::PUT, &path, Some(json!({ "scheme": "https" }))).await;
    assert_eq!(said["scheme"], "https");
    let mut seen = (StatusCode::OK, String::new());
    eventually("it answers by https", async || {
        seen = visitor.get("/", false).await;
        seen.0 == StatusCode::OK
    })
    .await;
    assert!(seen.1.to_lowercase().contains(&format!("host: localhost:{port}")), "{}", seen.1);
    let url = format!("http://127.0.0.1:{}/away", server.setup.port);
    let away = visitor.client.get(url).header("host", &visitor.host).bearer_auth(&server.token).send().await;
    assert_eq!(away.unwrap().headers()["location"], format!("http://{}/there", visitor.host));
}

/// A browser that somebody has signed in with: follows redirects, and keeps the cookies of each host.
struct Browser<'a> {
    server: &'a Server,
    client: Client,
    session: String,
    kept: tokio::sync::Mutex<Vec<(String, String)>>,
}

impl<'a> Browser<'a> {
    async fn signed_in(server: &'a Server, name: &str) -> Self {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        let body = json!({ "username": name, "password": PASSWORD });
        let url = server.url("/api/v1/auth/login");
        let answer = client.post(url).header("origin", server.url("")).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
        let cookies = answer.headers().get_all("set-cookie").iter();
        let session = cookies.filter_map(|it| it.to_str().ok()).find(|it| it.starts_with("session="));
        let session = session.unwrap().split(';').next().unwrap().to_owned();
        Self { server, client, session, kept: tokio::sync::Mutex::default() }
    }

    /// Opens an address, and whatever that leads to.
    async fn open(&self, host: &str, path: &str) -> (StatusCode, String) {
        let (mut host, mut path) = (host.to_owned(), path.to_owned());
        for _ in 0..10 {
            let mut kept = self.kept.lock().await;
            let mut cookies: Vec<&str> =
                kept.iter().filter(|(at, _)| *at == host).map(|(_, cookie)| cookie.as_str()).collect();
            if host.starts_with("localhost") {
                cookies.push(&self.session);
            }
            let url = format!("http://127.0.0.1:{}{path}", self.server.setup.port);
            let request = self.client.get(url).header("host", &host).header("cookie", cookies.join("; "));
            let request = request.header("accept", "text/html").header("sec-fetch-mode", "navigate");
            let answer = request.header("sec-fetch-dest", "document").send().await.unwrap();
            for cookie in answer.headers().get_all("set-cookie") {
                let cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
                kept.push((host.clone(), cookie));
            }
            let Some(to) = answer.headers().get("location") else {
                return (answer.status(), answer.text().await.unwrap());
            };
            let to = to.to_str().unwrap();
            match to.split_once("://") {
                None => path = to.to_owned(),
                Some((_, rest)) => {
                    let (to_host, to_path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                    (host, path) =
                        (to_host.to_owned(), if to_path.is_empty() { "/".into() } else { to_path.into() });
                }
            }
        }
        panic!("it leads in circles");
    }
}

/// Where all workspaces are in one network, the same number may be somebody else's at another address.
#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_at_the_same_number_gets_nothing() {
    let server = by_name(Setup::new()).start().await;
    let id = server.create(json!({ "name": "shared" })).await;
    let port = free_port();
    let neighbour = TcpListener::bind(("127.0.0.1", port)).unwrap();
    neighbour.set_nonblocking(true).unwrap();
    let visitor = Visitor::new(&server, &id, port, &server.token);
    serve(&server, &id, "127.0.0.2", port).await;
    assert_eq!(
        visitor.get("/", false).await.0,
        StatusCode::BAD_GATEWAY,
        "only the neighbour is at 127.0.0.1"
    );
    serve(&server, &id, "::1", port).await;
    // The number was listed before.
    let mut seen = String::new();
    eventually("the second one answers", async || {
        seen = visitor.get("/mine", false).await.1;
        seen.starts_with("GET /mine ")
    })
    .await;
    assert_eq!(neighbour.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");
}
