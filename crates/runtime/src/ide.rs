//! Which web program a workspace runs: one table, one row per IDE.
//!
//! A row is data: how the program is found, its command line, how it is told where to listen, where it
//! answers that it is well, whether it knows the path it is served under, and the settings a new home
//! starts with. Adding an IDE is adding a row.
//!
//! Whoever can reach an IDE can use it, so one that can listen on a Unix socket does, in a directory
//! that is CodeHub's alone; a port of the loopback address is open to everybody on the machine. Where others
//! reach its port, and it can ask for a secret, it does ([`Guard`]).
//!
//! Templates know the placeholders of [`PLACEHOLDERS`]; anything else in braces that looks like one
//! is refused, since a misspelt `{prot}` would otherwise fail far from here. Nothing goes through a
//! shell: a word of the template is one argument, whatever it is filled with.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::IdeChoice;
use codehub_upstream::Secret;

/// What a template may mention, and what it means to people.
pub const PLACEHOLDERS: &[&str] = &["{port}", "{socket}", "{home}", "{id}", "{base_path}"];
const SOCKET: &str = "{socket}";

/// A file that a home gets if it has none of that name. What a person wrote is never touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultFile {
    /// Below the home.
    pub path: &'static str,
    pub text: &'static str,
}

/// How a program asks for a secret of its instance, for where others than the proxy get to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Instead of the arguments for where only the proxy gets to it.
    args: &'static [&'static str],
    /// The variable in which it finds the secret.
    pub env: &'static str,
    /// The header in which a request shows it, and what stands before it there.
    header: (&'static str, &'static str),
}

impl Guard {
    /// What a request has to carry.
    pub fn header(&self, secret: &str) -> Secret {
        let (name, before) = self.header;
        Secret::header(name, &format!("{before}{secret}"))
    }
}

struct Row {
    name: &'static str,
    /// How it is found on the `PATH`; `None`: it is CodeHub itself.
    executable: Option<&'static str>,
    /// After the program.
    args: &'static [&'static str],
    /// After `args`, where only the proxy gets to it, which has checked who is there.
    open: &'static [&'static str],
    guard: Guard,
    /// Where it listens, after `args`: on a port, or on a socket.
    on_port: &'static [&'static str],
    on_socket: &'static [&'static str],
    health_path: &'static str,
    /// Whether the proxy takes `/w/{id}/` off the path (the program only knows `/`).
    strip_prefix: bool,
    files: &'static [DefaultFile],
    env: &'static [(&'static str, &'static str)],
    /// The variable in which it looks for where ports are, with `{{port}}` for the number.
    port_url_env: Option<&'static str>,
    /// How a person gets it.
    install: &'static str,
}

const BUILTIN: Row = Row {
    name: "builtin",
    executable: None,
    args: &["ide", "--home", "{home}"],
    open: &[],
    guard: Guard { args: &[], env: "CODEHUB_SECRET", header: ("x-codehub-secret", "") },
    on_port: &["--port", "{port}"],
    on_socket: &["--socket", SOCKET],
    health_path: "/healthz",
    strip_prefix: true,
    files: &[],
    env: &[],
    port_url_env: None,
    install: "",
};

const CODE_SERVER: Row = Row {
    name: "code-server",
    executable: Some("code-server"),
    args: &[
        "--disable-telemetry",
        "--disable-update-check",
        "--disable-workspace-trust",
        // Its own proxy would serve ports on the IDE's origin.
        "--disable-proxy",
        "{home}",
    ],
    open: &["--auth", "none"],
    // It takes the cookie of a session for good that is the hash itself.
    guard: Guard {
        args: &["--auth", "password"],
        env: "HASHED_PASSWORD",
        header: ("cookie", "code-server-session="),
    },
    on_port: &["--bind-addr", "127.0.0.1:{port}"],
    on_socket: &["--socket", SOCKET, "--socket-mode", "600"],
    health_path: "/healthz",
    strip_prefix: true,
    files: &[DefaultFile {
        path: ".local/share/code-server/User/settings.json",
        text: r#"{
  "chat.disableAIFeatures": true,
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "update.showReleaseNotes": false,
  "extensions.autoCheckUpdates": false,
  "workbench.enableExperiments": false,
  "remote.autoForwardPorts": false,
  "files.watcherExclude": {"**/.local/share/code-server/**": true},
  "workbench.settings.enableNaturalLanguageSearch": false,
  "workbench.startupEditor": "none"
}
"#,
    }],
    env: &[],
    port_url_env: Some("VSCODE_PROXY_URI"),
    install: "see https://coder.com/docs/code-server/install",
};

