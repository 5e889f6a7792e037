//! Reasons of the history: stored as codes, read from whatever was stored.

use codehub_domain::{ArchiveKey, ErrorReason, Failure, event::Reason, plan::Abandoned};

const KEY: &str = "01890a5d-ac96-774b-bcce-b302099a8057/01890a5d-ac96-774b-bcce-b302099a8057/home.tar.zst";

fn key() -> ArchiveKey {
    KEY.parse().unwrap()
}

#[test]
fn every_code_is_read_as_what_was_stored() {
    let detail = |code: &str| match code {
        "created_from_archive" | "recovery_from_archive" => Some(KEY),
        "ttl_standby" | "ttl_archive" => Some("600"),
        "instance_ended" | "instance_interrupted" | "instance_no_image" | "instance_waiting" => {
            Some("exit code 1: out of memory")
        }
        "operation_abandoned" => Some("home_was_in_use"),
        "failed" => Some("Timeout: it took: too long"),
        _ => None,
    };
    for code in Reason::CODES.iter().filter(|code| **code != "other") {
        let stored = detail(code).map_or_else(|| (*code).to_owned(), |detail| format!("{code}: {detail}"));
        let reason = Reason::read(&stored);
        assert_eq!((reason.code(), reason.stored()), (*code, stored));
    }
}

#[test]
fn earlier_versions_wrote_sentences() {
    for (sentence, reason) in [
        ("created", Reason::Created),
        ("start asked for", Reason::StartRequested),
        ("stop asked for", Reason::StopRequested),
        ("archiving asked for", Reason::ArchiveRequested),
        ("deleted", Reason::DeleteRequested),
        ("asked for through the API", Reason::StateRequested),
        ("opened in the browser", Reason::OpenedInBrowser),
        ("recovery asked for", Reason::RecoveryRequested),
        ("recovery asked for, accepting the loss", Reason::RecoveryAcceptingLoss),
        (&format!("recovery asked for, from archive {KEY}"), Reason::RecoveryFromArchive(key())),
        (&format!("created from archive {KEY}"), Reason::CreatedFromArchive(key())),
        ("asked for with the recovery", Reason::RequestedWithRecovery),
        ("began", Reason::OperationStarted),
        ("done", Reason::OperationDone),
        ("observed", Reason::Confirmed),
        ("no activity for 10 minutes", Reason::TtlStandby(600)),
        ("no activity for 1 hour", Reason::TtlStandby(3600)),
        ("on standby for 2 days", Reason::TtlArchive(172_800)),
        ("on standby for 1 second", Reason::TtlArchive(1)),
        ("the instance ended: exit code 1", Reason::InstanceEnded("exit code 1".into())),
        ("the instance is gone", Reason::InstanceGone),
        ("the instance does not answer its health check", Reason::InstanceNotAnswering),
        ("the home is in another archive", Reason::Abandoned(Abandoned::HomeInAnotherArchive)),
        ("failed, and is not needed any more", Reason::Abandoned(Abandoned::NotNeeded)),
        (
            "DataLost: the volume is gone",
            Reason::Failed(Failure::new(ErrorReason::DataLost, "the volume is gone")),
        ),
    ] {
        assert_eq!(Reason::read(sentence), reason, "{sentence}");
    }
}

#[test]
fn what_nobody_knows_is_kept() {
    for text in
        ["", "ttl_standby: soon", "ttl_standby", "created: x", "no activity for ages", "Odd: it", "새 이유"]
    {
        let reason = Reason::read(text);
        assert_eq!(
            (reason.code(), reason.stored().as_str(), reason.to_string().as_str()),
            ("other", text, text)
        );
    }
}
