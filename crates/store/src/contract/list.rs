//! Reading many.

use codehub_domain::{ArchiveKey, ArchiveRecord, Desired, Phase, Truth, limits::Limits};

use super::{Created, Harness, new_workspace, op_id, workspace_id};
use crate::{Edit, ListFilter, ListOrder, Page, Saved, fake::by};

fn all() -> ListFilter {
    ListFilter { limit: 100, ..ListFilter::default() }
}

async fn named(harness: &Harness, owner: codehub_domain::UserId, name: &str) -> codehub_domain::WorkspaceId {
    match harness.create(new_workspace(owner, name, Desired::Standby), Limits::NONE).await {
        Created::Created(workspace) => workspace.id,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn newest_first_in_pages(harness: &Harness) {
    let user = harness.user("ann").await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(named(harness, user.id, &format!("w{n}")).await);
    }
    ids.reverse();
    let mut filter = ListFilter { limit: 3, ..all() };
    let mut seen = Vec::new();
    loop {
        let page = harness.store.workspace_list(&filter).await.unwrap();
        assert_eq!(page.total, Some(7), "the total does not depend on the page");
        seen.extend(page.items.iter().map(|workspace| workspace.id));
        assert_eq!(page.more, seen.len() < 7);
        if !page.more {
            break;
        }
        filter.before = seen.last().copied();
    }
    assert_eq!(seen, ids);
    let none = harness.store.workspace_list(&ListFilter { limit: 0, ..all() }).await.unwrap();
    assert_eq!((none.items.len(), none.more, none.total), (0, true, Some(7)));
}

/// What each order puts first, over pages, and that it is the same for everybody who looks.
pub(crate) async fn lists_have_an_order(harness: &Harness) {
    let (bob, ann, epoch) = (harness.user("bob").await, harness.user("Ann").await, harness.leader().await);
    let oldest = named(harness, bob.id, "Zebra").await;
    let large = named(harness, ann.id, "mule").await;
    let running = named(harness, bob.id, "ant").await;
    let newest = named(harness, ann.id, "bee").await;
    harness.put(epoch, running, |status| status.phase = Phase::Running).await;
    let read = harness.store.workspace_get(large).await.unwrap().unwrap();
    let key = ArchiveKey::of(large, op_id());
    let mut next = read.status.clone();
    (next.archive_key, next.home.truth) = (Some(key), Truth::Archive);
    let record = ArchiveRecord {
        key,
        format: 2,
        sha256: "ab".repeat(32),
        size: 10,
        uncompressed: 1 << 41,
        entries: 7,
        index_sha256: None,
        parts: Vec::new(),
    };
    let saved = harness.store.workspace_save_archived(epoch, &read, &next, &[], Some(&record)).await.unwrap();
    assert!(matches!(saved, Saved::Saved(_)), "{saved:?}");
    let sizes = harness.store.home_sizes(&[large, oldest, workspace_id()]).await.unwrap();
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [(large, 1 << 41)]);
    for (order, expected) in [
        (ListOrder::Newest, [newest, running, large, oldest]),
        (ListOrder::Used, [running, newest, large, oldest]),
        (ListOrder::Name, [running, newest, large, oldest]),
        (ListOrder::Size, [large, newest, running, oldest]),
        (ListOrder::Owner, [newest, large, running, oldest]),
    ] {
        let mut seen = Vec::new();
        for skip in 0..4 {
            let filter = ListFilter { order, skip, limit: 1, ..all() };
            let page = harness.store.workspace_list(&filter).await.unwrap();
            assert_eq!((page.more, page.total), (skip < 3, Some(4)), "{order:?}");
            seen.extend(page.items.iter().map(|found| found.id));
        }
        assert_eq!(seen, expected, "{order:?}");
        let beyond = harness.store.workspace_list(&ListFilter { order, skip: 9, ..all() }).await.unwrap();
        assert_eq!((beyond.items.len(), beyond.more, beyond.total), (0, false, Some(4)));
    }
}

pub(crate) async fn the_latest_of_all_histories(harness: &Harness) {
    let (ann, epoch) = (harness.user("ann").await, harness.leader().await);
    let one = harness.workspace(ann.id, Desired::Running).await;
    let two = harness.workspace(ann.id, Desired::Running).await;
    harness.put(epoch, one.id, |status| status.phase = Phase::Running).await;
    let latest = harness.store.history_latest(100).await.unwrap();
    let mut own = Vec::new();
    for id in [one.id, two.id] {
        let page = harness.store.workspace_history(id, None, 100).await.unwrap();
        own.extend(page.items.into_iter().map(|entry| (id, entry)));
    }
    own.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.id));
    assert!(own.len() > 1);
    assert_eq!(latest, own, "everybody's, newest first");
    assert_eq!(harness.store.history_latest(1).await.unwrap(), own[..1]);
}

