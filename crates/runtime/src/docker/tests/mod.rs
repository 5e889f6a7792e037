//! The three ports on a real engine. `scripts/test` starts one and says where it is; without it these
//! tests say that they were skipped.
//!
//! The image is a shell with the real `codehub` beside it, so a test can be inside a workspace.

mod contract;
mod hardening;
mod neighbour;
mod pictures;
mod ports;
mod reachable;
mod shut_in;
mod users;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use codehub_domain::{Generation, UserId, VolumeKey, WorkspaceId, observed::InstanceState};
use codehub_testing::poll_every;
use uuid::Uuid;

use super::{instances::container_name, *};
use crate::{
    Address, Among, Fence, IdeChoice, InstanceSpec, Instances, archives::StoredArchives, homes::Transfer,
    ide, volumes::Volumes,
};
use codehub_archive::ObjectArchives;

/// The engine of this run: `host start-script pid-file`.
pub(super) fn engine_host() -> Option<String> {
    let text = codehub_testing::service("CODEHUB_TEST_DOCKER", "no Docker")?;
    if codehub().is_none() {
        codehub_testing::skip("target/debug/codehub is not built");
        return None;
    }
    text.split_whitespace().next().map(str::to_owned)
}

/// The program that runs in the helpers: built before these tests by `scripts/test`.
fn codehub() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let built = test.parent()?.parent()?.join("codehub");
    built.exists().then_some(built)
}

