//! What strangers see, and what becomes of those who are locked out.

use codehub_domain::user::Role;
use codehub_testing::let_time_pass;
use reqwest::{Method, redirect::Policy};
use serde_json::{Value, json};

use super::{Answer, TestApp};

const PASSWORD: &str = "correct horse";

/// As somebody at this address, through the proxy in front.
async fn from(app: &TestApp, address: &str, path: &str, token: Option<&str>) -> Answer {
    let mut request = app.client.get(app.url(path)).header("x-forwarded-for", address);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    app.send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_learn_whether_it_is_ready_and_nothing_else() {
    let app = TestApp::with(&[("trusted_proxies", "127.0.0.1"), ("metrics.allow", "10.1.0.0/16")]).await;
    let (ann, root) = (app.ann().await, app.person("root", Role::Admin).await);
    for (address, token, inside) in [
        ("192.0.2.1", None, false),
        ("192.0.2.1", Some(&ann.token), false),
        ("192.0.2.1", Some(&root.token), true),
        ("127.0.0.1", None, false),
        ("10.1.2.3", None, true),
        ("10.2.2.3", None, false),
    ] {
        let token = token.map(String::as_str);
        assert_eq!(from(&app, address, "/healthz", token).await.is(200), "ok\n");
        let ready = from(&app, address, "/readyz", token).await.is(200);
        assert_eq!(
            (&ready["ready"], ready.get("dependencies").is_some()),
            (&json!(true), inside),
            "{address}"
        );
        let metrics = from(&app, address, "/metrics", token).await;
        if inside {
            assert!(metrics.is(200).as_str().unwrap().contains("codehub_build_info"));
        } else {
            assert!(metrics.error(403, "FORBIDDEN").contains("METRICS_ALLOW"));
        }
    }
    // An administrator in a browser.
    let (_, cookie) = app.session(root.id).await;
    let request =
        app.client.get(app.url("/metrics")).header("x-forwarded-for", "192.0.2.1").header("cookie", cookie);
    app.send(request).await.is(200);
    // A program on this machine, by itself.
    app.send(app.client.get(app.url("/metrics"))).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_host_names_are_refused_in_words_that_help() {
    let app = TestApp::with(&[
        ("public_base_url", "http://code.example.com"),
        ("hosts_allowed", "box.lan, 10.0.0.5"),
    ])
    .await;
    let ann = app.ann().await;
    let ask = |host: &str, path: &str| app.request(&ann, Method::GET, path).header("host", host);
    for host in ["code.example.com", "Code.Example.Com:8080", "box.lan", "10.0.0.5:8080"] {
        app.send(ask(host, "/workspaces")).await.is(200);
    }
    for host in ["127.0.0.1", "localhost:8080", "evil.example", "code.example.com.", "a.box.lan", "10.0.0.6"]
    {
        let answer = app.client.execute(ask(host, "/workspaces").build().unwrap()).await.unwrap();
        assert_eq!(answer.status(), 421, "{host}");
        let said: Value = answer.json().await.unwrap();
        assert_eq!(said["error"]["code"], "MISDIRECTED", "{host}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.contains("HOSTS_ALLOWED") && message.contains("TRUSTED_PROXIES"), "{message}");
        assert!(!message.contains("code.example.com"), "nobody is told where it is");
        for check in ["/healthz", "/readyz"] {
            let answer = app.client.get(app.url(check)).header("host", host).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{host} {check}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_signed_in_sends_little() {
    let app = TestApp::start().await;
    let ann = app.person_with_password("ann", Role::User, PASSWORD).await;
    let login = |password: String| {
        let body = json!({ "username": "ann", "password": password });
        app.send(app.client.post(app.url("/api/v1/auth/login")).json(&body))
    };
    assert!(login("x".repeat(17 * 1024)).await.error(413, "TOO_LARGE").contains("16 KiB"));
    login("x".repeat(15 * 1024)).await.error(401, "UNAUTHORIZED");
    let memo = json!({ "name": "x", "memo": "m".repeat(40 * 1024), "desired_state": "STANDBY" });
    app.post(&ann, "/workspaces", memo).await.is(201);
    let form =
        app.client.post(app.url("/login")).body(format!("username=ann&password={}", "x".repeat(17 * 1024)));
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(form.send().await.unwrap().status(), 413);
}

/// Ten seconds for a body where nobody is signed in, however it trickles.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_sign_in_is_given_up() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let app = TestApp::start().await;
    let mut stream = tokio::net::TcpStream::connect(app.address).await.unwrap();
    let head = "POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let begun = std::time::Instant::now();
    let (mut reading, mut writing) = stream.into_split();
    let trickle = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            let_time_pass(std::time::Duration::from_millis(500)).await;
        }
    });
    let mut answer = String::new();
    let _ = reading.read_to_string(&mut answer).await;
    trickle.abort();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("REQUEST_TIMEOUT"), "{answer}");
    let took = begun.elapsed().as_secs();
    assert!((9..=13).contains(&took), "{took} s");
}

fn cookies_of(answer: &reqwest::Response) -> Vec<String> {
    answer.headers().get_all("set-cookie").iter().map(|set| set.to_str().unwrap().to_owned()).collect()
}

/// The page that a person opens with two session cookies removes both, and the sign-in page says why.
#[tokio::test(flavor = "multi_thread")]
async fn planted_cookies_heal_on_every_page() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let client = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
    let open = async |path: &str, cookies: &str| {
        let request = client.get(app.url(path)).header("cookie", cookies);
        request
            .header("sec-fetch-mode", "navigate")
            .header("sec-fetch-dest", "document")
            .send()
            .await
            .unwrap()
    };
    let id = app.workspace(&ann, "mine", "STANDBY").await;
    let workspace = format!("/w/{id}/");
    for path in ["/", "/login", "/login?next=/tokens", "/tokens", "/account", "/workspaces/new", &workspace] {
        let (_, mine) = app.session(ann.id).await;
        let two = format!("session=planted; {mine}");
        let answer = open(path, &two).await;
        assert_eq!((answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()), (303, path));
        let set = cookies_of(&answer);
        assert!(
            set.iter().any(|set| set.starts_with("session=; Path=/; ") && set.contains("Max-Age=0")),
            "{set:?}"
        );
        let mark = set.iter().find(|set| set.starts_with("healed=")).unwrap().split(';').next().unwrap();
        // Where that did not help, the sign-in page is next, and not the same page for ever.
        let answer = open(path, &format!("{two}; {mark}")).await;
        if path.starts_with("/login") {
            assert_eq!(answer.status(), 200);
        } else {
            let to = answer.headers()["location"].to_str().unwrap();
            assert!(to.starts_with("/login"), "{path} leads to {to}");
        }
        let page = open("/login", mark).await.text().await.unwrap();
        assert!(page.contains("second session cookie") && page.contains("login-form"), "{page}");
    }
    assert!(!open("/login", "healed=1").await.text().await.unwrap().contains("second session cookie"));
    // A program is told by a code of its own.
    let (_, mine) = app.session(ann.id).await;
    let two = format!("session=planted; {mine}");
    let answer = app.client.get(app.url("/api/v1/workspaces")).header("cookie", two);
    app.send(answer).await.error(401, "SEVERAL_SESSIONS");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_https_cookies_have_names_that_nobody_else_can_set() {
    let app = TestApp::with(&[("public_base_url", "https://code.example.com")]).await;
    let ann = app.person_with_password("ann", Role::User, PASSWORD).await;
    let sign_in = json!({ "username": "ann", "password": PASSWORD });
    let request = app.client.post(app.url("/api/v1/auth/login")).header("host", "code.example.com");
    let answer = request.json(&sign_in).send().await.unwrap();
    let set = cookies_of(&answer);
    for name in ["__Host-Http-session", "__Host-device"] {
        let cookie = set.iter().find(|set| set.starts_with(&format!("{name}="))).unwrap();
        assert!(cookie.contains("; Path=/;") && cookie.ends_with("; Secure"), "{cookie}");
        assert!(!cookie.contains("Domain") && cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"));
    }
    let who = async |cookie: &str| {
        let request = app.client.get(app.url("/api/v1/auth/session")).header("host", "code.example.com");
        app.send(request.header("cookie", cookie)).await
    };
    let session = set[0].split(';').next().unwrap();
    who(session).await.is(200);
    // The old name is not read, planted or not.
    let (_, old) = app.session(ann.id).await;
    who(&old).await.error(401, "UNAUTHORIZED");
    who(&format!("{old}; {session}")).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_browser_signs_in_while_others_guess() {
    let app = TestApp::start().await;
    let ann = app.person_with_password("ann", Role::User, PASSWORD).await;
    let login = async |password: &str, cookie: &str| {
        let body = json!({ "username": "ann", "password": password });
        app.send(app.client.post(app.url("/api/v1/auth/login")).header("cookie", cookie).json(&body)).await
    };
    let device = |answer: &Answer| {
        let all = answer.headers.get_all("set-cookie").iter().map(|set| set.to_str().unwrap());
        let device =
            all.filter_map(|set| set.split(';').next()).find(|set| set.starts_with("codehub_device="));
        device.expect("a device").to_owned()
    };
    let first = login(PASSWORD, "").await;
    let known = device(&first);
    first.is(200);
    for _ in 0..5 {
        login("wrong horse", "").await.error(401, "UNAUTHORIZED");
    }
    let said = login(PASSWORD, "").await.error(429, "TOO_MANY_ATTEMPTS");
    assert!(said.contains("signed in with before"), "{said}");
    login(PASSWORD, "codehub_device=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        .await
        .error(429, "TOO_MANY_ATTEMPTS");
    let again = login(PASSWORD, &known).await;
    let newer = device(&again);
    assert_ne!(newer, known, "a new secret each time");
    again.is(200);
    login(PASSWORD, &known).await.error(429, "TOO_MANY_ATTEMPTS");
    // Its own count is its own: ten, then it waits, too.
    for _ in 0..10 {
        login("wrong horse", &newer).await.error(401, "UNAUTHORIZED");
    }
    login(PASSWORD, &newer).await.error(429, "TOO_MANY_ATTEMPTS");
    // A password that an administrator sets makes every browser a stranger, and forgets the guesses from everywhere.
    let edit = codehub_store::UserEdit {
        password_hash: Some(app.app.passwords.hash(PASSWORD).await.unwrap()),
        ..Default::default()
    };
    app.app.store().user_edit(codehub_store::fake::by(), ann.id, edit).await.unwrap();
    let said = login(PASSWORD, &newer).await.error(429, "TOO_MANY_ATTEMPTS");
    assert!(said.contains("from here"), "as a stranger: {said}");
}
