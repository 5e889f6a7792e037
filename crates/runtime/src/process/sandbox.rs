//! Shutting a workspace in with bubblewrap, where it is installed and the kernel lets it.
//!
//! An allow-list: inside there is what [`Sandbox::words`] puts there, and nothing else. The system's programs are
//! read-only; home, `/tmp`, `/dev`, the process table, host name and (by [`Network`]) the network are the workspace's own.
//! Everybody inside is user 1000, who is CodeHub's user outside, without privileges and without a way to more
//! namespaces, in which there would be some. `docs/SECURITY.md` has the list, and a test holds it against what is found inside.
//!
//! From outside, the first process of the workspace's session is `bwrap`, or around a network of its own the shim, then
//! `pasta`, then `bwrap`; each ends with the status of what it runs. Nothing ends when CodeHub does.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{
    super::{SandboxChoice, ide::which},
    ProcessConfig,
    home::Home,
    network::{Network, NetworkChoice, ResolvConf, system_path},
    shim,
    show::{Needs, Shown},
    sockets,
};

/// Where CodeHub itself is inside.
pub(super) const TOOLS: &str = "/.codehub";
const CODEHUB: &str = "/.codehub/codehub";
/// What is CodeHub's inside; not on a disk.
const RUN: &str = "/run/codehub";
/// Where sockets are that can be reached from outside.
const IO: &str = "/run/codehub/io";
/// What everybody inside is called.
pub(super) const USER: &str = "coder";
const HOSTNAME: &str = "workspace";

/// Which of the system's top directories there are; mostly links into `/usr`.
const SYSTEM: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// What of `/etc` there is: how to find and show things. No accounts, keys or passwords.
const ETC: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "gitconfig",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "profile.d",
    "protocols",
    "services",
    "shells",
    "skel",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];
/// Temporary file systems, and how many bytes they hold at most. They are in memory.
const TEMPORARY: &[(&str, &str)] =
    &[("/tmp", "2147483648"), ("/var/tmp", "536870912"), ("/dev/shm", "536870912")];

const PASSWD: &str = "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                      coder:x:1000:1000::{home}:{shell}\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\ncoder:x:1000:\nnogroup:x:65534:\n";

/// How workspaces are shut in.
#[derive(Debug)]
pub(super) struct Sandbox {
    bwrap: PathBuf,
    network: Option<Network>,
    /// Files that are made for the inside.
    made: PathBuf,
}

/// What came of looking for one.
#[derive(Debug)]
pub(super) struct Probed {
    pub(super) sandbox: Option<Sandbox>,
    /// Why there is no sandbox, or none that the operator wanted.
    pub(super) without: Option<String>,
    /// Why workspaces share the machine's network.
    pub(super) shares_network: Option<String>,
}

/// What one workspace's inside looks like.
pub(super) struct Inside<'a> {
    pub(super) home: &'a Home,
    /// The directory of its sockets.
    pub(super) sockets: &'a Path,
    /// Where the program listens, if that is a port.
    pub(super) port: Option<u16>,
    /// The program and its words.
    pub(super) command: Vec<String>,
    /// Whether the program inside stays, and answers.
    pub(super) has_line: bool,
}

