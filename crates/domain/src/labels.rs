//! Labels: a small map of words to words that people sort their workspaces by.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// At most [`Labels::MOST`] of them; keys of 1–63 characters of `a-z 0-9 . _ / -`, values of at most 255
/// characters, none of them a control character. A value may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Labels(BTreeMap<String, String>);

/// Why something is no label; the message says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("{0} labels are too many; at most {most} are allowed", most = Labels::MOST)]
    TooMany(usize),
    #[error("invalid label {0:?}; expected 1 to 63 characters of a-z, 0-9, '.', '_', '/' and '-'")]
    Key(String),
    #[error("the value of label {0:?} is too long; at most 255 characters are allowed")]
    ValueTooLong(String),
    #[error("the value of label {0:?} contains a control character")]
    ValueControl(String),
}

impl Labels {
    /// The most labels of a workspace.
    pub const MOST: usize = 32;
    const LONGEST_KEY: usize = 63;
    const LONGEST_VALUE: usize = 255;

    /// The value of a label; empty where it has none.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = LabelError;

    fn try_from(map: BTreeMap<String, String>) -> Result<Self, Self::Error> {
        if map.len() > Self::MOST {
            return Err(LabelError::TooMany(map.len()));
        }
        for (key, value) in &map {
            check_key(key)?;
            if value.chars().count() > Self::LONGEST_VALUE {
                return Err(LabelError::ValueTooLong(key.clone()));
            }
            if value.chars().any(char::is_control) {
                return Err(LabelError::ValueControl(key.clone()));
            }
        }
        Ok(Self(map))
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

/// One a line, `key` or `key: value`; empty lines do not count. What is printed can be read again. Of a key that
/// is there twice the last counts.
impl FromStr for Labels {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let label = |line: &str| match line.split_once(':') {
            Some((key, value)) => {
                (key.trim().to_owned(), value.strip_prefix(' ').unwrap_or(value).to_owned())
            }
            None => (line.trim().to_owned(), String::new()),
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(label).collect::<BTreeMap<_, _>>().try_into()
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in self.iter() {
            match value {
                "" => writeln!(f, "{key}")?,
                value => writeln!(f, "{key}: {value}")?,
            }
        }
        Ok(())
    }
}

fn check_key(key: &str) -> Result<(), LabelError> {
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '/' | '-');
    if key.is_empty() || key.len() > Labels::LONGEST_KEY || !key.chars().all(allowed) {
        return Err(LabelError::Key(key.chars().take(64).collect()));
    }
    Ok(())
}

/// What a list is filtered by, written `key` (it has this label) or `key:value` (with exactly this value).
/// Keys have no colon, so the first one ends the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFilter {
    pub key: String,
    pub value: Option<String>,
}

impl LabelFilter {
    /// Whether a workspace with these labels is on the list.
    pub fn matches(&self, labels: &Labels) -> bool {
        labels.get(&self.key).is_some_and(|value| self.value.as_deref().is_none_or(|wanted| wanted == value))
    }
}

impl FromStr for LabelFilter {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = match text.split_once(':') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (text, None),
        };
        check_key(key)?;
        Ok(Self { key: key.into(), value })
    }
}

impl fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}:{value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Result<Labels, LabelError> {
        let map: BTreeMap<_, _> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        map.try_into()
    }

    #[test]
    fn what_may_be_a_label() {
        let long = "k".repeat(64);
        let longest = "v".repeat(255);
        assert!(labels(&[]).unwrap().is_empty());
        assert!(labels(&[("team", "api"), ("example.com/cost-centre_2", ""), ("k", &longest)]).is_ok());
        assert!(labels(&[(&long[..63], "")]).is_ok());
        for key in ["", "Team", "a b", "ä", "a:b", long.as_str()] {
            assert!(matches!(labels(&[(key, "")]), Err(LabelError::Key(_))), "{key:?}");
        }
        let too_long = format!("{longest}v");
        assert_eq!(labels(&[("k", &too_long)]), Err(LabelError::ValueTooLong("k".into())));
        assert_eq!(labels(&[("k", "a\0b")]), Err(LabelError::ValueControl("k".into())));
        let many: BTreeMap<_, _> = (0..33).map(|n| (format!("k{n}"), String::new())).collect();
        assert_eq!(Labels::try_from(many), Err(LabelError::TooMany(33)));
    }

    #[test]
    fn filters() {
        let some = labels(&[("team", "api"), ("url", "a:b"), ("empty", "")]).unwrap();
        for (filter, matches) in [
            ("team", true),
            ("team:api", true),
            ("team:", false),
            ("team:ap", false),
            ("url:a:b", true),
            ("empty", true),
            ("empty:", true),
            ("other", false),
        ] {
            let read: LabelFilter = filter.parse().unwrap();
            assert_eq!(read.matches(&some), matches, "{filter}");
            assert_eq!(read.to_string(), filter);
        }
        for wrong in ["", ":x", "Team", "a b:c"] {
            assert!(wrong.parse::<LabelFilter>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let written =
            labels(&[("team", "red"), ("urgent", ""), ("note", " two: spaces  "), ("a/b", ":")]).unwrap();
        assert_eq!(written.to_string().parse(), Ok(written));
        assert_eq!("  team:red\r\n\n urgent ".parse(), labels(&[("team", "red"), ("urgent", "")]));
        assert!(matches!("Team: red".parse::<Labels>(), Err(LabelError::Key(_))));
    }
}
