//! Large files, ranges, archives, and uploads that break off.

use std::time::Duration;

use bytes::Bytes;
use codehub_testing::{eventually, let_time_pass};
use futures::StreamExt;
use http::StatusCode;

use crate::harness::Ide;

const CHUNK: usize = 64 * 1024;
const CHUNKS: usize = 1024; // 64 MiB

/// Resident memory of this process (server and client alike), in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn sixty_four_mebibytes_up_and_down_with_flat_memory() {
    let ide = Ide::start().await;
    ide.get("healthz").await;
    let before = resident_kib();

    let chunk = Bytes::from(vec![0x5a; CHUNK]);
    let body = futures::stream::iter(std::iter::repeat_n(chunk, CHUNKS).map(Ok::<_, std::io::Error>));
    let response = ide
        .http
        .put(ide.url("api/file?path=large.bin"))
        .header("if-none-match", "*")
        .body(reqwest::Body::wrap_stream(body))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let after_upload = resident_kib();

    let response = ide.get("api/download?path=large.bin").await;
    assert_eq!(response.content_length(), Some((CHUNK * CHUNKS) as u64));
    let mut received = 0;
    let mut highest = after_upload;
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap();
        assert!(chunk.iter().all(|b| *b == 0x5a));
        received += chunk.len();
        highest = highest.max(resident_kib());
    }
    assert_eq!(received, CHUNK * CHUNKS);
    let grown = highest.saturating_sub(before) / 1024;
    assert!(grown < 24, "memory grew by {grown} MiB");
}

#[tokio::test]
async fn ranges_and_names() {
    let ide = Ide::start().await;
    ide.write("한글 \"q\".txt", "0123456789");
    let url = ide.url("api/download?path=%ED%95%9C%EA%B8%80%20%22q%22.txt");
    let whole = ide.http.get(&url).send().await.unwrap();
    let disposition = whole.headers()["content-disposition"].to_str().unwrap();
    assert!(disposition.starts_with("attachment; filename=\"__ _q_.txt\""), "{disposition}");
    assert!(disposition.contains("filename*=UTF-8''%ED%95%9C"));
    assert_eq!(whole.headers()["content-type"], "application/octet-stream");
    let tag = whole.headers()["etag"].clone();

    let part = ide.http.get(&url).header("range", "bytes=2-4").send().await.unwrap();
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.headers()["content-range"], "bytes 2-4/10");
    assert_eq!(part.text().await.unwrap(), "234");
    let beyond = ide.http.get(&url).header("range", "bytes=10-").send().await.unwrap();
    assert_eq!(beyond.status(), StatusCode::RANGE_NOT_SATISFIABLE);
    for (condition, status) in [(tag.to_str().unwrap(), 206), ("\"other\"", 200)] {
        let request = ide.http.get(&url).header("range", "bytes=0-0");
        let response = request.header("if-range", condition).send().await.unwrap();
        assert_eq!(response.status(), status);
    }
}

#[tokio::test]
async fn a_folder_downloads_as_tar() {
    let ide = Ide::start().await;
    ide.write("top/a.txt", "aaa");
    ide.write("top/sub/긴 이름.txt", &"b".repeat(100_000));
    std::os::unix::fs::symlink("/etc/passwd", ide.home.join("top/link")).unwrap();
    let response = ide.get("api/download?path=top").await;
    assert!(response.headers()["content-disposition"].to_str().unwrap().contains("top.tar"));
    let bytes = response.bytes().await.unwrap();
    let mut archive = tar::Archive::new(&bytes[..]);
    let mut seen: Vec<(String, u64)> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), entry.size())
        })
        .collect();
    seen.sort();
    let expected =
        [("top", 0), ("top/a.txt", 3), ("top/link", 0), ("top/sub", 0), ("top/sub/긴 이름.txt", 100_000)];
    assert_eq!(seen, expected.map(|(name, size)| (name.to_owned(), size)));
}

#[tokio::test]
async fn an_upload_cut_off_leaves_nothing_behind() {
    let ide = Ide::start().await;
    ide.write("kept.txt", "old");
    let pieces = futures::stream::iter(0..3).then(|n| async move {
        let_time_pass(Duration::from_millis(50)).await;
        if n < 2 { Ok(Bytes::from_static(b"new")) } else { Err(std::io::Error::other("cut")) }
    });
    let sent =
        ide.http.put(ide.url("api/file?path=kept.txt")).body(reqwest::Body::wrap_stream(pieces)).send().await;
    assert!(sent.is_err() || !sent.unwrap().status().is_success());
    eventually("what had arrived is removed", async || std::fs::read_dir(&ide.home).unwrap().count() == 1)
        .await;
    assert_eq!(ide.read("kept.txt"), "old");
}

#[tokio::test]
async fn a_folder_as_zip() {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    let ide = Ide::start().await;
    ide.write("p/한글.txt", "text ".repeat(100_000).as_str());
    ide.write("p/deep/empty", "");
    symlink("../../secret", ide.home.join("p/link")).unwrap();
    let response = ide.get("api/download?path=p&as=zip").await;
    assert_eq!(response.headers()["content-type"], "application/zip");
    assert!(response.headers()["content-disposition"].to_str().unwrap().contains("p.zip"));
    let bytes = response.bytes().await.unwrap();
    assert!(bytes.len() < 50_000, "it is compressed");
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut names: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    names.sort();
    assert_eq!(names, ["p/", "p/deep/", "p/deep/empty", "p/link", "p/한글.txt"]);
    let mut text = String::new();
    zip.by_name("p/한글.txt").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text ".repeat(100_000));
    let mut link = zip.by_name("p/link").unwrap();
    assert!(link.is_symlink(), "links are stored, not followed");
    text.clear();
    link.read_to_string(&mut text).unwrap();
    assert_eq!(text, "../../secret");
}
