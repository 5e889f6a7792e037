//! Sessions, tokens, known devices and tries at passwords.

use crate::SessionEnd;
use crate::fake::by;
use codehub_domain::user::Role;

use super::{Harness, session_id, token_id, workspace_id};
use crate::{
    Allowance, DeviceLogin, DeviceRedeemed, Handover, Redeemed, Tried, UserChange, UserEdit, WorkspaceOrigin,
    tries_at,
};

const DAY: u32 = 86_400;

pub(crate) async fn sessions_slide_and_end(harness: &Harness) {
    let (user, store) = (harness.user("ann").await, &harness.store);
    let made = store.session_create(by(), session_id(), user.id, b"secret", DAY).await.unwrap();
    assert_eq!(made.expires_at.duration_since(made.created_at).as_secs(), i64::from(DAY));
    assert!(store.session_use(b"other", DAY).await.unwrap().is_none());
    let (used, who) = store.session_use(b"secret", DAY).await.unwrap().unwrap();
    assert_eq!((&used, &who), (&made, &user), "within a minute nothing moves");
    // Used every twenty hours, it lasts.
    for _ in 0..4 {
        harness.pass(20 * 3600).await;
        let (used, _) = store.session_use(b"secret", DAY).await.unwrap().unwrap();
        let left = used.expires_at.duration_since(store.now().await.unwrap()).as_secs();
        assert!((i64::from(DAY) - 60..=i64::from(DAY)).contains(&left), "{left}");
        let again = store.session_use(b"secret", DAY).await.unwrap().unwrap().0;
        assert_eq!(again, used);
    }
    harness.pass(u64::from(DAY) + 1).await;
    assert!(store.session_use(b"secret", DAY).await.unwrap().is_none());
    // Another's secret is its own; the same secret twice is refused.
    store.session_create(by(), session_id(), user.id, b"two", DAY).await.unwrap();
    assert!(store.session_create(by(), session_id(), user.id, b"two", DAY).await.is_err());
    let two = store.session_use(b"two", DAY).await.unwrap().unwrap().0;
    store.session_delete(by(), two.id, SessionEnd::Logout).await.unwrap();
    store.session_delete(by(), two.id, SessionEnd::Logout).await.unwrap();
    assert!(store.session_use(b"two", DAY).await.unwrap().is_none());
}

pub(crate) async fn sessions_end_with_their_user(harness: &Harness) {
    let store = &harness.store;
    harness.admin("root").await;
    let enable = UserEdit { disabled: Some(false), ..UserEdit::default() };
    let edits = [
        UserEdit { password_hash: Some("new".into()), keep_tokens: true, ..UserEdit::default() },
        UserEdit { role: Some(Role::Admin), ..UserEdit::default() },
        UserEdit { disabled: Some(true), ..UserEdit::default() },
    ];
    let user = harness.user("ann").await;
    let other = harness.user("bob").await;
    store.session_create(by(), session_id(), other.id, b"bob", DAY).await.unwrap();
    harness.token(user.id, "ci", b"token", None).await;
    for (n, edit) in edits.into_iter().enumerate() {
        let secret = [n as u8];
        store.session_create(by(), session_id(), user.id, &secret, DAY).await.unwrap();
        store.user_edit(by(), user.id, UserEdit::default()).await.unwrap();
        assert!(store.session_use(&secret, DAY).await.unwrap().is_some(), "an empty edit ends nothing");
        let disabled = edit.disabled == Some(true);
        assert!(matches!(store.user_edit(by(), user.id, edit).await.unwrap(), UserChange::Done(_)));
        assert!(store.session_use(&secret, DAY).await.unwrap().is_none());
        assert_eq!(store.token_use(b"token").await.unwrap().is_none(), disabled);
        store.user_edit(by(), user.id, enable.clone()).await.unwrap();
        assert!(store.session_use(&secret, DAY).await.unwrap().is_none(), "ended is ended");
        assert!(store.token_use(b"token").await.unwrap().is_some());
    }
    assert!(store.session_use(b"bob", DAY).await.unwrap().is_some());
}