const JUPYTERLAB: Row = Row {
    name: "jupyterlab",
    executable: Some("jupyter-lab"),
    args: &[
        "--no-browser",
        "--allow-root",
        "--ServerApp.base_url={base_path}",
        "--ServerApp.root_dir={home}",
        "--ServerApp.allow_remote_access=True",
        "--PasswordIdentityProvider.hashed_password=",
        // Its page, when the workspace sleeps under it, asks whether to start it again: that leads to the
        // workspace's page on the dashboard, in another tab, so that what was typed stays in this one.
        "--ServerApp.tornado_settings={'hub_prefix': '/', 'hub_host': '{base_path}.codehub/workspace?from=', 'user': ''}",
    ],
    open: &["--IdentityProvider.token="],
    guard: Guard { args: &[], env: "JUPYTER_TOKEN", header: ("authorization", "token ") },
    // Another port than the one that is recorded would never be found.
    on_port: &["--ip=127.0.0.1", "--port={port}", "--ServerApp.port_retries=0"],
    on_socket: &["--ServerApp.sock={socket}", "--ServerApp.sock_mode=0600"],
    health_path: "{base_path}api",
    strip_prefix: false,
    files: &[
        DefaultFile {
            path: ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings",
            text: "{\n  \"checkForUpdates\": false,\n  \"fetchNews\": \"false\"\n}\n",
        },
        // What is typed reaches the workspace only when it is saved, which JupyterLab does every two minutes
        // unless told otherwise: too rarely to count as activity before a short TTL ends.
        DefaultFile {
            path: ".jupyter/lab/user-settings/@jupyterlab/docmanager-extension/plugin.jupyterlab-settings",
            text: "{\n  \"autosaveInterval\": 10\n}\n",
        },
        // There is no hub: without this, its menu would offer to open its control panel and to log out of it.
        DefaultFile {
            path: ".jupyter/labconfig/page_config.json",
            text: "{\n  \"disabledExtensions\": {\n    \"@jupyterlab/hub-extension:menu\": true\n  }\n}\n",
        },
    ],
    env: &[],
    port_url_env: None,
    install: "`pip install jupyterlab`",
};

/// What `auto` looks for, best first; `builtin` is always there.
const PREFERRED: &[&Row] = &[&CODE_SERVER, &JUPYTERLAB];

/// What the placeholders are filled with.
#[derive(Debug, Clone, Copy)]
pub struct Fill<'a> {
    pub port: u16,
    /// `None`: it listens on the port.
    pub socket: Option<&'a str>,
    /// Others than the proxy get to it: it has to ask for its secret, where it can.
    pub guarded: bool,
    pub home: &'a str,
    pub id: &'a str,
    pub base_path: &'a str,
}

impl Fill<'_> {
    fn fill(&self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len() + 32);
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            let (before, tail) = rest.split_at(open);
            filled.push_str(before);
            let known = PLACEHOLDERS.iter().find(|name| tail.starts_with(**name));
            let Some(name) = known else {
                filled.push('{');
                rest = &tail[1..];
                continue;
            };
            match *name {
                "{port}" => filled.push_str(&self.port.to_string()),
                SOCKET => filled.push_str(self.socket.unwrap_or_default()),
                "{home}" => filled.push_str(self.home),
                "{id}" => filled.push_str(self.id),
                _ => filled.push_str(self.base_path),
            }
            rest = &tail[name.len()..];
        }
        filled.push_str(rest);
        filled
    }
}

