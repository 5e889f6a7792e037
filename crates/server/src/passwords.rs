//! Passwords: Argon2id, on threads that may block, and only so many at once, because each takes 32 MiB
//! and most of a tenth of a second on purpose.

use std::sync::{Arc, OnceLock};

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const MEMORY_KIB: u32 = 32 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// At most this many at once, however many cores there are.
const MOST_AT_ONCE: usize = 4;

/// A password could not be hashed or checked, which says nothing about the password.
#[derive(Debug, thiserror::Error)]
#[error("the password cannot be hashed: {0}")]
pub struct HashError(String);

/// Hashes and checks passwords.
#[derive(Debug)]
pub struct Passwords {
    slots: Arc<Semaphore>,
    /// Checked when there is no such user, so that it takes as long as when there is.
    nobody: Arc<OnceLock<String>>,
}

impl Default for Passwords {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { slots: Arc::new(Semaphore::new(cores.min(MOST_AT_ONCE))), nobody: Arc::default() }
    }
}

/// The right to hash one password now.
pub struct Turn(OwnedSemaphorePermit);

impl Passwords {
    /// Waits for a free slot.
    ///
    /// # Errors
    /// Never while the server runs.
    pub async fn turn(&self) -> Result<Turn, HashError> {
        Arc::clone(&self.slots).acquire_owned().await.map(Turn).map_err(|error| HashError(error.to_string()))
    }

    /// The hash to store.
    ///
    /// # Errors
    /// No memory for it, say.
    pub async fn hash(&self, password: &str) -> Result<String, HashError> {
        let turn = self.turn().await?;
        let password = password.to_owned();
        blocking(turn, move || hash(&password)).await?
    }

    /// Whether `password` is the one; without a stored hash it takes just as long and is not.
    ///
    /// # Errors
    /// No memory for it, say. A stored hash that makes no sense matches nothing.
    pub async fn verify(&self, turn: Turn, password: &str, stored: Option<&str>) -> Result<bool, HashError> {
        let (password, stored) = (password.to_owned(), stored.map(str::to_owned));
        let nobody = Arc::clone(&self.nobody);
        blocking(turn, move || match stored {
            Some(stored) => verify(&password, &stored),
            None => {
                let nobody =
                    nobody.get_or_init(|| hash(&uuid::Uuid::new_v4().to_string()).unwrap_or_default());
                verify(&password, nobody);
                false
            }
        })
        .await
    }

    /// Makes the stand-in ready, so that the first wrong name does not take longer than the second.
    pub async fn warm_up(&self) {
        if let Ok(turn) = self.turn().await {
            let nobody = Arc::clone(&self.nobody);
            let made = blocking(turn, move || {
                nobody.get_or_init(|| hash(&uuid::Uuid::new_v4().to_string()).unwrap_or_default());
            });
            if let Err(error) = made.await {
                tracing::warn!(%error, "the stand-in password could not be prepared");
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HashError> {
    tokio::task::spawn_blocking(move || {
        let _turn = turn.0;
        work()
    })
    .await
    .map_err(|error| HashError(error.to_string()))
}

fn hash(password: &str) -> Result<String, HashError> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| HashError(error.to_string()))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: PasswordHash =
        argon2.hash_password(password.as_bytes()).map_err(|error| HashError(error.to_string()))?;
    Ok(hash.to_string())
}

/// The parameters are those of the stored hash, so old ones stay valid when ours change.
fn verify(password: &str, stored: &str) -> bool {
    PasswordHash::new(stored)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_password_matches() {
        let passwords = Passwords::default();
        let stored = passwords.hash("correct horse").await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=32768,t=2,p=1$"), "{stored}");
        for (password, stored, expected) in [
            ("correct horse", Some(stored.as_str()), true),
            ("correct horsf", Some(&stored), false),
            ("", Some(&stored), false),
            ("correct horse", None, false),
            ("correct horse", Some("nonsense"), false),
        ] {
            let turn = passwords.turn().await.unwrap();
            assert_eq!(passwords.verify(turn, password, stored).await.unwrap(), expected);
        }
        assert_ne!(stored, passwords.hash("correct horse").await.unwrap(), "salted");
    }

    #[tokio::test]
    async fn an_unknown_user_takes_as_long_as_a_wrong_password() {
        let passwords = Passwords::default();
        passwords.warm_up().await;
        let stored = passwords.hash("correct horse").await.unwrap();
        let time = async |stored: Option<&str>| {
            let mut best = std::time::Duration::MAX;
            for _ in 0..5 {
                let turn = passwords.turn().await.unwrap();
                let start = std::time::Instant::now();
                passwords.verify(turn, "wrong", stored).await.unwrap();
                best = best.min(start.elapsed());
            }
            best.as_secs_f64()
        };
        let (known, unknown) = (time(Some(&stored)).await, time(None).await);
        assert!((0.5..2.0).contains(&(known / unknown)), "known {known}, unknown {unknown}");
    }
}