/// Finds out once whether workspaces will be shut in, by shutting something in.
///
/// # Errors
/// What the operator insists on does not work here.
pub(super) async fn probe(config: &ProcessConfig) -> Result<Probed, String> {
    check_shown(config)?;
    let insists = config.sandbox == SandboxChoice::Always;
    let found = match config.sandbox {
        SandboxChoice::Never => Err("PROCESS_SANDBOX=never".to_owned()),
        SandboxChoice::Auto | SandboxChoice::Always => find(config).await,
    };
    let wants_network = config.network != NetworkChoice::Host;
    match found {
        Ok((sandbox, shares_network)) => {
            if let (NetworkChoice::Own, Some(why)) = (config.network, &shares_network) {
                return Err(format!(
                    "PROCESS_NETWORK=own, but {why}. Install passt and iproute2 and open /dev/net/tun to CodeHub's user, \
                     or set PROCESS_NETWORK=auto"
                ));
            }
            Ok(Probed { sandbox: Some(sandbox), without: None, shares_network })
        }
        Err(why) if insists => Err(format!(
            "PROCESS_SANDBOX=always, but {why}. Install bubblewrap and allow user namespaces, or set \
             PROCESS_SANDBOX=auto"
        )),
        Err(why) if config.network == NetworkChoice::Own => Err(format!(
            "PROCESS_NETWORK=own needs the sandbox, but there is none: {why}. Install bubblewrap and allow user \
             namespaces, or set PROCESS_NETWORK=auto"
        )),
        Err(why) => {
            let shares = if wants_network { "there is no sandbox" } else { "PROCESS_NETWORK=host" };
            Ok(Probed { sandbox: None, without: Some(why), shares_network: Some(shares.to_owned()) })
        }
    }
}

/// The best that works, and why it has no network of its own.
async fn find(config: &ProcessConfig) -> Result<(Sandbox, Option<String>), String> {
    let bwrap = which("bwrap", &system_path())
        .ok_or("bubblewrap is not installed: there is no `bwrap` on the PATH")?;
    let made = config.data_dir.join("sandbox");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(made.join("probe"))
        .and_then(|()| write_accounts(&made, config))
        .map_err(|error| format!("{} cannot be written: {error}", made.display()))?;
    let mut sandbox = Sandbox { bwrap, network: None, made };
    let shares = match config.network {
        NetworkChoice::Host => "PROCESS_NETWORK=host".to_owned(),
        NetworkChoice::Auto | NetworkChoice::Own => match Network::find(config.listen) {
            Err(why) => why,
            Ok(network) => {
                sandbox.network = Some(network);
                match sandbox.works(config).await {
                    Ok(()) => return Ok((sandbox, None)),
                    Err(why) => format!("a network of a workspace's own does not work here ({why})"),
                }
            }
        },
    };
    sandbox.network = None;
    sandbox.works(config).await.map_err(|why| format!("bubblewrap does not work here ({why})"))?;
    Ok((sandbox, Some(shares)))
}

/// What may not be shown at all.
fn check_shown(config: &ProcessConfig) -> Result<(), String> {
    for path in &config.show {
        let ours = path.canonicalize().is_ok_and(|real| real.starts_with(&config.data_dir));
        if !path.is_absolute() || path == Path::new("/") || ours {
            return Err(format!(
                "PROCESS_SHOW: {} cannot be shown: name directories by their full paths, not the whole machine and \
                 nothing in CodeHub's own data directory",
                path.display()
            ));
        }
    }
    Ok(())
}

fn write_accounts(made: &Path, config: &ProcessConfig) -> io::Result<()> {
    let passwd = PASSWD
        .replace("{home}", &config.home.to_string_lossy())
        .replace("{shell}", &super::spawn::shell().to_string_lossy());
    write(&made.join("passwd"), &passwd)?;
    write(&made.join("group"), GROUP)?;
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_else(|_| "127.0.0.1 localhost\n".to_owned());
    write(&made.join("hosts"), &format!("{}\n127.0.1.1 {HOSTNAME}\n", hosts.trim_end()))?;
    write(&made.join("profile"), &profile(&fs::read_to_string("/etc/profile").unwrap_or_default()))
}

/// What login shells read first. That of most machines sets a PATH of its own: here the one that a workspace was
/// started with, with `codehub` on it, stays before that.
fn profile(machines: &str) -> String {
    format!(
        "codehub_path=$PATH\n{}\nexport PATH=\"$codehub_path:$PATH\"\nunset codehub_path\n",
        machines.trim_end()
    )
}

