//! What each archive of ours is.

use codehub_domain::{ArchiveKey, ArchiveRecord, Desired, Truth, audit::AuditAction, gc::Item};

use super::{Harness, op_id, workspace_id};
use crate::{Adopted, AuditFilter, GcClaim, Saved, fake::by};

fn record(key: ArchiveKey) -> ArchiveRecord {
    ArchiveRecord {
        key,
        format: 2,
        sha256: "ab".repeat(32),
        size: 1 << 40,
        uncompressed: 1 << 41,
        entries: 7,
        index_sha256: Some("cd".repeat(32)),
        parts: Vec::new(),
    }
}

pub(crate) async fn a_record_is_saved_with_the_key_it_is_of(harness: &Harness) {
    let (store, epoch) = (&harness.store, harness.leader().await);
    let ann = harness.user("ann").await;
    let read = harness.workspace(ann.id, Desired::Archived).await;
    let key = ArchiveKey::of(read.id, op_id());
    let mut next = read.status.clone();
    (next.archive_key, next.home.truth) = (Some(key), Truth::Archive);
    let save = async |epoch, read, record: &ArchiveRecord| {
        store.workspace_save_archived(epoch, read, &next, &[], Some(record)).await.unwrap()
    };
    assert_eq!(store.archive_record(key).await.unwrap(), None);
    // A save that does not happen records nothing.
    let fenced = codehub_domain::Epoch(epoch.0 - 1);
    assert_eq!(save(fenced, &read, &record(key)).await, Saved::Fenced);
    let stale = codehub_domain::Workspace { revision: read.revision + 7, ..read.clone() };
    assert_eq!(save(epoch, &stale, &record(key)).await, Saved::Changed);
    assert_eq!(store.archive_record(key).await.unwrap(), None);
    assert!(matches!(save(epoch, &read, &record(key)).await, Saved::Saved(_)));
    assert_eq!(store.archive_record(key).await.unwrap(), Some(record(key)));
    assert_eq!(store.archive_keys().await.unwrap(), [key]);
    // What has just been packed is right, whatever was adopted under its key.
    let packed = ArchiveRecord { sha256: "ef".repeat(32), index_sha256: None, ..record(key) };
    let read = store.workspace_get(read.id).await.unwrap().unwrap();
    assert!(matches!(save(epoch, &read, &packed).await, Saved::Saved(_)));
    assert_eq!(store.archive_record(key).await.unwrap(), Some(packed));
}

pub(crate) async fn adopting_is_done_once_and_written_down(harness: &Harness) {
    let (store, epoch) = (&harness.store, harness.leader().await);
    let ann = harness.user("ann").await;
    let workspace = harness.workspace(ann.id, Desired::Archived).await;
    let key = ArchiveKey::of(workspace.id, op_id());
    let old = codehub_domain::Epoch(epoch.0 - 1);
    let adopt = async |epoch, record: &ArchiveRecord| store.archive_adopt(by(), epoch, record).await.unwrap();
    assert_eq!(adopt(Some(old), &record(key)).await, Adopted::Fenced);
    let stranger = ArchiveKey::of(workspace_id(), op_id());
    assert_eq!(adopt(Some(epoch), &record(stranger)).await, Adopted::NoWorkspace);
    assert_eq!(store.archive_keys().await.unwrap(), []);
    assert_eq!(adopt(Some(epoch), &record(key)).await, Adopted::Adopted);
    let swapped = ArchiveRecord { sha256: "00".repeat(32), ..record(key) };
    assert_eq!(
        adopt(None, &swapped).await,
        Adopted::Known(record(key)),
        "a record is never changed by adopting"
    );
    let other = ArchiveKey::of(workspace.id, op_id());
    assert_eq!(adopt(None, &record(other)).await, Adopted::Adopted, "an operator needs no epoch");
    let filter =
        AuditFilter { action: Some(AuditAction::ArchiveAdopted), limit: 9, ..AuditFilter::default() };
    assert_eq!(store.audit_list(&filter).await.unwrap().items.len(), 2);
}

