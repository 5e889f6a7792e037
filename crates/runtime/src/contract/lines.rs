//! The line to the program inside.

use codehub_domain::WorkspaceId;
use codehub_inside::line::{
    client::{Exec, Line, LineError, Output},
    messages::channel,
    protocol::{ExecEnd, ExecStart, Exit, Tty},
};
use codehub_testing::eventually;

use super::Harness;
use crate::{Instances, LineTo};

async fn line(instances: &dyn Instances, id: WorkspaceId) -> Line {
    let opened = match instances.line(id).await.unwrap() {
        LineTo::Open(stream) => Line::open(stream).await.unwrap(),
        other => panic!("{other:?}"),
    };
    tokio::spawn(opened.1);
    opened.0
}

fn start(command: &[&str]) -> ExecStart {
    let command = command.iter().map(ToString::to_string).collect();
    ExecStart { command: Some(command), ..ExecStart::default() }
}

fn script(text: &str) -> ExecStart {
    start(&["/bin/sh", "-c", text])
}

/// All it printed, all it complained, and how it ended.
async fn finish(mut exec: Exec) -> (String, String, ExecEnd) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match exec.output.next().await.unwrap() {
            Output::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            Output::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            Output::End(end) => {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                return (text(&stdout), text(&stderr), end);
            }
        }
    }
}

async fn run(line: &Line, text: &str) -> (String, String, ExecEnd) {
    finish(line.exec(&script(text)).await.unwrap()).await
}

const fn exit(code: u8) -> ExecEnd {
    ExecEnd::Exit(Exit::Code(code))
}

pub(crate) async fn a_line_leads_to_what_runs_and_ends_with_it(harness: &Harness) {
    let spec = harness.at_rest().await;
    let id = spec.workspace;
    assert!(matches!(harness.instances.line(id).await.unwrap(), LineTo::NotRunning));
    harness.instances.start(&spec, &crate::Fence::open()).await.unwrap();
    harness.until_ready(id).await;
    let other = harness.world.another().await;
    let (first, second) = (line(&*harness.instances, id).await, line(&*other, id).await);
    for line in [&first, &second] {
        let (stdout, stderr, end) = run(line, "echo out; echo err >&2; exit 3").await;
        assert_eq!((stdout.as_str(), stderr.as_str(), end), ("out\n", "err\n", exit(3)));
    }
    harness.instances.stop(id).await.unwrap();
    for line in [&first, &second] {
        eventually("the line has ended", async || {
            matches!(line.exec(&start(&["true"])).await, Err(LineError::Ended(_)))
        })
        .await;
    }
    assert!(matches!(harness.instances.line(id).await.unwrap(), LineTo::NotRunning));
}

