//! Files of a home.

use reqwest::{Body, Method};

use super::*;

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
