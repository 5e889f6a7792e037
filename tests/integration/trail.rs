//! What the audit trail of a whole deployment says: of openings, of the command line, of changed settings; and that
//! it ends somewhere.

use std::{io::Write as _, process::Stdio};

use codehub_testing::eventually;
use serde_json::{Value, json};

use crate::support::{Server, Setup};

async fn events(server: &Server, query: &str) -> Vec<Value> {
    let page = server.get(&format!("/audit?limit=200&{query}")).await;
    page["items"].as_array().unwrap().clone()
}

/// Runs `codehub` beside the server with this on its standard input: whether it did, and what it said.
fn codehub(server: &Server, words: &[&str], input: &str) -> (bool, String) {
    let mut command = server.setup.command(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that refuses at once does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_workspace_is_one_event_an_hour() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "opened" })).await;
    assert_eq!(events(&server, "action=workspace.opened").await, Vec::<Value>::new());
    for _ in 0..3 {
        let request = server.client.get(server.url(&format!("/w/{id}/healthz"))).bearer_auth(&server.token);
        let request = request.header("Sec-Fetch-Mode", "navigate").header("Sec-Fetch-Dest", "document");
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    let mut opened = Vec::new();
    eventually("it is written down", async || {
        opened = events(&server, &format!("action=workspace.opened&object={id}")).await;
        !opened.is_empty()
    })
    .await;
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!((&opened[0]["actor"]["kind"], &opened[0]["outcome"]), (&json!("token"), &json!("ok")));
    assert!(opened[0]["address"].as_str().is_some_and(|address| address.starts_with("127.")), "{opened:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_differ_from_the_last_start_are_named() {
    let mut server = Setup::new().start().await;
    server.kill();
    server.restart().await;
    assert_eq!(events(&server, "action=config.changed").await, Vec::<Value>::new(), "nothing was changed");
    server.kill();
    server.set_env("AUDIT_RETENTION", "300d");
    server.set_env("ARCHIVE_KEEP", "7");
    server.restart().await;
    let changed = events(&server, "action=config.changed").await;
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0]["actor"]["kind"], "system");
    assert_eq!(changed[0]["changes"]["after"], "archive.keep, audit.retention", "{changed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_an_operator_adopts_is_an_event_of_theirs() {
    let mut server = Setup::new().start().await;
    let id = server.create(json!({ "name": "adopted" })).await;
    server.go(&id, "archive").await;
    let key = server.workspace(&id).await["archive_key"].as_str().unwrap().to_owned();
    server.kill();
    // As if it had come from elsewhere: nobody has a record of it.
    let forget = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('DELETE FROM archives'); db.commit()";
    let database = server.files_below("").into_iter().find(|path| path.ends_with("codehub.db")).unwrap();
    let forgot = std::process::Command::new("python3").args(["-c", forget]).arg(database).output().unwrap();
    assert!(forgot.status.success(), "{}", String::from_utf8_lossy(&forgot.stderr));
    let (adopted, said) = codehub(&server, &["admin", "archives", "adopt", &key], "");
    assert!(adopted, "{said}");
    server.restart().await;
    let found = events(&server, "action=archive.adopted").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["actor"]["kind"], &found[0]["object"]["id"]),
        (&json!("operator"), &json!(key)),
        "{found:?}"
    );
    assert!(
        found[0]["changes"]["after"].as_str().is_some_and(|text| text.starts_with("sha256 ")),
        "{found:?}"
    );
    server.go(&id, "start").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_creates_no_second_user_without_a_sandbox_either() {
    let server = Setup::new().without("PROCESS_UNSANDBOXED_USERS").start().await;
    let (created, said) = codehub(&server, &["admin", "user", "add", "second"], "a long password\n");
    assert!(!created && said.contains("PROCESS_UNSANDBOXED_USERS=many"), "{said}");
    let mut server = server;
    server.set_env("PROCESS_UNSANDBOXED_USERS", "many");
    let (created, said) = codehub(&server, &["admin", "user", "add", "second"], "a long password\n");
    assert!(created, "{said}");
    let names: Vec<Value> = server.get("/users").await["items"].as_array().unwrap().clone();
    assert!(names.iter().any(|user| user["username"] == "second"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_older_than_the_retention_goes_and_that_is_told() {
    let setup = Setup::new().env("AUDIT_RETENTION", "5s").env("COORDINATOR_GC_INTERVAL", "1s");
    let server = setup.start().await;
    let id = server.create(json!({ "name": "forgotten" })).await;
    assert!(!events(&server, &format!("action=workspace.created&object={id}")).await.is_empty());
    eventually("it is gone", async || {
        events(&server, &format!("action=workspace.created&object={id}")).await.is_empty()
    })
    .await;
    let pruned = events(&server, "action=audit.pruned").await;
    assert!(
        pruned.iter().all(|event| event["actor"]["kind"] == "system") && !pruned.is_empty(),
        "{pruned:?}"
    );
}
