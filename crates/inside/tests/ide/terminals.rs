//! Real shells on real PTYs, seen through the socket.

use std::time::Duration;

use codehub_testing::{eventually, let_time_pass, poll_every};
use serde_json::json;

use crate::harness::{Ide, SOON, Screen, row_text};

const ALT_SCREEN: u64 = 8;

#[tokio::test]
async fn typing_echoes_and_commands_run_in_the_home() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    assert_eq!(page.expect("terms").await["terms"], json!([]));
    let id = page.open().await;
    page.type_text(id, "echo \"<$((6*7))|$TERM|$COLORTERM>\"; pwd > where; stty size\r").await;
    page.until_text(id, "<42|xterm-256color|truecolor>").await;
    page.until_text(id, "24 80").await;
    let expected = ide.home.canonicalize().unwrap();
    assert_eq!(ide.read("where").trim(), expected.to_str().unwrap());
}

#[tokio::test]
async fn resizing_reaches_the_program() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.send(json!({ "t": "size", "id": id, "rows": 33, "cols": 101 })).await;
    let screen = page.until(id, |s| s.last["rows"] == 33).await;
    assert_eq!(screen.last["cols"], 101);
    page.type_text(id, "stty size\r").await;
    page.until_text(id, "33 101").await;
}

#[tokio::test]
async fn full_screen_programs_come_and_go() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "echo before\r").await;
    page.until_text(id, "before\n").await;
    page.type_text(
        id,
        "printf '\\033[?1049h\\033[2J\\033[5;10Hcentre\\033[?25l'; read x; printf '\\033[?1049l\\033[?25h'\r",
    )
    .await;
    let screen = page.until_text(id, "centre").await;
    assert!(screen.last["modes"].as_u64().unwrap() & ALT_SCREEN != 0);
    assert_eq!(row_text(&screen.lines[&4]), "         centre");
    assert_eq!(screen.last["cur"][2], 0);
    assert!(!screen.text().contains("before"));
    page.type_text(id, "\r").await;
    let screen = page.until_text(id, "before\n").await;
    assert!(screen.last["modes"].as_u64().unwrap() & ALT_SCREEN == 0);
}

#[tokio::test]
async fn vim_edits_saves_and_quits() {
    if !["/usr/bin/vim", "/usr/bin/vi"].iter().any(|p| std::path::Path::new(p).exists()) {
        return;
    }
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "vi -u NONE note.txt\r").await;
    // Its name is in the command as well, and what is typed too early is shown by the shell.
    let is_full = |s: &Screen| s.last["modes"].as_u64().unwrap() & ALT_SCREEN != 0;
    page.until(id, |s| is_full(s) && s.text().contains("note.txt")).await;
    page.type_text(id, "ihello 한글\u{1b}").await;
    page.until_text(id, "hello 한글").await;
    page.send(json!({ "t": "size", "id": id, "rows": 40, "cols": 100 })).await;
    page.until(id, |s| s.last["rows"] == 40 && s.text().contains("hello 한글")).await;
    page.type_text(id, ":wq\r").await;
    page.until(id, |s| !is_full(s)).await;
    assert_eq!(ide.read("note.txt"), "hello 한글\n");
}

#[tokio::test]
async fn questions_of_programs_are_answered() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    // The answer to "where is the cursor" arrives as input of the asking program.
    page.type_text(
        id,
        "clear; printf '\\033[7;9H\\033[6n'; IFS= read -rsd R answer; printf '\\nGOT:%q\\n' \"$answer\"\r",
    )
    .await;
    page.until_text(id, "GOT:$'\\E[7;9'").await;
}

#[tokio::test]
async fn korean_is_two_cells_wide() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "clear; printf '가나다|\\n\\033[1;31m한\\033[0m글\\n'\r").await;
    let screen = page.until_text(id, "한글").await;
    let row = screen.lines.values().find(|row| row_text(row) == "가나다|").unwrap();
    assert_eq!(row[1], json!([["가", "나", "다"], -1, -1, 32]));
    let row = screen.lines.values().find(|row| row_text(row) == "한글").unwrap();
    assert_eq!(row[1], json!([["한"], 1, -1, 33]));
    page.type_text(
        id,
        "clear; printf '가나다'; printf '\\033[6n'; IFS= read -rsd R a; printf '\\n%q\\n' \"$a\"\r",
    )
    .await;
    page.until_text(id, "\\E[1;7").await;
}

#[tokio::test]
async fn a_returning_page_finds_its_terminal() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "echo still-here; (sleep 1; echo came-meanwhile; touch meanwhile)&\r").await;
    page.until_text(id, "still-here\n").await;
    drop(page); // as when the network is cut
    eventually("it printed while nobody looked", async || ide.home.join("meanwhile").exists()).await;

    let mut page = ide.socket().await;
    assert_eq!(page.expect("terms").await["terms"][0]["id"], id);
    page.send(json!({ "t": "attach", "id": id, "rows": 24, "cols": 80 })).await;
    let first = page.expect("screen").await;
    assert_eq!(first["full"], true);
    let screen = page.screens[&id].clone();
    assert!(screen.text().contains("still-here") && screen.text().contains("came-meanwhile"));
    page.type_text(id, "echo back\r").await;
    page.until_text(id, "back\n").await;
}

