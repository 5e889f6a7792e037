//! What was done is written with the act, or not at all.

use codehub_domain::{
    Desired,
    audit::{
        Act, ActorKind, AuditAction, AuditActor, AuditEntry, AuditEvent, AuditObject, AuditOutcome,
        OPENED_SECONDS,
    },
    event::{Actor, Reason},
    limits::Limits,
    recovery::Recovery,
    user::Role,
};

use super::{Harness, new_workspace, session_id, token_id, user_id};
use crate::{ActorFilter, AuditFilter, Edit, SessionEnd, UserChange, UserEdit, fake::by};

impl Harness {
    async fn audit(&self, filter: AuditFilter) -> Vec<AuditEvent> {
        self.store.audit_list(&AuditFilter { limit: 200, ..filter }).await.unwrap().items
    }

    /// Every action so far, oldest first.
    async fn trail(&self) -> Vec<String> {
        let mut events = self.audit(AuditFilter::default()).await;
        events.reverse();
        events.into_iter().map(|event| event.action).collect()
    }

    async fn last(&self) -> AuditEvent {
        self.audit(AuditFilter::default()).await.remove(0)
    }
}

fn stranger(address: &str) -> Act {
    Act::anonymous(address.into(), "curl/8", "request-1", "host:7")
}

pub(crate) async fn every_act_is_written_down_with_it(harness: &Harness) {
    let store = &harness.store;
    let root = store.user_create_first(by(), user_id(), "root", "hash").await.unwrap().unwrap();
    let ann = harness.user("ann").await;
    let session = session_id();
    store.session_create(&stranger("192.0.2.1"), session, ann.id, b"s", 600).await.unwrap();
    let signed_in = harness.last().await;
    assert_eq!(
        signed_in.actor,
        AuditActor::in_session(&ann, session),
        "whoever signs in is known from then on"
    );
    assert_eq!((signed_in.address.as_str(), signed_in.user_agent.as_str()), ("192.0.2.1", "curl/8"));
    assert_eq!((signed_in.request_id.as_str(), signed_in.replica.as_str()), ("request-1", "host:7"));
    let me = stranger("192.0.2.1").by(AuditActor::in_session(&ann, session));
    let token = token_id();
    store.token_create(&me, token, session, "ci", b"t", Some(60)).await.unwrap().unwrap();
    let minted = harness.last().await;
    assert_eq!(minted.object, Some(("token".into(), token.to_string(), "ci".into())));
    let program = stranger("192.0.2.9").by(AuditActor::with_token(&ann, token));
    let new = new_workspace(ann.id, "work", Desired::Standby);
    let id = new.id;
    store.workspace_create(&program, new, Limits::NONE, Actor::User(ann.id)).await.unwrap();
    let created = harness.last().await;
    assert_eq!((created.actor.kind, created.actor.token), (ActorKind::Token, Some(token)));
    let edit = Edit { name: Some("other".into()), memo: Some("private words".into()), ..Edit::default() };
    store.workspace_edit(&me, id, edit).await.unwrap();
    let edited = harness.last().await;
    assert_eq!(edited.before.as_deref(), Some("name: work"));
    assert_eq!(
        edited.after.as_deref(),
        Some("name: other, memo"),
        "what people write into it is not repeated"
    );
    for desired in [Desired::Running, Desired::Running, Desired::Standby, Desired::Archived] {
        let actor = Actor::User(ann.id);
        store.workspace_ask(&me, id, desired, Limits::NONE, actor, &Reason::StateRequested).await.unwrap();
    }
    store.token_delete(&me, ann.id, token).await.unwrap();
    let password = UserEdit { password_hash: Some("argon-secret".into()), ..UserEdit::default() };
    store.user_edit(&me, ann.id, password.clone()).await.unwrap();
    store.user_edit(by(), ann.id, password).await.unwrap();
    let several = UserEdit { disabled: Some(true), role: Some(Role::Admin), ..UserEdit::default() };
    store.user_edit(by(), ann.id, several).await.unwrap();
    store.user_edit(by(), ann.id, UserEdit { disabled: Some(false), ..UserEdit::default() }).await.unwrap();
    let (kept, ended) = (session_id(), session_id());
    for (id, secret) in [(kept, b"1"), (ended, b"2")] {
        store.session_create(&stranger("192.0.2.1"), id, ann.id, secret, 600).await.unwrap();
    }
    store.session_delete(&stranger("192.0.2.1"), ended, SessionEnd::Logout).await.unwrap();
    store.session_delete(by(), kept, SessionEnd::Revoked).await.unwrap();
    store.session_delete(by(), kept, SessionEnd::Revoked).await.unwrap();
    let actor = Actor::Operator;
    store
        .workspace_ask(by(), id, Desired::Deleted, Limits::NONE, actor, &Reason::StateRequested)
        .await
        .unwrap();
    assert!(matches!(store.user_delete(by(), ann.id).await.unwrap(), UserChange::Done(_)));
    let mut trail = harness.trail().await;
    let expected = [
        "user.created",
        "user.created",
        "login.ok",
        "token.minted",
        "workspace.created",
        "workspace.edited",
        "workspace.started",
        "workspace.stopped",
        "workspace.archived",
        "token.deleted",
        "user.password_changed",
        "user.reset",
        "user.disabled",
        "user.edited",
        "user.enabled",
        "login.ok",
        "login.ok",
        "logout",
        "session.revoked",
        "workspace.deleted",
        "user.deleted",
    ];
    // Within a millisecond the order is not kept.
    let mut sorted = expected.map(str::to_owned).to_vec();
    trail.sort();
    sorted.sort();
    assert_eq!(trail, sorted);
    let all = format!("{:?}", harness.audit(AuditFilter::default()).await);
    assert!(!all.contains("argon-secret") && !all.contains("private words"), "{all}");
    let logout =
        harness.audit(AuditFilter { action: Some(AuditAction::Logout), ..AuditFilter::default() }).await;
    assert_eq!(logout[0].actor.name, "ann", "a session is its person's to end");
    assert_eq!(root.username, "root");
}

