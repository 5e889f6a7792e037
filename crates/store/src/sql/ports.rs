//! What owners said about ports of their workspaces.

use async_trait::async_trait;
use codehub_domain::{
    WorkspaceId,
    audit::Act,
    change::Change,
    ports::{MOST_PORTS, PortSettings},
};

use super::{SqlStore, SqlWrite, Statements, args, audit, timed, workspaces};
use crate::{PortSaved, Ports, Result, row, trail};

const OF: &str =
    "SELECT port, label, scheme, host, visibility, activity FROM ports WHERE workspace_id = $1 ORDER BY port";

#[async_trait]
impl<S: SqlStore> Ports for S {
    async fn workspace_ports(&self, id: WorkspaceId) -> Result<Vec<PortSettings>> {
        timed::<S, _>("workspace_ports", async {
            self.select(OF, args![id]).await?.iter().map(row::port).collect()
        })
        .await
    }

    async fn workspace_port_put(
        &self,
        by: &Act,
        id: WorkspaceId,
        settings: PortSettings,
    ) -> Result<PortSaved> {
        timed::<S, _>("workspace_port_put", async {
            let mut write = self.write().await?;
            // The row is locked: whoever writes about another port meanwhile waits, and then counts anew.
            let Some(workspace) = workspaces::get_living(&mut write, id).await? else {
                return Ok(PortSaved::NotFound);
            };
            let known = write.all(OF.into(), args![id]).await?;
            let known = known.iter().map(row::port).collect::<Result<Vec<_>>>()?;
            let before = PortSettings::among(&known, settings.port);
            if before == settings {
                return Ok(PortSaved::Saved);
            }
            let port = i64::from(settings.port);
            if settings == PortSettings::of(settings.port) {
                write.run("DELETE FROM ports WHERE workspace_id = $1 AND port = $2", args![id, port]).await?;
            } else {
                let new = known.iter().all(|known| known.port != settings.port);
                if new && known.len() >= MOST_PORTS {
                    return Ok(PortSaved::TooMany);
                }
                let PortSettings { label, scheme, host, visibility, activity, .. } = &settings;
                let words = [scheme.as_str(), host.as_str(), visibility.as_str(), activity.as_str()];
                write
                    .run(
                        "INSERT INTO ports (workspace_id, port, label, scheme, host, visibility, activity)
                         VALUES ($1, $2, $3, $4, $5, $6, $7)
                         ON CONFLICT (workspace_id, port) DO UPDATE SET label = excluded.label,
                             scheme = excluded.scheme, host = excluded.host,
                             visibility = excluded.visibility, activity = excluded.activity",
                        args![id, port, label, words[0], words[1], words[2], words[3]],
                    )
                    .await?;
            }
            write.tell(Change::Updated { workspace: id, owner: workspace.owner }).await?;
            audit::append(&mut write, by, &trail::port_edited(&workspace, &before, &settings)).await?;
            write.commit().await?;
            Ok(PortSaved::Saved)
        })
        .await
    }
}
