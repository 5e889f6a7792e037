//! Images: pulling what workspaces run, and building our own from this very program.
//!
//! Our own image is the built-in IDE and the storage jobs at once. It is made `FROM scratch`: this
//! program, the few shared libraries it was linked with (none, when it is static), a user, `/tmp`. So
//! Docker works without any registry, and what runs in the helpers is what runs here.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

use bollard::{body_full, errors::Error, query_parameters::CreateImageOptionsBuilder};
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};

use super::{
    PullPolicy,
    engine::{Engine, found},
};
use crate::{Result, RuntimeError};
use codehub_archive::{Progress, hex};

/// Where this program is inside our image.
pub(super) const PROGRAM: &str = "/codehub";

/// `codehub/ide:{version}`
pub fn own_image() -> String {
    format!("codehub/ide:{}", env!("CARGO_PKG_VERSION"))
}

/// `codehub/jobs:{content}`: the image of the storage jobs that are this very program. Another build is another image,
/// whatever version it calls itself: a job of one that is not like us would be told what it does not understand.
pub(super) fn job_image(program: &Path) -> io::Result<String> {
    let digest = Sha256::digest(std::fs::read(program)?);
    Ok(format!("codehub/jobs:{}", hex(&digest[..6])))
}

/// Whether the image is one that is built here (`codehub image build`, `scripts/image-build`). A registry's namespace
/// of the same name is somebody else's: such an image is never pulled.
fn is_built_here(image: &str) -> bool {
    let path = image.strip_prefix("docker.io/").unwrap_or(image);
    path.starts_with("codehub/")
}

/// Makes sure that the engine has the image, as the policy says.
pub(super) async fn ensure(
    engine: &Engine,
    image: &str,
    policy: PullPolicy,
    progress: &Progress,
) -> Result<()> {
    if policy != PullPolicy::Always && exists(engine, image).await? {
        return Ok(());
    }
    if policy == PullPolicy::Never || is_built_here(image) {
        if exists(engine, image).await? {
            return Ok(());
        }
        let hint = if image.contains("codehub/ide:") {
            format!(": make it with `codehub image build --tag {image}`; it is never pulled")
        } else if is_built_here(image) {
            ": make it with scripts/image-build; it is never pulled".to_owned()
        } else {
            " and RUNTIME_PULL is \"never\"".to_owned()
        };
        return Err(RuntimeError::ImagePull(format!("the engine has no image {image}{hint}")));
    }
    pull(engine, image, progress).await
}

async fn exists(engine: &Engine, image: &str) -> Result<bool> {
    let inspected = found(engine.client().await?.inspect_image(image).await);
    Ok(inspected.map_err(engine.failed("look at an image"))?.is_some())
}

async fn pull(engine: &Engine, image: &str, progress: &Progress) -> Result<()> {
    tracing::info!(image, "pulling an image");
    let started = std::time::Instant::now();
    let (name, tag) = split_tag(image);
    let options = CreateImageOptionsBuilder::new().from_image(name).tag(tag).build();
    let client = engine.client().await?;
    let mut messages = Box::pin(client.create_image(Some(options), None, None));
    let mut layers = std::collections::HashMap::new();
    while let Some(message) = messages.next().await {
        let message = message.map_err(|error| match error {
            Error::DockerResponseServerError { message, .. }
            | Error::DockerStreamError { error: message } => {
                RuntimeError::ImagePull(format!("the image {image} cannot be pulled: {message}"))
            }
            other => engine.failed("pull an image")(other),
        })?;
        let (Some(layer), Some(detail)) = (message.id, message.progress_detail) else { continue };
        if let (Some(current), Some(total)) = (detail.current, detail.total) {
            layers.insert((layer, message.status.clone()), (current, total));
            let sum = |pick: fn(&(i64, i64)) -> i64| layers.values().map(pick).sum::<i64>();
            let (done, all) = (sum(|it| it.0), sum(|it| it.1));
            progress.start(u64::try_from(all).unwrap_or(0));
            progress.advance(u64::try_from(done).unwrap_or(0).saturating_sub(progress.done()));
        }
    }
    metrics::histogram!(crate::metric::DOCKER_PULL_SECONDS).record(started.elapsed().as_secs_f64());
    tracing::info!(image, seconds = started.elapsed().as_secs(), "pulled an image");
    Ok(())
}

