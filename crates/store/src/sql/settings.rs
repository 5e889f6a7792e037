//! Small facts of the deployment, by name.

use async_trait::async_trait;

use super::{Lock, SqlStore, SqlWrite, Statements, args, timed};
use crate::{BackendPart, Result, Settings, row::SqlRow};

const PUT: &str = "INSERT INTO settings (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

const GET: &str = "SELECT value FROM settings WHERE name = $1";

#[async_trait]
impl<S: SqlStore> Settings for S {
    async fn setting_get(&self, name: &str) -> Result<Option<String>> {
        timed::<S, _>("setting_get", async {
            let rows = self.select(GET, args![name]).await?;
            rows.first().map(|found| found.text("value").map(str::to_owned)).transpose()
        })
        .await
    }

    async fn setting_put(&self, name: &str, value: &str) -> Result<()> {
        timed::<S, _>("setting_put", async {
            let mut write = self.write().await?;
            write.run(PUT, args![name, value]).await?;
            write.commit().await
        })
        .await
    }

    async fn setting_init(&self, name: &str, value: &str) -> Result<String> {
        timed::<S, _>("setting_init", async {
            let mut write = self.write().await?;
            write
                .run(
                    "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                    args![name, value],
                )
                .await?;
            // A statement of its own: it sees what somebody else committed meanwhile.
            let kept = write.one(GET, args![name]).await?.text("value")?.to_owned();
            write.commit().await?;
            Ok(kept)
        })
        .await
    }

    async fn setting_delete(&self, name: &str) -> Result<()> {
        timed::<S, _>("setting_delete", async {
            let mut write = self.write().await?;
            write.run("DELETE FROM settings WHERE name = $1", args![name]).await?;
            write.commit().await
        })
        .await
    }

    async fn backend_named(&self, part: BackendPart, kind: &str, name: &str) -> Result<u64> {
        // The revision makes a controller that has read the old name read again.
        let rename = match part {
            BackendPart::Instances => {
                "UPDATE workspaces SET instance_backend = $2, revision = revision + 1
                 WHERE instance_backend = $1"
            }
            BackendPart::Storage => {
                "UPDATE workspaces SET storage_backend = $2, revision = revision + 1
                 WHERE storage_backend = $1"
            }
        };
        timed::<S, _>("backend_named", async {
            let mut write = self.write().await?;
            write.lock(Lock::Many).await?;
            let noted = write.first(GET, args![part.setting()]).await?;
            let noted = noted.as_ref().map(|found| found.text("value")).transpose()?;
            let now = format!("{kind} {name}");
            if noted == Some(now.as_str()) {
                return Ok(0);
            }
            let renamed = match BackendPart::called_before(kind, noted) {
                Some(before) if before != name => write.run(rename, args![before, name]).await?,
                _ => 0,
            };
            write.run(PUT, args![part.setting(), now]).await?;
            write.commit().await?;
            Ok(renamed)
        })
        .await
    }
}
