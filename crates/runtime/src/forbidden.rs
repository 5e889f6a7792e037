//! What no workspace may reach, whatever it runs on (docs/SECURITY.md).

/// Not public: private use, carrier-grade NAT, link-local (metadata services), loopback; and the one public
/// address at which a cloud has its agent.
pub(crate) const FORBIDDEN: &[&str] = &[
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
];
