//! The id that goes with a request through every log, and back to the client.

use std::{
    cell::Cell,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries a request's id, in both directions.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The client's own id where it is a sane one, so that logs on both sides can be put together.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        (1..=64).contains(&value.len())
            && value.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    };
    let new = || HeaderValue::from_bytes(&new_id()).unwrap_or(HeaderValue::from_static("unknown"));
    headers.get(REQUEST_ID).filter(sane).cloned().unwrap_or_else(new)
}

/// One of this process's own: its random beginning, and a number, in hexadecimal.
pub fn new_id() -> [u8; 32] {
    /// So many are taken at once, so that threads do not wait for each other.
    const AT_ONCE: u64 = 1024;
    static PROCESS: LazyLock<u64> = LazyLock::new(rand::random);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static MINE: Cell<u64> = const { Cell::new(0) });
    let mut mine = MINE.get();
    if mine.is_multiple_of(AT_ONCE) {
        mine = NEXT.fetch_add(AT_ONCE, Ordering::Relaxed);
    }
    MINE.set(mine + 1);
    let number = u128::from(*PROCESS) << 64 | u128::from(mine);
    std::array::from_fn(|at| b"0123456789abcdef"[(number >> (124 - 4 * at)) as usize & 0xf])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sane_request_ids_are_taken_over() {
        let take = |text: &str| {
            let value = HeaderValue::from_bytes(text.as_bytes()).unwrap();
            request_id(&HeaderMap::from_iter([(REQUEST_ID, value)]))
        };
        assert_eq!(take("abc-123_X.y"), "abc-123_X.y");
        for wrong in ["", "a b", "a\"b", "é", &"x".repeat(65)] {
            assert_ne!(take(wrong), wrong);
            assert_eq!(take(wrong).len(), 32);
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
