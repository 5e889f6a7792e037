//! The command line against a real server: the very program that people run, with files and a terminal of its own.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use codehub_testing::eventually;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use reqwest::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{ADMIN, PASSWORD, Server, Setup, free_port};

const PROGRAM: &str = env!("CARGO_BIN_EXE_codehub");

/// A machine of somebody's: a home directory, and what is set in its shell.
struct Machine {
    home: TempDir,
    env: Vec<(&'static str, String)>,
}

impl Machine {
    /// Where nobody is signed in.
    fn new() -> Self {
        Self { home: TempDir::new().unwrap(), env: Vec::new() }
    }

    /// Where the environment says everything.
    fn of(server: &Server) -> Self {
        Self {
            env: vec![("CODEHUB_URL", server.url("")), ("CODEHUB_TOKEN", server.token.clone())],
            ..Self::new()
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_clear().env("HOME", self.home.path()).current_dir(self.home.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.env.iter().cloned()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints, where all goes well.
    fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// That it ends with this code, and says this.
    fn fails(&self, arguments: &[&str], code: i32, says: &str) {
        let ran = self.run(arguments);
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {ran:?}");
        assert!(text.contains(says), "{arguments:?}: {text}");
    }

    fn feed(&self, arguments: &[&str], input: &[u8]) -> Output {
        let command = &mut self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

/// A child whose lines are read, and that is ended with the test.
struct Watched {
    child: Child,
    lines: Box<dyn std::io::BufRead + Send>,
}

impl Watched {
    fn stdout(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = Box::new(BufReader::new(child.stdout.take().unwrap()));
        Self { child, lines }
    }

    fn stderr(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = Box::new(BufReader::new(child.stderr.take().unwrap()));
        Self { child, lines }
    }

    /// The next line that has this in it.
    fn line(&mut self, has: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended without {has:?}");
            if line.contains(has) {
                return line.trim().to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The cookie of a new session.
async fn session(server: &Server) -> String {
    let body = json!({ "username": ADMIN, "password": PASSWORD });
    let answer = server.client.post(server.url("/api/v1/auth/login")).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

async fn page(server: &Server, cookie: &str, code: &str) -> (StatusCode, String) {
    let request = server.client.get(server.url(&format!("/device?code={code}"))).header("cookie", cookie);
    let answer = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

async fn decide(server: &Server, cookie: &str, code: &str, decision: &str) -> (StatusCode, String) {
    let request =
        server.client.post(server.url("/device")).header("cookie", cookie).header("origin", server.url(""));
    let form = format!("code={code}&decision={decision}");
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
    let answer = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

/// Begins to sign in, and returns the code that is shown.
fn login(machine: &Machine, server: &Server) -> (Watched, String) {
    let url = server.url("");
    let mut login = Watched::stderr(machine.command(&["login", &url, "--no-browser", "--json"]));
    let line = login.line("/device?code=");
    let code = line.split("code=").nth(1).unwrap().to_owned();
    assert_eq!(line, format!("{url}/device?code={code}"));
    assert_eq!(login.line(&code), code, "to be compared");
    (login, code)
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_signs_in_by_a_code_and_out_again() {
    let server = Setup::new().start().await;
    let machine = Machine::new();
    machine.fails(&["whoami"], 3, "codehub login URL");
    let cookie = session(&server).await;

    // Denied: the program is told, and nothing is kept.
    let (mut denied, code) = login(&machine, &server);
    assert_eq!(decide(&server, &cookie, &code, "deny").await.0, StatusCode::OK);
    assert_eq!(denied.code(), Some(3));
    machine.fails(&["whoami"], 3, "codehub login URL");

    let (mut allowed, code) = login(&machine, &server);
    let (status, text) = page(&server, &cookie, &code).await;
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(
        status == StatusCode::OK
            && text.contains(&code)
            && text.contains(&name)
            && text.contains("127.0.0.1"),
        "{text}"
    );
    assert_eq!(page(&server, &cookie, "BCDF-GHJK").await.0, StatusCode::BAD_REQUEST);
    // Whoever is led here by another site has to say themselves that they want it looked for.
    let led = server.client.get(server.url("/device?code=BCDF-GHJK")).header("cookie", &cookie);
    let led = led.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
    let led = led.header("sec-fetch-dest", "document").send().await.unwrap();
    assert_eq!(led.status(), StatusCode::OK);
    assert!(led.text().await.unwrap().contains("device-continue"));
    let unsigned = page(&server, "", &code).await.1;
    assert!(!unsigned.contains("device-allow"), "only who is signed in decides: {unsigned}");
    assert_eq!(decide(&server, &cookie, &code, "allow").await.0, StatusCode::OK);
    assert_eq!(decide(&server, &cookie, &code, "allow").await.0, StatusCode::BAD_REQUEST, "once");
    assert_eq!(allowed.code(), Some(0));

    assert_eq!(machine.ok(&["whoami"]).trim(), ADMIN);
    assert_eq!(machine.json(&["whoami", "--json"])["user"]["username"], ADMIN);
    let file = machine.path(".config/codehub/client.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let versions = machine.json(&["version", "--json"]);
    assert_eq!(versions["client"], versions["server"]);
    let tokens = server.get("/auth/tokens").await;
    let made =
        tokens["items"].as_array().unwrap().iter().find(|it| it["name"] == format!("codehub on {name}"));
    assert!(made.is_some_and(|it| !it["expires_at"].is_null()), "{tokens}");
    let trail = server.get("/audit").await.to_string();
    for action in ["device.allowed", "device.denied", "token.minted"] {
        assert!(trail.contains(action), "{action}: {trail}");
    }

    // A second context with a token that was made elsewhere, and the first again.
    let token = server.token.clone();
    let ran = machine.feed(&["login", &server.url(""), "--name", "other", "--token-stdin"], token.as_bytes());
    assert!(ran.status.success(), "{ran:?}");
    let contexts = machine.json(&["context", "ls", "--json"]);
    assert_eq!(contexts["items"].as_array().unwrap().len(), 2, "{contexts}");
    assert!(machine.ok(&["context", "ls"]).contains("other"));
    machine.fails(&["context", "use", "none"], 4, "other");
    let first = contexts["items"].as_array().unwrap().iter().find(|it| it["name"] != "other").unwrap();
    machine.ok(&["context", "use", first["name"].as_str().unwrap()]);
    machine.ok(&["logout"]);
    let left = server.get("/auth/tokens").await.to_string();
    assert!(!left.contains("codehub on"), "the token that login made is deleted: {left}");
    assert_eq!(machine.ok(&["whoami", "--context", "other"]).trim(), ADMIN);
    machine.ok(&["logout", "other"]);
    assert!(server.get("/auth/tokens").await.to_string().contains("\"test\""), "one made elsewhere stays");

    let ran = machine.feed(&["login", &server.url(""), "--token-stdin"], b"chp_wrong");
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    machine.fails(&["whoami"], 1, "chmod 600");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_lives_by_the_command_line() {
    let server = Setup::new().env("LIMITS_MAX_RUNNING_PER_USER", "1").start().await;
    let machine = Machine::of(&server);
    assert_eq!(machine.ok(&["create", "My Web", "--label", "team=a", "--wait=60s"]).trim(), "my-web");
    let shown = machine.json(&["show", "my-web", "--json"]);
    assert_eq!((&shown["phase"], &shown["labels"]["team"]), (&json!("RUNNING"), &json!("a")));
    let id = shown["id"].as_str().unwrap().to_owned();
    assert_eq!(shown, server.get(&format!("/workspaces/{id}")).await, "the API's object");
    for name in [&id[..], &id[id.len() - 8..], "my-web"] {
        assert!(machine.ok(&["show", name]).contains(&id), "{name}");
    }
    assert_eq!(machine.json(&["ls", "--json", "--label", "team:a"])["items"][0]["slug"], "my-web");
    assert_eq!(machine.json(&["ls", "--json", "--phase", "standby"])["items"], json!([]));
    let list = machine.ok(&["ls"]);
    assert!(list.contains("my-web") && list.contains("RUNNING") && !list.contains('\x1b'), "{list}");
    assert_eq!(machine.ok(&["ls", "-q"]).trim(), id);
    let opened = machine.ok(&["open", "my-web", "--print"]);
    assert!(
        opened.starts_with(&server.url("/")) && opened.contains(&id) && !opened.contains("chp_"),
        "{opened}"
    );
    assert!(machine.ok(&["logs", "my-web", "-n", "5"]).lines().count() <= 5);

    machine.fails(&["create", "second", "--wait"], 6, "codehub");
    machine.fails(&["show", "nothing"], 4, "codehub ls");
    machine.fails(&["ls", "--phase", "asleep"], 1, "phase");
    machine.fails(&["start"], 2, "Usage");
    let mut events = Watched::stdout(machine.command(&["events", "--json"]));
    events.line("RUNNING");
    machine.ok(&["stop", "my-web", "--wait"]);
    events.line("\"phase\":\"STANDBY\"");
    events.signal(Signal::INT);
    assert_ne!(events.code(), Some(0));
    machine.fails(&["cp", "my-web:x", "-"], 5, "codehub start my-web --wait");
    machine.fails(&["port-forward", "my-web", "0:3000"], 5, "codehub start my-web --wait");
    machine.ok(&["archive", "my-web", "--wait"]);
    assert_eq!(machine.json(&["show", "my-web", "--json"])["phase"], "ARCHIVED");
    let archives = machine.json(&["show", "my-web", "--archives", "--json"]);
    let key = archives["items"][0]["key"].as_str().unwrap();
    assert!(machine.ok(&["show", "my-web", "--archives"]).contains(key));
    assert_eq!(machine.ok(&["create", "copy", "--from-archive", key, "--asleep", "--wait"]).trim(), "copy");
    machine.fails(&["restore", "my-web", "--archive", key], 5, "--from-archive");
    assert_eq!(machine.json(&["restore", "my-web", "--wait", "--json"])["phase"], "STANDBY");
    assert_eq!(machine.json(&["start", "my-web", "--wait", "--json"])["phase"], "RUNNING");
    machine.fails(&["restore", "my-web"], 5, "is not archived");
    assert_eq!(machine.json(&["show", "my-web", "--json"])["desired_state"], "RUNNING", "and it goes on");
    // Nobody can be asked here.
    machine.fails(&["rm", "my-web", "copy"], 2, "--yes");
    machine.ok(&["rm", "my-web", "copy", "--yes", "--wait"]);
    assert_eq!(machine.json(&["ls", "--json"])["items"], json!([]));

    let mut stranger = Machine::of(&server);
    stranger.env[1].1 = "chp_wrong".into();
    stranger.fails(&["ls"], 3, "codehub login");
    stranger.env[0].1 = format!("http://127.0.0.1:{}", free_port());
    stranger.fails(&["ls"], 7, "cannot be reached");
}

/// One that never answers: waiting ends, the starting goes on.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_by_time_and_by_hand() {
    let server = Setup::new().env("IDE_COMMAND", "sleep 600 {port}").start().await;
    let machine = Machine::of(&server);
    machine.fails(&["create", "slow", "--wait=1s"], 8, "codehub show slow");
    let mut waiting = Watched::stderr(machine.command(&["start", "slow", "--wait"]));
    // It is asked for before it is waited for: who waits has asked for it twice.
    eventually("it waits", async || {
        let Ok(status) = fs::read_to_string(format!("/proc/{}/status", waiting.child.id())) else {
            return false;
        };
        // Its handler is there.
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
        u64::from_str_radix(caught.trim(), 16).unwrap_or_default() & 0b10 != 0
    })
    .await;
    waiting.signal(Signal::INT);
    assert_eq!(waiting.code(), Some(130));
    assert!(waiting.line("goes on").contains("slow"));
    assert_eq!(machine.json(&["show", "slow", "--json"])["desired_state"], "RUNNING");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_run_with_pipes_signals_and_codes() {
    let server = Setup::new().start().await;
    let machine = Machine::of(&server);
    machine.ok(&["create", "web", "--wait"]);
    assert_eq!(machine.ok(&["exec", "web", "--", "echo", "a  b"]), "a  b\n");
    assert_eq!(
        machine.ok(&["exec", "web", "-e", "A=x y", "--cwd", "/tmp", "--", "sh", "-c", "echo $A $PWD"]),
        "x y /tmp\n"
    );
    for (command, code) in [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(
            machine.run(&["exec", "web", "--", "sh", "-c", command]).status.code(),
            Some(code),
            "{command}"
        );
    }
    machine.fails(&["exec", "web", "--", "no-such-program"], 127, "no-such-program");
    machine.fails(&["exec", "web", "--", "/etc/passwd"], 126, "");
    machine.fails(&["exec", "nothing", "--", "true"], 125, "codehub ls");
    let both = machine.run(&["exec", "web", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((&both.stdout[..], &both.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    // Without -i there is nothing to read; with it everything arrives, bytes as they are.
    assert_eq!(machine.feed(&["exec", "web", "--", "cat"], b"unread").stdout, b"");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let echoed = machine.feed(&["exec", "-i", "web", "--", "cat"], &bytes);
    assert!(echoed.status.success() && echoed.stdout == bytes, "{} bytes came back", echoed.stdout.len());

    let trap = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let mut trapped = Watched::stdout(machine.command(&["exec", "web", "--", "sh", "-c", trap]));
    trapped.line("ready");
    trapped.signal(Signal::INT);
    trapped.line("caught");
    assert_eq!(trapped.code(), Some(9));

    machine.ok(&["stop", "web", "--wait"]);
    machine.fails(&["exec", "web", "--", "true"], 125, "--wake");
    machine.ok(&["exec", "--wake", "web", "--", "true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_a_terminal() {
    let server = Setup::new().start().await;
    let machine = Machine::of(&server);
    machine.ok(&["create", "web", "--wait"]);
    let size = |rows, cols| PtySize { rows, cols, ..PtySize::default() };
    let pair = native_pty_system().openpty(size(24, 80)).unwrap();
    let script = "stty size; until [ \"$(stty size)\" = '30 100' ]; do sleep 0.05; done; echo now-$(stty size | tr ' ' x); \
                  read line; echo got-$line; sleep 600 & wait; exit 5";
    let mut command = CommandBuilder::new(PROGRAM);
    command.args(["exec", "-it", "web", "--", "sh", "-c", &format!("trap 'exit 5' INT; {script}")]);
    command.env_clear();
    command.cwd(machine.home.path());
    for (name, value) in machine.env.iter().map(|(name, value)| (*name, value.clone())).chain([
        ("HOME", machine.home.path().display().to_string()),
        ("PATH", std::env::var("PATH").unwrap_or_default()),
        ("TERM", "xterm".into()),
    ]) {
        command.env(name, value);
    }
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let shown = Arc::new(Mutex::new(String::new()));
    let (mut reader, told) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&shown));
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut buffer) {
            told.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    });
    let shows = async |text: &str| {
        eventually(text, async || shown.lock().unwrap().contains(text)).await;
    };
    let mut writer = pair.master.take_writer().unwrap();
    shows("24 80").await;
    pair.master.resize(size(30, 100)).unwrap();
    shows("now-30x100").await;
    writer.write_all(b"hello\r").unwrap();
    shows("got-hello").await;
    // Ctrl-C is the program's.
    writer.write_all(b"\x03").unwrap();
    let code = tokio::task::spawn_blocking(move || child.wait().unwrap().exit_code()).await.unwrap();
    assert_eq!(code, 5, "{}", shown.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_directories_are_copied_both_ways() {
    let server = Setup::new().start().await;
    let machine = Machine::of(&server);
    machine.ok(&["create", "web", "--wait"]);
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n * 13 % 253) as u8).collect();
    fs::write(machine.path("a b"), &bytes).unwrap();
    machine.ok(&["cp", "a b", "web:"]);
    machine.ok(&["cp", "web:a b", "back"]);
    assert_eq!(fs::read(machine.path("back")).unwrap(), bytes);
    assert!(machine.feed(&["cp", "-", "web:typed"], b"typed").status.success());
    assert_eq!(machine.ok(&["cp", "web:typed", "-"]), "typed");

    fs::create_dir_all(machine.path("tree/deep/er")).unwrap();
    fs::write(machine.path("tree/deep/er/file"), "deep").unwrap();
    fs::write(machine.path("tree/run.sh"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(machine.path("tree/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("deep/er/file", machine.path("tree/link")).unwrap();
    machine.fails(&["cp", "tree", "web:"], 1, "-r");
    machine.ok(&["cp", "-r", "tree", "web:"]);
    assert_eq!(machine.ok(&["exec", "web", "--", "tree/run.sh"]), "ran\n");
    machine.ok(&["cp", "-r", "tree", "web:new"]);
    machine.ok(&["cp", "-r", "tree", "web:new"]);
    assert_eq!(machine.ok(&["exec", "web", "--", "cat", "new/link", "new/tree/deep/er/file"]), "deepdeep");
    machine.ok(&["cp", "tree/run.sh", "web:new"]);
    assert_eq!(machine.ok(&["exec", "web", "--", "new/run.sh"]), "ran\n");

    machine.fails(&["cp", "web:tree", "copied"], 1, "-r");
    machine.ok(&["cp", "-r", "web:tree", "copied"]);
    assert_eq!(fs::read_to_string(machine.path("copied/deep/er/file")).unwrap(), "deep");
    assert_eq!(fs::read_link(machine.path("copied/link")).unwrap(), PathBuf::from("deep/er/file"));
    assert_ne!(fs::metadata(machine.path("copied/run.sh")).unwrap().permissions().mode() & 0o100, 0);
    machine.ok(&["cp", "-r", "web:tree", "copied"]);
    assert!(machine.path("copied/tree/run.sh").exists(), "into a directory that is there");

    machine.fails(&["cp", "web:none", "x"], 4, "");
    assert!(!machine.path("x").exists());
    machine.fails(&["cp", "none", "web:"], 1, "none");
    machine.fails(&["cp", "tree/run.sh", "web:no/such/directory/x"], 4, "directory");
    machine.fails(&["cp", "a", "b"], 2, "WORKSPACE:PATH");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_forwarded() {
    let server = Setup::new().start().await;
    let machine = Machine::of(&server);
    machine.ok(&["create", "web", "--wait"]);
    let port = free_port();
    // Answers with what it was sent, once it has all of it: also to who only then stops sending.
    let script = format!(
        "import socket\ns = socket.create_server(('127.0.0.1', {port}))\nwhile True:\n c, _ = s.accept()\n d = b''\n \
         while True:\n  p = c.recv(65536)\n  if not p: break\n  d += p\n c.sendall(d[::-1]); c.close()"
    );
    let _listens = Watched::stdout(machine.command(&["exec", "web", "--", "python3", "-c", &script]));
    let listed = || {
        machine.json(&["ports", "web", "--json"])["items"].to_string().contains(&format!("\"port\":{port}"))
    };
    eventually("it listens", async || listed()).await;
    assert!(machine.ok(&["ports", "web"]).contains(&port.to_string()));

    let pair = format!("0:{port}");
    let mut forwards = Watched::stdout(machine.command(&["port-forward", "web", &pair]));
    let line = forwards.line("->");
    let address = line.split(' ').next().unwrap().to_owned();
    let bytes: Vec<u8> = (0..500_000_u32).map(|n| (n % 250) as u8).collect();
    for _ in 0..3 {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let mut sender = stream.try_clone().unwrap();
        let sent = bytes.clone();
        let sending = std::thread::spawn(move || {
            sender.write_all(&sent).unwrap();
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        sending.join().unwrap();
        back.reverse();
        assert!(back == bytes, "{} bytes came back", back.len());
    }
    forwards.signal(Signal::INT);
    assert_eq!(forwards.code(), Some(0));
}

#[test]
fn shells_and_manuals_know_every_command() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = machine.ok(&["completion", shell]);
        assert!(script.contains("port-forward") && script.contains("context"), "{shell}");
    }
    machine.ok(&["man", "pages"]);
    for page in ["codehub.1", "codehub-exec.1", "codehub-context-ls.1", "codehub-serve.1"] {
        assert!(machine.path("pages").join(page).exists(), "{page}");
    }
    let help = machine.ok(&["--help"]);
    assert!(
        help.contains("Workspaces:") && help.contains("Server:") && help.contains("port-forward"),
        "{help}"
    );
}

/// Where `docs/CLI.md` begins to be made of what the commands say.
const MADE: &str = "\n<!-- From here on: what the commands say. CODEHUB_TEST_UPDATE=1 writes it anew. -->\n";

/// A command and those below it, as their own help describes them.
fn described(machine: &Machine, words: &[&str], depth: usize) -> String {
    // The settings are listed elsewhere.
    let flag = if words == ["serve"] { "-h" } else { "--help" };
    let said = machine.ok(&[words, &[flag]].concat());
    let said = said.trim_end();
    let mut text = format!("\n{} codehub {}\n\n```text\n{said}\n```\n", "#".repeat(depth), words.join(" "));
    let below = said.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in below.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   ")) {
        match line.split_whitespace().next() {
            Some("help") | None => {}
            Some(name) => text.push_str(&described(machine, &[words, &[name]].concat(), depth + 1)),
        }
    }
    text
}

#[test]
fn the_documentation_is_what_the_commands_say() {
    let machine = Machine::new();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/CLI.md");
    let there = fs::read_to_string(&path).unwrap();
    let (head, _) = there.split_once(MADE).unwrap();
    let mut made = format!("{head}{MADE}");
    for line in machine.ok(&["--help"]).lines().take_while(|line| !line.starts_with("`codehub COMMAND")) {
        match (line.strip_suffix(':'), line.strip_prefix("  ")) {
            (Some(group), None) => made.push_str(&format!("\n## {group}\n")),
            (_, Some(command)) if !line.trim().is_empty() => {
                made.push_str(&described(&machine, &[command.split_whitespace().next().unwrap()], 3));
            }
            _ => {}
        }
    }
    if std::env::var_os("CODEHUB_TEST_UPDATE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert!(
        there == made,
        "docs/CLI.md is not what the commands say: run this test with CODEHUB_TEST_UPDATE=1"
    );
}
