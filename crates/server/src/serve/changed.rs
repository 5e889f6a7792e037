//! Which settings differ from the last start, for the audit trail: their names, never what they are.

use std::collections::BTreeMap;

use codehub_domain::audit::{AuditAction, AuditEntry, AuditObject};
use codehub_store::StoreError;

use crate::{app::App, auth::act};

/// Processes of one role are expected to have the same settings.
fn setting(app: &App) -> String {
    format!("config_fingerprints/{}", app.config.role.as_str())
}

/// Writes down which settings have changed, and remembers what they are. The first start changes nothing. Killed in
/// between, the next start says it again: better twice than never.
///
/// # Errors
/// The store does not answer.
pub(super) async fn note(app: &App) -> Result<(), StoreError> {
    let now = &app.config.fingerprints;
    let known = app.store().setting_get(&setting(app)).await?;
    // What cannot be read is from a version that wrote it otherwise.
    let before: Option<BTreeMap<String, String>> = known.and_then(|known| serde_json::from_str(&known).ok());
    if let Some(before) = &before {
        let changed = changed(before, now);
        if changed.is_empty() {
            return Ok(());
        }
        let entry = AuditEntry::ok(AuditAction::ConfigChanged, AuditObject::config());
        app.store().audit_write(&act::system(), &entry.changing("", &changed.join(", "))).await?;
    }
    let text = serde_json::to_string(now).map_err(|error| StoreError::Failed(error.to_string()))?;
    app.store().setting_put(&setting(app), &text).await
}

/// Settings that a version has gained or lost are no change of anybody's.
fn changed(before: &BTreeMap<String, String>, now: &BTreeMap<&'static str, String>) -> Vec<&'static str> {
    now.iter()
        .filter(|(key, value)| before.get(**key).is_some_and(|before| before != *value))
        .map(|(key, _)| *key)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn changed_settings_are_named_and_secrets_are_not_told() {
        let of = |settings: &[(&str, &str)]| {
            let all = [&[("data_dir", "/data")], settings].concat();
            Config::with(&all).unwrap().fingerprints
        };
        let before: BTreeMap<String, String> =
            of(&[]).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        assert_eq!(changed(&before, &of(&[])), [""; 0]);
        let after = of(&[("listen", "127.0.0.1:9"), ("database.url", "postgres://u:very-secret@host/db")]);
        assert_eq!(changed(&before, &after), ["database.url", "listen"]);
        assert_eq!(after["database.url"].len(), 4);
        let without: BTreeMap<String, String> =
            before.into_iter().filter(|(key, _)| key != "listen").collect();
        assert_eq!(changed(&without, &of(&[])), [""; 0], "a setting that is new is no change");
    }
}
