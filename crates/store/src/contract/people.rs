//! Users.

use crate::fake::by;
use codehub_domain::{
    Desired,
    user::{Language, Role, Theme},
};

use super::{Harness, session_id, token_id, user_id};
use crate::{UserChange, UserEdit};

pub(crate) async fn names_are_unique_without_case(harness: &Harness) {
    let store = &harness.store;
    let ann = harness.user("Ann").await;
    assert_eq!(ann.username, "Ann");
    for same in ["Ann", "ann", "ANN"] {
        let taken = store.user_create(by(), user_id(), same, "hash", Role::User).await.unwrap();
        assert_eq!(taken, UserChange::NameTaken, "{same}");
        let found = store.user_by_name(same).await.unwrap().unwrap();
        assert_eq!((found.user, found.password_hash.as_deref()), (ann.clone(), Some("hash")));
    }
    harness.user("Ärger").await;
    assert!(store.user_by_name("äRGER").await.unwrap().is_some());
    assert!(store.user_by_name("nobody").await.unwrap().is_none());
    assert_eq!(store.user_get(ann.id).await.unwrap(), Some(ann));
    assert_eq!(store.user_get(user_id()).await.unwrap(), None);
    assert_eq!(store.user_count().await.unwrap(), 2);

    let first = store.user_list(None, 1).await.unwrap();
    assert_eq!((first.items.len(), first.more, first.total), (1, true, Some(2)));
    let rest = store.user_list(Some(first.items[0].id), 5).await.unwrap();
    assert_eq!((rest.items.len(), rest.more, rest.total), (1, false, Some(2)));
    assert!(rest.items[0].id > first.items[0].id);
}

pub(crate) async fn the_first_admin_is_made_once(harness: &Harness) {
    let racers = (0..10).map(|n| {
        let store = harness.store.clone();
        tokio::spawn(async move {
            store.user_create_first(by(), user_id(), &format!("a{n}"), "hash").await.unwrap()
        })
    });
    let made: Vec<_> =
        futures::future::join_all(racers).await.into_iter().filter_map(|made| made.unwrap()).collect();
    assert_eq!(made.len(), 1);
    assert!(made[0].is_admin());
    assert_eq!(harness.store.user_count().await.unwrap(), 1);
}

pub(crate) async fn edits_take_effect(harness: &Harness) {
    let store = &harness.store;
    harness.admin("root").await;
    let ann = harness.user("ann").await;
    let edit = UserEdit { password_hash: Some("new".into()), role: Some(Role::Admin), ..UserEdit::default() };
    let UserChange::Done(after) = store.user_edit(by(), ann.id, edit).await.unwrap() else {
        panic!("refused")
    };
    assert_eq!((after.role, after.disabled), (Role::Admin, false));
    let stored = store.user_by_name("ann").await.unwrap().unwrap();
    assert_eq!((stored.user, stored.password_hash.as_deref()), (after, Some("new")));
    let edit = UserEdit { disabled: Some(true), ..UserEdit::default() };
    assert!(
        matches!(store.user_edit(by(), ann.id, edit).await.unwrap(), UserChange::Done(user) if user.disabled)
    );
    let stored = store.user_by_name("ann").await.unwrap().unwrap();
    assert_eq!((stored.user.disabled, stored.password_hash.as_deref()), (true, Some("new")));
    assert_eq!(store.user_edit(by(), user_id(), UserEdit::default()).await.unwrap(), UserChange::NotFound);
}