/// An IDE that was found, ready to be run any number of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedIde {
    pub name: String,
    /// Whether the proxy takes `/w/{id}/` off the path before it forwards.
    pub strip_prefix: bool,
    pub files: &'static [DefaultFile],
    pub env: &'static [(&'static str, &'static str)],
    port_url_env: Option<&'static str>,
    /// How it asks for a secret; `None` where it cannot.
    pub guard: Option<Guard>,
    words: Vec<String>,
    /// More words, where it asks for none.
    open: &'static [&'static str],
    /// More words, for where it listens; `None` where it cannot.
    on_port: Option<Vec<String>>,
    on_socket: Option<Vec<String>>,
    health_path: String,
}

impl ResolvedIde {
    /// The program and its arguments.
    pub fn command_line(&self, fill: &Fill<'_>) -> Vec<String> {
        let listen = if fill.socket.is_some() { &self.on_socket } else { &self.on_port };
        let asks = match &self.guard {
            Some(guard) if fill.guarded => guard.args,
            _ => self.open,
        };
        let words = self.words.iter().map(String::as_str).chain(asks.iter().copied());
        words.chain(listen.iter().flatten().map(String::as_str)).map(|word| fill.fill(word)).collect()
    }

    /// What tells programs in a workspace where people reach its ports.
    pub fn port_env(&self, port_url: Option<&str>) -> impl Iterator<Item = (&'static str, String)> {
        let of_ide =
            self.port_url_env.zip(port_url).map(|(name, url)| (name, url.replace("{port}", "{{port}}")));
        port_url.map(|url| ("CODEHUB_PORT_URL", url.to_owned())).into_iter().chain(of_ide)
    }

    pub fn can_use_port(&self) -> bool {
        self.on_port.is_some()
    }

    pub fn can_use_socket(&self) -> bool {
        self.on_socket.is_some()
    }

    pub fn health_path(&self, fill: &Fill<'_>) -> String {
        fill.fill(&self.health_path)
    }
}

/// Finds the IDE of that choice. `command` and `health_path` are those of [`IdeChoice::Command`];
/// `exe` is CodeHub itself, for the built-in one. An error says what is missing and what to do.
pub fn resolve(
    choice: IdeChoice,
    command: &[String],
    health_path: &str,
    exe: &Path,
) -> Result<ResolvedIde, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    resolve_in(choice, command, health_path, exe, &path)
}

/// [`resolve`] with another `PATH` than the process has.
pub(super) fn resolve_in(
    choice: IdeChoice,
    command: &[String],
    health_path: &str,
    exe: &Path,
    path: &OsStr,
) -> Result<ResolvedIde, String> {
    match choice {
        IdeChoice::Auto => {
            let installed = PREFERRED.iter().find_map(|row| from_row(row, exe, path).ok());
            installed.map_or_else(|| from_row(&BUILTIN, exe, path), Ok)
        }
        IdeChoice::Builtin => from_row(&BUILTIN, exe, path),
        IdeChoice::CodeServer => from_row(&CODE_SERVER, exe, path),
        IdeChoice::JupyterLab => from_row(&JUPYTERLAB, exe, path),
        IdeChoice::Command => from_command(command, health_path, path),
    }
}