/// Somebody who is signed in, on the way to a workspace's origin.
async fn on_the_way(harness: &Harness, secret: &[u8]) -> Handover {
    let user = harness.user(&format!("u{}", secret[0])).await;
    let session = harness.store.session_create(by(), session_id(), user.id, secret, DAY).await.unwrap();
    let origin = WorkspaceOrigin { workspace: workspace_id(), port: None };
    Handover { session: session.id, origin, state: b"state".into(), target: "/x?y".into() }
}

pub(crate) async fn a_code_is_good_once_in_time_and_in_its_place(harness: &Harness) {
    let store = &harness.store;
    let handover = on_the_way(harness, b"1").await;
    let origin = handover.origin;
    assert!(store.handover_create(b"code", &handover, 60).await.unwrap());
    let elsewhere = WorkspaceOrigin { workspace: workspace_id(), port: None };
    let at_a_port = WorkspaceOrigin { port: Some(3000), ..origin };
    for (code, origin, state, expected) in [
        (&b"other"[..], origin, &b"state"[..], Redeemed::Unknown),
        (b"code", elsewhere, b"state", Redeemed::Unknown),
        (b"code", at_a_port, b"state", Redeemed::Unknown),
        (b"code", origin, b"another", Redeemed::AnotherState),
        (b"code", origin, b"state", Redeemed::Entered { target: "/x?y".into() }),
        (b"code", origin, b"state", Redeemed::Unknown),
    ] {
        assert_eq!(store.handover_redeem(code, origin, state, b"secret").await.unwrap(), expected);
    }
    let (used, _) = store.workspace_session_use(b"secret", origin, DAY).await.unwrap().unwrap();
    assert_eq!(used.id, handover.session);
    for (secret, origin) in
        [(&b"secret"[..], elsewhere), (b"secret", at_a_port), (b"other", origin), (b"1", origin)]
    {
        assert!(store.workspace_session_use(secret, origin, DAY).await.unwrap().is_none());
    }
    assert!(store.session_use(b"secret", DAY).await.unwrap().is_none(), "worth nothing at the dashboard");
    // Too late, and then swept.
    store.handover_create(b"late", &handover, 60).await.unwrap();
    harness.pass(61).await;
    let redeemed = store.handover_redeem(b"late", origin, b"state", b"two").await.unwrap();
    assert_eq!(redeemed, Redeemed::Late);
    store.sessions_sweep().await.unwrap();
    let redeemed = store.handover_redeem(b"late", origin, b"state", b"two").await.unwrap();
    assert_eq!(redeemed, Redeemed::Unknown);
}

pub(crate) async fn many_at_once_redeem_a_code_once(harness: &Harness) {
    let handover = on_the_way(harness, b"1").await;
    harness.store.handover_create(b"code", &handover, 60).await.unwrap();
    let tries = (0..16_u8).map(|n| {
        let (store, origin) = (harness.store.clone(), handover.origin);
        tokio::spawn(async move { store.handover_redeem(b"code", origin, b"state", &[n]).await.unwrap() })
    });
    let mut entered = 0;
    for tried in tries.collect::<Vec<_>>() {
        entered += u32::from(matches!(tried.await.unwrap(), Redeemed::Entered { .. }));
    }
    assert_eq!(entered, 1);
}

