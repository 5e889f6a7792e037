//! What every store must do, whatever is behind it. The suite knows the port only; a backend runs it by
//! giving the macro a function that makes an empty [`Harness`] (or none, where its server is missing).
//!
//! Time: a test never waits. It asks the harness to let time pass, and the backend either moves its
//! clock or makes everything stored that much older, which is the same.

pub(crate) mod access;
pub(crate) mod archives;
pub(crate) mod audit;
pub(crate) mod change;
pub(crate) mod collecting;
pub(crate) mod deployment;
pub(crate) mod due;
pub(crate) mod holds;
pub(crate) mod labels;
pub(crate) mod life;
pub(crate) mod limit;
pub(crate) mod list;
pub(crate) mod people;
pub(crate) mod ports;
pub(crate) mod recovering;
pub(crate) mod saving;
pub(crate) mod together;
pub(crate) mod ttls;

use crate::fake::by;
use std::{any::Any, sync::Arc, time::Duration};

use codehub_domain::{
    Desired, Epoch, ErrorReason, Failure, OpId, SessionId, Status, Timestamp, TokenId, UserId, Workspace,
    WorkspaceId,
    event::{Actor, Reason},
    labels::Labels,
    limits::Limits,
    user::{ApiToken, Role, User},
};
use futures::future::BoxFuture;
use uuid::Uuid;

use super::{Asked, Change, Changes, Created, NewWorkspace, Saved, Store, UserChange};

