//! The end of the line outside: what CodeHub asks with. Everything that comes back was said by a workspace, so it is
//! bounded in size and time, parsed strictly, and may fail in any way without anything else failing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::PollSender;

use super::messages::{self, Message, MessageError, Messages, channel};
use super::protocol::{ExecEnd, ExecStart, Exit, ListeningPort, Problem, Refusal, Usage};
use super::{LINE_WINDOW, STREAM_WINDOW, STREAMS};

/// How long the other end may take to begin its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Asked this often whether the other end is still there, while something is under way.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The longest answer that is read as a whole.
const LONGEST_ANSWER: usize = 64 * 1024;
/// Lists and texts of a workspace's are not believed to be longer.
const MOST_PORTS: usize = 256;
const LONGEST_NAME: usize = 64;
const LONGEST_TEXT: usize = 1000;
/// Messages on their way to the line.
const WAITING: usize = 4;
/// What is sent to a port at once.
const LONGEST_PIECE: usize = 64 * 1024;

/// Why something asked on the line was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It was understood and refused, or could not be done.
    #[error("{}", .1.message)]
    Refused(u16, Problem),
    /// The line ended.
    #[error("the program inside the workspace does not answer: {0}")]
    Ended(String),
    /// Nobody answers in time.
    #[error("the program inside the workspace has not answered for {0} seconds")]
    Silent(u64),
    /// What came back is not what the program inside says.
    #[error("the program inside the workspace does not answer as it should: {0}")]
    Garbage(String),
}

type Result<T> = std::result::Result<T, LineError>;

fn garbage(why: impl std::fmt::Display) -> LineError {
    LineError::Garbage(cut(&why.to_string(), LONGEST_TEXT))
}

fn ended(why: impl std::fmt::Display) -> LineError {
    LineError::Ended(cut(&why.to_string(), LONGEST_TEXT))
}

/// It may be stopped, or have too little to run with.
fn silent() -> LineError {
    LineError::Silent(ANSWER_WITHIN.as_secs())
}

/// A line to the program inside. Cheap to clone; many requests at once.
#[derive(Clone)]
pub struct Line {
    sender: http2::SendRequest<Body>,
}