pub(crate) async fn descriptions_are_searched(harness: &Harness) {
    let user = harness.user("ann").await;
    let id = named(harness, user.id, "plain").await;
    let found = async |query: &str| {
        let filter = ListFilter { query: Some(query.into()), ..all() };
        harness.store.workspace_list(&filter).await.unwrap().total
    };
    assert_eq!(found("WHAT it is").await, Some(1), "what it was made with");
    let edit = Edit { description: Some("Über die Gezeiten".into()), ..Edit::default() };
    harness.store.workspace_edit(by(), id, edit).await.unwrap().unwrap();
    assert_eq!(
        (found("what it is").await, found("üBER").await, found("plai").await),
        (Some(0), Some(1), Some(1))
    );
}

pub(crate) async fn filters_combine(harness: &Harness) {
    let (ann, bob, epoch) = (harness.user("ann").await, harness.user("bob").await, harness.leader().await);
    let running = named(harness, ann.id, "api").await;
    named(harness, ann.id, "api two").await;
    let other = named(harness, bob.id, "api").await;
    harness.put(epoch, running, |status| status.phase = Phase::Running).await;
    harness.put(epoch, other, |status| status.phase = Phase::Running).await;
    let count =
        async |filter: ListFilter| harness.store.workspace_list(&filter).await.unwrap().total.unwrap();
    assert_eq!(count(all()).await, 3);
    assert_eq!(count(ListFilter { owner: Some(ann.id), ..all() }).await, 2);
    assert_eq!(count(ListFilter { phase: Some(Phase::Running), ..all() }).await, 2);
    let filter =
        ListFilter { owner: Some(ann.id), phase: Some(Phase::Running), query: Some("API".into()), ..all() };
    let page = harness.store.workspace_list(&filter).await.unwrap();
    assert_eq!(page.items.iter().map(|found| found.id).collect::<Vec<_>>(), [running]);
    assert_eq!(count(ListFilter { owner: Some(super::user_id()), ..all() }).await, 0);
}

/// No wildcards, no quoting, any alphabet.
pub(crate) async fn the_query_is_a_plain_substring(harness: &Harness) {
    let user = harness.user("ann").await;
    for name in ["100% done", "under_score", "Straße ÄÖÜ", "back\\slash", "plain 'quoted'", "ПРИВЕТ"]
    {
        named(harness, user.id, name).await;
    }
    for (query, expected) in [
        ("", 6),
        ("%", 1),
        ("_", 1),
        ("\\", 1),
        ("'", 1),
        ("0% d", 1),
        ("ÄöÜ", 1),
        ("привет", 1),
        ("PLAIN", 1),
        ("nothing", 0),
    ] {
        let filter = ListFilter { query: Some(query.into()), ..all() };
        assert_eq!(harness.store.workspace_list(&filter).await.unwrap().total, Some(expected), "{query:?}");
    }
}

pub(crate) async fn many_are_read_at_once(harness: &Harness) {
    let user = harness.user("ann").await;
    let one = harness.workspace(user.id, Desired::Running).await;
    let two = harness.workspace(user.id, Desired::Running).await;
    let found = harness.store.workspaces_get(&[two.id, workspace_id(), one.id, two.id]).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&one) && found.contains(&two));
    assert_eq!(harness.store.workspaces_get(&[]).await.unwrap(), []);
    assert_eq!(harness.store.workspace_get(workspace_id()).await.unwrap(), None);
    let users = harness.store.users_get(&[user.id, super::user_id()]).await.unwrap();
    assert_eq!((users.len(), &users[&user.id]), (1, &user));
}

pub(crate) async fn counts_by_phase(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    for phase in [Phase::Pending, Phase::Running, Phase::Running, Phase::Archived] {
        let made = harness.workspace(user.id, Desired::Running).await;
        harness.put(epoch, made.id, |status| status.phase = phase).await;
    }
    let gone = harness.workspace(user.id, Desired::Running).await;
    harness.ask(gone.id, Desired::Deleted).await;
    let counts = harness.store.workspace_counts().await.unwrap();
    let expected = [(Phase::Pending, 1), (Phase::Archived, 1), (Phase::Running, 2)];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
}

/// A list among very many costs a page, not a count.
pub(crate) async fn only_so_many_are_counted(harness: &Harness) {
    let user = harness.user("ann").await;
    let counted = Page::<()>::COUNTED;
    for _ in 0..counted {
        named(harness, user.id, "one of many").await;
    }
    let list = async || harness.store.workspace_list(&ListFilter { limit: 2, ..all() }).await.unwrap();
    assert_eq!(list().await.total, Some(counted.into()));
    named(harness, user.id, "one more").await;
    let page = list().await;
    assert_eq!((page.items.len(), page.more, page.total), (2, true, None));
    let filter = ListFilter { query: Some("one more".into()), ..all() };
    assert_eq!(harness.store.workspace_list(&filter).await.unwrap().total, Some(1));
}
