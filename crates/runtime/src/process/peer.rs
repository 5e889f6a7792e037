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
    let own = rustix::process::geteuid().as_raw();
    let sockets = sockets_at(peer)?;
    if sockets.is_empty() {
        return Ok(true);
    }
    let links =
        sockets.iter().filter(|socket| socket.uid == own).map(|socket| format!("socket:[{}]", socket.inode));
    let links: Vec<_> = links.filter(|link| !holds("self", link)).collect();
    if links.is_empty() {
        return Ok(false);
    }
    let processes = proc_scan::processes(deployment)?;
    Ok(links.iter().any(|link| {
        let mut holders = processes.iter().filter(|it| holds(&it.stat.pid.to_string(), link)).peekable();
        // One that does not let us look, as what carries a workspace's network does not.
        holders.peek().is_none() || holders.any(|holder| is_in_workspace(holder, &processes))
    }))
}

struct Socket {
    uid: u32,
    inode: u64,
}

/// The sockets that are bound to this address, by the kernel's table. They are several where one port leads to different
/// other ends; those that only wait for their time to be over are nobody's.
fn sockets_at(address: SocketAddr) -> io::Result<Vec<Socket>> {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let table = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    // A socket for both families has its addresses in the other table.
    let [own, mapped] = [written(address.ip()), written(mapped(address.ip()))];
    let port = format!(":{:04X}", address.port());
    let mut found = Vec::new();
    for (table, ip) in [(table, own), ("/proc/net/tcp6", mapped)] {
        let wanted = format!("{ip}{port}");
        found.extend(fs::read_to_string(table)?.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.nth(1)? == wanted).then_some(())?;
            let uid = words.nth(5)?.parse().ok()?;
            let inode = words.nth(1)?.parse().ok()?;
            (inode != 0).then_some(Socket { uid, inode })
        }));
    }
    Ok(found)
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

    /// One port may lead to several other ends, and be left over from others before.
    #[test]
    fn every_socket_of_an_address_is_looked_at() {
        let other_ends = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let sockets = other_ends.each_ref().map(|other_end| {
            let socket =
                rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
            (socket.unwrap(), other_end.local_addr().unwrap())
        });
        let mut bound = None;
        for (socket, other_end) in &sockets {
            rustix::net::sockopt::set_socket_reuseaddr(socket, true).unwrap();
            rustix::net::bind(socket, &bound.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
            rustix::net::connect(socket, other_end).unwrap();
            bound = bound.or(SocketAddr::try_from(rustix::net::getsockname(socket).unwrap()).ok());
        }
        assert_eq!(sockets_at(bound.unwrap()).unwrap().len(), 2);
    }

    #[test]
    fn a_connection_of_our_own_is_found_and_one_that_is_not_there_is_not_trusted() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(host) else { continue };
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let peer = client.local_addr().unwrap();
            let own = rustix::process::geteuid().as_raw();
            let is_ours =
                |socket: &Socket| socket.uid == own && holds("self", &format!("socket:[{}]", socket.inode));
            assert!(sockets_at(peer).unwrap().iter().any(is_ours), "{host}");
        }
        assert!(is_workspace(SocketAddr::from(([127, 0, 0, 1], 1)), "deployment").unwrap());
    }
}