impl Line {
    /// Over a stream of bytes. The future moves them; the line ends with it.
    ///
    /// # Errors
    /// Nobody at the other end speaks HTTP/2, in time.
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(Self, impl Future<Output = ()> + Send)> {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(LINE_WINDOW)
            .initial_max_send_streams(STREAMS as usize)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .max_header_list_size(16 * 1024)
            .keep_alive_interval(ASK_EVERY)
            .keep_alive_timeout(ANSWER_WITHIN)
            .handshake(TokioIo::new(stream));
        let opened = timeout(ANSWER_WITHIN, handshake).await.map_err(|_| silent())?;
        let (sender, connection) = opened.map_err(ended)?;
        let moved = async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a line ended early");
            }
        };
        Ok((Self { sender }, moved))
    }

    /// Whether nothing can be asked on it any more.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    async fn ask(&self, method: Method, path: &str, body: Body) -> Result<Response<Incoming>> {
        // The name means nothing: whoever listens is who was connected to.
        let request = Request::builder().method(method).uri(format!("http://inside{path}")).body(body);
        let mut sender = self.sender.clone();
        let asked = async {
            sender.ready().await?;
            sender.send_request(request.map_err(garbage).unwrap_or_default()).await
        };
        let answer = timeout(ANSWER_WITHIN, asked).await.map_err(|_| silent())?;
        let answer = answer.map_err(ended)?;
        if answer.status().is_success() { Ok(answer) } else { Err(refusal(answer).await) }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.ask(Method::GET, path, Body::empty()).await?;
        serde_json::from_slice(&whole(answer.into_body()).await?).map_err(garbage)
    }

    /// Runs a program.
    ///
    /// # Errors
    /// The line does not answer. That the program could not be run is its [`ExecEnd`].
    pub async fn exec(&self, start: &ExecStart) -> Result<Exec> {
        let first = serde_json::to_vec(start).map_err(garbage)?;
        if first.len() >= messages::LONGEST {
            let message = format!("what to run is too long: at most {} bytes", messages::LONGEST - 1);
            return Err(LineError::Refused(400, Problem::new("INVALID_REQUEST", message)));
        }
        let (input, mut queue) = mpsc::channel::<Bytes>(WAITING);
        let _ = input.try_send(messages::encode(channel::START, &first));
        let sent = futures::stream::poll_fn(move |cx| queue.poll_recv(cx));
        let body = Body::from_stream(futures::StreamExt::map(sent, Ok::<_, io::Error>));
        let answer = self.ask(Method::POST, "/exec", body).await?;
        Ok(Exec { input: ExecInput(input), output: ExecOutput(Messages::new(answer.into_body())) })
    }

    /// Connects to a port of the workspace: what `sent` says is written there, and the answer is what is read.
    ///
    /// # Errors
    /// Nothing listens there, or the line does not answer.
    pub async fn connect(&self, port: u16, sent: Body) -> Result<Incoming> {
        Ok(self.ask(Method::POST, &format!("/connect/{port}"), sent).await?.into_body())
    }

    /// The same as a stream of bytes both ways.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn dial(&self, port: u16) -> Result<PortStream> {
        let (sent, mut queue) = mpsc::channel::<Bytes>(WAITING);
        let queued = futures::stream::poll_fn(move |cx| queue.poll_recv(cx));
        let body = Body::from_stream(futures::StreamExt::map(queued, Ok::<_, io::Error>));
        let received = self.connect(port, body).await?;
        Ok(PortStream { sent: PollSender::new(sent), received, ahead: Bytes::new() })
    }

    /// What listens in the workspace, by port.
    ///
    /// # Errors
    /// The line does not answer, or not with a list of ports.
    pub async fn ports(&self) -> Result<Vec<ListeningPort>> {
        let mut ports: Vec<ListeningPort> = self.get("/ports").await?;
        ports.truncate(MOST_PORTS);
        ports.retain(|port| port.port != 0);
        ports.sort_by_key(|port| port.port);
        ports.dedup_by_key(|port| port.port);
        for port in &mut ports {
            port.process = cut(&port.process, LONGEST_NAME);
        }
        Ok(ports)
    }

    /// What the workspace uses.
    ///
    /// # Errors
    /// The line does not answer, or with something else.
    pub async fn usage(&self) -> Result<Usage> {
        self.get("/usage").await
    }

    /// A file of the home, or a directory as tar; `path` as in a query, still encoded.
    ///
    /// # Errors
    /// There is none, or the line does not answer.
    pub async fn read_file(&self, path: &str) -> Result<Response<Incoming>> {
        self.ask(Method::GET, &format!("/file?path={path}"), Body::empty()).await
    }

    /// Writes a file of the home, whole or not at all. Whether it is a new one.
    ///
    /// # Errors
    /// It cannot be written, or the line does not answer.
    pub async fn write_file(&self, path: &str, content: Body) -> Result<bool> {
        // A large file takes as long as its sender does: the stream itself ends when either side does.
        let request = Request::builder().method(Method::PUT).uri(format!("http://inside/file?path={path}"));
        let mut sender = self.sender.clone();
        let ready = timeout(ANSWER_WITHIN, sender.ready()).await.map_err(|_| silent())?;
        ready.map_err(ended)?;
        let answer = sender.send_request(request.body(content).map_err(garbage)?).await.map_err(ended)?;
        match answer.status() {
            StatusCode::CREATED => Ok(true),
            StatusCode::OK => Ok(false),
            _ => Err(refusal(answer).await),
        }
    }
}

/// A connection to a port of the workspace. It is closed when this is dropped.
pub struct PortStream {
    sent: PollSender<Bytes>,
    received: Incoming,
    /// What has come and was not read yet.
    ahead: Bytes,
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.ahead.is_empty() {
            match ready!(Pin::new(&mut self.received).poll_frame(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(frame)) => self.ahead = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, error)));
                }
            }
        }
        let now = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead.split_to(now));
        Poll::Ready(Ok(()))
    }
}

