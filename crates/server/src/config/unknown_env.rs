//! Variables that look like settings and are none. The environment belongs to everybody, so these are told,
//! not refused.

use std::collections::BTreeMap;

use super::table::SETTINGS;

/// Ours, and no settings: for clients, tests and the files in `deploy/`.
const OTHERS: &[&str] = &[
    "CODEHUB_CONFIG",
    "CODEHUB_URL",
    "CODEHUB_API_URL",
    "CODEHUB_TOKEN",
    "CODEHUB_CONTEXT",
    "CODEHUB_CA_FILE",
    "CODEHUB_IMAGE",
    "CODEHUB_BIN",
];
const OTHER_PREFIXES: &[&str] = &["CODEHUB_TEST_", "CODEHUB_SCREENSHOTS"];

/// A sentence for each variable that somebody may have meant as a setting.
pub(super) fn unknown_env(env: &BTreeMap<String, String>) -> Vec<String> {
    let set = env.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.as_str());
    // There more of ours are set.
    let inside_a_workspace = env.contains_key("CODEHUB_WORKSPACE_ID");
    set.filter_map(|name| told(name, inside_a_workspace)).collect()
}

fn told(name: &str, inside_a_workspace: bool) -> Option<String> {
    let is_other = OTHERS.contains(&name) || OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if is_other || SETTINGS.iter().any(|setting| setting.env == name) {
        return None;
    }
    match meant(name) {
        Some(meant) => Some(format!("{name} is set, but there is no such setting: did you mean {meant}?")),
        None if name.starts_with("CODEHUB_") && !inside_a_workspace => Some(format!(
            "{name} is set, but there is no such setting: `codehub config --default` lists them all"
        )),
        None => None,
    }
}

/// The setting that is one or two slips of the fingers away. Short names are near to everything.
fn meant(name: &str) -> Option<&'static str> {
    let slips = |setting: &'static str| (strsim::damerau_levenshtein(name, setting), setting);
    let near = SETTINGS.iter().map(|setting| slips(setting.env)).min()?;
    (name.len() >= 8 && near.0 <= 2).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_and_other_peoples_variables_are_not() {
        let table: &[(&str, Option<&str>)] = &[
            ("TTL_STANDBY_SECOND", Some("did you mean TTL_STANDBY_SECONDS?")),
            ("CODEHUB_LISTN", Some("did you mean CODEHUB_LISTEN?")),
            ("DATABASE_URI", Some("did you mean DATABASE_URL?")),
            ("S3_BUKCET", Some("did you mean S3_BUCKET?")),
            ("CODEHUB_PORT", Some("`codehub config --default`")),
            ("CODEHUB_LISTEN", None),
            ("CODEHUB_TEST_REDIS", None),
            ("LOGNAME", None),
            ("IDEA", None),
            ("AWS_REGION", None),
            ("DOCKER_CERT_PATH", None),
            ("PATH", None),
        ];
        for (name, expected) in table {
            let said = unknown_env(&BTreeMap::from([(name.to_string(), "x".to_owned())])).pop();
            match expected {
                Some(part) => {
                    assert!(said.as_deref().is_some_and(|said| said.contains(part)), "{name}: {said:?}");
                }
                None => assert_eq!(said, None, "{name}"),
            }
        }
        let quiet = |pairs: &[(&str, &str)]| {
            let env = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            assert_eq!(unknown_env(&env), [""; 0], "{pairs:?}");
        };
        quiet(&[("CODEHUB_PORT", "")]);
        quiet(&[("CODEHUB_WORKSPACE_ID", "x"), ("CODEHUB_LEADER", "1")]);
    }
}
