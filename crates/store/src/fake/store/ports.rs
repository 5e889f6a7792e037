//! What owners said about ports, as the stores keep it.

use codehub_domain::{
    WorkspaceId,
    audit::Act,
    ports::{MOST_PORTS, PortSettings},
};

use super::Step;
use crate::{Change, PortSaved, trail};

impl Step<'_> {
    pub(super) fn ports(&self, id: WorkspaceId) -> Vec<PortSettings> {
        self.state.ports.get(&id).map(|ports| ports.values().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn port_put(&mut self, by: &Act, id: WorkspaceId, settings: &PortSettings) -> PortSaved {
        let living = self.state.workspaces.get(&id).filter(|found| found.deleted_at.is_none());
        let Some(workspace) = living.cloned() else { return PortSaved::NotFound };
        let known = self.ports(id);
        let before = PortSettings::among(&known, settings.port);
        if before == *settings {
            return PortSaved::Saved;
        }
        let ports = self.state.ports.entry(id).or_default();
        if *settings == PortSettings::of(settings.port) {
            ports.remove(&settings.port);
        } else if !ports.contains_key(&settings.port) && ports.len() >= MOST_PORTS {
            return PortSaved::TooMany;
        } else {
            ports.insert(settings.port, settings.clone());
        }
        self.tell(Change::Updated { workspace: id, owner: workspace.owner });
        self.audit(by, &trail::port_edited(&workspace, &before, settings));
        PortSaved::Saved
    }
}
