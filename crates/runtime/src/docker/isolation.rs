//! Whether packets from one container of a bridge to another pass the packet rules at all: on one bridge they
//! only do where the kernel is told so, for all bridges or for this one.

use std::path::Path;

use super::privileged;

/// The bridge is an interface of this machine, so rules made here concern it.
pub(super) fn is_here(bridge: &str) -> Result<(), String> {
    if Path::new("/sys/class/net").join(bridge).exists() {
        return Ok(());
    }
    Err(format!(
        "the workspaces' bridge {bridge} is not on this machine: the engine is elsewhere or rootless, or CodeHub is \
         in a container without the machine's network"
    ))
}

pub(super) fn passes_rules(bridge: &str) -> Result<(), String> {
    let is_on = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    if !Path::new("/proc/sys/net/bridge").exists() {
        return Err("packets between workspaces pass no packet rules: `modprobe br_netfilter`".to_owned());
    }
    if is_on("/proc/sys/net/bridge/bridge-nf-call-iptables")
        || is_on(&format!("/sys/class/net/{bridge}/bridge/nf_call_iptables"))
    {
        return Ok(());
    }
    Err("packets between workspaces pass no packet rules: `sysctl net.bridge.bridge-nf-call-iptables=1`"
        .to_owned())
}

/// Has them pass the rules on this bridge, whatever holds for others.
pub(super) async fn pass_rules(bridge: &str) -> Result<(), String> {
    let words = ["link", "set", "dev", bridge, "type", "bridge", "nf_call_iptables", "1"];
    let changed = privileged::run("ip", &words, String::new()).await;
    passes_rules(bridge).map_err(|why| match changed {
        Ok(_) => why,
        Err(said) => format!("{why} ({said})"),
    })
}
