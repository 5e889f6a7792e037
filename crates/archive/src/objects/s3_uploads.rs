//! Multipart uploads that have not ended. They are invisible and cost money until somebody goes on with
//! them or aborts them; `object_store` has no call to find them or their parts, so this module has.

use std::fmt::Write as _;
use std::time::Duration;

use http::{Method, Request, header::DATE};
use http_body_util::BodyExt as _;
use jiff::{Timestamp, fmt::rfc2822};
use object_store::MultipartUpload;
use object_store::aws::{AmazonS3, AwsAuthorizer, AwsCredential};
use object_store::client::{HttpClient, HttpRequestBody};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path as Location;

use super::s3::S3Config;
use super::s3_resume::{Found, Resumed};
use crate::error::{ArchiveError, Result};

/// More than this many at once are left for the next sweep.
const PAGES: usize = 20;

pub(crate) struct Uploads {
    store: AmazonS3,
    client: HttpClient,
    credential: AwsCredential,
    region: String,
    /// `https://host/bucket`
    bucket: String,
}

/// Without the credential.
impl std::fmt::Debug for Uploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uploads").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Upload {
    key: String,
    id: String,
    /// As the server's clock said; `None` where it does not say.
    initiated: Option<Timestamp>,
}

/// What the server said, and when, by its own clock if it told.
struct Answer {
    status: u16,
    text: String,
    at: Timestamp,
}

impl Uploads {
    pub(crate) fn new(store: AmazonS3, client: HttpClient, config: &S3Config) -> Self {
        let credential = AwsCredential {
            key_id: config.access_key.clone(),
            secret_key: config.secret_key.clone(),
            token: None,
        };
        let bucket = format!("{}/{}", config.base(), config.bucket);
        Self { store, client, credential, region: config.region.clone(), bucket }
    }

    /// An upload to `location` that goes on with what an earlier one left there, if one did.
    pub(crate) async fn resume(&self, location: &Location) -> object_store::Result<Box<dyn MultipartUpload>> {
        let (id, found) = match self.largest(location.as_ref()).await {
            Ok(Some(unfinished)) => unfinished,
            Ok(None) => (self.store.create_multipart(location).await?, Vec::new()),
            // Going on with it would save time; that one cannot is no reason not to archive.
            Err(error) => {
                tracing::warn!(%error, %location, "unfinished uploads could not be looked for");
                (self.store.create_multipart(location).await?, Vec::new())
            }
        };
        Ok(Box::new(Resumed::new(self.store.clone(), location.clone(), id, found)))
    }

    /// The unfinished upload of `key` of which most is there; any others are aborted.
    async fn largest(&self, key: &str) -> Result<Option<(String, Vec<Found>)>> {
        let mut largest: Option<(String, Vec<Found>)> = None;
        let size = |parts: &[Found]| parts.iter().map(|part| part.size).sum::<u64>();
        for upload in self.list(key, &Page::default()).await?.uploads {
            if upload.key != key {
                continue;
            }
            let Some(parts) = self.parts(&upload).await? else { continue };
            let other = match &largest {
                Some((_, most)) if size(most) >= size(&parts) => Some(upload.id),
                _ => largest.replace((upload.id, parts)).map(|(id, _)| id),
            };
            if let Some(id) = other {
                self.abort(key, &id).await?;
            }
        }
        Ok(largest)
    }

    /// Aborts the uploads below `prefix` in which nothing happened for `idle`; how many.
    pub(crate) async fn sweep(&self, prefix: &str, idle: Duration) -> Result<u64> {
        let mut aborted = 0;
        let mut page = Page::default();
        for _ in 0..PAGES {
            page = self.list(prefix, &page).await?;
            for upload in &page.uploads {
                if upload.key.starts_with(prefix) && self.is_idle(upload, idle, page.at).await {
                    aborted += u64::from(self.abort(&upload.key, &upload.id).await?);
                }
            }
            if !page.more {
                break;
            }
        }
        Ok(aborted)
    }

