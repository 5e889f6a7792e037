//! What people may type into fields. One rule per field, for API, forms, command line and configuration.
//!
//! The fields of a workspace answer with a [`Violation`], which each caller says in its own words and
//! language; its `Display` is English.

use crate::ttl::TtlBounds;

/// The longest name of a workspace, in characters.
pub const NAME_MAX: usize = 255;
/// The longest description of a workspace, in characters.
pub const DESCRIPTION_MAX: usize = 500;
/// The longest memo of a workspace, in bytes.
pub const MEMO_MAX: usize = 64 * 1024;
/// The longest reason of a keep-awake lease, in characters.
pub const HOLD_REASON_MAX: usize = 200;

const USERNAME_MAX: usize = 64;
const PASSWORD_MIN: usize = 8;
const PASSWORD_MAX: usize = 1024;

/// What is wrong with a field. `Display` is English and goes on after the field's name: "name must not …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It is empty, and must not be.
    #[error("must have 1 to {max} characters")]
    Empty {
        /// How many characters it may have.
        max: usize,
    },
    /// It has too many characters.
    #[error("must have at most {max} characters")]
    TooLong {
        /// How many it may have.
        max: usize,
    },
    /// It has too many bytes.
    #[error("must have at most {} KiB", max / 1024)]
    TooLarge {
        /// How many it may have.
        max: usize,
    },
    /// It is one line, and has line ends or other control characters.
    #[error("must not have control characters")]
    Control,
    /// It has U+0000, which not every database can hold.
    #[error("must not contain the character U+0000")]
    Nul,
    /// A TTL that this deployment does not allow.
    #[error("invalid value {seconds}; expected: {bounds}")]
    Ttl {
        /// What was asked for; `u32::MAX` for anything longer.
        seconds: u32,
        /// What is allowed.
        bounds: TtlBounds,
    },
}

/// The name of a workspace, without the spaces around it.
///
/// # Errors
/// Empty, longer than [`NAME_MAX`], or with control characters.
pub fn workspace_name(text: &str) -> Result<&str, Violation> {
    let name = text.trim();
    if name.is_empty() {
        return Err(Violation::Empty { max: NAME_MAX });
    }
    one_line(name, NAME_MAX)
}

/// The reason of a keep-awake lease, without the spaces around it. May be empty.
///
/// # Errors
/// Longer than [`HOLD_REASON_MAX`], or with control characters.
pub fn hold_reason(text: &str) -> Result<&str, Violation> {
    one_line(text.trim(), HOLD_REASON_MAX)
}

/// The description of a workspace.
///
/// # Errors
/// Longer than [`DESCRIPTION_MAX`], or with U+0000.
pub fn description(text: String) -> Result<String, Violation> {
    if text.chars().count() > DESCRIPTION_MAX {
        return Err(Violation::TooLong { max: DESCRIPTION_MAX });
    }
    storable(text)
}

/// The memo of a workspace.
///
/// # Errors
/// Larger than [`MEMO_MAX`], or with U+0000.
pub fn memo(text: String) -> Result<String, Violation> {
    if text.len() > MEMO_MAX {
        return Err(Violation::TooLarge { max: MEMO_MAX });
    }
    storable(text)
}

/// A workspace's own TTL; `None` is the deployment's default.
///
/// # Errors
/// Outside of what the deployment allows.
pub fn ttl(seconds: Option<u32>, bounds: TtlBounds) -> Result<Option<u32>, Violation> {
    match seconds {
        Some(seconds) if !bounds.allow(seconds) => Err(Violation::Ttl { seconds, bounds }),
        seconds => Ok(seconds),
    }
}

fn one_line(text: &str, max: usize) -> Result<&str, Violation> {
    if text.chars().count() > max {
        Err(Violation::TooLong { max })
    } else if text.chars().any(char::is_control) {
        Err(Violation::Control)
    } else {
        Ok(text)
    }
}

fn storable(text: String) -> Result<String, Violation> {
    if text.contains('\0') { Err(Violation::Nul) } else { Ok(text) }
}

