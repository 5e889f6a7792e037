//! Against real processes. The shim they are launched through is this test program itself
//! ([`shim_entry`]).

mod contract;
mod crash;
mod life;
mod sandbox;
mod sockets;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use codehub_domain::{Generation, UserId, VolumeKey, WorkspaceId, observed::InstanceState};
use codehub_testing::eventually;
use futures::StreamExt;

use super::{
    super::{Among, Fence, IdeChoice, InstanceSpec, Instances, LogQuery, SandboxChoice, ide},
    NetworkChoice, ProcessConfig, ProcessRuntime, ShimCommand,
    proc_scan::{Process, Stat, processes},
    record::{Record, State},
    shim,
};
use crate::volumes::{
    Volumes,
    directory::{DirectoryVolumes, home_dir},
};

/// Not a test: what the tests launch workspaces through.
#[test]
#[ignore = "runs only as the shim of other tests"]
fn shim_entry() {
    shim::main(words_after_dashes(), first_process);
}

fn first_process(
    shim::Line { path, shares_network }: shim::Line,
    command: std::process::Command,
    started: &mut dyn FnMut(),
) -> std::io::Result<i32> {
    let options = codehub_inside::run::Options { line: Some(path), shares_network };
    codehub_inside::run::run(&options, command, started)
}

fn words_after_dashes() -> impl Iterator<Item = OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(1)
}

/// This program, as if it were only that test.
fn entry(name: &str) -> ShimCommand {
    let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    let args = ["--ignored", "--exact", &name, "--"].map(str::to_owned).to_vec();
    ShimCommand { program: std::env::current_exe().unwrap(), args }
}

fn python() -> String {
    let own = Path::new("/usr/bin/python3");
    if own.exists() { own.display().to_string() } else { "python3".to_owned() }
}

/// A web program, in Python: answers 200 and what its environment is, on a port or a socket.
const WEB: &str = r"
import http.server, os, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = '\n'.join(k + '=' + v for k, v in os.environ.items()).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
where = sys.argv[1]
if where.isdigit():
    server = http.server.HTTPServer(('127.0.0.1', int(where)), Handler)
else:
    Handler.address_string = lambda self: 'socket'
    server = socketserver.UnixStreamServer(where, Handler)
server.serve_forever()
";

fn web() -> Vec<String> {
    vec![python(), "-c".into(), WEB.into(), "{port}".into()]
}

fn web_on_socket() -> Vec<String> {
    vec![python(), "-c".into(), WEB.into(), "{socket}".into()]
}

fn shell(script: &str) -> Vec<String> {
    vec!["/bin/sh".into(), "-c".into(), script.into(), "workspace".into(), "{port}".into()]
}

/// A data directory of its own. Whatever a failed test left running is ended with it.
struct Place {
    dir: tempfile::TempDir,
    deployment: String,
    id: WorkspaceId,
    owner: UserId,
    command: Vec<String>,
    sandbox: SandboxChoice,
    network: NetworkChoice,
}

impl Drop for Place {
    fn drop(&mut self) {
        let boot = super::proc_scan::boot().unwrap();
        for process in self.ours() {
            let _ = process.identity(&boot).signal(&boot, rustix::process::Signal::KILL);
        }
    }
}

