//! The error table.

use codehub_domain::{ErrorReason, Failure};

#[test]
fn which_reasons_are_terminal() {
    for &reason in ErrorReason::ALL {
        let expected = match reason {
            ErrorReason::ActionFailed | ErrorReason::Unreachable | ErrorReason::NoCapacity => false,
            ErrorReason::Timeout
            | ErrorReason::ImagePullFailed
            | ErrorReason::ContainerWithoutVolume
            | ErrorReason::ArchiveCorrupted
            | ErrorReason::DataLost
            | ErrorReason::RetryExceeded => true,
        };
        assert_eq!(reason.is_terminal(), expected, "{reason}");
        assert_eq!(reason.as_str().parse(), Ok(reason));
    }
}

#[test]
fn a_failure_reads_as_reason_and_message() {
    let failure = Failure::new(ErrorReason::Timeout, "STARTING did not get any further for 120 s");
    assert_eq!(failure.to_string(), "Timeout: STARTING did not get any further for 120 s");
}
