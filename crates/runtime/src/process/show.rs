//! What of the machine a sandbox shows besides the system itself: what the operator names (`PROCESS_SHOW`), and what
//! the IDE is installed in, found from its command.
//!
//! A program in `…/bin` belongs to what is around that directory, any other to its own directory; a script also needs
//! its interpreter. Never shown for a program's sake: somebody's whole home, or a directory that everybody shares.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::super::ide::which;

/// Directories that hold much more than one program.
const SHARED: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/local",
    "/var",
    "/var/lib",
    "/var/tmp",
];
/// The same of somebody's home: what is in it besides programs is theirs.
const SHARED_IN_HOMES: &[&str] = &["", ".local", ".local/share", ".config", ".cache", "snap"];

/// One thing that is shown, at its own name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    /// A file, or a directory with all that is in it.
    Path(PathBuf),
    /// A name that leads to something else.
    Link { at: PathBuf, to: PathBuf },
}

/// Collects what a command needs.
pub(super) struct Needs<'a> {
    /// Directories that are there anyway.
    pub(super) there: &'a [PathBuf],
    /// Directories whose content is never shown for a program's sake.
    pub(super) closed: &'a [PathBuf],
    /// Where programs without a path are looked for.
    pub(super) path: &'a std::ffi::OsStr,
}

impl Needs<'_> {
    /// The program, its interpreter, and the files its arguments name.
    pub(super) fn of(&self, command: &[String]) -> Vec<Shown> {
        let mut shown = Vec::new();
        let Some((program, arguments)) = command.split_first() else { return shown };
        if let Some(program) = which(program, self.path) {
            self.add(&program, &mut shown);
            let interpreter = program.canonicalize().ok().and_then(|program| interpreter(&program));
            if let Some(interpreter) = interpreter {
                self.add(&interpreter, &mut shown);
            }
        }
        for word in arguments {
            let path = Path::new(word);
            if path.is_absolute() && path.exists() {
                self.add(path, &mut shown);
            }
        }
        shown
    }

    fn add(&self, path: &Path, shown: &mut Vec<Shown>) {
        if self.closed.iter().any(|closed| path.starts_with(closed)) {
            return;
        }
        let Ok(real) = path.canonicalize() else { return };
        if !self.is_there(&real, shown) {
            let Some(root) = installation(&real) else { return };
            let open = |it: &Path| !self.closed.iter().any(|closed| closed.starts_with(it));
            shown.push(Shown::Path(if open(&root) { root } else { real.clone() }));
        }
        if path != real && !self.is_there(path, shown) {
            shown.push(Shown::Link { at: path.to_owned(), to: real });
        }
    }

    fn is_there(&self, path: &Path, shown: &[Shown]) -> bool {
        let shown = shown.iter().filter_map(|it| match it {
            Shown::Path(root) => Some(root),
            Shown::Link { .. } => None,
        });
        self.there.iter().chain(shown).any(|root| path.starts_with(root))
    }
}

/// The directory a program is installed in, or the program alone where that would show too much; of a directory,
/// itself or nothing.
fn installation(real: &Path) -> Option<PathBuf> {
    if real.is_dir() {
        return (!is_shared(real)).then(|| real.to_owned());
    }
    let dir = real.parent()?;
    let in_bin = dir.file_name().is_some_and(|name| name == "bin" || name == "sbin");
    let around = dir.parent().filter(|around| in_bin && !is_shared(around));
    Some(around.or_else(|| Some(dir).filter(|dir| !is_shared(dir))).unwrap_or(real).to_owned())
}

fn is_shared(dir: &Path) -> bool {
    if SHARED.iter().any(|shared| dir == Path::new(shared)) {
        return true;
    }
    let own = std::env::var_os("HOME").map(PathBuf::from);
    let home = dir.ancestors().find(|it| {
        it.parent() == Some(Path::new("/home")) || *it == Path::new("/root") || Some(*it) == own.as_deref()
    });
    home.and_then(|home| dir.strip_prefix(home).ok())
        .is_some_and(|below| SHARED_IN_HOMES.iter().any(|shared| below == Path::new(shared)))
}

/// What a script says in its first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let read = File::open(script).and_then(|mut file| file.read(&mut head)).ok()?;
    let line = head[..read].strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let word = std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?;
    Some(PathBuf::from(word)).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    fn program(at: &Path, text: &str) -> PathBuf {
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        at.to_owned()
    }

    #[test]
    fn a_program_brings_its_installation_and_its_interpreter_and_no_more() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().canonicalize().unwrap();
        let python = program(&root.join("python/bin/python3"), "");
        let ide = program(&root.join("ide/bin/ide"), &format!("#!{}\n", python.display()));
        fs::create_dir(root.join("links")).unwrap();
        let link = root.join("links/ide");
        symlink(&ide, &link).unwrap();
        let script = program(&root.join("tools/run.py"), "");
        let data = root.join("data");
        let own = program(&data.join("tools/own"), "");
        let words = |words: &[&Path]| words.iter().map(|it| it.display().to_string()).collect::<Vec<_>>();
        let (there, closed) = ([PathBuf::from("/usr")], [data.clone()]);
        let needs = Needs { there: &there, closed: &closed, path: "/usr/bin".as_ref() };

        let shown = needs.of(&words(&[&link, &script, &own, Path::new("--flag"), Path::new("/not/there")]));
        assert_eq!(
            shown,
            [
                Shown::Path(root.join("ide")),
                Shown::Link { at: link, to: ide },
                Shown::Path(root.join("python")),
                Shown::Path(root.join("tools")),
            ]
        );
        assert_eq!(needs.of(&["sh".to_owned(), "-c".to_owned()]), [], "it is in the system");
        let beside = program(&root.join("beside"), "");
        assert_eq!(needs.of(&words(&[&beside])), [Shown::Path(beside)], "the data directory is beside it");
    }

    #[test]
    fn nobodys_home_is_shown_for_a_program_in_it() {
        for (program, shown) in [
            ("/home/ann/bin/ide", "/home/ann/bin"),
            ("/home/ann/ide", "/home/ann/ide"),
            ("/home/ann/.local/bin/ide", "/home/ann/.local/bin"),
            ("/root/.cache/ides/bin/ide", "/root/.cache/ides"),
            ("/srv/ide", "/srv/ide"),
            ("/opt/ide/bin/ide", "/opt/ide"),
            ("/nix/store/abc/bin/ide", "/nix/store/abc"),
        ] {
            assert_eq!(installation(Path::new(program)).as_deref(), Some(Path::new(shown)), "{program}");
        }
        assert_eq!(installation(Path::new("/")), None, "nor the machine for an argument");
    }
}