pub(crate) async fn workspace_sessions_end_with_their_parent(harness: &Harness) {
    let store = &harness.store;
    let enter = async |handover: &Handover, code: &[u8], secret: &[u8]| {
        assert!(store.handover_create(code, handover, 60).await.unwrap());
        let redeemed = store.handover_redeem(code, handover.origin, b"state", secret).await.unwrap();
        assert!(matches!(redeemed, Redeemed::Entered { .. }));
    };
    let is_in = async |handover: &Handover, secret: &[u8]| {
        store.workspace_session_use(secret, handover.origin, DAY).await.unwrap().is_some()
    };
    let (one, two) = (on_the_way(harness, b"1").await, on_the_way(harness, b"2").await);
    enter(&one, b"a", b"one").await;
    enter(&two, b"b", b"two").await;
    assert!(store.handover_create(b"pending", &one, 60).await.unwrap());
    store.session_delete(by(), one.session, SessionEnd::Logout).await.unwrap();
    assert!(!is_in(&one, b"one").await && is_in(&two, b"two").await);
    assert!(!store.handover_create(b"c", &one, 60).await.unwrap(), "nothing comes of a session that ended");
    let redeemed = store.handover_redeem(b"pending", one.origin, b"state", b"three").await.unwrap();
    assert_eq!(redeemed, Redeemed::Unknown, "codes end with it, too");
    // Work there prolongs the parent, and without work both end.
    for _ in 0..3 {
        harness.pass(20 * 3600).await;
        assert!(is_in(&two, b"two").await);
    }
    assert!(store.session_use(b"2", DAY).await.unwrap().is_some());
    // A browser has one session for an origin; a few before it are remembered.
    for n in 0..20_u8 {
        enter(&two, &[n, n], &[n]).await;
        harness.pass(1).await;
    }
    assert!(!is_in(&two, b"two").await && !is_in(&two, &[3]).await && is_in(&two, &[18]).await);
    assert!(is_in(&two, &[19]).await);
    harness.pass(u64::from(DAY) + 1).await;
    assert!(!is_in(&two, &[19]).await);
    assert!(!store.handover_create(b"d", &two, 60).await.unwrap());
}

pub(crate) async fn tokens_work_until_they_do_not(harness: &Harness) {
    let (user, store) = (harness.user("ann").await, &harness.store);
    let other = harness.user("bob").await;
    let forever = harness.token(user.id, "forever", b"one", None).await;
    let short = harness.token(user.id, "short", b"two", Some(600)).await;
    assert_eq!(short.expires_at.unwrap().duration_since(short.created_at).as_secs(), 600);
    assert_eq!(store.token_list(user.id).await.unwrap(), [short.clone(), forever.clone()]);
    assert!(store.token_use(b"three").await.unwrap().is_none());
    let (used, who) = store.token_use(b"one").await.unwrap().unwrap();
    assert_eq!((used.id, &who), (forever.id, &user));
    let first_use = used.last_used_at.unwrap();
    let again = store.token_use(b"one").await.unwrap().unwrap().0;
    assert_eq!(again.last_used_at, Some(first_use), "noted at most once a minute");
    harness.pass(599).await;
    assert!(store.token_use(b"two").await.unwrap().is_some());
    harness.pass(2).await;
    assert!(store.token_use(b"two").await.unwrap().is_none());
    assert!(store.token_use(b"one").await.unwrap().unwrap().0.last_used_at.unwrap() >= first_use);
    assert_eq!(store.token_list(user.id).await.unwrap().len(), 2, "expired, but still shown");
    assert!(!store.token_delete(by(), other.id, forever.id).await.unwrap(), "somebody else's");
    assert!(store.token_delete(by(), user.id, forever.id).await.unwrap());
    assert!(!store.token_delete(by(), user.id, forever.id).await.unwrap());
    assert!(store.token_use(b"one").await.unwrap().is_none());
    assert!(store.token_list(other.id).await.unwrap().is_empty());
}

pub(crate) async fn tokens_end_with_the_password(harness: &Harness) {
    let store = &harness.store;
    let (user, other) = (harness.user("ann").await, harness.user("bob").await);
    harness.token(other.id, "his", b"his", None).await;
    harness.token(user.id, "kept", b"kept", None).await;
    harness.token(user.id, "kept too", b"kept too", Some(600)).await;
    let mut changes = harness.changes().await;
    let password =
        |keep_tokens| UserEdit { password_hash: Some("new".into()), keep_tokens, ..UserEdit::default() };
    store.user_edit(by(), user.id, password(true)).await.unwrap();
    assert_eq!(store.token_list(user.id).await.unwrap().len(), 2, "kept on request");
    harness.drain(&mut changes).await;
    store.user_edit(by(), user.id, password(false)).await.unwrap();
    assert!(
        harness.drain(&mut changes).await.contains(&super::Change::Access { user: user.id }),
        "announced"
    );
    for secret in [&b"kept"[..], b"kept too"] {
        assert!(store.token_use(secret).await.unwrap().is_none());
    }
    assert!(store.token_list(user.id).await.unwrap().is_empty());
    assert!(store.token_use(b"his").await.unwrap().is_some(), "somebody else's stay");
    // Without a new password nothing is deleted, whatever is said about tokens.
    store
        .user_edit(by(), other.id, UserEdit { role: Some(Role::Admin), ..UserEdit::default() })
        .await
        .unwrap();
    assert!(store.token_use(b"his").await.unwrap().is_some());
}

