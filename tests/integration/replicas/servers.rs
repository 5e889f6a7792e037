//! A PostgreSQL and a Redis that belong to one test, which may stop, freeze and start them again.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use codehub_testing::poll_every;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::free_port;

/// Where PostgreSQL's programs are: the newest, as `scripts/services` takes it.
pub(super) fn postgres_bin() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|it| it.path()).collect();
    found.sort_by_key(|path| path.file_name()?.to_str()?.parse::<u32>().ok());
    found.pop().map(|path| path.join("bin"))
}

pub(super) struct OwnPostgres {
    bin: PathBuf,
    directory: TempDir,
    port: u16,
}

impl OwnPostgres {
    /// `None`, and a line that says so, where there is none.
    pub(super) fn start() -> Option<Self> {
        let bin = postgres_bin().filter(|_| std::env::var_os("CODEHUB_TEST_POSTGRES").is_some());
        let Some(bin) = bin else {
            codehub_testing::skip("no PostgreSQL");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("codehub-pg").tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            // PostgreSQL refuses to run as root.
            assert!(run(Command::new("chown").arg("postgres:").arg(directory.path())));
        }
        let server = Self { bin, directory, port: free_port() };
        let data = server.data();
        let arguments = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"];
        assert!(run(server.command("initdb").arg("-D").arg(data).args(arguments)), "initdb");
        server.start_again();
        Some(server)
    }

    /// Of this database on it.
    pub(super) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// As a crash does: nobody is told, and it recovers when it starts.
    pub(super) fn stop(&self) {
        assert!(run(self.command("pg_ctl").arg("-D").arg(self.data()).args([
            "-m",
            "immediate",
            "-w",
            "stop"
        ])));
    }

    pub(super) fn start_again(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c max_connections=200",
            self.port,
            self.directory.path().display()
        );
        let log = self.directory.path().join("log");
        let mut start = self.command("pg_ctl");
        start.arg("-D").arg(self.data()).arg("-l").arg(&log).args(["-w", "-o", &options, "start"]);
        assert!(run(&mut start), "{}", fs::read_to_string(log).unwrap_or_default());
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        if !rustix::process::geteuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        run(self.command("pg_ctl").arg("-D").arg(self.data()).args(["-m", "immediate", "stop"]));
    }
}

/// Quietly, from a directory that everybody may be in.
fn run(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.current_dir("/").status().is_ok_and(|status| status.success())
}

pub(super) struct OwnRedis {
    port: u16,
    child: Child,
}

impl OwnRedis {
    /// `None`, and a line that says so, where there is none.
    pub(super) async fn start() -> Option<Self> {
        codehub_testing::service("CODEHUB_TEST_REDIS", "no Redis")?;
        let port = free_port();
        Some(Self { port, child: spawn_redis(port).await })
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// With nothing in it: it keeps nothing on disk.
    pub(super) async fn start_again(&mut self) {
        self.child = spawn_redis(self.port).await;
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(super) fn command(&self, words: &[&str]) {
        let port = self.port.to_string();
        assert!(run(Command::new("redis-cli").args(["-p", &port]).args(words)), "{words:?}");
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn spawn_redis(port: u16) -> Child {
    let text = port.to_string();
    let child = Command::new("redis-server")
        .args(["--port", &text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "Redis starts");
        poll_every(Duration::from_millis(20)).await;
    }
    child
}
