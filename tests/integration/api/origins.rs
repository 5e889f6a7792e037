//! From the dashboard to a workspace's own origin, through the real store.

use codehub_store::{SessionEnd, fake::by};
use codehub_testing::eventually;
use reqwest::{Client, Response, header, redirect::Policy};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::TestApp;

/// A browser that follows nothing by itself.
struct Browser<'a> {
    app: &'a TestApp,
    client: Client,
}

impl Browser<'_> {
    async fn open(&self, host: &str, path: &str, cookie: &str) -> Response {
        let request = self.client.get(self.app.url(path)).header("host", host).header("cookie", cookie);
        let request = request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
        request.header("sec-fetch-site", "none").header("accept", "text/html").send().await.unwrap()
    }
}

fn location(answer: &Response) -> String {
    answer.headers()[header::LOCATION].to_str().unwrap().to_owned()
}

/// Host and path of an address.
fn parts(url: &str) -> (String, String) {
    let rest = url.strip_prefix("http://").unwrap();
    let at = rest.find('/').unwrap();
    (rest[..at].to_owned(), rest[at..].to_owned())
}

fn cookie(answer: &Response) -> String {
    answer.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// Answers everything with the same few bytes.
async fn program() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                while stream.read(&mut head).await.is_ok_and(|n| n > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
                }
            });
        }
    });
    addr
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_handed_over_and_signing_out_ends_it() {
    let app = &TestApp::with(&[("proxy.origins", "auto")]).await;
    app.world.listen_at(program().await);
    let ann = app.ann().await;
    let id = app.workspace(&ann, "mine", "RUNNING").await;
    let shown = app.get(&ann, &format!("/workspaces/{id}")).await.is(200);
    let port = app.address.port();
    assert_eq!(shown["url"], format!("http://{id}.localhost:{port}/"));
    assert_eq!(shown["path"], "/");

    let (session, cookie_of_session) = app.session(ann.id).await;
    let browser = Browser { app, client: Client::builder().redirect(Policy::none()).build().unwrap() };
    let (own, dashboard) = (format!("{id}.localhost:{port}"), format!("localhost:{port}"));

    // By an address instead of the name: there workspaces would have none.
    let moved = browser.open(&format!("127.0.0.1:{port}"), "/login?next=/", "").await;
    assert_eq!(
        (moved.status().as_u16(), location(&moved)),
        (307, format!("http://localhost:{port}/login?next=/"))
    );

    let first = browser.open(&own, "/deep?x=1", &cookie_of_session).await;
    assert_eq!(first.status(), 303);
    let nonce = cookie(&first);
    let (host, open) = parts(&location(&first));
    assert_eq!(host, dashboard);
    let opened = browser.open(&host, &open, &cookie_of_session).await;
    let (host, enter) = parts(&location(&opened));
    assert_eq!(host, own);
    assert_eq!(browser.open(&host, &enter, "").await.status(), 400, "not without the nonce");
    let entered = browser.open(&host, &enter, &nonce).await;
    assert_eq!((entered.status().as_u16(), location(&entered).as_str()), (303, "/deep?x=1"));
    let inside = cookie(&entered);
    assert_eq!(browser.open(&host, &enter, &nonce).await.status(), 400, "once");
    let page = browser.open(&own, "/deep?x=1", &inside).await;
    assert_eq!(page.status(), 200);
    assert_eq!(page.text().await.unwrap(), "hello");

    // Somebody else's workspace is theirs, whatever the name.
    let bob = app.person("bob", codehub_domain::user::Role::Admin).await;
    let theirs = app.workspace(&bob, "theirs", "RUNNING").await;
    let refused = browser.open(&dashboard, &format!("/open/{theirs}"), &cookie_of_session).await;
    assert_eq!(refused.status(), 403);
    let elsewhere = browser.open(&format!("{theirs}.localhost:{port}"), "/", &inside).await;
    assert_eq!(elsewhere.status(), 303, "worth nothing there: it begins anew");

    app.app.store().session_delete(by(), session, SessionEnd::Logout).await.unwrap();
    eventually("the origin's session has ended", async || {
        browser.open(&own, "/", &inside).await.status() == 303
    })
    .await;
}
