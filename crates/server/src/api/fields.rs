//! What was sent for the fields of a workspace, turned into what is stored or into an error that names the
//! field. The rules are the domain's.

use std::collections::BTreeMap;

use codehub_domain::{
    ArchiveKey, Desired,
    activity::ActivityMode,
    fields::{self, Violation},
    labels::{LabelError, LabelFilter, Labels},
};

use super::error::{ApiError, Result};
use crate::config::{RuntimeConfig, TtlConfig};

fn said<T>(field: &'static str, checked: std::result::Result<T, Violation>) -> Result<T> {
    checked.map_err(|violation| ApiError::invalid(field, violation))
}

pub(super) fn name(text: &str) -> Result<String> {
    said("name", fields::workspace_name(text)).map(str::to_owned)
}

pub(super) fn description(text: String) -> Result<String> {
    said("description", fields::description(text))
}

pub(super) fn memo(text: String) -> Result<String> {
    said("memo", fields::memo(text))
}

pub(super) fn hold_reason(text: &str) -> Result<&str> {
    said("reason", fields::hold_reason(text))
}

/// Deleting is its own request.
pub(super) fn desired_state(text: &str) -> Result<Desired> {
    match text.parse::<Desired>() {
        Ok(Desired::Deleted) => Err(ApiError::invalid("desired_state", "to delete a workspace, use DELETE")),
        Ok(desired) => Ok(desired),
        Err(_) => Err(ApiError::invalid(
            "desired_state",
            format!(
                "must be RUNNING, STANDBY or ARCHIVED, not {:?}",
                text.chars().take(64).collect::<String>()
            ),
        )),
    }
}

/// The server's own image, or one it allows.
pub(super) fn image_ref(asked: Option<String>, runtime: &RuntimeConfig) -> Result<String> {
    let (offered, allowed) = (&runtime.image, &runtime.images_allowed);
    let Some(image) = asked else { return Ok(offered.clone()) };
    if runtime.offers(&image) {
        return Ok(image);
    }
    let others = if allowed.is_empty() { String::new() } else { format!(" and {}", allowed.join(", ")) };
    Err(ApiError::invalid("image_ref", format!("this server offers {offered:?}{others} only")))
}

pub(super) fn standby_ttl(seconds: Option<u32>, ttl: &TtlConfig) -> Result<Option<u32>> {
    said("standby_ttl_seconds", fields::ttl(seconds, ttl.standby_bounds()))
}

pub(super) fn archive_ttl(seconds: Option<u32>, ttl: &TtlConfig) -> Result<Option<u32>> {
    said("archive_ttl_seconds", fields::ttl(seconds, ttl.archive_bounds()))
}

pub(super) fn activity_mode(name: Option<&str>) -> Result<Option<ActivityMode>> {
    name.map(str::parse).transpose().map_err(|why| ApiError::invalid("activity_mode", why))
}

pub(super) fn labels(labels: BTreeMap<String, String>) -> Result<Labels> {
    labels.try_into().map_err(|why: LabelError| ApiError::invalid("labels", why))
}

pub(super) fn label_filter(text: Option<&str>) -> Result<Option<LabelFilter>> {
    text.map(str::parse).transpose().map_err(|why: LabelError| ApiError::invalid("label", why))
}

/// The key of an archive, if one is given.
pub(super) fn archive_key(field: &'static str, key: Option<&str>) -> Result<Option<ArchiveKey>> {
    key.map(str::parse).transpose().map_err(|why| ApiError::invalid(field, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_states_one_can_ask_for() {
        assert_eq!(desired_state("STANDBY"), Ok(Desired::Standby));
        for wrong in ["PENDING", "DELETED", "running", "", "ERROR"] {
            assert!(desired_state(wrong).is_err(), "{wrong:?}");
        }
    }
}
