//! What is deleted and gone costs nothing any more; what reappears of it is found all the same.

use codehub_store::fake::by;
use std::time::Duration;

use codehub_domain::{
    Desired, Phase, Workspace,
    event::{Actor, Reason},
    limits::Limits,
};
use codehub_runtime::{Among, Fence, InstanceSpec, volumes::Scope};
use codehub_store::{Asked, Due, prelude::*};
use codehub_testing::let_time_pass;

use super::{OWNER, Rig};

/// A workspace that was deleted, of which nothing is left.
async fn gone(rig: &Rig) -> Workspace {
    let id = rig.create("short-lived").await;
    rig.reaches(id, Phase::Running).await;
    let desired = Desired::Deleted;
    let asked = rig
        .store
        .workspace_ask(by(), id, desired, Limits::NONE, Actor::User(OWNER), &Reason::DeleteRequested)
        .await
        .unwrap();
    assert!(matches!(asked, Asked::Changed(_)), "{asked:?}");
    rig.reaches(id, Phase::Deleted).await;
    rig.get(id)
}

async fn volumes_left(rig: &Rig) -> usize {
    rig.app.backends.volumes.list(Scope::All).await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_reappears_is_found_and_ended() {
    let rig = Rig::new().await;
    let workspace = gone(&rig).await;
    // A leader that was replaced comes back for a moment, and starts what it had decided to.
    let volume = workspace.volume(workspace.status.home.generation);
    let backends = &rig.app.backends;
    backends.volumes.create(&volume, 0).await.unwrap();
    let spec = InstanceSpec {
        workspace: workspace.id,
        name: workspace.name.clone(),
        image_ref: String::new(),
        volume,
        url: String::new(),
        api_url: "http://localhost:8080".to_owned(),
        port_url: None,
        base_path: String::new(),
    };
    backends.instances.start(&spec, &Fence::open()).await.unwrap();
    rig.until("it is found", |_| rig.get(workspace.id).revision > workspace.revision).await;
    rig.reaches(workspace.id, Phase::Deleted).await;
    assert!(backends.instances.list(Among::All(&[])).await.unwrap().is_empty());
    assert_eq!(volumes_left(&rig).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_reappears_is_the_collectors() {
    let rig = Rig::new().await;
    let workspace = gone(&rig).await;
    let volume = workspace.volume(workspace.status.home.generation);
    rig.app.backends.volumes.create(&volume, 0).await.unwrap();
    let_time_pass(Duration::from_secs(60)).await;
    assert_eq!(rig.get(workspace.id), workspace, "nobody looks at its row any more");
    let reading = rig.store.workspaces_due(Due::Full { also_oldest: 100 }).await.unwrap();
    assert_eq!(reading.workspaces, []);
    // Seen in one cycle, and again when it has been garbage for long enough.
    let_time_pass(Duration::from_secs(9 * 3600)).await;
    assert_eq!(volumes_left(&rig).await, 0);
}
