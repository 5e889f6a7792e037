//! One page's WebSocket: reads its requests, sends it what changed.
//!
//! Two tasks share a connection. The reader acts on requests; the writer sends
//! state. Nothing queues up for a slow page: the writer is woken by one
//! [`Notify`], looks at what differs from what it last sent, sends that, and
//! rests a frame's time. Only direct answers go through a (bounded) queue, and
//! when that is full the reader waits, which slows the page down, not us.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{ApiError, Result};
use crate::path::{RelPath, query_value};
use crate::protocol::{self, FromPage};
use crate::terminal::{Snapshot, Terminal, Terminals};
use crate::watch::{Inbox, Watcher};

/// At most about sixty screens a second.
const FRAME: Duration = Duration::from_millis(16);
/// File news is less urgent and often comes in bursts.
const FILE_NEWS: Duration = Duration::from_millis(200);
const MAX_MESSAGE: usize = 1024 * 1024;
/// One request for old lines.
const MAX_LINES: usize = 500;

#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) terminals: Arc<Terminals>,
    pub(crate) watcher: Option<Arc<Watcher>>,
    pub(crate) shutdown: CancellationToken,
}

pub(crate) async fn upgrade(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.max_message_size(MAX_MESSAGE).on_upgrade(move |socket| serve(socket, shared))
}

/// `GET api/terminal?id=`: where a terminal's shell is, as an encoded path, or null where that is not in the home; and
/// the home's own address, so that the page can tell which absolute paths are in it.
pub(crate) async fn terminal(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Result<Json<Value>> {
    let id = query_value(query.as_deref(), "id").and_then(|id| id.parse().ok());
    let terminal = id.and_then(|id| shared.terminals.get(id)).ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, "NO_TERMINAL", "this terminal is no longer there")
    })?;
    let home = shared.terminals.home();
    let folder = terminal.folder();
    let inside = folder.as_deref().and_then(|folder| folder.strip_prefix(home).ok()).map(RelPath::beneath);
    Ok(Json(json!({ "folder": inside.map(|path| path.encoded()), "home": home.to_string_lossy() })))
}

/// A terminal this page looks at, and what it has been shown.
struct TerminalView {
    terminal: Arc<Terminal>,
    shown: Option<(u64, Arc<Snapshot>)>,
    exit_shown: bool,
}

struct Client {
    shared: Shared,
    notify: Arc<Notify>,
    inbox: Arc<Inbox>,
    views: Mutex<BTreeMap<u32, TerminalView>>,
}

impl Client {
    fn views(&self) -> MutexGuard<'_, BTreeMap<u32, TerminalView>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(socket: WebSocket, shared: Shared) {
    let notify = Arc::new(Notify::new());
    let page = Arc::new(Client {
        inbox: Inbox::new(notify.clone()),
        notify: notify.clone(),
        views: Mutex::default(),
        shared: shared.clone(),
    });
    shared.terminals.listen(&notify);
    notify.notify_one(); // the list of terminals is the first message

    let (sink, stream) = socket.split();
    let (answers, queue) = mpsc::channel(64);
    let mut writer = tokio::spawn(write(sink, queue, page.clone()));
    tokio::select! {
        () = read(stream, &answers, &page) => {
            drop(answers);
            writer.abort();
        }
        _ = &mut writer => {}
    }
    for view in page.views().values() {
        view.terminal.unsubscribe(&notify);
    }
    if let Some(watcher) = &shared.watcher {
        watcher.forget(&page.inbox);
    }
}

async fn read(mut stream: SplitStream<WebSocket>, answers: &mpsc::Sender<String>, page: &Arc<Client>) {
    while let Some(Ok(message)) = stream.next().await {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return,
            _ => continue,
        };
        let answer = match serde_json::from_str(&text) {
            Ok(request) => act(request, page).await,
            Err(error) => Some(protocol::error(None, &format!("a message was not understood: {error}"))),
        };
        if let Some(answer) = answer
            && answers.send(answer).await.is_err()
        {
            return;
        }
    }
}