/// A session makes tokens while it lasts, and nothing else does.
pub(crate) async fn tokens_are_made_by_sessions(harness: &Harness) {
    let store = &harness.store;
    harness.admin("root").await;
    let user = harness.user("ann").await;
    let make = async |session, secret: &[u8]| {
        store
            .token_create(by(), token_id(), session, "ci", secret, None)
            .await
            .unwrap()
            .map(|token| token.user)
    };
    assert_eq!(make(session_id(), b"nobody's").await, None);
    let session = store.session_create(by(), session_id(), user.id, b"one", 600).await.unwrap();
    assert_eq!(make(session.id, b"hers").await, Some(user.id));
    harness.pass(601).await;
    assert_eq!(make(session.id, b"late").await, None, "it has run out");
    let session = store.session_create(by(), session_id(), user.id, b"two", 600).await.unwrap();
    store.session_delete(by(), session.id, SessionEnd::Logout).await.unwrap();
    assert_eq!(make(session.id, b"signed out").await, None);
    let session = store.session_create(by(), session_id(), user.id, b"three", 600).await.unwrap();
    store.user_edit(by(), user.id, UserEdit { disabled: Some(true), ..UserEdit::default() }).await.unwrap();
    assert_eq!(make(session.id, b"disabled").await, None);
    assert_eq!(store.token_list(user.id).await.unwrap().len(), 1);
}

/// However many are being made while a password changes: none is left behind it.
pub(crate) async fn no_token_slips_past_a_new_password(harness: &Harness) {
    let store = &harness.store;
    let user = harness.user("ann").await;
    for round in 0..10_u8 {
        let session = store.session_create(by(), session_id(), user.id, &[round], 600).await.unwrap();
        let makers = (0..8_u8).map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                for m in 0..4 {
                    store
                        .token_create(by(), token_id(), session.id, "ci", &[round, n, m], None)
                        .await
                        .unwrap();
                }
            })
        });
        let makers: Vec<_> = makers.collect();
        tokio::task::yield_now().await;
        let password = UserEdit { password_hash: Some("new".into()), ..UserEdit::default() };
        store.user_edit(by(), user.id, password).await.unwrap();
        for maker in makers {
            maker.await.unwrap();
        }
        assert_eq!(store.token_list(user.id).await.unwrap(), []);
    }
}

/// Two are free, then 30 seconds, doubling to 100; forgotten after ten minutes.
fn allowance(key: &str) -> Allowance {
    Allowance {
        key: key.into(),
        free: 2,
        first_wait_seconds: 30,
        longest_wait_seconds: 100,
        forget_after_seconds: 600,
    }
}

pub(crate) async fn tries_are_counted_and_forgotten(harness: &Harness) {
    let store = &harness.store;
    let counted = async |key: &str| store.attempts_get(key).await.unwrap().map(|counted| counted.failures);
    let k = [allowance("k")];
    assert_eq!(counted("k").await, None);
    for (passes, tries) in [(0, 1), (0, 2), (31, 3), (61, 4), (101, 5), (101, 6)] {
        harness.pass(passes).await;
        assert_eq!(store.attempts_check(&k).await.unwrap(), Tried::Counted, "try {tries}");
        assert_eq!(counted("k").await.unwrap_or(0), tries - 1, "looking counts nothing");
        assert_eq!(store.attempts_count(&k).await.unwrap(), Tried::Counted, "try {tries}");
        assert_eq!(counted("k").await, Some(tries));
    }
    for _ in 0..3 {
        for tried in [store.attempts_check(&k).await.unwrap(), store.attempts_count(&k).await.unwrap()] {
            assert!(matches!(tried, Tried::Wait { allowance: 0, seconds: 90..=100 }), "{tried:?}");
        }
    }
    assert_eq!(counted("k").await, Some(6), "refused ones are not counted");
    assert_eq!(counted("other").await, None);
    harness.pass(601).await;
    assert_eq!(counted("k").await, None);
    assert_eq!(store.attempts_count(&k).await.unwrap(), Tried::Counted);
    assert_eq!(counted("k").await, Some(1));
    store.attempts_clear("k").await.unwrap();
    assert_eq!(counted("k").await, None);
}