    /// Whether it began, and its last part came, at least `idle` before `now`. An upload of unknown age
    /// is left alone.
    async fn is_idle(&self, upload: &Upload, idle: Duration, now: Timestamp) -> bool {
        let old = |at: Timestamp| Duration::try_from(now.duration_since(at)).is_ok_and(|age| age >= idle);
        if idle.is_zero() {
            return true;
        }
        if !upload.initiated.is_some_and(old) {
            return false;
        }
        // Whoever may not see the parts goes by when it began.
        let parts = self.parts(upload).await.ok().flatten().unwrap_or_default();
        parts.iter().filter_map(|part| part.modified).all(old)
    }

    /// Whether it was there to be aborted.
    async fn abort(&self, key: &str, id: &str) -> Result<bool> {
        let url = format!("{}?uploadId={}", self.url(key), encoded(id, false));
        match self.send(Method::DELETE, &url).await? {
            // Ended meanwhile, one way or the other.
            Answer { status: 404, .. } => Ok(false),
            Answer { status: 200..300, .. } => Ok(true),
            answer => Err(answer.refused("abort an unfinished upload")),
        }
    }

    /// The parts that have arrived, in order; `None` when there is no such upload any more.
    async fn parts(&self, upload: &Upload) -> Result<Option<Vec<Found>>> {
        let (mut found, mut after) = (Vec::new(), 0);
        let id = encoded(&upload.id, false);
        loop {
            let url = format!("{}?part-number-marker={after}&uploadId={id}", self.url(&upload.key));
            let text = match self.send(Method::GET, &url).await? {
                Answer { status: 200, text, .. } => text,
                Answer { status: 404, .. } => return Ok(None),
                answer => return Err(answer.refused("list the parts of an unfinished upload")),
            };
            let before = found.len();
            found.extend(items(&text, "Part").filter_map(Found::parse));
            // A page that adds nothing is the last one, whatever the server says.
            let last = found.last().filter(|_| found.len() > before);
            match last {
                Some(part) if is_truncated(&text) => after = part.number,
                _ => return Ok(Some(found)),
            }
        }
    }

    async fn list(&self, prefix: &str, after: &Page) -> Result<Page> {
        // Sorted by name, as the signature wants them.
        let mut query = String::new();
        if let Some((key, id)) = &after.next {
            let _ = write!(query, "key-marker={}&", encoded(key, false));
            let _ = write!(query, "prefix={}&", encoded(prefix, false));
            let _ = write!(query, "upload-id-marker={}&uploads=", encoded(id, false));
        } else {
            let _ = write!(query, "prefix={}&uploads=", encoded(prefix, false));
        }
        match self.send(Method::GET, &format!("{}?{query}", self.bucket)).await? {
            Answer { status: 200, text, at } => Ok(Page::parse(&text, at)),
            // Not every server keeps such a list; then there is nothing to see and nothing to do.
            Answer { status: 400 | 404 | 405 | 501, text, .. }
                if text.contains("NotImplemented") || text.contains("NoSuchUpload") =>
            {
                Ok(Page::default())
            }
            answer => Err(answer.refused("list unfinished uploads")),
        }
    }

    fn url(&self, key: &str) -> String {
        format!("{}/{}", self.bucket, encoded(key, true))
    }

    async fn send(&self, method: Method, url: &str) -> Result<Answer> {
        let unreachable = |why: String| ArchiveError::Unreachable { message: format!("S3: {why}") };
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .body(HttpRequestBody::empty())
            .map_err(|error| unreachable(error.to_string()))?;
        AwsAuthorizer::new(&self.credential, "s3", &self.region)
            .try_authorize(&mut request, None)
            .map_err(|error| unreachable(error.to_string()))?;
        let answer = self.client.execute(request).await.map_err(|error| unreachable(error.to_string()))?;
        let status = answer.status().as_u16();
        let said = answer.headers().get(DATE).and_then(|date| rfc2822::parse(date.to_str().ok()?).ok());
        let at = said.map_or_else(Timestamp::now, |date| date.timestamp());
        let body = answer.into_body().collect().await.map_err(|error| unreachable(error.to_string()))?;
        Ok(Answer { status, text: String::from_utf8_lossy(&body.to_bytes()).into_owned(), at })
    }
}

