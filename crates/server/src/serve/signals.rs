//! SIGTERM and SIGINT end the server politely; a second one at once.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `token` on the first signal.
///
/// # Errors
/// Signals cannot be listened for.
pub(super) fn cancel_on_signal(token: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be listened for")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be listened for")?;
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let signal = next().await;
        tracing::info!(signal, "stopping");
        token.cancel();
        let signal = next().await;
        tracing::warn!(signal, "asked twice: stopping at once");
        std::process::exit(130);
    });
    Ok(())
}