pub(crate) async fn what_is_refused_or_fails_leaves_no_row(harness: &Harness) {
    let store = &harness.store;
    let root = harness.admin("root").await;
    let before = harness.trail().await.len();
    assert_eq!(
        store.user_create(by(), user_id(), "ROOT", "hash", Role::User).await.unwrap(),
        UserChange::NameTaken
    );
    assert_eq!(store.user_create_first(by(), user_id(), "x", "hash").await.unwrap(), None);
    let disable = UserEdit { disabled: Some(true), ..UserEdit::default() };
    assert_eq!(store.user_edit(by(), root.id, disable).await.unwrap(), UserChange::LastAdmin);
    assert_eq!(store.user_delete(by(), root.id).await.unwrap(), UserChange::LastAdmin);
    assert!(!store.token_delete(by(), root.id, token_id()).await.unwrap());
    store.token_create(by(), token_id(), session_id(), "ci", b"t", None).await.unwrap();
    let new = new_workspace(root.id, "work", Desired::Running);
    let none = Limits { running_per_user: 1, ..Limits::NONE };
    harness.workspace(root.id, Desired::Running).await;
    store.workspace_create(by(), new, none, Actor::Operator).await.unwrap();
    store
        .workspace_create(
            by(),
            new_workspace(user_id(), "w", Desired::Running),
            Limits::NONE,
            Actor::Operator,
        )
        .await
        .unwrap_err();
    let workspace = super::workspace_id();
    store
        .workspace_recover(by(), workspace, Recovery::default(), None, Limits::NONE, Actor::Operator)
        .await
        .unwrap();
    assert_eq!(harness.trail().await.len(), before + 1, "only the workspace that was made");
}

pub(crate) async fn repetitions_are_counted(harness: &Harness) {
    let store = &harness.store;
    let ann = harness.user("ann").await;
    let failed = |object| AuditEntry::failed(AuditAction::LoginFailed, object, "WRONG_PASSWORD");
    let failures = async || {
        harness.audit(AuditFilter { action: Some(AuditAction::LoginFailed), ..AuditFilter::default() }).await
    };
    for address in ["2001:db8::1", "2001:db8::2", "2001:db8::3"] {
        store.audit_write(&stranger(address), &failed(None)).await.unwrap();
    }
    let counted = failures().await;
    assert_eq!(counted.iter().map(|event| event.count).collect::<Vec<_>>(), [3], "one network and minute");
    assert_eq!((counted[0].actor.kind, counted[0].outcome), (ActorKind::Anonymous, AuditOutcome::Failed));
    assert_eq!(counted[0].code.as_deref(), Some("WRONG_PASSWORD"));
    store.audit_write(&stranger("2001:db8::1"), &failed(Some(AuditObject::user(&ann)))).await.unwrap();
    store.audit_write(&stranger("192.0.2.1"), &failed(None)).await.unwrap();
    assert_eq!(failures().await.len(), 3, "an account that exists, and another network, are others");
    harness.pass(61).await;
    store.audit_write(&stranger("2001:db8::1"), &failed(None)).await.unwrap();
    assert_eq!(failures().await.len(), 4, "another minute is another event");

    let racers = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let entry = AuditEntry::denied(AuditAction::WorkspaceStarted, None, "FORBIDDEN");
            store.audit_write(&stranger("192.0.2.77"), &entry).await.unwrap();
        })
    });
    futures::future::join_all(racers).await;
    let filter = AuditFilter { outcome: Some(AuditOutcome::Denied), ..AuditFilter::default() };
    let denied = harness.audit(filter).await;
    assert_eq!(denied.iter().map(|event| event.count).collect::<Vec<_>>(), [20]);

    let session = session_id();
    let me = stranger("192.0.2.1").by(AuditActor::in_session(&ann, session));
    let opened = AuditEntry {
        folded: Some(OPENED_SECONDS),
        ..AuditEntry::ok(AuditAction::WorkspaceOpened, AuditObject::workspace(super::workspace_id(), "work"))
    };
    for _ in 0..3 {
        store.audit_write(&me, &opened).await.unwrap();
        harness.pass(1500).await;
    }
    let filter = AuditFilter { action: Some(AuditAction::WorkspaceOpened), ..AuditFilter::default() };
    let counts: Vec<_> = harness.audit(filter).await.iter().map(|event| event.count).collect();
    assert_eq!(counts, [3], "once an hour");
}

