//! Each workspace is a user of its own, and its home that user's.

use super::{super::users, *};

/// Takes inotify instances until there are no more, says how many, and keeps them until its input ends.
const TAKE: &str = r#"
import ctypes, sys
libc, count = ctypes.CDLL(None), 0
while libc.inotify_init() >= 0:
    count += 1
print(count, flush=True)
sys.stdin.read()
"#;

/// Runs it in the namespaces of a workspace and as its user, but with the machine's own files, where there is a Python.
fn take_all(rig: &Rig, spec: &InstanceSpec) -> (std::process::Child, u64) {
    let pid = rig.docker(&["inspect", "-f", "{{.State.Pid}}", &container_name(spec.workspace)]);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    let uid = format!("--reuid={}", uid.split_whitespace().next().unwrap());
    let mut child = Command::new("nsenter")
        .args(["--target", &pid, "--pid", "--ipc", "--uts", "--net", "--cgroup"])
        .args(["setpriv", &uid, "--regid=1000", "--clear-groups", "/usr/bin/python3", "-c", TAKE])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = std::io::BufReader::new(child.stdout.as_mut().unwrap());
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_workspace_does_not_use_up_what_the_kernel_counts_by_user() {
    let Some(rig) = Rig::new().await else { return };
    let (one, two) = (rig.running().await, rig.running().await);
    let (mut greedy, all) = take_all(&rig, &one);
    let (mut more, none) = take_all(&rig, &one);
    assert!(all > 0 && none == 0, "it took {all}, and then {none}");
    let (mut other, left) = take_all(&rig, &two);
    for child in [&mut greedy, &mut more, &mut other] {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    assert!(left >= all, "the other one has its own: {left} of {all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspaces_user_has_a_name_and_a_home_and_leaves_nothing_behind() {
    let Some(rig) = Rig::new().await else { return };
    let (one, two) = (rig.running().await, rig.running().await);
    assert_ne!(rig.inside(&one, "id -u").1, rig.inside(&two, "id -u").1);
    for spec in [&one, &two] {
        let uid = users::own_uid(spec.workspace, false);
        let line = format!("busybox grep :{uid}: /etc/passwd");
        assert_eq!(rig.inside(spec, &line).1, format!("coder:x:{uid}:1000::/home/coder:/bin/sh"));
        assert_eq!(
            rig.inside(spec, "id -un; busybox head -n 1 /etc/passwd").1,
            "coder\nroot:x:0:0::/root:/bin/sh"
        );
    }
    let volumes = || rig.docker(&["volume", "ls", "-q"]).lines().map(str::to_owned).collect::<Vec<_>>();
    let format = "{{range .Mounts}}{{if eq .Destination \"/etc\"}}{{.Name}}{{end}}{{end}}";
    let etc = rig.docker(&["inspect", "-f", format, &container_name(one.workspace)]);
    assert!(volumes().contains(&etc));
    // The next start finds it as it is, and one that somebody removed is made anew.
    for remove in [false, true] {
        rig.runtime.stop(one.workspace).await.unwrap();
        assert!(volumes().contains(&etc));
        if remove {
            rig.docker(&["volume", "rm", &etc]);
        }
        start(&rig.runtime, &one).await;
        assert_eq!(rig.inside(&one, "id -un").1, "coder");
    }
    rig.runtime.stop(one.workspace).await.unwrap();
    rig.volumes.delete(&one.volume, &Fence::open()).await.unwrap();
    assert!(!volumes().contains(&etc), "its list of users went with the home");
}

const FILL: &str = "cd /home/coder && echo text > note && busybox mkdir -p shut/deep && echo deep > shut/deep/file && \
                    busybox ln note same && busybox ln -s note link && busybox ln -s /etc/passwd outside && \
                    busybox chmod 640 note && busybox chmod 000 shut/deep/file && busybox chmod 500 shut";
const OWNERS: &str =
    "cd /home/coder && stat -c '%u:%g %a %n' . note same link outside shut shut/deep shut/deep/file";

fn owners(owner: &str) -> String {
    let entries = [
        "755 .",
        "640 note",
        "640 same",
        "777 link",
        "777 outside",
        "500 shut",
        "755 shut/deep",
        "0 shut/deep/file",
    ];
    entries.map(|entry| format!("{owner} {entry}")).join("\n")
}

/// As it was before: everybody the same user.
fn common(config: &mut DockerConfig) {
    config.users.uid = Some(1000);
}

async fn start(runtime: &DockerRuntime, spec: &InstanceSpec) {
    runtime.start(spec, &Fence::open()).await.unwrap();
    runtime.wait_ready(spec.workspace, &tokio::sync::watch::Sender::new(None)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_of_the_common_user_becomes_the_workspaces_own_and_loses_nothing() {
    let Some(rig) = Rig::with(common).await else { return };
    let spec = rig.running().await;
    assert_eq!(rig.inside(&spec, FILL), (true, String::new()));
    // What an administrator put there stays theirs.
    let pid = rig.docker(&["inspect", "-f", "{{.State.Pid}}", &container_name(spec.workspace)]);
    std::fs::write(format!("/proc/{pid}/root/home/coder/of-root"), "x").unwrap();
    assert_eq!(rig.inside(&spec, OWNERS).1, owners("1000:1000"));
    let now = rig.another(&rig.host, |config| config.users.uid = None);
    // Found running, it goes on as it is; its next start makes it as it should be.
    assert!(now.status(spec.workspace).await.unwrap().is_some());
    start(&now, &spec).await;
    assert_eq!(rig.inside(&spec, OWNERS).1, owners(&home_owner(&spec)));
    let read = "cd /home/coder && cat note && stat -c %u of-root && echo more >> note && busybox chmod 400 shut/deep/file \
                && cat shut/deep/file";
    assert_eq!(rig.inside(&spec, read), (true, "text\n0\ndeep".to_owned()));
    // Who wants one user for all again gets that, too.
    start(&rig.later(), &spec).await;
    assert_eq!(
        rig.inside(&spec, "cd /home/coder && stat -c %u:%g . note link").1,
        "1000:1000\n1000:1000\n1000:1000"
    );
    assert_eq!(rig.inside(&spec, "cat /home/coder/note").1, "text\nmore");
}

/// Of a job that is killed with half of it done, and the start with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_was_given_away_by_half_is_given_by_the_next_start() {
    let Some(rig) = Rig::with(common).await else { return };
    let spec = rig.running().await;
    let many = "cd /home/coder && for i in $(busybox seq 200); do busybox mkdir $i && cd $i && touch $(busybox seq 300) && cd ..; done && \
                touch setuid && busybox chmod 6755 setuid";
    assert_eq!(rig.inside(&spec, many), (true, String::new()));
    rig.runtime.stop(spec.workspace).await.unwrap();
    let (host, job) = (rig.host.clone(), format!("codehub-job-{}", spec.workspace));
    let killer = tokio::task::spawn_blocking(move || {
        for _ in 0..1000 {
            let output = Command::new("docker").args(["-H", &host, "kill", &job]).output().unwrap();
            if output.status.success() {
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        false
    });
    let now = rig.another(&rig.host, |config| config.users.uid = None);
    let outcome = now.start(&spec, &Fence::open()).await;
    assert!(killer.await.unwrap(), "it was killed");
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("cannot be given"), "{error}");
    let running =
        rig.docker(&["ps", "-q", "--filter", &format!("label=codehub.workspace={}", spec.workspace)]);
    assert_eq!(running, "", "nothing runs in a home that is not its user's");
    // Also where it is to be the old user's again.
    for (runtime, uid) in [(rig.later(), 1000), (now, users::own_uid(spec.workspace, false))] {
        start(&runtime, &spec).await;
        let strangers =
            format!("cd /home/coder && busybox find . | busybox wc -l && busybox find . ! -user {uid}");
        assert_eq!(rig.inside(&spec, &strangers).1, "60202");
    }
}

/// Nothing can run in it, so its owner could not.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_its_owner_has_shut_is_open_again_after_the_next_starts() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    assert_eq!(
        rig.inside(&spec, "cd /home/coder && echo text > note && busybox chmod 000 ."),
        (true, String::new())
    );
    // As its program, which cannot work in there, would.
    rig.docker(&["kill", &container_name(spec.workspace)]);
    let status = rig.runtime.status(spec.workspace).await.unwrap().unwrap();
    assert!(matches!(status.state, InstanceState::Ended { .. }), "{status:?}");
    start(&rig.runtime, &spec).await;
    let look = "cat /home/coder/note && stat -c %a /home/coder";
    assert_eq!(rig.inside(&spec, look), (true, "text\n700".to_owned()));
    // Whoever starts it for the first time looks before.
    assert_eq!(rig.inside(&spec, "busybox chmod 055 /home/coder"), (true, String::new()));
    rig.runtime.stop(spec.workspace).await.unwrap();
    start(&rig.later(), &spec).await;
    assert_eq!(rig.inside(&spec, look), (true, "text\n755".to_owned()));
}

/// Asking whose it is does not read it.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_home_does_not_make_the_start_slow() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    // Of 8 GiB, and nothing on the disk.
    let fill = "busybox dd if=/dev/zero of=/home/coder/large bs=1M seek=8191 count=1 2>/dev/null";
    assert!(rig.inside(&spec, fill).0);
    let mut took = Vec::new();
    for _ in 0..2 {
        rig.runtime.stop(spec.workspace).await.unwrap();
        let begun = Instant::now();
        start(&rig.runtime, &spec).await;
        took.push(begun.elapsed());
        assert!(rig.inside(&spec, "busybox rm /home/coder/large").0);
        assert!(rig.inside(&spec, "touch /home/coder/large").0);
    }
    assert!(took[0] < took[1] + Duration::from_secs(2), "with it, and without: {took:?}");
}