/// `registry:5000/name:tag` and `name@sha256:…`; without either, the tag is `latest`.
fn split_tag(image: &str) -> (&str, &str) {
    if image.contains('@') {
        return (image, "");
    }
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

/// Makes the image of the storage jobs if the engine does not have it.
pub(super) async fn ensure_own(engine: &Engine, image: &str, exe: &Path) -> Result<()> {
    if exists(engine, image).await? {
        return Ok(());
    }
    let build =
        BuildImage { tag: image.to_owned(), program: exe.to_owned(), root: None, uid: 1000, gid: 1000 };
    tracing::info!(image, "the engine does not have the image of our storage jobs yet: making it");
    build_image(engine, &build).await.map(|_| ())
}

/// What an image is built from.
#[derive(Debug, Clone)]
pub struct BuildImage {
    pub tag: String,
    /// CodeHub itself.
    pub program: PathBuf,
    /// A directory with the root of a system, for a shell and tools; `None`: nothing but the program.
    pub root: Option<PathBuf>,
    /// Who owns `/home/coder` in it.
    pub uid: u32,
    pub gid: u32,
}

/// Builds the image with what is on this machine; returns its size in bytes before the engine has it.
pub async fn build_image(engine: &Engine, build: &BuildImage) -> Result<u64> {
    let plan = build.clone();
    let tar = tokio::task::spawn_blocking(move || layer(&plan)).await;
    let tar = tar.map_err(|error| RuntimeError::Failed(error.to_string()))?;
    let tar =
        tar.map_err(|error| RuntimeError::Failed(format!("the image cannot be put together: {error}")))?;
    let size = tar.len() as u64;
    let (name, tag) = split_tag(&build.tag);
    let changes = [
        format!("ENTRYPOINT [\"{PROGRAM}\", \"ide\"]"),
        "CMD [\"--host\", \"0.0.0.0\"]".to_owned(),
        "ENV HOME=/home/coder PATH=/usr/local/bin:/usr/bin:/bin PORT=8080".to_owned(),
        format!("USER {}:{}", build.uid, build.gid),
        "WORKDIR /home/coder".to_owned(),
        "EXPOSE 8080".to_owned(),
    ];
    let options =
        CreateImageOptionsBuilder::new().from_src("-").repo(name).tag(tag).changes(changes.to_vec()).build();
    let client = engine.client().await?;
    let mut messages = Box::pin(client.create_image(Some(options), Some(body_full(tar.into())), None));
    while let Some(message) = messages.next().await {
        message.map_err(engine.failed("import the image"))?;
    }
    Ok(size)
}

fn layer(build: &BuildImage) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    tar.follow_symlinks(false);
    let mut has_users = false;
    if let Some(root) = &build.root {
        has_users = root.join("etc/passwd").exists();
        tar.append_dir_all(".", root)?;
    }
    // An engine refuses a tar with one path twice: what the root has, it keeps.
    let has = |path: &str| build.root.as_ref().is_some_and(|root| root.join(path).symlink_metadata().is_ok());
    for (path, mode, owner) in
        [("tmp/", 0o1777, (0, 0)), ("home/", 0o755, (0, 0)), ("home/coder/", 0o755, (build.uid, build.gid))]
    {
        if has(path.trim_end_matches('/')) {
            continue;
        }
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(mode);
        header.set_uid(owner.0.into());
        header.set_gid(owner.1.into());
        header.set_size(0);
        tar.append_data(&mut header, path, io::empty())?;
    }
    if !has_users {
        let users =
            format!("root:x:0:0::/root:/bin/sh\ncoder:x:{}:{}::/home/coder:/bin/sh\n", build.uid, build.gid);
        append(&mut tar, "etc/passwd", 0o644, users.as_bytes())?;
        append(&mut tar, "etc/group", 0o644, format!("root:x:0:\ncoder:x:{}:\n", build.gid).as_bytes())?;
    }
    append(&mut tar, "codehub", 0o755, &std::fs::read(&build.program)?)?;
    for library in libraries(&build.program)? {
        // A system that brings its own C library keeps it; the program's loader is found there.
        let name = library.strip_prefix("/").unwrap_or(&library).to_owned();
        if build.root.as_ref().is_none_or(|root| !root.join(&name).exists()) {
            append(&mut tar, &name.to_string_lossy(), 0o755, &std::fs::read(&library)?)?;
        }
    }
    tar.into_inner()
}

