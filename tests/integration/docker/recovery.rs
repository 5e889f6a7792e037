//! The startup recovery matrix: CodeHub is killed in the middle of something, the container is put into
//! a state, and CodeHub is started again. Where the matrix says ERROR because nobody would try again,
//! the controller does: it gets where it was going.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{Docked, TestEngine, setup};

/// What the container is when CodeHub comes back.
#[derive(Debug, Clone, Copy)]
enum Left {
    AsItIs,
    Gone,
    Stopped,
    Paused,
}

fn leave(docked: &Docked, id: &str, left: Left) {
    let name = format!("codehub-ws-{id}");
    match left {
        Left::AsItIs => {}
        Left::Gone => drop(docked.engine.run(&["rm", "-f", &name])),
        Left::Stopped => drop(docked.engine.run(&["kill", &name])),
        Left::Paused => drop(docked.engine.run(&["pause", &name])),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "not yet seen to pass"]
async fn every_row_of_the_matrix() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let mut docked = Docked::start(setup(&engine), engine).await;
    let rows = [
        // starting
        ("stop", "start", 0, Left::AsItIs, "RUNNING"),
        ("stop", "start", 250, Left::AsItIs, "RUNNING"),
        ("stop", "start", 600, Left::Gone, "RUNNING"),
        ("stop", "start", 600, Left::Stopped, "RUNNING"),
        // stopping
        ("start", "stop", 0, Left::AsItIs, "STANDBY"),
        ("start", "stop", 150, Left::Gone, "STANDBY"),
        ("start", "stop", 150, Left::Stopped, "STANDBY"),
        // running
        ("start", "", 0, Left::AsItIs, "RUNNING"),
        ("start", "", 0, Left::Gone, "RUNNING"),
    ];
    let id = docked.create("matrix").await;
    assert!(docked.inside(&id, "echo kept > note").0);
    for (before, verb, after_millis, left, phase) in rows {
        docked.server.go(&id, before).await;
        if !verb.is_empty() {
            let (status, _) = docked.server.post(&format!("/workspaces/{id}/{verb}"), json!({})).await;
            assert_eq!(status, StatusCode::ACCEPTED);
            tokio::time::sleep(Duration::from_millis(after_millis)).await;
        }
        docked.server.kill();
        leave(&docked, &id, left);
        docked.server.restart().await;
        let arrived = docked.server.until_phase(&id, phase).await;
        assert!(arrived["error_reason"].is_null(), "{verb} {left:?}: {arrived:#}");
        let running = usize::from(phase == "RUNNING");
        // A row that was saved before the crash says RUNNING until the first look.
        let mut looks = 0;
        while docked.containers(&id).len() != running {
            looks += 1;
            assert!(looks < 300, "{verb} {left:?}: {:?}", docked.containers(&id));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(docked.volumes(&id).len(), 1);
    }
    docked.server.go(&id, "start").await;
    assert_eq!(docked.inside(&id, "cat note").1, "kept");

    for (left, after_millis) in [(Left::AsItIs, 0), (Left::Gone, 100), (Left::Paused, 0)] {
        let id = docked.create("deleted").await;
        let (status, _) = docked.server.call(Method::DELETE, &format!("/workspaces/{id}"), None).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
        tokio::time::sleep(Duration::from_millis(after_millis)).await;
        docked.server.kill();
        leave(&docked, &id, left);
        docked.server.restart().await;
        let mut waited = 0;
        while !(docked.containers(&id).is_empty() && docked.volumes(&id).is_empty()) {
            waited += 1;
            assert!(waited < 300, "{left:?}: {:?} {:?}", docked.containers(&id), docked.volumes(&id));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
