//! Names on the outside.

use codehub_domain::{
    Desired, Generation, Operation, Phase, Truth, VolumeKey, Workspace, gc::Item, user::Role,
};

use crate::support::*;

#[test]
fn every_word_is_read_as_it_is_written() {
    fn round_trip<T>(all: &[T])
    where
        T: Copy + std::fmt::Debug + std::fmt::Display + PartialEq + std::str::FromStr,
        T: serde::Serialize + serde::de::DeserializeOwned,
        T::Err: std::fmt::Debug + std::fmt::Display,
    {
        for word in all {
            assert_eq!(word.to_string().parse::<T>().unwrap(), *word);
            let json = serde_json::to_value(word).unwrap();
            assert_eq!(json, word.to_string());
            assert_eq!(serde_json::from_value::<T>(json).unwrap(), *word);
        }
        let refused = "nonsense".parse::<T>().unwrap_err().to_string();
        assert!(all.iter().all(|word| refused.contains(&word.to_string())), "{refused}");
    }
    round_trip(Phase::ALL);
    round_trip(Desired::ALL);
    round_trip(Operation::ALL);
    round_trip(Truth::ALL);
    round_trip(Role::ALL);
}

#[test]
fn volumes_and_homes_have_the_names_of_the_specification() {
    let ws = workspace();
    let VolumeKey { generation, .. } = ws.volume(Generation(7));
    assert_eq!(generation, Generation(7));
    assert_eq!(ws.volume(Generation(7)).to_string(), format!("codehub-ws-{}-home-7", ws.id));
    let store_key = Workspace::home_store_key_of(ws.owner, ws.id);
    assert_eq!(store_key, format!("users/{}/workspaces/{}/home", ws.owner, ws.id));
}

#[test]
fn what_the_collector_stores_it_can_read() {
    for item in [Item::Archive(old_key()), Item::Volume { workspace: id(), generation: Generation(12) }] {
        assert_eq!(item.to_string().parse::<Item>(), Ok(item));
    }
    for wrong in ["", "volume", "volume:x:1", "archive:x", "other:1", &format!("volume:{}:-1", id())] {
        assert!(wrong.parse::<Item>().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_generation_is_never_used_twice() {
    assert_eq!(Generation(1).next(), Generation(2));
    assert_eq!(Generation(u32::MAX).next(), Generation(u32::MAX), "no wrap-around to an old name");
}