pub(crate) async fn many_things_are_done_on_one_line(harness: &Harness) {
    let spec = harness.running().await;
    let line = line(&*harness.instances, spec.workspace).await;
    // One that nobody reads from does not hold up the others.
    let stuck = line.exec(&script("cat /dev/zero")).await.unwrap();
    let runs = (0..20).map(|n| {
        let line = line.clone();
        async move {
            let exec = line.exec(&script("cat; echo end >&2")).await.unwrap();
            let text = format!("{n} ").repeat(100_000);
            for piece in text.as_bytes().chunks(50_000) {
                assert!(exec.input.send(channel::STDIN, piece).await);
            }
            exec.input.send(channel::CLOSE, &[channel::STDIN]).await;
            let (stdout, stderr, end) = finish(exec).await;
            assert!(stdout == text && stderr == "end\n", "{n}: {} bytes, {stderr:?}", stdout.len());
            assert_eq!(end, exit(0));
        }
    });
    // The input of each is larger than what is on its way at once: it is read while it is written.
    futures::future::join_all(runs.map(tokio::spawn)).await.into_iter().for_each(|run| run.unwrap());
    drop(stuck);

    let (_, _, end) = finish(line.exec(&start(&["no-such-program"])).await.unwrap()).await;
    assert!(matches!(&end, ExecEnd::Error(problem) if problem.code == "NOT_FOUND"), "{end:?}");
    let env = [("GREETING".to_owned(), "hello".to_owned())].into();
    let exec = line.exec(&ExecStart { env, cwd: Some("/tmp".into()), ..script("echo $GREETING; pwd") }).await;
    assert_eq!(finish(exec.unwrap()).await.0, "hello\n/tmp\n");
    let exec = line.exec(&script("echo $$; sleep 600")).await.unwrap();
    exec.input.send(channel::SIGNAL, br#"{"signal":"TERM"}"#).await;
    assert_eq!(finish(exec).await.2, ExecEnd::Exit(Exit::Signal("TERM".into())));

    let usage = line.usage().await.unwrap();
    assert!(usage.processes < 1000, "{usage:?}");
    assert!(line.ports().await.unwrap().len() < 100);
    assert!(line.write_file("dir%2Ffile", "x".into()).await.is_err(), "there is no such directory");
    assert!(line.write_file("file", "content".into()).await.unwrap());
    assert_eq!(run(&line, "cat ~/file || cat file").await.0, "content");
    for path in ["..%2Ffile", "%2Fetc%2Fpasswd"] {
        assert!(matches!(line.read_file(path).await, Err(LineError::Refused(400, _))), "{path}");
    }
    harness.instances.stop(spec.workspace).await.unwrap();
}

pub(crate) async fn what_nobody_waits_for_is_ended(harness: &Harness) {
    let spec = harness.running().await;
    let keeps = line(&*harness.instances, spec.workspace).await;
    // One that goes when it is asked to, one that has left group and session, and one that does not listen.
    let family = "sh -c 'sleep 600; :' $0 & \
                  setsid sh -c 'trap \"\" HUP; while :; do sleep 0.1; done' $0 & \
                  trap '' HUP; while :; do sleep 0.1; done";
    for by_line in [false, true] {
        let mark = uuid::Uuid::new_v4().simple().to_string();
        // Without finding whoever looks for it.
        let count = format!("grep -ls '[{}]{}' /proc/[0-9]*/cmdline | wc -l", &mark[..1], &mark[1..]);
        let count = async || run(&keeps, &count).await.0.trim().parse::<usize>().unwrap();
        let mine = line(&*harness.instances, spec.workspace).await;
        let exec = mine.exec(&start(&["/bin/sh", "-c", family, &mark])).await.unwrap();
        eventually("all of them run", async || count().await == 3).await;
        if by_line {
            drop((exec, mine));
        } else {
            drop(exec);
        }
        eventually("they are gone", async || count().await == 0).await;
    }
    harness.instances.stop(spec.workspace).await.unwrap();
}

pub(crate) async fn a_program_has_a_terminal_where_it_is_asked_for(harness: &Harness) {
    let spec = harness.running().await;
    let line = line(&*harness.instances, spec.workspace).await;
    let tty = Some(Tty { cols: 100, rows: 30, term: None });
    let resized = "stty size; read line; stty size; echo $TERM; test -t 0 && test -t 2; exit $?";
    let exec = line.exec(&ExecStart { tty, ..script(resized) }).await.unwrap();
    exec.input.send(channel::RESIZE, br#"{"cols":90,"rows":20}"#).await;
    exec.input.send(channel::STDIN, b"\n").await;
    let (stdout, stderr, end) = finish(exec).await;
    let last: Vec<&str> = stdout.lines().map(str::trim_end).collect();
    assert!(last.ends_with(&["20 90", "xterm-256color"]), "{stdout:?}");
    assert_eq!((stderr.as_str(), end), ("", exit(0)));
    // The login shell, as a person would have it.
    let tty = Some(Tty { cols: 80, rows: 24, term: Some("dumb".into()) });
    let exec = line.exec(&ExecStart { tty, ..ExecStart::default() }).await.unwrap();
    exec.input.send(channel::STDIN, b"echo $((40 + 2)) $0; exit 5\n").await;
    let (stdout, _, end) = finish(exec).await;
    assert!(stdout.contains("42 -"), "{stdout:?}");
    assert_eq!(end, exit(5));
    harness.instances.stop(spec.workspace).await.unwrap();
}
