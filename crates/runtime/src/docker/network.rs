//! The deployment's own network. Containers on it do not see each other.

use std::collections::HashMap;

use bollard::models::NetworkCreateRequest;

use super::{
    DockerConfig,
    engine::{Engine, LABEL_INSTANCE, found, is_status},
    firewall::{self, FirewallChoice},
};
use crate::{Result, RuntimeError};

/// The network workspaces are on, and the bridge it is on this machine.
pub(super) struct Network {
    pub(super) name: String,
    bridge: String,
}

impl Network {
    pub(super) fn of(config: &DockerConfig) -> Self {
        let short: String = config.deployment.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        let name = match config.network.as_str() {
            "" => format!("codehub-{}", config.deployment),
            given => given.to_owned(),
        };
        // Names of interfaces have at most 15 characters.
        Self { name, bridge: format!("chub-{short}") }
    }

    /// Makes it, where it is ours to make and not there.
    pub(super) async fn ensure(&self, engine: &Engine, config: &DockerConfig) -> Result<()> {
        let client = engine.client().await?;
        let there = found(client.inspect_network(&self.name, None).await);
        let there = there.map_err(engine.failed("look at the network"))?;
        if !config.network.is_empty() {
            return there.map(|_| ()).ok_or_else(|| {
                RuntimeError::Failed(format!("there is no network {}: change RUNTIME_NETWORK", self.name))
            });
        }
        if there.is_none() {
            let request = NetworkCreateRequest {
                name: self.name.clone(),
                driver: Some("bridge".to_owned()),
                options: Some(HashMap::from([
                    ("com.docker.network.bridge.enable_icc".to_owned(), "false".to_owned()),
                    ("com.docker.network.bridge.name".to_owned(), self.bridge.clone()),
                    ("com.docker.network.bridge.host_binding_ipv4".to_owned(), "127.0.0.1".to_owned()),
                ])),
                labels: Some(HashMap::from([(LABEL_INSTANCE.to_owned(), config.deployment.clone())])),
                ..NetworkCreateRequest::default()
            };
            match client.create_network(request).await {
                Ok(_) => tracing::info!(network = self.name, "made the workspaces' network"),
                // Somebody was quicker.
                Err(error) if is_status(&error, 409) => {}
                Err(error) => return Err(engine.failed("make the workspaces' network")(error)),
            }
        }
        Ok(())
    }

    /// Keeps what is on it from private networks, where it is ours and that can be done.
    pub(super) async fn shut_in(&self, engine: &Engine, config: &DockerConfig) -> Result<()> {
        if !config.network.is_empty() {
            return match config.firewall {
                FirewallChoice::Always => Err(RuntimeError::Failed(
                    "RUNTIME_FIREWALL=always: CodeHub makes no packet rules for a network it did not make; leave \
                     RUNTIME_NETWORK empty, or set RUNTIME_FIREWALL to never and make them yourself"
                        .into(),
                )),
                FirewallChoice::Auto | FirewallChoice::Never => Ok(()),
            };
        }
        firewall::apply(config.firewall, &self.bridge, engine.is_local()).await
    }
}
