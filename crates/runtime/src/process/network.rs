//! A network of a workspace's own, by `pasta` (Debian's package `passt`).
//!
//! The workspace is in a network namespace in which nobody else is. `pasta` stands between it and the machine: it opens a
//! connection of the machine's for each of the workspace's, so nothing needs privileges. What the workspace may reach is
//! decided by routes in the namespace, which it cannot change: the networks of [`FORBIDDEN`], this machine's own addresses
//! and everything that is not IPv4 are unreachable. Names are resolved at [`RESOLVER`], whose port 53 leads to the
//! machine's own resolver and nowhere else. CodeHub's own port is at the workspace's 127.0.0.1.
//!
//! `pasta` runs as the parent of the sandbox and ends with it, so there is nothing to record and nothing to be left over.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use super::{super::ide::which, ShimCommand, shim};
use crate::forbidden::FORBIDDEN;

/// Which network local processes are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkChoice {
    /// Their own where `pasta` and the sandbox work; said in the log where not.
    Auto,
    /// Their own, or refuse to start.
    Own,
    /// The machine's.
    Host,
}

/// What the interface is called inside.
const INTERFACE: &str = "net0";
/// Where names are resolved inside.
pub(super) const RESOLVER: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// More that leads nowhere: "this" network, groups, and what is reserved.
const NOWHERE: &[&str] = &["0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4"];

/// How workspaces get a network of their own.
#[derive(Debug, Clone)]
pub(super) struct Network {
    pasta: PathBuf,
    ip: PathBuf,
    /// CodeHub's own port, where it can be led inside.
    pub(super) port: Option<u16>,
}

impl Network {
    /// The programs it takes.
    ///
    /// # Errors
    /// Which one is missing.
    pub(super) fn find(listen: Option<SocketAddr>) -> Result<Self, String> {
        let path = system_path();
        let find = |name: &str, package: &str| {
            which(name, &path)
                .ok_or_else(|| format!("{package} is not installed: there is no `{name}` on the PATH"))
        };
        Ok(Self {
            pasta: find("pasta", "passt")?,
            ip: find("ip", "iproute2")?,
            port: listen.and_then(led_inside),
        })
    }

    /// The words before those of the sandbox. `port`: where the program listens, if that is a port.
    pub(super) fn words(&self, shim: &ShimCommand, port: Option<u16>, resolv: &ResolvConf) -> Vec<OsString> {
        let listens = port.map_or_else(|| "none".to_owned(), |port| format!("127.0.0.1/{port}"));
        let ours = self.port.filter(|own| Some(*own) != port);
        let ours = ours.map_or_else(|| "none".to_owned(), |port| port.to_string());
        let mut words: Vec<OsString> = vec![self.pasta.clone().into()];
        let options = ["--quiet", "--config-net", "--ipv4-only", "--ns-ifname", INTERFACE, "--no-map-gw"];
        words.extend(options.map(OsString::from));
        words.extend(["-t", &listens, "-u", "none", "-T", &ours, "-U", "none"].map(OsString::from));
        if resolv.has_ipv4 {
            words.extend(["--dns-forward".to_owned(), RESOLVER.to_string()].map(OsString::from));
        }
        if rustix::process::geteuid().is_root() {
            // It would become `nobody`, who may not enter what root made.
            words.extend(["--runas", "0", "--netns-only"].map(OsString::from));
        }
        words.push("--".into());
        words.extend(shim.words([shim::INNER.into(), shim::routes(&self.ip, &routes(&own_addresses()))]));
        words
    }
}

/// The machine's settings for resolving names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvConf {
    /// `pasta` can ask the machine's resolver.
    has_ipv4: bool,
    /// What the workspace reads.
    pub(super) text: String,
}