#[tokio::test]
async fn two_pages_share_a_terminal() {
    let ide = Ide::start().await;
    let mut one = ide.socket().await;
    let mut two = ide.socket().await;
    let id = one.open().await;
    two.send(json!({ "t": "attach", "id": id, "rows": 24, "cols": 80 })).await;
    one.type_text(id, "echo from-one\r").await;
    two.until_text(id, "from-one\n").await;
    two.type_text(id, "echo from-two\r").await;
    let seen = one.until_text(id, "from-two\n").await.text();
    two.settle().await;
    one.settle().await;
    assert_eq!(one.screens[&id].text(), two.screens[&id].text());
    assert!(seen.contains("from-one"));
    // Closing it in one closes it in the other.
    one.send(json!({ "t": "close", "id": id })).await;
    loop {
        if two.expect("terms").await["terms"] == json!([]) {
            break;
        }
    }
}

#[tokio::test]
async fn lines_that_scrolled_away_can_be_fetched() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "clear; seq -f 'n%gn' 1 300; echo done\r").await;
    let screen = page.until_text(id, "\ndone\n").await;
    let base = screen.last["base"].as_u64().unwrap();
    assert!(base > 270);
    page.send(json!({ "t": "lines", "id": id, "from": base - 40, "to": base })).await;
    let answer = page.expect("lines").await;
    let lines: Vec<String> = answer["lines"].as_array().unwrap().iter().map(row_text).collect();
    assert_eq!(lines.len(), 40);
    assert_eq!(answer["epoch"], screen.last["epoch"]);
    let number = |line: &String| line.trim_matches('n').parse::<u32>().unwrap();
    assert!(lines.windows(2).all(|pair| number(&pair[0]) + 1 == number(&pair[1])));
}

#[tokio::test]
async fn an_ended_shell_says_so_and_stays_readable() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "echo last words; exit 7\r").await;
    let screen = page.until(id, |s| s.last["exit"].is_object()).await;
    assert_eq!(screen.last["exit"]["code"], 7);
    assert!(screen.text().contains("last words"));
    let mut other = ide.socket().await;
    other.send(json!({ "t": "attach", "id": id, "rows": 24, "cols": 80 })).await;
    let screen = other.until(id, |s| s.last["exit"].is_object()).await;
    assert!(screen.text().contains("last words"));
}

#[tokio::test]
async fn a_flood_of_output_ends_in_the_latest_screen() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "seq 1 200000; echo the-end\r").await;
    // A page that reads nothing for a while gets one picture, not a backlog.
    let_time_pass(Duration::from_secs(2)).await;
    let mut messages = 0;
    while !page.screens.get(&id).is_some_and(|s| s.text().contains("the-end\n")) {
        page.next_within(SOON).await.expect("the last line arrives");
        messages += 1;
    }
    assert!(messages < 500, "{messages} messages for a flood");
}

#[tokio::test]
async fn an_idle_page_hears_nothing() {
    let ide = Ide::start().await;
    ide.write("a.txt", "a");
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.send(json!({ "t": "watch", "dirs": [{ "dir": "", "files": ["a.txt"], "list": true }] })).await;
    page.type_text(id, "echo ready\r").await;
    page.until_text(id, "ready\n").await;
    page.settle().await;
    let heard = page.next_within(Duration::from_secs(4)).await;
    assert!(heard.is_none(), "an idle page was told {heard:?}");
    page.send(json!({ "t": "probe" })).await;
    page.expect("here").await;
}

fn alive(pid: &str) -> bool {
    // A zombie is dead, only not yet collected.
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

async fn wait_dead(pid: &str) {
    let end = tokio::time::Instant::now() + SOON;
    while alive(pid) {
        assert!(tokio::time::Instant::now() < end, "process {pid} lives on");
        poll_every(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn closing_ends_the_shell_and_what_runs_in_it() {
    let ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    // The second one ignores the hang-up and must be made to go.
    page.type_text(id, "sh -c 'trap \"\" HUP; echo $$ > pid; while :; do sleep 1; done'\r").await;
    let end = tokio::time::Instant::now() + SOON;
    while !ide.home.join("pid").exists() || ide.read("pid").trim().is_empty() {
        assert!(tokio::time::Instant::now() < end);
        poll_every(Duration::from_millis(50)).await;
    }
    let pid = ide.read("pid");
    assert!(alive(&pid));
    page.send(json!({ "t": "close", "id": id })).await;
    wait_dead(&pid).await;
}

#[tokio::test]
async fn shutdown_ends_terminals_and_tells_pages() {
    let mut ide = Ide::start().await;
    let mut page = ide.socket().await;
    let id = page.open().await;
    page.type_text(id, "echo $$ > pid; echo wr''ote\r").await;
    page.until_text(id, "wrote\n").await;
    let pid = ide.read("pid");
    let stopping = ide.shut_down();
    let (closed, ()) = tokio::join!(page.expect("closed"), stopping);
    assert_eq!(closed["code"], 1001);
    wait_dead(&pid).await;
}
