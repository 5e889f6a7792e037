//! Multipart uploads that never ended. They are invisible and cost money until somebody aborts them;
//! `object_store` has no call to find them, so this module has the two it takes.

use std::fmt::Write as _;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpClient, HttpRequestBody};

use super::error::{ArchiveError, Result};
use super::s3::S3Config;

/// More than this many at once are left for the next sweep.
const PAGES: usize = 20;

pub(super) struct Uploads {
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

impl Uploads {
    pub(super) fn new(client: HttpClient, config: &S3Config) -> Self {
        let credential = AwsCredential {
            key_id: config.access_key.clone(),
            secret_key: config.secret_key.clone(),
            token: None,
        };
        let bucket = format!("{}/{}", config.base(), config.bucket);
        Self { client, credential, region: config.region.clone(), bucket }
    }

    /// Aborts the uploads below `prefix` that began at least `older_than` ago; how many.
    pub(super) async fn abort(&self, prefix: &str, older_than: Duration) -> Result<u64> {
        let mut aborted = 0;
        let mut page = Page::default();
        for _ in 0..PAGES {
            page = self.list(prefix, &page).await?;
            for upload in &page.uploads {
                if !upload.key.starts_with(prefix) || !upload.began_before(older_than) {
                    continue;
                }
                let query = format!("uploadId={}", encoded(&upload.id, false));
                let path = format!("{}/{}?{query}", self.bucket, encoded(&upload.key, true));
                match self.send(Method::DELETE, &path).await? {
                    // Ended meanwhile, one way or the other.
                    (404, _) => {}
                    (200..300, _) => aborted += 1,
                    (status, text) => return Err(refused("abort an unfinished upload", status, &text)),
                }
            }
            if !page.more {
                break;
            }
        }
        Ok(aborted)
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
            (200, text) => Ok(Page::parse(&text)),
            // Not every server keeps such a list; then there is nothing to see and nothing to do.
            (400 | 404 | 405 | 501, text)
                if text.contains("NotImplemented") || text.contains("NoSuchUpload") =>
            {
                Ok(Page::default())
            }
            (status, text) => Err(refused("list unfinished uploads", status, &text)),
        }
    }

    async fn send(&self, method: Method, url: &str) -> Result<(u16, String)> {
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
        let body = answer.into_body().collect().await.map_err(|error| unreachable(error.to_string()))?;
        Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    }
}

impl Upload {
    fn began_before(&self, older_than: Duration) -> bool {
        if older_than.is_zero() {
            return true;
        }
        let Some(initiated) = self.initiated else { return false };
        let age = Timestamp::now().duration_since(initiated);
        Duration::try_from(age).is_ok_and(|age| age >= older_than)
    }
}

#[derive(Debug, Default)]
struct Page {
    uploads: Vec<Upload>,
    more: bool,
    next: Option<(String, String)>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut uploads = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("<Upload>") {
            let Some(end) = rest[start..].find("</Upload>") else { break };
            let item = &rest[start..start + end];
            rest = &rest[start + end..];
            let (Some(key), Some(id)) = (element(item, "Key"), element(item, "UploadId")) else { continue };
            let initiated = element(item, "Initiated").and_then(|text| text.parse().ok());
            uploads.push(Upload { key, id, initiated });
        }
        let more = element(text, "IsTruncated").is_some_and(|word| word == "true");
        let next = element(text, "NextKeyMarker").zip(element(text, "NextUploadIdMarker"));
        Self { uploads, more: more && next.is_some(), next }
    }
}

/// The text of the first element of that name. The few characters XML must escape are put back.
fn element(text: &str, name: &str) -> Option<String> {
    let open = format!("<{name}>");
    let start = text.find(&open)? + open.len();
    let end = start + text[start..].find(&format!("</{name}>"))?;
    let plain = text[start..end].replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    Some(plain.replace("&apos;", "'").replace("&#39;", "'").replace("&amp;", "&"))
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

fn refused(what: &str, status: u16, text: &str) -> ArchiveError {
    let said = element(text, "Message").or_else(|| element(text, "Code")).unwrap_or_default();
    ArchiveError::Unreachable { message: format!("cannot {what}: the store answered {status} {said}") }
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
        let page = Page::parse(text);
        assert!(page.more);
        assert_eq!(page.next, Some(("k2".into(), "i&2".into())));
        let keys: Vec<&str> = page.uploads.iter().map(|upload| upload.key.as_str()).collect();
        assert_eq!(keys, ["a/b", "a/c"]);
        let day = Duration::from_secs(86_400);
        assert!(page.uploads[0].began_before(day));
        assert!(!page.uploads[1].began_before(day), "of unknown age: left alone");
        assert!(page.uploads[1].began_before(Duration::ZERO));
        assert_eq!(Page::parse("<html>").uploads, []);
    }

    #[test]
    fn names_are_encoded_as_the_signature_wants_them() {
        assert_eq!(encoded("a b/ü~", true), "a%20b/%C3%BC~");
        assert_eq!(encoded("a/b=", false), "a%2Fb%3D");
    }
}
