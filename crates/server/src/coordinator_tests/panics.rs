//! A panic, wherever it happens, stays where it happened.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use codehub_domain::{
    Epoch, ErrorReason, Phase, WorkspaceId,
    decide::{self, Decision, Inputs},
    observed::Instance,
};
use codehub_runtime as runtime;
use codehub_runtime::{Among, Fence, InstanceSpec, Instances, Listed, LogQuery, LogStream};
use codehub_testing::let_time_pass;
use codehub_upstream::Upstream;
use http::StatusCode;

use super::Rig;
use codehub_coordinator::{Backends, health::STEADY};

#[tokio::test(start_paused = true)]
async fn a_component_that_panics_is_started_again_in_the_same_term() {
    for (method, name) in [("ttl_next", "ttl"), ("gc_rows", "gc"), ("workspaces_due", "survey")] {
        let rig = Rig::new().await;
        rig.panic_at(method, 4);
        rig.until("trouble", |app| app.health.problem().is_some()).await;
        assert!(rig.is_failing(name), "{name}: {:?}", rig.app.health);
        assert_eq!(rig.leads_with(), Some(Epoch(1)), "{name}");
        let (status, body) = rig.ready().await;
        let shown = &body["dependencies"]["coordinator"];
        assert_eq!((status, &shown["ok"], &shown["kind"]), (StatusCode::OK, &false.into(), &"leader".into()));
        assert!(shown["problem"].as_str().unwrap().contains(name), "{body}");
        assert!(!body.to_string().contains("injected"), "anybody may read it: {body}");

        // It comes back, and meanwhile or afterwards everything else does its work.
        let id = rig.create("goes on").await;
        rig.reaches(id, Phase::Running).await;
        rig.until("well again", |app| app.health.problem().is_none()).await;
        assert_eq!(rig.ready().await.1["dependencies"]["coordinator"]["ok"], true);
        assert_eq!(rig.leads_with(), Some(Epoch(1)), "{name}: one term, from the beginning to the end");
    }
}

/// The controller's own loop, with what it had under way.
#[tokio::test(start_paused = true)]
async fn a_controller_that_panics_continues_what_it_finds() {
    let rig = Rig::new().await;
    let id = rig.create("half way").await;
    rig.panic_at("workspace_save", 3);
    rig.until("trouble", |app| app.health.problem().is_some()).await;
    assert!(rig.is_failing("controller"));
    rig.reaches(id, Phase::Running).await;
    assert_eq!(rig.leads_with(), Some(Epoch(1)));
    let_time_pass(STEADY).await;
    assert!(!rig.is_failing("controller"));
}

#[tokio::test(start_paused = true)]
async fn one_that_keeps_panicking_is_tried_ever_more_rarely() {
    let rig = Rig::new().await;
    rig.panic_at("ttl_next", u32::MAX);
    let_time_pass(Duration::from_secs(600)).await;
    let failing: Vec<u32> = rig.app.health.failing().into_values().collect();
    // 1 + 2 + 4 + 8 + 16 + 32 seconds, then once a minute.
    assert!(matches!(failing[..], [13..=16]), "{failing:?}");
    assert_eq!(rig.leads_with(), Some(Epoch(1)));
}

/// The lease is nobody's when its holder has panicked: then the term is over, and a new one begins.
#[tokio::test(start_paused = true)]
async fn without_a_holder_there_is_no_term() {
    let rig = Rig::new().await;
    rig.until("a leader", |app| app.leading.borrow().is_some()).await;
    let_time_pass(Duration::from_secs(1)).await;
    // The TTLs have had their turn; the next to ask is the holder.
    rig.panic_at("epoch_is_current", 1);
    let_time_pass(Duration::from_secs(6)).await;
    assert_eq!((rig.leads_with(), rig.app.health.problem()), (Some(Epoch(2)), None));
}

fn rules_that_break(inputs: &Inputs<'_>) -> Decision {
    assert_ne!(inputs.workspace.name, "broken", "injected into the rules");
    decide::decide(inputs)
}

#[tokio::test(start_paused = true)]
async fn a_workspace_the_rules_panic_over_delays_no_other() {
    let rig = Rig::with(|_| {}, rules_that_break).await;
    let broken = rig.create("broken").await;
    for n in 0..3 {
        let fine = rig.create(&format!("fine {n}")).await;
        rig.reaches(fine, Phase::Running).await;
    }
    assert_eq!(rig.get(broken).status.phase, Phase::Pending);
    assert_eq!((rig.leads_with(), rig.app.health.problem()), (Some(Epoch(1)), None));
}

/// Looks and surveys, too: what reads one row.
#[tokio::test(start_paused = true)]
async fn a_look_that_panics_is_taken_again() {
    let rig = Rig::new().await;
    rig.panic_at("workspace_get", 3);
    let id = rig.create("looked at").await;
    rig.reaches(id, Phase::Running).await;
    assert_eq!((rig.leads_with(), rig.app.health.problem()), (Some(Epoch(1)), None));
}

/// Instances whose start is a bug.
struct Explosive(Arc<dyn Instances>);

#[async_trait]
impl Instances for Explosive {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    async fn ping(&self) -> runtime::Result<()> {
        self.0.ping().await
    }

    async fn start(&self, _: &InstanceSpec, _: &Fence) -> runtime::Result<()> {
        panic!("injected into a start")
    }

    async fn stop(&self, id: WorkspaceId) -> runtime::Result<()> {
        self.0.stop(id).await
    }

    async fn status(&self, id: WorkspaceId) -> runtime::Result<Option<Instance>> {
        self.0.status(id).await
    }

    async fn list(&self, among: Among<'_>) -> runtime::Result<Vec<Listed>> {
        self.0.list(among).await
    }

    async fn upstream(&self, id: WorkspaceId) -> runtime::Result<Option<Upstream>> {
        self.0.upstream(id).await
    }

    async fn logs(&self, id: WorkspaceId, query: LogQuery) -> runtime::Result<LogStream> {
        self.0.logs(id, query).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_that_panics_has_failed_and_its_owner_is_told() {
    let explode = |backends: &mut Backends| {
        backends.instances = Arc::new(Explosive(backends.instances.clone()));
    };
    let rig = Rig::with(explode, decide::decide).await;
    let id = rig.create("explodes").await;
    rig.reaches(id, Phase::Error).await;
    let failure = rig.get(id).status.error.unwrap();
    assert_eq!(failure.reason, ErrorReason::RetryExceeded);
    assert!(
        failure.message.contains("injected into a start") && failure.message.contains("bug"),
        "{failure}"
    );
    assert_eq!((rig.leads_with(), rig.app.health.problem()), (Some(Epoch(1)), None));
}
