//! An upload that goes on where an earlier try of the same operation ended.
//!
//! Packing the same home gives the same bytes, so the parts of the second try are those of the first.
//! A part that is there already is not believed to be ours because of its number: its checksum must be
//! that of the bytes that would be sent. So a home, a level or a part size that is another one now costs
//! the time to send it again, and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use md5::{Digest as _, Md5};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path as Location;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use crate::hash::hex;
use crate::restore_workers::lock;

/// A part that is in the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// From one.
    pub(crate) number: usize,
    pub(crate) size: u64,
    /// The MD5 of its bytes, in quotes, where the store does as S3 does for plain parts.
    pub(crate) etag: String,
    pub(crate) modified: Option<Timestamp>,
}

impl Found {
    fn holds(&self, payload: &PutPayload) -> bool {
        if self.size != payload.content_length() as u64 {
            return false;
        }
        let mut md5 = Md5::new();
        payload.iter().for_each(|bytes| md5.update(bytes));
        self.etag.trim_matches('"').eq_ignore_ascii_case(&hex(&md5.finalize()))
    }
}

pub(crate) struct Resumed {
    store: AmazonS3,
    location: Location,
    id: String,
    /// What was there before, by index.
    found: BTreeMap<usize, Found>,
    next: usize,
    /// What is there now.
    parts: Arc<Mutex<BTreeMap<usize, PartId>>>,
}

impl Resumed {
    pub(crate) fn new(store: AmazonS3, location: Location, id: String, found: Vec<Found>) -> Self {
        if !found.is_empty() {
            let (parts, bytes) = (found.len(), found.iter().map(|part| part.size).sum::<u64>());
            tracing::info!(%location, parts, bytes, "going on with an upload that was interrupted");
        }
        let found = found.into_iter().map(|part| (part.number.saturating_sub(1), part)).collect();
        Self { store, location, id, found, next: 0, parts: Arc::default() }
    }
}

impl fmt::Debug for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumed")
            .field("location", &self.location)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for Resumed {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let index = self.next;
        self.next += 1;
        let found = self.found.remove(&index);
        let (store, parts) = (self.store.clone(), Arc::clone(&self.parts));
        let (location, id) = (self.location.clone(), self.id.clone());
        Box::pin(async move {
            let part = match there(found, &data).await? {
                Some(part) => {
                    metrics::counter!("codehub_archive_resumed_bytes_total").increment(part.size);
                    PartId { content_id: part.etag }
                }
                None => store.put_part(&location, &id, index, data).await?,
            };
            lock(&parts).insert(index, part);
            Ok(())
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let parts = std::mem::take(&mut *lock(&self.parts)).into_values().collect();
        self.store.complete_multipart(&self.location, &self.id, parts).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.store.abort_multipart(&self.location, &self.id).await
    }
}

/// The part, if it is the one to be sent.
async fn there(found: Option<Found>, data: &PutPayload) -> Result<Option<Found>> {
    let Some(part) = found else { return Ok(None) };
    let data = data.clone();
    let (part, same) = tokio::task::spawn_blocking(move || {
        let same = part.holds(&data);
        (part, same)
    })
    .await?;
    Ok(same.then_some(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_the_same_part() {
        let part = |size, etag: &str| Found { number: 1, size, etag: etag.into(), modified: None };
        let payload = PutPayload::from("hello");
        assert!(part(5, "\"5d41402abc4b2a76b9719d911017c592\"").holds(&payload));
        assert!(part(5, "5D41402ABC4B2A76B9719D911017C592").holds(&payload));
        for other in [
            part(6, "5d41402abc4b2a76b9719d911017c592"),
            part(5, "5d41402abc4b2a76b9719d911017c593"),
            part(5, "an-opaque-tag"),
            part(5, ""),
        ] {
            assert!(!other.holds(&payload), "{other:?}");
        }
    }
}
