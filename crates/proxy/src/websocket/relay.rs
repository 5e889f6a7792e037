//! Bytes both ways between a browser and a workspace after an upgrade.
//!
//! Idle connections are the normal case, thousands of them, so a relay owns no buffer: it reads into
//! one that belongs to the thread and passes on at once, and only what the other side does not take
//! is kept, until it does. Reading stops meanwhile, which is the back-pressure.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::Frames;
use crate::{
    activity::OpenSocket,
    idle::{From, Watch},
};

const SCRATCH_BYTES: usize = 32 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice());
}

/// One direction.
#[derive(Debug)]
struct Pipe {
    from: From,
    frames: Frames,
    /// Read but not yet written, from `written` on.
    kept: Vec<u8>,
    written: usize,
    state: State,
    unflushed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The reader's side has ended; the writer's has not been told.
    Ended,
    /// The writer's side is being closed once everything kept is written.
    Closing,
    Done,
}

/// Which end of a pipe failed.
#[derive(Debug)]
enum Fault {
    Reading(io::Error),
    Writing(io::Error),
}

impl Fault {
    fn into_error(self) -> io::Error {
        match self {
            Self::Reading(error) | Self::Writing(error) => error,
        }
    }
}

/// What a relay reports to whoever drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Both directions have ended.
    Done,
    /// The workspace ended its direction without a close frame, between two frames.
    WorkspaceGone,
}

pub(super) struct Relay<C, W> {
    client: C,
    workspace: W,
    up: Pipe,
    down: Pipe,
    ledger: Option<Ledger>,
}

/// Where the work that passes is noted.
pub(super) struct Ledger {
    pub(super) socket: OpenSocket,
    /// The rules of the IDE; without any, every message is work.
    pub(super) watch: Option<Box<Watch>>,
}

impl Ledger {
    /// Follows the frames and notes what is work.
    fn follow(&mut self, from: From, frames: &mut Frames, bytes: &[u8]) {
        let Self { socket, watch } = self;
        let Some(watch) = watch else {
            if frames.feed(bytes).data {
                socket.message(from.other_work());
            }
            return;
        };
        frames.feed_each(bytes, |piece| watch.feed(from, piece, |kind| socket.message(kind)));
        if frames.is_opaque() {
            socket.message(from.other_work());
        }
    }
}

impl Pipe {
    fn new(from: From, frames: Frames) -> Self {
        Self { from, frames, kept: Vec::new(), written: 0, state: State::Open, unflushed: false }
    }

