//! Who works in which workspace: recorded in memory by the proxy, flushed to the bus.

/// The activity of this process.
#[derive(Debug, Default)]
pub struct Activity {}
