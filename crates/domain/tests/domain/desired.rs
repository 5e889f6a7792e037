//! Seed 003's action matrix: phase × operation × desired × wish × deleted × failed.

use codehub_domain::{
    Desired, ErrorReason, Failure, Operation, Phase, Truth,
    desired::{Answer, Refusal, ask},
};

use crate::support::*;

#[test]
fn every_wish_in_every_state() {
    for &phase in Phase::ALL {
        for &operation in Operation::ALL {
            for &desired in Desired::ALL {
                for &asked in Desired::ALL {
                    for deleted in [false, true] {
                        for error in [None, Some(ErrorReason::ActionFailed), Some(ErrorReason::Timeout)] {
                            let mut ws = given(phase, desired, operation, Truth::Volume);
                            ws.deleted_at = deleted.then(now);
                            ws.status.error = error.map(|reason| Failure::new(reason, "why"));
                            let failed = error.is_some_and(ErrorReason::is_terminal);
                            let expected = if deleted {
                                Answer::Refuse(Refusal::Gone)
                            } else if failed && asked != Desired::Deleted {
                                Answer::Refuse(Refusal::NeedsRecovery)
                            } else if asked == desired {
                                Answer::Already
                            } else if operation != Operation::None {
                                Answer::Refuse(Refusal::Busy(operation))
                            } else {
                                Answer::Change
                            };
                            let row = format!("{phase} {operation} {desired}→{asked} {deleted} {error:?}");
                            assert_eq!(ask(&ws, asked), expected, "{row}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_wish_is_fulfilled_in_its_phase() {
    for &desired in Desired::ALL {
        assert_eq!(desired.phase().as_str(), desired.as_str());
    }
    assert!("PENDING".parse::<Desired>().is_err(), "cannot be asked for");
}