    /// Writes what was kept; afterwards nothing is, and nothing is allocated.
    fn poll_kept(
        &mut self,
        cx: &mut Context<'_>,
        mut to: Pin<&mut impl AsyncWrite>,
    ) -> Poll<Result<(), Fault>> {
        while self.written < self.kept.len() {
            let n = ready!(to.as_mut().poll_write(cx, &self.kept[self.written..])).map_err(Fault::Writing)?;
            if n == 0 {
                return Poll::Ready(Err(Fault::Writing(io::ErrorKind::WriteZero.into())));
            }
            self.written += n;
            self.unflushed = true;
        }
        self.kept = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Moves bytes until there are none, or no room for them.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        mut ledger: Option<&mut Ledger>,
    ) -> Poll<Result<(), Fault>> {
        loop {
            ready!(self.poll_kept(cx, Pin::new(to)))?;
            match self.state {
                State::Open => {}
                State::Ended => return Poll::Ready(Ok(())),
                State::Closing => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx)).map_err(Fault::Writing)?;
                    self.state = State::Done;
                    return Poll::Ready(Ok(()));
                }
                State::Done => return Poll::Ready(Ok(())),
            }
            let passed = SCRATCH
                .with_borrow_mut(|scratch| self.poll_pass(cx, from, to, scratch, ledger.as_deref_mut()));
            match passed {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => self.state = State::Ended,
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => {
                    if self.unflushed {
                        let flushed = Pin::new(&mut *to).poll_flush(cx).map_err(Fault::Writing)?;
                        self.unflushed = flushed.is_pending();
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Reads once and passes it on; `false` at the end.
    fn poll_pass(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        scratch: &mut [u8],
        ledger: Option<&mut Ledger>,
    ) -> Poll<Result<bool, Fault>> {
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(from).poll_read(cx, &mut buffer)).map_err(Fault::Reading)?;
        let bytes = buffer.filled();
        if bytes.is_empty() {
            return Poll::Ready(Ok(false));
        }
        match ledger {
            Some(ledger) => ledger.follow(self.from, &mut self.frames, bytes),
            None => drop(self.frames.feed(bytes)),
        }
        let taken = match Pin::new(to).poll_write(cx, bytes) {
            Poll::Ready(taken) => taken.map_err(Fault::Writing)?,
            Poll::Pending => 0,
        };
        self.unflushed = true;
        if taken < bytes.len() {
            self.kept = bytes[taken..].to_vec();
        }
        Poll::Ready(Ok(true))
    }

    /// Puts a frame of our own after the last whole one, and ends the direction. `false` where that
    /// is in the middle of a frame.
    fn finish(&mut self, frame: impl FnOnce() -> Vec<u8>) -> bool {
        if matches!(self.state, State::Closing | State::Done) {
            return true;
        }
        if self.frames.close_has_passed() || self.frames.is_opaque() {
            // The two are already taking leave, or there are no words for it.
            self.state = State::Closing;
            return true;
        }
        if !self.frames.at_boundary() {
            return false;
        }
        self.kept.extend_from_slice(&frame());
        self.state = State::Closing;
        true
    }
}

impl<C, W> Relay<C, W>
where
    C: AsyncRead + AsyncWrite + Unpin,
    W: AsyncRead + AsyncWrite + Unpin,
{
    pub(super) fn new(client: C, workspace: W, websocket: bool, ledger: Option<Ledger>) -> Self {
        let frames = || if websocket { Frames::default() } else { Frames::opaque() };
        Self {
            client,
            workspace,
            up: Pipe::new(From::Browser, frames()),
            down: Pipe::new(From::Workspace, frames()),
            ledger,
        }
    }

    /// Begins with what either side said in the same breath as its handshake.
    pub(super) fn after(mut self, client_said: &[u8], workspace_said: &[u8]) -> Self {
        for (pipe, bytes) in [(&mut self.up, client_said), (&mut self.down, workspace_said)] {
            if bytes.is_empty() {
                continue;
            }
            match &mut self.ledger {
                Some(ledger) => ledger.follow(pipe.from, &mut pipe.frames, bytes),
                None => drop(pipe.frames.feed(bytes)),
            }
            pipe.kept.extend_from_slice(bytes);
        }
        self
    }

    /// Relays until something has to be decided.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Event>> {
        let up = match self.up.poll(cx, &mut self.client, &mut self.workspace, self.ledger.as_mut()) {
            // The workspace takes nothing any more; what it still says, or its end, comes the other way.
            Poll::Ready(Err(Fault::Writing(_))) => {
                self.up.state = State::Done;
                Poll::Ready(())
            }
            other => other.map_err(Fault::into_error)?,
        };
        let down = match self.down.poll(cx, &mut self.workspace, &mut self.client, self.ledger.as_mut()) {
            // A killed workspace resets the connection rather than ending it.
            Poll::Ready(Err(Fault::Reading(_))) => {
                self.down.state = State::Ended;
                Poll::Ready(())
            }
            other => other.map_err(Fault::into_error)?,
        };
        if up.is_ready() && self.up.state == State::Ended {
            self.up.state = State::Closing;
            cx.waker().wake_by_ref();
        }
        if down.is_ready() && self.down.state == State::Ended {
            if self.down.frames.at_boundary() && !self.down.frames.close_has_passed() {
                return Poll::Ready(Ok(Event::WorkspaceGone));
            }
            self.down.state = State::Closing;
            cx.waker().wake_by_ref();
        }
        if self.up.state == State::Done && self.down.state == State::Done {
            return Poll::Ready(Ok(Event::Done));
        }
        Poll::Pending
    }

    /// Passes the workspace's end on to the client as it is.
    pub(super) fn pass_end(&mut self) {
        self.down.state = State::Closing;
    }

    /// Says good-bye to both sides, where their streams are between frames. `true` when both were
    /// told (or cannot be: no WebSocket).
    pub(super) fn say_goodbye(&mut self, to_client: &[u8], to_workspace: &[u8]) -> bool {
        // What passes from here on is nobody's work.
        self.ledger = None;
        let down = self.down.finish(|| to_client.to_vec());
        let up = self.up.finish(|| to_workspace.to_vec());
        up && down
    }

    /// Writes what is left and reads away what still comes, so that closing does not reset the
    /// connection under the good-bye.
    pub(super) fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let up = self.up.poll(cx, &mut self.client, &mut self.workspace, None);
        let down = self.down.poll(cx, &mut self.workspace, &mut self.client, None);
        if matches!(up, Poll::Ready(Err(_))) {
            self.up.state = State::Done;
        }
        if matches!(down, Poll::Ready(Err(_))) {
            return Poll::Ready(());
        }
        if self.down.state != State::Done {
            return Poll::Pending;
        }
        // The client has been told everything; wait for its end.
        loop {
            let read = SCRATCH.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                Pin::new(&mut self.client).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
            });
            match ready!(read) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
    }
}
