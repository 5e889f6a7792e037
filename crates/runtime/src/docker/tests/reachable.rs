//! Who reaches what: a workspace's program from everywhere it could be tried from, and everything a workspace could
//! try to reach. `reachable.txt` is the list.

use std::{net::SocketAddr, os::unix::fs::PermissionsExt};

use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use super::{neighbour::Neighbour, *};

/// Asks for a health check at an address or a socket, and prints what comes back.
const ASK: &str = r#"
import socket, sys
target = sys.argv[1]
s = socket.socket(socket.AF_UNIX if target.startswith("/") else socket.AF_INET)
s.settimeout(3)
try:
    host, _, port = target.rpartition(":")
    s.connect(target if target.startswith("/") else (host, int(port)))
    s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    print(s.recv(100))
except OSError as error:
    print(error)
"#;

/// A user of this machine asks.
fn user_asks(uid: u32, target: &str) -> bool {
    let ids = [format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".to_owned()];
    let ask = ["python3", "-c", ASK, target];
    // The system's own: another may be in somebody's home.
    let output = Command::new("setpriv").args(ids).args(ask).env("PATH", "/usr/bin:/bin").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    text.contains("HTTP/1")
}

/// A server of this machine that answers everybody, on every address.
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

/// CodeHub's user in these tests: not root, and nobody whom a container runs as.
const CODEHUB: u32 = 4711;
const ANOTHER: u32 = 4712;

struct Seen {
    lines: Vec<String>,
}

impl Seen {
    fn note(&mut self, who: &str, what: &str, reached: bool) {
        self.lines.push(format!("{who} -> {what}: {}", if reached { "yes" } else { "no" }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_reached_from_where_equals_the_list() {
    let Some(rig) = Rig::with(|config| {
        std::os::unix::fs::chown(&config.data_dir, Some(CODEHUB), Some(CODEHUB)).unwrap();
        // What is around the sockets is what counts, not how a tests' directory happens to be made.
        std::fs::set_permissions(&config.data_dir, PermissionsExt::from_mode(0o755)).unwrap();
    })
    .await
    else {
        return;
    };
    let (one, two) = (rig.running().await, rig.running().await);
    std::os::unix::fs::chown(rig.files.path().join("run"), Some(CODEHUB), Some(CODEHUB)).unwrap();
    let address_of = |spec: &InstanceSpec| -> SocketAddr {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}:9000";
        rig.docker(&["inspect", "-f", format, &container_name(spec.workspace)]).parse().unwrap()
    };
    let (own, other) = (address_of(&one), address_of(&two));
    let socket = socket_of(&rig, &one).await.display().to_string();
    // What somebody runs in a workspace, such as a development server, and for the other one to look at, too.
    for spec in [&one, &two] {
        let serve =
            "(while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\n' | nc -l -p 9000; done) >/dev/null 2>&1 &";
        assert!(rig.inside(spec, serve).0);
    }
    let from = |spec: &InstanceSpec, target: &str| {
        let (host, port) = target.rsplit_once(':').unwrap();
        let ask = format!("(printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n'; sleep 1) | nc -w 2 {host} {port}");
        // A workspace's server takes one at a time, and is back a moment later.
        let tries = if port == "9000" { 3 } else { 1 };
        (0..tries).any(|_| rig.inside(spec, &ask).1.contains("HTTP/1"))
    };
    let mut seen = Seen { lines: Vec::new() };
    let neighbour = Neighbour::new();
    neighbour.route(&own.ip().to_string());
    seen.note("a machine on the network", "a server in a workspace", neighbour.asks(own).contains("HTTP/1"));
    for (who, uid) in [("CodeHub's user", CODEHUB), ("another user of this machine", ANOTHER)] {
        seen.note(who, "the workspace's program", user_asks(uid, &socket));
        seen.note(who, "a server in a workspace", (0..3).any(|_| user_asks(uid, &own.to_string())));
    }
    seen.note("the workspace itself", "its own server", from(&one, "127.0.0.1:9000"));
    seen.note("the workspace itself", "its program", rig.inside(&one, "test -S /run/codehub/io/ide").0);
    let others = "busybox find / -xdev -name ide -type s 2>/dev/null; ls /run/codehub/io; ls /run/codehub";
    assert_eq!(rig.inside(&two, others).1, "ide\nio", "its own directory of sockets and no other");
    seen.note("another workspace", "a server in a workspace", from(&two, &own.to_string()));
    let stranger = ["run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", IMAGE, "-c"];
    let look = rig.docker(&[&stranger[..], &["ls /run/codehub 2>&1 | busybox wc -l"]].concat());
    assert_eq!(look, "1", "another container sees no sockets at all");

    let port = answering().await;
    let gateway = "{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}";
    let gateway = rig.docker(&["inspect", "-f", gateway, &container_name(one.workspace)]);
    let outward = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let known = outward.connect("192.0.2.1:9").and_then(|()| outward.local_addr());
    let machine = known.map_or_else(|_| gateway.clone(), |address| address.ip().to_string());
    for (what, target) in [
        ("another workspace", other.to_string()),
        ("this machine, by the network's gateway", format!("{gateway}:{port}")),
        ("this machine, by its own address", format!("{machine}:{port}")),
        ("this machine, by its address on another network", format!("{}:{port}", neighbour.here())),
        ("cloud metadata", "169.254.169.254:80".to_owned()),
        ("a cloud's agent", "168.63.129.16:80".to_owned()),
        ("a private network", "192.168.0.1:80".to_owned()),
    ] {
        seen.note("a workspace", what, from(&one, &target));
    }
    let (_, said) =
        rig.inside(&one, &format!("busybox timeout 4 busybox nslookup {} 127.0.0.11", other.ip()));
    seen.note(
        "a workspace",
        "the engine, for another's id by its address",
        said.contains(&two.workspace.to_string()),
    );
    let list = include_str!("reachable.txt");
    let list: Vec<&str> = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert_eq!(seen.lines, list);
}