impl Place {
    async fn new(command: Vec<String>) -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            deployment: uuid::Uuid::new_v4().to_string(),
            id: WorkspaceId::from_uuid(uuid::Uuid::now_v7()),
            owner: UserId::from_uuid(uuid::Uuid::now_v7()),
            command,
            sandbox: SandboxChoice::Never,
            network: NetworkChoice::Auto,
        };
        let volumes = DirectoryVolumes::new(place.dir.path());
        volumes.prepare().await.unwrap();
        for generation in [1, 2] {
            volumes.create(&place.key(generation), 0).await.unwrap();
        }
        place
    }

    fn key(&self, generation: u32) -> VolumeKey {
        VolumeKey { owner: self.owner, workspace: self.id, generation: Generation(generation) }
    }

    fn home(&self, generation: u32) -> PathBuf {
        home_dir(self.dir.path(), &self.key(generation))
    }

    fn spec(&self, generation: u32) -> InstanceSpec {
        InstanceSpec {
            workspace: self.id,
            name: "test space".into(),
            image_ref: String::new(),
            volume: self.key(generation),
            base_path: format!("/w/{}/", self.id),
            url: format!("http://localhost:8080/w/{}/", self.id),
            api_url: "http://localhost:8080".to_owned(),
            port_url: Some("http://{port}-id.localhost:8080/".to_owned()),
        }
    }

    fn config(&self) -> ProcessConfig {
        let ide = ide::resolve(IdeChoice::Command, &self.command, "/healthz", Path::new("/nowhere")).unwrap();
        let mut config = ProcessConfig::new(self.dir.path(), &self.deployment, ide, entry("shim_entry"));
        config.sandbox = self.sandbox;
        config.network = self.network;
        config.stop_grace = Duration::from_secs(2);
        config.health_timeout = Duration::from_millis(500);
        config
    }

    async fn runtime(&self) -> ProcessRuntime {
        ProcessRuntime::open(self.config()).await.unwrap()
    }

    async fn started(&self) -> ProcessRuntime {
        let runtime = self.runtime().await;
        runtime.start(&self.spec(1), &Fence::open()).await.unwrap();
        self.ready(&runtime).await;
        runtime
    }

    async fn started_until(&self, name: &str) -> ProcessRuntime {
        let runtime = self.runtime().await;
        runtime.start(&self.spec(1), &Fence::open()).await.unwrap();
        eventually("it is up", async || self.home(1).join(name).exists()).await;
        runtime
    }

    async fn state(&self, runtime: &ProcessRuntime) -> Option<InstanceState> {
        runtime.status(self.id).await.unwrap().map(|instance| instance.state)
    }

    async fn ready(&self, runtime: &ProcessRuntime) {
        eventually("it is ready", async || self.state(runtime).await == Some(InstanceState::Ready)).await;
    }

    async fn ended(&self, runtime: &ProcessRuntime) -> String {
        let mut how = String::new();
        eventually("it has ended", async || match self.state(runtime).await {
            Some(InstanceState::Ended { how: text, .. }) => {
                how = text;
                true
            }
            _ => false,
        })
        .await;
        how
    }

    /// Everything alive that carries this deployment's marks. The process table itself is the whole machine's:
    /// nobody else may signal what is in it.
    fn ours(&self) -> Vec<Process> {
        let mut table = processes(&self.deployment).unwrap();
        table.retain(|it| it.marks.is_some());
        table
    }

    /// Everything alive that was started for this place's workspace.
    fn processes(&self) -> Vec<Process> {
        let ours = |it: &Process| it.marks.is_some_and(|marks| marks.workspace == self.id);
        self.ours().into_iter().filter(ours).collect()
    }

    fn mains(&self) -> Vec<i32> {
        self.processes().iter().filter(|it| it.is_main()).map(|it| it.stat.pid).collect()
    }

    fn record_file(&self) -> PathBuf {
        self.dir.path().join(format!("instances/{}.json", self.id))
    }

    fn record(&self) -> Record {
        serde_json::from_slice(&fs::read(self.record_file()).unwrap()).unwrap()
    }

    fn write_record(&self, record: &Record) {
        fs::write(self.record_file(), serde_json::to_vec(record).unwrap()).unwrap();
    }

    fn recorded_pid(&self) -> i32 {
        match self.record().state {
            State::Running { process } => process.pid,
            other => panic!("{other:?}"),
        }
    }

    /// The program itself, whose parent is what the record names.
    fn program_pid(&self) -> i32 {
        let leader = self.recorded_pid();
        let children = self.processes().into_iter().filter(|it| it.stat.parent == leader);
        children.map(|it| it.stat.pid).min().expect("the program runs")
    }

    async fn log(&self, runtime: &ProcessRuntime) -> String {
        let stream = runtime.logs(self.id, LogQuery { tail: 1000, follow: false }).await.unwrap();
        let parts: Vec<_> = stream.collect().await;
        parts.into_iter().map(|part| String::from_utf8_lossy(&part.unwrap()).into_owned()).collect()
    }
}

fn is_alive(pid: i32) -> bool {
    Stat::of(pid).unwrap().is_some_and(|it| !it.zombie)
}

fn environment(pid: i32) -> Vec<String> {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    environ.split(|&byte| byte == 0).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect()
}

#[test]
fn programs_are_told_where_ports_are() {
    let ide = |choice| ide::resolve_in_container(choice, &[], "/", "image").unwrap();
    let url = Some("http://{port}-id.localhost/");
    let told: Vec<_> = ide(IdeChoice::CodeServer).port_env(url).collect();
    let own = ("CODEHUB_PORT_URL", "http://{port}-id.localhost/".to_owned());
    assert_eq!(told, [own.clone(), ("VSCODE_PROXY_URI", "http://{{port}}-id.localhost/".to_owned())]);
    assert_eq!(ide(IdeChoice::Builtin).port_env(url).collect::<Vec<_>>(), [own]);
    assert_eq!(ide(IdeChoice::CodeServer).port_env(None).count(), 0);
}
