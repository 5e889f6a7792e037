//! How long a client is waited for.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

/// How long a client may take for the next of what it sends: the head of a request, a piece of its body. The timer is
/// one for all of them, and moved on only when it fires.
pub(crate) struct Patience {
    within: Duration,
    since: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(within: Duration) -> Self {
        Self { within, since: None, sleep: None }
    }

    /// The next piece has its time to itself.
    pub(crate) fn begin_anew(&mut self) {
        self.since = None;
    }

    /// From here on the time is another.
    pub(crate) fn set(&mut self, within: Duration) {
        self.within = within;
    }

    /// Ready when the time is up, counted from the first call since it began anew.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = *self.since.get_or_insert_with(Instant::now) + self.within;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
    }
}
