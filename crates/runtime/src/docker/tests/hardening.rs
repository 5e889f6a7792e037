//! What a workspace may not, looked at from outside and tried from inside.

use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use super::*;

/// What says nothing: the engine's defaults, and what newer engines add without being asked.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(says_nothing),
        Value::Object(fields) => fields.values().all(says_nothing),
    }
}

/// Everything the engine says of a workspace's container is in this list, and the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_engine_says_of_a_container_equals_the_list() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let container = container_name(spec.workspace);
    let text = rig.docker(&["inspect", &container]);
    let place = socket_of(&rig, &spec).await;
    let made_with = rig.docker(&["inspect", "-f", "{{index .Config.Labels \"codehub.config\"}}", &container]);
    let root = rig.docker(&["info", "-f", "{{.DockerRootDir}}"]);
    let etc = "{{range .Mounts}}{{if eq .Destination \"/etc\"}}{{.Name}}{{end}}{{end}}";
    let etc = rig.docker(&["inspect", "-f", etc, &container]);
    // What is different in every container or on every engine, by what it is.
    let text = text
        .replace(&etc, "{workspace's list of users}")
        .replace(&home_owner(&spec), "{workspace's user}:1000")
        .replace(place.parent().unwrap().to_str().unwrap(), "{data}/run/{workspace}-{number}")
        .replace(&root, "{engine}")
        .replace(&made_with, "{configuration}")
        .replace(&spec.workspace.to_string(), "{workspace}")
        .replace(&rig.deployment, "{deployment}");
    let inspected: Value = serde_json::from_str(&text).unwrap();
    let inspected = &inspected[0];
    let mut said = serde_json::json!({
        "Config": inspected["Config"],
        "HostConfig": inspected["HostConfig"],
        "Mounts": inspected["Mounts"],
        "Ports": inspected["NetworkSettings"]["Ports"],
        "Networks": inspected["NetworkSettings"]["Networks"].as_object().unwrap().keys().collect::<Vec<_>>(),
    });
    for part in ["Config", "HostConfig"] {
        let fields = said[part].as_object_mut().unwrap();
        fields.retain(|_, value| !says_nothing(value));
        // What every container of the engine gets, and what only a terminal of the engine's own would use.
        for engines in
            ["ConsoleSize", "Runtime", "ShmSize", "MaskedPaths", "ReadonlyPaths", "CgroupParent", "Isolation"]
        {
            fields.remove(engines);
        }
    }
    said["Config"]["Env"].as_array_mut().unwrap().sort_by_key(|it| it.as_str().map(str::to_owned));
    // What an image exposes is published nowhere by that alone.
    said["Ports"].as_object_mut().unwrap().retain(|_, published| !published.is_null());
    said["Mounts"].as_array_mut().unwrap().sort_by_key(|it| it["Destination"].as_str().map(str::to_owned));
    for mount in said["Mounts"].as_array_mut().unwrap() {
        mount.as_object_mut().unwrap().remove("Mode");
    }
    let list: Value = serde_json::from_str(include_str!("container.json")).unwrap();
    assert_eq!(said, list, "it is, as a whole: {}", serde_json::to_string_pretty(&said).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_cannot_do_what_it_should_not() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    assert_eq!(rig.inside(&spec, "echo $(id -u):$(id -g)").1, home_owner(&spec));
    for refused in [
        "touch /etc/x",
        "echo x:x:0:0::/:/bin/sh >> /etc/passwd",
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
    let Some(rig) = Rig::with(|config| config.reach = Reach::Address).await else { return };
    let (one, two) = (rig.running().await, rig.running().await);
    let name = |spec: &InstanceSpec| container_name(spec.workspace);
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
    let answered = (0..3).any(|_| reach("127.0.0.1:8080").contains("HTTP/1.0 401"));
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