fn not_read<T>(_: T) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl AsyncWrite for PortStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.sent.poll_reserve(cx)).map_err(not_read)?;
        let now = bytes.len().min(LONGEST_PIECE);
        self.sent.send_item(Bytes::copy_from_slice(&bytes[..now])).map_err(not_read)?;
        Poll::Ready(Ok(now))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sent.close();
        Poll::Ready(Ok(()))
    }
}

async fn whole(body: Incoming) -> Result<Bytes> {
    let read = timeout(ANSWER_WITHIN, Limited::new(body, LONGEST_ANSWER).collect()).await;
    Ok(read.map_err(|_| silent())?.map_err(garbage)?.to_bytes())
}

async fn refusal(answer: Response<Incoming>) -> LineError {
    let status = answer.status();
    let said = match whole(answer.into_body()).await {
        Ok(bytes) => serde_json::from_slice::<Refusal>(&bytes).map_err(garbage),
        Err(error) => Err(error),
    };
    match said {
        Ok(Refusal { error }) => LineError::Refused(status.as_u16(), plain(error)),
        Err(_) => garbage(format!("status {status}")),
    }
}

/// Text of a workspace's, short and without anything that would change how the rest is shown.
fn cut(text: &str, longest: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(longest).collect()
}

fn plain(Problem { code, message }: Problem) -> Problem {
    let known = (1..=40).contains(&code.len()) && code.bytes().all(|b| b == b'_' || b.is_ascii_uppercase());
    Problem { code: if known { code } else { "UNKNOWN".to_owned() }, message: cut(&message, LONGEST_TEXT) }
}

/// A program that runs, or did.
pub struct Exec {
    /// Where it is sent to.
    pub input: ExecInput,
    /// What it says.
    pub output: ExecOutput,
}

/// The way to a program. It ends when this is dropped.
#[derive(Clone)]
pub struct ExecInput(mpsc::Sender<Bytes>);

/// The way from a program. It is ended when this is dropped before it has.
pub struct ExecOutput(Messages<Incoming>);

/// What comes from a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// What it printed.
    Stdout(Bytes),
    /// What it complained.
    Stderr(Bytes),
    /// How it ended: the last.
    End(ExecEnd),
}

impl ExecInput {
    /// Sends a message; waits while the program does not read. False: nobody takes it any more.
    pub async fn send(&self, channel: u8, payload: &[u8]) -> bool {
        payload.len() < messages::LONGEST && self.0.send(messages::encode(channel, payload)).await.is_ok()
    }
}

impl ExecOutput {
    /// What comes next. After an [`Output::End`] there is no more. Can be cancelled without losing anything.
    ///
    /// # Errors
    /// The line failed, or what came is not what a program inside says.
    pub async fn next(&mut self) -> Result<Output> {
        let message = self.0.next().await.map_err(|error| match error {
            MessageError::Line(why) => ended(why),
            MessageError::Length(_) | MessageError::Cut => garbage(error),
        })?;
        let Some(Message { channel, payload }) = message else {
            return Err(ended("it ended without saying how"));
        };
        match channel {
            channel::STDOUT => Ok(Output::Stdout(payload)),
            channel::STDERR => Ok(Output::Stderr(payload)),
            channel::END => match serde_json::from_slice(&payload).map_err(garbage)? {
                ExecEnd::Exit(Exit::Signal(name)) => {
                    let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
                    Ok(Output::End(ExecEnd::Exit(Exit::Signal(name))))
                }
                ExecEnd::Exit(exit) => Ok(Output::End(ExecEnd::Exit(exit))),
                ExecEnd::Error(problem) => Ok(Output::End(ExecEnd::Error(plain(problem)))),
            },
            other => Err(garbage(format!("a message of an unknown kind ({other})"))),
        }
    }
}
