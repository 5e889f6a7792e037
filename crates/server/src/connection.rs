//! The connection a request came on, for the few handlers that must be able to end it.

use tokio_util::sync::CancellationToken;

/// The connection a request came on, as an extension of the request.
#[derive(Debug, Clone)]
pub struct ConnectionHandle(CancellationToken);

impl ConnectionHandle {
    /// `closing` ends the connection when it is cancelled.
    pub(crate) fn new(closing: CancellationToken) -> Self {
        Self(closing)
    }

    /// Closes it at once, whatever is half written.
    pub fn close(&self) {
        self.0.cancel();
    }
}