/// Expands to the whole suite, as tests of the module it is called in.
macro_rules! contract_suite {
    ($harness:path) => {
        $crate::contract::contract_suite! { @all $harness;
            access: [sessions_slide_and_end, sessions_end_with_their_user,
                a_code_is_good_once_in_time_and_in_its_place, many_at_once_redeem_a_code_once,
                workspace_sessions_end_with_their_parent, tokens_work_until_they_do_not,
                tokens_end_with_the_password, a_program_is_signed_in_once_by_whoever_allows_it,
                a_sign_in_of_a_program_ends_with_the_session_that_allowed_it, tokens_are_made_by_sessions, no_token_slips_past_a_new_password,
                tries_are_counted_and_forgotten, a_try_counts_under_every_key_or_none,
                devices_are_known_until_they_are_not,
                devices_are_bounded_and_a_new_password_forgets_tries, sweeping_removes_only_what_has_ended]
            archives: [a_record_is_saved_with_the_key_it_is_of, adopting_is_done_once_and_written_down,
                what_is_claimed_has_no_record_and_gets_none, an_object_with_parts_of_another_archive_stays]
            audit: [every_act_is_written_down_with_it, what_is_refused_or_fails_leaves_no_row,
                repetitions_are_counted, events_are_found_by_what_they_are, old_events_go_and_that_is_told]
            change: [every_visible_change_is_announced, nothing_is_announced_that_did_not_happen,
                nothing_follows_a_deletion, access_changes_are_announced]
            collecting: [claims_are_refused_where_a_row_refers, what_is_claimed_is_nobodys_home,
                a_claim_and_a_creation_have_one_winner]
            deployment: [epochs_grow_and_fence, a_backend_is_renamed_with_its_rows, settings_are_kept_and_the_first_one_wins, the_clock_answers,
                sightings_are_replaced_as_a_whole, replicas_are_seen_until_they_leave,
                what_a_replica_has_told_only_grows]
            due: [active_is_the_rule_of_the_domain, full_adds_what_runs_and_the_oldest]
            holds: [a_lease_counts_as_activity_until_it_ends, leases_are_listed_and_given_back,
                a_workspace_may_have_its_own_mode]
            labels: [labels_are_kept_and_edited_whole, lists_are_filtered_by_label, slugs_are_made_from_names,
                many_creations_at_once_have_slugs_of_their_own]
            life: [a_new_workspace_is_what_was_asked_for, what_is_created_once_is_not_created_twice, an_edit_changes_only_what_it_names,
                the_table_of_wishes, asking_again_changes_nothing_but_counts_as_activity,
                deleting_keeps_the_row_and_hides_it, history_is_newest_first_and_pages]
            limit: [fifty_at_once_get_exactly_the_places, fifty_creations_at_once_too,
                a_refused_creation_leaves_nothing, what_takes_a_place,
                an_error_takes_one_only_while_something_runs, the_hit_lists_only_ones_own]
            list: [newest_first_in_pages, lists_have_an_order, the_latest_of_all_histories, descriptions_are_searched, filters_combine, the_query_is_a_plain_substring,
                many_are_read_at_once, counts_by_phase, only_so_many_are_counted]
            people: [names_are_unique_without_case, the_first_admin_is_made_once, edits_take_effect,
                language_and_theme_end_no_session,
                the_last_admin_stays, deleting_a_user]
            ports: [settings_of_ports_are_kept_told_and_written_down, only_so_many_ports_have_settings]
            recovering: [recovery_follows_the_domain, recovery_refuses, recovery_stays_within_the_workspace,
                recovery_may_go_another_way, recovery_and_its_wish_are_one_step]
            saving: [a_status_comes_back_as_it_was_saved, a_save_is_a_compare_and_swap,
                a_stale_epoch_changes_nothing_anywhere, an_error_has_no_operation,
                observing_is_no_revision, racing_saves_have_one_winner]
            together: [an_edit_and_a_wish_are_one_step, a_refused_wish_edits_nothing]
            ttls: [expiry_is_the_rule_of_the_domain, expiry_says_why, a_start_wins_over_the_ttl,
                activity_wins_over_the_ttl, access_only_grows, next_is_the_earliest_expiry]
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

/// An empty store and the power over its time.
pub(crate) struct Harness {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) pass: Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
    /// Where changes are told by another way than the call that made them: makes a change that nobody
    /// else makes, which is heard after everything before it.
    pub(crate) barrier: Option<Box<dyn Fn() -> BoxFuture<'static, Change> + Send + Sync>>,
    /// What must live as long as the store: a directory, a server.
    pub(crate) _keep: Box<dyn Any + Send + Sync>,
}

pub(crate) fn user_id() -> UserId {
    UserId::from_uuid(Uuid::now_v7())
}

pub(crate) fn workspace_id() -> WorkspaceId {
    WorkspaceId::from_uuid(Uuid::now_v7())
}

pub(crate) fn workspace_id_of(number: u128) -> WorkspaceId {
    WorkspaceId::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn op_id() -> OpId {
    OpId::from_uuid(Uuid::now_v7())
}

fn session_id() -> SessionId {
    SessionId::from_uuid(Uuid::now_v7())
}

fn token_id() -> TokenId {
    TokenId::from_uuid(Uuid::now_v7())
}

pub(crate) fn new_workspace(owner: UserId, name: &str, desired: Desired) -> NewWorkspace {
    NewWorkspace {
        id: workspace_id(),
        owner,
        name: name.into(),
        description: "what it is for".into(),
        memo: "a note".into(),
        image_ref: "image:1".into(),
        desired,
        standby_ttl_seconds: None,
        archive_ttl_seconds: None,
        from_archive: None,
        once: None,
        activity_mode: None,
        labels: Labels::default(),
    }
}

fn failure(reason: ErrorReason) -> Failure {
    Failure::new(reason, "for the test")
}

fn seconds_before(at: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond() - seconds * 1_000_000).unwrap()
}

impl Harness {
    pub(crate) async fn user(&self, name: &str) -> User {
        match self.store.user_create(by(), user_id(), name, "hash", Role::User).await.unwrap() {
            UserChange::Done(user) => user,
            other => panic!("{other:?}"),
        }
    }

    /// A token, made by a session of its own.
    async fn token(&self, user: UserId, name: &str, secret: &[u8], seconds: Option<u32>) -> ApiToken {
        let session = session_id();
        let hash = session.to_string();
        self.store.session_create(by(), session, user, hash.as_bytes(), 60).await.unwrap();
        self.store.token_create(by(), token_id(), session, name, secret, seconds).await.unwrap().unwrap()
    }

    async fn admin(&self, name: &str) -> User {
        match self.store.user_create(by(), user_id(), name, "hash", Role::Admin).await.unwrap() {
            UserChange::Done(user) => user,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn leader(&self) -> Epoch {
        self.store.epoch_take("contract").await.unwrap()
    }

    async fn create(&self, new: NewWorkspace, limits: Limits) -> Created {
        let actor = Actor::User(new.owner);
        self.store.workspace_create(by(), new, limits, actor).await.unwrap()
    }

    pub(crate) async fn workspace(&self, owner: UserId, desired: Desired) -> Workspace {
        match self.create(new_workspace(owner, "work", desired), Limits::NONE).await {
            Created::Created(workspace) => *workspace,
            other => panic!("{other:?}"),
        }
    }

    async fn get(&self, id: WorkspaceId) -> Workspace {
        self.store.workspace_get(id).await.unwrap().unwrap()
    }

    async fn ask(&self, id: WorkspaceId, desired: Desired) -> Asked {
        self.store
            .workspace_ask(by(), id, desired, Limits::NONE, Actor::Operator, &Reason::StateRequested)
            .await
            .unwrap()
    }

    /// Writes a status as the controller would, over whatever is there.
    pub(crate) async fn put(
        &self,
        epoch: Epoch,
        id: WorkspaceId,
        change: impl FnOnce(&mut Status),
    ) -> Workspace {
        let read = self.get(id).await;
        let mut next = read.status.clone();
        change(&mut next);
        let saved = self.store.workspace_save(epoch, &read, &next, &[]).await.unwrap();
        assert_eq!(saved, Saved::Saved(read.revision + 1));
        self.get(id).await
    }

    async fn pass(&self, seconds: u64) {
        (self.pass)(Duration::from_secs(seconds)).await;
    }

    /// Changes from here on, without what is still on its way.
    async fn changes(&self) -> Changes {
        let mut changes = self.store.changes();
        self.drain(&mut changes).await;
        changes
    }

    /// What has been announced so far.
    async fn drain(&self, changes: &mut Changes) -> Vec<Change> {
        let mut all = Vec::new();
        if let Some(barrier) = &self.barrier {
            let last = barrier().await;
            loop {
                match tokio::time::timeout(Duration::from_secs(20), changes.recv()).await.unwrap().unwrap() {
                    change if change == last => return all,
                    change => all.push(change),
                }
            }
        }
        while let Ok(change) = changes.try_recv() {
            all.push(change);
        }
        all
    }
}
