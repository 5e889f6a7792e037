//! Nothing but a home for the integration binary (`integration/main.rs`).
