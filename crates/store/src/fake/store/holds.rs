//! Keep-awake leases, as the stores keep them.

use codehub_domain::{HoldId, Workspace, WorkspaceId, activity::Hold};

use super::{Step, workspaces::touch};
use crate::{Change, NewHold};

impl Step<'_> {
    pub(super) fn hold(&mut self, id: WorkspaceId, new: NewHold) -> Option<(Workspace, Hold)> {
        self.state.workspaces.get(&id).filter(|found| found.deleted_at.is_none())?;
        let now = self.now;
        let hold = new.begun(now);
        let holds = self.state.holds.entry(id).or_default();
        holds.retain(|known| known.until > now);
        holds.push(hold.clone());
        Some((self.holds_changed(id)?, hold))
    }

    pub(super) fn release(&mut self, id: WorkspaceId, hold: Option<HoldId>) -> Option<Workspace> {
        let now = self.now;
        let holds = self.state.holds.get_mut(&id)?;
        let before = holds.len();
        holds.retain(|known| known.until <= now || hold.is_some_and(|hold| hold != known.id));
        if holds.len() == before {
            return None;
        }
        self.holds_changed(id)
    }

    fn holds_changed(&mut self, id: WorkspaceId) -> Option<Workspace> {
        let until = self.state.holds.get(&id).and_then(|holds| holds.iter().map(|hold| hold.until).max());
        let found = self.state.workspaces.get_mut(&id)?;
        found.held_until = until;
        found.last_access_at = found.last_access_at.max(self.now);
        touch(found, self.now);
        let after = found.clone();
        self.tell(Change::Updated { workspace: id, owner: after.owner });
        Some(after)
    }

    pub(super) fn holds(&self, id: WorkspaceId) -> Vec<Hold> {
        let known = self.state.holds.get(&id).map(Vec::as_slice).unwrap_or_default();
        let mut running: Vec<Hold> = known.iter().filter(|hold| hold.until > self.now).cloned().collect();
        running.sort_by_key(|hold| (std::cmp::Reverse(hold.until), hold.id));
        running
    }
}
