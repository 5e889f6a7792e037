//! The few programs that need CAP_NET_ADMIN, and nothing else that has it: CodeHub may have been given the
//! capability (as by its systemd unit) without being root, but local processes of workspaces are its children.

use std::{
    io::{ErrorKind, Write as _},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities,
};
use tokio::sync::oneshot;

const ANSWER: Duration = Duration::from_secs(15);

/// Takes from the children of this program what it may itself. Called before there are threads; what a thread
/// may is what the one that made it may.
pub fn keep_capabilities_to_ourselves() {
    let _ = clear_ambient_capability_set();
    if let Ok(mut sets) = capabilities(None) {
        sets.inheritable = CapabilitySet::empty();
        let _ = set_capabilities(None, sets);
    }
}

/// Runs a program that may change the machine's network, if this one may; returns what it printed.
///
/// # Errors
/// It cannot be run, or says no: in words for people.
pub(super) async fn run(program: &'static str, words: &[&str], input: String) -> Result<String, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let line = format!("{program} {}", words.join(" "));
    let (told, outcome) = oneshot::channel();
    // A capability is handed to children by the thread that starts them: this one starts no other.
    std::thread::spawn(move || {
        hand_on_net_admin();
        drop(told.send(run_here(program, &words, &input)));
    });
    match tokio::time::timeout(ANSWER, outcome).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(format!("{line} could not be run")),
        Err(_) => Err(format!("{line} does not end")),
    }
}

/// For a program this thread starts. Root needs no help, and who may not cannot.
fn hand_on_net_admin() {
    let Ok(mut sets) = capabilities(None) else { return };
    if sets.permitted.contains(CapabilitySet::NET_ADMIN) && !rustix::process::geteuid().is_root() {
        sets.inheritable |= CapabilitySet::NET_ADMIN;
        if set_capabilities(None, sets).is_ok() {
            let _ = configure_capability_in_ambient_set(CapabilitySet::NET_ADMIN, true);
        }
    }
}

fn run_here(program: &str, words: &[String], input: &str) -> Result<String, String> {
    let started = Command::new(program)
        .args(words)
        // Where they are on most systems, but not on every service's PATH.
        .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{program} is not installed"),
        _ => format!("{program} cannot be run: {error}"),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read says why when it ends.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    if !may_change_the_network() {
        return Err(format!(
            "CodeHub may not change this machine's network: run it as root or with CAP_NET_ADMIN, as \
             deploy/codehub.service does; {program} says: {said}"
        ));
    }
    Err(format!("{program} {}: {said}", words.join(" ")))
}

fn may_change_the_network() -> bool {
    capabilities(None).is_ok_and(|sets| sets.permitted.contains(CapabilitySet::NET_ADMIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a child of this thread would inherit, as the kernel writes it.
    fn inherited() -> Vec<String> {
        let words = ["-E", "CapInh|CapAmb", "/proc/self/status"];
        let output = Command::new("grep").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_a_service_manager_gave_is_not_handed_on_to_children() {
        // Of this thread only.
        let thread = std::thread::spawn(|| {
            let mut sets = capabilities(None).unwrap();
            if !sets.permitted.contains(CapabilitySet::NET_ADMIN) {
                eprintln!("skipped: this user has no capability to hand on");
                return;
            }
            sets.inheritable |= CapabilitySet::NET_ADMIN;
            set_capabilities(None, sets).unwrap();
            configure_capability_in_ambient_set(CapabilitySet::NET_ADMIN, true).unwrap();
            assert_eq!(inherited(), ["CapInh:\t0000000000001000", "CapAmb:\t0000000000001000"]);
            keep_capabilities_to_ourselves();
            assert_eq!(inherited(), ["CapInh:\t0000000000000000", "CapAmb:\t0000000000000000"]);
            let kept = capabilities(None).unwrap().permitted;
            assert!(kept.contains(CapabilitySet::NET_ADMIN), "but still there");
        });
        thread.join().unwrap();
    }
}
