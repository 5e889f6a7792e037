//! The engine goes away, whatever is going on, and comes back.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Docked, TestEngine, script, setup};

/// An engine that only this test uses.
struct OwnEngine {
    directory: tempfile::TempDir,
    engine: TestEngine,
}

impl OwnEngine {
    fn start() -> Option<Self> {
        TestEngine::of_this_run()?;
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("engine");
        let output = Command::new(script("docker-engine")).arg("start").arg(&at).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, words) = text.trim().split_once('=')?;
        Some(Self { directory, engine: TestEngine::parse(words) })
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        let _ = Command::new(script("docker-engine"))
            .arg("stop")
            .arg(self.directory.path().join("engine"))
            .output();
    }
}

impl TestEngine {
    fn process(&self) -> String {
        std::fs::read_to_string(&self.pid).unwrap_or_default().trim().to_owned()
    }

    fn kill(&self) {
        let pid = self.process();
        assert!(!pid.is_empty());
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(10);
        while Path::new(&format!("/proc/{pid}/exe")).exists() && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn start_again(&self) {
        assert!(Command::new(&self.start).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.run(&["version"]).0 {
            assert!(Instant::now() < deadline, "the engine does not come back");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again_at_every_step() {
    let Some(own) = OwnEngine::start() else { return };
    let engine = || TestEngine {
        host: own.engine.host.clone(),
        start: own.engine.start.clone(),
        pid: own.engine.pid.clone(),
    };
    let docked = Docked::start(setup(&own.engine), engine()).await;
    let server = &docked.server;
    let id = docked.create("steps").await;
    let (done, sum) = docked.inside(
        &id,
        "busybox dd if=/dev/urandom of=large bs=1M count=30 2>/dev/null; busybox sha256sum large",
    );
    assert!(done, "{sum}");
    let mut report = Vec::new();
    for (verb, phase) in
        [("stop", "STANDBY"), ("start", "RUNNING"), ("archive", "ARCHIVED"), ("start", "RUNNING")]
    {
        if verb == "archive" {
            server.go(&id, "stop").await;
        }
        let (status, body) = server.post(&format!("/workspaces/{id}/{verb}"), json!({})).await;
        assert!(status.is_success(), "{verb}: {body}");
        // In the middle of it.
        tokio::time::sleep(Duration::from_millis(400)).await;
        own.engine.kill();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let during = server.workspace(&id).await;
        assert_ne!(during["phase"], "ERROR", "{verb}: {during:#}");
        own.engine.start_again();
        let back = Instant::now();
        server.until(&id, phase, |it| it["phase"] == phase && it["operation"] == "NONE").await;
        assert!(back.elapsed() < Duration::from_secs(60));
        report.push(format!("{verb}: {phase} {:.1?} after the engine came back", back.elapsed()));
    }
    assert_eq!(docked.inside(&id, "busybox sha256sum large"), (true, sum), "the home is as it was");
    eprintln!("{}", report.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_proxied_while_the_engine_is_away() {
    let Some(own) = OwnEngine::start() else { return };
    let engine = TestEngine {
        host: own.engine.host.clone(),
        start: own.engine.start.clone(),
        pid: own.engine.pid.clone(),
    };
    let docked = Docked::start(setup(&own.engine).env("RUNTIME_REACH", "address"), engine).await;
    let id = docked.create("away").await;
    assert_eq!(docked.page(&id).await, 200);
    own.engine.kill();
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        assert_eq!(docked.page(&id).await, 200, "{:#}", docked.server.workspace(&id).await);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert_eq!(docked.phase(&id).await, "RUNNING", "not seen is not gone");
    own.engine.start_again();
    docked.server.until_phase(&id, "RUNNING").await;
}
