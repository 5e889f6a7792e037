//! One integration binary, whose tree mirrors the product.

mod crash;
mod damage;
mod life;
mod simulation;
mod support;
mod trouble;