pub(crate) async fn events_are_found_by_what_they_are(harness: &Harness) {
    let store = &harness.store;
    let (ann, bob) = (harness.user("ann").await, harness.user("bob").await);
    let session = session_id();
    store.session_create(&stranger("192.0.2.1"), session, ann.id, b"s", 600).await.unwrap();
    let me = stranger("192.0.2.1").by(AuditActor::in_session(&ann, session));
    let workspace = new_workspace(ann.id, "work", Desired::Standby);
    let id = workspace.id;
    store.workspace_create(&me, workspace, Limits::NONE, Actor::User(ann.id)).await.unwrap();
    let denied =
        AuditEntry::denied(AuditAction::WorkspaceDeleted, Some(AuditObject::workspace(id, "")), "FORBIDDEN");
    let other = stranger("192.0.2.2").by(AuditActor::in_session(&bob, session_id()));
    store.audit_write(&other, &denied).await.unwrap();
    let count = async |filter: AuditFilter| harness.audit(filter).await.len();
    let none = AuditFilter::default;
    assert_eq!(count(none()).await, 5);
    assert_eq!(count(AuditFilter { actor: Some(ActorFilter::User(ann.id)), ..none() }).await, 2);
    assert_eq!(count(AuditFilter { actor: Some(ActorFilter::User(bob.id)), ..none() }).await, 1);
    assert_eq!(count(AuditFilter { actor: Some(ActorFilter::Kind(ActorKind::Operator)), ..none() }).await, 2);
    assert_eq!(count(AuditFilter { action: Some(AuditAction::UserCreated), ..none() }).await, 2);
    assert_eq!(count(AuditFilter { object: Some(id.to_string()), ..none() }).await, 2);
    assert_eq!(count(AuditFilter { outcome: Some(AuditOutcome::Denied), ..none() }).await, 1);
    let both = AuditFilter { object: Some(id.to_string()), outcome: Some(AuditOutcome::Ok), ..none() };
    assert_eq!(count(both).await, 1);

    let now = store.now().await.unwrap();
    let at = |seconds: i64| super::seconds_before(now, -seconds);
    assert_eq!(count(AuditFilter { from: Some(at(-60)), to: Some(at(60)), ..none() }).await, 5);
    assert_eq!(count(AuditFilter { from: Some(at(60)), ..none() }).await, 0);
    assert_eq!(count(AuditFilter { to: Some(at(-60)), ..none() }).await, 0);
    let newest = harness.last().await.at;
    assert!(count(AuditFilter { from: Some(newest), ..none() }).await >= 1, "its own time is in");
    let earlier = count(AuditFilter { to: Some(newest), ..none() }).await;
    assert_eq!(earlier + count(AuditFilter { from: Some(newest), ..none() }).await, 5, "and the end is not");

    let mut seen = Vec::new();
    let mut filter = AuditFilter { limit: 2, ..none() };
    loop {
        let page = store.audit_list(&filter).await.unwrap();
        assert!(page.items.is_sorted_by_key(|event| std::cmp::Reverse(event.id)));
        filter.before = page.items.last().map(|event| event.id);
        seen.extend(page.items);
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, harness.audit(none()).await);
}

pub(crate) async fn old_events_go_and_that_is_told(harness: &Harness) {
    let (store, epoch) = (&harness.store, harness.leader().await);
    for name in ["ann", "bob", "cem"] {
        harness.user(name).await;
    }
    harness.pass(3600).await;
    let between = store.now().await.unwrap();
    harness.pass(3600).await;
    harness.user("dia").await;
    let before = harness.trail().await;
    let old = before.len() - 1;
    let system = Act::system("host:7");
    let prune = async |epoch, at_most| store.audit_prune(&system, epoch, between, at_most).await.unwrap();
    assert_eq!(
        prune(codehub_domain::Epoch(epoch.0 + 1), 100).await,
        None,
        "who does not lead removes nothing"
    );
    assert_eq!(harness.trail().await, before);
    assert_eq!(prune(epoch, 2).await, Some(2), "the oldest first, and not all at once");
    assert_eq!(prune(epoch, 100).await, Some(old as u64 - 2));
    assert_eq!(prune(epoch, 100).await, Some(0), "and nothing is said where nothing was");
    assert_eq!(harness.trail().await, ["user.created", "audit.pruned", "audit.pruned"]);
    let last = harness.last().await;
    assert_eq!(last.actor.kind, ActorKind::System);
    assert!(last.after.is_some_and(|text| text.starts_with(&format!("{} events before ", old - 2))));
}
