//! Who is at the other end of a connection that comes from this machine: a workspace's program has this machine's
//! loopback address where it shares its network, and where its own network leads it to CodeHub's port.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
};

use super::proc_scan::{self, Process};

/// Whether a connection from this loopback address comes from a workspace of this deployment, or cannot be told from
/// one. Costs a look at every process of our own user: others' are no workspaces.
pub(super) fn is_workspace(peer: SocketAddr, deployment: &str) -> io::Result<bool> {
    let Some(Socket { uid, inode }) = socket_at(peer)? else { return Ok(true) };
    if uid != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let link = format!("socket:[{inode}]");
    if holds("self", &link) {
        return Ok(false);
    }
    let processes = proc_scan::processes(deployment)?;
    let holders: Vec<_> = processes.iter().filter(|it| holds(&it.stat.pid.to_string(), &link)).collect();
    // One that does not let us look, as what carries a workspace's network does not.
    Ok(holders.is_empty() || holders.iter().any(|holder| is_in_workspace(holder, &processes)))
}

struct Socket {
    uid: u32,
    inode: u64,
}

/// The socket that is bound to this address, by the kernel's table.
fn socket_at(address: SocketAddr) -> io::Result<Option<Socket>> {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let table = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    // A socket for both families has its addresses in the other table.
    let [own, mapped] = [written(address.ip()), written(mapped(address.ip()))];
    let port = format!(":{:04X}", address.port());
    for (table, ip) in [(table, own), ("/proc/net/tcp6", mapped)] {
        let found = fs::read_to_string(table)?.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.nth(1)? == format!("{ip}{port}")).then_some(())?;
            let uid = words.nth(5)?.parse().ok()?;
            Some(Socket { uid, inode: words.nth(1)?.parse().ok()? })
        });
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(_) => ip,
    }
}

/// As the kernel writes it: in words of four bytes, each in the order of this machine.
fn written(ip: IpAddr) -> String {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect()
}

/// Whether the process has this file open, as far as it lets us look.
fn holds(pid: &str, link: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == link))
}

/// Whether it, or what it descends from, was started as a workspace.
fn is_in_workspace(process: &Process, processes: &[Process]) -> bool {
    let mut next = Some(process);
    // Nothing descends from itself, but a table that is read while it changes may say so.
    for _ in 0..processes.len() {
        let Some(process) = next else { return false };
        if process.marks.is_some() {
            return true;
        }
        next = processes.iter().find(|it| it.stat.pid == process.stat.parent);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_our_own_is_found_and_one_that_is_not_there_is_not_trusted() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(host) else { continue };
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let peer = client.local_addr().unwrap();
            let socket = socket_at(peer).unwrap().unwrap();
            assert_eq!(socket.uid, rustix::process::geteuid().as_raw());
            assert!(holds("self", &format!("socket:[{}]", socket.inode)), "{host}");
            assert!(!is_workspace(peer, "deployment").unwrap());
        }
        assert!(is_workspace(SocketAddr::from(([127, 0, 0, 1], 1)), "deployment").unwrap());
    }
}
