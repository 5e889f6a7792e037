//! The page, its headers, base paths, and who may talk to the server.

use http::StatusCode;

use crate::harness::Ide;

#[tokio::test]
async fn serves_the_page_with_a_strict_policy_and_relative_urls() {
    let ide = Ide::start().await;
    let response = ide.get("").await;
    assert_eq!(response.status(), StatusCode::OK);
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
    assert!(!policy.contains("unsafe"));
    let html = response.text().await.unwrap();
    assert!(!html.contains("src=\"/") && !html.contains("href=\"/"));
    assert!(!html.contains("<style") && !html.contains("style="));

    // Every module is named at the top, so that none waits until another was read; but those that are fetched when needed.
    let web = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web");
    let app = ide.get("assets/app.js").await.text().await.unwrap();
    for file in std::fs::read_dir(web).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let named = html.contains(&format!("\"assets/{name}\""));
        let later = app.contains(&format!("import(\"./{name}\")"));
        assert!(!name.ends_with(".js") || named != later, "{name}");
    }

    // Everything the page names is there, and comes with a tag that saves the next load.
    let mut names: Vec<String> =
        html.split('"').filter(|part| part.starts_with("assets/")).map(str::to_owned).collect();
    names.extend(
        app.split('"').filter(|part| part.starts_with("./")).map(|part| part.replace("./", "assets/")),
    );
    assert!(names.len() > 10);
    let compressed =
        ide.http.get(ide.url("assets/app.js")).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    assert!(compressed.bytes().await.unwrap().len() < app.len() / 2);
    for name in names {
        let response = ide.get(&name).await;
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        let tag = response.headers()["etag"].clone();
        let again = ide.http.get(ide.url(&name)).header("if-none-match", tag).send().await.unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{name}");
    }
}

#[tokio::test]
async fn works_with_and_without_the_base_path() {
    let ide = Ide::start_with(Some("/w/abc/")).await;
    ide.write("a.txt", "a");
    for prefix in ["", "w/abc/"] {
        for path in ["", "healthz", "assets/app.js", "api/tree?path="] {
            let response = ide.get(&format!("{prefix}{path}")).await;
            assert_eq!(response.status(), StatusCode::OK, "{prefix}{path}");
        }
    }
    assert_eq!(ide.get("w/abcd/").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn other_web_sites_cannot_change_anything() {
    let ide = Ide::start().await;
    let put = |headers: &[(&'static str, String)]| {
        let mut request = ide.http.put(ide.url("api/file?path=x")).body("x");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.send()
    };
    for headers in [
        vec![("origin", "https://evil.example".to_owned())],
        vec![("origin", "null".to_owned())],
        vec![("sec-fetch-site", "cross-site".to_owned())],
    ] {
        let response = put(&headers).await.unwrap();
        assert_eq!(Ide::failure(response).await, (403, "CROSS_ORIGIN".to_owned()));
    }
    assert!(!ide.home.join("x").exists());
    let own = [("origin", format!("http://{}", ide.address)), ("sec-fetch-site", "same-origin".to_owned())];
    assert_eq!(put(&own).await.unwrap().status(), StatusCode::CREATED);

    assert!(!ide.socket_with_origin("https://evil.example").await);
    assert!(ide.socket_with_origin(&format!("http://{}", ide.address)).await);
}

#[tokio::test]
async fn a_socket_is_for_its_owner_and_goes_with_the_server() {
    use std::os::unix::fs::PermissionsExt;

    use codehub_inside::{Options, Server};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
    };

    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ide");
    let mut options = Options::new(dir.path());
    options.socket = Some(socket.clone());
    let server = Server::bind(options.clone()).await.unwrap();
    assert_eq!(server.place(), format!("unix:{}", socket.display()));
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let error = Server::bind(options).await.err().unwrap();
    assert!(error.to_string().contains(socket.to_str().unwrap()), "{error}");

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async move { drop(stopped.await) }));
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"), "{answer}");
    stop.send(()).unwrap();
    task.await.unwrap().unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn where_a_secret_is_set_nothing_is_answered_without_it() {
    use codehub_inside::{Options, Server};

    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(dir.path());
    options.secret = Some("s3cret".to_owned());
    let server = Server::bind(options).await.unwrap();
    let place = server.place();
    tokio::spawn(server.run(std::future::pending()));
    let client = reqwest::Client::new();
    for path in ["", "healthz", "api/info", "ws", "assets/x"] {
        for wrong in [None, Some("s3cre"), Some("S3CRET"), Some("")] {
            let mut request = client.get(format!("{place}{path}"));
            if let Some(wrong) = wrong {
                request = request.header("x-codehub-secret", wrong);
            }
            assert_eq!(request.send().await.unwrap().status(), 401, "{path} {wrong:?}");
        }
    }
    let request = client.get(format!("{place}healthz")).header("x-codehub-secret", "s3cret");
    assert_eq!(request.send().await.unwrap().status(), 200);
}
