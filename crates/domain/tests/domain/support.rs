//! Workspaces and observations in few words.

use std::collections::BTreeSet;

use codehub_domain::{
    ArchiveKey, ArchiveRecord, Desired, ErrorReason, Failure, Generation, HomeCtx, OpId, Operation, Phase,
    Status, Timestamp, Truth, UserId, Workspace, WorkspaceId,
    condition::set,
    decide::{Decision, Inputs, Outcome, decide},
    observed::{Instance, InstanceState, Observed, Seen, Waiting, WaitingFor},
    plan::Action,
    retry::Policy,
};
use uuid::Uuid;

/// When the tests happen.
pub(crate) const NOW: i64 = 1_000_000;
/// The generation every workspace here is on, and an older one.
pub(crate) const CURRENT: Generation = Generation(5);
pub(crate) const OLD: Generation = Generation(3);

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) fn now() -> Timestamp {
    at(NOW)
}

pub(crate) fn id() -> WorkspaceId {
    WorkspaceId::from_uuid(Uuid::from_u128(0x77))
}

pub(crate) fn op(n: u128) -> OpId {
    OpId::from_uuid(Uuid::from_u128(n))
}

/// The id of the operation under way, and of the next one.
pub(crate) fn this_op() -> OpId {
    op(0x10)
}

pub(crate) fn next_op() -> OpId {
    op(0x20)
}

pub(crate) fn key(op: OpId) -> ArchiveKey {
    ArchiveKey::of(id(), op)
}

/// What packing says when the archive under this key is whole.
pub(crate) fn archived(key: ArchiveKey) -> Outcome {
    let sha256 = key.op.to_string();
    let archive = ArchiveRecord {
        key,
        format: 2,
        sha256,
        size: 1,
        uncompressed: 1,
        entries: 1,
        index_sha256: None,
        parts: vec![],
    };
    Outcome::Archived { archive }
}

/// The archive of an earlier operation.
pub(crate) fn old_key() -> ArchiveKey {
    key(op(0x01))
}

pub(crate) fn workspace() -> Workspace {
    let owner = UserId::from_uuid(Uuid::from_u128(0x99));
    Workspace {
        id: id(),
        owner,
        name: "w".into(),
        slug: "work".into(),
        labels: codehub_domain::labels::Labels::default(),
        description: String::new(),
        memo: String::new(),
        image_ref: String::new(),
        home_store_key: Workspace::home_store_key_of(owner, id()),
        standby_ttl_seconds: None,
        archive_ttl_seconds: None,
        activity_mode: None,
        desired: Desired::Running,
        desired_changed_at: at(0),
        deleted_at: None,
        last_access_at: at(0),
        held_until: None,
        status: Status::new(at(0)),
        created_at: at(0),
        updated_at: at(0),
        revision: 1,
    }
}

/// A workspace with conditions, home and operation that go together. With `truth = archive`, an
/// operation that writes archives has committed its own.
pub(crate) fn given(phase: Phase, desired: Desired, operation: Operation, truth: Truth) -> Workspace {
    let mut ws = workspace();
    ws.desired = desired;
    ws.deleted_at = (desired == Desired::Deleted).then(|| at(1));
    let status = &mut ws.status;
    status.phase = phase;
    status.operation = operation;
    status.op_id = Some(this_op());
    if operation != Operation::None {
        status.op_started_at = Some(at(NOW - 10));
        status.op_moved_at = Some(at(NOW - 10));
    }
    status.home = HomeCtx { truth, generation: CURRENT, ..HomeCtx::default() };
    status.archive_key = match (truth, operation) {
        (Truth::None, _) => None,
        (Truth::Archive, Operation::Archiving | Operation::CreateEmptyArchive) => Some(key(this_op())),
        (Truth::Archive | Truth::Volume, _) => Some(old_key()),
    };
    if truth == Truth::Volume {
        status.home.restore_marker = Some(old_key());
    }
    let conditions = &mut status.conditions;
    let (volume, container, archive) = match phase {
        Phase::Running => (true, true, false),
        Phase::Standby => (true, false, false),
        Phase::Archived => (false, false, true),
        Phase::Pending | Phase::Error | Phase::Deleting | Phase::Deleted => (false, false, false),
    };
    if phase != Phase::Pending {
        set(&mut conditions.volume_ready, volume, "Given", "", at(0));
        set(&mut conditions.container_ready, container, "Given", "", at(0));
        set(&mut conditions.archive_ready, archive, "Given", "", at(0));
        set(&mut conditions.healthy, phase != Phase::Error, "Given", "", at(0));
    }
    ws
}

/// In ERROR for that reason.
pub(crate) fn failed(reason: ErrorReason, truth: Truth) -> Workspace {
    let mut ws = given(Phase::Error, Desired::Running, Operation::None, truth);
    ws.status.error = Some(Failure::new(reason, "because"));
    ws.status.error_count = 1;
    ws
}

pub(crate) fn instance(generation: Generation, state: InstanceState) -> Seen<Instance> {
    Seen::There(Instance { generation, state })
}

pub(crate) fn ready() -> Seen<Instance> {
    instance(CURRENT, InstanceState::Ready)
}

pub(crate) fn alive() -> Seen<Instance> {
    instance(CURRENT, InstanceState::Alive)
}

pub(crate) fn ended() -> Seen<Instance> {
    instance(CURRENT, InstanceState::died("exit status 1"))
}

pub(crate) fn evicted() -> Seen<Instance> {
    instance(CURRENT, InstanceState::evicted("the engine was restarted"))
}

pub(crate) fn waiting(kind: WaitingFor) -> Waiting {
    Waiting { kind, words: format!("no {kind} yet") }
}

pub(crate) fn volumes<const N: usize>(generations: [Generation; N]) -> Seen<BTreeSet<Generation>> {
    if N == 0 { Seen::NotThere } else { Seen::There(BTreeSet::from(generations)) }
}

pub(crate) fn seen(
    instance: Seen<Instance>,
    volumes: Seen<BTreeSet<Generation>>,
    archive: Seen<()>,
) -> Observed {
    Observed { instance, volumes, trouble: Default::default(), archive }
}

/// What is to be seen of a workspace at rest in that phase.
pub(crate) fn at_rest(phase: Phase) -> Observed {
    match phase {
        Phase::Running => seen(ready(), volumes([CURRENT]), Seen::Unknown),
        Phase::Standby => seen(Seen::NotThere, volumes([CURRENT]), Seen::Unknown),
        Phase::Archived => seen(Seen::NotThere, Seen::NotThere, Seen::There(())),
        Phase::Pending | Phase::Error | Phase::Deleting | Phase::Deleted => {
            seen(Seen::NotThere, Seen::NotThere, Seen::Unknown)
        }
    }
}

pub(crate) fn step(ws: &Workspace, seen: &Observed) -> Decision {
    after_at(ws, seen, None, now())
}

pub(crate) fn after(ws: &Workspace, seen: &Observed, action: &Action, outcome: &Outcome) -> Decision {
    after_at(ws, seen, Some((action, outcome)), now())
}

pub(crate) fn after_at(
    ws: &Workspace,
    seen: &Observed,
    outcome: Option<(&Action, &Outcome)>,
    now: Timestamp,
) -> Decision {
    let policy = Policy::default();
    decide(&Inputs { workspace: ws, seen, outcome, policy: &policy, now, op_id: next_op(), jitter: 1.0 })
}

/// The workspace as it is after that decision was saved.
pub(crate) fn saved(ws: &Workspace, decision: &Decision) -> Workspace {
    Workspace { status: decision.status.clone(), ..ws.clone() }
}