/// The name that somebody signs in with.
///
/// # Errors
/// What to change, as a sentence.
pub fn username(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() {
        Err("a username must not be empty".into())
    } else if name.chars().count() > USERNAME_MAX {
        Err(format!("a username has at most {USERNAME_MAX} characters"))
    } else if let Some(wrong) = name.chars().find(|c| !allowed(*c)) {
        Err(format!("a username has letters a-z and A-Z, digits, '.', '_' and '-' only, not {wrong:?}"))
    } else {
        Ok(())
    }
}

/// A password, before it is hashed.
///
/// # Errors
/// What to change, as a sentence; never the password.
pub fn password(word: &str) -> Result<(), String> {
    let length = word.chars().count();
    if length < PASSWORD_MIN {
        Err(format!("a password has at least {PASSWORD_MIN} characters"))
    } else if length > PASSWORD_MAX {
        Err(format!("a password has at most {PASSWORD_MAX} characters"))
    } else {
        Ok(())
    }
}

/// The name of an API token.
///
/// # Errors
/// What to change, as a sentence.
pub fn token_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        Err("a token's name has 1 to 100 characters, none of them control characters".into())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(workspace_name("  My box \n"), Ok("My box"));
        assert_eq!(workspace_name(&"가".repeat(255)).map(str::len), Ok(3 * 255));
        for (wrong, why) in [
            ("", Violation::Empty { max: 255 }),
            ("   ", Violation::Empty { max: 255 }),
            ("a\u{0}b", Violation::Control),
            ("a\nb", Violation::Control),
            (&"x".repeat(256), Violation::TooLong { max: 255 }),
        ] {
            assert_eq!(workspace_name(wrong), Err(why), "{wrong:?}");
        }
        assert_eq!((hold_reason(" "), hold_reason(" a build ")), (Ok(""), Ok("a build")));
        assert_eq!(hold_reason(&"x".repeat(201)), Err(Violation::TooLong { max: 200 }));
    }

    #[test]
    fn texts_are_bounded() {
        assert!(description("가".repeat(500)).is_ok());
        assert_eq!(description("x".repeat(501)), Err(Violation::TooLong { max: 500 }));
        assert!(memo("x".repeat(MEMO_MAX)).is_ok());
        assert_eq!(memo("가".repeat(MEMO_MAX / 3 + 1)), Err(Violation::TooLarge { max: MEMO_MAX }));
        for rule in [description, memo] {
            assert_eq!(rule("a\0b".into()), Err(Violation::Nul));
            assert_eq!(rule("a\nb".into()), Ok("a\nb".into()));
        }
    }

    #[test]
    fn ttls_stay_within_bounds_and_the_message_says_which() {
        let bounds = |min, max| TtlBounds { min, max };
        let table = [
            (bounds(0, 0), 0, true),
            (bounds(0, 0), 1, true),
            (bounds(60, 0), 59, false),
            (bounds(60, 0), 0, true),
            (bounds(60, 3600), 0, false),
            (bounds(60, 3600), 60, true),
            (bounds(60, 3600), 3600, true),
            (bounds(60, 3600), 3601, false),
        ];
        for (bounds, seconds, allowed) in table {
            assert_eq!(ttl(Some(seconds), bounds).is_ok(), allowed, "{bounds:?} {seconds}");
        }
        let error = ttl(Some(5), bounds(60, 3600)).unwrap_err();
        assert_eq!(error.to_string(), "invalid value 5; expected: 60 to 3600 seconds");
        assert_eq!(ttl(None, bounds(60, 3600)), Ok(None));
    }

    #[test]
    fn usernames() {
        for good in ["a", "Ann.Lee-2_x", &"x".repeat(64)] {
            assert_eq!(username(good), Ok(()), "{good:?}");
        }
        for bad in ["", "a b", "é", "a/b", "a\n", "<b>", &"x".repeat(65)] {
            assert!(username(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn passwords() {
        for good in ["12345678", "암호암호암호암호", &"x".repeat(1024)] {
            assert_eq!(password(good), Ok(()));
        }
        for bad in ["", "1234567", "암호암호", &"x".repeat(1025)] {
            assert!(password(bad).is_err());
        }
    }
}
