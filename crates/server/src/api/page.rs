//! Lists: how many, from where on, and what comes after.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, Result};

const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 200;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListOf<T> {
    pub items: Vec<T>,
    /// Send it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// All that match; absent where they are too many to count for every page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl<T> ListOf<T> {
    /// A list that is never long enough for pages.
    pub fn whole(items: Vec<T>) -> Self {
        let total = items.len() as u64;
        Self { items, next_cursor: None, total: Some(total) }
    }
}

/// # Errors
/// Not a number, or out of range.
pub fn limit(text: Option<&str>) -> Result<u32> {
    let Some(text) = text else {
        return Ok(LIMIT_DEFAULT);
    };
    let wrong = || ApiError::invalid("limit", format!("must be a whole number from 1 to {LIMIT_MAX}"));
    text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit)).ok_or_else(wrong)
}

/// Opaque on purpose: what it is made of may change.
pub fn cursor(kind: &str, last: impl std::fmt::Display) -> String {
    URL_SAFE_NO_PAD.encode(format!("{kind}:{last}"))
}

/// # Errors
/// Not one of ours, or one of another list.
pub fn parse_cursor<T: std::str::FromStr>(kind: &str, text: Option<&str>) -> Result<Option<T>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let decode = || {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (of, last) = str::from_utf8(&bytes).ok()?.split_once(':')?;
        if of == kind { last.parse().ok() } else { None }
    };
    match decode() {
        Some(last) => Ok(Some(last)),
        None => Err(ApiError::invalid("cursor", "is not one that this list gave out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(limit(None), Ok(50));
        assert_eq!(limit(Some("1")), Ok(1));
        assert_eq!(limit(Some("200")), Ok(200));
        for wrong in ["0", "201", "-1", "x", "", "1.5", "99999999999"] {
            assert!(limit(Some(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn cursors_come_back_and_others_do_not() {
        let cursor = cursor("history", 42);
        assert_eq!(parse_cursor::<i64>("history", Some(&cursor)), Ok(Some(42)));
        assert_eq!(parse_cursor::<i64>("history", None), Ok(None));
        for wrong in ["", "x", "aGk", "42", &super::cursor("workspaces", 42), &super::cursor("history", "x")]
        {
            assert!(parse_cursor::<i64>("history", Some(wrong)).is_err(), "{wrong:?}");
        }
    }
}
