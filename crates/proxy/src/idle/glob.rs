//! Path patterns: `*` is anything but a slash, `**` is anything, everything else is itself.

use std::fmt;

use serde::Deserialize;

/// A pattern, parsed when the rules are read.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(super) struct Glob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    /// These bytes.
    Literal(Vec<u8>),
    /// `*`: anything but a slash.
    WithinSegment,
    /// `**`: anything.
    Anything,
}

impl From<String> for Glob {
    fn from(text: String) -> Self {
        let mut parts = Vec::new();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (part, length) = match rest {
                [b'*', b'*', ..] => (Part::Anything, 2),
                [b'*', ..] => (Part::WithinSegment, 1),
                _ => {
                    let end = rest.iter().position(|&b| b == b'*').unwrap_or(rest.len());
                    (Part::Literal(rest[..end].to_vec()), end)
                }
            };
            parts.push(part);
            rest = &rest[length..];
        }
        Self { text, parts }
    }
}

impl Glob {
    /// As it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole path is what the pattern says.
    pub(super) fn matches(&self, path: &str) -> bool {
        matches(&self.parts, path.as_bytes())
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

fn matches(parts: &[Part], path: &[u8]) -> bool {
    match parts {
        [] => path.is_empty(),
        [Part::Literal(bytes), rest @ ..] => {
            path.strip_prefix(bytes.as_slice()).is_some_and(|path| matches(rest, path))
        }
        [Part::WithinSegment, rest @ ..] => {
            let segment = path.iter().position(|&b| b == b'/').unwrap_or(path.len());
            (0..=segment).any(|skip| matches(rest, &path[skip..]))
        }
        [Part::Anything, rest @ ..] => (0..=path.len()).any(|skip| matches(rest, &path[skip..])),
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("/api/kernels", "/api/kernels", true),
            ("/api/kernels", "/api/kernels/1", false),
            ("/api/kernels/*", "/api/kernels/1", true),
            ("/api/kernels/*", "/api/kernels/1/channels", false),
            ("/api/*/channels", "/api/x/channels", true),
            ("/stable-*", "/stable-1234", true),
            ("/stable-*", "/stable-1234/static", false),
            ("/**", "/", true),
            ("/a/**/z", "/a/b/c/z", true),
            ("/a/**", "/b/a/c", false),
            ("*", "", true),
            ("/a*b", "/a*c", false),
            ("/a*b", "/a*b", true),
            ("/a***b", "/a/x/b", true),
            ("", "", true),
            ("", "/", false),
        ] {
            assert_eq!(Glob::from(pattern.to_owned()).matches(path), expected, "{pattern} {path}");
        }
    }
}
