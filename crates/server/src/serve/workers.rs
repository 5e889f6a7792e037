//! The threads that serve connections, each with an event loop of its own.
//!
//! A connection stays on the thread it was given to, with everything it opens towards a workspace, so
//! relaying it wakes no other thread and shares no queue. Requests that are not the proxy's go on to
//! the application's own threads ([`codehub_proxy::front`]), where taking long hurts nobody.

use std::{num::NonZero, thread};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

pub(super) struct Workers {
    handles: Vec<Handle>,
    threads: Vec<thread::JoinHandle<()>>,
    ended: CancellationToken,
    next: usize,
}

impl Workers {
    /// As many as there are cores.
    ///
    /// # Errors
    /// The system gives no more threads, or no more files for their event loops.
    pub(super) fn start() -> std::io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        let mut workers = Self {
            handles: Vec::with_capacity(count),
            threads: Vec::with_capacity(count),
            ended: CancellationToken::new(),
            next: 0,
        };
        for n in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            workers.handles.push(runtime.handle().clone());
            let ended = workers.ended.clone();
            let run = move || runtime.block_on(ended.cancelled());
            workers.threads.push(thread::Builder::new().name(format!("connections-{n}")).spawn(run)?);
        }
        Ok(workers)
    }

    /// The next in turn.
    pub(super) fn next(&mut self) -> &Handle {
        self.next = (self.next + 1) % self.handles.len();
        &self.handles[self.next]
    }

    /// Ends the threads, and with them whatever connection is still open.
    pub(super) async fn end(mut self) {
        self.ended.cancel();
        let threads = std::mem::take(&mut self.threads);
        let _ =
            tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())))
                .await;
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}
