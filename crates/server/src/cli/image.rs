//! `codehub image build`: our own image, made from this very program, without any registry.

use std::path::PathBuf;

use clap::Subcommand;
use codehub_runtime::docker::{BuildImage, Engine, IMAGE_UID, build_image, own_image};

use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Build the image of the built-in editor and give it to the engine (DOCKER_HOST)
    Build {
        /// What to call it [default: codehub/ide:VERSION]
        #[arg(long)]
        tag: Option<String>,
        /// Put a system below it (a directory, as debootstrap makes one), for a shell and tools
        #[arg(long, value_name = "DIRECTORY")]
        root: Option<PathBuf>,
        /// Another build of CodeHub to put in, such as a static one
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<()> {
    let Command::Build { tag, root, program } = command;
    let docker = &config.runtime.docker;
    let engine = Engine::new(&docker.host);
    let build = BuildImage {
        tag: tag.unwrap_or_else(own_image),
        program: match program {
            Some(program) => program,
            None => crate::backends::own_path()?,
        },
        root,
        uid: docker.uid.unwrap_or(IMAGE_UID),
        gid: docker.gid,
    };
    let size = build_image(&engine, &build).await?;
    println!("{} ({} MiB); use it with RUNTIME_IMAGE={}", build.tag, size >> 20, build.tag);
    Ok(())
}