/// Finds the IDE that an image runs. Nothing can be looked for inside it, so `auto` goes by its name;
/// an image nobody knows runs what it runs by itself, and hears its port from `PORT`.
pub fn resolve_in_container(
    choice: IdeChoice,
    command: &[String],
    health_path: &str,
    image: &str,
) -> Result<ResolvedIde, String> {
    let row = match choice {
        IdeChoice::Builtin => Some((&BUILTIN, "/codehub")),
        IdeChoice::CodeServer => Some((&CODE_SERVER, "code-server")),
        IdeChoice::JupyterLab => Some((&JUPYTERLAB, "jupyter-lab")),
        IdeChoice::Auto if image.starts_with("codehub/ide") => Some((&BUILTIN, "/codehub")),
        IdeChoice::Auto if image.contains("code-server") => Some((&CODE_SERVER, "code-server")),
        IdeChoice::Auto if image.contains("jupyter") => Some((&JUPYTERLAB, "jupyter-lab")),
        IdeChoice::Auto | IdeChoice::Command => None,
    };
    let Some((row, program)) = row else {
        for word in command {
            check_placeholders("IDE_COMMAND", word)?;
        }
        check_placeholders("IDE_HEALTH_PATH", health_path)?;
        // A program that is told of a socket listens there, and an image that is told nothing on its port.
        let socket = command.iter().any(|word| word.contains(SOCKET));
        return Ok(ResolvedIde {
            name: "image".to_owned(),
            strip_prefix: !command.iter().any(|word| word.contains("{base_path}")),
            files: &[],
            env: &[],
            port_url_env: None,
            guard: None,
            words: command.to_vec(),
            open: &[],
            on_port: (!socket).then(Vec::new),
            on_socket: socket.then(Vec::new),
            health_path: health_path.to_owned(),
        });
    };
    // A container has an address of its own, and nobody else is behind its loopback.
    let mut on_port: Vec<String> =
        row.on_port.iter().map(|word| word.replace("127.0.0.1", "0.0.0.0")).collect();
    if row.executable.is_none() {
        on_port.extend(["--host".to_owned(), "0.0.0.0".to_owned()]);
    }
    // Its user in there is not CodeHub's out here: who gets to the socket is decided by the directory around it.
    let mut on_socket: Vec<String> = row.on_socket.iter().map(|word| word.replace("600", "666")).collect();
    if row.executable.is_none() {
        on_socket.extend(["--socket-mode".to_owned(), "666".to_owned()]);
    }
    Ok(ResolvedIde {
        name: row.name.to_owned(),
        strip_prefix: row.strip_prefix,
        files: row.files,
        env: row.env,
        port_url_env: row.port_url_env,
        guard: Some(row.guard),
        words: std::iter::once(program).chain(row.args.iter().copied()).map(str::to_owned).collect(),
        open: row.open,
        on_port: Some(on_port),
        on_socket: Some(on_socket),
        health_path: row.health_path.to_owned(),
    })
}

fn from_row(row: &Row, exe: &Path, path: &OsStr) -> Result<ResolvedIde, String> {
    let program = match row.executable {
        None => exe.to_path_buf(),
        Some(name) => which(name, path).ok_or_else(|| {
            format!(
                "IDE={}: there is no `{name}` on the PATH. Install it ({}), or set IDE=builtin",
                row.name, row.install
            )
        })?,
    };
    let program = program.to_str().ok_or_else(|| format!("{} is not UTF-8", program.display()))?;
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    Ok(ResolvedIde {
        name: row.name.to_owned(),
        strip_prefix: row.strip_prefix,
        files: row.files,
        env: row.env,
        port_url_env: row.port_url_env,
        guard: Some(row.guard),
        words: [vec![program.to_owned()], owned(row.args)].concat(),
        open: row.open,
        on_port: Some(owned(row.on_port)),
        on_socket: Some(owned(row.on_socket)),
        health_path: row.health_path.to_owned(),
    })
}

fn from_command(command: &[String], health_path: &str, path: &OsStr) -> Result<ResolvedIde, String> {
    let Some(program) = command.first() else {
        return Err("IDE=command needs IDE_COMMAND: the web program to run, for example \
                    `python3 -m http.server --bind 127.0.0.1 {port}`"
            .to_owned());
    };
    for word in command {
        check_placeholders("IDE_COMMAND", word)?;
    }
    check_placeholders("IDE_HEALTH_PATH", health_path)?;
    if !(health_path.starts_with('/') || health_path.starts_with("{base_path}"))
        || health_path.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        return Err(format!("IDE_HEALTH_PATH={health_path:?}: must be a path that starts with `/`"));
    }
    let filled_in = PLACEHOLDERS.iter().any(|name| program.contains(name));
    if !filled_in && which(program, path).is_none() {
        return Err(format!(
            "IDE_COMMAND: there is no program `{program}`{}. Install it, or name it with its full path",
            if program.contains('/') { "" } else { " on the PATH" }
        ));
    }
    // A program that is told of a socket listens there.
    let socket = command.iter().any(|word| word.contains(SOCKET));
    Ok(ResolvedIde {
        name: "command".to_owned(),
        // A program that asks for the path it is served under wants to see it.
        strip_prefix: !command.iter().any(|word| word.contains("{base_path}")),
        files: &[],
        env: &[],
        port_url_env: None,
        guard: None,
        words: command.to_vec(),
        open: &[],
        on_port: (!socket).then(Vec::new),
        on_socket: socket.then(Vec::new),
        health_path: health_path.to_owned(),
    })
}