/// Runs `docker` on the engine of this run.
pub(super) fn docker(host: &str, words: &[&str]) -> String {
    let output = Command::new("docker").args(["-H", host]).args(words).output().unwrap();
    assert!(output.status.success(), "docker {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(super) const IMAGE: &str = "codehub/ide:test-shell";

pub(super) struct Rig {
    pub(super) host: String,
    pub(super) deployment: String,
    pub(super) runtime: DockerRuntime,
    pub(super) volumes: Arc<DockerVolumes>,
    pub(super) archives: StoredArchives,
    pub(super) jobs: Jobs,
    files: tempfile::TempDir,
}

impl Rig {
    pub(super) async fn new() -> Option<Self> {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut DockerConfig)) -> Option<Self> {
        let host = engine_host()?;
        let program = codehub()?;
        let engine = Arc::new(Engine::new(&host));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-images");
        let made = Command::new(script).arg(&host).arg(&program).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let deployment = Uuid::new_v4().to_string();
        let files = tempfile::tempdir().unwrap();
        let mut config = DockerConfig {
            deployment: deployment.clone(),
            ide: ide::resolve_in_container(IdeChoice::Builtin, &[], "/healthz", IMAGE).unwrap(),
            port: 8080,
            home: "/home/coder".to_owned(),
            users: Users { uid: None, gid: 1000 },
            memory: 256 << 20,
            milli_cpus: 1500,
            pids: 100,
            read_only: true,
            pull: PullPolicy::Never,
            reach: Reach::Socket,
            data_dir: files.path().to_owned(),
            network: String::new(),
            firewall: FirewallChoice::Always,
            dns: Vec::new(),
            stop_grace: Duration::from_secs(3),
            health_timeout: Duration::from_secs(2),
        };
        change(&mut config);
        let jobs = Jobs::new(engine, &deployment, config.users, program);
        let volumes = Arc::new(DockerVolumes::new(&jobs));
        let objects = ObjectArchives::open_local(files.path(), "archives").unwrap().incremental(true);
        let homes = Arc::new(DockerTransfer::new(jobs.clone(), 3));
        let archives = StoredArchives::new("files", objects, homes);
        let runtime = DockerRuntime::new(&jobs, config);
        Some(Self { host, deployment, runtime, volumes, archives, jobs, files })
    }

    /// As another process of this deployment would have it, and on an engine of that name.
    pub(super) fn another(&self, host: &str, change: impl FnOnce(&mut DockerConfig)) -> DockerRuntime {
        let mut config = self.runtime.config().clone();
        change(&mut config);
        let engine = Arc::new(Engine::new(host));
        let jobs = Jobs::new(engine, &self.deployment, config.users, codehub().unwrap());
        DockerRuntime::new(&jobs, config)
    }

    /// As CodeHub would be after a restart.
    pub(super) fn later(&self) -> DockerRuntime {
        self.another(&self.host, |_| {})
    }

    /// What the deployment's network is on this machine.
    pub(super) fn bridge(&self) -> String {
        format!("chub-{}", &self.deployment.replace('-', "")[..8])
    }

    pub(super) fn docker(&self, words: &[&str]) -> String {
        docker(&self.host, words)
    }

    /// Runs a shell line inside a workspace; its exit code and what it printed.
    pub(super) fn inside(&self, spec: &InstanceSpec, line: &str) -> (bool, String) {
        let name = container_name(spec.workspace);
        let output = Command::new("docker")
            .args(["-H", &self.host, "exec", &name, "/bin/sh", "-c", line])
            .output()
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.trim().to_owned())
    }

    pub(super) async fn running(&self) -> InstanceSpec {
        let spec = spec();
        self.volumes.create(&spec.volume, 0).await.unwrap();
        self.runtime.start(&spec, &Fence::open()).await.unwrap();
        self.until_ready(&spec).await;
        spec
    }

    pub(super) async fn until_ready(&self, spec: &InstanceSpec) {
        let begun = Instant::now();
        loop {
            let status = self.runtime.status(spec.workspace).await;
            if let Ok(Some(instance)) = &status {
                match &instance.state {
                    InstanceState::Ready => return,
                    InstanceState::Ended { how, .. } => {
                        panic!("ended: {how}: {}", self.docker(&["logs", &container_name(spec.workspace)]))
                    }
                    InstanceState::Alive | InstanceState::Waiting(_) => {}
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{status:?}");
            poll_every(Duration::from_millis(30)).await;
        }
    }
}

/// Whose a workspace's home is, as `stat` and the engine write it.
pub(super) fn home_owner(spec: &InstanceSpec) -> String {
    format!("{}:1000", super::users::own_uid(spec.workspace, false))
}

/// Where a workspace listens.
pub(super) async fn socket_of(rig: &Rig, spec: &InstanceSpec) -> PathBuf {
    match rig.runtime.upstream(spec.workspace).await.unwrap().unwrap().address {
        Address::Socket(path) => PathBuf::from(&*path),
        other => panic!("it listens on {other}"),
    }
}

/// What a test made, it removes.
impl Drop for Rig {
    fn drop(&mut self) {
        let label = format!("label=codehub.instance={}", self.deployment);
        let run = |words: &[&str]| {
            let output = Command::new("docker").args(["-H", &self.host]).args(words).output().unwrap();
            String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        for (list, remove) in [
            (&["ps", "-aq"][..], &["rm", "-f"][..]),
            (&["volume", "ls", "-q"], &["volume", "rm", "-f"]),
            (&["network", "ls", "-q"], &["network", "rm"]),
        ] {
            for item in run(&[list, &["--filter", &label]].concat()) {
                run(&[remove, &[&item]].concat());
            }
        }
        for (hook, chain) in [("FORWARD", "forward"), ("INPUT", "input"), ("OUTPUT", "output")] {
            let chain = format!("{}-{chain}", self.bridge());
            for words in [&["-D", hook, "-j", &chain][..], &["-F", &chain], &["-X", &chain]] {
                let _ = Command::new("iptables").args(["-w", "-t", "mangle"]).args(words).output();
            }
        }
    }
}

pub(super) fn spec() -> InstanceSpec {
    let workspace = WorkspaceId::from_uuid(Uuid::now_v7());
    let owner = UserId::from_uuid(Uuid::now_v7());
    InstanceSpec {
        workspace,
        name: "test".to_owned(),
        image_ref: IMAGE.to_owned(),
        volume: VolumeKey { owner, workspace, generation: Generation(1) },
        base_path: format!("/w/{workspace}/"),
        url: format!("http://127.0.0.1/w/{workspace}/"),
        api_url: "http://localhost:8080".to_owned(),
        port_url: None,
    }
}
