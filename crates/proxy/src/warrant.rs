//! What a running exchange with a workspace is allowed by: it ends when that does, also in the middle of a request's body.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::watch;

use crate::{
    authorize::{Callers, Pass},
    routes::{Entry, Latest},
};

/// Looks again whether somebody may, whenever the access of the workspace's owner has changed.
pub(crate) struct Warrant {
    callers: Arc<Callers>,
    /// Kept, so that somebody goes on telling.
    _entry: Arc<Entry>,
    access: u64,
    state: State,
}

enum State {
    Waiting(Pin<Box<dyn Future<Output = Heard> + Send>>, Option<Pass>),
    Asking(Asking, Option<watch::Receiver<Latest>>),
    Ended,
}

/// The entry's news, unless nobody tells any more.
type Heard = Option<watch::Receiver<Latest>>;

/// Whether somebody still may.
type Asking = Pin<Box<dyn Future<Output = (bool, Pass)> + Send>>;

fn ask(callers: Arc<Callers>, mut pass: Pass) -> Asking {
    Box::pin(async move { (callers.still_valid(&mut pass).await, pass) })
}

fn news(mut latest: watch::Receiver<Latest>) -> Pin<Box<dyn Future<Output = Heard> + Send>> {
    Box::pin(async move { latest.changed().await.ok().map(|()| latest) })
}

impl Warrant {
    /// `holds` is asked whether what let somebody in surely still does; if not, that is looked at first: whatever
    /// happened since then may have taken its time.
    pub(crate) fn new(
        callers: Arc<Callers>,
        entry: &Arc<Entry>,
        pass: Pass,
        holds: impl FnOnce() -> bool,
    ) -> Self {
        // From here on nothing is missed.
        let latest = entry.subscribe();
        let access = latest.borrow().access;
        let state = if holds() {
            State::Waiting(news(latest), Some(pass))
        } else {
            State::Asking(ask(callers.clone(), pass), Some(latest))
        };
        Self { callers, _entry: entry.clone(), access, state }
    }

    /// What comes of it, unless nobody may any more before that.
    pub(crate) async fn during<T>(&mut self, exchange: impl Future<Output = T>) -> Option<T> {
        let mut exchange = pin!(exchange);
        poll_fn(|cx| match exchange.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.poll_ended(cx).map(|()| None),
        })
        .await
    }

    /// Ready once nobody may read on, or write.
    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.state = match &mut self.state {
                State::Ended => return Poll::Ready(()),
                State::Waiting(heard, pass) => {
                    let (Some(mut latest), Some(pass)) = (ready!(heard.as_mut().poll(cx)), pass.take())
                    else {
                        self.state = State::Ended;
                        continue;
                    };
                    let (access, admits) = {
                        let latest = latest.borrow_and_update();
                        let view = latest.view.as_deref();
                        (latest.access, view.is_none_or(|view| self.callers.still_admits(view, &pass)))
                    };
                    if !admits {
                        self.state = State::Ended;
                        continue;
                    }
                    if access == self.access {
                        State::Waiting(news(latest), Some(pass))
                    } else {
                        self.access = access;
                        State::Asking(ask(self.callers.clone(), pass), Some(latest))
                    }
                }
                State::Asking(asking, latest) => match (ready!(asking.as_mut().poll(cx)), latest.take()) {
                    ((true, pass), Some(latest)) => State::Waiting(news(latest), Some(pass)),
                    _ => State::Ended,
                },
            };
        }
    }
}