/// Replaces a file, unless it says that already.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let fresh = path.with_file_name(format!(".{}", uuid::Uuid::new_v4().simple()));
    let mut file = fs::File::options().write(true).create_new(true).mode(0o644).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&fresh, path)
}

impl Sandbox {
    /// Whether a workspace has a network of its own.
    pub(super) fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Where the program listens, as it is called inside.
    pub(super) fn socket() -> String {
        format!("{IO}/ide")
    }

    /// Where the program inside answers, as it is called inside.
    fn line(&self) -> shim::Line {
        shim::Line { path: Path::new(IO).join(sockets::LINE), shares_network: self.network.is_none() }
    }

    /// Runs something in it, as a workspace would be.
    async fn works(&self, config: &ProcessConfig) -> Result<(), String> {
        let place = self.made.join("probe");
        let home = Home { volume: place.clone(), told: config.home.clone(), former: Vec::new() };
        let inside = Inside {
            home: &home,
            sockets: &place,
            port: None,
            command: vec!["/bin/true".to_owned()],
            has_line: false,
        };
        let words = self.words(&inside, config).map_err(|error| error.to_string())?;
        let (program, arguments) = words.split_first().ok_or("nothing to run")?;
        // Not a pipe: whoever is left behind would hold it open.
        let mut said = self.scratch().map_err(|error| error.to_string())?;
        let stderr = said.try_clone().map_err(|error| error.to_string())?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let mut child =
            command.spawn().map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let group = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
        if matches!(&ended, Ok(Ok(status)) if status.success()) {
            return Ok(());
        }
        // A pasta that fails leaves the process behind that it made for the command.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let mut text = String::new();
        let _ = said.rewind().and_then(|()| said.read_to_string(&mut text));
        // Where there is no system log, pasta complains about that first.
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("syslog")).collect();
        match ended {
            Err(_) => Err(format!("it does not come back; {}", lines.join("; "))),
            Ok(_) => Err(lines.join("; ")),
        }
    }

    /// A file without a name.
    fn scratch(&self) -> io::Result<fs::File> {
        let path = self.made.join(format!(".{}", uuid::Uuid::new_v4().simple()));
        let file = fs::File::options().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    /// The whole command line: network, sandbox, and the program in it.
    pub(super) fn words(&self, inside: &Inside<'_>, config: &ProcessConfig) -> io::Result<Vec<OsString>> {
        let mut words = Vec::new();
        let mut resolv = PathBuf::from("/etc/resolv.conf");
        if let Some(network) = &self.network {
            let own = ResolvConf::read();
            resolv = self.made.join("resolv.conf");
            write(&resolv, &own.text)?;
            words.extend(network.words(&config.shim, inside.port, &own));
        }
        let mut args = Arguments(vec![self.bwrap.clone().into()]);
        args.namespaces();
        let mut there = args.system();
        args.etc(&self.made, &resolv);
        args.add(["--dev", "/dev", "--proc", "/proc"]);
        for (path, size) in TEMPORARY {
            args.add(["--perms", "1777", "--size", size, "--tmpfs", path]);
        }
        for path in &config.show {
            args.show(&Shown::Path(path.clone()));
            there.push(path.clone());
        }
        let mut command = inside.command.clone();
        let exe = config.shim.program.to_string_lossy().into_owned();
        match command.first_mut() {
            Some(program) if *program == exe => CODEHUB.clone_into(program),
            _ => {
                let closed = [&config.data_dir, &config.home, Path::new(RUN)].map(Path::to_owned);
                let needs = Needs { there: &there, closed: &closed, path: &system_path() };
                for shown in needs.of(&command) {
                    args.show(&shown);
                    if let Shown::Path(path) = shown {
                        there.push(path);
                    }
                }
            }
        }
        args.cover(&there, config);
        args.own(inside, config);
        args.add(["--"]);
        words.extend(args.0);
        words.push(CODEHUB.into());
        words.extend(config.shim.args.iter().map(OsString::from));
        words.extend(config.limits.inside(inside.has_line.then(|| self.line()).as_ref()));
        words.push("--".into());
        words.extend(command.into_iter().map(OsString::from));
        Ok(words)
    }
}

