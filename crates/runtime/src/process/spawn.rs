//! Launching a workspace's program: its port, its environment, its command line.

use std::{
    ffi::OsString,
    io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
};

use super::{
    super::{InstanceSpec, ide::Fill},
    Inner, ShimCommand,
    home::Home,
    proc_scan::{GENERATION, INSTANCE, Identity, PORT, SOCKET, Stat, WORKSPACE},
    record::{LaunchLock, Record},
    sandbox::{self, Sandbox},
    shim,
};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where CodeHub answers in a network of the workspace's own.
const LOCAL_URL: &str = "CODEHUB_LOCAL_URL";

/// The shell of people inside: CodeHub's own where everybody has it, else a usual one.
pub(super) fn shell() -> PathBuf {
    let usual = |shell: &PathBuf| ["/bin", "/usr"].iter().any(|dir| shell.starts_with(dir)) && shell.exists();
    let own = std::env::var_os("SHELL").map(PathBuf::from).filter(usual);
    own.unwrap_or_else(|| {
        ["/bin/bash", "/bin/sh"].map(PathBuf::from).into_iter().find(usual).unwrap_or_default()
    })
}

/// What a workspace gets of the machine's own environment: how to find and show things, no more.
#[derive(Debug)]
pub(super) struct HostEnv {
    path: OsString,
    rest: Vec<(&'static str, OsString)>,
}

impl HostEnv {
    pub(super) fn read() -> Self {
        let get = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let mut path = get("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        for dir in DEFAULT_PATH.split(':') {
            if !std::env::split_paths(&path).any(|it| it == Path::new(dir)) {
                path.push(":");
                path.push(dir);
            }
        }
        let root = rustix::process::geteuid().is_root();
        let user = get("USER").or_else(|| get("LOGNAME"));
        let user = user.unwrap_or_else(|| if root { "root" } else { "user" }.into());
        let lang = get("LC_ALL").or_else(|| get("LANG")).unwrap_or_else(|| "C.UTF-8".into());
        let mut rest =
            vec![("SHELL", shell().into()), ("USER", user.clone()), ("LOGNAME", user), ("LANG", lang)];
        rest.extend(get("TZ").map(|zone| ("TZ", zone)));
        Self { path, rest }
    }

    /// For a program that is told this home. People's own programs come first, then CodeHub's (in `tools`), then the
    /// machine's, as far as they are there.
    fn of(
        &self,
        home: &Path,
        tools: Option<&Path>,
        is_there: impl Fn(&Path) -> bool,
    ) -> Vec<(&'static str, OsString)> {
        let own = [home.join(".local/bin"), home.join("bin")];
        let machines = std::env::split_paths(&self.path).filter(|dir| is_there(dir));
        let dirs = own.into_iter().chain(tools.map(Path::to_owned)).chain(machines);
        // A home whose name has a colon in it cannot be on the PATH.
        let path = std::env::join_paths(dirs).unwrap_or_else(|_| self.path.clone());
        let mut env = self.rest.clone();
        env.push(("PATH", path));
        env
    }
}

/// A port of the loopback address that nobody has and no other workspace was promised.
pub(super) fn free_port(taken: &[u16]) -> io::Result<u16> {
    // Held until one is found, so that the kernel does not offer the same one again.
    let mut held = Vec::new();
    for _ in 0..100 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        if !taken.contains(&port) {
            return Ok(port);
        }
        held.push(listener);
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port on 127.0.0.1"))
}

impl Inner {
    /// Spawns the program and gives it the launch lock.
    pub(super) fn launch(
        &self,
        spec: &InstanceSpec,
        record: &Record,
        home: &Home,
        lock: LaunchLock,
    ) -> io::Result<(tokio::process::Child, Identity)> {
        let id = spec.workspace.to_string();
        let told = home.told.to_string_lossy();
        let sandbox = self.sandbox();
        let socket = record.socket.then(|| match sandbox {
            Some(_) => Sandbox::socket(),
            None => self.sockets.path(spec.workspace),
        });
        let fill = Fill {
            port: record.port,
            guarded: false,
            socket: socket.as_deref(),
            home: &told,
            id: &id,
            base_path: &spec.base_path,
        };
        let command = self.config.ide.command_line(&fill);
        let (words, env) = match sandbox {
            None => {
                let words = command.into_iter().map(OsString::from).collect();
                (words, self.host.of(&home.told, self.beside_us().as_deref(), |_| true))
            }
            Some(sandbox) => {
                let port = (!record.socket).then_some(record.port);
                let sockets = self.sockets.place(spec.workspace);
                let inside = sandbox::Inside { home, sockets: &sockets, port, command, has_line: true };
                let show = &self.config.show;
                let is_there = |dir: &Path| {
                    ["/usr", "/bin", "/sbin"].iter().any(|it| dir.starts_with(it))
                        || show.iter().any(|it| dir.starts_with(it))
                };
                let mut env = self.host.of(&home.told, Some(Path::new(sandbox::TOOLS)), is_there);
                env.extend([("USER", sandbox::USER.into()), ("LOGNAME", sandbox::USER.into())]);
                let ours =
                    sandbox.network().and_then(|network| network.port).filter(|own| Some(*own) != port);
                env.extend(ours.map(|port| (LOCAL_URL, format!("http://127.0.0.1:{port}").into())));
                (sandbox.words(&inside, &self.config)?, env)
            }
        };
        let stay = sandbox.is_some_and(|sandbox| sandbox.network().is_some());

        let line = match sandbox {
            // The shim in the sandbox has it.
            Some(_) => None,
            None => self.sockets.short_line(spec.workspace),
        };
        let line = line.map(|path| shim::Line { path, shares_network: true });

        let log = self.logs.append(spec.workspace)?;
        let ShimCommand { program, args } = &self.config.shim;
        let mut command = tokio::process::Command::new(program);
        command
            .args(args)
            .args(self.config.limits.words(stay, line.as_ref()))
            .args(words)
            .current_dir(&home.volume)
            .env_clear()
            .envs(env)
            .envs(self.config.env.iter().map(|(name, value)| (name, value)))
            .envs(self.config.ide.env.iter().copied())
            .env("HOME", &home.told)
            .env(PORT, record.port.to_string())
            .envs(socket.iter().map(|path| (SOCKET, path)))
            .env(INSTANCE, &self.config.deployment)
            .env(WORKSPACE, &id)
            .env(GENERATION, record.generation.to_string())
            .env("CODEHUB_WORKSPACE_NAME", spec.name.replace('\0', ""))
            .env("CODEHUB_URL", spec.url.replace('\0', ""))
            .env("CODEHUB_API_URL", spec.api_url.replace('\0', ""))
            .envs(self.config.ide.port_env(spec.port_url.as_deref()))
            .stdin(Stdio::from(lock.into_file()))
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            .kill_on_drop(false);
        let mut child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot run {}: {error}", program.display()))
        })?;
        // It stays in the table until somebody waits for it, which nobody has yet.
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        match Stat::of(pid) {
            Ok(Some(stat)) => {
                Ok((child, Identity { pid, start_time: stat.start_time, boot: self.boot.clone() }))
            }
            other => {
                let _ = child.start_kill();
                Err(other.err().unwrap_or_else(|| io::Error::other("it was gone at once")))
            }
        }
    }

    /// The directory CodeHub is in, if it can be run by its name there.
    fn beside_us(&self) -> Option<PathBuf> {
        let program = &self.config.shim.program;
        program
            .file_name()
            .filter(|name| *name == "codehub")
            .and_then(|_| program.parent())
            .map(Path::to_owned)
    }
}