/// All keys or none; the longest wait is the one that is told.
pub(crate) async fn a_try_counts_under_every_key_or_none(harness: &Harness) {
    let store = &harness.store;
    let counted = async |key: &str| store.attempts_get(key).await.unwrap().map(|counted| counted.failures);
    let both = [allowance("b"), allowance("a")];
    for _ in 0..2 {
        assert_eq!(store.attempts_count(&both[1..]).await.unwrap(), Tried::Counted);
    }
    let tried = store.attempts_count(&both).await.unwrap();
    assert!(matches!(tried, Tried::Wait { allowance: 1, seconds: 20..=30 }), "{tried:?}");
    assert_eq!((counted("a").await, counted("b").await), (Some(2), None));
    store.attempts_take_back("a", 1).await.unwrap();
    assert_eq!(counted("a").await, Some(1));
    assert_eq!(store.attempts_count(&both).await.unwrap(), Tried::Counted);
    assert_eq!((counted("a").await, counted("b").await), (Some(2), Some(1)));
    store.attempts_take_back("a", 2).await.unwrap();
    store.attempts_take_back("a", 1).await.unwrap();
    assert_eq!(counted("a").await, None);

    // However many come at once, in whatever order they name the keys.
    let racers = (0..20).map(|n| {
        let (store, mut keys) = (store.clone(), vec![allowance_of("x", 7), allowance_of("y", 7)]);
        if n % 2 == 0 {
            keys.reverse();
        }
        tokio::spawn(async move { store.attempts_count(&keys).await.unwrap() })
    });
    let tried = futures::future::join_all(racers).await;
    let let_in = tried.into_iter().filter(|tried| matches!(tried, Ok(Tried::Counted))).count();
    assert_eq!(let_in, 7);
    assert_eq!((counted("x").await, counted("y").await), (Some(7), Some(7)));
}

fn allowance_of(key: &str, free: u32) -> Allowance {
    Allowance { free, ..allowance(key) }
}

pub(crate) async fn devices_are_known_until_they_are_not(harness: &Harness) {
    let store = &harness.store;
    harness.admin("root").await;
    let (ann, bob) = (harness.user("ann").await.id, harness.user("bob").await.id);
    let known = async |user, device: &[u8]| store.device_is_known(user, device).await.unwrap();
    store.device_note(ann, b"laptop", None, 600).await.unwrap();
    store.device_note(ann, b"phone", None, 600).await.unwrap();
    store.device_note(bob, b"laptop", None, DAY).await.unwrap();
    assert!(known(ann, b"laptop").await && known(ann, b"phone").await && known(bob, b"laptop").await);
    assert!(!known(bob, b"phone").await && !known(ann, b"").await);
    // Signing in again prolongs it.
    harness.pass(400).await;
    store.device_note(ann, b"laptop", None, 600).await.unwrap();
    harness.pass(300).await;
    assert!(known(ann, b"laptop").await && !known(ann, b"phone").await);
    store.sessions_sweep().await.unwrap();
    assert!(known(ann, b"laptop").await && known(bob, b"laptop").await);

    // A new cookie for the same browser.
    store.device_note(ann, b"laptop 2", Some(b"laptop"), 600).await.unwrap();
    assert!(!known(ann, b"laptop").await && known(ann, b"laptop 2").await && known(bob, b"laptop").await);
    store.device_note(ann, b"laptop", Some(b"laptop 2"), 600).await.unwrap();

    // Another role keeps them; a new password revokes all but the one that is kept; disabling revokes all.
    let edit = async |edit| drop(store.user_edit(by(), ann, edit).await.unwrap());
    store.device_note(ann, b"phone", None, 600).await.unwrap();
    edit(UserEdit { role: Some(Role::Admin), ..UserEdit::default() }).await;
    assert!(known(ann, b"laptop").await && known(ann, b"phone").await);
    let keep_device = Some(b"phone".to_vec());
    edit(UserEdit { password_hash: Some("new".into()), keep_device, ..UserEdit::default() }).await;
    assert!(!known(ann, b"laptop").await && known(ann, b"phone").await);
    edit(UserEdit { disabled: Some(true), ..UserEdit::default() }).await;
    assert!(!known(ann, b"phone").await);
    store.device_note(ann, b"phone", None, 600).await.unwrap();
    edit(UserEdit { password_hash: Some("newer".into()), ..UserEdit::default() }).await;
    assert!(!known(ann, b"phone").await && known(bob, b"laptop").await);
    store.user_delete(by(), bob).await.unwrap();
    assert!(!known(bob, b"laptop").await);
    assert!(store.device_note(bob, b"laptop", None, 600).await.is_err(), "there is no such user");
}