/// The arguments of `bwrap`. What comes later lies over what came before.
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<W: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.0.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    fn namespaces(&mut self) {
        self.add([
            "--unshare-user",
            "--uid",
            "1000",
            "--gid",
            "1000",
            "--disable-userns",
            "--cap-drop",
            "ALL",
        ]);
        self.add(["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        self.add(["--hostname", HOSTNAME]);
    }

    /// Returns the directories in which programs are now.
    fn system(&mut self) -> Vec<PathBuf> {
        let mut there = vec![PathBuf::from("/usr")];
        self.add(["--perms", "0755", "--tmpfs", "/", "--ro-bind", "/usr", "/usr"]);
        for path in SYSTEM {
            if let Ok(target) = fs::read_link(path) {
                self.add([OsStr::new("--symlink"), target.as_os_str(), OsStr::new(path)]);
            } else if Path::new(path).is_dir() {
                self.add(["--ro-bind", path, path]);
            } else {
                continue;
            }
            there.push(PathBuf::from(path));
        }
        there
    }

    fn etc(&mut self, made: &Path, resolv: &Path) {
        self.add(["--perms", "0755", "--dir", "/etc"]);
        for name in ETC {
            let path = Path::new("/etc").join(name);
            self.bind("--ro-bind-try", &path, &path);
        }
        for name in ["passwd", "group", "hosts", "profile"] {
            self.bind("--ro-bind", &made.join(name), &Path::new("/etc").join(name));
        }
        self.bind("--ro-bind-try", resolv, Path::new("/etc/resolv.conf"));
    }

    fn show(&mut self, shown: &Shown) {
        match shown {
            Shown::Path(path) => self.bind("--ro-bind-try", path, path),
            Shown::Link { at, to } => self.add([OsStr::new("--symlink"), to.as_os_str(), at.as_os_str()]),
        }
    }

    /// CodeHub's own data and settings, where they lie in something that is shown.
    fn cover(&mut self, there: &[PathBuf], config: &ProcessConfig) {
        for path in std::iter::once(&config.data_dir).chain(&config.hidden) {
            let Ok(path) = path.canonicalize() else { continue };
            for shown in there {
                // What is shown may be a link to where it really is.
                let Ok(real) = shown.canonicalize() else { continue };
                let Ok(below) = path.strip_prefix(&real) else { continue };
                let seen = if below == Path::new("") { shown.clone() } else { shown.join(below) };
                if path.is_dir() {
                    self.add([OsStr::new("--tmpfs"), seen.as_os_str()]);
                } else {
                    self.bind("--ro-bind", Path::new("/dev/null"), &seen);
                }
            }
        }
    }

    /// What is the workspace's own.
    fn own(&mut self, inside: &Inside<'_>, config: &ProcessConfig) {
        self.add(["--perms", "0755", "--dir", TOOLS]);
        self.bind("--ro-bind", &config.shim.program, Path::new(CODEHUB));
        self.add(["--perms", "0700", "--tmpfs", RUN]);
        self.bind("--bind", inside.sockets, Path::new(IO));
        for former in inside.home.former.iter().filter(|it| !it.starts_with(&config.home)) {
            self.add([OsStr::new("--symlink"), config.home.as_os_str(), former.as_os_str()]);
        }
        self.bind("--bind", &inside.home.volume, &config.home);
        self.add(["--remount-ro", "/dev", "--remount-ro", "/"]);
        self.add([OsStr::new("--chdir"), config.home.as_os_str()]);
    }

    fn bind(&mut self, option: &str, from: &Path, to: &Path) {
        self.add([OsStr::new(option), from.as_os_str(), to.as_os_str()]);
    }
}
