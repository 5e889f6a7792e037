//! Randomness as a port, so that a simulation can replay it.

use codehub_domain::OpId;
use rand::RngExt;
use uuid::Uuid;

/// What the coordinator leaves to chance.
pub trait Chance: Send + Sync + 'static {
    /// A new operation id; later ones sort after earlier ones.
    fn op_id(&self) -> OpId;
    /// 0.8 to 1.2: spreads retries.
    fn jitter(&self) -> f64;
}

/// The real thing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Random;

impl Chance for Random {
    fn op_id(&self) -> OpId {
        OpId::from_uuid(Uuid::now_v7())
    }

    fn jitter(&self) -> f64 {
        rand::rng().random_range(0.8..1.2)
    }
}
