//! What passes between workspaces and everything else: nobody on the network gets into a workspace, and from a
//! workspace neither this machine nor private networks nor the addresses at which clouds hand out credentials
//! can be reached. The internet can be.
//!
//! Docker itself has no such switch, so this takes packet rules on the engine's machine, tied to the
//! deployment's own bridge. They are in three chains of our own in the table `mangle`, which is asked before
//! whatever Docker, another program or a firewall's reload does in `filter`, and whether the engine uses iptables
//! or nftables. What a rule here lets through is still up to those. The proxy is on this machine, so its
//! connections to workspaces are not forwarded; of those from this machine only CodeHub's own user's pass (and
//! root's, whom nothing would stop).

use std::{collections::BTreeSet, net::Ipv4Addr};

use super::privileged;
use crate::forbidden::FORBIDDEN;

/// Whether packet rules are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallChoice {
    /// Where it can be done; said in the log where not.
    Auto,
    /// Refuse to start workspaces without.
    Always,
    /// No rules.
    Never,
}

const ANSWERS: &str = "-m conntrack --ctstate RELATED,ESTABLISHED";

/// The rules of one deployment.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    bridge: String,
    resolvers: Vec<Ipv4Addr>,
    /// Who of this machine may connect to workspaces.
    users: BTreeSet<u32>,
}

impl Rules {
    /// `resolvers`: what workspaces resolve names with; empty: what this machine does. `user`: CodeHub's.
    pub(super) fn new(bridge: &str, resolvers: &[Ipv4Addr], user: u32) -> Self {
        let resolvers = if resolvers.is_empty() { machines_resolvers() } else { resolvers.to_vec() };
        let users = BTreeSet::from([0, user]);
        Self { bridge: bridge.to_owned(), resolvers, users }
    }

    /// Puts them in place; does nothing where they are. Returns whether it did.
    ///
    /// # Errors
    /// Why they cannot be.
    pub(super) async fn ensure(&self) -> Result<bool, String> {
        let listed = iptables_list().await?;
        if self.are_in(&listed) {
            return Ok(false);
        }
        let words = ["-w", LOCK_SECONDS, "--noflush"];
        privileged::run("iptables-restore", &words, self.script(&listed)).await?;
        let listed = iptables_list().await?;
        if self.are_in(&listed) {
            Ok(true)
        } else {
            Err("iptables took the rules, but does not list them".into())
        }
    }

    /// Whether they are in place.
    ///
    /// # Errors
    /// That cannot be told.
    pub(super) async fn in_place(&self) -> Result<bool, String> {
        Ok(self.are_in(&iptables_list().await?))
    }

    fn chains(&self) -> [(&'static str, String, Vec<String>); 3] {
        let bridge = &self.bridge;
        let names = self.resolvers.iter().flat_map(|resolver| {
            ["udp", "tcp"]
                .map(|protocol| format!("-d {resolver}/32 -p {protocol} -m {protocol} --dport 53 -j RETURN"))
        });
        let others = format!("! -i {bridge} -j RETURN");
        let answers = format!("{ANSWERS} -j RETURN");
        let mut forward = vec![
            // A neighbour that routes the workspaces' network, or 127.0.0.1, by this machine; and other workspaces.
            format!("-o {bridge} -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP"),
            others.clone(),
            answers.clone(),
        ];
        forward.extend(names.clone());
        forward.extend(FORBIDDEN.iter().map(|network| format!("-d {network} -j DROP")));
        let mut input = vec![
            // Published ports are on 127.0.0.1, and an interface may be told to take that from outside.
            "-d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP".to_owned(),
            others,
            answers,
        ];
        input.extend(names);
        input.push("-j DROP".to_owned());
        let mut output = vec![format!("! -o {bridge} -j RETURN"), format!("{ANSWERS} -j RETURN")];
        output.extend(self.users.iter().map(|user| format!("-m owner --uid-owner {user} -j RETURN")));
        output.push("-j DROP".to_owned());
        [
            ("FORWARD", format!("{bridge}-forward"), forward),
            ("INPUT", format!("{bridge}-input"), input),
            ("OUTPUT", format!("{bridge}-output"), output),
        ]
    }

    /// Whether this listing (`iptables -S`) has exactly our chains, and asks them before anything lets through.
    fn are_in(&self, listed: &str) -> bool {
        self.chains().iter().all(|(hook, chain, rules)| {
            let ours: Vec<&str> =
                listed.lines().filter_map(|line| line.strip_prefix(&format!("-A {chain} "))).collect();
            ours == *rules && Asked::of(listed, hook, chain) == Asked::First
        })
    }

    /// What `iptables-restore` makes them with, at once or not at all.
    fn script(&self, listed: &str) -> String {
        let mut lines = vec!["*mangle".to_owned()];
        let chains = self.chains();
        lines.extend(chains.iter().map(|(_, chain, _)| format!(":{chain} - [0:0]")));
        for (hook, chain, rules) in &chains {
            lines.extend(rules.iter().map(|rule| format!("-A {chain} {rule}")));
            let asked = Asked::of(listed, hook, chain);
            if asked == Asked::Late {
                lines.push(format!("-D {hook} -j {chain}"));
            }
            if asked != Asked::First {
                lines.push(format!("-I {hook} -j {chain}"));
            }
        }
        lines.push("COMMIT\n".to_owned());
        lines.join("\n")
    }
}

/// When a chain of ours is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    First,
    /// After a rule that lets packets through.
    Late,
    Never,
}

