//! Leadership, settings, the clock, and the collector's memory.

use std::{collections::BTreeMap, time::Duration};

use codehub_domain::{ArchiveKey, Desired, Epoch, Generation, Status, Truth, gc::Item};

use super::{Harness, op_id, seconds_before, workspace_id};
use crate::{BackendPart, ReplicaNote, Saved};

pub(crate) async fn epochs_grow_and_fence(harness: &Harness) {
    let store = &harness.store;
    assert!(!store.epoch_is_current(Epoch(1)).await.unwrap());
    let first = store.epoch_take("one").await.unwrap();
    assert!(store.epoch_is_current(first).await.unwrap());
    let second = store.epoch_take("two").await.unwrap();
    assert_eq!(second.0, first.0 + 1);
    assert!(!store.epoch_is_current(first).await.unwrap());
    assert!(store.epoch_is_current(second).await.unwrap());
}

pub(crate) async fn settings_are_kept_and_the_first_one_wins(harness: &Harness) {
    let store = &harness.store;
    assert_eq!(store.setting_get("a").await.unwrap(), None);
    store.setting_put("a", "1").await.unwrap();
    store.setting_put("a", "2").await.unwrap();
    assert_eq!(store.setting_get("a").await.unwrap().as_deref(), Some("2"));
    assert_eq!(store.setting_init("a", "3").await.unwrap(), "2");
    store.setting_delete("a").await.unwrap();
    store.setting_delete("a").await.unwrap();
    assert_eq!(store.setting_get("a").await.unwrap(), None);

    let racers = (0..20).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.setting_init("secret", &n.to_string()).await.unwrap() })
    });
    let kept: Vec<String> =
        futures::future::join_all(racers).await.into_iter().map(|kept| kept.unwrap()).collect();
    assert!(kept.iter().all(|value| *value == kept[0]), "{kept:?}");
    assert_eq!(store.setting_get("secret").await.unwrap().as_ref(), Some(&kept[0]));
}

