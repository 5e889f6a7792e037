//! What keeps local processes apart, for the log, `doctor` and the system page.

use super::{ProcessConfig, network::NetworkChoice, sandbox::Probed, shim::counts_by_workspace};
use crate::{Safeguard, SafeguardState, SandboxChoice};

/// As it was found when CodeHub started: it does not change while it runs.
pub(super) fn look(probed: &Probed, config: &ProcessConfig) -> Vec<Safeguard> {
    let mut all = vec![sandbox(probed, config)];
    if probed.sandbox.is_some() {
        all.push(network(probed, config));
    }
    all.push(limits(probed, config));
    all
}

/// Says at start what is not as it could be.
pub(super) fn log(probed: &Probed, config: &ProcessConfig) {
    for Safeguard { name, state, text } in look(probed, config) {
        match state {
            SafeguardState::Good => tracing::info!(safeguard = name, "{text}"),
            SafeguardState::Note | SafeguardState::Bad => tracing::warn!(safeguard = name, "{text}"),
        }
    }
}

fn sandbox(probed: &Probed, config: &ProcessConfig) -> Safeguard {
    let (state, text) = match &probed.without {
        None => (
            SafeguardState::Good,
            "bubblewrap: a workspace sees the system's programs, its own home and nothing else".to_owned(),
        ),
        Some(why) => {
            let next = match config.sandbox {
                SandboxChoice::Never => "PROCESS_SANDBOX=auto would shut them in",
                SandboxChoice::Auto | SandboxChoice::Always => {
                    "install bubblewrap and allow user namespaces, then restart"
                }
            };
            let users = if config.unsandboxed_users {
                "Several users may have workspaces all the same (PROCESS_UNSANDBOXED_USERS=many)"
            } else {
                "A second user is refused"
            };
            (
                SafeguardState::Note,
                format!(
                    "workspaces run without a sandbox and may do what CodeHub's user may ({why}): {next}. {users}"
                ),
            )
        }
    };
    Safeguard { name: "sandbox", state, text }
}

fn network(probed: &Probed, config: &ProcessConfig) -> Safeguard {
    let (state, text) = match &probed.shares_network {
        None => {
            let network = probed.sandbox.as_ref().and_then(|sandbox| sandbox.network());
            let port = network.and_then(|network| network.port);
            let ours = port.map_or_else(
                || {
                    "CodeHub's own address is not reached from inside (`codehub hold`): it would be, if \
                     CODEHUB_LISTEN were 127.0.0.1 or 0.0.0.0"
                        .to_owned()
                },
                |port| format!("CodeHub itself is at 127.0.0.1:{port} inside"),
            );
            let text = format!(
                "pasta: each workspace has a network of its own; this machine and private networks are not \
                 reached. {ours}"
            );
            (SafeguardState::Good, text)
        }
        Some(why) => {
            let next = match config.network {
                NetworkChoice::Host => "PROCESS_NETWORK=auto would give them their own",
                NetworkChoice::Auto | NetworkChoice::Own => {
                    "install passt and iproute2, open /dev/net/tun to CodeHub's user, then restart"
                }
            };
            let text = format!(
                "workspaces share this machine's network ({why}): they reach what listens on 127.0.0.1, private \
                 networks, and abstract sockets. To change that: {next}"
            );
            (SafeguardState::Note, text)
        }
    };
    Safeguard { name: "network", state, text }
}

fn limits(probed: &Probed, config: &ProcessConfig) -> Safeguard {
    let processes = match config.limits.processes {
        _ if probed.sandbox.is_none() => "nothing limits processes without a sandbox".to_owned(),
        0 => "nothing limits processes (RUNTIME_PIDS=0)".to_owned(),
        _ if rustix::process::geteuid().is_root() => {
            "nothing limits processes, because CodeHub runs as root: run it as a user of its own".to_owned()
        }
        _ if !counts_by_workspace() => "nothing limits processes before Linux 5.14".to_owned(),
        limit => format!("at most {limit} processes and threads a workspace"),
    };
    let text =
        format!("{processes}; nothing limits memory, CPU and disk of local processes (RUNTIME=docker does)");
    Safeguard { name: "limits", state: SafeguardState::Note, text }
}
