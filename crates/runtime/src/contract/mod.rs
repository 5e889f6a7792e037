//! What every runtime must do, whatever is behind it. The suite knows the ports only; a backend runs it by
//! giving the macro a function that makes an empty [`Harness`] (or none, where its engine is missing).

pub(crate) mod archives;
pub(crate) mod homes;
pub(crate) mod instances;
pub(crate) mod lines;
pub(crate) mod volumes;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use codehub_domain::{ArchiveKey, Generation, OpId, UserId, VolumeKey, WorkspaceId, observed::InstanceState};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    Fence, Fenced, InstanceSpec, Instances, archives::Archives, homes::HomeTransfer, volumes::Volumes,
};

/// Expands to the whole suite, as tests of the module it is called in.
macro_rules! contract_suite {
    // For runtimes that have the program inside.
    (lines $harness:path) => {
        $crate::contract::contract_suite! { @all $harness;
            lines: [a_line_leads_to_what_runs_and_ends_with_it, many_things_are_done_on_one_line,
                what_nobody_waits_for_is_ended, a_program_has_a_terminal_where_it_is_asked_for]
        }
    };
    ($harness:path) => {
        $crate::contract::contract_suite! { @all $harness;
            instances: [every_call_can_be_repeated, what_was_done_is_seen_by_everybody,
                a_listing_is_about_what_was_asked_for,
                a_closed_fence_starts_nothing, many_starts_at_once_are_one, what_runs_is_adopted_or_ended,
                what_ended_is_told_and_replaced, not_knowing_is_an_error]
            volumes: [every_call_can_be_repeated, what_does_not_fit_is_refused, a_volume_keeps_what_is_on_it, a_closed_fence_deletes_nothing,
                not_knowing_is_an_error]
            archives: [a_home_comes_back_as_it_was, a_finished_archive_is_never_written_again,
                every_call_can_be_repeated, what_is_not_there_is_said, a_closed_fence_moves_nothing,
                a_cancelled_transfer_leaves_no_archive]
            homes: [what_is_packed_is_unpacked, a_home_is_packed_in_chunks, a_stream_that_is_cut_off_is_an_error]
        }
    };
    (@all $harness:path; $($group:ident: [$($test:ident),+ $(,)?])+) => {
        $(mod $group {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let harness: Option<$crate::contract::Harness> = $harness().await.into();
                if let Some(harness) = harness {
                    $crate::contract::$group::$test(&harness).await;
                }
            })+
        })+
    };
}
pub(crate) use contract_suite;

/// A deployment in which nothing is yet.
pub(crate) struct Harness {
    pub(crate) instances: Arc<dyn Instances>,
    pub(crate) volumes: Arc<dyn Volumes>,
    pub(crate) archives: Arc<dyn Archives>,
    /// Where homes are bytes, and not simulated.
    pub(crate) homes: Option<Arc<dyn HomeTransfer>>,
    pub(crate) image_ref: String,
    pub(crate) world: Box<dyn Hands>,
}

/// What happens behind the ports' back.
#[async_trait]
pub(crate) trait Hands: Send + Sync {
    /// Instances as another process of the same deployment sees them.
    async fn another(&self) -> Arc<dyn Instances>;
    /// Kills the program.
    async fn kill(&self, id: WorkspaceId);
    /// Adds something to a home.
    async fn write(&self, volume: &VolumeKey, text: &str);
    /// All that is on a home, somehow.
    async fn read(&self, volume: &VolumeKey) -> String;
    /// Makes whatever answers questions about this workspace's instance and volumes unable to, and able again.
    /// `false` where a test cannot do that.
    async fn cut_off(&self, id: WorkspaceId, off: bool) -> bool;
}

impl Harness {
    /// A workspace that nothing exists of.
    pub(crate) fn spec(&self) -> InstanceSpec {
        let workspace = WorkspaceId::from_uuid(Uuid::now_v7());
        let owner = UserId::from_uuid(Uuid::now_v7());
        InstanceSpec {
            workspace,
            name: "test space".into(),
            image_ref: self.image_ref.clone(),
            volume: VolumeKey { owner, workspace, generation: Generation(1) },
            base_path: format!("/w/{workspace}/"),
            url: format!("http://localhost:8080/w/{workspace}/"),
            api_url: "http://localhost:8080".to_owned(),
            port_url: Some("http://{port}-id.localhost:8080/".to_owned()),
        }
    }

    /// One whose volume exists.
    pub(crate) async fn at_rest(&self) -> InstanceSpec {
        let spec = self.spec();
        self.volumes.create(&spec.volume, 0).await.unwrap();
        spec
    }

    /// One that runs and answers.
    pub(crate) async fn running(&self) -> InstanceSpec {
        let spec = self.at_rest().await;
        self.instances.start(&spec, &Fence::open()).await.unwrap();
        self.until_ready(spec.workspace).await;
        spec
    }

    pub(crate) async fn until_ready(&self, id: WorkspaceId) {
        let waiting = watch::Sender::default();
        let ready = self.instances.wait_ready(id, &waiting);
        tokio::time::timeout(Duration::from_secs(60), ready).await.expect("it becomes ready").unwrap();
    }

    pub(crate) async fn state(&self, id: WorkspaceId) -> Option<InstanceState> {
        self.instances.status(id).await.unwrap().map(|instance| instance.state)
    }
}

/// The same home, the next time it is made.
pub(crate) fn next(volume: &VolumeKey) -> VolumeKey {
    VolumeKey { generation: volume.generation.next(), ..*volume }
}

pub(crate) fn archive_of(volume: &VolumeKey) -> ArchiveKey {
    ArchiveKey::of(volume.workspace, OpId::from_uuid(Uuid::now_v7()))
}

/// A fence behind which somebody else leads.
pub(crate) fn closed() -> Fence {
    Fence::new(|| Box::pin(async { Err(Fenced("another process leads".into())) }))
}
