//! The backup and the restore of docs/OPERATIONS.md, with the very commands that stand there.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Cluster, reconciles,
    servers::{OwnPostgres, postgres_bin},
};
use crate::support::{Server, Setup};

/// The blocks of commands of one section, in their order.
fn commands(section: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPERATIONS.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no {section}"));
    let text = rest.split("\n## ").next().unwrap();
    text.split("```\n").skip(1).step_by(2).map(str::to_owned).collect()
}

/// Types them into a shell on the machine of that setup.
fn type_in(setup: &Setup, directory: &Path, url: &str, block: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_codehub")).parent().unwrap();
    let path = std::env::join_paths(
        [binary.to_owned(), postgres_bin().unwrap()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let server = setup.command(&[]);
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", block]).env_clear();
    shell.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell
        .env("PATH", path.unwrap())
        .env("DATABASE_URL", url)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{block}\n{said}");
    said
}

/// Everything people see, in an order of its own.
async fn seen(server: &Server) -> Vec<Value> {
    let mut found = Vec::new();
    let list = server.get("/workspaces?all=true&limit=100").await;
    for workspace in list["items"].as_array().unwrap() {
        let id = workspace["id"].as_str().unwrap();
        let history = server.get(&format!("/workspaces/{id}/history?limit=100")).await;
        found.push(json!({
            "id": id,
            "name": workspace["name"],
            "memo": workspace["memo"],
            "phase": workspace["phase"],
            "archive": workspace["archive_key"],
            "history": history["items"],
        }));
    }
    found.push(server.get("/users?limit=100").await);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_dumped_can_be_restored_and_nothing_is_lost() {
    let Some(postgres) = OwnPostgres::start() else { return };
    let [dump, restore] = &commands("Backup with PostgreSQL")[..] else { panic!("two blocks of commands") };
    let mut cluster = Cluster::on(&postgres.url("postgres"), None).await;
    cluster.add().await;
    let server = &cluster.servers[0];
    let archived = server.create(json!({ "name": "archived", "memo": "m".repeat(60_000) })).await;
    server.inside(&archived, "/write?note=before%20the%20backup").await.unwrap();
    server.go(&archived, "archive").await;
    server.create(json!({ "name": "on standby", "desired_state": "STANDBY" })).await;
    let running = server.create(json!({ "name": "running" })).await;
    let pid = server.inside(&running, "/pid").await;
    let directory = tempfile::tempdir().unwrap();
    type_in(&server.setup, directory.path(), &cluster.url, dump);
    let before = seen(server).await;

    // The server stops, its database is lost, another one takes its place.
    let url = cluster.url.clone();
    cluster.servers[0].kill();
    let said = type_in(&cluster.servers[0].setup, directory.path(), &url, restore);
    println!("{said}");
    let restored = format!("{}/codehub_restored", url.rsplit_once('/').unwrap().0);
    let first = cluster.servers.remove(0);
    let token = first.token.clone();
    let mut next = Cluster { url: restored.clone(), redis: None, servers: vec![first] };
    next.servers[0].set_env("DATABASE_URL", &restored);
    next.servers[0].restart().await;
    let server = &next.servers[0];
    assert_eq!(server.token, token, "tokens are in the dump, too");
    next.next_leader(0, Duration::from_secs(15)).await;
    assert_eq!(seen(server).await, before);
    assert_eq!(server.inside(&running, "/pid").await, pid, "what ran runs on");
    server.go(&archived, "start").await;
    let note = server.inside(&archived, "/read?note").await;
    assert_eq!(note.as_deref(), Some("before the backup\n"), "and what was archived comes back");
    reconciles(server, "after the restore").await;
}
