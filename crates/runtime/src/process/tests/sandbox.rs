//! Shut in by bubblewrap, where that works: with a network of the workspace's own, and with the machine's. What is
//! different for a CodeHub that is not root is tried as another user ([`as_a_plain_user`]).

use std::{
    collections::BTreeSet,
    net::{SocketAddr, TcpListener},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, chown},
            net::UnixListener,
        },
    },
    process::Command,
};

use super::*;

async fn place_in(command: Vec<String>, network: NetworkChoice) -> Option<Place> {
    let mut place = Place::new(command).await;
    place.sandbox = SandboxChoice::Auto;
    place.network = network;
    match ProcessRuntime::open(place.config()).await {
        Ok(runtime) if runtime.sandboxed() => return Some(place),
        Ok(_) => codehub_testing::skip("no bwrap"),
        Err(why) => codehub_testing::skip(format!("no network of a workspace's own: {why}")),
    }
    None
}

async fn place(command: Vec<String>) -> Option<Place> {
    place_in(command, NetworkChoice::Own).await
}

/// In either network.
async fn places(command: Vec<String>) -> Vec<Place> {
    let own = place_in(command.clone(), NetworkChoice::Own).await;
    own.into_iter().chain(place_in(command, NetworkChoice::Host).await).collect()
}

impl Place {
    fn seen(&self, name: &str) -> String {
        fs::read_to_string(self.home(1).join(name)).unwrap_or_default()
    }

    async fn until_there(&self, name: &str) {
        eventually(&format!("{name} is there"), async || self.home(1).join(name).exists()).await;
    }
}

/// Runs that test once more, as somebody who is not root. The device for networks is open to everybody on usual machines;
/// here it is made so for the test alone.
fn as_a_plain_user(test: &str) {
    const NOBODY: u32 = 65_534;
    const SCRIPT: &str = "if mount -t tmpfs tmpfs /dev/net 2>/dev/null; then \
                          chmod 755 /dev/net; mknod -m 666 /dev/net/tun c 10 200; fi; \
                          exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let tmp = dir.path().join("t");
    fs::create_dir(&tmp).unwrap();
    chown(&tmp, Some(NOBODY), Some(NOBODY)).unwrap();
    for path in [dir.path(), &exe] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", SCRIPT, "sh"])
        .arg(&exe)
        .args(["--exact", &name, "--nocapture"])
        .env("TMPDIR", &tmp)
        .env("HOME", &tmp)
        .current_dir(&tmp)
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "as another user: {said}");
}

