//! The contract of the ports, by the simulated world: what the simulation shows holds for the real ones.

use std::sync::Arc;

use async_trait::async_trait;
use codehub_domain::{VolumeKey, WorkspaceId};

use super::{FakeBackends, Faults, Gate, LineServer, World};
use crate::{
    Instances,
    contract::{Hands, Harness, contract_suite},
};

contract_suite!(super::harness);
contract_suite!(lines super::harness);

async fn harness() -> Harness {
    let world = World::new(1, Faults::NONE, None);
    world.listen_at(([127, 0, 0, 1], 9).into());
    let home = tempfile::tempdir().unwrap();
    let inside = codehub_inside::line::Inside::new(home.path(), true).unwrap();
    world.answer_lines(LineServer::new(move |line| {
        let (inside, home) = (inside.clone(), home.path().to_owned());
        Box::pin(async move {
            assert!(home.exists());
            tokio::select! {
                () = inside.serve(line) => {}
                _ = inside.watch_children() => {}
            }
        })
    }));
    let fake = Arc::new(FakeBackends { world: world.clone(), gate: Gate::new() });
    Harness {
        instances: fake.clone(),
        volumes: fake.clone(),
        archives: fake,
        homes: None,
        image_ref: String::new(),
        world: Box::new(Simulated(world)),
    }
}

struct Simulated(World);

#[async_trait]
impl Hands for Simulated {
    async fn another(&self) -> Arc<dyn Instances> {
        Arc::new(FakeBackends { world: self.0.clone(), gate: Gate::new() })
    }

    async fn kill(&self, id: WorkspaceId) {
        self.0.kill(id);
    }

    async fn write(&self, volume: &VolumeKey, _: &str) {
        self.0.write_on(volume);
    }

    async fn read(&self, volume: &VolumeKey) -> String {
        format!("{:?}", self.0.on_volume(volume))
    }

    async fn cut_off(&self, _: WorkspaceId, off: bool) -> bool {
        self.0.behave(if off { Faults { refused: 1.0, ..Faults::NONE } } else { Faults::NONE });
        true
    }
}
