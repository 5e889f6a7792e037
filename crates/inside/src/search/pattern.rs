//! What to look for in a line, and what to put in its place.

use grep_matcher::{Captures, Match, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use serde::Deserialize;

use crate::error::{ApiError, Result};

/// More memory than this a compiled expression may not take.
const MAX_COMPILED: usize = 8 * 1024 * 1024;
const MAX_QUERY: usize = 4096;

/// As the person typed it.
#[derive(Deserialize, Debug, Default, Clone)]
pub(super) struct Query {
    query: String,
    /// A regular expression, not plain text.
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    case: bool,
    #[serde(default)]
    word: bool,
    /// What takes the place of a match; `$1` and `${name}` mean groups when `regex` is set.
    #[serde(default)]
    replacement: Option<String>,
}

/// A query that can be searched with.
pub(super) struct Pattern {
    pub(super) matcher: RegexMatcher,
    replacement: Option<Vec<u8>>,
}

impl Query {
    pub(super) fn compile(&self) -> Result<Pattern> {
        if self.query.is_empty() || self.query.len() > MAX_QUERY || self.query.contains('\n') {
            return Err(ApiError::bad_request(
                "BAD_QUERY",
                format!("the text to find is one line of 1 to {MAX_QUERY} bytes"),
            ));
        }
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(!self.regex)
            .case_insensitive(!self.case)
            .word(self.word)
            .crlf(true)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .build(&self.query)
            .map_err(|error| {
                ApiError::bad_request("BAD_REGEX", format!("the regular expression cannot be used: {error}"))
            })?;
        let replacement = self.replacement.as_ref().map(|text| {
            let text = if self.regex { text.clone() } else { text.replace('$', "$$") };
            text.into_bytes()
        });
        Ok(Pattern { matcher, replacement })
    }
}

impl Pattern {
    /// Where it matches in a line without its end. Empty matches are none: there is nothing to show or replace.
    pub(super) fn matches(&self, line: &[u8]) -> Vec<Match> {
        let mut found = Vec::new();
        let _ = self.matcher.find_iter(line, |at| {
            if !at.is_empty() {
                found.push(at);
            }
            true
        });
        found
    }

    /// The line with every match replaced; `None` when this is no replacement or nothing matches.
    pub(super) fn replaced(&self, line: &[u8]) -> Option<Vec<u8>> {
        let replacement = self.replacement.as_ref()?;
        let mut captures = self.matcher.new_captures().ok()?;
        let mut after = Vec::with_capacity(line.len());
        let mut changed = false;
        self.matcher
            .replace_with_captures(line, &mut captures, &mut after, |captures, after| {
                let whole = captures.get(0).filter(|at| !at.is_empty());
                if whole.is_some() {
                    changed = true;
                    captures.interpolate(|name| self.matcher.capture_index(name), line, replacement, after);
                }
                true
            })
            .ok()?;
        changed.then_some(after)
    }

    /// True when matches are to be replaced.
    pub(super) fn replaces(&self) -> bool {
        self.replacement.is_some()
    }
}

/// A line without what ends it.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(query: &str, change: impl FnOnce(&mut Query)) -> Pattern {
        let mut query = Query { query: query.to_owned(), ..Query::default() };
        change(&mut query);
        query.compile().unwrap()
    }

    #[test]
    fn plain_text_is_not_an_expression() {
        let found = pattern("a.b", |_| {});
        assert_eq!(found.matches(b"a.b axb A.B").len(), 2);
        assert_eq!(pattern("a.b", |query| query.case = true).matches(b"a.b A.B").len(), 1);
        assert_eq!(pattern("a.b", |query| query.regex = true).matches(b"a.b axb").len(), 2);
        assert_eq!(pattern("get", |query| query.word = true).matches(b"get getter get_x get").len(), 2);
    }

    #[test]
    fn groups_are_for_expressions_only() {
        let to = |text: &str| Some(text.to_owned());
        let swap = pattern(r"(\w+)=(\w+)", |query| {
            query.regex = true;
            query.replacement = to("$2=$1");
        });
        assert_eq!(swap.replaced(b"a=b; c=d").unwrap(), b"b=a; d=c");
        let plain = pattern("cost", |query| query.replacement = to("$1"));
        assert_eq!(plain.replaced(b"cost").unwrap(), b"$1");
        assert_eq!(plain.replaced(b"nothing"), None);
    }

    #[test]
    fn what_cannot_be_searched_for_is_refused() {
        for query in ["", "a\nb"] {
            assert!(Query { query: query.to_owned(), ..Query::default() }.compile().is_err());
        }
        let bad = Query { query: "(".to_owned(), regex: true, ..Query::default() };
        assert_eq!(bad.compile().err().unwrap().code, "BAD_REGEX");
    }
}
