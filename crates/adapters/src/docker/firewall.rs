//! What cannot be reached from a workspace: this machine, private networks and the addresses at which
//! clouds hand out credentials. The internet can be.
//!
//! Docker itself has no such switch, so this takes packet rules on the engine's machine, tied to the
//! deployment's own bridge. They are put in place where CodeHub may (root, `iptables`, a local
//! engine); elsewhere `docs/SECURITY.md` has them to copy. Rules are only ever added: to a chain of
//! Docker's for what is forwarded, and to INPUT for the machine itself.

use tokio::process::Command;

use crate::runtime::{Result, RuntimeError};

/// Whether packet rules are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallChoice {
    /// Where it can be done; said in the log where not.
    Auto,
    /// Refuse to start workspaces without.
    Always,
    Never,
}

/// Not public: private use, carrier-grade NAT, link-local (metadata services), loopback.
const PRIVATE: &[&str] =
    &["10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];

/// Puts the rules in place; does nothing where they are.
pub(super) async fn apply(choice: FirewallChoice, bridge: &str, local: bool) -> Result<()> {
    if choice == FirewallChoice::Never {
        return Ok(());
    }
    let outcome = if local && rustix::process::geteuid().is_root() {
        add_all(bridge).await
    } else {
        Err("CodeHub is not root on the engine's machine".to_owned())
    };
    match (outcome, choice) {
        (Ok(()), _) => Ok(()),
        (Err(why), FirewallChoice::Always) => Err(RuntimeError::Failed(format!(
            "workspaces cannot be kept from private networks ({why}): see docs/SECURITY.md, or set \
             RUNTIME_FIREWALL=auto"
        ))),
        (Err(why), _) => {
            tracing::warn!(
                why,
                "workspaces can reach this machine and its private networks; docs/SECURITY.md says how to prevent it"
            );
            Ok(())
        }
    }
}

async fn add_all(bridge: &str) -> std::result::Result<(), String> {
    for rule in rules(bridge) {
        let with = |verb: &str| {
            let (chain, rest) = rule.split_first().map_or(("", &[][..]), |(chain, rest)| (*chain, rest));
            let mut words = vec!["-w".to_owned(), verb.to_owned(), chain.to_owned()];
            words.extend(rest.iter().map(|word| (*word).to_owned()));
            words
        };
        if iptables(&with("-C")).await.is_err() {
            iptables(&with("-I")).await?;
        }
    }
    Ok(())
}

/// Each is inserted at the top, so the last one is asked first.
fn rules(bridge: &str) -> Vec<Vec<&str>> {
    let mut rules = Vec::new();
    for network in PRIVATE {
        rules.push(vec!["DOCKER-USER", "-i", bridge, "-d", network, "-j", "DROP"]);
    }
    // Names are resolved by whatever the machine uses, which is often on a private address.
    for protocol in ["udp", "tcp"] {
        rules.push(vec!["DOCKER-USER", "-i", bridge, "-p", protocol, "--dport", "53", "-j", "RETURN"]);
    }
    let answers = ["-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j"];
    rules.push([&["DOCKER-USER", "-i", bridge][..], &answers[..], &["RETURN"]].concat());
    rules.push(vec!["INPUT", "-i", bridge, "-j", "DROP"]);
    rules.push([&["INPUT", "-i", bridge][..], &answers[..], &["ACCEPT"]].concat());
    rules
}

async fn iptables(words: &[String]) -> std::result::Result<(), String> {
    let output = Command::new("iptables").args(words).output().await;
    let output = output.map_err(|error| format!("iptables cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("iptables {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
