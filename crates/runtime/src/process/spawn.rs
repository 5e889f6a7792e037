//! Launching a workspace's program: its port, its environment, its command line.

use std::{
    ffi::OsString,
    fs, io,
    net::{Ipv4Addr, TcpListener},
    os::{fd::OwnedFd, unix::fs::symlink},
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

use super::{
    super::{
        InstanceSpec,
        ide::{DefaultFile, Fill},
    },
    Inner, ShimCommand,
    proc_scan::{GENERATION, INSTANCE, Identity, PORT, SOCKET, Stat, WORKSPACE},
    record::{LaunchLock, Record},
    sandbox,
};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a workspace gets of the machine's own environment: how to find and show things, no more.
#[derive(Debug)]
pub(super) struct HostEnv(Vec<(&'static str, OsString)>);

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
        let shell = get("SHELL")
            .filter(|shell| Path::new(shell).is_absolute())
            .or_else(|| Path::new("/bin/bash").exists().then(|| "/bin/bash".into()))
            .unwrap_or_else(|| "/bin/sh".into());
        let root = rustix::process::geteuid().is_root();
        let user = get("USER").or_else(|| get("LOGNAME"));
        let user = user.unwrap_or_else(|| if root { "root" } else { "user" }.into());
        let lang = get("LC_ALL").or_else(|| get("LANG")).unwrap_or_else(|| "C.UTF-8".into());
        let mut env =
            vec![("PATH", path), ("SHELL", shell), ("USER", user.clone()), ("LOGNAME", user), ("LANG", lang)];
        env.extend(get("TZ").map(|zone| ("TZ", zone)));
        Self(env)
    }
}

/// A home under its two names: the volume, and the name that stays when the generation changes.
pub(super) struct Home {
    pub(super) volume: PathBuf,
    pub(super) seen_as: PathBuf,
}

impl Home {
    /// Points the lasting name at the volume. Where something else has that name, the volume's own
    /// will do.
    pub(super) fn link(volume: PathBuf, link: PathBuf) -> io::Result<Self> {
        match fs::symlink_metadata(&link) {
            Ok(found) if !found.is_symlink() => return Ok(Self { seen_as: volume.clone(), volume }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let target = volume.file_name().unwrap_or_default();
        if fs::read_link(&link).is_ok_and(|old| old.as_os_str() == target) {
            return Ok(Self { volume, seen_as: link });
        }
        let fresh = link.with_file_name(format!(".home-{}", uuid::Uuid::new_v4().simple()));
        symlink(target, &fresh)?;
        fs::rename(&fresh, &link)?;
        Ok(Self { volume, seen_as: link })
    }
}

/// Writes the files a new home starts with. The home belongs to whoever filled it, so no link in it
/// is followed and nothing in it is replaced.
pub(super) fn write_defaults(home: &Path, files: &[DefaultFile]) -> io::Result<()> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for file in files {
        let path = Path::new(file.path);
        let mut dir: OwnedFd = open(home, directory, Mode::empty())?;
        for part in path.parent().into_iter().flatten() {
            match mkdirat(&dir, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            dir = openat(&dir, part, directory, Mode::empty())?;
        }
        let name = path.file_name().unwrap_or_default();
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&dir, name, create, Mode::from_raw_mode(0o644)) {
            Ok(made) => io::Write::write_all(&mut fs::File::from(made), file.text.as_bytes())?,
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
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
        let seen_as = home.seen_as.to_string_lossy();
        let socket = record.socket.then(|| self.sockets.path(spec.workspace));
        let fill = Fill {
            port: record.port,
            socket: socket.as_deref(),
            home: &seen_as,
            id: &id,
            base_path: &spec.base_path,
        };
        let program = self.config.ide.command_line(&fill);
        let mut words: Vec<OsString> = Vec::new();
        if let Some(bwrap) = &self.sandbox {
            let socket_dir = record.socket.then(|| self.sockets.place(spec.workspace));
            let inside = sandbox::Inside {
                data_dir: &self.config.data_dir,
                home: &home.volume,
                seen_as: &home.seen_as,
                socket_dir: socket_dir.as_deref(),
                hidden: &self.config.hidden,
                command: &program,
            };
            words.extend(sandbox::words(bwrap, &inside));
        }
        words.extend(program.into_iter().map(OsString::from));

        let log = self.logs.append(spec.workspace)?;
        let ShimCommand { program, args } = &self.config.shim;
        let mut command = tokio::process::Command::new(program);
        command
            .args(args)
            .args(self.config.limits.words())
            .args(words)
            .current_dir(&home.seen_as)
            .env_clear()
            .envs(self.host.0.iter().map(|(name, value)| (*name, value)))
            .envs(self.config.env.iter().map(|(name, value)| (name, value)))
            .envs(self.config.ide.env.iter().copied())
            .env("HOME", &home.seen_as)
            .env(PORT, record.port.to_string())
            .envs(socket.iter().map(|path| (SOCKET, path)))
            .env(INSTANCE, &self.config.deployment)
            .env(WORKSPACE, &id)
            .env(GENERATION, record.generation.to_string())
            .env("CODEHUB_WORKSPACE_NAME", spec.name.replace('\0', ""))
            .env("CODEHUB_URL", spec.url.replace('\0', ""))
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
}
