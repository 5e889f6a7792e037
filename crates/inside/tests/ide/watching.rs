//! Changes on disk reach the pages that look, and only those.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Ide, Page};

async fn watch(page: &mut Page, dirs: Value) {
    page.send(json!({ "t": "watch", "dirs": dirs })).await;
}

#[tokio::test]
async fn new_files_and_rewritten_open_files_are_announced() {
    let ide = Ide::start().await;
    ide.write("open.txt", "1");
    ide.write("sub/x", "1");
    let mut page = ide.socket().await;
    watch(&mut page, json!([{ "dir": "", "files": ["open.txt"], "list": true }])).await;
    // What is newly watched counts as changed: the page looks once more.
    let first = page.expect("fs").await;
    assert_eq!((&first["dirs"], &first["files"]), (&json!([""]), &json!(["open.txt"])));

    ide.write("made.txt", "x");
    let news = page.expect("fs").await;
    assert_eq!((&news["dirs"], &news["files"]), (&json!([""]), &json!([])));

    ide.write("open.txt", "2");
    let news = page.expect("fs").await;
    assert_eq!((&news["dirs"], &news["files"]), (&json!([]), &json!(["open.txt"])));

    // Replaced by rename, as editors do it.
    ide.write("tmp", "3");
    std::fs::rename(ide.home.join("tmp"), ide.home.join("open.txt")).unwrap();
    page.settle().await;

    // Nobody looks into sub, and writing to a file that is not open is no news.
    ide.write("sub/y", "1");
    ide.write("made.txt", "more");
    assert!(page.next_within(Duration::from_secs(1)).await.is_none());
}

#[tokio::test]
async fn a_storm_is_few_messages_and_a_hidden_page_hears_none() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    watch(&mut page, json!([{ "dir": "", "list": true }])).await;
    page.expect("fs").await;
    for n in 0..500 {
        ide.write(format!("f{n}"), "");
    }
    let mut messages = 0;
    while page.next_within(Duration::from_millis(600)).await.is_some() {
        messages += 1;
    }
    assert!((1..30).contains(&messages), "{messages} messages");

    watch(&mut page, json!([])).await;
    page.settle().await;
    ide.write("late", "");
    assert!(page.next_within(Duration::from_secs(1)).await.is_none());
}

#[tokio::test]
async fn saves_and_deleted_folders_are_seen_by_other_pages() {
    let ide = Ide::start().await;
    ide.write("d/f", "1");
    let mut page = ide.socket().await;
    watch(
        &mut page,
        json!([{ "dir": "d", "files": ["f"], "list": true }, { "dir": "missing", "list": true }]),
    )
    .await;
    page.settle().await;
    let url = ide.url("api/file?path=d/f");
    ide.http.put(url).body("2").send().await.unwrap();
    let news = page.expect("fs").await;
    assert_eq!(news["files"], json!(["d/f"]));
    std::fs::remove_dir_all(ide.home.join("d")).unwrap();
    loop {
        if page.expect("fs").await["dirs"] == json!(["d"]) {
            break;
        }
    }
}