impl Asked {
    fn of(listed: &str, hook: &str, chain: &str) -> Self {
        let (begin, jump) = (format!("-A {hook} "), format!("-A {hook} -j {chain}"));
        let mut let_through = false;
        for line in listed.lines().filter(|line| line.starts_with(&begin)) {
            if line == jump {
                return if let_through { Self::Late } else { Self::First };
            }
            let_through |= line.ends_with("-j ACCEPT");
        }
        Self::Never
    }
}

/// Others change rules, too, and hold the lock for moments only.
const LOCK_SECONDS: &str = "10";

async fn iptables_list() -> Result<String, String> {
    privileged::run("iptables", &["-w", LOCK_SECONDS, "-t", "mangle", "-S"], String::new()).await
}

/// What the engine gives to containers when nobody says otherwise. Those on this machine's loopback are asked
/// by the engine itself.
fn machines_resolvers() -> Vec<Ipv4Addr> {
    let read = |path: &str| resolvers_in(&std::fs::read_to_string(path).unwrap_or_default());
    let mut resolvers = read("/etc/resolv.conf");
    if resolvers.iter().all(Ipv4Addr::is_loopback) {
        resolvers.extend(read("/run/systemd/resolve/resolv.conf"));
    }
    resolvers.retain(|resolver| !resolver.is_loopback());
    resolvers.dedup();
    resolvers
}

fn resolvers_in(text: &str) -> Vec<Ipv4Addr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok()).flatten()
    };
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules::new("chub-0", &[Ipv4Addr::new(10, 0, 0, 53)], 998)
    }

    /// As iptables lists what it was given.
    fn listing(rules: &Rules) -> String {
        let script = rules.script("");
        let added = script.lines().filter(|line| line.starts_with("-A ")).map(str::to_owned);
        let jumps =
            script.lines().filter_map(|line| line.strip_prefix("-I ").map(|rest| format!("-A {rest}")));
        jumps.chain(added).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn nobody_gets_in_and_answers_and_names_come_before_what_is_forbidden() {
        let [(_, _, forward), (_, _, input), (_, _, output)] = rules().chains();
        assert_eq!(forward[0], "-o chub-0 -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP");
        assert_eq!(forward[1], "! -i chub-0 -j RETURN", "of this network only");
        let first = forward.iter().position(|rule| rule.starts_with("-d 10.0.0.0/8")).unwrap();
        assert!(forward[2..first].iter().all(|rule| rule.ends_with("RETURN")), "{forward:?}");
        assert_eq!(forward.len() - first, FORBIDDEN.len());
        assert!(forward.iter().any(|rule| rule == "-d 168.63.129.16/32 -j DROP"));
        assert_eq!(input.last().unwrap(), "-j DROP", "this machine");
        assert_eq!(
            output,
            [
                "! -o chub-0 -j RETURN",
                "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
                "-m owner --uid-owner 0 -j RETURN",
                "-m owner --uid-owner 998 -j RETURN",
                "-j DROP"
            ],
            "of this machine's users only CodeHub's"
        );
        for rule in forward.iter().chain(&input).filter(|rule| rule.contains("--dport 53")) {
            assert!(rule.starts_with("-d 10.0.0.53/32 "), "to the resolver and nowhere else: {rule}");
        }
    }

    #[test]
    fn rules_that_are_incomplete_changed_or_asked_too_late_are_not_in_place() {
        let rules = rules();
        let whole = listing(&rules);
        assert!(rules.are_in(&whole));
        for line in whole.lines() {
            let without: Vec<&str> = whole.lines().filter(|other| *other != line).collect();
            assert!(!rules.are_in(&without.join("\n")), "without {line}");
        }
        let late = format!("-A FORWARD -i eth0 -j ACCEPT\n{whole}");
        assert!(!rules.are_in(&late));
        assert!(rules.script(&late).contains("-D FORWARD -j chub-0-forward\n-I FORWARD -j chub-0-forward"));
        let other = format!("-A FORWARD -j chub-1-forward\n{whole}");
        assert!(rules.are_in(&other), "another deployment's");
        assert!(!rules.script(&whole).contains("-I "), "asked once");
    }

    #[test]
    fn resolvers_are_read_as_the_resolver_reads_them() {
        let text =
            "# nameserver 1.1.1.1\nnameserver 10.0.0.2\n nameserver\t127.0.0.53 \nnameserver ::1\nsearch x\n";
        assert_eq!(resolvers_in(text), [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 53)]);
    }
}
