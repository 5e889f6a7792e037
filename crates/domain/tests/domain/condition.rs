//! Conditions as they are shown, and the home's context as it is stored.

use codehub_domain::{
    Generation, HomeCtx, Truth,
    condition::{Conditions, set},
};

use crate::support::*;

#[test]
fn a_condition_is_shown_in_the_kubernetes_manner() {
    let mut conditions = Conditions::default();
    set(&mut conditions.healthy, false, "DataLost", "gone", at(0));
    let json = serde_json::to_value(&conditions).unwrap();
    let expected = serde_json::json!({"policy.healthy": {
        "status": "False", "reason": "DataLost", "message": "gone",
        "last_transition_time": "1970-01-01T00:00:00Z",
    }});
    assert_eq!(json, expected);
    assert!(serde_json::from_str::<Conditions>(r#"{"policy.healthy": {"status": "Maybe"}}"#).is_err());
}

#[test]
fn nothing_known_is_healthy_and_nothing_is_ready() {
    let none = Conditions::default();
    assert!(none.healthy());
    assert!(!none.volume_ready() && !none.archive_ready() && !none.container_ready());
}

#[test]
fn the_homes_context_survives_storage() {
    let first = serde_json::to_value(HomeCtx::default()).unwrap();
    assert_eq!(first, serde_json::json!({"truth": "none", "generation": 0}));
    let full = HomeCtx {
        truth: Truth::Volume,
        generation: Generation(4),
        restore_marker: Some(old_key()),
        spent: Some(Generation(9)),
        packed_from: Some(Generation(3)),
        deaths: vec![at(1), at(2)],
        evict_instance: true,
    };
    let text = serde_json::to_string(&full).unwrap();
    assert_eq!(serde_json::from_str::<HomeCtx>(&text).unwrap(), full);
}
