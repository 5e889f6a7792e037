//! What cannot be reached from a workspace: this machine, private networks and the addresses at which
//! clouds hand out credentials. The internet can be.
//!
//! Docker itself has no such switch, so this takes packet rules on the engine's machine, tied to the
//! deployment's own bridge. They are put in place where CodeHub may (root, `iptables`, a local
//! engine); elsewhere `docs/SECURITY.md` has them to copy. Rules are only ever added: to a chain of
//! Docker's for what is forwarded, and to INPUT for the machine itself.

use std::{collections::HashSet, time::Duration};

use tokio::process::Command;

use crate::{Result, RuntimeError};

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

/// Others change rules, too, and hold the lock for moments only.
const LOCK_SECONDS: &str = "10";
const ANSWER: Duration = Duration::from_secs(15);

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
    let rules = rules(bridge);
    let listed = iptables(&["-S"]).await?;
    let there: HashSet<&str> = listed.lines().collect();
    if rules.iter().all(|(chain, rule)| there.contains(format!("-A {chain} {rule}").as_str())) {
        return Ok(());
    }
    // Their order matters, so a set with holes is made anew.
    for (chain, rule) in &rules {
        let with = |verb| -> Vec<&str> { [verb, *chain].into_iter().chain(rule.split(' ')).collect() };
        while iptables(&with("-D")).await.is_ok() {}
    }
    for (chain, rule) in &rules {
        let insert: Vec<&str> = ["-I", *chain].into_iter().chain(rule.split(' ')).collect();
        iptables(&insert).await?;
    }
    Ok(())
}

/// Chains and rules, as `iptables -S` writes them. Each is inserted at the top, so the last one is asked
/// first.
fn rules(bridge: &str) -> Vec<(&'static str, String)> {
    let mut rules = Vec::new();
    for network in PRIVATE {
        rules.push(("DOCKER-USER", format!("-d {network} -i {bridge} -j DROP")));
    }
    // Names are resolved by whatever the machine uses, which is often on a private address.
    for protocol in ["udp", "tcp"] {
        rules.push(("DOCKER-USER", format!("-i {bridge} -p {protocol} -m {protocol} --dport 53 -j RETURN")));
    }
    let answers = "-m conntrack --ctstate RELATED,ESTABLISHED";
    rules.push(("DOCKER-USER", format!("-i {bridge} {answers} -j RETURN")));
    rules.push(("INPUT", format!("-i {bridge} -j DROP")));
    rules.push(("INPUT", format!("-i {bridge} {answers} -j ACCEPT")));
    rules
}

async fn iptables(words: &[&str]) -> std::result::Result<String, String> {
    let command = || format!("iptables {}", words.join(" "));
    let running = Command::new("iptables").args(["-w", LOCK_SECONDS]).args(words).kill_on_drop(true).output();
    let output = tokio::time::timeout(ANSWER, running).await;
    let output = output.map_err(|_| format!("{} does not end", command()))?;
    let output = output.map_err(|error| format!("iptables cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{}: {}", command(), String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_names_are_let_through_before_private_networks_are_not() {
        let rules = rules("chub-0");
        let forwarded: Vec<&str> = rules
            .iter()
            .filter(|(chain, _)| *chain == "DOCKER-USER")
            .map(|(_, rule)| rule.as_str())
            .rev()
            .collect();
        let first_drop = forwarded.iter().position(|rule| rule.ends_with("DROP")).unwrap();
        assert!(forwarded[..first_drop].iter().all(|rule| rule.ends_with("RETURN")));
        assert_eq!(forwarded.len() - first_drop, PRIVATE.len());
        assert!(rules.iter().all(|(_, rule)| rule.contains("-i chub-0 ")), "of this network only");
    }
}
