//! What keeps workspaces apart hangs on the machine's state, which others change: it is checked and put back.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use serde_json::Value;

use super::*;
use crate::SafeguardState;

fn mangle(words: &[&str]) -> String {
    let output = Command::new("iptables").args(["-w", "-t", "mangle"]).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn firewall(rig: &Rig) -> (SafeguardState, String) {
    let all = rig.runtime.safeguards().await;
    let found = all.into_iter().find(|safeguard| safeguard.name == "firewall").unwrap();
    (found.state, found.text)
}

/// Surveys until the rules are as they should be.
async fn until_back(rig: &Rig) {
    let begun = Instant::now();
    while firewall(rig).await.0 != SafeguardState::Good {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", firewall(rig).await);
        rig.runtime.list(Among::All(&[])).await.unwrap();
        poll_every(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_a_firewall_reload_removed_are_back_after_the_next_survey() {
    let Some(rig) = Rig::new().await else { return };
    assert_eq!(firewall(&rig).await.0, SafeguardState::Good, "nothing runs yet, and they can be made");
    rig.running().await;
    assert_eq!(firewall(&rig).await.0, SafeguardState::Good);
    let [forward, input, output] = ["forward", "input", "output"].map(|it| format!("{}-{it}", rig.bridge()));
    for undo in [
        &["-D", "FORWARD", "-j", &forward][..],
        &["-F", &input],
        &["-D", &forward, "1"],
        &["-D", "OUTPUT", "-j", &output],
    ] {
        mangle(undo);
        let (state, text) = firewall(&rig).await;
        assert_eq!(state, SafeguardState::Bad, "{undo:?}");
        assert!(text.contains("not in place"), "{text}");
        until_back(&rig).await;
    }
    let jumps = mangle(&["-S", "FORWARD"]);
    assert_eq!(jumps.matches(&forward).count(), 1, "{jumps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_do_not_reach_each_other_where_bridges_are_told_to_skip_the_rules() {
    const SWITCH: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    let Some(rig) = Rig::with(|config| config.reach = Reach::Address).await else { return };
    let (one, two) = (rig.running().await, rig.running().await);
    let name = container_name(two.workspace);
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let other = rig.docker(&["inspect", "-f", format, &name]);
    let ask = format!("(printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n'; sleep 1) | nc -w 2 {other} 8080");
    struct Restore(String);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = std::fs::write(SWITCH, &self.0);
        }
    }
    let _restore = Restore(std::fs::read_to_string(SWITCH).unwrap());
    std::fs::write(SWITCH, "0").unwrap();
    assert!(rig.inside(&one, &ask).1.contains("HTTP"), "the switch is what it hangs on");
    assert_eq!(firewall(&rig).await.0, SafeguardState::Bad);
    until_back(&rig).await;
    assert!(!rig.inside(&one, &ask).1.contains("HTTP"), "closed on this bridge");
    assert_eq!(std::fs::read_to_string(SWITCH).unwrap().trim(), "0", "and others are left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strange_network_with_our_name_is_not_used() {
    let Some(rig) = Rig::new().await else { return };
    let name = format!("codehub-{}", rig.deployment);
    let label = format!("codehub.instance={}", rig.deployment);
    let spec = spec();
    rig.volumes.create(&spec.volume, 0).await.unwrap();
    for (create, what) in [
        (&["network", "create", &name][..], "label"),
        (&["network", "create", "--label", &label, &name], "option"),
    ] {
        rig.docker(create);
        let error = rig.runtime.start(&spec, &Fence::open()).await.unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("docker network rm"), "{error}");
        let (state, text) = firewall(&rig).await;
        assert!(state == SafeguardState::Bad && text.contains(what), "{text}");
        let containers: Value =
            serde_json::from_str(&rig.docker(&["network", "inspect", "-f", "{{json .Containers}}", &name]))
                .unwrap();
        assert_eq!(containers, serde_json::json!({}), "nothing was put on it");
        rig.docker(&["network", "rm", &name]);
    }
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
}

/// As the systemd unit runs it: a user of its own with the engine's group, with CAP_NET_ADMIN and without.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_whether_a_service_user_can_shut_workspaces_in() {
    let Some(rig) = Rig::new().await else { return };
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("codehub");
    std::fs::copy(codehub().unwrap(), &program).unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(1000), Some(1000)).unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let socket = std::fs::metadata(rig.host.trim_start_matches("unix://")).unwrap();
    let doctor = |capabilities: &str| {
        let output = Command::new("setpriv")
            .args(["--reuid", "1000", "--regid", "1000", "--groups", &socket.gid().to_string()])
            .args(["--inh-caps", capabilities, "--ambient-caps", capabilities, "--bounding-set", "+all"])
            .arg(&program)
            .arg("doctor")
            .current_dir(place.path())
            .env("CODEHUB_DATA_DIR", &data)
            .env("CODEHUB_LISTEN", "127.0.0.1:0")
            .env("RUNTIME", "docker")
            .env("DOCKER_HOST", &rig.host)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
    };
    let (well, text) = doctor("+net_admin");
    assert!(well && text.contains("ok    firewall:"), "{text}");
    if rig.docker(&["version", "-f", "{{.Server.Version}}"]).starts_with("20.") {
        assert!(text.contains("note  engine: Docker 20."), "{text}");
    }
    let (well, text) = doctor("-all");
    assert!(!well && text.contains("FIX   firewall:") && text.contains("CAP_NET_ADMIN"), "{text}");
}
