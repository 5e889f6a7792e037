//! What workspaces are sorted and called by.

use crate::fake::by;
use std::collections::{BTreeMap, BTreeSet};

use codehub_domain::{Desired, UserId, Workspace, labels::Labels, limits::Limits};

use super::{Change, Created, Harness, new_workspace};
use crate::{Edit, ListFilter};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let map: BTreeMap<_, _> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    map.try_into().unwrap()
}

async fn labelled(harness: &Harness, owner: UserId, name: &str, pairs: &[(&str, &str)]) -> Workspace {
    let mut new = new_workspace(owner, name, Desired::Standby);
    new.labels = labels(pairs);
    match harness.create(new, Limits::NONE).await {
        Created::Created(workspace) => *workspace,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn labels_are_kept_and_edited_whole(harness: &Harness) {
    let user = harness.user("ann").await;
    let made = labelled(harness, user.id, "api", &[("team", "Grüße, 'Welt'"), ("a.b/c_d-1", "")]).await;
    assert_eq!(harness.get(made.id).await, made);
    let mut changes = harness.changes().await;
    let other = Edit { memo: Some("new".into()), ..Edit::default() };
    let kept = harness.store.workspace_edit(by(), made.id, other).await.unwrap().unwrap();
    assert_eq!(kept.labels, made.labels);
    harness.drain(&mut changes).await;
    let edit = Edit { labels: Some(labels(&[("team", "web")])), ..Edit::default() };
    let after = harness.store.workspace_edit(by(), made.id, edit).await.unwrap().unwrap();
    assert_eq!(after.labels, labels(&[("team", "web")]));
    assert_eq!(harness.get(made.id).await, after);
    let updated = Change::Updated { workspace: made.id, owner: user.id };
    assert_eq!(harness.drain(&mut changes).await, [updated], "people see labels");
}

pub(crate) async fn lists_are_filtered_by_label(harness: &Harness) {
    let (ann, bob) = (harness.user("ann").await, harness.user("bob").await);
    let api = labelled(harness, ann.id, "api", &[("team", "api"), ("tier", "1")]).await;
    let web = labelled(harness, ann.id, "web", &[("team", "web:2")]).await;
    let other = labelled(harness, bob.id, "other", &[("team", "api")]).await;
    labelled(harness, ann.id, "none", &[]).await;
    for (filter, expected) in [
        ("team", vec![other.id, web.id, api.id]),
        ("team:api", vec![other.id, api.id]),
        ("team:web:2", vec![web.id]),
        ("tier", vec![api.id]),
        ("team:ap", vec![]),
        ("api", vec![]),
    ] {
        let filter = ListFilter { label: Some(filter.parse().unwrap()), limit: 9, ..ListFilter::default() };
        let page = harness.store.workspace_list(&filter).await.unwrap();
        let found: Vec<_> = page.items.iter().map(|found| found.id).collect();
        assert_eq!(found, expected, "{filter:?}");
        assert_eq!(page.total, Some(expected.len() as u64));
        let own = ListFilter { owner: Some(bob.id), before: Some(other.id), ..filter };
        assert_eq!(harness.store.workspace_list(&own).await.unwrap().items, []);
    }
}

pub(crate) async fn slugs_are_made_from_names(harness: &Harness) {
    let (ann, bob) = (harness.user("ann").await, harness.user("bob").await);
    let first = labelled(harness, ann.id, "My API", &[]).await;
    assert_eq!(first.slug, "my-api");
    assert_eq!(labelled(harness, ann.id, "my api!", &[]).await.slug, "my-api-2");
    assert_eq!(labelled(harness, ann.id, "my", &[]).await.slug, "my");
    assert_eq!(labelled(harness, bob.id, "My API", &[]).await.slug, "my-api", "everybody has their own");
    let long = "a".repeat(60);
    assert_eq!(labelled(harness, ann.id, &long, &[]).await.slug, "a".repeat(40));
    assert_eq!(labelled(harness, ann.id, &long, &[]).await.slug, format!("{}-2", "a".repeat(38)));
    // It outlives the name, and is free again once its workspace is deleted.
    let edit = Edit { name: Some("other".into()), ..Edit::default() };
    let renamed = harness.store.workspace_edit(by(), first.id, edit).await.unwrap().unwrap();
    assert_eq!(renamed.slug, "my-api");
    harness.ask(first.id, Desired::Deleted).await;
    assert_eq!(labelled(harness, ann.id, "My API", &[]).await.slug, "my-api");
}

pub(crate) async fn many_creations_at_once_have_slugs_of_their_own(harness: &Harness) {
    let user = harness.user("ann").await;
    let creating = (0..20).map(|_| labelled(harness, user.id, "same", &[]));
    let made = futures::future::join_all(creating).await;
    let slugs: BTreeSet<_> = made.iter().map(|workspace| workspace.slug.as_str()).collect();
    assert_eq!(slugs.len(), 20, "{slugs:?}");
    assert!(slugs.contains("same") && slugs.contains("same-20"), "{slugs:?}");
}