pub(crate) async fn replicas_are_seen_until_they_leave(harness: &Harness) {
    let store = &harness.store;
    let note = |name: &str| ReplicaNote { name: name.into(), version: "1".into(), role: "all".into() };
    store.replica_note(&note("a")).await.unwrap();
    harness.pass(60).await;
    store.replica_note(&note("b")).await.unwrap();
    let (now, seen) = store.replicas().await.unwrap();
    assert_eq!(seen.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(!seen[0].is_there(now) && seen[1].is_there(now), "one was silent for a minute");
    store.replica_note(&note("a")).await.unwrap();
    let (now, seen) = store.replicas().await.unwrap();
    assert!(seen[0].is_there(now) && seen[0].started_at < seen[1].started_at && seen[0].seen_at <= now);
    harness.pass(25 * 3600).await;
    store.replica_note(&note("c")).await.unwrap();
    assert_eq!(store.replicas().await.unwrap().1.len(), 1, "forgotten after a day");
    store.replica_leave("c").await.unwrap();
    assert!(store.replicas().await.unwrap().1.is_empty());
}

pub(crate) async fn what_a_replica_has_told_only_grows(harness: &Harness) {
    let store = &harness.store;
    let flushed = |ago| store.replica_flushed("a", Duration::from_secs(ago));
    let told = || async { store.replicas().await.unwrap().1[0].flushed_at };
    flushed(0).await.unwrap();
    assert!(store.replicas().await.unwrap().1.is_empty(), "whoever is not noted notes nothing");
    let note = ReplicaNote { name: "a".into(), version: "1".into(), role: "all".into() };
    store.replica_note(&note).await.unwrap();
    assert_eq!(
        told().await,
        store.replicas().await.unwrap().1[0].started_at,
        "it began with nothing to tell"
    );
    harness.pass(60).await;
    flushed(10).await.unwrap();
    let first = told().await;
    assert!(first < seconds_before(store.now().await.unwrap(), 9));
    flushed(20).await.unwrap();
    assert_eq!(told().await, first, "an answer that came late");
    flushed(0).await.unwrap();
    assert!(told().await > first);
    store.replica_note(&note).await.unwrap();
    assert!(told().await > first, "a sign of life changes nothing about it");
}

pub(crate) async fn the_clock_answers(harness: &Harness) {
    let store = &harness.store;
    let before = store.now().await.unwrap();
    let user = harness.user("ann").await;
    let workspace = harness.workspace(user.id, Desired::Standby).await;
    let after = store.now().await.unwrap();
    assert!(before <= user.created_at && user.created_at <= workspace.created_at);
    assert!(workspace.created_at <= after);
    assert!(!store.kind().is_empty());
}

pub(crate) async fn sightings_are_replaced_as_a_whole(harness: &Harness) {
    let store = &harness.store;
    let (now, epoch) = (store.now().await.unwrap(), harness.leader().await);
    let archive = Item::Archive(ArchiveKey::of(workspace_id(), op_id()));
    let volume = Item::Volume { workspace: workspace_id(), generation: Generation(7) };
    let first = BTreeMap::from([(archive, now), (volume, seconds_before(now, 60))]);
    assert!(store.gc_sightings_replace(epoch, &first).await.unwrap());
    assert_eq!(store.gc_sightings().await.unwrap(), first);
    let second = BTreeMap::from([(volume, now)]);
    assert!(store.gc_sightings_replace(epoch, &second).await.unwrap());
    assert_eq!(store.gc_sightings().await.unwrap(), second);

    let user = harness.user("ann").await;
    let kept = harness.workspace(user.id, Desired::Standby).await;
    let gone = harness.workspace(user.id, Desired::Standby).await;
    let key = ArchiveKey::of(kept.id, op_id());
    let kept = harness
        .put(epoch, kept.id, |status| {
            status.archive_key = Some(key);
            status.op_id = Some(key.op);
            status.home.truth = Truth::Archive;
            status.home.generation = Generation(3);
        })
        .await;
    harness.ask(gone.id, Desired::Deleted).await;
    let rows = store.gc_rows().await.unwrap();
    assert_eq!(rows.len(), 2);
    let row = rows.iter().find(|row| row.id == kept.id).unwrap();
    assert_eq!((row.archive_key, row.op_id), (Some(key), Some(key.op)));
    assert_eq!((row.truth, row.generation, row.deleted), (Truth::Archive, Generation(3), false));
    assert!(rows.iter().find(|row| row.id == gone.id).unwrap().deleted);
}

pub(crate) async fn a_backend_is_renamed_with_its_rows(harness: &Harness) {
    let (user, epoch, store) = (harness.user("ann").await, harness.leader().await, &harness.store);
    let mut rows = Vec::new();
    for (instances, storage) in [("docker", "docker"), ("other", ""), ("", "docker")] {
        let id = harness.workspace(user.id, Desired::Running).await.id;
        let stamp = |status: &mut Status| {
            status.instance_backend = instances.into();
            status.storage_backend = storage.into();
        };
        rows.push(harness.put(epoch, id, stamp).await);
    }
    let named = async || {
        let mut names = Vec::new();
        for row in &rows {
            let status = harness.get(row.id).await.status;
            names.push(format!("{}/{}", status.instance_backend, status.storage_backend));
        }
        names
    };
    use BackendPart::{Instances, Storage};
    // Called like its kind, as before: nothing to do.
    assert_eq!(store.backend_named(Instances, "docker", "docker").await.unwrap(), 0);
    assert_eq!(store.backend_named(Instances, "docker", "docker-1").await.unwrap(), 1);
    assert_eq!(store.backend_named(Storage, "docker", "docker-1").await.unwrap(), 2);
    assert_eq!(named().await, ["docker-1/docker-1", "other/", "/docker-1"]);
    assert_eq!(store.backend_named(Storage, "docker", "docker-1").await.unwrap(), 0);
    // Whoever has read the old name may not write it back.
    let late = store.workspace_save(epoch, &rows[0], &rows[0].status, &[]).await.unwrap();
    assert_eq!(late, Saved::Changed);
    // Homes on another kind of backend do not become this one's.
    assert_eq!(store.backend_named(Storage, "directory", "here").await.unwrap(), 0);
    assert_eq!(store.backend_named(Storage, "docker", "docker-2").await.unwrap(), 0);
    assert_eq!(named().await, ["docker-1/docker-1", "other/", "/docker-1"]);
}