impl Answer {
    fn refused(&self, what: &str) -> ArchiveError {
        let said = element(&self.text, "Message").or_else(|| element(&self.text, "Code")).unwrap_or_default();
        let status = self.status;
        ArchiveError::Unreachable { message: format!("cannot {what}: the store answered {status} {said}") }
    }
}

#[derive(Debug, Default)]
struct Page {
    uploads: Vec<Upload>,
    more: bool,
    next: Option<(String, String)>,
    at: Timestamp,
}

impl Page {
    fn parse(text: &str, at: Timestamp) -> Self {
        let uploads = items(text, "Upload").filter_map(|item| {
            let initiated = element(item, "Initiated").and_then(|text| text.parse().ok());
            Some(Upload { key: element(item, "Key")?, id: element(item, "UploadId")?, initiated })
        });
        let next = element(text, "NextKeyMarker").zip(element(text, "NextUploadIdMarker"));
        Self { uploads: uploads.collect(), more: is_truncated(text) && next.is_some(), next, at }
    }
}

impl Found {
    fn parse(item: &str) -> Option<Self> {
        Some(Self {
            number: element(item, "PartNumber")?.parse().ok()?,
            size: element(item, "Size")?.parse().ok()?,
            etag: element(item, "ETag")?,
            modified: element(item, "LastModified").and_then(|text| text.parse().ok()),
        })
    }
}

fn is_truncated(text: &str) -> bool {
    element(text, "IsTruncated").is_some_and(|word| word == "true")
}

/// What is inside each element of that name.
fn items<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(&open)? + open.len();
        let end = start + rest[start..].find(&close)?;
        let item = &rest[start..end];
        rest = &rest[end..];
        Some(item)
    })
}

/// The text of the first element of that name. The few characters XML must escape are put back.
fn element(text: &str, name: &str) -> Option<String> {
    let plain = items(text, name).next()?.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    Some(plain.replace("&#34;", "\"").replace("&apos;", "'").replace("&#39;", "'").replace("&amp;", "&"))
}

/// As S3 wants names in URLs: everything but the unreserved characters.
fn encoded(text: &str, keep_slash: bool) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b'/' if keep_slash => out.push('/'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_understood() {
        let text = r#"<?xml version="1.0"?><ListMultipartUploadsResult><Bucket>b</Bucket>
            <NextKeyMarker>k2</NextKeyMarker><NextUploadIdMarker>i&amp;2</NextUploadIdMarker>
            <IsTruncated>true</IsTruncated>
            <Upload><Key>a/b</Key><UploadId>i1</UploadId><Initiated>2020-01-02T03:04:05.000Z</Initiated></Upload>
            <Upload><Key>a/c</Key><UploadId>i2</UploadId></Upload><Upload><Key>half</Key></Upload>
            </ListMultipartUploadsResult>"#;
        let page = Page::parse(text, Timestamp::UNIX_EPOCH);
        assert!(page.more);
        assert_eq!(page.next, Some(("k2".into(), "i&2".into())));
        let keys: Vec<&str> = page.uploads.iter().map(|upload| upload.key.as_str()).collect();
        assert_eq!(keys, ["a/b", "a/c"]);
        let began: Vec<bool> = page.uploads.iter().map(|upload| upload.initiated.is_some()).collect();
        assert_eq!(began, [true, false]);
        assert_eq!(Page::parse("<html>", Timestamp::UNIX_EPOCH).uploads, []);
    }

    #[test]
    fn parts_are_understood() {
        let text = r"<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>2</PartNumber>
            <LastModified>2020-01-02T03:04:05.000Z</LastModified><ETag>&#34;ab&#34;</ETag><Size>7</Size></Part>
            <Part><PartNumber>x</PartNumber></Part></ListPartsResult>";
        let parts: Vec<Found> = items(text, "Part").filter_map(Found::parse).collect();
        let modified = "2020-01-02T03:04:05Z".parse().ok();
        assert_eq!(parts, [Found { number: 2, size: 7, etag: "\"ab\"".into(), modified }]);
    }

    #[test]
    fn names_are_encoded_as_the_signature_wants_them() {
        assert_eq!(encoded("a b/ü~", true), "a%20b/%C3%BC~");
        assert_eq!(encoded("a/b=", false), "a%2Fb%3D");
    }
}
