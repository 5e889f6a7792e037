//! What a running answer is let out by: it ends when that does.

use std::{
    future::Future,
    pin::Pin,
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
    Asking(Pin<Box<dyn Future<Output = (bool, Pass)> + Send>>, Option<watch::Receiver<Latest>>),
    Ended,
}

/// The entry's news, unless nobody tells any more.
type Heard = Option<watch::Receiver<Latest>>;

fn news(mut latest: watch::Receiver<Latest>) -> Pin<Box<dyn Future<Output = Heard> + Send>> {
    Box::pin(async move { latest.changed().await.ok().map(|()| latest) })
}

impl Warrant {
    pub(crate) fn new(callers: Arc<Callers>, entry: &Arc<Entry>, pass: Pass) -> Self {
        let latest = entry.subscribe();
        let access = latest.borrow().access;
        Self { callers, _entry: entry.clone(), access, state: State::Waiting(news(latest), Some(pass)) }
    }

    /// Ready once nobody may read on.
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
                        let (callers, mut pass) = (self.callers.clone(), pass);
                        let asking = async move { (callers.still_valid(&mut pass).await, pass) };
                        State::Asking(Box::pin(asking), Some(latest))
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
