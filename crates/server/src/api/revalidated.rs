//! Answers that last: whoever holds one open is asked again when there is news about them, and when what
//! let them in runs out.

use std::{io, sync::Arc, time::Duration};

use axum::{body::Body, extract::FromRequestParts, http::request::Parts};
use codehub_domain::{UserId, WorkspaceId};
use futures::{StreamExt as _, stream};
use http::HeaderMap;
use tokio::sync::broadcast::{self, error::RecvError};

use super::error::{ApiError, Result};
use crate::{
    app::App,
    auth::{self, AuthError, Identity},
    service::{self, Access, Denied},
};

const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Whoever asks for something that lasts. It says who that is, not that a page of ours asks: requests that change
/// something need [`CurrentUser`](super::extract::CurrentUser) beside it.
pub(super) struct Revalidated {
    pub(super) me: Identity,
    headers: HeaderMap,
    changed: broadcast::Receiver<Option<UserId>>,
}

impl FromRequestParts<Arc<App>> for Revalidated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        // First of all: nothing is missed between being asked and being listened to.
        let changed = app.access_changed.subscribe();
        let me = auth::identify(app, &parts.headers).await?;
        Ok(Self { me, headers: parts.headers.clone(), changed })
    }
}

impl Revalidated {
    /// Resolves when they may not have it any more: nobody valid, or (where it is about one) not allowed
    /// to see this workspace.
    pub(super) async fn ended(mut self, app: Arc<App>, workspace: Option<WorkspaceId>) {
        loop {
            tokio::select! {
                changed = self.changed.recv() => match changed {
                    Ok(Some(other)) if other != self.me.user.id => continue,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
                () = auth::runs_out(self.me.until) => {}
            }
            while let Err(error) = self.ask_again(&app, workspace).await {
                match error {
                    AuthError::Unauthorized(_) | AuthError::SeveralSessions => return,
                    // Not knowing is not a no.
                    AuthError::Store(_) => tokio::time::sleep(RETRY_AFTER).await,
                }
            }
        }
    }

    /// What is sent of a body while they may have it. Then it breaks off: what was cut must not look whole.
    pub(super) fn cutting(self, app: Arc<App>, workspace: WorkspaceId, body: Body) -> Body {
        let ended = Box::pin(self.ended(app, Some(workspace)));
        let sent = stream::unfold((body.into_data_stream(), Some(ended)), |(mut bytes, ended)| async move {
            let mut ended = ended?;
            tokio::select! {
                biased;
                () = &mut ended => {
                    Some((Err(io::Error::other("what let this be read has ended")), (bytes, None)))
                }
                next = bytes.next() => {
                    let next = next?.map_err(io::Error::other);
                    Some((next, (bytes, Some(ended))))
                }
            }
        });
        Body::from_stream(sent)
    }

    /// Does this for as long as they may have it done; what is half done then is dropped.
    pub(super) async fn during<T>(
        self,
        app: &Arc<App>,
        workspace: WorkspaceId,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            done = work => done,
            () = self.ended(Arc::clone(app), Some(workspace)) => {
                Err(AuthError::Unauthorized("what let you in has ended meanwhile").into())
            }
        }
    }

    async fn ask_again(
        &mut self,
        app: &App,
        workspace: Option<WorkspaceId>,
    ) -> std::result::Result<(), AuthError> {
        let me = auth::identify(app, &self.headers).await?;
        if me.user.id != self.me.user.id {
            return Err(AuthError::Unauthorized("somebody else"));
        }
        self.me = me;
        let Some(id) = workspace else { return Ok(()) };
        match service::find(app, &self.me.user, id, Access::Manage).await {
            Ok(_) => Ok(()),
            Err(Denied::Store(error)) => Err(AuthError::Store(error)),
            Err(_) => Err(AuthError::Unauthorized("not this workspace")),
        }
    }
}
