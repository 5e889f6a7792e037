//! The deployment's own network. Containers on it do not see each other, nobody from outside gets to them, and
//! they do not get to what is private: all three hang on state of the engine's machine that others change,
//! too, so it is looked at before every start and at every survey, and put right where that can be done.

use std::{collections::HashMap, os::unix::fs::MetadataExt as _, path::Path};

use bollard::models::{NetworkCreateRequest, NetworkInspect};

use super::{
    DockerConfig,
    engine::{Engine, LABEL_INSTANCE, found, is_status},
    firewall::{FirewallChoice, Rules},
    isolation,
};
use crate::{Result, RuntimeError};

/// The network workspaces are on, and the bridge it is on this machine.
pub(super) struct Network {
    pub(super) name: String,
    bridge: String,
    rules: Rules,
}

/// How well what is on the network is shut in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShutIn {
    Yes,
    /// It was not until now.
    Again,
    /// There is no network yet; it can be.
    NotYet,
    /// Why not.
    No(String),
}

/// Whether what is amiss is put right, or only told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    Yes,
    No,
}

impl Network {
    pub(super) fn of(config: &DockerConfig) -> Self {
        let short: String = config.deployment.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        let name = match config.network.as_str() {
            "" => format!("codehub-{}", config.deployment),
            given => given.to_owned(),
        };
        // Names of interfaces have at most 15 characters.
        let bridge = format!("chub-{short}");
        let rules = Rules::new(&bridge, &config.dns, codehubs_user(&config.data_dir));
        Self { name, bridge, rules }
    }

    fn options(&self) -> HashMap<String, String> {
        let option =
            |name: &str, value: &str| (format!("com.docker.network.bridge.{name}"), value.to_owned());
        HashMap::from([
            option("enable_icc", "false"),
            option("name", &self.bridge),
            option("host_binding_ipv4", "127.0.0.1"),
        ])
    }

    async fn inspect(&self, engine: &Engine) -> Result<Option<NetworkInspect>> {
        let there = found(engine.client().await?.inspect_network(&self.name, None).await);
        there.map_err(engine.failed("look at the network"))
    }

    /// Makes it, where it is ours to make and not there.
    ///
    /// # Errors
    /// There is one by that name that is not as we make it: workspaces on it would not be apart.
    pub(super) async fn ensure(&self, engine: &Engine, config: &DockerConfig) -> Result<()> {
        let there = self.inspect(engine).await?;
        if !config.network.is_empty() {
            return there.map(|_| ()).ok_or_else(|| {
                RuntimeError::Failed(format!("there is no network {}: change RUNTIME_NETWORK", self.name))
            });
        }
        if let Some(there) = there {
            return self
                .amiss(&there, &config.deployment)
                .map_or(Ok(()), |why| Err(RuntimeError::Failed(why)));
        }
        let request = NetworkCreateRequest {
            name: self.name.clone(),
            driver: Some("bridge".to_owned()),
            enable_ipv6: Some(false),
            options: Some(self.options()),
            labels: Some(HashMap::from([(LABEL_INSTANCE.to_owned(), config.deployment.clone())])),
            ..NetworkCreateRequest::default()
        };
        match engine.client().await?.create_network(request).await {
            Ok(_) => tracing::info!(network = self.name, "made the workspaces' network"),
            // Somebody was quicker.
            Err(error) if is_status(&error, 409) => {}
            Err(error) => return Err(engine.failed("make the workspaces' network")(error)),
        }
        Ok(())
    }

    /// What about a network of this name is not as we make it.
    fn amiss(&self, there: &NetworkInspect, deployment: &str) -> Option<String> {
        let options = there.options.clone().unwrap_or_default();
        let differs = self.options().into_iter().find(|(name, value)| options.get(name) != Some(value));
        let opened =
            options.keys().find(|name| name.contains("gateway_mode") || name.contains("trusted_host"));
        let label = there.labels.as_ref().and_then(|labels| labels.get(LABEL_INSTANCE));
        let what = if label.is_none_or(|label| label != deployment) {
            format!("it does not carry the label {LABEL_INSTANCE}={deployment}")
        } else if there.driver.as_deref() != Some("bridge") {
            format!("its driver is {:?}", there.driver.as_deref().unwrap_or_default())
        } else if there.enable_ipv6 == Some(true) {
            "it has IPv6, which the packet rules do not cover".to_owned()
        } else if let Some((name, value)) = differs {
            format!("its option {name} is not {value}")
        } else {
            format!("it has the option {}", opened?)
        };
        Some(format!(
            "the network {} is not as CodeHub makes it ({what}): remove it with `docker network rm`, and the next \
             start of a workspace makes it anew",
            self.name
        ))
    }

