//! Places to run, beyond what the module itself shows.

use codehub_domain::limits::{LimitScope, Limits};

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
