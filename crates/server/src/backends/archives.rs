//! Archives in the data directory or in a bucket.

use anyhow::{Context as _, bail};
use codehub_archive::{ARCHIVES_MARKER, ObjectArchives, PackOptions, S3Config};

use super::KnownHomes;
use crate::config::{Config, S3Settings};

/// How many archived homes are looked for before a bucket is taken for the place they are in.
const SAMPLE: usize = 3;

/// What people call the store of archives.
pub(super) fn kind(config: &Config) -> &'static str {
    if config.archive.s3.is_some() { "s3" } else { "files" }
}

/// How homes are packed.
pub(super) fn pack_options(config: &Config) -> PackOptions {
    PackOptions { level: config.archive.level, ..PackOptions::default() }
}

/// Opens the store of archives. A bucket need not answer now; a directory must be there.
///
/// # Errors
/// Homes are archived elsewhere than configured, or the configuration cannot work.
pub(super) async fn open(
    config: &Config,
    deployment: &str,
    known: KnownHomes,
) -> anyhow::Result<ObjectArchives> {
    let root = config.data_dir.join("archives");
    let archives = match &config.archive.s3 {
        Some(s3) => {
            let archives = open_bucket(s3, deployment)?;
            refuse_another_bucket(config, s3, &archives, &known).await?;
            archives
        }
        None => {
            // An empty mount point is a directory, too.
            if !known.in_archives.is_empty() && !ObjectArchives::is_local(&root)? {
                bail!(
                    "workspaces are archived in {}, but it is not there, or is no directory of archives: if it \
                     is on another disk, mount it first; if they are in a bucket, set S3_BUCKET; if it was put \
                     there from a backup without hidden files, make an empty file {ARCHIVES_MARKER} in it",
                    root.display()
                );
            }
            ObjectArchives::open_local(&root, &config.archive.prefix)?
        }
    };
    let archives = archives.incremental(config.archive.incremental);
    Ok(archives.with_options(pack_options(config)).with_verify(config.archive.verify))
}

/// Opens the store of archives for reading, where no database says which deployment this is.
///
/// # Errors
/// It is not there, or the configuration does not say where.
pub(super) fn open_alone(config: &Config) -> anyhow::Result<ObjectArchives> {
    if let Some(s3) = &config.archive.s3 {
        if s3.prefix.is_empty() {
            bail!(
                "without a database nobody knows whose archives to look for: set S3_PREFIX, which is \
                 codehub/{{deployment id}} unless it was set to something else"
            );
        }
        return open_bucket(s3, "");
    }
    let root = config.data_dir.join("archives");
    if !ObjectArchives::is_local(&root)? {
        bail!("{} is no directory of archives: it has no file {ARCHIVES_MARKER}", root.display());
    }
    Ok(ObjectArchives::open_local(&root, &config.archive.prefix)?)
}

/// Archives that are in the data directory, in another bucket or below another prefix would look lost.
async fn refuse_another_bucket(
    config: &Config,
    s3: &S3Settings,
    archives: &ObjectArchives,
    known: &KnownHomes,
) -> anyhow::Result<()> {
    let mut keys = known.in_archives.iter().take(SAMPLE).peekable();
    if keys.peek().is_none() {
        return Ok(());
    }
    let directory = config.data_dir.join("archives").join(&config.archive.prefix);
    for key in keys {
        // Not known is not missing: a bucket that is away now may be back when it is needed.
        if !matches!(archives.head(&key.to_string()).await, Ok(None)) {
            return Ok(());
        }
        if directory.join(key.to_string()).is_file() {
            bail!(
                "homes are archived in {}, but the bucket {} is configured and does not have them: \
                 copy that directory's content there first (see docs/S3.md)",
                directory.display(),
                s3.bucket
            );
        }
    }
    if archives.is_empty().await.is_ok_and(|empty| empty) {
        let (bucket, prefix) = (&s3.bucket, archives.prefix());
        bail!(
            "workspaces are archived, but there is nothing in the bucket {bucket} below {prefix}: check \
             S3_ENDPOINT, S3_BUCKET and S3_PREFIX; if the archives are really gone, put an empty object \
             {prefix}/{ARCHIVES_MARKER} there, and each workspace will say what it lost"
        );
    }
    Ok(())
}

fn open_bucket(s3: &S3Settings, deployment: &str) -> anyhow::Result<ObjectArchives> {
    let config = S3Config {
        endpoint: Some(s3.endpoint.clone()).filter(|endpoint| !endpoint.is_empty()),
        bucket: s3.bucket.clone(),
        region: s3.region.clone(),
        access_key: s3.access_key.clone(),
        secret_key: s3.secret_key.reveal().to_owned(),
        allow_http: s3.allow_http,
    };
    let prefix = match s3.prefix.as_str() {
        "" => format!("codehub/{deployment}"),
        prefix => prefix.to_owned(),
    };
    ObjectArchives::open_s3(&config, &prefix).context("the archives' bucket cannot be used")
}
