//! The startup recovery matrix: CodeHub is killed in the middle of something, the container is put into
//! a state, and CodeHub is started again. Where the matrix says ERROR because nobody would try again,
//! the controller does: it gets where it was going.

use std::time::{Duration, Instant};

use super::{Docked, TestEngine, setup};
use codehub_testing::{let_time_pass, poll_every};

/// What the container is when CodeHub comes back.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// The engine finishes what it was told.
    AsItIs,
    Gone,
    Ended,
    /// Alive, and answers nothing.
    Paused,
}

impl Left {
    fn put(self, docked: &Docked, id: &str) {
        let name = docked.name(id);
        match self {
            Self::AsItIs => {}
            Self::Gone => drop(docked.engine.run(&["rm", "-f", &name])),
            Self::Ended => drop(docked.engine.run(&["kill", &name])),
            Self::Paused => drop(docked.engine.run(&["pause", &name])),
        }
    }
}

/// Asks for something, and kills CodeHub so long after it has begun to do it.
async fn killed_in(docked: &mut Docked, id: &str, verb: &str, operation: &str, millis: u64) {
    docked.begin(id, verb, operation).await;
    let_time_pass(Duration::from_millis(millis)).await;
    docked.server.kill();
}

/// One row: CodeHub comes back, and everything is as it should be.
async fn comes_back(docked: &mut Docked, id: &str, left: Left, phase: &str, row: &str) {
    left.put(docked, id);
    let (_, found) = docked.engine.run(&["inspect", "-f", "{{.State.Status}}", &docked.name(id)]);
    docked.server.restart().await;
    let begun = Instant::now();
    // A row that was saved before the crash says RUNNING until the first look.
    let as_wanted = || match phase {
        "RUNNING" => docked.containers_that(id, "status=running").len() == 1,
        _ => docked.containers(id).is_empty(),
    };
    while !as_wanted() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{row} {left:?}: {:?}", docked.containers(id));
        poll_every(Duration::from_millis(50)).await;
    }
    let arrived = docked.server.until_phase(id, phase).await;
    assert!(arrived["error_reason"].is_null(), "{row} {left:?}: {arrived:#}");
    assert_eq!(docked.volumes(id).len(), 1);
    let found = found.lines().last().unwrap_or_default();
    eprintln!("{row}, {left:?} ({found}): {phase} after {:.1?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_starting() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let mut docked = Docked::start(setup(&engine), engine).await;
    let id = docked.create("starting").await;
    assert!(docked.inside(&id, "echo kept > note").0);
    let moments = [0, 40, 80, 120, 160, 200].map(|millis| (millis, Left::AsItIs));
    for (millis, left) in moments.into_iter().chain([(100, Left::Gone), (100, Left::Ended)]) {
        docked.server.go(&id, "stop").await;
        killed_in(&mut docked, &id, "start", "STARTING", millis).await;
        comes_back(&mut docked, &id, left, "RUNNING", &format!("STARTING for {millis} ms")).await;
    }
    assert_eq!(docked.inside(&id, "cat note").1, "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_stopping() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let mut docked = Docked::start(setup(&engine), engine).await;
    let id = docked.create("stopping").await;
    assert!(docked.inside(&id, "echo kept > note").0);
    let moments = [0, 40, 80, 120].map(|millis| (millis, Left::AsItIs));
    let states = [(0, Left::Gone), (0, Left::Ended), (0, Left::Paused)];
    for (millis, left) in moments.into_iter().chain(states) {
        docked.server.go(&id, "start").await;
        killed_in(&mut docked, &id, "stop", "STOPPING", millis).await;
        comes_back(&mut docked, &id, left, "STANDBY", &format!("STOPPING for {millis} ms")).await;
    }
    docked.server.go(&id, "start").await;
    assert_eq!(docked.inside(&id, "cat note").1, "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_running() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let mut docked = Docked::start(setup(&engine), engine).await;
    let id = docked.create("running").await;
    assert!(docked.inside(&id, "echo kept > note").0);
    for left in [Left::AsItIs, Left::Gone, Left::Ended] {
        docked.server.kill();
        comes_back(&mut docked, &id, left, "RUNNING", "RUNNING").await;
        assert_eq!(docked.inside(&id, "cat note").1, "kept");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_deleting() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let mut docked = Docked::start(setup(&engine), engine).await;
    let moments = [0, 60, 150, 250].map(|millis| (millis, Left::AsItIs));
    for (millis, left) in moments.into_iter().chain([(0, Left::Gone), (0, Left::Ended), (0, Left::Paused)]) {
        let id = docked.create("deleted").await;
        killed_in(&mut docked, &id, "delete", "DELETING", millis).await;
        left.put(&docked, &id);
        docked.server.restart().await;
        docked.until_gone(&id, &format!("{millis} ms {left:?}")).await;
    }
}
