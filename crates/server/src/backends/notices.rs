//! What a backend notices by itself, told to the controller. A notice that is lost costs time, never
//! correctness.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use codehub_domain::WorkspaceId;
use codehub_runtime::Notice;
use codehub_store::bus::{Bus, BusError};
use tokio::{sync::mpsc, time::Instant};

/// A workspace is looked at for its backend's sake at most this often, however much happens there.
const APART: Duration = Duration::from_secs(1);

/// Passes on notices until nobody sends any more. Those about one workspace that come close together become
/// one, which comes after the last of them.
pub(super) async fn pass_on(mut notices: mpsc::Receiver<Notice>, bus: Arc<dyn Bus>) {
    let mut looks = Looks::default();
    loop {
        let due = looks.next();
        let told = tokio::select! {
            notice = notices.recv() => match notice {
                Some(Notice::Changed(workspace)) => match looks.noticed(workspace, Instant::now()) {
                    Some(workspace) => bus.look(workspace).await,
                    None => Ok(()),
                },
                Some(Notice::Wake) => bus.wake().await,
                None => return,
            },
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                tell_all(&*bus, looks.due(Instant::now())).await
            }
        };
        if let Err(error) = told {
            tracing::debug!(%error, "what a backend noticed was heard by nobody");
        }
    }
}

async fn tell_all(bus: &dyn Bus, workspaces: Vec<WorkspaceId>) -> Result<(), BusError> {
    for workspace in workspaces {
        bus.look(workspace).await?;
    }
    Ok(())
}

/// The workspaces told of within the last [`APART`], and whether something happened there since.
#[derive(Debug, Default)]
struct Looks(BTreeMap<WorkspaceId, (Instant, bool)>);

impl Looks {
    /// The workspace, if it is to be told of at once.
    fn noticed(&mut self, workspace: WorkspaceId, now: Instant) -> Option<WorkspaceId> {
        if let Some((_, again)) = self.0.get_mut(&workspace) {
            *again = true;
            return None;
        }
        self.0.insert(workspace, (now + APART, false));
        Some(workspace)
    }

    fn next(&self) -> Option<Instant> {
        self.0.values().map(|(until, _)| *until).min()
    }

    /// Those to be told of now, because more happened there.
    fn due(&mut self, now: Instant) -> Vec<WorkspaceId> {
        let mut due = Vec::new();
        self.0.retain(|workspace, (until, again)| {
            if *until > now {
                return true;
            }
            let tell = std::mem::take(again);
            if tell {
                due.push(*workspace);
                *until = now + APART;
            }
            tell
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_notices_are_one_look_a_second_and_none_is_forgotten() {
        let (mut looks, start) = (Looks::default(), Instant::now());
        let id: WorkspaceId = uuid::Uuid::new_v4().to_string().parse().unwrap();
        assert_eq!(looks.noticed(id, start), Some(id));
        for _ in 0..5 {
            assert_eq!(looks.noticed(id, start), None);
        }
        assert_eq!(looks.due(start + APART / 2), []);
        assert_eq!(looks.next(), Some(start + APART));
        assert_eq!(looks.due(start + APART), [id]);
        assert_eq!(looks.due(start + APART * 2), []);
        assert_eq!(looks.next(), None, "what is quiet is forgotten");
        assert_eq!(looks.noticed(id, start + APART * 3), Some(id));
    }
}
