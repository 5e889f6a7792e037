//! Finding text and files, and replacing in files.

use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::Ide;

/// Everything the server says about a search: files, then the summary.
async fn search(ide: &Ide, query: Value) -> (Vec<Value>, Value) {
    let response = ide.http.post(ide.url("api/search")).json(&query).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{query}");
    let text = response.text().await.unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let done = lines.pop().expect("a summary at the end")["done"].clone();
    (lines, done)
}

fn names(found: &[Value]) -> Vec<&str> {
    found.iter().map(|file| file["file"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn finds_lines_with_their_places_and_respects_gitignore() {
    let ide = Ide::start().await;
    ide.write("p/src/한글 a.rs", "fn other() {}\n    한 needle(); needle\r\n");
    ide.write("p/src/b.txt", "Needle\n");
    ide.write("p/.gitignore", "target\n");
    ide.write("p/target/c.rs", "needle\n");
    ide.write("p/.git/config", "needle\n");
    ide.write("p/.github/w.yml", "needle\n");
    ide.write(".cache/huge", "needle\n");
    ide.write("binary", "needle\0needle\n");
    let (found, done) = search(&ide, json!({ "query": "needle", "case": true })).await;
    assert_eq!(names(&found), ["p/.github/w.yml", "p/src/%ED%95%9C%EA%B8%80%20a.rs"]);
    let line = &found[1]["lines"][0];
    assert_eq!((line["line"].as_u64(), line["column"].as_u64()), (Some(2), Some(6)));
    assert_eq!(line["text"], "    한 needle(); needle");
    assert_eq!(line["spans"], json!([[6, 12], [16, 22]]));
    assert_eq!((done["files"].as_u64(), done["lines"].as_u64()), (Some(2), Some(2)));
    assert!(done["stopped"].is_null());

    let (found, _) = search(&ide, json!({ "query": "needle", "ignored": true })).await;
    assert!(names(&found).contains(&"p/target/c.rs") && names(&found).contains(&".cache/huge"));
    assert!(!names(&found).iter().any(|name| name.starts_with("p/.git/") || *name == "binary"));

    let (found, _) = search(&ide, json!({ "query": "needle", "include": "*.txt" })).await;
    assert_eq!(names(&found), ["p/src/b.txt"]);
    let (found, _) = search(&ide, json!({ "query": "needle", "exclude": "src, .github" })).await;
    assert!(names(&found).is_empty());
    let (found, _) = search(&ide, json!({ "query": "needle", "include": "src", "folder": "p" })).await;
    assert_eq!(names(&found).len(), 2);
    let (found, _) = search(&ide, json!({ "query": r"ne+dle\(\);.*$", "regex": true })).await;
    assert_eq!(names(&found).len(), 1);
    let (found, _) = search(&ide, json!({ "query": "need", "word": true })).await;
    assert!(names(&found).is_empty());
}

#[tokio::test]
async fn says_what_is_wrong_with_a_search() {
    let ide = Ide::start().await;
    for (query, code) in [
        (json!({ "query": "" }), "BAD_QUERY"),
        (json!({ "query": "(", "regex": true }), "BAD_REGEX"),
        (json!({ "query": "x", "include": "a[" }), "BAD_GLOB"),
        (json!({ "query": "x", "folder": "../.." }), "BAD_PATH"),
    ] {
        let response = ide.http.post(ide.url("api/search")).json(&query).send().await.unwrap();
        assert_eq!(Ide::failure(response).await, (400, code.to_owned()), "{query}");
    }
}

#[tokio::test]
async fn a_search_is_bounded_and_says_so() {
    let ide = Ide::start().await;
    for n in 0..12 {
        ide.write(format!("f{n:02}"), &"hit\n".repeat(600));
    }
    let (found, done) = search(&ide, json!({ "query": "hit" })).await;
    assert_eq!(found[0]["lines"].as_array().unwrap().len(), 500);
    assert_eq!(found[0]["more"], true);
    assert_eq!((done["lines"].as_u64(), done["stopped"].as_str()), (Some(5000), Some("lines")));
}

#[tokio::test]
async fn a_link_does_not_lead_a_search_out_of_the_home() {
    let ide = Ide::start().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "needle\n").unwrap();
    std::os::unix::fs::symlink(outside.path(), ide.home.join("way")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), ide.home.join("file")).unwrap();
    let (found, _) = search(&ide, json!({ "query": "needle", "ignored": true })).await;
    assert!(found.is_empty(), "{found:?}");
    let query = json!({ "query": "needle", "folder": "way" });
    let response = ide.http.post(ide.url("api/search")).json(&query).send().await.unwrap();
    assert_eq!(Ide::failure(response).await, (403, "OUTSIDE_HOME".to_owned()));
}

#[tokio::test]
async fn replaces_in_chosen_lines_of_the_version_that_was_seen() {
    let ide = Ide::start().await;
    ide.write("a", "one(1)\r\nkeep\r\none(2) one(3)");
    ide.write("b", "one(1)\n");
    ide.write("c", "one(1)\n");
    let query = json!({ "query": r"one\((\d)\)", "regex": true, "replacement": "two[$1]" });
    let (found, _) = search(&ide, query.clone()).await;
    assert_eq!(found[0]["lines"][1]["after"], "two[2] two[3]");
    assert_eq!(ide.read("a"), "one(1)\r\nkeep\r\none(2) one(3)", "looking changes nothing");

    ide.write("b", "one(1) somebody else was here\n");
    let mut request = query;
    let chosen = |n: usize, lines: Value| json!({ "file": found[n]["file"], "version": found[n]["version"], "lines": lines });
    request["files"] = json!([chosen(0, json!([3])), chosen(1, json!([1])), chosen(2, json!([1]))]);
    let response = ide.http.post(ide.url("api/replace")).json(&request).send().await.unwrap();
    let answer: Value = response.json().await.unwrap();
    assert_eq!(ide.read("a"), "one(1)\r\nkeep\r\ntwo[2] two[3]");
    assert_eq!(ide.read("b"), "one(1) somebody else was here\n");
    assert_eq!(ide.read("c"), "two[1]\n", "a file that cannot be done does not stop the others");
    assert_eq!(answer["failed"][0]["file"], "b");
    assert_eq!(answer["failed"][0]["code"], "CHANGED_ON_DISK");
    assert_eq!(answer["replaced"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn plain_text_is_replaced_as_it_is_written() {
    let ide = Ide::start().await;
    ide.write("a", "price: X\n");
    let query = json!({ "query": "x", "replacement": "$1" });
    let (found, _) = search(&ide, query.clone()).await;
    let mut request = query;
    request["files"] = json!([{ "file": "a", "version": found[0]["version"], "lines": [1] }]);
    ide.http.post(ide.url("api/replace")).json(&request).send().await.unwrap();
    assert_eq!(ide.read("a"), "price: $1\n");
}

#[tokio::test]
async fn finds_files_by_letters_of_their_names() {
    let ide = Ide::start().await;
    for name in ["src/main.rs", "src/domain.rs", "docs/한글.md", "node/x.js", ".cache/main.rs"] {
        ide.write(name, "");
    }
    ide.write(".gitignore", "node\n");
    let find = async |typed: &str| {
        let answer: Value = ide.get(&format!("api/find?q={typed}")).await.json().await.unwrap();
        answer["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(find("main").await, ["src/main.rs", "src/domain.rs"]);
    assert_eq!(find("srcdom").await, ["src/domain.rs"]);
    assert_eq!(find("%ED%95%9C").await, ["docs/%ED%95%9C%EA%B8%80.md"]);
    assert!(find("xjs").await.is_empty());
    assert_eq!(find("").await.len(), 4);
}