impl ResolvConf {
    pub(super) fn read() -> Self {
        Self::parse(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
    }

    fn parse(machines: &str) -> Self {
        let mut found = Self::default();
        for line in machines.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    found.has_ipv4 |= words.next().is_some_and(|it| it.parse::<Ipv4Addr>().is_ok());
                }
                Some("search" | "domain" | "options") => {
                    found.text.push_str(line.trim());
                    found.text.push('\n');
                }
                _ => {}
            }
        }
        if found.has_ipv4 {
            found.text.insert_str(0, &format!("nameserver {RESOLVER}\n"));
        }
        found
    }
}

/// The port at which a workspace's 127.0.0.1 leads to CodeHub: `pasta` only knows the machine's loopback addresses.
fn led_inside(listen: SocketAddr) -> Option<u16> {
    let reached = match listen.ip() {
        IpAddr::V4(ip) => ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST,
        IpAddr::V6(ip) => ip.is_unspecified() || ip.is_loopback(),
    };
    Some(listen.port()).filter(|port| reached && *port != 0)
}

/// What `ip -batch` is told. One route in and out, without a gateway (`pasta` answers for everybody), so that nothing on
/// the machine's own network is nearer than what is forbidden.
fn routes(own: &BTreeSet<Ipv4Addr>) -> String {
    let mut text = format!(
        "route flush table main\nroute replace default dev {INTERFACE}\nroute replace {RESOLVER}/32 dev {INTERFACE}\n"
    );
    let own = own.iter().map(|address| format!("{address}/32"));
    let networks = FORBIDDEN.iter().chain(NOWHERE).map(|&network| network.to_owned());
    // The loopback of the workspace's own is nearer than any route.
    for network in networks.chain(own) {
        text.push_str(&format!("route replace unreachable {network}\n"));
    }
    text
}

/// The addresses of this machine, but for its loopback.
fn own_addresses() -> BTreeSet<Ipv4Addr> {
    parse_own_addresses(&fs::read_to_string("/proc/net/fib_trie").unwrap_or_default())
}

fn parse_own_addresses(trie: &str) -> BTreeSet<Ipv4Addr> {
    let mut found = BTreeSet::new();
    let mut last = None;
    for line in trie.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    found
}

/// The `PATH`, and where system programs are on machines whose users have a shorter one.
pub(super) fn system_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    for dir in ["/usr/sbin", "/sbin"] {
        if !std::env::split_paths(&path).any(|it| it == Path::new(dir)) {
            path.push(":");
            path.push(dir);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_addresses_are_read_from_the_kernels_table() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 127.0.0.1\n        \
                    /32 host LOCAL\n     |-- 192.0.2.0\n        /24 link UNICAST\n     |-- 192.0.2.2\n        \
                    /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n";
        assert_eq!(parse_own_addresses(trie), BTreeSet::from([Ipv4Addr::new(192, 0, 2, 2)]));
        let text = routes(&parse_own_addresses(trie));
        for line in ["unreachable 192.0.2.2/32", "unreachable 10.0.0.0/8", "unreachable 169.254.0.0/16"] {
            assert!(text.contains(&format!("route replace {line}\n")), "{text}");
        }
        assert!(text.starts_with("route flush table main\n"), "{text}");
    }

    #[test]
    fn names_are_resolved_by_way_of_one_address() {
        let found = ResolvConf::parse(
            "# x\nnameserver 127.0.0.53\nnameserver 10.0.0.1\nsearch lan home\noptions edns0\n",
        );
        assert_eq!(found.text, "nameserver 169.254.1.1\nsearch lan home\noptions edns0\n");
        let found = ResolvConf::parse("nameserver fd00::53\n");
        assert_eq!(found, ResolvConf::default(), "nobody there whom it could ask");
    }

    #[test]
    fn our_own_port_is_led_inside_where_it_is_on_a_loopback_address() {
        for (listen, port) in [
            ("127.0.0.1:8080", Some(8080)),
            ("0.0.0.0:80", Some(80)),
            ("[::1]:8080", Some(8080)),
            ("[::]:8080", Some(8080)),
            ("127.0.0.1:0", None),
            ("10.1.2.3:8080", None),
        ] {
            assert_eq!(led_inside(listen.parse().unwrap()), port, "{listen}");
        }
    }
}
