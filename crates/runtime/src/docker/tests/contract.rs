//! The contract of the ports, by a real engine.

use async_trait::async_trait;

use super::{super::users, *};
use crate::contract::{Hands, Harness, contract_suite};

contract_suite!(super::harness);

async fn harness() -> Option<Harness> {
    let rig = Rig::new().await?;
    let homes = Arc::new(DockerTransfer::new(rig.jobs.clone(), 3));
    let objects = ObjectArchives::open_local(rig.files.path(), "archives").unwrap();
    Some(Harness {
        instances: Arc::new(rig.runtime.clone()),
        volumes: rig.volumes.clone(),
        archives: Arc::new(StoredArchives::new("files", objects, homes.clone())),
        homes: Some(homes),
        image_ref: IMAGE.to_owned(),
        world: Box::new(Machine(rig)),
    })
}

struct Machine(Rig);

impl Machine {
    /// Runs a line of shell on a volume, as the user it belongs to.
    fn on(&self, volume: &VolumeKey, line: &str) -> String {
        let mount = format!("{volume}:/v");
        let user = format!("{}:1000", users::own_uid(volume.workspace, false));
        let run = ["run", "--rm", "--network", "none", "--user", &user, "-v", &mount];
        self.0.docker(&[&run[..], &["--entrypoint", "/bin/sh", IMAGE, "-c", line]].concat())
    }
}

#[async_trait]
impl Hands for Machine {
    async fn another(&self) -> Arc<dyn Instances> {
        Arc::new(self.0.later())
    }

    async fn kill(&self, id: WorkspaceId) {
        self.0.docker(&["kill", &container_name(id)]);
    }

    async fn write(&self, volume: &VolumeKey, text: &str) {
        self.on(volume, &format!("echo '{text}' > '/v/{}'", text.replace(' ', "-")));
    }

    async fn read(&self, volume: &VolumeKey) -> String {
        self.on(
            volume,
            "cd /v && for file in *; do [ -e \"$file\" ] && echo \"$file\" && cat \"$file\"; done; true",
        )
    }

    /// The engine belongs to the other tests, too.
    async fn cut_off(&self, _: WorkspaceId, _: bool) -> bool {
        false
    }
}
