//! Random secrets. They are long enough that a fast hash keeps them: what is stored cannot be turned
//! back, and what is presented is hashed and looked up, so comparing takes no time that would tell.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use codehub_proxy::credential::TOKEN_PREFIX;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// How long a secret is as text.
pub const LENGTH: usize = 43;

/// 256 random bits, as text.
pub fn new_secret() -> String {
    let bytes: [u8; 32] = rand::random();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A new API token.
pub fn new_token() -> String {
    format!("{TOKEN_PREFIX}{}", new_secret())
}

/// The SHA-256 of a secret: what is stored of it.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// [`hash`] as hexadecimal text, as the settings keep it.
pub fn hash_text(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(hash(secret))
}

/// Whether `secret` is the one `stored` was made from.
pub fn matches(secret: &str, stored: &str) -> bool {
    hash_text(secret).as_bytes().ct_eq(stored.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_different() {
        let (a, b) = (new_secret(), new_secret());
        assert_eq!(a.len(), LENGTH);
        assert_ne!(a, b);
        assert!(new_token().starts_with("chp_"));
    }

    #[test]
    fn only_the_secret_itself_matches() {
        let secret = new_secret();
        let stored = hash_text(&secret);
        assert!(matches(&secret, &stored));
        assert!(!matches(&stored, &stored) && !matches("", &stored) && !matches(&secret, ""));
    }
}
