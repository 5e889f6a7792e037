//! Paths as the browser and the server write them to each other.
//!
//! A path is relative to the home, its parts joined by `/`, each part
//! percent-encoded byte by byte the way `encodeURIComponent` does it. That
//! keeps names that are not UTF-8 usable: the page shows them lossily and hands
//! the encoded form back unchanged.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::error::{ApiError, Result};

/// Everything `encodeURIComponent` escapes, so that both sides agree on a spelling.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// A checked relative path: no `..`, no NUL, not absolute. Empty means the home itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RelPath {
    parts: Vec<OsString>,
}

impl RelPath {
    /// Reads the percent-encoded form. A literal `/` (also as `%2F`) separates parts.
    pub(crate) fn decode(encoded: &str) -> Result<Self> {
        let bytes: Vec<u8> = percent_decode_str(encoded).collect();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        if bytes.contains(&0) {
            return Err(ApiError::bad_request("BAD_PATH", "a path cannot contain a NUL byte"));
        }
        if bytes.first() == Some(&b'/') {
            return Err(ApiError::bad_request(
                "BAD_PATH",
                format!("“{shown}” is absolute; paths are relative to the home directory"),
            ));
        }
        let mut parts = Vec::new();
        for part in bytes.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    return Err(ApiError::bad_request(
                        "BAD_PATH",
                        format!("“{shown}” contains “..”, which is not allowed"),
                    ));
                }
                name => parts.push(OsString::from_vec(name.to_vec())),
            }
        }
        Ok(Self { parts })
    }

    /// A path below the home that the file system itself spelled.
    pub(crate) fn beneath(path: &Path) -> Self {
        let parts = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        });
        Self { parts: parts.collect() }
    }

    pub(crate) fn parts(&self) -> &[OsString] {
        &self.parts
    }

    pub(crate) fn name(&self) -> Option<&OsStr> {
        self.parts.last().map(OsString::as_os_str)
    }

    pub(crate) fn parent(&self) -> Self {
        let keep = self.parts.len().saturating_sub(1);
        Self { parts: self.parts[..keep].to_vec() }
    }

    pub(crate) fn join(&self, name: &OsStr) -> Self {
        let mut parts = self.parts.clone();
        parts.push(name.to_owned());
        Self { parts }
    }

    pub(crate) fn to_path_buf(&self) -> PathBuf {
        if self.parts.is_empty() {
            return PathBuf::from(".");
        }
        self.parts.iter().collect()
    }

    /// The encoded spelling.
    pub(crate) fn encoded(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| encode_name(part.as_bytes())).collect();
        parts.join("/")
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        if self.parts.is_empty() {
            return "~".to_owned();
        }
        self.to_path_buf().to_string_lossy().into_owned()
    }
}

/// The encoded spelling of one file name.
pub(crate) fn encode_name(name: &[u8]) -> String {
    percent_encode(name, COMPONENT).to_string()
}

/// The raw (still encoded) value of `key` in a query string. `+` is a plus.
pub(crate) fn query_value<'q>(query: Option<&'q str>, key: &str) -> Option<&'q str> {
    query?.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == key).then_some(value)
    })
}

/// The path under `key`, or an error that names the missing parameter.
pub(crate) fn query_path(query: Option<&str>, key: &str) -> Result<RelPath> {
    let value = query_value(query, key).ok_or_else(|| {
        ApiError::bad_request("MISSING_PARAMETER", format!("the parameter “{key}” is missing"))
    })?;
    RelPath::decode(value)
}

/// Names this server uses for half-written files; never listed or announced.
pub(crate) const TEMP_PREFIX: &str = ".codehub-partial-";

pub(crate) fn is_temp(name: &[u8]) -> bool {
    name.starts_with(TEMP_PREFIX.as_bytes())
}

pub(crate) fn lossy(name: &OsStr) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_could_climb_out() {
        for bad in ["..", "a/../b", "%2e%2e/x", "a%2F..%2Fb", "/etc", "%2Fetc", "a%00b"] {
            assert!(RelPath::decode(bad).is_err(), "{bad} must be refused");
        }
    }

    #[test]
    fn keeps_bytes_that_are_not_utf8() {
        let path = RelPath::decode("dir/%FF%FE.txt").unwrap();
        assert_eq!(path.name().unwrap().as_bytes(), b"\xff\xfe.txt");
        assert_eq!(encode_name(b"\xff\xfe.txt"), "%FF%FE.txt");
    }

    #[test]
    fn dots_and_empty_parts_vanish() {
        assert_eq!(RelPath::decode("./a//b/").unwrap(), RelPath::decode("a/b").unwrap());
        assert!(RelPath::decode("").unwrap().parts().is_empty());
    }
}