pub(crate) async fn the_last_admin_stays(harness: &Harness) {
    let store = &harness.store;
    let root = harness.admin("root").await;
    harness.user("ann").await;
    let demote = UserEdit { role: Some(Role::User), ..UserEdit::default() };
    let disable = UserEdit { disabled: Some(true), ..UserEdit::default() };
    for edit in [&demote, &disable] {
        assert_eq!(store.user_edit(by(), root.id, edit.clone()).await.unwrap(), UserChange::LastAdmin);
    }
    assert_eq!(store.user_delete(by(), root.id).await.unwrap(), UserChange::LastAdmin);
    assert_eq!(store.user_get(root.id).await.unwrap(), Some(root.clone()));
    // A disabled admin is no help.
    let spare = harness.admin("spare").await;
    assert!(matches!(store.user_edit(by(), spare.id, disable.clone()).await.unwrap(), UserChange::Done(_)));
    assert_eq!(store.user_edit(by(), root.id, demote.clone()).await.unwrap(), UserChange::LastAdmin);
    assert!(matches!(store.user_delete(by(), spare.id).await.unwrap(), UserChange::Done(_)));
    // Two who want to leave at once: one of them stays.
    let second = harness.admin("second").await;
    let leaving = [root.id, second.id].map(|id| {
        let (store, edit) = (store.clone(), demote.clone());
        tokio::spawn(async move { store.user_edit(by(), id, edit).await.unwrap() })
    });
    let results = futures::future::join_all(leaving).await;
    let kept = results.iter().filter(|done| matches!(done, Ok(UserChange::LastAdmin))).count();
    assert_eq!(kept, 1);
}

pub(crate) async fn deleting_a_user(harness: &Harness) {
    let store = &harness.store;
    harness.admin("root").await;
    let ann = harness.user("ann").await;
    let made = harness.workspace(ann.id, Desired::Standby).await;
    let session = store.session_create(by(), session_id(), ann.id, b"session", 600).await.unwrap();
    store.token_create(by(), token_id(), session.id, "ci", b"token", None).await.unwrap().unwrap();
    assert_eq!(store.user_delete(by(), ann.id).await.unwrap(), UserChange::OwnsWorkspaces(1));
    assert!(store.session_use(b"session", 600).await.unwrap().is_some());
    harness.ask(made.id, Desired::Deleted).await;
    assert_eq!(store.user_delete(by(), ann.id).await.unwrap(), UserChange::Done(ann.clone()));
    assert_eq!(store.user_delete(by(), ann.id).await.unwrap(), UserChange::NotFound);
    assert_eq!(store.user_get(ann.id).await.unwrap(), None);
    assert!(store.users_get(&[ann.id]).await.unwrap().is_empty());
    assert!(store.user_by_name("ann").await.unwrap().is_none());
    assert!(store.session_use(b"session", 600).await.unwrap().is_none());
    assert!(store.token_use(b"token").await.unwrap().is_none());
    assert!(store.token_list(ann.id).await.unwrap().is_empty());
    assert_eq!(
        (store.user_count().await.unwrap(), store.user_list(None, 9).await.unwrap().total),
        (1, Some(1))
    );
    assert!(store.session_create(by(), session_id(), ann.id, b"late", 600).await.is_err());
    assert!(store.token_create(by(), token_id(), session.id, "late", b"late", None).await.unwrap().is_none());
    // The workspace still knows whose it was, and the name is free again.
    assert_eq!(harness.get(made.id).await.owner, ann.id);
    assert_ne!(harness.user("ann").await.id, ann.id);
    assert!(store.user_create_first(by(), user_id(), "first", "hash").await.unwrap().is_none());
}

pub(crate) async fn language_and_theme_end_no_session(harness: &Harness) {
    let (store, user) = (&harness.store, harness.user("ann").await);
    assert_eq!((user.language, user.theme), (None, None));
    store.session_create(by(), session_id(), user.id, b"secret", 600).await.unwrap();
    let none = UserEdit::default;
    for (edit, language, theme) in [
        (UserEdit { language: Some(Some(Language::Korean)), ..none() }, Some(Language::Korean), None),
        (UserEdit { theme: Some(Some(Theme::Dark)), ..none() }, Some(Language::Korean), Some(Theme::Dark)),
        (UserEdit { language: Some(None), ..none() }, None, Some(Theme::Dark)),
        (none(), None, Some(Theme::Dark)),
    ] {
        let UserChange::Done(edited) = store.user_edit(by(), user.id, edit.clone()).await.unwrap() else {
            panic!("{edit:?}");
        };
        assert_eq!((edited.language, edited.theme), (language, theme), "{edit:?}");
        let (_, seen) = store.session_use(b"secret", 600).await.unwrap().expect("still signed in");
        assert_eq!(seen, edited);
        assert_eq!(store.user_get(user.id).await.unwrap(), Some(edited));
    }
}
