//! Archived files over HTTP: names are bytes, and content is for saving, never for showing here.

use std::borrow::Cow;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use codehub_archive::{ArchivedFile, FileStream};
use codehub_domain::Timestamp;
use http::{
    HeaderValue,
    header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// The pairs of a query string whose values may be any bytes.
pub(crate) fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, Vec<u8>)> {
    query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name, percent_decode_str(&value.replace('+', " ")).collect())
    })
}

/// A path as it was asked for: `src/` is `src`.
pub(crate) fn trimmed(mut path: Vec<u8>) -> Vec<u8> {
    while path.last() == Some(&b'/') {
        path.pop();
    }
    path
}

/// As the value of a query parameter.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, NON_ALPHANUMERIC).to_string()
}

/// The last part of a path.
pub(crate) fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// For people: what is no text is replaced.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// `None` for times beyond what a calendar has.
pub(crate) fn modified_at(file: &ArchivedFile) -> Option<Timestamp> {
    Timestamp::new(file.mtime_seconds, i32::try_from(file.mtime_nanoseconds).unwrap_or(0)).ok()
}

/// The file, to be saved. A connection that breaks off before its length is reached means that the
/// archive could not be read to the end.
pub(crate) fn attachment(file: &ArchivedFile, stream: FileStream) -> Response {
    // The header has no way to say bytes that are no text.
    let name = encoded(text(name(&file.path)).as_bytes());
    let disposition = HeaderValue::try_from(format!("attachment; filename*=UTF-8''{name}"))
        .unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CONTENT_LENGTH, HeaderValue::from(file.size)),
        (CONTENT_DISPOSITION, disposition),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (headers, Body::from_stream(stream)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_carries_any_bytes() {
        let path = b"a b/\xff&=+%\xea\xb0\x80\n";
        let query = format!("path={}&cursor&x=a+b", encoded(path));
        let found: Vec<_> = pairs(Some(&query)).collect();
        assert_eq!(found, [("path", path.to_vec()), ("cursor", vec![]), ("x", b"a b".to_vec())]);
        assert_eq!(pairs(None).count(), 0);
        assert_eq!(trimmed(b"src//".to_vec()), b"src");
        assert_eq!((name(b"a/b/\xff"), name(b"a"), name(b"")), (&b"\xff"[..], &b"a"[..], &b""[..]));
    }
}
