//! What every route has in common.

use codehub_testing::let_time_pass;
use reqwest::Method;
use serde_json::json;

use super::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_methods_and_bodies_are_told_in_the_apis_words() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    for path in ["/nothing", "/workspaces/x/y/z", "/workspaces/", "/../v2"] {
        app.get(&ann, path).await.error(404, "NOT_FOUND");
    }
    app.send(app.client.get(app.url("/api/v2"))).await.error(404, "NOT_FOUND");
    app.send(app.request(&ann, Method::PUT, "/workspaces")).await.error(405, "METHOD_NOT_ALLOWED");
    app.send(app.request(&ann, Method::DELETE, "/auth/login")).await.error(405, "METHOD_NOT_ALLOWED");
    let post = |body: &'static str| app.request(&ann, Method::POST, "/workspaces").body(body);
    app.send(post("{}")).await.error(400, "INVALID_REQUEST");
    app.send(post("{\"name\"").header("content-type", "application/json"))
        .await
        .error(400, "INVALID_REQUEST");
    app.send(post("[]").header("content-type", "application/json")).await.error(400, "INVALID_REQUEST");
    let huge = json!({ "name": "x", "memo": "m".repeat(600 * 1024) });
    app.post(&ann, "/workspaces", huge).await.error(413, "TOO_LARGE");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_needs_somebody_but_the_few_that_do_not() {
    let app = TestApp::start().await;
    let document = app.send(app.client.get(app.url("/api/v1/openapi.json"))).await.is(200);
    let mut open = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let url = app.url(&path.replace("{id}", &uuid::Uuid::now_v7().to_string()));
            let method: Method = method.to_uppercase().parse().unwrap();
            let mut request = app.client.request(method.clone(), url);
            if operation.get("requestBody").is_some() {
                request = request.json(&json!({}));
            }
            let answer = app.send(request).await;
            assert!(
                answer.status != 404 && answer.status != 405,
                "{method} {path} is documented but not there"
            );
            if answer.status != 401 {
                open.push(format!("{method} {path}"));
            }
        }
    }
    open.sort_unstable();
    assert_eq!(
        open,
        [
            "GET /api/v1/setup",
            "GET /healthz",
            "GET /metrics",
            "GET /readyz",
            "POST /api/v1/auth/device",
            "POST /api/v1/auth/device/token",
            "POST /api/v1/auth/login",
            "POST /api/v1/auth/logout",
            "POST /api/v1/setup",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_carry_safe_headers_and_a_request_id() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    for answer in [app.get(&ann, "/workspaces").await, app.get(&ann, "/nothing").await] {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert!(
            answer.headers["content-security-policy"].to_str().unwrap().contains("frame-ancestors 'none'")
        );
        assert_eq!(answer.headers["x-request-id"].len(), 32);
    }
    let mine = app.request(&ann, Method::GET, "/workspaces").header("x-request-id", "my-id.7");
    assert_eq!(app.send(mine).await.headers["x-request-id"], "my-id.7");
    let evil = app.request(&ann, Method::GET, "/workspaces").header("x-request-id", "a b{}");
    assert_eq!(app.send(evil).await.headers["x-request-id"].len(), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_told_how_it_goes() {
    codehub_server::telemetry::metrics::install();
    let app = TestApp::start().await;
    let get = async |path: &str| app.send(app.client.get(app.url(path))).await;
    assert_eq!(get("/healthz").await.is(200), "ok\n");
    let ready = get("/readyz").await.is(200);
    assert_eq!((&ready["ready"], &ready["dependencies"]["store"]["ok"]), (&json!(true), &json!(true)));
    assert_eq!(ready["dependencies"].as_object().unwrap().len(), 6);
    assert_eq!(ready["dependencies"]["coordinator"]["ok"], true);
    let metrics = get("/metrics").await.is(200);
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("codehub_http_request_duration_seconds_bucket"), "{metrics}");
    assert!(metrics.contains("route=\"/healthz\"") && metrics.contains("codehub_build_info"), "{metrics}");
    let docs = get("/api/docs").await;
    let policy = docs.headers["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("http"), "{policy}");
    let page = docs.is(200);
    let page = page.as_str().unwrap();
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
    for asset in ["/api/docs/docs.js", "/api/docs/docs.css"] {
        assert!(page.contains(asset));
        assert!(!get(asset).await.is(200).as_str().unwrap().contains("://"), "nothing from elsewhere");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_whether_it_is_ready_does_not_load_what_it_depends_on() {
    let app = TestApp::start().await;
    let begun = std::time::Instant::now();
    for _ in 0..5 {
        let all = (0..40).map(|_| app.send(app.client.get(app.url("/readyz"))));
        for answer in futures::future::join_all(all).await {
            assert_eq!(answer.is(200)["ready"], true);
        }
    }
    let most = 2 + u32::try_from(begun.elapsed().as_secs()).unwrap();
    assert!((1..=most).contains(&app.world.pings()), "{} checks for 200 questions", app.world.pings());

    // An answer grows old.
    let_time_pass(std::time::Duration::from_millis(1100)).await;
    let before = app.world.pings();
    app.send(app.client.get(app.url("/readyz"))).await.is(200);
    assert_eq!(app.world.pings(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_only_coordinates_answers_nobody_but_machines() {
    // Several processes need servers for what they share; this one has all it needs in itself.
    let shared = [("database.url", "postgres://nowhere/x"), ("redis.url", "redis://nowhere")];
    let app = TestApp::with(&[("role", "coordinator"), shared[0], shared[1]]).await;
    let ann = app.ann().await;
    for path in ["/", "/login", "/api/v1/workspaces", &format!("/w/{}/", uuid::Uuid::now_v7())] {
        let answer = app.client.get(app.url(path)).bearer_auth(&ann.token).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
        let said = answer.text().await.unwrap();
        assert!(said.contains("only coordinates"), "{path}: {said}");
    }
    app.send(app.client.get(app.url("/readyz"))).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_without_tls_works() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let stream = tokio::net::TcpStream::connect(app.address).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(app.url("/api/v1/workspaces"))
        .header("authorization", format!("Bearer {}", ann.token))
        .body(axum::body::Body::empty())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
}
