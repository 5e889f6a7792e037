//! Where each value comes from: gathers the sources, lets the strongest win, and says in one sentence
//! what is wrong with a value nobody can use. All mistakes are reported at once.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::{
    Config, build,
    table::{SETTINGS, Setting, by_key},
    unknown_env::unknown_env,
    value,
};

/// What the command line said.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--config`
    pub config: Option<PathBuf>,
    /// By key.
    pub set: BTreeMap<String, String>,
}

/// Everything a configuration is made from. Reading the process happens once, in
/// [`Sources::of_process`]; the rest is plain data.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub flags: Overrides,
    pub env: BTreeMap<String, String>,
    pub home: Option<PathBuf>,
    /// The files looked for when none is named; the first that exists is taken.
    pub files: Vec<PathBuf>,
}

impl Sources {
    /// Flags, and the environment of this process.
    pub fn of_process(flags: Overrides) -> Self {
        let env: BTreeMap<_, _> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let home = env.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let mut files = vec![PathBuf::from("codehub.toml")];
        files.extend(home.as_ref().map(|home| home.join(".config/codehub/codehub.toml")));
        Self { flags, env, home, files }
    }

    /// An empty variable counts as one that is not set.
    fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn named_file(&self) -> Option<(PathBuf, &'static str)> {
        let by_flag = self.flags.config.clone().map(|path| (path, "--config"));
        by_flag.or_else(|| self.env("CODEHUB_CONFIG").map(|path| (PathBuf::from(path), "CODEHUB_CONFIG")))
    }
}

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    Env(&'static str),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// One mistake, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{key}: invalid value {value:?} (from {origin}); {why}")]
    Value { key: String, value: String, origin: Origin, why: String },
    #[error("{path}: there is no setting `{key}`{}", nearest.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey { path: String, key: String, nearest: Option<&'static str> },
    #[error("the configuration file {path} (named by {by}) cannot be read: {why}")]
    Unreadable { path: String, by: &'static str, why: String },
    #[error("{path} is not valid TOML: {why}")]
    Syntax { path: String, why: String },
    #[error("{0}")]
    Cross(String),
}

/// All mistakes found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// One setting's text and who set it.
#[derive(Clone)]
pub struct Value {
    pub setting: &'static Setting,
    pub text: String,
    pub origin: Origin,
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?} ({})", self.setting.key, self.masked(), self.origin)
    }
}

impl Value {
    /// As it may be shown.
    pub fn masked(&self) -> &str {
        if self.setting.secret && !self.text.is_empty() { "***" } else { &self.text }
    }

