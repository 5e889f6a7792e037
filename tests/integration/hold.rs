//! `codehub hold`: a client on the command line, and a lease that outlives the server's process.

use codehub_testing::eventually;
use serde_json::{Value, json};

use crate::support::{Server, Setup};

fn hold(server: &Server, id: &str, arguments: &[&str]) -> std::process::Output {
    let mut all = vec!["hold"];
    all.extend(arguments);
    server
        .setup
        .command(&all)
        .env("CODEHUB_URL", server.url(&format!("/w/{id}/")))
        .env("CODEHUB_TOKEN", &server.token)
        .env("CODEHUB_WORKSPACE_ID", id)
        .output()
        .unwrap()
}

async fn leases(server: &Server, id: &str) -> Vec<Value> {
    server.get(&format!("/workspaces/{id}/keepalive")).await["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_run_under_a_lease() {
    let mut server = Setup::new().start().await;
    let id = server.create(json!({ "name": "held" })).await;
    // The command sees its own lease, and its code is handed on.
    let list = format!("{}/api/v1/workspaces/{id}/keepalive", server.url(""));
    let look = "import os, sys, urllib.request as u; r = u.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + os.environ['CODEHUB_TOKEN']}); print(u.urlopen(r).read().decode()); sys.exit(7)";
    let ran = hold(&server, &id, &["1h", "--", "python3", "-c", look, &list]);
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    let seen: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(seen["items"][0]["reason"].as_str().unwrap().starts_with("python3 -c"), "{seen}");
    assert_eq!(leases(&server, &id).await, [] as [Value; 0], "given back");

    let ran = hold(&server, &id, &["30m", "--reason", "later"]);
    assert!(ran.status.success(), "{ran:?}");
    server.kill();
    server.restart().await;
    let kept = leases(&server, &id).await;
    assert_eq!(kept[0]["id"].as_str().unwrap(), String::from_utf8(ran.stdout).unwrap().trim());

    for (arguments, why) in [(&["13h"][..], "allows no more"), (&["soon"], "no duration")] {
        let ran = hold(&server, &id, arguments);
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && text.contains(why), "{text}");
    }
}

/// From where it is meant for: a workspace's own terminal, in a sandbox with a network of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_takes_a_lease_from_inside_its_sandbox() {
    let script = "exec >~/said 2>&1; until [ -e ~/token ]; do sleep 0.05; done; export CODEHUB_TOKEN=$(cat ~/token); \
                  codehub hold 30m --reason direct; CODEHUB_API_URL=http://localhost:1/ codehub hold 30m --reason around; \
                  touch ~/held; exec sleep 600";
    let command = format!("sh -c '{script}' sh {{socket}}");
    let setup = Setup::new().env("IDE_COMMAND", &command).env("PROCESS_SANDBOX", "auto");
    let server = setup.start().await;
    let system = server.get("/system").await;
    let own = system["safeguards"]
        .as_array()
        .unwrap()
        .iter()
        .any(|it| it["name"] == "network" && it["state"] == "good");
    if !own {
        return codehub_testing::skip("no bwrap and pasta");
    }
    let (status, made) =
        server.post("/workspaces", json!({ "name": "inside", "desired_state": "RUNNING" })).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap();
    eventually("its home is there", async || !server.volumes(id).is_empty()).await;
    let home = server.home(id);
    std::fs::write(home.join("token"), &server.token).unwrap();
    eventually("it has taken them", async || home.join("held").exists()).await;
    let said = std::fs::read_to_string(home.join("said")).unwrap();
    let reasons: Vec<Value> = leases(&server, id).await.iter().map(|it| it["reason"].clone()).collect();
    assert_eq!(reasons.len(), 2, "{said}");
    assert!(reasons.contains(&json!("direct")) && reasons.contains(&json!("around")), "{reasons:?}: {said}");
}
