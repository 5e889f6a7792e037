//! Archives and restores a directory, and says how fast and in how much
//! memory.
//!
//! `archive_bench pack HOME FILE` and `archive_bench unpack FILE TARGET` are
//! the bare engine, to be held against `tar | zstd`;
//! `archive_bench put HOME STORE` and `archive_bench fetch STORE TARGET` go
//! through a store in a directory, with its verification and syncing.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use codehub_adapters::archive::{Limits, ObjectArchives, PackOptions, Progress, pack, unpack};
use tokio_util::sync::CancellationToken;

const KEY: &str = "bench/bench/home.tar.zst";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, from, to] = &arguments[..] else {
        bail!("usage: archive_bench pack|unpack|put|fetch FROM TO");
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
        "put" => {
            let archives = ObjectArchives::open_local(to, "")?;
            archives.put(KEY, from, &progress, &cancel).await?;
        }
        "fetch" => {
            let archives = ObjectArchives::open_local(from, "")?;
            archives.fetch(KEY, to, &progress, &cancel).await?;
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
