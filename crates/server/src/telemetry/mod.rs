//! What the server says about itself: logs ([`init`]), metrics ([`metrics`]) and one line per request
//! ([`http`]). Never a secret: paths are logged without their query, headers not at all.

use std::io::IsTerminal as _;

use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::{LogConfig, LogFormat};

pub mod metrics;

/// Starts logging to stderr: for people on a terminal, JSON otherwise.
pub fn init(config: &LogConfig) {
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Human => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = if json {
        layer.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    } else {
        layer.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed()
    };
    // The filter was checked with the rest of the configuration.
    let filter = config
        .filter
        .parse::<Targets>()
        .unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    // A second call (tests) keeps the first one's.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