    /// Differs where the value does. Of a secret it tells sixteen bits: enough to notice a change, too little to
    /// guess by.
    fn fingerprint(&self) -> String {
        let digest = Sha256::new()
            .chain_update(self.setting.key)
            .chain_update([0])
            .chain_update(&self.text)
            .finalize();
        let told = if self.setting.secret { 2 } else { 16 };
        digest.iter().take(told).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn error(&self, why: impl Into<String>) -> ConfigError {
        ConfigError::Value {
            key: self.setting.key.into(),
            value: self.masked().chars().take(200).collect(),
            origin: self.origin.clone(),
            why: why.into(),
        }
    }
}

/// The configuration with the origin of every value.
#[derive(Debug, Clone)]
pub struct Effective {
    pub config: Config,
    /// In the table's order.
    pub values: Vec<Value>,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

impl Effective {
    /// Gathers, validates and types.
    ///
    /// # Errors
    /// Everything that is wrong, not only the first.
    pub fn load(sources: &Sources) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let (file, in_file) = read_file(sources, &mut errors);
        for key in sources.flags.set.keys().filter(|key| by_key(key).is_none()) {
            errors.push(unknown("command line", key));
        }
        let values: Vec<Value> =
            SETTINGS.iter().map(|setting| strongest(setting, sources, file.as_deref(), &in_file)).collect();
        for value in &values {
            if let Err(why) = value.setting.kind.check(&value.text) {
                errors.push(value.error(why));
            }
        }
        if !errors.is_empty() {
            return Err(ConfigErrors(errors));
        }
        let mut config = build::config(&values, sources.home.as_deref())?;
        config.file.clone_from(&file);
        let of_file = |value: &&Value| matches!(value.origin, Origin::File(_)) && !value.text.is_empty();
        config.secrets_in_file = values.iter().filter(of_file).any(|value| value.setting.secret);
        config.fingerprints = values.iter().map(|value| (value.setting.key, value.fingerprint())).collect();
        config.unknown_env = unknown_env(&sources.env);
        Ok(Self { config, values, file })
    }
}

fn strongest(
    setting: &'static Setting,
    sources: &Sources,
    file: Option<&Path>,
    in_file: &BTreeMap<String, String>,
) -> Value {
    let (text, origin) = if let Some(text) = sources.flags.set.get(setting.key) {
        (text.clone(), Origin::Flag(setting.flag()))
    } else if let Some(text) = sources.env(setting.env) {
        (text.to_owned(), Origin::Env(setting.env))
    } else if let (Some(text), Some(path)) = (in_file.get(setting.key), file) {
        (text.clone(), Origin::File(path.to_owned()))
    } else {
        (setting.default.to_owned(), Origin::Default)
    };
    Value { setting, text, origin }
}

/// The file's values by key, as text.
fn read_file(
    sources: &Sources,
    errors: &mut Vec<ConfigError>,
) -> (Option<PathBuf>, BTreeMap<String, String>) {
    let named = sources.named_file();
    let Some(path) =
        named.as_ref().map(|(path, _)| path).or_else(|| sources.files.iter().find(|path| path.exists()))
    else {
        return (None, BTreeMap::new());
    };
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let by = named.as_ref().map_or("being there", |(_, by)| by);
            errors.push(ConfigError::Unreadable { path: shown, by, why: error.to_string() });
            return (None, BTreeMap::new());
        }
    };
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let why = error.to_string().trim_end().replace('\n', "\n  ");
            errors.push(ConfigError::Syntax { path: shown, why });
            return (None, BTreeMap::new());
        }
    };
    let mut values = BTreeMap::new();
    flatten(&shown, "", &table, &mut values, errors);
    (Some(path.clone()), values)
}

fn flatten(
    path: &str,
    prefix: &str,
    table: &toml::Table,
    values: &mut BTreeMap<String, String>,
    errors: &mut Vec<ConfigError>,
) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        if let toml::Value::Table(inner) = value
            && SETTINGS.iter().any(|setting| setting.key.starts_with(&format!("{key}.")))
        {
            flatten(path, &key, inner, values, errors);
            continue;
        }
        let Some(setting) = by_key(&key) else {
            errors.push(unknown(path, &key));
            continue;
        };
        match text_of(value, setting) {
            Some(text) => {
                values.insert(key, text);
            }
            None => errors.push(ConfigError::Value {
                key,
                value: if setting.secret { "***".into() } else { value.to_string() },
                origin: Origin::File(path.into()),
                why: format!("expected: {}", setting.kind.allowed()),
            }),
        }
    }
}

/// Numbers may be written as numbers, switches as booleans and lists as lists; nothing else is converted.
fn text_of(value: &toml::Value, setting: &Setting) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) if setting.kind == value::ValueKind::Cpus => Some(number.to_string()),
        toml::Value::Boolean(on) if setting.kind == value::ValueKind::Switch => Some(on.to_string()),
        toml::Value::Array(items) if setting.kind.is_list() => {
            let words: Vec<&str> = items.iter().map(toml::Value::as_str).collect::<Option<_>>()?;
            Some(if setting.kind == value::ValueKind::Words {
                value::quote_words(words)
            } else {
                words.join(", ")
            })
        }
        toml::Value::Array(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_)
        | toml::Value::Table(_) => None,
    }
}

fn unknown(path: &str, key: &str) -> ConfigError {
    // People also type the environment's name into the file, or leave out the table.
    let closeness = |setting: &Setting| {
        let last = setting.key.rsplit('.').next().unwrap_or(setting.key);
        let by_key = strsim::jaro_winkler(key, setting.key);
        let by_env = strsim::jaro_winkler(&key.to_ascii_uppercase(), setting.env);
        let by_last = if key == last { 0.95 } else { 0.0 };
        by_key.max(by_env).max(by_last)
    };
    let nearest = SETTINGS
        .iter()
        .map(|setting| (closeness(setting), setting.key))
        .filter(|(closeness, _)| *closeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, key)| key);
    ConfigError::UnknownKey { path: path.into(), key: key.into(), nearest }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
