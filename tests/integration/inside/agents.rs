//! `docs/AGENTS.md`, run as it stands.

use super::*;

/// The code of a language on the page.
fn code(language: &str) -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/AGENTS.md")).unwrap();
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect("such a block");
    rest.split_once("\n```").unwrap().0.to_owned()
}

async fn run_page(program: &str, language: &str) {
    let server = sandboxed().start().await;
    let mut command = tokio::process::Command::new(program);
    command.args(["-c", &code(language)]);
    command.env("CODEHUB_URL", server.url("")).env("CODEHUB_TOKEN", &server.token);
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && stdout.ends_with("all is well\n"), "{stdout}\n{stderr}");
    assert_eq!(server.get("/workspaces").await["total"], 0, "it cleans up");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_in_the_shell_works_as_it_is_written() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        return codehub_testing::skip("no curl");
    }
    run_page("sh", "sh").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_in_python_works_as_it_is_written() {
    run_page("python3", "python").await;
}
