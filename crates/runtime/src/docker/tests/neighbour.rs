//! A machine on the same network as the engine's: what it reaches of a workspace by sending packets to this
//! machine that are meant for the workspaces' network, or for 127.0.0.1.

use std::net::SocketAddr;

use super::*;

/// A network namespace that has one cable to this machine, and root's rights in it.
pub(super) struct Neighbour {
    name: String,
    cable: String,
    here: String,
}

impl Neighbour {
    pub(super) fn new() -> Self {
        let tag = Uuid::new_v4().simple().to_string()[..6].to_owned();
        let (name, cable, far) = (format!("lan-{tag}"), format!("lan-{tag}"), format!("far-{tag}"));
        // Of the networks set aside for benchmarks: nobody's own.
        let third = u8::from_str_radix(&tag[..2], 16).unwrap();
        let (here, there) = (format!("198.18.{third}.1"), format!("198.18.{third}.2"));
        let neighbour = Self { name, cable, here };
        let (name, cable) = (neighbour.name.as_str(), neighbour.cable.as_str());
        ip(&["netns", "add", name]);
        ip(&["link", "add", cable, "type", "veth", "peer", "name", &far, "netns", name]);
        ip(&["addr", "add", &format!("{}/30", neighbour.here), "dev", cable]);
        ip(&["link", "set", cable, "up"]);
        ip(&["-n", name, "addr", "add", &format!("{there}/30"), "dev", &far]);
        ip(&["-n", name, "link", "set", &far, "up"]);
        // Its own loopback stays down, so that 127.0.0.1 can be on the other side. And this machine takes such
        // packets, as it does where Kubernetes runs, too.
        let unlock = "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet";
        ip(&["netns", "exec", name, "sh", "-c", unlock]);
        std::fs::write(format!("/proc/sys/net/ipv4/conf/{cable}/route_localnet"), "1").unwrap();
        neighbour.route("127.0.0.1");
        neighbour
    }

    /// This machine's address on the cable.
    pub(super) fn here(&self) -> &str {
        &self.here
    }

    /// Sends what is for this address to this machine.
    pub(super) fn route(&self, address: &str) {
        ip(&["-n", &self.name, "route", "add", &format!("{address}/32"), "via", &self.here]);
    }

    /// What is answered there, as far as anything is.
    pub(super) fn asks(&self, target: SocketAddr) -> String {
        let line = format!(
            "exec 3<>/dev/tcp/{}/{} && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3",
            target.ip(),
            target.port()
        );
        let words = ["netns", "exec", &self.name, "timeout", "3", "bash", "-c", &line];
        let output = Command::new("ip").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
        let _ = Command::new("ip").args(["link", "del", &self.cable]).output();
    }
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The container's own address, and the port of 127.0.0.1 that leads to it.
fn ways_in(rig: &Rig, spec: &InstanceSpec) -> (SocketAddr, SocketAddr) {
    let name = container_name(spec.workspace);
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}:8080";
    let own = rig.docker(&["inspect", "-f", format, &name]).parse().unwrap();
    let published = rig.docker(&["port", &name, "8080/tcp"]).parse().unwrap();
    (own, published)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_on_the_same_network_does_not_get_into_a_workspace() {
    let Some(rig) = Rig::with(|config| config.reach = Reach::Port).await else { return };
    let spec = rig.running().await;
    let neighbour = Neighbour::new();
    let (own, published) = ways_in(&rig, &spec);
    neighbour.route(&own.ip().to_string());
    for (what, target) in [("its own address", own), ("its port of 127.0.0.1", published)] {
        let answer = neighbour.asks(target);
        assert!(!answer.contains("HTTP"), "a neighbour got in by {what} ({target}): {answer}");
        assert!(
            std::net::TcpStream::connect(target).is_ok(),
            "this machine, where the proxy is, does: {what}"
        );
    }
    // Without the engine's address translation there is still its port forwarder on 127.0.0.1.
    let bridge = rig.bridge();
    let (port, own) = (published.port().to_string(), own.to_string());
    let rule =
        format!("-d 127.0.0.1/32 ! -i {bridge} -p tcp -m tcp --dport {port} -j DNAT --to-destination {own}");
    let words = ["-w", "-t", "nat", "-D", "DOCKER"].into_iter().chain(rule.split(' '));
    let removed = Command::new("iptables").args(words).output().unwrap();
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    let answer = neighbour.asks(published);
    assert!(!answer.contains("HTTP"), "a neighbour got in by the port forwarder: {answer}");
    let addresses = rig.inside(&spec, "busybox grep -v ' lo$' /proc/net/if_inet6").1;
    assert_eq!(addresses, "", "and there is no other family of addresses");
    rig.until_ready(&spec).await;
}

/// So that the test above means something.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_rules_an_engine_before_28_lets_a_neighbour_in() {
    let Some(rig) = Rig::with(|config| {
        config.firewall = FirewallChoice::Never;
        config.reach = Reach::Port;
    })
    .await
    else {
        return;
    };
    let version = rig.docker(&["version", "-f", "{{.Server.Version}}"]);
    if version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_none_or(|major| major >= 28) {
        // It keeps neighbours out by itself: there is nothing to show.
        return;
    }
    let spec = rig.running().await;
    let neighbour = Neighbour::new();
    let (own, published) = ways_in(&rig, &spec);
    neighbour.route(&own.ip().to_string());
    for target in [own, published] {
        let answer = neighbour.asks(target);
        assert!(answer.contains("HTTP/1"), "{target}: {answer:?}");
    }
}
