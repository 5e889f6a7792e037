//! A real `codehub` in a directory of its own, driven through its API like anybody else would.

#![allow(
    clippy::allow_attributes,
    dead_code,
    unreachable_pub,
    reason = "helpers for all tests; not every test uses every one"
)]

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use codehub_testing::poll_every;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const ADMIN: &str = "admin";
pub const PASSWORD: &str = "correct horse battery";

/// The program workspaces run in most tests.
pub fn web_program() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/web.py");
    format!("python3 {} {{port}}", script.canonicalize().unwrap().display())
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// How a server is started.
pub struct Setup {
    pub data: TempDir,
    pub port: u16,
    env: Vec<(String, String)>,
    open_files: Option<u32>,
}

impl Setup {
    pub fn new() -> Self {
        let setup =
            Self { data: TempDir::new().unwrap(), port: free_port(), env: Vec::new(), open_files: None };
        setup
            .env("CODEHUB_ADMIN_USERNAME", ADMIN)
            .env("CODEHUB_ADMIN_PASSWORD", PASSWORD)
            .env("IDE", "command")
            .env("IDE_COMMAND", &web_program())
            .env("PROCESS_SANDBOX", "never")
            .env("PROCESS_UNSANDBOXED_USERS", "many")
            .env("LIMITS_MAX_RUNNING_PER_USER", "0")
            // Below paths: most of what is tested is the same on any origin, and names need a resolver.
            .env("PROXY_ORIGINS", "path")
            .env("LOG", "info")
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    /// With so many open files at most.
    pub fn open_files(mut self, files: u32) -> Self {
        self.open_files = Some(files);
        self
    }

    /// As if it had never been set.
    pub fn without(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    fn set(&mut self, name: &str, value: &str) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.into(), value.into()));
    }

    /// The command, with nothing of the caller's environment but what it needs to run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_codehub");
        let mut command = match self.open_files {
            None => Command::new(program),
            Some(files) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\""), program]);
                shell
            }
        };
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.data.path())
            .env("CODEHUB_LISTEN", format!("127.0.0.1:{}", self.port))
            .env("CODEHUB_DATA_DIR", self.data_dir())
            .envs(self.env.iter().cloned())
            .current_dir(self.data.path());
        command
    }

    pub fn data_dir(&self) -> PathBuf {
        self.data.path().join("data")
    }

    pub fn log_file(&self) -> PathBuf {
        self.data.path().join("server.log")
    }

    /// Starts it and waits until it is ready and somebody is signed in.
    pub async fn start(self) -> Server {
        let mut server =
            Server { child: self.spawn(), setup: self, client: Client::new(), token: String::new() };
        server.until_ready().await;
        server.token = server.sign_in(ADMIN, PASSWORD).await;
        server
    }

    pub fn spawn(&self) -> Child {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        self.command(&["serve"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("codehub starts")
    }
}

pub struct Server {
    pub setup: Setup,
    pub child: Child,
    pub client: Client,
    pub token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.end_workspaces();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.setup.log_file()).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            for line in tail.iter().rev() {
                eprintln!("server: {line}");
            }
        }
    }
}

