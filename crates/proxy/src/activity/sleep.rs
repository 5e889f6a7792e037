//! When a workspace will sleep: one answer for the API, the pages and the IDE, so that all count down to the same
//! moment.

use codehub_domain::{
    Desired, Timestamp, Workspace,
    activity::ActivityMode,
    ttl::{self, Expiry, TtlPolicy},
};
use jiff::SignedDuration;

use super::{Activity, Relaxed};

impl Activity {
    /// What a TTL will do to this workspace, and when: the rule of the stores, over what is written down and what
    /// this process has seen since. Activity that only another replica has seen counts once it is written down,
    /// so the moment may still move to later, never to earlier, unless somebody changes TTL or leases.
    ///
    /// `None` while nothing would expire, and while an open connection keeps the workspace awake.
    pub fn expiry(&self, workspace: &Workspace, policy: &TtlPolicy) -> Option<Expiry> {
        let expiry = ttl::expiry(workspace, policy)?;
        if expiry.to != Desired::Standby {
            return Some(expiry);
        }
        let Some(cell) = self.peek(workspace.id) else { return Some(expiry) };
        let mode = workspace.activity_mode.unwrap_or(self.mode());
        if mode == ActivityMode::Connections && cell.open_sockets() > 0 {
            return None;
        }
        match self.at(cell.latest()) {
            Some(seen) if seen > workspace.last_access_at => {
                ttl::expiry(&Workspace { last_access_at: seen, ..workspace.clone() }, policy)
            }
            _ => Some(expiry),
        }
    }

    /// The database's clock, as far as is known without asking it.
    pub fn now(&self) -> Timestamp {
        self.at(super::millis(self.0.epoch)).unwrap_or_else(Timestamp::now)
    }

    /// A moment of a [`super::Cell`] by the database's clock.
    fn at(&self, millis: u64) -> Option<Timestamp> {
        if millis == 0 {
            return None;
        }
        let epoch = Timestamp::from_microsecond(self.0.epoch_at.load(Relaxed)).ok()?;
        epoch.checked_add(SignedDuration::from_millis(i64::try_from(millis).ok()?)).ok()
    }
}
