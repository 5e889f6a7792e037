//! Files of a home.

use reqwest::{Body, Method};

use super::*;
use crate::support::{ADMIN, PASSWORD};

async fn put(server: &Server, id: &str, path: &str, content: impl Into<Body>) -> (u16, Value) {
    let url = server.url(&format!("/api/v1/workspaces/{id}/files?path={path}"));
    let answer = server.client.put(url).bearer_auth(&server.token).body(content).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_put_and_got_within_the_home_only() {
    let server = sandboxed().start().await;
    let id = server.create(json!({ "name": "files" })).await;
    let (status, answer) = put(&server, &id, "a%20file.txt", "one").await;
    assert_eq!((status, answer), (201, json!({ "created": true })));
    assert_eq!(put(&server, &id, "a%20file.txt", "two").await, (200, json!({ "created": false })));
    assert_eq!(server.download(&format!("/workspaces/{id}/files?path=a%20file.txt")).await, b"two");
    assert_eq!(sh(&server, &id, "cat 'a file.txt'").await, "two");

    sh(&server, &id, "mkdir dir; ln -s /etc/passwd out; ln -s ../../../etc up; ln -s dir in").await;
    let large: Vec<u8> = (0..20 << 20).map(|n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    assert_eq!(put(&server, &id, "in/large", large.clone()).await.0, 201);
    assert!(server.download(&format!("/workspaces/{id}/files?path=dir/large")).await == large);
    let tar = server.download(&format!("/workspaces/{id}/files?path=dir")).await;
    assert_eq!(&tar[257..262], b"ustar");

    for (path, status, code) in [
        ("..%2Fx", 400, "INVALID_REQUEST"),
        ("%2Fetc%2Fpasswd", 400, "INVALID_REQUEST"),
        ("out", 403, "FORBIDDEN"),
        ("up%2Fpasswd", 403, "FORBIDDEN"),
        ("nothing", 404, "NOT_FOUND"),
    ] {
        let (found, answer) =
            server.call(Method::GET, &format!("/workspaces/{id}/files?path={path}"), None).await;
        assert_eq!(
            (found.as_u16(), answer["error"]["code"].as_str()),
            (status, Some(code)),
            "{path}: {answer}"
        );
        if path != "nothing" {
            let (found, answer) = put(&server, &id, path, "x").await;
            assert_eq!((found, answer["error"]["code"].as_str()), (status, Some(code)), "{path}: {answer}");
        }
    }
    assert_eq!(put(&server, &id, "no%2Fsuch", "x").await.0, 404);
    assert_eq!(put(&server, &id, "dir", "x").await.0, 409);
    assert_eq!(sh(&server, &id, "ls -a | grep -c partial").await.trim(), "0");
}

/// What cannot be packed is told, and what cannot be read is refused for what it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_is_named_and_not_left_out_in_silence() {
    let server = sandboxed().start().await;
    let id = server.create(json!({ "name": "odd" })).await;
    let odd = "mkdir -p dir/shut && echo text > dir/file && echo x > dir/secret && chmod 000 dir/secret dir/shut && mkfifo dir/pipe && \
               python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"dir/socket\")' && id -u && cat dir/secret";
    let unreadable = !sh(&server, &id, odd).await.contains('x');
    for odd in ["dir%2Fpipe", "dir%2Fsocket"] {
        let path = format!("/workspaces/{id}/files?path={odd}");
        let (status, answer) = server.call(Method::GET, &path, None).await;
        assert_eq!(
            (status.as_u16(), answer["error"]["code"].as_str()),
            (409, Some("INVALID_STATE")),
            "{odd}: {answer}"
        );
        assert!(answer["error"]["message"].as_str().unwrap().contains("pipe, socket or device"), "{answer}");
    }
    let tar = server.download(&format!("/workspaces/{id}/files?path=dir")).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &tar).unwrap();
    let run = |words: &[&str]| {
        let output =
            std::process::Command::new("tar").args(words).arg("-f").arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = run(&["-tv"]);
    assert!(listed.lines().any(|line| line.starts_with('p') && line.ends_with(" dir/pipe")), "{listed}");
    assert!(listed.trim_end().ends_with(" dir.left-out.txt"), "{listed}");
    let text = run(&["-xO", "--wildcards", "*.left-out.txt"]);
    assert!(text.contains("dir/socket: a socket\n"), "{text}");
    if unreadable {
        for path in ["dir/secret", "dir/shut"] {
            assert!(text.contains(&format!("{path}: Permission denied")), "{text}");
        }
    }
    // Where everything is in it there is nothing to tell.
    sh(&server, &id, "mkdir whole && echo text > whole/file").await;
    let tar = server.download(&format!("/workspaces/{id}/files?path=whole")).await;
    assert!(!String::from_utf8_lossy(&tar).contains("left-out"));
}

/// What a client sends wrongly is the client's mistake, and not the workspace's.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_malformed_chunks_is_refused_and_changes_nothing() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "chunks" })).await;
    assert_eq!(put(&server, &id, "file", "whole").await.0, 201);
    for chunks in ["zz\r\nabc\r\n0\r\n\r\n", "5\r\nhello\r\n-1\r\n", "3\r\nabcdef\r\n0\r\n\r\n"] {
        let mut client = TcpStream::connect(("127.0.0.1", server.setup.port)).await.unwrap();
        let head = format!(
            "PUT /api/v1/workspaces/{id}/files?path=file HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {}\r\n\
             Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunks}",
            server.setup.port, server.token
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{chunks:?}: {answer}");
        assert!(answer.contains("INVALID_REQUEST"), "{chunks:?}: {answer}");
    }
    assert_eq!(sh(&server, &id, "cat file").await, "whole");
}

/// A program inside that is there and does nothing: nobody waits long for it, and hears why.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_program_inside_is_told_within_seconds() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "stopped" })).await;
    assert_eq!(put(&server, &id, "file", "x").await.0, 201);
    let begun = std::time::Instant::now();
    let stop = json!({ "command": ["sh", "-c", "kill -STOP $PPID"] });
    let exec = format!("/workspaces/{id}/exec");
    let stopping = server.post(&exec, stop);
    let asking = async {
        // It is stopped by now, or is while it is asked.
        codehub_testing::let_time_pass(std::time::Duration::from_secs(1)).await;
        let file = format!("/workspaces/{id}/files?path=file");
        tokio::join!(server.call(Method::GET, &file, None), put(&server, &id, "file", "y"))
    };
    let ((status, answer), ((got, told), (written, _))) = tokio::join!(stopping, asking);
    assert!(begun.elapsed() < std::time::Duration::from_secs(19), "{:?}", begun.elapsed());
    assert_eq!((status.as_u16(), got.as_u16(), written), (503, 503, 503), "{answer}");
    assert!(told["error"]["message"].as_str().unwrap().contains("has not answered for 10 seconds"), "{told}");
}

