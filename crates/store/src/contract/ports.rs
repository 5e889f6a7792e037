//! What owners said about ports.

use codehub_domain::{
    Desired,
    ports::{MOST_PORTS, PortActivity, PortHost, PortScheme, PortSettings, Visibility},
};

use super::{Change, Harness};
use crate::{AuditFilter, PortSaved, fake::by};

pub(crate) async fn settings_of_ports_are_kept_told_and_written_down(harness: &Harness) {
    let user = harness.user("ann").await;
    let made = harness.workspace(user.id, Desired::Running).await;
    let other = harness.workspace(user.id, Desired::Running).await;
    let store = &harness.store;
    assert_eq!(store.workspace_ports(made.id).await.unwrap(), []);
    let mut changes = harness.changes().await;
    let shared = PortSettings {
        label: "the shop".into(),
        scheme: PortScheme::Https,
        host: PortHost::Public,
        visibility: Visibility::SignedIn,
        activity: PortActivity::Never,
        ..PortSettings::of(3000)
    };
    let labelled = PortSettings { label: "x".into(), ..PortSettings::of(80) };
    for settings in [&shared, &labelled, &shared] {
        let saved = store.workspace_port_put(by(), made.id, settings.clone()).await.unwrap();
        assert_eq!(saved, PortSaved::Saved);
    }
    assert_eq!(store.workspace_ports(made.id).await.unwrap(), [labelled.clone(), shared]);
    assert_eq!(store.workspace_ports(other.id).await.unwrap(), [], "another's are another's");
    let updated = Change::Updated { workspace: made.id, owner: user.id };
    assert_eq!(harness.drain(&mut changes).await, [updated; 2], "once for each that changed something");

    // As if nobody had ever said anything.
    store.workspace_port_put(by(), made.id, PortSettings::of(3000)).await.unwrap();
    assert_eq!(store.workspace_ports(made.id).await.unwrap(), [labelled]);
    let filter = AuditFilter { limit: 10, ..AuditFilter::default() };
    let events = store.audit_list(&filter).await.unwrap().items;
    let edits: Vec<_> = events.iter().filter(|event| event.action == "port.edited").collect();
    assert_eq!(edits.len(), 3);
    assert_eq!(edits[0].code.as_deref(), Some("port 3000"));
    assert!(edits[0].before.as_deref().unwrap().contains("signed-in"), "{:?}", edits[0]);

    harness.ask(made.id, Desired::Deleted).await;
    let gone = store.workspace_port_put(by(), made.id, PortSettings::of(3000)).await.unwrap();
    assert_eq!(gone, PortSaved::NotFound);
}

pub(crate) async fn only_so_many_ports_have_settings(harness: &Harness) {
    let user = harness.user("ann").await;
    let made = harness.workspace(user.id, Desired::Running).await;
    let put = async |port| {
        let settings = PortSettings { label: "x".into(), ..PortSettings::of(port) };
        harness.store.workspace_port_put(by(), made.id, settings).await.unwrap()
    };
    for port in 1..=MOST_PORTS {
        assert_eq!(put(u16::try_from(port).unwrap()).await, PortSaved::Saved);
    }
    assert_eq!(put(9999).await, PortSaved::TooMany);
    harness.store.workspace_port_put(by(), made.id, PortSettings::of(1)).await.unwrap();
    assert_eq!(put(9999).await, PortSaved::Saved);
}
