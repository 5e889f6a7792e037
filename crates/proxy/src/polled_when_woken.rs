//! Waiting for what hardly ever happens, beside something that happens all the time.
//!
//! A connection's task is woken for every message that passes. News (a shutdown, a stopped workspace)
//! must end it too, but asking for news at every message means taking their locks at every message.
//! What is wrapped here is only polled after it was itself woken.

use std::task::{Context, Poll};

use futures::stream::{FuturesUnordered, Stream as _};

/// A future that is only polled after it was itself woken.
pub struct PolledWhenWoken<F>(FuturesUnordered<F>);

impl<F: Future> PolledWhenWoken<F> {
    /// Polled at the first look, then when woken.
    pub fn new(future: F) -> Self {
        Self(FuturesUnordered::from_iter([future]))
    }

    /// Ready once, when the future is.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        match std::pin::Pin::new(&mut self.0).poll_next(cx) {
            Poll::Ready(Some(output)) => Poll::Ready(output),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering::SeqCst},
        },
        task::Waker,
    };

    use super::*;

    #[tokio::test]
    async fn it_is_polled_when_it_was_woken_and_not_otherwise() {
        let polls = Arc::new(AtomicU32::new(0));
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut told = Box::pin(told);
        let counted = polls.clone();
        let mut news = PolledWhenWoken::new(poll_fn(move |cx| {
            counted.fetch_add(1, SeqCst);
            told.as_mut().poll(cx)
        }));
        for _ in 0..100 {
            assert!(news.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(polls.load(SeqCst), 1);
        tell.send("news").unwrap();
        assert_eq!(poll_fn(|cx| news.poll(cx)).await, Ok("news"));
        assert_eq!(polls.load(SeqCst), 2);
    }
}
