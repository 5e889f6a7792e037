//! What a username and a password must look like. Said once, in words, for API, command line and
//! configuration.

const USERNAME_MAX: usize = 64;
const PASSWORD_MIN: usize = 8;
const PASSWORD_MAX: usize = 1024;

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
