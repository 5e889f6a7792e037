//! The home transfer port, without any store.

use codehub_archive::{ArchiveError, ArchiveMeta, PackSummary, Packed, UnpackSummary};
use codehub_domain::VolumeKey;

use super::{Harness, next};
use crate::homes::{HomeTransfer, Packing, Transfer, Unpacking};

type Result<T> = std::result::Result<T, ArchiveError>;

async fn pack(homes: &dyn HomeTransfer, volume: &VolumeKey) -> Result<(Vec<u8>, PackSummary)> {
    pack_as(homes, volume, Packed::Whole).await
}

async fn pack_as(
    homes: &dyn HomeTransfer,
    volume: &VolumeKey,
    packed: Packed,
) -> Result<(Vec<u8>, PackSummary)> {
    let Packing { write, beside, .. } = homes.pack(volume, packed, &Transfer::default()).await?;
    let written = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        write(&mut bytes).map(|summary| (bytes, summary))
    });
    let (written, beside) = tokio::join!(written, beside);
    let written = written.unwrap()?;
    beside?;
    Ok(written)
}

async fn unpack(
    homes: &dyn HomeTransfer,
    volume: &VolumeKey,
    summary: &PackSummary,
    bytes: Vec<u8>,
) -> Result<UnpackSummary> {
    let transfer = Transfer::default();
    let meta = ArchiveMeta {
        format: 2,
        sha256: summary.sha256.clone(),
        size: summary.size,
        uncompressed: summary.uncompressed,
        entries: summary.entries,
        skipped: summary.skipped,
        index_sha256: Some(summary.index_sha256.clone()),
        parts: Vec::new(),
        created_at: codehub_domain::Timestamp::UNIX_EPOCH,
    };
    let Unpacking { read, beside } = homes.unpack(volume, &meta, &transfer).await?;
    let read = tokio::task::spawn_blocking(move || read(&mut &bytes[..], &transfer.cancel));
    let (read, beside) = tokio::join!(read, beside);
    let read = read.unwrap()?;
    beside?;
    Ok(read)
}

pub(crate) async fn what_is_packed_is_unpacked(harness: &Harness) {
    let Some(homes) = harness.homes.as_deref() else { return };
    let volume = harness.at_rest().await.volume;
    harness.world.write(&volume, "some words").await;
    let (bytes, packed) = pack(homes, &volume).await.unwrap();
    assert_eq!(packed.size, bytes.len() as u64);
    let target = next(&volume);
    harness.volumes.create(&target, 0).await.unwrap();
    let unpacked = unpack(homes, &target, &packed, bytes).await.unwrap();
    assert_eq!((unpacked.size, &unpacked.sha256), (packed.size, &packed.sha256));
    assert_eq!((unpacked.uncompressed, unpacked.entries), (packed.uncompressed, packed.entries));
    assert_eq!(harness.world.read(&target).await, harness.world.read(&volume).await);
    assert!(pack(homes, &next(&target)).await.is_err(), "a volume that does not exist is no empty home");
}

pub(crate) async fn a_home_is_packed_in_chunks(harness: &Harness) {
    let Some(homes) = harness.homes.as_deref() else { return };
    let volume = harness.at_rest().await.volume;
    harness.world.write(&volume, "some words").await;
    let everything = Packed::Without(bytes::Bytes::new());
    let (bytes, packed) = pack_as(homes, &volume, everything.clone()).await.unwrap();
    assert_eq!((packed.size, packed.format), (bytes.len() as u64, 3));
    assert!(packed.parts.is_empty(), "{packed:?}");
    assert_eq!(pack_as(homes, &volume, everything).await.unwrap(), (bytes, packed), "the same again");
    let nonsense = Packed::Without(bytes::Bytes::from_static(b"nonsense"));
    assert!(pack_as(homes, &volume, nonsense).await.is_err());
}

pub(crate) async fn a_stream_that_is_cut_off_is_an_error(harness: &Harness) {
    let Some(homes) = harness.homes.as_deref() else { return };
    let volume = harness.at_rest().await.volume;
    harness.world.write(&volume, "some words").await;
    let (bytes, packed) = pack(homes, &volume).await.unwrap();
    for length in [0, bytes.len() / 2, bytes.len() - 1] {
        let target = next(&volume);
        harness.volumes.create(&target, 0).await.unwrap();
        let cut = unpack(homes, &target, &packed, bytes[..length].to_vec()).await;
        assert!(cut.is_err(), "{length} of {} bytes: {cut:?}", bytes.len());
        harness.volumes.delete(&target, &crate::Fence::open()).await.unwrap();
    }
}
