//! How the end of a container is told, and which ends count.

use std::time::{Duration, Instant};

use codehub_testing::{eventually, poll_every};
use reqwest::Method;
use serde_json::Value;

use super::{Docked, TestEngine, engine::OwnEngine, setup};

impl Docked {
    /// What the history says of ends, newest first: codes and words.
    async fn endings(&self, id: &str) -> Vec<(String, String)> {
        let (_, history) =
            self.server.call(Method::GET, &format!("/workspaces/{id}/history?limit=200"), None).await;
        let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let lines = history["items"].as_array().cloned().unwrap_or_default();
        let lines = lines.iter().map(|line| (text(line, "reason_code"), text(line, "reason")));
        lines.filter(|(code, _)| code.starts_with("instance_")).collect()
    }

    fn container(&self, id: &str) -> String {
        self.engine.run(&["inspect", "-f", "{{.Id}}", &self.name(id)]).1
    }

    /// Waits until another container than that one runs and answers.
    async fn until_replaced(&self, id: &str, before: &str) {
        let begun = Instant::now();
        loop {
            let now = self.server.workspace(id).await;
            assert_ne!(now["phase"], "ERROR", "{now:#}");
            let (runs, container) = self.engine.run(&["inspect", "-f", "{{.Id}}", &self.name(id)]);
            if runs && container != before && now["phase"] == "RUNNING" && now["operation"] == "NONE" {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{container}: {now:#}");
            poll_every(Duration::from_millis(50)).await;
        }
    }
}

/// Asked to end, as by an upgrade, and killed, as by a power cut: either way every container ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn restarts_of_the_engine_are_no_deaths_of_its_workspaces() {
    let Some(own) = OwnEngine::start() else { return };
    let docked = Docked::start(setup(&own.engine), own.handle()).await;
    let id = docked.create("restarted").await;
    for round in 0..4 {
        let before = docked.container(&id);
        if round % 2 == 0 {
            own.engine.stop();
        } else {
            own.engine.kill();
        }
        own.engine.start_again();
        // One that outlived the engine is adopted.
        let survived = eventually_known(&docked, &id, &before).await;
        if !survived {
            docked.until_replaced(&id, &before).await;
        }
        docked.server.until_phase(&id, "RUNNING").await;
        let endings = docked.endings(&id).await;
        assert!(endings.iter().all(|(code, _)| code != "instance_ended"), "round {round}: {endings:?}");
    }
}

/// Whether that very container still runs, once the engine has made up its mind.
async fn eventually_known(docked: &Docked, id: &str, container: &str) -> bool {
    let mut runs = false;
    eventually("the engine knows", async || {
        let (known, state) = docked.engine.run(&["inspect", "-f", "{{.State.Running}}", container]);
        runs = known && state == "true";
        // Removed by now, or ended, or answering.
        !runs || docked.page(id).await == 200
    })
    .await;
    runs
}

/// Four times in a row: only what the program does itself is counted, and three of that end in ERROR.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_container_is_told_as_that_and_not_counted() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let docked = Docked::start(setup(&engine), engine).await;
    let id = docked.create("removed").await;
    for round in 1..=4 {
        let before = docked.container(&id);
        docked.engine.docker(&["rm", "-f", &before]);
        docked.until_replaced(&id, &before).await;
        let endings = docked.endings(&id).await;
        assert_eq!(endings.len(), round, "{endings:?}");
        assert!(endings.iter().all(|(_, words)| words.contains("removed")), "{endings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_keeps_ending_is_counted_from_the_first_time() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let docked = Docked::start(setup(&engine), engine).await;
    let id = docked.create("dying").await;
    for _ in 0..2 {
        let before = docked.container(&id);
        docked.engine.docker(&["kill", &before]);
        docked.until_replaced(&id, &before).await;
    }
    docked.engine.docker(&["kill", &docked.container(&id)]);
    let failed = docked.server.until(&id, "ERROR", |it| it["phase"] == "ERROR").await;
    let message = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("ended by itself 3 times") && message.contains("137"), "{failed:#}");
    let endings = docked.endings(&id).await;
    assert!(endings.iter().all(|(code, _)| code == "instance_ended"), "{endings:?}");
}
