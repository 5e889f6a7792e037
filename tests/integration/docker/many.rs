//! Thirty at once, and how much time CodeHub adds.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use codehub_testing::poll_every;
use reqwest::StatusCode;
use serde_json::json;

use super::{Docked, IMAGE, TestEngine, setup};

#[tokio::test(flavor = "multi_thread")]
async fn thirty_start_at_once_and_the_api_answers_meanwhile() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let setup = setup(&engine).env("LIMITS_MAX_RUNNING_GLOBAL", "0").env("COORDINATOR_CONCURRENCY", "4");
    let docked = Docked::start(setup.env("RUNTIME_MEMORY", "128"), engine).await;
    let server = &docked.server;
    let begun = Instant::now();
    let mut ids = Vec::new();
    for number in 0..30 {
        let (status, body) = server.post("/workspaces", json!({ "name": format!("ws {number}") })).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        let id = body["id"].as_str().unwrap().to_owned();
        docked.note(&id);
        ids.push(id);
    }
    let mut times = Vec::new();
    let watched = watch_making(&docked.engine.host);
    loop {
        let asked = Instant::now();
        let list = server.get("/workspaces?limit=100").await;
        times.push(asked.elapsed());
        let items = list["items"].as_array().unwrap();
        assert!(items.iter().all(|it| it["phase"] != "ERROR"), "{list:#}");
        if items.iter().filter(|it| it["phase"] == "RUNNING").count() == ids.len() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "{list:#}");
        poll_every(Duration::from_millis(20)).await;
    }
    let most = watched.ended();
    assert!((2..=4).contains(&most), "at most COORDINATOR_CONCURRENCY are made at once: {most}");
    times.sort_unstable();
    let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)];
    let (all, asked) = (begun.elapsed(), times.len());
    eprintln!("30 RUNNING after {all:.1?}, {most} made at once; API p99 {p99:.1?} over {asked} requests");
    // What is built for debugging, among other tests, says only that nothing stands still.
    assert!(p99 < Duration::from_millis(if cfg!(debug_assertions) { 5000 } else { 200 }), "{p99:?}");
}

/// Looks all the while how many containers are being made: helpers, and workspaces not started yet.
struct Watched {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

fn watch_making(host: &str) -> Watched {
    let (host, stop) = (host.to_owned(), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let mut most = 0;
        while !stopped.load(Ordering::Relaxed) {
            let words = ["-H", &host, "ps", "-a", "--format", "{{.Names}} {{.State}}"];
            let output = Command::new("docker").args(words).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let making = |line: &&str| line.starts_with("codehub-job-") || line.ends_with(" created");
            most = most.max(text.lines().filter(making).count());
            std::thread::park_timeout(Duration::from_millis(20));
        }
        most
    });
    Watched { stop, thread }
}

impl Watched {
    /// How many there were at most.
    fn ended(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// `docker run` and the first answer, against CodeHub's start and the first answer, in one run.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_costs_little_more_than_a_bare_docker_run() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let docked = Docked::start(setup(&engine), engine).await;
    let id = docked.create("quick").await;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for round in 0..5 {
        docked.server.go(&id, "stop").await;
        let name = format!("codehub-bare-{round}-{id}");
        let port = crate::support::free_port().to_string();
        let publish = format!("127.0.0.1:{port}:8080");
        let volume = docked.volumes(&id)[0].clone() + ":/home/coder";
        let deployment =
            docked.engine.docker(&["network", "ls", "--format", "{{.Name}}", "--filter", "name=codehub-"]);
        let network = deployment.lines().next().unwrap().to_owned();
        let begun = Instant::now();
        docked.engine.docker(&[
            "run",
            "-d",
            "--init",
            "--name",
            &name,
            "--network",
            &network,
            "-p",
            &publish,
            "-v",
            &volume,
            IMAGE,
        ]);
        until_answers(&docked, &format!("http://127.0.0.1:{port}/healthz")).await;
        bare.push(begun.elapsed());
        docked.engine.docker(&["rm", "-f", &name]);
        let begun = Instant::now();
        let (status, _) = docked.server.post(&format!("/workspaces/{id}/start"), json!({})).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        while docked.page(&id).await != 200 {
            poll_every(Duration::from_millis(5)).await;
        }
        ours.push(begun.elapsed());
        docked.server.until_phase(&id, "RUNNING").await;
    }
    bare.sort_unstable();
    ours.sort_unstable();
    let (bare, ours) = (bare[2], ours[2]);
    let added = ours.saturating_sub(bare);
    eprintln!(
        "docker run to first byte {bare:.0?}, through CodeHub {ours:.0?}: {added:.0?} added (medians of 5)"
    );
    // An unoptimised program on a busy machine is held to less.
    let most = Duration::from_millis(if cfg!(debug_assertions) { 600 } else { 150 });
    assert!(added <= most, "{added:?}");
}

async fn until_answers(docked: &Docked, url: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if docked.server.client.get(url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            return;
        }
        assert!(Instant::now() < deadline);
        poll_every(Duration::from_millis(5)).await;
    }
}
