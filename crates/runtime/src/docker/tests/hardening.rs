//! What a workspace may not, looked at from outside and tried from inside.

use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_confirms_the_list() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let text = rig.docker(&["inspect", &format!("codehub-ws-{}", spec.workspace)]);
    let inspected: Value = serde_json::from_str(&text).unwrap();
    let (config, host) = (&inspected[0]["Config"], &inspected[0]["HostConfig"]);
    assert_eq!(config["User"], "1000:1000");
    assert_eq!(config["Labels"]["codehub.instance"], rig.deployment);
    assert_eq!(config["Labels"]["codehub.workspace"], spec.workspace.to_string());
    assert_eq!(config["Labels"]["codehub.generation"], "1");
    assert_eq!(host["Privileged"], false);
    assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]));
    assert!(host["CapAdd"].is_null());
    assert_eq!(host["SecurityOpt"], serde_json::json!(["no-new-privileges:true"]));
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!((&host["Memory"], &host["MemorySwap"]), (&(256 << 20).into(), &(256 << 20).into()));
    assert_eq!(host["NanoCpus"], 1_500_000_000);
    assert_eq!(host["PidsLimit"], 100);
    assert_eq!(host["RestartPolicy"]["Name"], "no");
    assert_eq!(host["NetworkMode"], format!("codehub-{}", rig.deployment));
    for mode in ["PidMode", "UTSMode", "UsernsMode"] {
        assert_eq!(host[mode], "", "{mode}");
    }
    assert_eq!(host["IpcMode"], "private");
    assert_eq!(host["CgroupnsMode"], "private");
    let limits = host["Ulimits"].as_array().unwrap();
    let limit = |name: &str| limits.iter().find(|limit| limit["Name"] == name).unwrap()["Hard"].clone();
    assert_eq!((limit("core"), limit("nofile")), (0.into(), 16_384.into()));
    assert!(host["Binds"].is_null() && host["Devices"].as_array().is_none_or(Vec::is_empty));
    let mounts = inspected[0]["Mounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1, "the home and nothing else: {mounts:?}");
    assert_eq!(mounts[0]["Name"], spec.volume.to_string());
    let bound = &inspected[0]["NetworkSettings"]["Ports"]["8080/tcp"][0]["HostIp"];
    assert_eq!(bound, "127.0.0.1", "never to the outside");
    for variable in config["Env"].as_array().unwrap() {
        let variable = variable.as_str().unwrap();
        assert!(!variable.contains("S3_") && !variable.contains("PASSWORD"), "{variable}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_cannot_do_what_it_should_not() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    assert_eq!(rig.inside(&spec, "id -u; id -g").1, "1000\n1000");
    for refused in [
        "touch /etc/x",
        "chown 0:0 /home/coder",
        "mount -t tmpfs none /home/coder",
        "cat /var/run/docker.sock",
        "ls /var/run/docker.sock",
        "touch /proc/sys/kernel/hostname",
    ] {
        assert!(!rig.inside(&spec, refused).0, "{refused} worked");
    }
    assert!(rig.inside(&spec, "touch /tmp/x && touch /home/coder/x").0);
    let (_, privileges) = rig.inside(&spec, "busybox grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status");
    assert!(privileges.contains("CapEff:\t0000000000000000"), "{privileges}");
    assert!(privileges.contains("CapBnd:\t0000000000000000"), "{privileges}");
    assert!(privileges.contains("NoNewPrivs:\t1"), "{privileges}");
    // A hundred processes and no more.
    let bomb = "i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; echo through";
    let (_, said) = rig.inside(&spec, bomb);
    assert!(said.contains("can't fork"), "{said}");
}

/// A server that answers everybody, on every address of this machine.
async fn answering() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.write_all(b"HTTP/1.0 200 OK\r\n\r\nsecret").await;
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_reach_neither_each_other_nor_this_machine_nor_metadata() {
    let Some(rig) = Rig::new().await else { return };
    let (one, two) = (rig.running().await, rig.running().await);
    let name = |spec: &InstanceSpec| format!("codehub-ws-{}", spec.workspace);
    let address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let gateway = "{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}";
    let other = rig.docker(&["inspect", "-f", address, &name(&two)]);
    let machine = rig.docker(&["inspect", "-f", gateway, &name(&one)]);
    let port = answering().await;
    // As a database, a Redis or an object store on this machine would be.
    let reach = |target: &str| {
        let (host, port) = target.split_once(':').unwrap();
        // The tool that asks gives up at the end of its input: that has to wait for the answer.
        let ask = format!("(printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n'; sleep 1) | nc -w 2 {host} {port}");
        rig.inside(&one, &ask).1
    };
    let answered = (0..3).any(|_| reach("127.0.0.1:8080").contains("HTTP/1.0 200"));
    assert!(answered, "it reaches itself");
    // Where a packet to the world would come from, if there is a way to it.
    let outward = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let known = outward.connect("192.0.2.1:9").and_then(|()| outward.local_addr());
    let own = known.map_or_else(|_| machine.clone(), |address| address.ip().to_string());
    for (what, target) in [
        ("this machine, by its own address", format!("{own}:{port}")),
        ("another workspace", format!("{other}:8080")),
        ("this machine, by the network's gateway", format!("{machine}:{port}")),
        ("cloud metadata", "169.254.169.254:80".to_owned()),
        ("a cloud's agent", "168.63.129.16:80".to_owned()),
        ("a private network", "192.168.0.1:80".to_owned()),
        ("another private network", "10.255.255.1:80".to_owned()),
    ] {
        let said = reach(&target);
        assert!(!said.contains("HTTP"), "{what} ({target}) answered: {said}");
    }
    // The rules are why, and not that nothing is there.
    let rules = Command::new("iptables").args(["-w", "-t", "mangle", "-S"]).output().unwrap();
    let rules = String::from_utf8_lossy(&rules.stdout).into_owned();
    assert!(rules.lines().filter(|line| line.contains(&rig.bridge())).count() >= 10, "{rules}");
    let direct = std::net::TcpStream::connect(("127.0.0.1", port));
    assert!(direct.is_ok(), "and it does answer this machine itself");
}
