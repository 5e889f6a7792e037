//! Workspaces as containers of a Docker engine, their homes as its volumes.
//!
//! | file | |
//! |---|---|
//! | `engine` | the connection, what errors mean, whose things are whose |
//! | `instances`, `body` | the runtime port; what a workspace's container may and may not |
//! | `sockets` | the directories in which containers listen |
//! | `network`, `isolation`, `firewall` | a network of the deployment's own, and what passes between it and the rest |
//! | `safeguards` | whether all that is so, for an operator |
//! | `privileged` | running the programs that change this machine's network |
//! | `users` | whom workspaces run as |
//! | `volumes` | the volumes port |
//! | `jobs`, `job_main` | short-lived helper containers that read and write volumes |
//! | `transfer` | the home transfer port: a helper's stream joined to the archive engine |
//! | `write_default_files` | the settings a home starts with |
//! | `image` | pulling images, and building our own without any registry |
//! | `events` | the engine's events, as wake-ups only |
//!
//! Whatever is ours carries `codehub.instance` with the deployment's id; nothing without it is listed,
//! stopped or removed. Names say what a thing is, so that a retry finds what an earlier try made.

mod body;
mod engine;
mod events;
mod firewall;
mod image;
mod instances;
mod isolation;
pub mod job_main;
mod jobs;
mod network;
mod privileged;
mod safeguards;
mod sockets;
mod transfer;
mod users;
mod volumes;
mod write_default_files;

pub use engine::Engine;
pub use firewall::FirewallChoice;
pub use image::{BuildImage, build_image, own_image};
pub use instances::DockerRuntime;
pub use jobs::Jobs;
pub use privileged::keep_capabilities_to_ourselves;
pub use transfer::DockerTransfer;
pub use users::{IMAGE_UID, Users};
pub use volumes::DockerVolumes;

use std::{net::Ipv4Addr, path::PathBuf, time::Duration};

use crate::ide::ResolvedIde;

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPolicy {
    /// When the engine does not have it.
    Missing,
    /// Before every start.
    Always,
    /// Only images that are on the engine already.
    Never,
}

/// How the proxy gets to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A Unix socket in a directory of CodeHub's that is mounted: for an engine on the same machine.
    Socket,
    /// The container's own address: for a CodeHub on the engine's machine or on the same network.
    Address,
    /// A port of 127.0.0.1 that the engine chooses: for an engine in a virtual machine of this one.
    Port,
}

impl Reach {
    /// What is used where nothing is said: a socket where engine and program can, otherwise the address.
    ///
    /// # Errors
    /// The choice does not go together with what the program can.
    pub fn resolve(choice: Option<Self>, engine: &Engine, ide: &ResolvedIde) -> Result<Self, String> {
        match choice {
            None if engine.is_local() && ide.can_use_socket() => Ok(Self::Socket),
            Some(Self::Socket) if !ide.can_use_socket() => Err(
                "RUNTIME_REACH=socket: nobody has told the image's program to listen on a socket; set IDE, or \
                 IDE_COMMAND with {socket}, or RUNTIME_REACH=address"
                    .to_owned(),
            ),
            Some(Self::Socket) => Ok(Self::Socket),
            _ if !ide.can_use_port() => Err(
                "IDE_COMMAND listens on {socket}, which needs RUNTIME_REACH=socket and an engine on this machine; \
                 use {port} instead"
                    .to_owned(),
            ),
            other => Ok(other.unwrap_or(Self::Address)),
        }
    }
}

/// What every workspace's container is like.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    /// Names this deployment: only what is labelled with it is ours.
    pub deployment: String,
    pub ide: ResolvedIde,
    pub port: u16,
    /// Where the home is mounted.
    pub home: String,
    pub users: Users,
    /// Bytes; 0: no limit.
    pub memory: u64,
    /// Thousandths of a CPU; 0: no limit.
    pub milli_cpus: u64,
    /// 0: no limit.
    pub pids: u64,
    pub read_only: bool,
    pub pull: PullPolicy,
    pub reach: Reach,
    /// CodeHub's own directory, in which the directories of sockets are made.
    pub data_dir: PathBuf,
    /// An existing network to use; empty: one of our own.
    pub network: String,
    pub firewall: FirewallChoice,
    /// What names are resolved with; empty: what the engine's machine does.
    pub dns: Vec<Ipv4Addr>,
    pub stop_grace: Duration,
    pub health_timeout: Duration,
}

#[cfg(test)]
mod tests;
