//! `GET api/download?path=`: a file as it is, with `Range`; a directory as tar, or with `as=zip` as zip.
//!
//! Always an attachment of a neutral type, so a downloaded page can never run
//! as part of this one. `inline=1` is the exception the preview needs: a few
//! raster types and PDF by their proper name, still unable to run.

use std::io::SeekFrom;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rustix::fs::{FileType, OFlags, Stat};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::{Files, archive, read, zip};
use crate::error::{ApiError, Result, blocking};
use crate::home::version;
use crate::path::{RelPath, encode_name, lossy, query_path, query_value};

const CHUNK: usize = 64 * 1024;

pub(super) async fn download(
    State(files): State<Files>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response> {
    let path = query_path(query.as_deref(), "path")?;
    let inline = query_value(query.as_deref(), "inline").is_some();
    let zip = query_value(query.as_deref(), "as") == Some("zip");
    let probe = {
        let (home, path) = (files.home.clone(), path.clone());
        blocking(move || {
            let fd = home.open_at(&path, OFlags::PATH)?;
            read::fstat(&fd, &path)
        })
        .await?
    };
    if FileType::from_raw_mode(probe.st_mode) == FileType::Directory {
        return match zip {
            true => zip::directory(&files.home, &path),
            false => archive::directory(&files.home, &path),
        };
    }
    let (file, stat) = {
        let (home, path) = (files.home.clone(), path.clone());
        blocking(move || read::open_regular(&home, &path, OFlags::empty())).await?
    };
    send(tokio::fs::File::from_std(file), &stat, &path, &headers, inline).await
}

async fn send(
    mut file: tokio::fs::File,
    stat: &Stat,
    path: &RelPath,
    headers: &HeaderMap,
    inline: bool,
) -> Result<Response> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let etag = format!("\"{}\"", version(stat));
    let name = path.name().map(lossy).unwrap_or_default();
    let mut response = Response::builder()
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::ETAG, &etag);
    response = match inline.then(|| shown_type(&name)).flatten() {
        Some(kind) => response.header(header::CONTENT_TYPE, kind),
        None => response
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_DISPOSITION, disposition(&name)),
    };

    let range = match headers.get(header::RANGE) {
        Some(range) if range_still_valid(headers, &etag) => parse_range(range, size),
        _ => Range::Whole,
    };
    let (start, length, response) = match range {
        Range::Whole => (0, size, response),
        Range::Part(start, end) => (
            start,
            end - start + 1,
            response
                .status(StatusCode::PARTIAL_CONTENT)
                .header(header::CONTENT_RANGE, format!("bytes {start}-{end}/{size}")),
        ),
        Range::Unsatisfiable => {
            return response
                .status(StatusCode::RANGE_NOT_SATISFIABLE)
                .header(header::CONTENT_RANGE, format!("bytes */{size}"))
                .body(Body::empty())
                .map_err(|error| internal(&error));
        }
    };
    if start > 0 {
        file.seek(SeekFrom::Start(start)).await.map_err(|error| ApiError::from_io(&error, &path.shown()))?;
    }
    response
        .header(header::CONTENT_LENGTH, length)
        .body(Body::from_stream(ReaderStream::with_capacity(file.take(length), CHUNK)))
        .map_err(|error| internal(&error))
}

pub(crate) fn internal(error: &http::Error) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", error.to_string())
}

/// RFC 6266: a plain name for old clients, the exact one for the rest.
pub(super) fn disposition(name: &str) -> HeaderValue {
    let plain: String = name
        .chars()
        .map(|c| match c {
            ' '..='~' if c != '"' && c != '\\' && c != '%' => c,
            _ => '_',
        })
        .collect();
    let exact = encode_name(name.as_bytes())
        .replace('\'', "%27")
        .replace('(', "%28")
        .replace(')', "%29")
        .replace('*', "%2A");
    HeaderValue::from_str(&format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"))
        .unwrap_or_else(|_| HeaderValue::from_static("attachment"))
}

fn shown_type(name: &str) -> Option<&'static str> {
    let extension = name.rsplit_once('.')?.1.to_ascii_lowercase();
    Some(match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "bmp" => "image/bmp",
        "ico" => "image/x-icon",
        "pdf" => "application/pdf",
        _ => return None,
    })
}

/// A range asked for an older version gets the whole new file (RFC 9110 If-Range).
fn range_still_valid(headers: &HeaderMap, etag: &str) -> bool {
    headers.get(header::IF_RANGE).is_none_or(|value| value.as_bytes() == etag.as_bytes())
}

#[derive(Debug, PartialEq)]
enum Range {
    Whole,
    /// First and last byte, inclusive.
    Part(u64, u64),
    Unsatisfiable,
}

/// One byte range; several, or anything unclear, mean the whole file.
fn parse_range(value: &HeaderValue, size: u64) -> Range {
    let Some((first, last)) = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().strip_prefix("bytes="))
        .filter(|spec| !spec.contains(','))
        .and_then(|spec| spec.split_once('-'))
    else {
        return Range::Whole;
    };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last && first < size => Range::Part(first, last.min(size - 1)),
        (Ok(first), Err(_)) if last.trim().is_empty() && first < size => Range::Part(first, size - 1),
        (Err(_), Ok(suffix)) if first.trim().is_empty() && suffix > 0 && size > 0 => {
            Range::Part(size.saturating_sub(suffix), size - 1)
        }
        (Ok(first), _) if first >= size => Range::Unsatisfiable,
        (Err(_), Ok(_)) if first.trim().is_empty() => Range::Unsatisfiable,
        _ => Range::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let cases = [
            ("bytes=0-0", 10, Range::Part(0, 0)),
            ("bytes=2-", 10, Range::Part(2, 9)),
            ("bytes=-3", 10, Range::Part(7, 9)),
            ("bytes=-30", 10, Range::Part(0, 9)),
            ("bytes=5-99", 10, Range::Part(5, 9)),
            ("bytes=10-", 10, Range::Unsatisfiable),
            ("bytes=-0", 10, Range::Unsatisfiable),
            ("bytes=5-2", 10, Range::Whole),
            ("bytes=0-1,3-4", 10, Range::Whole),
            ("lines=1-2", 10, Range::Whole),
        ];
        for (text, size, expected) in cases {
            let value = HeaderValue::from_static(text);
            assert_eq!(parse_range(&value, size), expected, "{text}");
        }
    }

    #[test]
    fn names_cannot_break_the_header() {
        let value = disposition("a\"b\n한.txt");
        let text = value.to_str().unwrap();
        assert!(text.contains("filename=\"a_b__.txt\""), "{text}");
        assert!(text.contains("%ED%95%9C"), "{text}");
    }
}
