//! `codehub archives`: what is in the store of archives, without a database and without a server. For a machine that is
//! gone: point it at the bucket, or at a copy of the data directory, and get the homes out.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use codehub_archive::{ListedObject, ObjectArchives, Progress};
use tokio_util::sync::CancellationToken;

use crate::{backends, config::Config};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the archives, by workspace and time (of a bucket, S3_PREFIX must be set)
    List {
        /// Only those of this workspace
        workspace: Option<String>,
    },
    /// Read archives and everything they refer to, and compare it with their checksums
    Verify {
        /// WORKSPACE/OPERATION/home.tar.zst, as `list` shows it [default: all]
        keys: Vec<String>,
    },
    /// Unpack an archive into an empty directory
    Restore {
        /// WORKSPACE/OPERATION/home.tar.zst, as `list` shows it
        key: String,
        /// Made if it is missing
        directory: PathBuf,
    },
    /// Write an archive to standard output as a tar stream: `codehub archives export KEY | tar -x`
    Export {
        /// WORKSPACE/OPERATION/home.tar.zst, as `list` shows it
        key: String,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<()> {
    let archives = backends::open_archives_alone(config)?;
    let cancel = CancellationToken::new();
    match command {
        Command::List { workspace } => list(&archives, workspace).await,
        Command::Verify { keys } => verify(&archives, keys, &cancel).await,
        Command::Restore { key, directory } => {
            std::fs::create_dir_all(&directory)
                .with_context(|| format!("{} cannot be made", directory.display()))?;
            let meta = archives.fetch(&key, &directory, &Progress::new(), &cancel).await?;
            println!("{}: {} entries", directory.display(), meta.entries);
            Ok(())
        }
        Command::Export { key } => {
            archives.export(&key, &cancel, std::io::stdout()).await?;
            Ok(())
        }
    }
}

async fn finished(archives: &ObjectArchives, workspace: Option<String>) -> anyhow::Result<Vec<ListedObject>> {
    let all = match workspace {
        Some(workspace) => archives.list_of(&workspace).await?,
        None => archives.list().await?,
    };
    Ok(all.into_iter().filter(|listed| listed.complete).collect())
}

async fn list(archives: &ObjectArchives, workspace: Option<String>) -> anyhow::Result<()> {
    for listed in finished(archives, workspace).await? {
        let said = match archives.head(&listed.key).await {
            Ok(Some(meta)) => {
                let parts = match meta.parts.len() {
                    0 => "whole".to_owned(),
                    others => format!("with parts in {others} others"),
                };
                let home = meta.uncompressed;
                format!(
                    "format {}, {} bytes of {home}, {} entries, {parts}",
                    meta.format, meta.size, meta.entries
                )
            }
            Ok(None) => continue,
            Err(error) => format!("unreadable: {error}"),
        };
        println!("{}  {}  {said}", listed.key, listed.last_modified);
    }
    Ok(())
}

async fn verify(
    archives: &ObjectArchives,
    mut keys: Vec<String>,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    if keys.is_empty() {
        keys = finished(archives, None).await?.into_iter().map(|listed| listed.key).collect();
    }
    let mut bad = 0;
    for key in &keys {
        match archives.verify(key, cancel).await {
            Ok(_) => println!("{key}: good"),
            Err(error) => {
                bad += 1;
                println!("{key}: {error}");
            }
        }
    }
    if bad > 0 {
        bail!("{bad} of {} archives are damaged or could not be read", keys.len());
    }
    Ok(())
}
