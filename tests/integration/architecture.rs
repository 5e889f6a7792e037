//! The directions between crates and modules, as `docs/ARCHITECTURE.md` draws them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What a crate is built from, by name; with `features`, also which features of which crate.
fn tree(package: &str, edges: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--prefix", "none", "--edges", edges, "--package", package])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Each crate, and what it must be able to do without.
const WITHOUT: &[(&str, &[&str])] = &[
    ("codehub-domain", &["codehub-", "tokio", "sqlx", "hyper"]),
    ("codehub-upstream", &["codehub-", "sqlx", "hyper"]),
    ("codehub-archive", &["codehub-", "sqlx", "bollard", "axum"]),
    ("codehub-inside", &["codehub-", "sqlx", "bollard", "object_store"]),
    ("codehub-client", &["codehub-", "sqlx", "bollard", "object_store", "axum"]),
    (
        "codehub-store",
        &["codehub-archive", "codehub-runtime", "codehub-proxy", "bollard", "object_store", "axum"],
    ),
    ("codehub-runtime", &["codehub-store", "codehub-proxy", "sqlx", "axum"]),
    (
        "codehub-proxy",
        &["codehub-store", "codehub-runtime", "codehub-archive", "sqlx", "bollard", "object_store"],
    ),
    ("codehub-coordinator", &["codehub-proxy", "codehub-inside", "codehub-server", "axum", "maud", "toml"]),
];

#[test]
fn crates_know_each_other_in_one_direction() {
    for (package, without) in WITHOUT {
        let tree = tree(package, "normal");
        let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        for unwanted in *without {
            let found = names.iter().find(|name| **name != *package && name.starts_with(unwanted));
            assert_eq!(found, None, "{package} must not need it");
        }
    }
}

#[test]
fn fakes_are_compiled_for_tests_only() {
    let tree = tree("codehub-server", "normal,features");
    assert!(tree.contains("feature"), "{tree}");
    let fakes: Vec<&str> =
        tree.lines().filter(|line| line.starts_with("codehub-") && line.contains("\"testing\"")).collect();
    assert_eq!(fakes, Vec::<&str>::new());
}

#[test]
fn modules_know_each_other_in_one_direction() {
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let source = entry.unwrap().path().join("src");
        let graph = modules(&source);
        if let Some(cycle) = cycle(&graph) {
            panic!("{}: {}", source.display(), cycle.join(" → "));
        }
    }
}

#[test]
fn a_cycle_is_found() {
    let mentions = |text: &str, depth| mentioned(&code(text), depth);
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(
        mentions("use crate::{a::{self, B}, c};\n// crate::d\nfn f() { crate::e::g() }", 1),
        set(&["a", "c", "e"])
    );
    assert_eq!(mentions("use super::{x::Y, z};", 1), set(&["x", "z"]));
    assert_eq!(mentions("use super::{x::Y};\nuse super::super::z::A;", 2), set(&["z"]));
    assert_eq!(mentions("#[cfg(test)]\nmod tests { use crate::t; }", 1), set(&[]));
    let graph = BTreeMap::from([
        ("a".to_owned(), set(&["b"])),
        ("b".to_owned(), set(&["c"])),
        ("c".to_owned(), set(&["a"])),
        ("d".to_owned(), set(&["a"])),
    ]);
    assert_eq!(cycle(&graph).unwrap(), ["a", "b", "c", "a"]);
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Which top-level modules of a crate mention which others.
fn modules(source: &Path) -> Graph {
    let mut graph = Graph::new();
    for file in files(source) {
        let relative = file.strip_prefix(source).unwrap().with_extension("");
        let mut parts: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        let is_test = parts.iter().any(|part| part.contains("tests") || *part == "contract");
        if matches!(parts[0], "lib" | "main") || is_test {
            continue;
        }
        let text = code(&std::fs::read_to_string(&file).unwrap());
        graph.entry(parts[0].to_owned()).or_default().extend(mentioned(&text, parts.len()));
    }
    let names: BTreeSet<String> = graph.keys().cloned().collect();
    for (name, mentions) in &mut graph {
        mentions.retain(|other| other != name && names.contains(other));
    }
    graph
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The text without comments and the tests at its end.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    product.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The first name below the crate's root of every path in a file that is `depth` modules deep.
fn mentioned(text: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let supers = "super::".repeat(depth);
    for start in ["crate::", supers.as_str()] {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                found.extend(first_names(&text[at + start.len()..]));
            }
        }
    }
    found
}

/// The first names of a path or a group of paths: `a::b` → a; `{a::{b, c}, d}` → a, d.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut names, mut depth, mut begins) = (Vec::new(), 0_u32, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && !c.is_whitespace() => {
                names.push(name(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// The first cycle there is, from a module back to itself.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn visit<'a>(
        graph: &'a Graph,
        at: &'a str,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> bool {
        path.push(at);
        for next in &graph[at] {
            if path.contains(&next.as_str()) {
                path.push(next);
                return true;
            }
            if graph.contains_key(next) && !done.contains(next.as_str()) && visit(graph, next, path, done) {
                return true;
            }
        }
        done.insert(at);
        path.pop();
        false
    }
    let mut done = BTreeSet::new();
    for start in graph.keys().filter(|name| !name.is_empty()) {
        let mut path = Vec::new();
        if !done.contains(start.as_str()) && visit(graph, start, &mut path, &mut done) {
            let first = path.iter().position(|name| Some(name) == path.last())?;
            return Some(path[first..].iter().map(ToString::to_string).collect());
        }
    }
    None
}