/// `{word}` is a placeholder; other braces (JSON, say) are just braces.
fn check_placeholders(setting: &str, template: &str) -> Result<(), String> {
    for (open, _) in template.match_indices('{') {
        let tail = &template[open..];
        let Some(close) = tail.find('}') else { break };
        let name = &tail[..=close];
        let looks_like_one =
            close > 1 && name[1..close].bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        if looks_like_one && !PLACEHOLDERS.contains(&name) {
            return Err(format!(
                "{setting}: unknown placeholder {name}; known are {}",
                PLACEHOLDERS.join(", ")
            ));
        }
    }
    Ok(())
}

/// The executable of that name, as a shell would find it.
pub(super) fn which(name: &str, path: &OsStr) -> Option<PathBuf> {
    let runs =
        |file: &Path| file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| runs(file));
    }
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| runs(file))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, fs};

    use super::*;

    const FILL: Fill<'_> =
        Fill { port: 4711, socket: None, guarded: false, home: "/h o/{id}", id: "i-d", base_path: "/w/i-d/" };
    const ON_SOCKET: Fill<'_> = Fill { socket: Some("/run/s"), ..FILL };

    fn words(command: &[&str]) -> Vec<String> {
        command.iter().map(|&word| word.to_owned()).collect()
    }

    fn with_programs(names: &[&str]) -> (tempfile::TempDir, OsString) {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), "").unwrap();
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = dir.path().as_os_str().to_owned();
        (dir, path)
    }

    fn pick(choice: IdeChoice, path: &OsStr) -> Result<ResolvedIde, String> {
        resolve_in(choice, &[], "/healthz", Path::new("/opt/codehub"), path)
    }

    #[test]
    fn auto_takes_the_best_that_is_installed() {
        for (installed, expected) in [
            (&["code-server", "jupyter-lab"][..], "code-server"),
            (&["jupyter-lab"], "jupyterlab"),
            (&[], "builtin"),
        ] {
            let (_dir, path) = with_programs(installed);
            assert_eq!(pick(IdeChoice::Auto, &path).unwrap().name, expected);
        }
    }

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        for (choice, name) in
            [(IdeChoice::CodeServer, "`code-server`"), (IdeChoice::JupyterLab, "`jupyter-lab`")]
        {
            let error = pick(choice, OsStr::new("/nowhere")).unwrap_err();
            assert!(error.contains(name) && error.contains("IDE=builtin"), "{error}");
        }
        let (dir, path) = with_programs(&["plain"]);
        fs::set_permissions(dir.path().join("plain"), fs::Permissions::from_mode(0o644)).unwrap();
        let error =
            resolve_in(IdeChoice::Command, &words(&["plain"]), "/", Path::new("x"), &path).unwrap_err();
        assert!(error.contains("plain"), "{error}");
    }

    #[test]
    fn templates_are_filled_word_by_word() {
        let ide = pick(IdeChoice::Builtin, OsStr::new("")).unwrap();
        let line = ide.command_line(&FILL);
        assert_eq!(line, ["/opt/codehub", "ide", "--home", "/h o/{id}", "--port", "4711"], "filled once");
        let line = ide.command_line(&ON_SOCKET);
        assert_eq!(line, ["/opt/codehub", "ide", "--home", "/h o/{id}", "--socket", "/run/s"]);
        assert!(ide.strip_prefix);

        let (_dir, path) = with_programs(&["jupyter-lab"]);
        let ide = pick(IdeChoice::JupyterLab, &path).unwrap();
        assert_eq!(ide.health_path(&FILL), "/w/i-d/api");
        assert!(ide.command_line(&FILL).contains(&"--ServerApp.base_url=/w/i-d/".to_owned()));
        let line = ide.command_line(&ON_SOCKET).join(" ");
        assert!(line.contains("--ServerApp.sock=/run/s") && !line.contains("port"), "{line}");
        assert!(!ide.strip_prefix);
    }

    #[test]
    fn commands_are_checked_before_anything_runs() {
        let (_dir, path) = with_programs(&["web"]);
        let command = |words: &[String], health: &str| {
            resolve_in(IdeChoice::Command, words, health, Path::new("x"), &path)
        };
        assert!(command(&[], "/").unwrap_err().contains("IDE_COMMAND"));
        let error = command(&words(&["web", "{prot}"]), "/").unwrap_err();
        assert!(
            error.contains("{prot}") && error.contains("{port}, {socket}, {home}, {id}, {base_path}"),
            "{error}"
        );
        assert!(command(&words(&["web"]), "healthz").unwrap_err().contains("IDE_HEALTH_PATH"));
        assert!(command(&words(&["web"]), "/a b").is_err());
        assert!(command(&words(&["web"]), "/{nope}").is_err());
        assert!(command(&words(&["{home}/run"]), "/").is_ok(), "cannot be looked for yet");

        let ide = command(&words(&["web", r#"{"a":{}}"#, "p={port}", "{{id}"]), "/ok").unwrap();
        assert_eq!(ide.command_line(&FILL), ["web", r#"{"a":{}}"#, "p=4711", "{i-d"]);
        assert!(ide.strip_prefix);
        assert!(!command(&words(&["web", "{base_path}"]), "/").unwrap().strip_prefix);
        assert!(ide.can_use_port() && !ide.can_use_socket());

        let ide = command(&words(&["web", "unix:{socket}"]), "/ok").unwrap();
        assert_eq!(ide.command_line(&ON_SOCKET), ["web", "unix:/run/s"]);
        assert!(ide.can_use_socket() && !ide.can_use_port());
        let ide =
            resolve_in_container(IdeChoice::Command, &words(&["web", "{socket}"]), "/", "image").unwrap();
        assert!(ide.can_use_socket() && !ide.can_use_port());
        let ide = resolve_in_container(IdeChoice::Auto, &[], "/", "some/image").unwrap();
        assert!(!ide.can_use_socket() && ide.guard.is_none(), "nobody knows what it can");
    }

    #[test]
    fn in_a_container_a_socket_is_for_another_user_and_a_port_asks_for_a_secret() {
        for (choice, socket, guarded, open) in [
            (IdeChoice::Builtin, "--socket /run/s --socket-mode 666", "", ""),
            (IdeChoice::CodeServer, "--socket /run/s --socket-mode 666", "--auth password", "--auth none"),
            (
                IdeChoice::JupyterLab,
                "--ServerApp.sock=/run/s --ServerApp.sock_mode=0666",
                "",
                "--IdentityProvider.token=",
            ),
        ] {
            let ide = resolve_in_container(choice, &[], "/", "image").unwrap();
            let line = |fill: &Fill<'_>| ide.command_line(fill).join(" ");
            assert!(line(&ON_SOCKET).ends_with(socket), "{}", line(&ON_SOCKET));
            assert!(line(&ON_SOCKET).contains(open));
            let guarded_line = line(&Fill { guarded: true, ..FILL });
            assert!(guarded_line.contains(guarded), "{guarded_line}");
            assert!(open.is_empty() || !guarded_line.contains(open), "{guarded_line}");
            assert!(
                guarded_line.contains("0.0.0.0") && !guarded_line.contains("127.0.0.1"),
                "{guarded_line}"
            );
            assert!(ide.guard.unwrap().header("s3cret").line().ends_with("s3cret"));
        }
    }

    #[test]
    fn the_settings_of_the_table_are_json() {
        for file in PREFERRED.iter().flat_map(|row| row.files) {
            serde_json::from_str::<serde_json::Value>(file.text).unwrap();
        }
    }
}
