//! Workspaces in containers of a real engine, archives in a real S3 server, through the real program.
//! `scripts/test` starts both and says where they are; without them these tests say so and pass.

mod endings;
mod engine;
mod life;
mod many;
mod recovery;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::{Duration, Instant},
};

use codehub_archive::flaky_link::FlakyLink;
use codehub_testing::poll_every;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Server, Setup};

/// The editor, with a shell beside it.
pub(crate) const IMAGE: &str = "codehub/ide:test-shell";

/// `host start-script pid-file`
pub(crate) struct TestEngine {
    pub(crate) host: String,
    pub(crate) start: PathBuf,
    pub(crate) pid: PathBuf,
}

impl TestEngine {
    pub(crate) fn of_this_run() -> Option<Self> {
        let text = codehub_testing::service("CODEHUB_TEST_DOCKER", "no Docker")?;
        Some(Self::parse(&text))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [host, start, pid] = words[..] else { panic!("CODEHUB_TEST_DOCKER={text:?}") };
        Self { host: host.into(), start: start.into(), pid: pid.into() }
    }

    pub(crate) fn run(&self, words: &[&str]) -> (bool, String) {
        let output = Command::new("docker").args(["-H", &self.host]).args(words).output().unwrap();
        let text = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
    }

    pub(crate) fn docker(&self, words: &[&str]) -> String {
        let (done, text) = self.run(words);
        assert!(done, "docker {words:?}: {text}");
        text
    }
}

/// A bucket, over a link that can be told to misbehave; `None` without an S3 server.
pub(crate) struct TestBucket {
    pub(crate) link: FlakyLink,
    words: Vec<String>,
}

impl TestBucket {
    pub(crate) async fn of_this_run() -> Option<Self> {
        let text = codehub_testing::service("CODEHUB_TEST_S3", "no S3 server")?;
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let upstream: SocketAddr = words[0].trim_start_matches("http://").parse().unwrap();
        Some(Self { link: FlakyLink::to(upstream).await.unwrap(), words })
    }

    pub(crate) fn configure(&self, setup: Setup) -> Setup {
        setup
            .env("S3_ENDPOINT", &format!("http://{}", self.link.address()))
            .env("S3_BUCKET", &self.words[1])
            .env("S3_ACCESS_KEY", &self.words[2])
            .env("S3_SECRET_KEY", &self.words[3])
    }
}

/// A server whose workspaces are containers.
pub(crate) struct Docked {
    pub(crate) server: Server,
    pub(crate) engine: TestEngine,
    ids: Mutex<Vec<String>>,
}

pub(crate) fn setup(engine: &TestEngine) -> Setup {
    let setup = Setup::new()
        .env("RUNTIME", "docker")
        .env("DOCKER_HOST", &engine.host)
        .env("RUNTIME_IMAGE", IMAGE)
        .env("RUNTIME_PULL", "never")
        .env("RUNTIME_MEMORY", "256")
        .env("IDE", "builtin")
        .env("IDE_COMMAND", "");
    let output = Command::new(script("test-images"))
        .args([&engine.host, env!("CARGO_BIN_EXE_codehub")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    setup
}

/// One of the scripts that prepare what tests need.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name)
}

impl Docked {
    pub(crate) async fn start(setup: Setup, engine: TestEngine) -> Self {
        Self { server: setup.start().await, engine, ids: Mutex::default() }
    }

    pub(crate) async fn create(&self, name: &str) -> String {
        let id = self.server.create(json!({ "name": name })).await;
        self.note(&id);
        id
    }

    pub(crate) fn note(&self, id: &str) {
        self.ids.lock().unwrap().push(id.to_owned());
    }

    /// Asks for something, and returns when CodeHub has begun to do it.
    pub(crate) async fn begin(&self, id: &str, verb: &str, operation: &str) {
        let asked = match verb {
            "delete" => self.server.call(Method::DELETE, &format!("/workspaces/{id}"), None).await,
            verb => self.server.post(&format!("/workspaces/{id}/{verb}"), json!({})).await,
        };
        assert!(asked.0.is_success(), "{verb}: {asked:?}");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let (status, now) = self.server.call(Method::GET, &format!("/workspaces/{id}"), None).await;
            if status == StatusCode::NOT_FOUND || now["operation"] == operation {
                return;
            }
        }
    }

    /// Nothing is left of a workspace that was deleted, or soon.
    pub(crate) async fn until_gone(&self, id: &str, row: &str) {
        let begun = Instant::now();
        while !(self.containers(id).is_empty() && self.volumes(id).is_empty()) {
            let there = (self.containers(id), self.volumes(id));
            assert!(begun.elapsed() < Duration::from_secs(60), "{row}: {there:?}");
            poll_every(Duration::from_millis(50)).await;
        }
    }

    /// Runs a shell line inside the workspace.
    pub(crate) fn inside(&self, id: &str, line: &str) -> (bool, String) {
        self.engine.run(&["exec", &self.name(id), "/bin/sh", "-c", line])
    }

    /// What the workspace's container is called; something that does not exist where there is none.
    pub(crate) fn name(&self, id: &str) -> String {
        self.containers_that(id, "name=codehub-ws-")
            .into_iter()
            .next()
            .unwrap_or_else(|| format!("none-of-{id}"))
    }

    pub(crate) fn volumes(&self, id: &str) -> Vec<String> {
        let label = format!("label=codehub.workspace={id}");
        let text = self.engine.docker(&["volume", "ls", "-q", "--filter", &label]);
        text.split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) fn containers(&self, id: &str) -> Vec<String> {
        self.containers_that(id, "name=codehub")
    }

    pub(crate) fn containers_that(&self, id: &str, filter: &str) -> Vec<String> {
        let label = format!("label=codehub.workspace={id}");
        let filters = ["--filter", &label, "--filter", filter];
        let text = self.engine.docker(&[&["ps", "-a", "--format", "{{.Names}}"], &filters[..]].concat());
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// What people see when they open it.
    pub(crate) async fn page(&self, id: &str) -> u16 {
        let request = self.server.client.get(self.server.url(&format!("/w/{id}/healthz")));
        request.bearer_auth(&self.server.token).send().await.map_or(0, |answer| answer.status().as_u16())
    }

    pub(crate) async fn phase(&self, id: &str) -> Value {
        self.server.workspace(id).await["phase"].clone()
    }
}

/// What a test made, it removes.
impl Drop for Docked {
    fn drop(&mut self) {
        let _ = self.server.child.kill();
        let _ = self.server.child.wait();
        let mut deployment = String::new();
        for id in self.ids.lock().unwrap().iter() {
            let label = format!("label=codehub.workspace={id}");
            let of = "{{.Label \"codehub.instance\"}}";
            let (_, found) = self.engine.run(&["volume", "ls", "--filter", &label, "--format", of]);
            if let Some(first) = found.lines().next() {
                first.clone_into(&mut deployment);
            }
            let (_, containers) = self.engine.run(&["ps", "-aq", "--filter", &label]);
            for container in containers.split_whitespace() {
                self.engine.run(&["rm", "-f", container]);
            }
            let (_, volumes) = self.engine.run(&["volume", "ls", "-q", "--filter", &label]);
            for volume in volumes.split_whitespace() {
                self.engine.run(&["volume", "rm", volume]);
            }
        }
        if !deployment.is_empty() {
            self.engine.run(&["network", "rm", &format!("codehub-{deployment}")]);
        }
    }
}
