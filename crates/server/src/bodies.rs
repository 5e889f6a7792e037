//! The bodies of requests to the API and the pages: all of them are small, and have to come in time. Whoever is not signed
//! in has less of both.

use std::{net::SocketAddr, time::Duration};

use axum::{body::Bytes, extract::Request, http::request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

/// The largest body: a memo of 64 KiB, escaped at its worst, with room for the rest.
const LARGEST: usize = 512 * 1024;
const WITHIN: Duration = Duration::from_secs(30);
/// Where nobody is signed in: a name and a password.
const STRANGERS_LARGEST: usize = 16 * 1024;
const STRANGERS_WITHIN: Duration = Duration::from_secs(10);

/// An extension of requests whose sender is known. What identifies them is read before any body is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender;

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the body did not come in time")]
    TooSlow,
    #[error("the body is too large: at most {} KiB", .0 / 1024)]
    TooLarge(usize),
    #[error("the body could not be read")]
    BrokeOff,
}

/// Reads the whole body.
///
/// # Errors
/// It is too large, too slow, or broke off.
pub(crate) async fn read(request: Request) -> Result<(Parts, Bytes), BodyError> {
    let (parts, body) = request.into_parts();
    let (largest, within) = match parts.extensions.get::<Sender>() {
        Some(Sender) => (LARGEST, WITHIN),
        None => (STRANGERS_LARGEST, STRANGERS_WITHIN),
    };
    let reading = tokio::time::timeout(within, Limited::new(body, largest).collect());
    match reading.await {
        Err(_) => {
            tracing::debug!(peer = ?parts.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>(), "a body came too slowly");
            Err(BodyError::TooSlow)
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge(largest)),
        Ok(Err(_)) => Err(BodyError::BrokeOff),
        Ok(Ok(body)) => Ok((parts, body.to_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    async fn sent(sender: Option<Sender>, body: Body) -> Result<usize, BodyError> {
        let mut request = Request::new(body);
        sender.map(|sender| request.extensions_mut().insert(sender));
        read(request).await.map(|(_, body)| body.len())
    }

    /// A piece a second, for ever.
    fn slow() -> Body {
        Body::from_stream(futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_are_small_and_come_in_time() {
        let body = |size: usize| Body::from(vec![b'x'; size]);
        assert_eq!(sent(None, body(STRANGERS_LARGEST)).await, Ok(STRANGERS_LARGEST));
        assert_eq!(
            sent(None, body(STRANGERS_LARGEST + 1)).await,
            Err(BodyError::TooLarge(STRANGERS_LARGEST))
        );
        assert_eq!(sent(Some(Sender), body(LARGEST)).await, Ok(LARGEST));
        assert_eq!(sent(Some(Sender), body(LARGEST + 1)).await, Err(BodyError::TooLarge(LARGEST)));
        for (sender, seconds) in [(None, 10), (Some(Sender), 30)] {
            let begun = tokio::time::Instant::now();
            assert_eq!(sent(sender, slow()).await, Err(BodyError::TooSlow));
            assert_eq!(begun.elapsed().as_secs(), seconds);
        }
    }
}
