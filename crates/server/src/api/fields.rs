//! What the fields of a workspace must look like. Each rule is a function from what was sent to what
//! is stored, or to a sentence.

use std::collections::BTreeMap;

use codehub_domain::{
    ArchiveKey, Desired,
    activity::ActivityMode,
    labels::{LabelError, LabelFilter, Labels},
};

use super::error::{ApiError, Result};
use crate::config::{RuntimeConfig, TtlBounds, TtlConfig};

const NAME_MAX: usize = 255;
const DESCRIPTION_MAX: usize = 500;
const MEMO_MAX: usize = 64 * 1024;

pub(super) fn name(text: &str) -> Result<String> {
    let name = text.trim();
    if name.is_empty() || name.chars().count() > NAME_MAX {
        Err(ApiError::invalid("name", format!("must have 1 to {NAME_MAX} characters")))
    } else if name.chars().any(char::is_control) {
        Err(ApiError::invalid("name", "must not have control characters"))
    } else {
        Ok(name.to_owned())
    }
}

/// Text that every database can hold.
fn storable(field: &'static str, text: String) -> Result<String> {
    if text.contains('\0') {
        return Err(ApiError::invalid(field, "must not contain the character U+0000"));
    }
    Ok(text)
}

pub(super) fn description(text: String) -> Result<String> {
    if text.chars().count() > DESCRIPTION_MAX {
        return Err(ApiError::invalid(
            "description",
            format!("must have at most {DESCRIPTION_MAX} characters"),
        ));
    }
    storable("description", text)
}

pub(super) fn memo(text: String) -> Result<String> {
    if text.len() > MEMO_MAX {
        return Err(ApiError::invalid("memo", format!("must have at most {} KiB", MEMO_MAX / 1024)));
    }
    storable("memo", text)
}

/// Deleting is its own request.
pub(super) fn desired_state(text: &str) -> Result<Desired> {
    match text.parse::<Desired>() {
        Ok(Desired::Deleted) => Err(ApiError::invalid("desired_state", "to delete a workspace, use DELETE")),
        Ok(wish) => Ok(wish),
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
    bounded("standby_ttl_seconds", seconds, ttl.standby_bounds())
}

pub(super) fn archive_ttl(seconds: Option<u32>, ttl: &TtlConfig) -> Result<Option<u32>> {
    bounded("archive_ttl_seconds", seconds, ttl.archive_bounds())
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

fn bounded(field: &str, seconds: Option<u32>, bounds: TtlBounds) -> Result<Option<u32>> {
    match seconds {
        Some(seconds) if !bounds.allow(seconds) => {
            Err(ApiError::invalid(field, format!("{seconds} is not allowed; allowed: {bounds}")))
        }
        seconds => Ok(seconds),
    }
}

/// The key of an archive, if one is given.
pub(super) fn archive_key(field: &'static str, key: Option<&str>) -> Result<Option<ArchiveKey>> {
    key.map(str::parse).transpose().map_err(|why| ApiError::invalid(field, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(name("  My box \n").unwrap(), "My box");
        assert_eq!(name(&"가".repeat(255)).unwrap().chars().count(), 255);
        for wrong in ["", "   ", "a\u{0}b", "a\nb", &"x".repeat(256)] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn texts_are_bounded() {
        assert!(description("x".repeat(500)).is_ok() && description("x".repeat(501)).is_err());
        assert!(memo("x".repeat(MEMO_MAX)).is_ok() && memo("x".repeat(MEMO_MAX + 1)).is_err());
        assert!(memo("a\0b".into()).is_err() && description("a\0b".into()).is_err());
    }

    #[test]
    fn only_states_one_can_ask_for() {
        assert_eq!(desired_state("STANDBY"), Ok(Desired::Standby));
        for wrong in ["PENDING", "DELETED", "running", "", "ERROR"] {
            assert!(desired_state(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn ttls_stay_within_bounds_and_the_message_says_which() {
        let bounds = |min, max| TtlBounds { min, max };
        let table = [
            (bounds(0, 0), 0, true),
            (bounds(0, 0), 1, true),
            (bounds(60, 0), 59, false),
            (bounds(60, 0), 0, true),
            (bounds(60, 3600), 0, false),
            (bounds(60, 3600), 60, true),
            (bounds(60, 3600), 3600, true),
            (bounds(60, 3600), 3601, false),
        ];
        for (bounds, seconds, allowed) in table {
            assert_eq!(bounded("x", Some(seconds), bounds).is_ok(), allowed, "{bounds:?} {seconds}");
        }
        let error = bounded("standby_ttl_seconds", Some(5), bounds(60, 3600)).unwrap_err();
        assert!(error.message.contains("60 to 3600 seconds"), "{}", error.message);
        assert_eq!(bounded("x", None, bounds(60, 3600)), Ok(None));
    }
}
