//! Places to run, beyond what the module itself shows.

use codehub_domain::{
    Desired, ErrorReason, Failure, Operation, Phase, Truth,
    condition::{NO_INSTANCE, set},
    limits::{LimitScope, Limits, takes_a_place},
};

use crate::support::*;

#[test]
fn the_last_place_is_given_once() {
    for limit in 0..5 {
        for taken in 0..8 {
            let free = limit == 0 || taken < limit;
            let mine = Limits { running_per_user: limit, running_global: 0 };
            assert_eq!(mine.admit(taken, 1000).is_ok(), free);
            let all = Limits { running_per_user: 0, running_global: limit };
            let expected = if free { Ok(()) } else { Err(LimitScope::Global { limit }) };
            assert_eq!(all.admit(1000, taken), expected);
        }
    }
    assert_eq!(Limits::NONE.admit(u32::MAX, u32::MAX), Ok(()));
}

/// The rule that the stores' queries follow, for every phase and wish.
#[test]
fn what_runs_or_is_meant_to_run_takes_a_place() {
    for &phase in Phase::ALL {
        for &desired in Desired::ALL {
            let mut ws = given(phase, desired, Operation::None, Truth::Volume);
            let expected = phase == Phase::Running || desired == Desired::Running;
            ws.status.error = None;
            assert_eq!(takes_a_place(&ws), expected, "{phase} {desired}");
            // In ERROR it is not started before somebody recovers it.
            ws.status.error = Some(Failure::new(ErrorReason::Timeout, "given"));
            for reason in NO_INSTANCE {
                set(&mut ws.status.conditions.container_ready, false, reason, "", at(0));
                assert_eq!(
                    takes_a_place(&ws),
                    expected && phase != Phase::Error,
                    "{phase} {desired} {reason}"
                );
            }
            set(&mut ws.status.conditions.container_ready, false, "NotReady", "", at(0));
            assert_eq!(takes_a_place(&ws), expected, "{phase} {desired}, and something runs");
        }
    }
}
