//! Why an operation failed, in the words a person reads and the policy branches on.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::named::{UnknownName, named_enum};

named_enum! {
    /// What went wrong with a workspace. The list is closed: every adapter error maps onto one.
    ErrorReason, "error reason" {
        Timeout => "Timeout",
        ImagePullFailed => "ImagePullFailed",
        ContainerWithoutVolume => "ContainerWithoutVolume",
        ArchiveCorrupted => "ArchiveCorrupted",
        DataLost => "DataLost",
        ActionFailed => "ActionFailed",
        Unreachable => "Unreachable",
        /// There is no room for it now: it is tried again until there is.
        NoCapacity => "NoCapacity",
        RetryExceeded => "RetryExceeded",
    }
}

impl ErrorReason {
    /// Terminal reasons put the workspace into ERROR and wait for a person.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Timeout
            | Self::ImagePullFailed
            | Self::ContainerWithoutVolume
            | Self::ArchiveCorrupted
            | Self::DataLost
            | Self::RetryExceeded => true,
            Self::ActionFailed | Self::Unreachable | Self::NoCapacity => false,
        }
    }
}

/// A failure with what a person needs to act on it. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What the error policy branches on.
    pub reason: ErrorReason,
    /// What a person needs to act on it.
    pub message: String,
}

impl Failure {
    /// The message is a sentence without a full stop, and without secrets.
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

/// What [`Failure`]'s `Display` wrote.
impl FromStr for Failure {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let (reason, message) = text.split_once(": ").unwrap_or((text, ""));
        Ok(Self::new(reason.parse()?, message))
    }
}
