//! Archives in a real S3 server, and over a link to it that misbehaves.
//!
//! `scripts/test` starts the server and says where it is; without it these tests say that they were
//! skipped.

use std::sync::Arc;
use std::time::Duration;

use codehub_testing::{let_time_pass, poll_every};
use object_store::multipart::MultipartStore;
use object_store::path::Path as Location;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, PutPayload};

use super::super::{
    ArchiveError, ArchiveMeta, ObjectArchives, S3Config,
    objects::{s3, transfer::PART},
};
use super::*;
use crate::flaky_link::{FlakyLink, Trouble};

/// The server of this run: `endpoint bucket key secret`.
pub(super) fn server() -> Option<S3Config> {
    let text = codehub_testing::service("CODEHUB_TEST_S3", "no S3 server")?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [endpoint, bucket, key, secret] = words[..] else { panic!("CODEHUB_TEST_S3={text:?}") };
    Some(S3Config {
        endpoint: Some(endpoint.into()),
        bucket: bucket.into(),
        region: "us-east-1".into(),
        access_key: key.into(),
        secret_key: secret.into(),
        allow_http: false,
    })
}

pub(super) fn unique() -> String {
    format!("test-{}", uuid::Uuid::new_v4())
}

/// A corner of the bucket that nobody else uses.
pub(super) fn bucket() -> Option<Arc<dyn ObjectStore>> {
    let (store, _) = s3::open(&server()?).unwrap();
    Some(Arc::new(PrefixStore::new(store, unique())))
}

const KEY: &str = "ws-1/op-1/home.tar.zst";

async fn put(archives: &ObjectArchives, home: &Path) -> Result<ArchiveMeta> {
    archives.put(KEY, home, &Progress::new(), &CancellationToken::new()).await
}

async fn fetch(archives: &ObjectArchives, target: &Path) -> Result<ArchiveMeta> {
    archives.fetch(KEY, target, &Progress::new(), &CancellationToken::new()).await
}

fn large_home() -> TempDir {
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(20 << 20)).unwrap();
    home
}

#[tokio::test]
async fn a_missing_bucket_and_a_wrong_secret_are_errors_and_not_an_empty_store() {
    let Some(config) = server() else { return };
    for wrong in [
        S3Config { bucket: "no-such-bucket".into(), ..config.clone() },
        S3Config { secret_key: "wrong".into(), ..config.clone() },
        S3Config { endpoint: Some("http://127.0.0.1:1".into()), ..config.clone() },
    ] {
        let archives = ObjectArchives::open_s3(&wrong, &unique()).unwrap();
        for outcome in [
            archives.head(KEY).await.map(|_| ()),
            archives.list().await.map(|_| ()),
            archives.put_empty(KEY).await.map(|_| ()),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, ArchiveError::Unreachable { .. }), "{wrong:?}: {error}");
            assert!(!error.to_string().contains(&config.secret_key));
        }
    }
}

