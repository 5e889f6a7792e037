//! `GET /ports`: which TCP ports this workspace listens on, and what does.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::Context;
use super::protocol::ListeningPort;
use crate::error::{Result, blocking};
use crate::process_table;

/// More are not told.
const MOST: usize = 256;
const LISTEN: &str = "0A";
/// Where a port is looked for, the first first.
pub(super) const LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

pub(super) async fn list(State(context): State<Arc<Context>>) -> Result<Json<Vec<ListeningPort>>> {
    let everybodys = !context.shares_network;
    blocking(move || Ok(Json(if everybodys { everywhere() } else { ours() }))).await
}

/// Those that processes of this workspace hold.
fn ours() -> Vec<ListeningPort> {
    listed(&holders(), false)
}

/// The loopback addresses at which a connection to this port surely reaches a process of this workspace: the kernel hands it
/// to whoever listens on that very address, and only otherwise to whoever listens on all.
pub(super) fn our_loopbacks(port: u16) -> Vec<IpAddr> {
    let holders = holders();
    let sockets: Vec<Socket> = sockets().into_iter().filter(|socket| socket.port == port).collect();
    let ours = |address: &IpAddr| {
        let everywhere = |it: &Socket| match it.address {
            IpAddr::V4(it) => it.is_unspecified() && address.is_ipv4(),
            IpAddr::V6(it) => it.is_unspecified(),
        };
        let exactly: Vec<&Socket> = sockets.iter().filter(|it| it.address == *address).collect();
        let reached =
            if exactly.is_empty() { sockets.iter().filter(|it| everywhere(it)).collect() } else { exactly };
        !reached.is_empty() && reached.iter().all(|it| holders.contains_key(&it.inode))
    };
    LOOPBACKS.into_iter().filter(ours).collect()
}

fn everywhere() -> Vec<ListeningPort> {
    listed(&holders(), true)
}

/// Which process holds which socket.
fn holders() -> HashMap<u64, String> {
    let mut found = HashMap::new();
    for process in process_table::ours() {
        let Ok(open) = fs::read_dir(process.open_files()) else { continue };
        let sockets: Vec<u64> =
            open.flatten().filter_map(|entry| inode(&fs::read_link(entry.path()).ok()?)).collect();
        if !sockets.is_empty() {
            let name = process.name();
            found.extend(sockets.into_iter().map(|socket| (socket, name.clone())));
        }
    }
    found
}

fn inode(link: &std::path::Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// With `unheld`, also those of which no holder is known: they are this workspace's where nobody else is in its network.
fn listed(holders: &HashMap<u64, String>, unheld: bool) -> Vec<ListeningPort> {
    let mut found: BTreeMap<u16, ListeningPort> = BTreeMap::new();
    for socket in sockets() {
        let holder = holders.get(&socket.inode);
        if holder.is_none() && !unheld {
            continue;
        }
        let known = found.entry(socket.port).or_insert_with(|| ListeningPort {
            port: socket.port,
            process: String::new(),
            loopback_only: true,
        });
        known.loopback_only &= socket.address.is_loopback();
        if let (true, Some(holder)) = (known.process.is_empty(), holder) {
            known.process.clone_from(holder);
        }
    }
    found.into_values().take(MOST).collect()
}

/// All that listen in this network.
fn sockets() -> Vec<Socket> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(Socket::parse).collect()
}

/// A socket that listens.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

impl Socket {
    /// A line of the kernel's table; `None` for one that does not listen.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if *fields.get(3)? != LISTEN {
            return None;
        }
        let (address, port) = fields.get(1)?.split_once(':')?;
        Some(Self {
            address: parse_address(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
            inode: fields.get(9)?.parse().ok()?,
        })
    }
}

/// Words of four bytes, each in the order of this machine.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at * 8)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0";
        let socket = Socket::parse(line).unwrap();
        assert_eq!(socket, Socket { address: Ipv4Addr::LOCALHOST.into(), port: 8080, inode: 4711 });
        assert_eq!(Socket::parse(&line.replace(" 0A ", " 01 ")), None, "a connection");
        let six = line.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(Socket::parse(&six).unwrap().address, IpAddr::from(Ipv6Addr::LOCALHOST));
        for wrong in ["", "x", "0: 0100007F 0 0A", "0: zz:1F90 0:0 0A 0 0 0 0 0 1"] {
            assert_eq!(Socket::parse(wrong), None, "{wrong}");
        }
    }
}
