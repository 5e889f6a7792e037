//! What keeps workspaces apart, as an operator sees it: for `doctor`, the system page and the log.

use std::time::{Duration, Instant};

use super::{
    DockerConfig, Reach,
    engine::Engine,
    firewall::FirewallChoice,
    network::{Network, Repair, ShutIn},
};
use crate::{Safeguard, SafeguardState};

/// From this one on the engine keeps machines on the network from published ports by itself.
const CLOSED_SINCE: u32 = 28;

/// The rules are looked at no more often, however often surveys come.
const AT_MOST_EVERY: Duration = Duration::from_secs(2);

/// An engine that hangs must not hold up whoever looks at the system page.
const PATIENCE: Duration = Duration::from_secs(5);

/// As it is now. Changes nothing.
pub(super) async fn look(engine: &Engine, network: &Network, config: &DockerConfig) -> Vec<Safeguard> {
    let looking = tokio::time::timeout(PATIENCE, look_at(engine, network, config));
    looking.await.unwrap_or_default()
}

async fn look_at(engine: &Engine, network: &Network, config: &DockerConfig) -> Vec<Safeguard> {
    // An engine that does not answer is told by its ping.
    let Ok(shut_in) = network.look(engine, config, Repair::No).await else { return Vec::new() };
    let mut all = Vec::new();
    all.extend(version(engine).await.map(|version| of_engine(&version, &shut_in)));
    all.push(of_reach(config, &shut_in));
    all.push(of_firewall(shut_in, config.firewall));
    all
}

/// Of a Docker engine; others count otherwise.
async fn version(engine: &Engine) -> Option<String> {
    let version = engine.client().await.ok()?.version().await.ok()?;
    let components = version.components.unwrap_or_default();
    let docker = components.is_empty() || components.iter().any(|component| component.name == "Engine");
    docker.then_some(version.version).flatten()
}

fn of_engine(version: &str, shut_in: &ShutIn) -> Safeguard {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let (state, text) = match major {
        Some(major) if major < CLOSED_SINCE => {
            let old = format!(
                "Docker {version} lets machines on this machine's network into published ports, as every engine \
                 before {CLOSED_SINCE} does"
            );
            match shut_in {
                ShutIn::No(_) => (
                    SafeguardState::Bad,
                    format!("{old}, and no packet rules of CodeHub's prevent it: update it"),
                ),
                _ => (
                    SafeguardState::Note,
                    format!("{old}; CodeHub's packet rules prevent it for workspaces: update it"),
                ),
            }
        }
        _ => (SafeguardState::Good, format!("Docker {version}")),
    };
    Safeguard { name: "engine", state, text }
}

/// Who else gets to the program of a workspace, of which all depends: it is a shell.
fn of_reach(config: &DockerConfig, shut_in: &ShutIn) -> Safeguard {
    let closed = !matches!(shut_in, ShutIn::No(_));
    let (state, text) = match config.reach {
        Reach::Socket => {
            (SafeguardState::Good, "workspaces listen on sockets that only CodeHub's user gets to".to_owned())
        }
        Reach::Address | Reach::Port if config.ide.guard.is_some() => (
            SafeguardState::Good,
            "workspaces listen on ports and ask for a secret that only CodeHub sends".to_owned(),
        ),
        Reach::Address if closed => (
            SafeguardState::Good,
            "workspaces listen on ports, and packet rules let only CodeHub's user of this machine connect".to_owned(),
        ),
        Reach::Address | Reach::Port => (
            SafeguardState::Note,
            "workspaces listen on ports and ask for no secret: whoever gets to their address, as every user of the \
             engine's machine does, gets in. Give the program a socket ({socket} in IDE_COMMAND, RUNTIME_REACH=socket)"
                .to_owned(),
        ),
    };
    Safeguard { name: "reach", state, text }
}

fn of_firewall(shut_in: ShutIn, choice: FirewallChoice) -> Safeguard {
    let (state, text) = match (shut_in, choice) {
        (ShutIn::Yes | ShutIn::Again, _) => {
            (SafeguardState::Good, "the packet rules that shut workspaces in are in place".to_owned())
        }
        (ShutIn::NotYet, _) => (
            SafeguardState::Good,
            "the first workspace's start makes the network and its packet rules".to_owned(),
        ),
        (ShutIn::No(why), FirewallChoice::Always) => {
            (SafeguardState::Bad, format!("workspaces are not isolated, and none will start: {why}"))
        }
        (ShutIn::No(why), FirewallChoice::Auto | FirewallChoice::Never) => {
            (SafeguardState::Note, format!("workspaces are not isolated: {why}"))
        }
    };
    Safeguard { name: "firewall", state, text }
}

/// Looks after the rules while workspaces run.
#[derive(Default)]
pub(super) struct Watch {
    looked: Option<Instant>,
    problem: Option<String>,
}

impl Watch {
    pub(super) fn is_due(&self) -> bool {
        self.looked.is_none_or(|at| at.elapsed() >= AT_MOST_EVERY)
    }

    /// Puts back what somebody removed, and says what cannot be; each thing once.
    pub(super) async fn keep(&mut self, engine: &Engine, network: &Network, config: &DockerConfig) {
        let seen = network.look(engine, config, Repair::Yes).await;
        self.looked = Some(Instant::now());
        let Ok(seen) = seen else { return };
        let closed = !matches!(seen, ShutIn::No(_));
        metrics::gauge!(crate::metric::DOCKER_SHUT_IN).set(if closed { 1.0 } else { 0.0 });
        match seen {
            ShutIn::Again => {
                tracing::warn!("the packet rules that shut workspaces in were gone; they are in place again");
                self.problem = None;
            }
            ShutIn::No(why) => {
                if self.problem.as_ref() != Some(&why) && config.firewall != FirewallChoice::Never {
                    tracing::error!(why, "running workspaces are not isolated");
                }
                self.problem = Some(why);
            }
            ShutIn::Yes | ShutIn::NotYet => self.problem = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_engine_is_told_and_without_rules_to_be_fixed() {
        let no = ShutIn::No("why".into());
        for (version, shut_in, wanted) in [
            ("20.10.24+dfsg1", &ShutIn::Yes, SafeguardState::Note),
            ("27.5.1", &no, SafeguardState::Bad),
            ("28.0.0", &no, SafeguardState::Good),
            ("dev", &no, SafeguardState::Good),
        ] {
            let safeguard = of_engine(version, shut_in);
            assert_eq!(safeguard.state, wanted, "{safeguard:?}");
            assert!(safeguard.text.contains(version), "{safeguard:?}");
        }
    }

    #[test]
    fn what_is_insisted_on_and_missing_is_to_be_fixed() {
        let no = || ShutIn::No("iptables is not installed".into());
        assert_eq!(of_firewall(no(), FirewallChoice::Always).state, SafeguardState::Bad);
        assert_eq!(of_firewall(no(), FirewallChoice::Auto).state, SafeguardState::Note);
        assert_eq!(of_firewall(ShutIn::NotYet, FirewallChoice::Always).state, SafeguardState::Good);
        assert!(of_firewall(no(), FirewallChoice::Always).text.contains("iptables is not installed"));
    }
}