/// What is inside and what can be reached from there is what the repository says.
#[tokio::test]
async fn the_inventory_is_the_one_in_the_repository() {
    let (codehub, other) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("0.0.0.0:0").unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
    let name = uuid::Uuid::new_v4().to_string();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    // The address others would use for this machine; asking for it sends nothing.
    let outward = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let machine = outward.connect("192.0.2.1:9").and_then(|()| outward.local_addr());
    let machine = machine.map_or_else(|_| String::new(), |address| address.ip().to_string());
    let Some(mut place) = place(shell("exit 0")).await else { return };
    let data = place.dir.path().canonicalize().unwrap().display().to_string();
    fs::write(place.home(1).join("inventory.py"), include_str!("inventory.py")).unwrap();
    place.command =
        [python(), "{home}/inventory.py".into(), data, port(&codehub), port(&other), name, machine].into();
    place.command.push("{socket}".into());
    let mut config = place.config();
    config.listen = Some(SocketAddr::from(([127, 0, 0, 1], codehub.local_addr().unwrap().port())));
    config.show = vec!["/opt".into()];
    let runtime = ProcessRuntime::open(config).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.until_there("inventory").await;
    let inventory = place.seen("inventory");
    let found: BTreeSet<&str> = inventory.lines().collect();
    let lines =
        include_str!("inventory.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut allowed = BTreeSet::new();
    let mut needed = BTreeSet::new();
    for line in lines {
        allowed.insert(line.strip_prefix("? ").unwrap_or(line));
        needed.extend((!line.starts_with("? ")).then_some(line));
    }
    let more: Vec<_> = found.difference(&allowed).collect();
    let less: Vec<_> = needed.difference(&found).collect();
    assert!(more.is_empty() && less.is_empty(), "too much: {more:#?}\ntoo little: {less:#?}");
    runtime.stop(place.id).await.unwrap();
    assert!(place.processes().is_empty());
    drop(place);
    as_a_plain_user("the_inventory_is_the_one_in_the_repository");
}

/// What a workspace forks is counted for it alone, and all of it is gone when it is stopped.
#[tokio::test]
async fn a_fork_bomb_stays_in_its_workspace() {
    if rustix::process::geteuid().is_root() {
        // Nothing counts root's processes.
        return tokio::task::spawn_blocking(|| as_a_plain_user("a_fork_bomb_stays_in_its_workspace"))
            .await
            .unwrap();
    }
    const LIMIT: usize = 40;
    let bomb = "import os, time\nwhile True:\n    try:\n        os.fork()\n    except BlockingIOError:\n        break\n\
                open(os.path.expanduser('~/hit'), 'w').close()\ntime.sleep(600)";
    let Some(place) = place(vec![python(), "-c".into(), bomb.into()]).await else { return };
    let mut config = place.config();
    config.limits.processes = LIMIT as u64;
    let runtime = ProcessRuntime::open(config.clone()).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.until_there("hit").await;
    let inside = || place.processes().iter().filter(|it| it.identity("").depth() > 2).count();
    eventually("it is at its limit", async || inside() >= LIMIT - 2).await;
    assert!(inside() <= LIMIT, "{} processes", inside());
    // Somebody else's workspace has its own count.
    let Some(neighbour) = self::place(shell("sleep 600 & sleep 600 & echo > up; wait")).await else {
        return;
    };
    let second = neighbour.runtime().await;
    second.start(&neighbour.spec(1), &Fence::open()).await.unwrap();
    neighbour.until_there("up").await;
    second.stop(neighbour.id).await.unwrap();
    runtime.stop(place.id).await.unwrap();
    assert!(place.processes().is_empty(), "all of it is gone");
}

#[tokio::test]
async fn a_script_that_pip_installed_runs_in_a_fork() {
    // A wheel is a zip file; this one holds one program that says where it runs.
    let install = "set -e; cd; python3 - <<'END'\n\
        import zipfile\n\
        with zipfile.ZipFile('hello-1.0-py3-none-any.whl', 'w') as wheel:\n\
        \x20   wheel.writestr('hello.py', 'def main():\\n    print(\"hello\")\\n')\n\
        \x20   wheel.writestr('hello-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: hello\\nVersion: 1.0\\n')\n\
        \x20   wheel.writestr('hello-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        \x20   wheel.writestr('hello-1.0.dist-info/entry_points.txt', '[console_scripts]\\nhello = hello:main\\n')\n\
        \x20   wheel.writestr('hello-1.0.dist-info/RECORD', '')\n\
        END\n\
        python3 -m venv --without-pip --system-site-packages v\n\
        v/bin/python3 -m pip install --quiet --no-index ./hello-1.0-py3-none-any.whl >pip.log 2>&1\n\
        v/bin/hello > said; head -n 1 v/bin/hello > shebang; touch done; sleep 600";
    if !Path::new("/usr/lib/python3/dist-packages/pip").exists() {
        return codehub_testing::skip("no python3-pip");
    }
    let Some(original) = place(shell(install)).await else { return };
    let runtime = original.runtime().await;
    runtime.start(&original.spec(1), &Fence::open()).await.unwrap();
    original.until_there("done").await;
    assert_eq!(original.seen("said").trim(), "hello", "{}", original.seen("pip.log"));
    assert!(
        original.seen("shebang").starts_with("#!/home/coder/v/bin/python"),
        "{}",
        original.seen("shebang")
    );
    runtime.stop(original.id).await.unwrap();

    let Some(fork) = place(shell("v/bin/hello > said; echo $? > status; exec sleep 600")).await else {
        return;
    };
    fs::remove_dir(fork.home(1)).unwrap();
    let copied = Command::new("cp").arg("-a").args([original.home(1), fork.home(1)]).status().unwrap();
    assert!(copied.success());
    for name in ["said", "done"] {
        fs::remove_file(fork.home(1).join(name)).unwrap();
    }
    drop(original);
    let runtime = fork.runtime().await;
    runtime.start(&fork.spec(1), &Fence::open()).await.unwrap();
    fork.until_there("status").await;
    assert_eq!((fork.seen("said").trim(), fork.seen("status").trim()), ("hello", "0"));
    runtime.stop(fork.id).await.unwrap();
}

#[tokio::test]
async fn scripts_that_begin_with_the_name_of_before_still_run() {
    let Some(place) = place(shell("./old > said; ./older >> said; touch done; exec sleep 600")).await else {
        return;
    };
    let data = place.dir.path().canonicalize().unwrap();
    let long = data.join(place.home(1).strip_prefix(place.dir.path()).unwrap()).with_file_name("home");
    let id = place.id.as_uuid().simple().to_string();
    for (name, home) in [("old", long), ("older", data.join("h").join(&id[20..]))] {
        let script = place.home(1).join(name);
        fs::write(&script, format!("#!{}/interpreter\n", home.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::copy("/bin/echo", place.home(1).join("interpreter")).unwrap();
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.until_there("done").await;
    assert_eq!(place.seen("said"), "./old\n./older\n", "{}", place.log(&runtime).await);
    runtime.stop(place.id).await.unwrap();
}

#[tokio::test]
async fn codehubs_settings_are_hidden_where_they_lie_in_what_is_shown() {
    let Some(place) = place(shell("exit 0")).await else { return };
    let shown = tempfile::tempdir_in("/var/tmp").unwrap();
    let link = shown.path().with_extension("link");
    fs::write(shown.path().join("codehub.toml"), "secret").unwrap();
    fs::write(shown.path().join("tool"), "tool").unwrap();
    std::os::unix::fs::symlink(shown.path(), &link).unwrap();
    let look = format!(
        "cat {0}/codehub.toml {1}/codehub.toml > hidden; cat {0}/tool {1}/tool > tools; touch done; exec sleep 600",
        shown.path().display(),
        link.display()
    );
    let mut config = place.config();
    config.ide = ide::resolve(IdeChoice::Command, &shell(&look), "/", Path::new("/nowhere")).unwrap();
    config.show = vec![shown.path().to_owned(), link.clone()];
    config.hidden = vec![shown.path().join("codehub.toml"), "/not/there".into()];
    let runtime = ProcessRuntime::open(config.clone()).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.until_there("done").await;
    assert_eq!((place.seen("hidden"), place.seen("tools")), (String::new(), "tooltool".to_owned()));
    runtime.stop(place.id).await.unwrap();
    fs::remove_file(link).unwrap();

    for path in ["/".into(), place.dir.path().join("homes"), "relative".into()] {
        config.show = vec![path.clone()];
        let error = ProcessRuntime::open(config.clone()).await.unwrap_err();
        assert!(error.contains("PROCESS_SHOW") && error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn a_shut_in_workspace_is_adopted_and_ended_like_any_other() {
    for place in places(web()).await {
        let before = place.started().await;
        let (pid, upstream) = (place.recorded_pid(), before.upstream(place.id).await.unwrap());
        drop(before);
        fs::remove_file(place.record_file()).unwrap();
        let after = place.runtime().await;
        assert_eq!(place.state(&after).await, Some(InstanceState::Ready));
        assert_eq!(after.upstream(place.id).await.unwrap(), upstream);
        after.start(&place.spec(1), &Fence::open()).await.unwrap();
        assert_eq!((place.recorded_pid(), place.mains()), (pid, vec![pid]));
        after.stop(place.id).await.unwrap();
        assert!(place.processes().is_empty());
    }
    as_a_plain_user("a_shut_in_workspace_is_adopted_and_ended_like_any_other");
}

#[tokio::test]
async fn a_shut_in_program_gets_its_grace_and_its_leavings_go_too() {
    let script = "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & \
                  trap 'sleep 0.7; echo saved > saved; exit 0' TERM; echo up > up; while :; do sleep 0.05; done";
    for place in places(shell(script)).await {
        let runtime = place.runtime().await;
        runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
        place.until_there("up").await;
        runtime.stop(place.id).await.unwrap();
        assert!(place.home(1).join("saved").exists(), "it had the time it needs to end well");
        assert!(place.processes().is_empty());
    }
    as_a_plain_user("a_shut_in_program_gets_its_grace_and_its_leavings_go_too");
}

/// What was started before a workspace's first process stayed with it, and before it had a network of its own.
#[tokio::test]
async fn what_an_older_codehub_shut_in_is_adopted_and_ended() {
    let script =
        "trap 'sleep 0.5; echo saved > saved; exit 0' TERM; echo up > up; while :; do sleep 0.05; done";
    let Some(place) = place_in(shell(script), NetworkChoice::Host).await else { return };
    drop(place.started_until("up").await);
    let pid = place.recorded_pid();
    let now =
        ProcessRuntime::open(ProcessConfig { network: NetworkChoice::Auto, ..place.config() }).await.unwrap();
    assert_eq!(place.state(&now).await, Some(InstanceState::Alive));
    now.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!((place.recorded_pid(), place.mains()), (pid, vec![pid]));
    now.stop(place.id).await.unwrap();
    assert!(place.home(1).join("saved").exists());
    assert!(place.processes().is_empty());
}

/// What makes the network complains about much that does not matter, and is heard where it does.
#[tokio::test]
async fn the_log_is_the_programs_own() {
    let Some(place) = place(shell("echo out; echo err >&2; echo up > up; sleep 600")).await else { return };
    let runtime = place.started_until("up").await;
    let log = place.log(&runtime).await;
    assert!(log.contains("out\n") && log.contains("err\n"), "{log}");
    for strange in ["syslog", "uid_map", "mappings"] {
        assert!(!log.contains(strange), "{log}");
    }
    runtime.stop(place.id).await.unwrap();
    let shim = entry("shim_entry");
    let words = ["stay", "--", "sh", "-c", "echo why >&2; exit 3"];
    let failed = Command::new(shim.program).args(shim.args).args(words).output().unwrap();
    assert_eq!(failed.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("why\n"), "{failed:?}");
}

#[tokio::test]
async fn the_status_of_a_shut_in_program_is_told() {
    for place in places(shell("exit 4")).await {
        let runtime = place.runtime().await;
        runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
        assert_eq!(place.ended(&runtime).await, "exited with code 4");
    }
}

#[tokio::test]
async fn what_is_left_of_a_killed_first_process_is_cleared_away() {
    let Some(place) = place(web()).await else { return };
    let runtime = place.started().await;
    let first = place.recorded_pid();
    let boot = super::super::proc_scan::boot().unwrap();
    for process in place.processes().iter().filter(|it| it.stat.pid == first) {
        process.identity(&boot).signal(&boot, rustix::process::Signal::KILL).unwrap();
    }
    place.ended(&runtime).await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.ready(&runtime).await;
    assert_eq!(place.mains(), [place.recorded_pid()], "one, and not the old one beside it");
    runtime.stop(place.id).await.unwrap();
    assert!(place.processes().is_empty());
}

#[tokio::test]
async fn a_program_elsewhere_is_there_inside() {
    for dir in ["/tmp", "/var/tmp"] {
        let elsewhere = tempfile::Builder::new().tempdir_in(dir).unwrap();
        let script = elsewhere.path().join("program");
        fs::write(&script, "#!/bin/sh\nexit 7\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let Some(place) = place(vec![script.to_str().unwrap().to_owned()]).await else { return };
        let runtime = place.runtime().await;
        runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
        assert_eq!(place.ended(&runtime).await, "exited with code 7");
    }
}

#[tokio::test]
async fn without_a_sandbox_a_second_user_is_refused() {
    let place = Place::new(shell("exec sleep 600")).await;
    let older = VolumeKey { owner: UserId::from_uuid(uuid::Uuid::from_u128(1)), ..place.key(1) };
    DirectoryVolumes::new(place.dir.path()).create(&older, 0).await.unwrap();
    let runtime = place.runtime().await;
    assert!(!runtime.isolates_users());
    let error = runtime.start(&place.spec(1), &Fence::open()).await.unwrap_err().to_string();
    assert!(error.contains("bubblewrap") && error.contains("PROCESS_UNSANDBOXED_USERS=many"), "{error}");
    runtime.start(&InstanceSpec { volume: older, ..place.spec(1) }, &Fence::open()).await.unwrap();
    runtime.stop(place.id).await.unwrap();

    let allowed = ProcessConfig { unsandboxed_users: true, ..place.config() };
    let runtime = ProcessRuntime::open(allowed).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    runtime.stop(place.id).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_had_is_said() {
    let place = Place::new(shell("exit 0")).await;
    let mut config = place.config();
    config.network = NetworkChoice::Own;
    let error = ProcessRuntime::open(config.clone()).await.unwrap_err();
    assert!(error.contains("PROCESS_NETWORK=own") && error.contains("PROCESS_NETWORK=auto"), "{error}");
    config.network = NetworkChoice::Host;
    let runtime = ProcessRuntime::open(config).await.unwrap();
    let said = runtime.safeguards().await;
    let names: Vec<_> = said.iter().map(|it| it.name).collect();
    assert_eq!(names, ["sandbox", "limits"]);
    assert!(
        said[0].text.contains("PROCESS_SANDBOX=never") && said[0].text.contains("second user"),
        "{said:?}"
    );

    for place in places(shell("exit 0")).await {
        let said = place.runtime().await.safeguards().await;
        let network = said.iter().find(|it| it.name == "network").unwrap();
        let own = place.network == NetworkChoice::Own;
        assert_eq!(network.state == crate::SafeguardState::Good, own, "{network:?}");
        assert_eq!(network.text.contains("abstract sockets"), !own, "{network:?}");
    }
}

/// Both have the address 127.0.0.1.
#[tokio::test]
async fn a_connection_of_a_workspace_is_told_from_one_of_the_machine() {
    for network in [NetworkChoice::Own, NetworkChoice::Host] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = format!(
            "import socket, time; s = socket.create_connection(('127.0.0.1', {port})); time.sleep(60)"
        );
        let Some(mut place) = place_in(shell("exit 0"), network).await else { return };
        place.command = vec![python(), "-c".into(), connect.clone()];
        let mut config = place.config();
        config.listen = Some(listener.local_addr().unwrap());
        let runtime = ProcessRuntime::open(config).await.unwrap();
        runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
        let (_held, peer) = listener.accept().await.unwrap();
        assert!(peer.ip().is_loopback(), "{peer}");
        assert!(runtime.comes_from_instance(peer).await, "in its {network:?} network");

        let mut program = Command::new(python()).args(["-c", &connect]).spawn().unwrap();
        let (_held, peer) = listener.accept().await.unwrap();
        assert!(!runtime.comes_from_instance(peer).await, "another program of the same user");
        program.kill().unwrap();
        program.wait().unwrap();
        runtime.stop(place.id).await.unwrap();
    }
    as_a_plain_user("a_connection_of_a_workspace_is_told_from_one_of_the_machine");
}