/// A new password was not what was guessed at; and of many devices the newest stay.
pub(crate) async fn devices_are_bounded_and_a_new_password_forgets_tries(harness: &Harness) {
    let store = &harness.store;
    let ann = harness.user("ann").await.id;
    for n in 0..60_u8 {
        store.device_note(ann, &[n], None, 1000 + u32::from(n)).await.unwrap();
    }
    let mut known = Vec::new();
    for n in 0..60_u8 {
        if store.device_is_known(ann, &[n]).await.unwrap() {
            known.push(n);
        }
    }
    assert_eq!(known, (10..60).collect::<Vec<u8>>());
    let key = tries_at(ann);
    store.attempts_count(&[allowance(&key)]).await.unwrap();
    store.user_edit(by(), ann, UserEdit { role: Some(Role::Admin), ..UserEdit::default() }).await.unwrap();
    assert!(store.attempts_get(&key).await.unwrap().is_some());
    let password = UserEdit { password_hash: Some("new".into()), ..UserEdit::default() };
    store.user_edit(by(), ann, password).await.unwrap();
    assert!(store.attempts_get(&key).await.unwrap().is_none());
}

pub(crate) async fn sweeping_removes_only_what_has_ended(harness: &Harness) {
    let (user, store) = (harness.user("ann").await, &harness.store);
    store.session_create(by(), session_id(), user.id, b"short", 600).await.unwrap();
    store.session_create(by(), session_id(), user.id, b"long", DAY).await.unwrap();
    let long = Allowance { forget_after_seconds: DAY, ..allowance("long") };
    store.attempts_count(&[allowance("short"), long]).await.unwrap();
    assert_eq!(store.sessions_sweep().await.unwrap(), 0);
    harness.pass(700).await;
    let mut changes = harness.changes().await;
    assert_eq!(store.sessions_sweep().await.unwrap(), 1);
    assert_eq!(harness.drain(&mut changes).await, [super::Change::Access { user: user.id }]);
    assert_eq!(store.sessions_sweep().await.unwrap(), 0);
    assert!(store.session_use(b"long", DAY).await.unwrap().is_some());
    assert_eq!(store.attempts_get("long").await.unwrap().unwrap().failures, 1);
    assert_eq!(store.attempts_get("short").await.unwrap(), None);
}

fn laptop() -> DeviceLogin {
    DeviceLogin { machine: "laptop".into(), address: "192.0.2.1".into() }
}