/// A sender that goes away in the middle changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_whole_or_not_at_all() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "whole" })).await;
    assert_eq!(put(&server, &id, "file", "whole").await.0, 201);
    let pieces = futures::stream::iter(0..100).then(|n| async move {
        codehub_testing::let_time_pass(std::time::Duration::from_millis(5)).await;
        if n < 50 { Ok(vec![b'x'; 10_000]) } else { Err(std::io::Error::other("gone")) }
    });
    let url = server.url(&format!("/api/v1/workspaces/{id}/files?path=file"));
    let broken =
        server.client.put(url).bearer_auth(&server.token).body(Body::wrap_stream(pieces)).send().await;
    assert!(broken.is_err() || !broken.unwrap().status().is_success());
    codehub_testing::eventually("nothing half is left", async || {
        sh(&server, &id, "ls -a | grep -c partial").await.trim() == "0"
    })
    .await;
    assert_eq!(sh(&server, &id, "cat file").await, "whole");
}

/// What is cut off must not look whole to whoever saves it.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_breaks_off_with_the_right_to_it() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "downloads" })).await;
    sh(&server, &id, "head -c 100000000 /dev/zero > big").await;
    let file = format!("/workspaces/{id}/files?path=big");
    breaks_off(&server, &file).await;
    server.go(&id, "archive").await;
    let archives = server.get(&format!("/workspaces/{id}/archives")).await;
    let archive = archives["items"][0]["id"].as_str().unwrap();
    breaks_off(&server, &format!("/workspaces/{id}/archives/{archive}/file?path=big")).await;
}

async fn breaks_off(server: &Server, path: &str) {
    let token = server.sign_in(ADMIN, PASSWORD).await;
    let url = server.url(&format!("/api/v1{path}"));
    let mut answer = server.client.get(url).bearer_auth(&token).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {answer:?}");
    assert!(answer.chunk().await.unwrap().is_some());
    let tokens = server.get("/auth/tokens").await;
    let newest =
        tokens["items"].as_array().unwrap().iter().max_by_key(|it| it["id"].as_str().unwrap().to_owned());
    let id = newest.unwrap()["id"].as_str().unwrap();
    let (status, said) = server.call_as(&token, Method::DELETE, &format!("/auth/tokens/{id}"), None).await;
    assert!(status.is_success(), "{said}");
    let rest = async {
        while answer.chunk().await?.is_some() {}
        Ok::<_, reqwest::Error>(())
    };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), rest).await.expect("it ends");
    assert!(ended.is_err(), "{path} looks whole");
}
