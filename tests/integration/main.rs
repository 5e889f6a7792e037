//! One integration binary, whose tree mirrors the product.

mod api;
mod crash;
mod damage;
mod life;
mod simulation;
mod support;
mod trouble;
