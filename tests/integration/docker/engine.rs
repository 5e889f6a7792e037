//! The engine goes away, whatever is going on, and comes back.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use codehub_testing::{eventually, let_time_pass, poll_every};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::{Docked, TestBucket, TestEngine, script, setup};

/// An engine that only this test uses.
pub(super) struct OwnEngine {
    directory: tempfile::TempDir,
    pub(super) engine: TestEngine,
}

impl OwnEngine {
    pub(super) fn start() -> Option<Self> {
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

    pub(super) fn kill(&self) {
        self.signal("-9", Duration::from_secs(10));
    }

    /// Asks it to end, as a service manager does.
    pub(super) fn stop(&self) {
        self.signal("-TERM", Duration::from_secs(60));
    }

    /// Signals the engine, and waits until it is gone.
    fn signal(&self, signal: &str, within: Duration) {
        let pid = self.process();
        assert!(pid.parse::<u32>().is_ok_and(|pid| pid > 1), "{pid:?}");
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let deadline = Instant::now() + within;
        while Path::new(&format!("/proc/{pid}/exe")).exists() && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    pub(super) fn start_again(&self) {
        assert!(Command::new(&self.start).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.run(&["version"]).0 {
            assert!(Instant::now() < deadline, "the engine does not come back");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

impl OwnEngine {
    pub(super) fn handle(&self) -> TestEngine {
        let TestEngine { host, start, pid } = &self.engine;
        TestEngine { host: host.clone(), start: start.clone(), pid: pid.clone() }
    }

    /// Kills it for a second; what was going on arrives within a minute of its return.
    async fn blink(&self, docked: &Docked, id: &str, row: &str) -> Instant {
        self.engine.kill();
        let_time_pass(Duration::from_secs(1)).await;
        let (_, during) = docked.server.call(Method::GET, &format!("/workspaces/{id}"), None).await;
        assert_ne!(during["phase"], "ERROR", "{row}: {during:#}");
        self.engine.start_again();
        Instant::now()
    }
}

const SUM: &str = "busybox sha256sum large";

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again_at_every_step() {
    let Some(own) = OwnEngine::start() else { return };
    let Some(bucket) = TestBucket::of_this_run().await else { return };
    let docked = Docked::start(bucket.configure(setup(&own.engine)), own.handle()).await;
    let server = &docked.server;

    let (status, made) = server.post("/workspaces", json!({ "name": "steps" })).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    docked.note(&id);
    let back = own.blink(&docked, &id, "create").await;
    server.until_phase(&id, "RUNNING").await;
    eprintln!("PROVISIONING: RUNNING {:.1?} after the engine came back", back.elapsed());
    let fill = format!("busybox dd if=/dev/urandom of=large bs=1M count=30 2>/dev/null; {SUM}");
    let (done, sum) = docked.inside(&id, &fill);
    assert!(done, "{sum}");

    for (verb, operation, millis, phase) in [
        ("stop", "STOPPING", 0, "STANDBY"),
        ("start", "STARTING", 0, "RUNNING"),
        ("stop", "STOPPING", 80, "STANDBY"),
        ("start", "STARTING", 100, "RUNNING"),
        ("archive", "ARCHIVING", 0, "ARCHIVED"),
        ("start", "RESTORING", 0, "RUNNING"),
        ("archive", "ARCHIVING", 400, "ARCHIVED"),
        ("start", "RESTORING", 400, "RUNNING"),
        ("archive", "ARCHIVING", 900, "ARCHIVED"),
        ("start", "RESTORING", 800, "RUNNING"),
    ] {
        let row = format!("{operation} for {millis} ms");
        if verb == "archive" {
            server.go(&id, "stop").await;
        }
        docked.begin(&id, verb, operation).await;
        let_time_pass(Duration::from_millis(millis)).await;
        let back = own.blink(&docked, &id, &row).await;
        server.until_phase(&id, phase).await;
        assert!(back.elapsed() < Duration::from_secs(60), "{row}");
        // A new engine ends what the old one ran, and the row says RUNNING until the first look.
        while phase == "RUNNING" && docked.inside(&id, SUM) != (true, sum.clone()) {
            let said = docked.inside(&id, SUM);
            assert!(back.elapsed() < Duration::from_secs(60), "{row}: the home is not as it was: {said:?}");
            poll_every(Duration::from_millis(100)).await;
        }
        server.until_phase(&id, phase).await;
        eprintln!("{row}: {phase} {:.1?} after the engine came back", back.elapsed());
    }

    docked.begin(&id, "delete", "DELETING").await;
    own.blink(&docked, &id, "delete").await;
    docked.until_gone(&id, "delete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_proxied_while_the_engine_is_away() {
    let Some(own) = OwnEngine::start() else { return };
    let docked = Docked::start(setup(&own.engine), own.handle()).await;
    let id = docked.create("away").await;
    assert_eq!(docked.page(&id).await, 200);
    own.engine.kill();
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        assert_eq!(docked.page(&id).await, 200, "{:#}", docked.server.workspace(&id).await);
        let_time_pass(Duration::from_millis(250)).await;
    }
    assert_eq!(docked.phase(&id).await, "RUNNING", "not seen is not gone");
    own.engine.start_again();
    docked.server.until_phase(&id, "RUNNING").await;
}

/// The engine dies, and its port forwarder with it; somebody else binds the port that is free now.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_led_to_whoever_has_bound_the_port_of_a_container_that_may_be_gone() {
    let Some(own) = OwnEngine::start() else { return };
    let docked = Docked::start(setup(&own.engine).env("RUNTIME_REACH", "port"), own.handle()).await;
    let id = docked.create("taken").await;
    assert_eq!(docked.page(&id).await, 200);
    let port = own.engine.docker(&["port", &docked.name(&id), "8080/tcp"]);
    let port: std::net::SocketAddr = port.parse().unwrap();
    own.engine.kill();
    // The forwarder is a process of its own, and may outlive the engine: it is whose port it was, too.
    let line = format!("-host-port {} ", port.port());
    let mut taken = None;
    eventually("the port is free", async || {
        let found = Command::new("pgrep").args(["-f", "--", &line]).output().unwrap();
        for pid in String::from_utf8_lossy(&found.stdout).split_whitespace() {
            let _ = Command::new("kill").args(["-9", pid]).status();
        }
        taken = tokio::net::TcpListener::bind(port).await.ok();
        taken.is_some()
    })
    .await;
    let listener = taken.unwrap();
    let visitors = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visitors);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    // What is believed without asking is believed for two seconds.
    let_time_pass(Duration::from_secs(3)).await;
    let before = visitors.load(Ordering::Relaxed);
    for _ in 0..20 {
        assert_ne!(docked.page(&id).await, 200);
        let_time_pass(Duration::from_millis(250)).await;
    }
    assert_eq!(visitors.load(Ordering::Relaxed), before, "nobody was led there");
    own.engine.start_again();
    docked.server.until_phase(&id, "RUNNING").await;
}
