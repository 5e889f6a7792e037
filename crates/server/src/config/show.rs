//! The configuration as people read it: the commented default file, and what is in effect now.

use std::fmt::Write as _;

use serde_json::json;

use super::{
    load::{Effective, Value},
    table::{SETTINGS, Setting},
    value::ValueKind,
};

/// `codehub.default.toml`: documentation and defaults at once.
pub fn default_file() -> String {
    let mut out = String::from(
        "# Every setting of CodeHub with its default. Copy what you want to change to codehub.toml\n\
         # (./codehub.toml, ~/.config/codehub/codehub.toml, or the file named by --config or CODEHUB_CONFIG).\n\
         # The environment variable named beside a setting wins over the file, a flag wins over both.\n\
         # Durations: 30, 30s, 5m, 3h, 2d.\n",
    );
    by_table(
        SETTINGS,
        |setting| setting.key,
        &mut out,
        |out, name, setting| {
            let _ = writeln!(out, "\n# {}", setting.help);
            if let ValueKind::OneOf(words) = setting.kind {
                let _ = writeln!(out, "# One of: {}.", words.join(", "));
            }
            let flag = if setting.secret { String::new() } else { format!(", --{}", setting.flag()) };
            let _ = writeln!(out, "# {}{flag}", setting.env);
            // A setting that is empty by default is off: an empty value would only look like one.
            let off = if setting.default.is_empty() { "# " } else { "" };
            let _ = writeln!(out, "{off}{name} = {}", literal(setting, setting.default));
        },
    );
    out
}

/// What is in effect, with the origin of each value; secrets masked. Valid TOML.
pub fn effective_toml(effective: &Effective) -> String {
    let mut out = match &effective.file {
        Some(path) => format!("# configuration file: {}\n", path.display()),
        None => String::from("# configuration file: none\n"),
    };
    for sentence in &effective.config.unknown_env {
        let _ = writeln!(out, "# {sentence}");
    }
    by_table(
        &effective.values,
        |value| value.setting.key,
        &mut out,
        |out, name, value| {
            let _ = writeln!(
                out,
                "{name} = {}  # {}",
                literal(value.setting, &shown(effective, value)),
                value.origin
            );
        },
    );
    out
}

/// Every setting with its value and where that came from; secrets are left out.
pub fn effective_json(effective: &Effective) -> serde_json::Value {
    let settings: serde_json::Map<_, _> = effective
        .values
        .iter()
        .map(|value| {
            let shown = json!({
                "value": shown(effective, value),
                "origin": value.origin.to_string(),
                "env": value.setting.env,
            });
            (value.setting.key.to_owned(), shown)
        })
        .collect();
    json!({ "file": effective.file, "settings": settings, "unknown_env": effective.config.unknown_env })
}

/// Two values are worked out rather than written: show what they came to.
fn shown(effective: &Effective, value: &Value) -> String {
    match value.setting.key {
        "data_dir" => effective.config.data_dir.display().to_string(),
        "public_base_url" => effective.config.public_base_url.clone(),
        _ => value.masked().to_owned(),
    }
}

fn literal(setting: &Setting, text: &str) -> String {
    if setting.kind.is_bare(text) {
        text.to_owned()
    } else {
        toml::Value::String(text.to_owned()).to_string()
    }
}

/// Writes items below the header of their table; the settings without a table come first.
fn by_table<T>(
    items: &[T],
    key: impl Fn(&T) -> &'static str,
    out: &mut String,
    mut write: impl FnMut(&mut String, &str, &T),
) {
    let mut current = "";
    for item in items {
        let (table, name) = key(item).rsplit_once('.').unwrap_or(("", key(item)));
        if table != current {
            let _ = writeln!(out, "\n[{table}]");
            current = table;
        }
        write(out, name, item);
    }
}
