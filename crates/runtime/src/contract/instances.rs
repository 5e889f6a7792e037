//! The instances port.

use codehub_domain::{
    ErrorReason, Failure, Generation,
    observed::{EndedBy, InstanceState},
};
use codehub_testing::eventually;

use super::{Harness, closed, next};
use crate::{Among, Fence, InstanceSpec, Known, RuntimeError};

pub(crate) async fn every_call_can_be_repeated(harness: &Harness) {
    let (instances, spec) = (&harness.instances, harness.spec());
    let id = spec.workspace;
    instances.ping().await.unwrap();
    instances.stop(id).await.unwrap();
    assert_eq!(instances.status(id).await.unwrap(), None);
    assert_eq!(instances.upstream(id).await.unwrap(), None);
    let error = instances.start(&spec, &Fence::open()).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::Failed(text) if text.contains("does not exist")), "{error}");
    harness.volumes.create(&spec.volume, 0).await.unwrap();
    for _ in 0..3 {
        instances.start(&spec, &Fence::open()).await.unwrap();
    }
    harness.until_ready(id).await;
    let first = instances.upstream(id).await.unwrap().map(|upstream| upstream.instance);
    instances.start(&spec, &Fence::open()).await.unwrap();
    let second = instances.upstream(id).await.unwrap().map(|upstream| upstream.instance);
    assert_eq!(first, second, "still the same one");
    for _ in 0..2 {
        instances.stop(id).await.unwrap();
        assert_eq!(instances.status(id).await.unwrap(), None);
    }
}

/// Read-your-writes, in the process that wrote and in any other.
pub(crate) async fn what_was_done_is_seen_by_everybody(harness: &Harness) {
    let other = harness.world.another().await;
    let spec = harness.at_rest().await;
    let id = spec.workspace;
    harness.instances.start(&spec, &Fence::open()).await.unwrap();
    for instances in [&harness.instances, &other] {
        let seen = instances.status(id).await;
        // A program that is only just beginning may keep its asker waiting, but it is there.
        assert!(!matches!(seen, Ok(None)), "{seen:?}");
        let listed = instances.list(Among::All(&[])).await.unwrap();
        let ours: Vec<_> = listed.iter().filter(|listed| listed.workspace == id).collect();
        assert!(matches!(&ours[..], [one] if one.instance.generation == Generation(1)), "{listed:?}");
        assert!(!matches!(ours[0].instance.state, InstanceState::Ended { .. }), "{listed:?}");
    }
    harness.instances.stop(id).await.unwrap();
    for instances in [&harness.instances, &other] {
        assert_eq!(instances.status(id).await.unwrap(), None);
        assert_eq!(instances.upstream(id).await.unwrap(), None);
        assert!(instances.list(Among::All(&[])).await.unwrap().iter().all(|listed| listed.workspace != id));
    }
}

/// Of those that are asked for, and of all there are.
pub(crate) async fn a_listing_is_about_what_was_asked_for(harness: &Harness) {
    let (first, second) = (harness.running().await, harness.running().await);
    let nobody = harness.spec();
    let known = |spec: &InstanceSpec| Known { workspace: spec.workspace, there: true, under_way: false };
    let listed = async |among: Among<'_>| {
        let listed = harness.instances.list(among).await.unwrap();
        let mut ids: Vec<_> = listed.iter().map(|listed| listed.workspace).collect();
        ids.sort();
        ids
    };
    assert_eq!(listed(Among::Known(&[])).await, []);
    assert_eq!(listed(Among::Known(&[known(&first)])).await, [first.workspace]);
    assert_eq!(listed(Among::Known(&[known(&nobody)])).await, []);
    assert_eq!(listed(Among::Known(&[known(&nobody), known(&second)])).await, [second.workspace]);
    let both = [first.workspace, second.workspace];
    assert_eq!(listed(Among::All(&[known(&second)])).await, both);
    harness.instances.stop(first.workspace).await.unwrap();
    assert_eq!(listed(Among::Known(&[known(&first), known(&second)])).await, [second.workspace]);
    harness.instances.stop(second.workspace).await.unwrap();
}

