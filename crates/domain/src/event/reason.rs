//! Why a line of history was written: a closed list with one stable code each.
//!
//! The code is what is stored and what programs compare; the words are made when it is shown. English is
//! [`Reason`]'s `Display`, other languages match on the variants. The OpenAPI document lists the codes.

use std::fmt;

use crate::{ArchiveKey, Failure, plan::Abandoned};

/// Declares [`Reason`] with everything that must agree per variant: its code, and how its detail is written
/// (`Display`) and read again (`FromStr`).
macro_rules! reasons {
    (
        plain { $($(#[$doc:meta])* $plain:ident => $code:literal),+ $(,)? }
        detailed { $($(#[$of_doc:meta])* $detailed:ident($of:ty) => $of_code:literal),+ $(,)? }
    ) => {
        /// Why a line of history was written.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $plain,)+
            $($(#[$of_doc])* $detailed($of),)+
            /// A stored text that this version does not know, shown as it is. Never written by this version.
            Other(String),
        }

        impl Reason {
            /// Every code that can be stored, and `other`.
            pub const CODES: &'static [&'static str] = &[$($code,)+ $($of_code,)+ "other"];

            /// The stable name of this kind of reason, the same in every version and language.
            pub const fn code(&self) -> &'static str {
                match self {
                    $(Self::$plain => $code,)+
                    $(Self::$detailed(_) => $of_code,)+
                    Self::Other(_) => "other",
                }
            }

            /// As the history stores it: `code`, or `code: detail`. [`Reason::read`] reads it again.
            pub fn stored(&self) -> String {
                match self {
                    $(Self::$plain => $code.to_owned(),)+
                    $(Self::$detailed(detail) => format!("{}: {detail}", $of_code),)+
                    Self::Other(text) => text.clone(),
                }
            }

            fn from_code(code: &str, detail: Option<&str>) -> Option<Self> {
                match (code, detail) {
                    $(($code, None) => Some(Self::$plain),)+
                    $(($of_code, Some(detail)) => detail.parse().ok().map(Self::$detailed),)+
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    plain {
        /// The workspace was created with an empty home.
        Created => "created",
        /// Somebody wants it to run.
        StartRequested => "start_requested",
        /// Somebody wants it stopped.
        StopRequested => "stop_requested",
        /// Somebody wants it archived.
        ArchiveRequested => "archive_requested",
        /// Somebody wants it deleted.
        DeleteRequested => "delete_requested",
        /// Somebody set its target state together with other fields.
        StateRequested => "state_requested",
        /// Somebody opened it in the browser while it slept.
        OpenedInBrowser => "opened_in_browser",
        /// Somebody wants it recovered, from the copy of the home that is the true one.
        RecoveryRequested => "recovery_requested",
        /// Somebody wants it recovered, with an empty home where nothing else is left.
        RecoveryAcceptingLoss => "recovery_accepting_loss",
        /// Somebody asked for another target state together with a recovery.
        RequestedWithRecovery => "requested_with_recovery",
        /// An operation began.
        OperationStarted => "operation_started",
        /// An operation ended as planned.
        OperationDone => "operation_done",
        /// The phase follows what was observed.
        Confirmed => "confirmed",
        /// A running instance does not answer its health check any more.
        InstanceNotAnswering => "instance_not_answering",
        /// A running instance no longer exists.
        InstanceGone => "instance_gone",
    }
    detailed {
        /// The workspace was created with the home of this archive.
        CreatedFromArchive(ArchiveKey) => "created_from_archive",
        /// Somebody wants it recovered from this archive.
        RecoveryFromArchive(ArchiveKey) => "recovery_from_archive",
        /// It ran for this many seconds without activity.
        TtlStandby(u32) => "ttl_standby",
        /// It was on standby for this many seconds.
        TtlArchive(u32) => "ttl_archive",
        /// The instance ended by itself; says how.
        InstanceEnded(String) => "instance_ended",
        /// The platform, or somebody's hand, ended the instance; says how.
        InstanceInterrupted(String) => "instance_interrupted",
        /// The instance cannot run: its image cannot be had; says why.
        InstanceNoImage(String) => "instance_no_image",
        /// The instance does not run yet; says what it waits for.
        InstanceWaiting(String) => "instance_waiting",
        /// An operation ended early, and what it made so far is not used.
        Abandoned(Abandoned) => "operation_abandoned",
        /// It failed and waits for recovery.
        Failed(Failure) => "failed",
    }
}

impl Reason {
    /// The reason that a stored text stands for. Understands what earlier versions wrote, and keeps what
    /// nobody knows as [`Reason::Other`].
    pub fn read(stored: &str) -> Self {
        let (code, detail) = match stored.split_once(": ") {
            Some((code, detail)) => (code, Some(detail)),
            None => (stored, None),
        };
        Self::from_code(code, detail)
            .or_else(|| from_sentence(stored))
            .unwrap_or_else(|| Self::Other(stored.to_owned()))
    }
}

/// Versions before the codes stored these English sentences.
fn from_sentence(text: &str) -> Option<Reason> {
    let plain = match text {
        "start asked for" => Some(Reason::StartRequested),
        "stop asked for" => Some(Reason::StopRequested),
        "archiving asked for" => Some(Reason::ArchiveRequested),
        "deleted" => Some(Reason::DeleteRequested),
        "asked for through the API" => Some(Reason::StateRequested),
        "opened in the browser" => Some(Reason::OpenedInBrowser),
        "recovery asked for" => Some(Reason::RecoveryRequested),
        "recovery asked for, accepting the loss" => Some(Reason::RecoveryAcceptingLoss),
        "asked for with the recovery" => Some(Reason::RequestedWithRecovery),
        "began" => Some(Reason::OperationStarted),
        "done" => Some(Reason::OperationDone),
        "observed" => Some(Reason::Confirmed),
        "the instance does not answer its health check" => Some(Reason::InstanceNotAnswering),
        "the instance is gone" => Some(Reason::InstanceGone),
        _ => None,
    };
    let rest = |prefix: &str| text.strip_prefix(prefix);
    plain
        .or_else(|| rest("created from archive ")?.parse().ok().map(Reason::CreatedFromArchive))
        .or_else(|| rest("recovery asked for, from archive ")?.parse().ok().map(Reason::RecoveryFromArchive))
        .or_else(|| rest("no activity for ").and_then(seconds).map(Reason::TtlStandby))
        .or_else(|| rest("on standby for ").and_then(seconds).map(Reason::TtlArchive))
        .or_else(|| rest("the instance ended: ").map(|how| Reason::InstanceEnded(how.to_owned())))
        .or_else(|| Abandoned::ALL.iter().find(|it| it.text() == text).copied().map(Reason::Abandoned))
        .or_else(|| text.parse().ok().map(Reason::Failed))
}

const UNITS: [(u32, &str); 4] = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];

/// `10 minutes`: the largest unit that says it exactly.
fn span(seconds: u32) -> String {
    let exact = UNITS.into_iter().find(|(size, _)| seconds > 0 && seconds.is_multiple_of(*size));
    let (size, unit) = exact.unwrap_or((1, "second"));
    let n = seconds / size;
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

/// What [`span`] wrote, in seconds.
fn seconds(span: &str) -> Option<u32> {
    let (number, unit) = span.split_once(' ')?;
    let (size, _) = UNITS.into_iter().find(|(_, name)| unit.strip_suffix('s').unwrap_or(unit) == *name)?;
    number.parse::<u32>().ok()?.checked_mul(size)
}

/// In English.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("Created"),
            Self::CreatedFromArchive(key) => write!(f, "Created from archive {key}"),
            Self::StartRequested => f.write_str("Start requested"),
            Self::StopRequested => f.write_str("Stop requested"),
            Self::ArchiveRequested => f.write_str("Archive requested"),
            Self::DeleteRequested => f.write_str("Delete requested"),
            Self::StateRequested => f.write_str("Target state changed through the API"),
            Self::OpenedInBrowser => f.write_str("Opened in the browser"),
            Self::RecoveryRequested => f.write_str("Recovery requested"),
            Self::RecoveryAcceptingLoss => f.write_str("Recovery requested, accepting data loss"),
            Self::RecoveryFromArchive(key) => write!(f, "Recovery requested from archive {key}"),
            Self::RequestedWithRecovery => f.write_str("Target state requested with the recovery"),
            Self::TtlStandby(seconds) => write!(f, "No activity for {}", span(*seconds)),
            Self::TtlArchive(seconds) => write!(f, "On standby for {}", span(*seconds)),
            Self::OperationStarted => f.write_str("started"),
            Self::OperationDone => f.write_str("done"),
            Self::Confirmed => f.write_str("confirmed"),
            Self::Abandoned(why) => write!(f, "cancelled: {}", why.text()),
            Self::InstanceEnded(how) => write!(f, "Instance ended: {how}"),
            Self::InstanceInterrupted(how) => write!(f, "Instance was ended from outside: {how}"),
            Self::InstanceNoImage(why) => write!(f, "Instance has no image: {why}"),
            Self::InstanceWaiting(what) => write!(f, "Instance waits: {what}"),
            Self::InstanceNotAnswering => f.write_str("Instance does not answer its health check"),
            Self::InstanceGone => f.write_str("Instance was removed from outside"),
            Self::Failed(failure) => failure.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}
