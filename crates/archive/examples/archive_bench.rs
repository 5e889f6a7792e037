//! Archives and restores a directory, and says how fast and in how much
//! memory.
//!
//! `archive_bench pack HOME FILE` and `archive_bench unpack FILE TARGET` are
//! the bare engine, to be held against `tar | zstd`;
//! `archive_bench put HOME STORE` and `archive_bench fetch STORE TARGET` go
//! through a store in a directory with its commit mark and syncing, and
//! `put-verify` reads back what it wrote, too. With `s3-` before the verb the
//! store is a bucket, given as `ENDPOINT BUCKET KEY SECRET`.
//!
//! `put-since HOME STORE` stores what has changed since the last one that it
//! put there (format 3), `fetch-last STORE TARGET` restores that.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use codehub_archive::{
    Expected, Limits, ObjectArchives, PackOptions, Progress, S3Config, Verify, pack, unpack,
};
use tokio_util::sync::CancellationToken;

const KEY: &str = "bench/bench/home.tar.zst";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, from, to] = &arguments[..] else {
        bail!("usage: archive_bench pack|unpack|put|fetch|put-since|fetch-last FROM TO");
    };
    let (from, to) = (Path::new(from), Path::new(to));
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let began = Instant::now();
    match verb.as_str() {
        "pack" => {
            let sink = BufWriter::new(File::create(to)?);
            pack(from, sink, PackOptions::default(), &progress, &cancel)?;
        }
        "unpack" => {
            unpack(File::open(from)?, to, Limits::default(), &progress, &cancel)?;
        }
        "put" | "put-verify" | "s3-put" | "s3-put-verify" => {
            let verify = if verb.ends_with("verify") { Verify::Content } else { Verify::Size };
            let archives = store(verb, to)?.with_verify(verify);
            if verb.starts_with("s3-") {
                archives.delete(KEY).await?;
            }
            archives.put(KEY, from, &progress, &cancel).await?;
        }
        "put-since" => {
            let archives = store(verb, to)?.incremental(true);
            let last = last(&archives).await?;
            let number = last.as_ref().map_or(0, |(number, ..)| number + 1);
            let base = last.as_ref().map(|(_, key, expected)| (key.as_str(), expected));
            let meta = archives.put_since(&numbered(number), base, from, &progress, &cancel).await?;
            println!("stored {} bytes, parts in {} others", meta.size, meta.parts.len());
        }
        "fetch-last" => {
            let archives = store(verb, from)?;
            let (_, key, _) = last(&archives).await?.context("nothing was put there")?;
            archives.fetch(&key, to, &progress, &cancel).await?;
        }
        "fetch" | "s3-fetch" => {
            store(verb, from)?.fetch(KEY, to, &progress, &cancel).await?;
        }
        other => bail!("unknown verb {other}"),
    }
    let seconds = began.elapsed().as_secs_f64();
    let mib = progress.done() as f64 / f64::from(1 << 20);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no peak memory in the process status")?;
    let (rate, peak) = (mib / seconds, peak.trim());
    println!("{verb}: {mib:.0} MiB in {seconds:.2} s, {rate:.0} MiB/s, peak memory {peak}");
    Ok(())
}

fn numbered(number: usize) -> String {
    ObjectArchives::key("bench", &format!("since-{number:06}"))
}

/// Number, key and record of what was put last.
async fn last(archives: &ObjectArchives) -> anyhow::Result<Option<(usize, String, Expected)>> {
    let mut found = None;
    for number in 0.. {
        let key = numbered(number);
        let Some(expected) = archives.describe(&key).await? else { break };
        found = Some((number, key, expected));
    }
    Ok(found)
}

fn store(verb: &str, place: &Path) -> anyhow::Result<ObjectArchives> {
    if !verb.starts_with("s3-") {
        return Ok(ObjectArchives::open_local(place, "")?);
    }
    let words: Vec<&str> = place.to_str().unwrap_or_default().split_whitespace().collect();
    let [endpoint, bucket, access_key, secret_key] = words[..] else {
        bail!("a bucket is given as ENDPOINT BUCKET KEY SECRET");
    };
    let config = S3Config {
        endpoint: Some(endpoint.into()),
        bucket: bucket.into(),
        region: "us-east-1".into(),
        access_key: access_key.into(),
        secret_key: secret_key.into(),
        allow_http: false,
    };
    Ok(ObjectArchives::open_s3(&config, "bench")?)
}
