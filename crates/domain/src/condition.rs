//! Conditions in the manner of Kubernetes: a status, why, and since when.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// One condition. `last_transition_time` moves only when the status does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Whether it holds.
    #[serde(with = "status")]
    pub status: bool,
    /// CamelCase, for people and dashboards; branched on only by [`Conditions::instance_exists`].
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Timestamp,
}

/// The status is written `"True"` or `"False"`, as everybody who reads conditions expects.
mod status {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(status: &bool, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if *status { "True" } else { "False" })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
        match std::borrow::Cow::<'de, str>::deserialize(deserializer)?.as_ref() {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(D::Error::custom(format!("{other:?} is neither \"True\" nor \"False\""))),
        }
    }
}

/// The reasons of `infra.container_ready` that say that nothing runs. The limits' queries have them, too.
pub const NO_INSTANCE: [&str; 2] = ["NotFound", "Ended"];

/// What is known of a workspace. A condition nobody has observed yet is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The volume of the current generation exists.
    #[serde(rename = "storage.volume_ready", default, skip_serializing_if = "Option::is_none")]
    pub volume_ready: Option<Condition>,
    /// The archive at the workspace's key is complete.
    #[serde(rename = "storage.archive_ready", default, skip_serializing_if = "Option::is_none")]
    pub archive_ready: Option<Condition>,
    /// An instance runs on the current volume and answers its health check.
    #[serde(rename = "infra.container_ready", default, skip_serializing_if = "Option::is_none")]
    pub container_ready: Option<Condition>,
    /// Nothing waits for a person.
    #[serde(rename = "policy.healthy", default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<Condition>,
}

impl Conditions {
    /// False also while nobody has looked.
    pub fn volume_ready(&self) -> bool {
        is_true(self.volume_ready.as_ref())
    }

    /// False also while nobody has looked.
    pub fn archive_ready(&self) -> bool {
        is_true(self.archive_ready.as_ref())
    }

    /// False also while nobody has looked.
    pub fn container_ready(&self) -> bool {
        is_true(self.container_ready.as_ref())
    }

    /// A container or process was there and had not ended when it was last looked for, whether or not it
    /// answered and on whichever home it was.
    pub fn instance_exists(&self) -> bool {
        self.container_ready
            .as_ref()
            .is_some_and(|condition| condition.status || !NO_INSTANCE.contains(&condition.reason.as_str()))
    }

    /// Healthy unless something said otherwise: nothing is known of a new workspace, and nothing is
    /// wrong with it.
    pub fn healthy(&self) -> bool {
        self.healthy.as_ref().is_none_or(|condition| condition.status)
    }
}

fn is_true(condition: Option<&Condition>) -> bool {
    condition.is_some_and(|condition| condition.status)
}

/// Writes what was found, keeping the transition time while the status stays.
pub fn set(
    slot: &mut Option<Condition>,
    status: bool,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) {
    let last_transition_time = match slot {
        Some(before) if before.status == status => before.last_transition_time,
        _ => now,
    };
    *slot = Some(Condition { status, reason: reason.into(), message: message.into(), last_transition_time });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let at = |s| Timestamp::from_second(s).unwrap();
        let mut slot = None;
        set(&mut slot, false, "NotFound", "", at(1));
        set(&mut slot, false, "StillNotFound", "gone", at(2));
        let condition = slot.clone().unwrap();
        assert_eq!((condition.last_transition_time, condition.reason.as_str()), (at(1), "StillNotFound"));
        set(&mut slot, true, "Found", "", at(3));
        assert_eq!(slot.unwrap().last_transition_time, at(3));
    }

    #[test]
    fn conditions_are_a_flat_map_of_dotted_names() {
        let mut conditions = Conditions::default();
        assert_eq!(serde_json::to_string(&conditions).unwrap(), "{}");
        set(&mut conditions.volume_ready, true, "Found", "", Timestamp::UNIX_EPOCH);
        let json = serde_json::to_value(&conditions).unwrap();
        assert_eq!(json["storage.volume_ready"]["status"], "True");
        assert_eq!(serde_json::from_value::<Conditions>(json).unwrap(), conditions);
    }
}