#[tokio::test]
async fn unfinished_uploads_are_aborted_and_swept() {
    let Some(config) = server() else { return };
    let prefix = unique();
    let archives = ObjectArchives::open_s3(&config, &prefix).unwrap();
    let (raw, _) = s3::open(&config).unwrap();
    let begin = async |path: &str| {
        let location = Location::from(format!("{prefix}/{path}"));
        let id = raw.create_multipart(&location).await.unwrap();
        raw.put_part(&location, &id, 0, PutPayload::from(noise(6 << 20))).await.unwrap();
        (location, id)
    };
    // What killed processes leave: two of this operation, one of another.
    let mut mine = vec![begin(KEY).await, begin(KEY).await];
    begin("ws-2/op-9/home.tar.zst").await;
    let home = large_home();
    put(&archives, home.path()).await.unwrap();
    for (location, id) in mine.drain(..) {
        let late = raw.complete_multipart(&location, &id, Vec::new()).await;
        assert!(late.is_err(), "the old uploads of this key are gone");
    }
    assert_eq!(archives.sweep_unfinished(Duration::from_secs(86_400)).await.unwrap(), 0, "too young");
    assert_eq!(archives.sweep_unfinished(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(archives.sweep_unfinished(Duration::ZERO).await.unwrap(), 0);
    let target = tempdir();
    fetch(&archives, target.path()).await.unwrap();
    assert_same(&snapshot(home.path()), &snapshot(target.path()));
}

/// Of five parts and a little: the first as it should be, the second another one of the same size, the third
/// cut short, the fourth not there, the fifth right again.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_with_the_parts_that_are_right() {
    let Some(rig) = rig().await else { return };
    let home = sample_home();
    std::fs::write(home.path().join("large"), noise(5 * PART + 1000)).unwrap();
    let (packed, _) = pack_bytes(home.path()).unwrap();
    let parts: Vec<&[u8]> = packed.chunks(PART).collect();
    let (raw, _) = s3::open(&server().unwrap()).unwrap();
    let location = rig.direct.data(KEY).unwrap();
    let id = raw.create_multipart(&location).await.unwrap();
    let other = [&parts[1][1..], &[0]].concat();
    let left =
        [(0, parts[0].to_vec()), (1, other), (2, parts[2][..6 << 20].to_vec()), (4, parts[4].to_vec())];
    for (index, bytes) in left {
        raw.put_part(&location, &id, index, bytes.into()).await.unwrap();
    }
    let stored = put(&rig.through, home.path()).await.unwrap();
    let sent = rig.link.uploaded();
    let missing = (packed.len() - 2 * PART) as u64;
    assert!((missing..missing + 64 * 1024).contains(&sent), "sent {sent} bytes, {missing} were missing");
    no_lie(&rig, &snapshot(home.path()), &Ok(stored), Trouble::None).await;
    assert_eq!(rig.direct.sweep_unfinished(Duration::ZERO).await.unwrap(), 0, "no upload is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_link_breaks_goes_on_when_it_is_back() {
    let Some(rig) = rig().await else { return };
    let home = sample_home();
    let size = 80 << 20;
    std::fs::write(home.path().join("large"), noise(size)).unwrap();
    let (mut breaks, mut last) = (0, 0);
    let stored = loop {
        let trying = put(&rig.through, home.path());
        let breaking = async {
            // Three are on their way at once: where a fourth has begun, one has arrived.
            while rig.link.uploaded() < last + 4 * PART as u64 {
                poll_every(Duration::from_millis(1)).await;
            }
            rig.link.set(Trouble::Refuse);
            std::future::pending::<()>().await;
        };
        let said = tokio::select! {
            said = trying => said,
            () = breaking => unreachable!(),
        };
        rig.link.set(Trouble::None);
        last = rig.link.uploaded();
        match said {
            Ok(meta) => break meta,
            Err(error) => assert!(matches!(error, ArchiveError::Unreachable { .. }), "{error}"),
        }
        breaks += 1;
        assert!(breaks < 10, "it never gets any further");
    };
    let again = last.saturating_sub(size as u64);
    eprintln!("the link broke {breaks} times; {again} bytes more were sent than there are");
    assert!(breaks > 1);
    // Whatever was on its way when the link broke, three parts at most, and no more than that.
    assert!(again <= (breaks + 1) * 3 * PART as u64 + (1 << 20), "{again}");
    no_lie(&rig, &snapshot(home.path()), &Ok(stored), Trouble::Refuse).await;
}

/// The archives as seen over a bad link, and as they are.
struct Rig {
    link: FlakyLink,
    through: ObjectArchives,
    direct: ObjectArchives,
}

async fn rig() -> Option<Rig> {
    let config = server()?;
    let address = config.endpoint.as_deref()?.strip_prefix("http://")?.parse().unwrap();
    let link = FlakyLink::to(address).await.unwrap();
    let endpoint = Some(format!("http://{}", link.address()));
    let prefix = unique();
    Some(Rig {
        through: ObjectArchives::open_s3(&S3Config { endpoint, ..config.clone() }, &prefix).unwrap(),
        direct: ObjectArchives::open_s3(&config, &prefix).unwrap(),
        link,
    })
}

/// What must hold whatever happened: an archive that is said to be there is whole.
async fn no_lie(rig: &Rig, before: &Snapshot, said: &Result<ArchiveMeta>, why: Trouble) {
    let there = rig.direct.head(KEY).await.unwrap();
    if let Ok(meta) = said {
        assert_eq!(there.as_ref(), Some(meta), "{why:?}: was said to be stored");
    }
    if there.is_some() {
        let target = tempdir();
        fetch(&rig.direct, target.path()).await.unwrap();
        assert_same(before, &snapshot(target.path()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_trouble_on_the_way_makes_an_archive_that_is_not_whole() {
    let Some(rig) = rig().await else { return };
    let home = large_home();
    let before = snapshot(home.path());
    for trouble in
        [Trouble::Error, Trouble::Refuse, Trouble::CutRequest, Trouble::LoseAnswer, Trouble::CutAnswer]
    {
        rig.link.set(trouble);
        let said = put(&rig.through, home.path()).await;
        assert!(matches!(said, Err(ArchiveError::Unreachable { .. })), "{trouble:?}: {said:?}");
        no_lie(&rig, &before, &said, trouble).await;
        assert!(rig.through.head(KEY).await.is_err(), "{trouble:?}: not known is not gone");

        rig.link.set(Trouble::None);
        let said = put(&rig.through, home.path()).await;
        assert!(said.is_ok(), "after {trouble:?}: {said:?}");
        no_lie(&rig, &before, &said, trouble).await;

        rig.link.set(trouble);
        let target = tempdir();
        let read = fetch(&rig.through, target.path()).await;
        assert!(matches!(read, Err(ArchiveError::Unreachable { .. })), "{trouble:?}: {read:?}");
        rig.link.set(Trouble::None);
        rig.direct.delete(KEY).await.unwrap();
    }
    assert_eq!(rig.direct.sweep_unfinished(Duration::ZERO).await.unwrap(), 0, "nothing is left lying around");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_fails_half_of_the_time_gets_there_in_the_end() {
    let Some(rig) = rig().await else { return };
    let home = large_home();
    let before = snapshot(home.path());
    rig.link.set(Trouble::Mixed);
    let mut tries = 0;
    let stored = loop {
        tries += 1;
        let said = put(&rig.through, home.path()).await;
        no_lie(&rig, &before, &said, Trouble::Mixed).await;
        match said {
            Ok(meta) => break meta,
            Err(error) => assert!(tries < 20, "{error}"),
        }
    };
    let requests = rig.link.requests();
    assert_eq!(put(&rig.direct, home.path()).await.unwrap(), stored, "found, not uploaded again");
    for _ in 0..20 {
        let target = tempdir();
        if fetch(&rig.through, target.path()).await.is_ok() {
            assert_same(&before, &snapshot(target.path()));
            eprintln!("stored after {tries} tries and {requests} requests, half of which failed");
            return;
        }
    }
    panic!("never restored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_is_given_up_and_taken_up_again() {
    let Some(rig) = rig().await else { return };
    let home = sample_home();
    let before = snapshot(home.path());
    rig.link.set(Trouble::Hang);
    let hanging = tokio::spawn({
        let (through, home) = (rig.through.clone(), home.path().to_owned());
        async move { put(&through, &home).await }
    });
    let_time_pass(Duration::from_secs(2)).await;
    assert!(!hanging.is_finished());
    // The fault ends: what hung is cut off, tried again and done.
    rig.link.set(Trouble::None);
    let said = tokio::time::timeout(Duration::from_secs(20), hanging).await.unwrap().unwrap();
    assert!(said.is_ok(), "{said:?}");
    no_lie(&rig, &before, &said, Trouble::Hang).await;
}