pub(crate) async fn what_is_claimed_has_no_record_and_gets_none(harness: &Harness) {
    let (store, epoch) = (&harness.store, harness.leader().await);
    let ann = harness.user("ann").await;
    let workspace = harness.workspace(ann.id, Desired::Archived).await;
    let key = ArchiveKey::of(workspace.id, op_id());
    assert_eq!(store.archive_adopt(by(), None, &record(key)).await.unwrap(), Adopted::Adopted);
    assert_eq!(store.gc_claim(epoch, Item::Archive(key)).await.unwrap(), GcClaim::Claimed);
    assert_eq!(store.archive_record(key).await.unwrap(), None);
    assert_eq!(store.archive_adopt(by(), Some(epoch), &record(key)).await.unwrap(), Adopted::BeingDeleted);
    // One that is somebody's home keeps its record.
    let kept = ArchiveKey::of(workspace.id, op_id());
    let mut next = workspace.status.clone();
    (next.archive_key, next.home.truth) = (Some(kept), Truth::Archive);
    store.workspace_save_archived(epoch, &workspace, &next, &[], Some(&record(kept))).await.unwrap();
    assert_eq!(store.gc_claim(epoch, Item::Archive(kept)).await.unwrap(), GcClaim::InUse);
    assert_eq!(store.archive_record(kept).await.unwrap(), Some(record(kept)));
}

/// The oldest object is needed by the newest archive, the one between by nobody.
pub(crate) async fn an_object_with_parts_of_another_archive_stays(harness: &Harness) {
    let (store, epoch) = (&harness.store, harness.leader().await);
    let ann = harness.user("ann").await;
    let mut read = harness.workspace(ann.id, Desired::Archived).await;
    let [first, second, third] = [(); 3].map(|()| ArchiveKey::of(read.id, op_id()));
    for (key, parts) in [(first, vec![]), (second, vec![first.op]), (third, vec![first.op])] {
        let mut next = read.status.clone();
        (next.archive_key, next.home.truth) = (Some(key), Truth::Archive);
        let record = ArchiveRecord { format: 3, parts, ..record(key) };
        let saved = store.workspace_save_archived(epoch, &read, &next, &[], Some(&record)).await.unwrap();
        assert!(matches!(saved, Saved::Saved(_)), "{saved:?}");
        assert_eq!(store.archive_record(key).await.unwrap(), Some(record));
        read = store.workspace_get(read.id).await.unwrap().unwrap();
    }
    let parts = store.archive_parts().await.unwrap();
    assert_eq!(parts, [(second, [first.op].into()), (third, [first.op].into())].into());
    let claim = async |key| store.gc_claim(epoch, Item::Archive(key)).await.unwrap();
    assert_eq!(claim(third).await, GcClaim::InUse, "it is the home");
    for _ in 0..2 {
        assert_eq!(claim(first).await, GcClaim::HoldsParts);
        assert_eq!(store.archive_record(first).await.unwrap(), None, "nobody goes back to it");
    }
    // What is built upon the last archive may have parts where that has.
    let fourth = ArchiveKey::of(read.id, op_id());
    let mut next = read.status.clone();
    next.archive_key = Some(fourth);
    let with = |parts| ArchiveRecord { format: 3, parts, ..record(fourth) };
    assert_eq!(claim(second).await, GcClaim::Claimed);
    let gone = with(vec![first.op, second.op]);
    let refused = store.workspace_save_archived(epoch, &read, &next, &[], Some(&gone)).await;
    assert!(refused.is_err(), "a part that may be gone: {refused:?}");
    assert_eq!(store.archive_record(fourth).await.unwrap(), None);
    assert_eq!(store.archive_adopt(by(), None, &gone).await.unwrap(), Adopted::BeingDeleted);
    let kept = with(vec![third.op, first.op]);
    let saved = store.workspace_save_archived(epoch, &read, &next, &[], Some(&kept)).await.unwrap();
    assert!(matches!(saved, Saved::Saved(_)), "{saved:?}");
    assert_eq!(claim(third).await, GcClaim::HoldsParts);
    assert_eq!(claim(first).await, GcClaim::HoldsParts, "the fourth still has parts in it");
}
