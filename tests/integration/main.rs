//! One integration binary, whose tree mirrors the product.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail where it is")]

mod api;
mod architecture;
mod client;
mod crash;
mod damage;
mod docker;
mod hold;
mod homes;
mod inside;
mod life;
mod replicas;
mod simulation;
mod slow;
mod support;
mod tls;
mod trail;
mod trouble;
