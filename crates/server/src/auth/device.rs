//! Signing in programs: a program shows a short code, somebody who is signed in confirms it in a browser, and the program
//! gets a token of theirs. The program's own secret never leaves it and this server, which keeps hashes only.

use std::net::IpAddr;

use codehub_domain::{SessionId, TokenId, UserId, audit::Act};
use codehub_proxy::client;
use codehub_store::{Allowance, DeviceLogin, DeviceRedeemed, StoreError, Tried};
use uuid::Uuid;

use super::secret;
use crate::app::App;

/// How long a code can be confirmed, and the token be fetched.
pub const LIFETIME_SECONDS: u32 = 600;
/// How often a program asks whether it is confirmed.
pub const INTERVAL_SECONDS: u32 = 2;
/// How long the token lasts.
pub const TOKEN_SECONDS: u32 = 30 * 86_400;
/// The longest name of a machine.
pub const MACHINE_MAX: usize = 64;

const MINUTE: u32 = 60;
/// Consonants: none that is taken for another, and no words.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const CODE_LETTERS: usize = 8;
/// Two codes are alike once in 25 thousand million times.
const TRIES: usize = 4;

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("machine: must be 1 to {MACHINE_MAX} characters, no control characters")]
    Machine,
    #[error("too many tries: wait {0} seconds")]
    Wait(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a program is told that wants to be signed in.
#[derive(Debug)]
pub struct Begun {
    /// The program's secret.
    pub device_code: String,
    /// For the person, as [`shown`].
    pub user_code: String,
}

/// A new code for a program on that machine.
///
/// # Errors
/// The name will not do, the address asks too often, or the store does not answer.
pub async fn begin(app: &App, machine: &str, address: IpAddr) -> Result<Begun, DeviceError> {
    let machine = machine.trim();
    if machine.is_empty() || machine.chars().count() > MACHINE_MAX || machine.chars().any(char::is_control) {
        return Err(DeviceError::Machine);
    }
    count(app, asked(&client::counted_as(address))).await?;
    let login = DeviceLogin { machine: machine.to_owned(), address: address.to_canonical().to_string() };
    for _ in 0..TRIES {
        let (device_code, code) = (secret::new_secret(), new_code());
        let hashes = (secret::hash(&device_code), secret::hash(&code));
        if app.store().device_login_create(&hashes.0, &hashes.1, &login, LIFETIME_SECONDS).await? {
            return Ok(Begun { device_code, user_code: shown(&code) });
        }
    }
    Err(StoreError::Failed("no free code was found".into()).into())
}

/// What the code of somebody's is for. Codes that are none are counted.
///
/// # Errors
/// Too many were tried, or the store does not answer.
pub async fn find(app: &App, user: UserId, typed: &str) -> Result<Option<DeviceLogin>, DeviceError> {
    let Some(code) = parse(typed) else { return Ok(None) };
    let allowance = guessed(user);
    let key = allowance.key.clone();
    count(app, allowance).await?;
    let found = app.store().device_login_find(&secret::hash(&code)).await?;
    if found.is_some() {
        app.store().attempts_take_back(&key, 1).await?;
    }
    Ok(found)
}

/// Allows or denies it, once. `false` where there is nothing to decide (any more).
///
/// # Errors
/// Too many were tried, or the store does not answer.
pub async fn decide(
    app: &App,
    by: &Act,
    (session, user): (SessionId, UserId),
    typed: &str,
    allow: bool,
) -> Result<bool, DeviceError> {
    let (Some(code), Some(_)) = (parse(typed), find(app, user, typed).await?) else { return Ok(false) };
    Ok(app.store().device_login_decide(by, &secret::hash(&code), session, allow).await?)
}

/// What has become of it, and the secret of the token where there is one.
///
/// # Errors
/// The store does not answer.
pub async fn redeem(app: &App, by: &Act, device_code: &str) -> Result<(String, DeviceRedeemed), StoreError> {
    let token = secret::new_token();
    let (device, id) = (secret::hash(device_code), TokenId::from_uuid(Uuid::now_v7()));
    let redeemed =
        app.store().device_login_redeem(by, &device, id, &secret::hash(&token), TOKEN_SECONDS).await?;
    Ok((token, redeemed))
}

async fn count(app: &App, allowance: Allowance) -> Result<(), DeviceError> {
    match app.store().attempts_count(&[allowance]).await? {
        Tried::Counted => Ok(()),
        Tried::Wait { seconds, .. } => Err(DeviceError::Wait(seconds)),
    }
}

/// Anybody may ask, so that an address asks only so often.
fn asked(address: &str) -> Allowance {
    Allowance {
        key: format!("device-login:{address}"),
        free: 20,
        first_wait_seconds: 5,
        longest_wait_seconds: 30,
        forget_after_seconds: 10 * MINUTE,
    }
}

/// Codes are short, so that a person tries only so many.
fn guessed(user: UserId) -> Allowance {
    Allowance {
        key: format!("device-code:{user}"),
        free: 10,
        first_wait_seconds: 30,
        longest_wait_seconds: 5 * MINUTE,
        forget_after_seconds: 60 * MINUTE,
    }
}

fn new_code() -> String {
    (0..CODE_LETTERS).map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())])).collect()
}

/// The code as people read it: `BCDF-GHJK`.
pub fn shown(code: &str) -> String {
    let (first, second) = code.split_at(code.len() / 2);
    format!("{first}-{second}")
}

/// The letters of what somebody typed, if it can be a code.
pub fn parse(typed: &str) -> Option<String> {
    let is_space = |c: char| c.is_whitespace() || matches!(c, '-' | '–' | '_' | '.');
    let code: String = typed.chars().filter(|c| !is_space(*c)).map(|c| c.to_ascii_uppercase()).collect();
    let right = code.len() == CODE_LETTERS && code.bytes().all(|letter| LETTERS.contains(&letter));
    right.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_however_they_are_typed() {
        let code = new_code();
        assert_eq!(parse(&shown(&code)), Some(code.clone()));
        assert_ne!(code, new_code());
        for typed in ["BCDF-GHJK", "bcdfghjk", " bcdf ghjk ", "B-C-D-F-G-H-J-K"] {
            assert_eq!(parse(typed).as_deref(), Some("BCDFGHJK"), "{typed}");
        }
        for wrong in ["", "BCDF-GHJ", "BCDF-GHJKL", "ACDF-GHJK", "BCDF-GHJ1", "가나다라마바사아"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