fn append(tar: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, path, content)
}

/// The shared libraries and the loader a program needs, as its own loader finds them; none when it is
/// static.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || text.contains("statically linked") {
        return Ok(Vec::new());
    }
    let path_of = |line: &str| {
        let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some(PathBuf::from(path))
    };
    Ok(text.lines().filter_map(path_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_told_from_ports() {
        assert_eq!(split_tag("a"), ("a", "latest"));
        assert_eq!(split_tag("a/b:c"), ("a/b", "c"));
        assert_eq!(split_tag("host:5000/a/b"), ("host:5000/a/b", "latest"));
        assert_eq!(split_tag("host:5000/a/b:c"), ("host:5000/a/b", "c"));
        assert_eq!(split_tag("a@sha256:0"), ("a@sha256:0", ""));
    }

    #[test]
    fn images_that_are_built_here_are_told_from_a_registrys() {
        for ours in [own_image().as_str(), "codehub/ide:0.0.1", "docker.io/codehub/code-server:4"] {
            assert!(is_built_here(ours), "{ours}");
        }
        for theirs in ["codercom/code-server:latest", "registry.example/codehub/ide:1", "codehub:1"] {
            assert!(!is_built_here(theirs), "{theirs}");
        }
    }

    #[test]
    fn another_program_is_another_image_whatever_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let image_of = |content: &str| {
            let program = dir.path().join("codehub");
            std::fs::write(&program, content).unwrap();
            job_image(&program).unwrap()
        };
        assert_eq!(image_of("one"), image_of("one"));
        assert_ne!(image_of("one"), image_of("two"));
        assert!(is_built_here(&image_of("one")), "and never pulled");
        assert!(job_image(Path::new("/no/such/program")).is_err());
    }

    /// As of a root made by debootstrap: it has what an image needs anyway.
    #[test]
    fn no_path_is_twice_in_the_layer_of_a_whole_system() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["tmp", "home", "usr/bin", "etc"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        std::fs::write(root.path().join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
        std::os::unix::fs::symlink("usr/bin", root.path().join("bin")).unwrap();
        let build = BuildImage {
            tag: "x".into(),
            program: "/bin/true".into(),
            root: Some(root.path().to_owned()),
            uid: 1000,
            gid: 1000,
        };
        let bytes = layer(&build).unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut seen = std::collections::HashSet::new();
        for entry in archive.entries().unwrap() {
            let path = entry.unwrap().path().unwrap().components().collect::<PathBuf>();
            assert!(seen.insert(path.clone()), "{} twice", path.display());
        }
        for wanted in ["tmp", "home/coder", "codehub", "etc/passwd"] {
            assert!(seen.contains(Path::new(wanted)), "{wanted} in {seen:?}");
        }
    }

    #[test]
    fn the_layer_holds_this_program_and_what_it_is_linked_with() {
        let program = std::env::current_exe().unwrap();
        let build =
            BuildImage { tag: "x".into(), program: program.clone(), root: None, uid: 1000, gid: 1000 };
        let bytes = layer(&build).unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let names: Vec<String> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
        for wanted in ["codehub", "tmp/", "home/coder/", "etc/passwd"] {
            assert!(names.iter().any(|name| name == wanted), "{wanted} in {names:?}");
        }
        let linked = libraries(&program).unwrap().len();
        assert_eq!(names.iter().filter(|name| name.contains(".so")).count(), linked);
    }
}