    /// Shuts in what is on it before something starts there.
    ///
    /// # Errors
    /// That cannot be done, and the choice insists on it.
    pub(super) async fn shut_in(&self, engine: &Engine, config: &DockerConfig) -> Result<()> {
        let why = match self.look(engine, config, Repair::Yes).await? {
            ShutIn::Yes | ShutIn::Again => return Ok(()),
            ShutIn::NotYet => format!("the network {} is gone again", self.name),
            ShutIn::No(why) => why,
        };
        match config.firewall {
            FirewallChoice::Never => Ok(()),
            FirewallChoice::Auto => {
                tracing::warn!(
                    why,
                    "workspaces can reach this machine and its private networks, and machines on its network can \
                     reach them; docs/SECURITY.md says how to prevent it"
                );
                Ok(())
            }
            FirewallChoice::Always => Err(RuntimeError::Failed(format!(
                "workspaces cannot be isolated ({why}); see docs/SECURITY.md, or set RUNTIME_FIREWALL to auto or never \
                 to start them all the same"
            ))),
        }
    }

    /// How well what is on it is shut in, by what is seen now.
    ///
    /// # Errors
    /// The engine does not answer.
    pub(super) async fn look(
        &self,
        engine: &Engine,
        config: &DockerConfig,
        repair: Repair,
    ) -> Result<ShutIn> {
        if config.firewall == FirewallChoice::Never {
            return Ok(ShutIn::No("RUNTIME_FIREWALL=never: CodeHub makes no packet rules".to_owned()));
        }
        if !config.network.is_empty() {
            let why = format!("CodeHub makes no packet rules for {}, which it did not make", self.name);
            return Ok(ShutIn::No(format!("{why}: leave RUNTIME_NETWORK empty")));
        }
        let Some(there) = self.inspect(engine).await? else {
            // Whether they could be made.
            return Ok(self.rules.in_place().await.map_or_else(ShutIn::No, |_| ShutIn::NotYet));
        };
        if let Some(why) = self.amiss(&there, &config.deployment) {
            return Ok(ShutIn::No(why));
        }
        Ok(self.on_this_machine(repair).await.unwrap_or_else(ShutIn::No))
    }

    async fn on_this_machine(&self, repair: Repair) -> std::result::Result<ShutIn, String> {
        isolation::is_here(&self.bridge)?;
        let repaired = match (repair, isolation::passes_rules(&self.bridge)) {
            (_, Ok(())) => false,
            (Repair::No, Err(why)) => return Err(why),
            (Repair::Yes, Err(_)) => {
                isolation::pass_rules(&self.bridge).await?;
                true
            }
        };
        let added = match repair {
            Repair::Yes => self.rules.ensure().await?,
            Repair::No if self.rules.in_place().await? => false,
            Repair::No => {
                return Err(format!(
                    "the packet rules of {} are not in place: CodeHub puts them there when a workspace starts, and at \
                     every survey",
                    self.bridge
                ));
            }
        };
        Ok(if repaired || added { ShutIn::Again } else { ShutIn::Yes })
    }
}

/// Who runs CodeHub: whoever owns its data, also where somebody else looks (as with `doctor`).
fn codehubs_user(data_dir: &Path) -> u32 {
    data_dir.metadata().map_or_else(|_| rustix::process::geteuid().as_raw(), |data| data.uid())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_network_that_does_not_keep_workspaces_apart_is_not_taken_for_ours() {
        let network = Network {
            name: "n".into(),
            bridge: "chub-0".into(),
            rules: Rules::new("chub-0", &[Ipv4Addr::BROADCAST], 0),
        };
        let ours = NetworkInspect {
            driver: Some("bridge".into()),
            enable_ipv6: Some(false),
            options: Some(network.options()),
            labels: Some(HashMap::from([(LABEL_INSTANCE.to_owned(), "me".to_owned())])),
            ..NetworkInspect::default()
        };
        assert_eq!(network.amiss(&ours, "me"), None);
        let option = |name: &str, value: &str| {
            let mut options = network.options();
            options.insert(format!("com.docker.network.bridge.{name}"), value.into());
            NetworkInspect { options: Some(options), ..ours.clone() }
        };
        for (what, other) in [
            ("label", NetworkInspect { labels: None, ..ours.clone() }),
            ("driver", NetworkInspect { driver: Some("macvlan".into()), ..ours.clone() }),
            ("IPv6", NetworkInspect { enable_ipv6: Some(true), ..ours.clone() }),
            ("enable_icc", option("enable_icc", "true")),
            ("bridge.name", option("name", "docker0")),
            ("enable_icc", NetworkInspect { options: None, ..ours.clone() }),
            ("gateway_mode", option("gateway_mode_ipv4", "nat-unprotected")),
        ] {
            let why = network.amiss(&other, "me").unwrap();
            assert!(why.contains(what) || what == "enable_icc" && why.contains("option"), "{what}: {why}");
        }
        assert!(network.amiss(&ours, "another").is_some());
    }
}
