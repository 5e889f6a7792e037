//! Opening an address in the person's own browser.

use std::process::{Command, Stdio};

/// Whether something was found that opens it. Only http and https are opened.
pub(crate) fn open(url: &str) -> bool {
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return false;
    }
    let chosen = std::env::var("BROWSER").ok().filter(|program| !program.is_empty());
    let usual = ["xdg-open", "open", "wslview"].map(str::to_owned);
    chosen.into_iter().chain(usual).any(|program| {
        let started = Command::new(program)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        started.is_ok()
    })
}