async fn act(request: FromPage, page: &Arc<Client>) -> Option<String> {
    let terminals = &page.shared.terminals;
    let find =
        |id| terminals.get(id).ok_or_else(|| protocol::error(Some(id), "this terminal is no longer there"));
    match request {
        FromPage::Open { rows, cols, dark } => {
            let terminals = terminals.clone();
            let opened = tokio::task::spawn_blocking(move || terminals.open(rows, cols)).await;
            match opened {
                Ok(Ok(terminal)) => {
                    terminal.set_dark(dark);
                    attach(page, &terminal);
                    Some(protocol::opened(terminal.id))
                }
                Ok(Err(error)) => Some(protocol::error(None, &format!("{error:#}"))),
                Err(error) => Some(protocol::error(None, &error.to_string())),
            }
        }
        FromPage::Attach { id, rows, cols, dark } => match find(id) {
            Ok(terminal) => {
                terminal.set_dark(dark);
                terminal.resize(rows, cols);
                attach(page, &terminal);
                None
            }
            Err(answer) => Some(answer),
        },
        FromPage::Detach { id } => {
            if let Some(view) = page.views().remove(&id) {
                view.terminal.unsubscribe(&page.notify);
            }
            None
        }
        FromPage::In { id, d } => match find(id) {
            Ok(terminal) if terminal.exit().is_some() || terminal.write(d.into_bytes()) => None,
            Ok(_) => Some(protocol::error(Some(id), "the program in this terminal does not read its input")),
            Err(answer) => Some(answer),
        },
        FromPage::Size { id, rows, cols } => {
            if let Ok(terminal) = find(id) {
                terminal.resize(rows, cols);
            }
            None
        }
        FromPage::Lines { id, from, to } => match find(id) {
            Ok(terminal) => {
                let to = to.min(from.saturating_add(MAX_LINES));
                Some(protocol::lines(id, &terminal.history(from, to)))
            }
            Err(answer) => Some(answer),
        },
        FromPage::Close { id } => {
            page.views().remove(&id);
            terminals.close(id);
            None
        }
        // Saying it is what counts: whoever passes it on has seen it. The answer shows that it got through.
        FromPage::Active | FromPage::Probe => Some(protocol::here()),
        FromPage::Watch { dirs } => {
            if let Some(watcher) = page.shared.watcher.clone() {
                let inbox = page.inbox.clone();
                let _ = tokio::task::spawn_blocking(move || watcher.set(&inbox, dirs)).await;
            }
            None
        }
    }
}

fn attach(page: &Client, terminal: &Arc<Terminal>) {
    terminal.subscribe(&page.notify);
    page.views()
        .insert(terminal.id, TerminalView { terminal: terminal.clone(), shown: None, exit_shown: false });
    page.notify.notify_one();
}

async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut queue: mpsc::Receiver<String>,
    page: Arc<Client>,
) {
    let mut listed = 0;
    let mut file_news_at = Instant::now();
    loop {
        let sent = tokio::select! {
            () = page.shared.shutdown.cancelled() => {
                let frame = CloseFrame {
                    code: close_code::AWAY,
                    reason: "the workspace is stopping".into(),
                };
                let _ = sink.send(Message::Close(Some(frame))).await;
                return;
            }
            answer = queue.recv() => match answer {
                Some(answer) => sink.send(Message::text(answer)).await,
                None => return,
            },
            () = page.notify.notified() => {
                flush(&mut sink, &page, &mut listed, &mut file_news_at).await
            }
            () = tokio::time::sleep_until(file_news_at), if !page.inbox.is_empty() => {
                flush(&mut sink, &page, &mut listed, &mut file_news_at).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Sends everything that differs from what the page was last shown.
async fn flush(
    sink: &mut SplitSink<WebSocket, Message>,
    page: &Client,
    listed: &mut u64,
    file_news_at: &mut Instant,
) -> Result<(), axum::Error> {
    let terminals = &page.shared.terminals;
    let version = terminals.version();
    if *listed != version {
        *listed = version;
        let all = terminals.all();
        let list = protocol::terms(all.iter().map(|t| (t.id, t.name.as_str())));
        sink.send(Message::text(list)).await?;
        page.views().retain(|id, _| all.iter().any(|t| t.id == *id));
    }

    let frames: Vec<String> = page.views().values_mut().filter_map(frame).collect();
    let drawn = !frames.is_empty();
    for frame in frames {
        sink.send(Message::text(frame)).await?;
    }

    let now = Instant::now();
    if now >= *file_news_at {
        let changes = page.inbox.take();
        if !changes.is_empty() {
            *file_news_at = now + FILE_NEWS;
            sink.send(Message::text(protocol::changes(&changes))).await?;
        }
    }
    if drawn {
        tokio::time::sleep(FRAME).await;
    }
    Ok(())
}

fn frame(view: &mut TerminalView) -> Option<String> {
    let terminal = &view.terminal;
    let seen = view.shown.as_ref().map(|(version, _)| *version);
    if seen == Some(terminal.version()) {
        return None;
    }
    let (version, picture) = terminal.picture();
    let exit = terminal.exit().filter(|_| !view.exit_shown);
    let before = view.shown.as_ref().map(|(_, picture)| &**picture);
    let frame = protocol::screen(terminal.id, before, &picture, exit);
    view.exit_shown |= exit.is_some();
    view.shown = Some((version, picture));
    frame
}