/// A request that comes after its leader was replaced.
pub(crate) async fn a_closed_fence_starts_nothing(harness: &Harness) {
    let spec = harness.at_rest().await;
    let error = harness.instances.start(&spec, &closed()).await.unwrap_err();
    assert_eq!(Failure::from(error).reason, ErrorReason::Unreachable, "nothing is wrong with the workspace");
    let state = harness.state(spec.workspace).await;
    let runs = matches!(state, Some(InstanceState::Ready | InstanceState::Alive | InstanceState::Waiting(_)));
    assert!(!runs, "{state:?}");
    harness.instances.start(&spec, &Fence::open()).await.unwrap();
    harness.until_ready(spec.workspace).await;
    harness.instances.stop(spec.workspace).await.unwrap();
}

pub(crate) async fn many_starts_at_once_are_one(harness: &Harness) {
    let other = harness.world.another().await;
    let (spec, open) = (harness.at_rest().await, Fence::open());
    let starts = (0..6).map(|n| {
        let instances = if n % 2 == 0 { &harness.instances } else { &other };
        instances.start(&spec, &open)
    });
    let started = futures::future::join_all(starts).await;
    assert!(started.iter().any(Result::is_ok), "{started:?}");
    harness.until_ready(spec.workspace).await;
    let listed = harness.instances.list(Among::All(&[])).await.unwrap();
    assert_eq!(listed.iter().filter(|listed| listed.workspace == spec.workspace).count(), 1);
    let tags = futures::future::join_all([&harness.instances, &other].map(|it| it.upstream(spec.workspace)));
    let tags: Vec<_> =
        tags.await.into_iter().map(|it| it.unwrap().map(|upstream| upstream.instance)).collect();
    assert_eq!(tags[0], tags[1], "both see the same one");
    harness.instances.stop(spec.workspace).await.unwrap();
}

/// Another process takes over what runs; what runs on another home is never joined by a second one.
pub(crate) async fn what_runs_is_adopted_or_ended(harness: &Harness) {
    let spec = harness.running().await;
    let id = spec.workspace;
    let before = harness.instances.upstream(id).await.unwrap().map(|upstream| upstream.instance);
    let other = harness.world.another().await;
    other.start(&spec, &Fence::open()).await.unwrap();
    let after = other.upstream(id).await.unwrap().map(|upstream| upstream.instance);
    assert_eq!(before, after, "adopted");
    let moved = InstanceSpec { volume: next(&spec.volume), ..spec.clone() };
    harness.volumes.create(&moved.volume, 0).await.unwrap();
    let started = other.start(&moved, &Fence::open()).await;
    let listed = other.list(Among::All(&[])).await.unwrap();
    let runs_on: Vec<Generation> = listed
        .iter()
        .filter(|listed| listed.workspace == id)
        .map(|listed| listed.instance.generation)
        .collect();
    let expected = if started.is_ok() { moved.generation() } else { spec.generation() };
    assert_eq!(runs_on, [expected], "{started:?}");
    other.stop(id).await.unwrap();
    assert_eq!(harness.instances.status(id).await.unwrap(), None);
}

pub(crate) async fn what_ended_is_told_and_replaced(harness: &Harness) {
    let spec = harness.running().await;
    let id = spec.workspace;
    let before = harness.instances.upstream(id).await.unwrap().map(|upstream| upstream.instance);
    harness.world.kill(id).await;
    eventually("its end is told", async || {
        matches!(harness.instances.status(id).await, Ok(Some(it)) if matches!(it.state, InstanceState::Ended { .. }))
    })
    .await;
    let state = harness.state(id).await;
    let Some(InstanceState::Ended { by, how }) = state else { panic!("{state:?}") };
    assert_eq!(by, EndedBy::Program, "{how}");
    assert!(!how.is_empty());
    assert_eq!(harness.instances.upstream(id).await.unwrap(), None, "nobody is sent there");
    harness.instances.start(&spec, &Fence::open()).await.unwrap();
    harness.until_ready(id).await;
    let after = harness.instances.upstream(id).await.unwrap().map(|upstream| upstream.instance);
    assert!(before.is_none() || before != after, "another instance");
    harness.instances.stop(id).await.unwrap();
}

pub(crate) async fn not_knowing_is_an_error(harness: &Harness) {
    let spec = harness.running().await;
    let id = spec.workspace;
    if harness.world.cut_off(id, true).await {
        assert!(harness.instances.status(id).await.is_err());
        assert!(harness.instances.list(Among::All(&[])).await.is_err());
        assert!(harness.world.cut_off(id, false).await);
    }
    eventually("it is seen again", async || {
        matches!(harness.instances.status(id).await, Ok(Some(it)) if it.state == InstanceState::Ready)
    })
    .await;
    harness.instances.stop(id).await.unwrap();
}