pub(crate) async fn a_program_is_signed_in_once_by_whoever_allows_it(harness: &Harness) {
    let (user, store) = (harness.user("ann").await, &harness.store);
    let session = store.session_create(by(), session_id(), user.id, b"session", DAY).await.unwrap().id;
    let redeem = async |device: &[u8], secret: &[u8]| {
        store.device_login_redeem(by(), device, token_id(), secret, 600).await.unwrap()
    };
    assert!(store.device_login_create(b"device", b"code", &laptop(), 600).await.unwrap());
    assert!(!store.device_login_create(b"other", b"code", &laptop(), 600).await.unwrap(), "in use");
    assert_eq!(redeem(b"device", b"early").await, DeviceRedeemed::Pending);
    assert_eq!(redeem(b"code", b"early").await, DeviceRedeemed::Unknown, "the code is no secret");
    assert_eq!(store.device_login_find(b"code").await.unwrap(), Some(laptop()));
    assert_eq!(store.device_login_find(b"device").await.unwrap(), None);

    assert!(!store.device_login_decide(by(), b"wrong", session, true).await.unwrap());
    assert!(!store.device_login_decide(by(), b"code", session_id(), true).await.unwrap(), "nobody's session");
    assert!(store.device_login_decide(by(), b"code", session, true).await.unwrap());
    assert!(!store.device_login_decide(by(), b"code", session, false).await.unwrap(), "decided once");
    assert_eq!(store.device_login_find(b"code").await.unwrap(), None);
    let many = (0..8_u8).map(|n| async move {
        store.device_login_redeem(by(), b"device", token_id(), &[n], 600).await.unwrap()
    });
    let minted: Vec<_> = futures::future::join_all(many)
        .await
        .into_iter()
        .filter_map(|redeemed| match redeemed {
            DeviceRedeemed::Minted(token, who) => Some((token, who)),
            DeviceRedeemed::Unknown => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(minted.len(), 1, "one gets it");
    let (token, who) = &minted[0];
    assert_eq!((&token.name[..], who.id), ("codehub on laptop", user.id));
    assert_eq!(store.token_list(user.id).await.unwrap(), std::slice::from_ref(token));

    // Denied is told once; late is nothing at all, and its code can be given out again.
    assert!(store.device_login_create(b"no", b"code", &laptop(), 600).await.unwrap());
    assert!(store.device_login_decide(by(), b"code", session, false).await.unwrap());
    assert_eq!(redeem(b"no", b"no").await, DeviceRedeemed::Denied);
    assert_eq!(redeem(b"no", b"no").await, DeviceRedeemed::Unknown);
    assert!(store.device_login_create(b"late", b"code", &laptop(), 600).await.unwrap());
    harness.pass(601).await;
    assert_eq!(store.device_login_find(b"code").await.unwrap(), None);
    assert!(!store.device_login_decide(by(), b"code", session, true).await.unwrap());
    assert_eq!(redeem(b"late", b"late").await, DeviceRedeemed::Unknown);
    assert!(store.device_login_create(b"again", b"code", &laptop(), 600).await.unwrap());
    store.sessions_sweep().await.unwrap();
    assert_eq!(store.device_login_find(b"code").await.unwrap(), Some(laptop()), "swept is only what ended");
}

pub(crate) async fn a_sign_in_of_a_program_ends_with_the_session_that_allowed_it(harness: &Harness) {
    let (user, store) = (harness.user("ann").await, &harness.store);
    let new_password = UserEdit { password_hash: Some("new".into()), ..UserEdit::default() };
    for (n, signs_out) in [true, false].into_iter().enumerate() {
        let n = [n as u8];
        let session = store.session_create(by(), session_id(), user.id, &n, DAY).await.unwrap().id;
        assert!(store.device_login_create(&n, &n, &laptop(), 600).await.unwrap());
        assert!(store.device_login_decide(by(), &n, session, true).await.unwrap());
        if signs_out {
            store.session_delete(by(), session, SessionEnd::Logout).await.unwrap();
        } else {
            store.user_edit(by(), user.id, new_password.clone()).await.unwrap();
        }
        let redeemed = store.device_login_redeem(by(), &n, token_id(), &n, 600).await.unwrap();
        assert_eq!(redeemed, DeviceRedeemed::Unknown);
    }
    assert_eq!(store.token_list(user.id).await.unwrap(), []);
}
