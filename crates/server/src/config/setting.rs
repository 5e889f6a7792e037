//! What a setting is. [`super::table`] has them all.

use super::value::ValueKind;

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Where it is in `codehub.toml`, dotted.
    pub key: &'static str,
    /// The environment variable.
    pub env: &'static str,
    /// As it would be written; empty where there is none.
    pub default: &'static str,
    pub kind: ValueKind,
    /// For people: what it does, and what follows from it.
    pub help: &'static str,
    /// Masked wherever it is shown, and never taken from the command line (other people can read that).
    pub secret: bool,
}

impl Setting {
    /// `--ttl-standby-seconds`, without the dashes in front.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }
}

pub(super) const fn setting(
    key: &'static str,
    env: &'static str,
    default: &'static str,
    kind: ValueKind,
    help: &'static str,
) -> Setting {
    Setting { key, env, default, kind, help, secret: false }
}

/// Masked, and not a flag: it may hold a password.
pub(super) const fn secret(
    key: &'static str,
    env: &'static str,
    kind: ValueKind,
    help: &'static str,
) -> Setting {
    Setting { key, env, default: "", kind, help, secret: true }
}