impl Server {
    /// Workspaces survive their server: what a test started, it ends. Recognised by its data directory.
    fn end_workspaces(&self) {
        for pid in self.processes() {
            let Some(pid) = rustix::process::Pid::from_raw(pid) else { continue };
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The programs of this server's workspaces: one each, without what they started themselves.
    pub fn programs(&self) -> Vec<i32> {
        // Whoever began the session: what it started knows its number.
        let leads = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut items = environment.split(|byte| *byte == 0);
            match items.find_map(|item| item.strip_prefix(b"CODEHUB_LEADER=")) {
                Some(leader) => leader == pid.to_string().as_bytes(),
                None => rustix::process::Pid::from_raw(*pid)
                    .and_then(|pid| rustix::process::getsid(Some(pid)).ok().map(|session| session == pid))
                    .unwrap_or_default(),
            }
        };
        self.processes().into_iter().filter(leads).collect()
    }

    /// Every process of the workspaces in this server's data directory: by their home, or in a sandbox, where that has
    /// another name, by the address they were told.
    pub fn processes(&self) -> Vec<i32> {
        let home = format!("HOME={}/", self.setup.data_dir().display());
        let port = format!(":{}/", self.setup.port);
        let is_ours = |item: &[u8]| {
            let item = String::from_utf8_lossy(item);
            item.starts_with(&home)
                || item.strip_prefix("CODEHUB_URL=").is_some_and(|url| url.contains(&port))
        };
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(is_ours) {
                found.push(pid);
            }
        }
        found
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.setup.port)
    }

    pub async fn until_ready(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Ok(answer) = self.client.get(self.url("/readyz")).send().await
                && answer.status().is_success()
            {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("codehub ended with {status}: {}", fs::read_to_string(self.setup.log_file()).unwrap());
            }
            assert!(Instant::now() < deadline, "codehub did not become ready");
            poll_every(Duration::from_millis(20)).await;
        }
    }

    /// `kill -9`, as power cuts and out-of-memory killers do.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As an operator stops it.
    pub fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    /// For its next start.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.setup.set(name, value);
    }

    pub async fn restart(&mut self) {
        self.child = self.setup.spawn();
        self.until_ready().await;
    }

    /// A token of that user.
    pub async fn sign_in(&self, username: &str, password: &str) -> String {
        let body = json!({ "username": username, "password": password });
        let answer = self.client.post(self.url("/api/v1/auth/login")).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "sign-in");
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let answer = self
            .client
            .post(self.url("/api/v1/auth/tokens"))
            .header("cookie", cookie)
            .header("origin", self.url(""))
            .json(&json!({ "name": "test" }))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED, "token");
        let token: Value = answer.json().await.unwrap();
        token["token"].as_str().unwrap().to_owned()
    }

    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        self.call_as(&self.token, method, path, body).await
    }

    pub async fn call_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let mut request = self.client.request(method, self.url(&format!("/api/v1{path}"))).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "GET {path}: {body}");
        body
    }

    pub async fn download(&self, path: &str) -> Vec<u8> {
        let request = self.client.get(self.url(&format!("/api/v1{path}"))).bearer_auth(&self.token);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "GET {path}");
        answer.bytes().await.unwrap().to_vec()
    }

    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Creates a workspace and waits until it has arrived.
    pub async fn create(&self, body: Value) -> String {
        let (status, workspace) = self.post("/workspaces", body).await;
        assert_eq!(status, StatusCode::CREATED, "{workspace}");
        let id = workspace["id"].as_str().unwrap().to_owned();
        self.until_arrived(&id).await;
        id
    }

    pub async fn workspace(&self, id: &str) -> Value {
        self.get(&format!("/workspaces/{id}")).await
    }

    /// Waits for the phase that is wanted, with nothing under way.
    pub async fn until_arrived(&self, id: &str) -> Value {
        self.until(id, "arrived", |it| it["phase"] == it["desired_state"] && it["operation"] == "NONE").await
    }

    pub async fn until_phase(&self, id: &str, phase: &str) -> Value {
        self.until(id, phase, |it| it["phase"] == phase && it["operation"] == "NONE").await
    }

    pub async fn until(&self, id: &str, what: &str, done: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(45);
        loop {
            let workspace = self.workspace(id).await;
            if done(&workspace) {
                return workspace;
            }
            assert!(Instant::now() < deadline, "{what}: still {workspace:#}");
            poll_every(Duration::from_millis(25)).await;
        }
    }

    /// Asks for a desired state and waits for it.
    pub async fn go(&self, id: &str, verb: &str) -> Value {
        let (status, body) = self.post(&format!("/workspaces/{id}/{verb}?wait=40"), json!({})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{verb}: {body}");
        self.until_arrived(id).await
    }

    /// A request to the workspace's own program, past the proxy.
    pub async fn inside(&self, id: &str, path: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:{}{path}", self.port_of(id)?);
        let answer = self.client.get(url).send().await.ok()?;
        answer.status().is_success().then_some(answer.text().await.ok()?)
    }

    /// The port the workspace's process listens on, from its environment.
    pub fn port_of(&self, id: &str) -> Option<u16> {
        let marker = format!("CODEHUB_WORKSPACE_ID={id}");
        self.processes().into_iter().find_map(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let items: Vec<String> = environment
                .split(|byte| *byte == 0)
                .map(|it| String::from_utf8_lossy(it).into_owned())
                .collect();
            items.contains(&marker).then_some(())?;
            items.iter().find_map(|item| item.strip_prefix("PORT=")?.parse().ok())
        })
    }

    /// The volumes of a workspace on disk.
    pub fn volumes(&self, id: &str) -> Vec<PathBuf> {
        let users = self.setup.data_dir().join("homes/users");
        let mut found = Vec::new();
        for user in fs::read_dir(users).into_iter().flatten().flatten() {
            for volume in
                fs::read_dir(user.path().join("workspaces").join(id)).into_iter().flatten().flatten()
            {
                if volume.file_name().to_string_lossy().starts_with("home-") {
                    found.push(volume.path());
                }
            }
        }
        found
    }

    /// The home of a workspace that is not archived.
    pub fn home(&self, id: &str) -> PathBuf {
        let volumes = self.volumes(id);
        assert_eq!(volumes.len(), 1, "one volume: {volumes:?}");
        volumes[0].clone()
    }

    /// Every file below the archives, for tests that damage them.
    pub fn archive_files(&self, id: &str) -> Vec<PathBuf> {
        let mut found = self.files_below("archives");
        found.retain(|path| path.to_string_lossy().contains(id));
        found
    }

    /// Every file below a part of the data directory, sorted.
    pub fn files_below(&self, part: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut todo = vec![self.setup.data_dir().join(part)];
        while let Some(directory) = todo.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() && !path.is_symlink() {
                    todo.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }
}
