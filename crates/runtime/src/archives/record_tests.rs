//! Swapped archives: whoever can write to the store of archives, a directory or a bucket, gets nobody's home restored or
//! shown in another's place. Each archive of theirs is whole, and its checksums are right.

use std::{fs, path::Path, sync::Arc};

use codehub_archive::{ArchiveError, ObjectArchives, PackOptions, S3Config};
use codehub_domain::{ArchiveKey, ArchiveRecord, Generation, OpId, UserId, VolumeKey, WorkspaceId};
use uuid::Uuid;

use super::{
    Archives, StoredArchives,
    record::{fetch_recorded, head_recorded, record},
};
use crate::{
    Fence,
    homes::{DirectoryTransfer, Transfer},
    volumes::{
        Volumes as _,
        directory::{DirectoryVolumes, home_dir},
    },
};

/// Two people's archives in one store, and what an attacker can do to it.
struct Place {
    _dir: tempfile::TempDir,
    archives: StoredArchives,
    objects: ObjectArchives,
    volumes: Arc<DirectoryVolumes>,
    mine: ArchiveRecord,
    theirs: ArchiveRecord,
}

fn volume(key: ArchiveKey, generation: u32) -> VolumeKey {
    VolumeKey {
        owner: UserId::from_uuid(Uuid::from_u128(1)),
        workspace: key.workspace,
        generation: Generation(generation),
    }
}

fn new_key() -> ArchiveKey {
    ArchiveKey::of(WorkspaceId::from_uuid(Uuid::now_v7()), OpId::from_uuid(Uuid::now_v7()))
}

impl Place {
    async fn new(dir: tempfile::TempDir, objects: ObjectArchives) -> Self {
        let volumes = Arc::new(DirectoryVolumes::new(dir.path()));
        volumes.prepare().await.unwrap();
        let homes = DirectoryTransfer::new(dir.path(), PackOptions::default());
        let archives = StoredArchives::new("test", objects.clone(), Arc::new(homes));
        let mut records = Vec::new();
        for text in ["mine", "them"] {
            let key = new_key();
            volumes.create(&volume(key, 1), 0).await.unwrap();
            let home = home_dir(dir.path(), &volume(key, 1));
            fs::write(home.join("whose"), text).unwrap();
            // Of the same length when packed: only the text differs.
            for path in [home.join("whose"), home] {
                let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
                fs::File::open(path).unwrap().set_times(times).unwrap();
            }
            let meta = archives.put(&key, &volume(key, 1), &Transfer::default()).await.unwrap();
            records.push(record(key, &meta).unwrap());
        }
        let theirs = records.pop().unwrap();
        Self { mine: records.pop().unwrap(), theirs, archives, objects, volumes, _dir: dir }
    }

    /// In the data directory, and in a bucket where there is a server.
    async fn each(test: impl AsyncFn(Self)) {
        let dir = tempfile::tempdir().unwrap();
        let objects = ObjectArchives::open_local(&dir.path().join("archives"), "archives").unwrap();
        test(Self::new(dir, objects).await).await;
        let Some(text) = codehub_testing::service("CODEHUB_TEST_S3", "no S3 server") else { return };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [endpoint, bucket, access_key, secret_key] = words[..] else {
            panic!("CODEHUB_TEST_S3={text:?}")
        };
        let config = S3Config {
            endpoint: Some(endpoint.into()),
            bucket: bucket.into(),
            access_key: access_key.into(),
            secret_key: secret_key.into(),
            region: "us-east-1".into(),
            allow_http: false,
        };
        let objects = ObjectArchives::open_s3(&config, &format!("swapped-{}", Uuid::new_v4())).unwrap();
        test(Self::new(tempfile::tempdir().unwrap(), objects).await).await;
    }

    /// What is stored under a key: data, meta.
    async fn stored(&self, key: ArchiveKey) -> [Vec<u8>; 2] {
        [
            self.objects.raw(&key.to_string()).await.unwrap(),
            self.objects.raw(&format!("{key}.meta")).await.unwrap(),
        ]
    }

    async fn put(&self, key: ArchiveKey, data: &[u8], meta: &[u8]) {
        self.objects.put_raw(&key.to_string(), data).await.unwrap();
        self.objects.put_raw(&format!("{key}.meta"), meta).await.unwrap();
    }

    /// What a restore under this record says, and what is on the volume afterwards.
    async fn restore(&self, record: &ArchiveRecord, generation: u32) -> Result<String, ArchiveError> {
        let volume = volume(record.key, generation);
        self.volumes.create(&volume, 0).await.unwrap();
        fetch_recorded(&self.archives, record, &volume, &Transfer::default()).await?;
        Ok(fs::read_to_string(home_dir(self._dir.path(), &volume).join("whose")).unwrap())
    }

    async fn refuses(&self, what: &str) {
        let error = self.restore(&self.mine, 9).await.unwrap_err();
        assert!(error.is_corrupted(), "{what}: {error}");
        let browsed = self.archives.files(&self.mine, b"", None, 9).await;
        assert!(browsed.as_ref().is_err_and(ArchiveError::is_corrupted), "{what}: {browsed:?}");
        if let Ok(Some((_, Some(_)))) = self.archives.file(&self.mine, b"whose").await {
            panic!("{what}: a file was shown");
        }
        self.volumes.delete(&volume(self.mine.key, 9), &Fence::open()).await.unwrap();
    }
}

#[tokio::test]
async fn an_archive_comes_back_under_its_record() {
    Place::each(async |place| {
        assert_eq!(place.restore(&place.mine, 2).await.unwrap(), "mine");
        assert_eq!(place.archives.files(&place.mine, b"", None, 9).await.unwrap().unwrap().files.len(), 1);
        assert!(head_recorded(&place.archives, &place.theirs).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_copied_archive_of_somebody_else_is_refused() {
    Place::each(async |place| {
        let [data, meta] = place.stored(place.theirs.key).await;
        place.put(place.mine.key, &data, &meta).await;
        place.refuses("data and meta").await;
        let error = place.restore(&place.mine, 3).await.unwrap_err().to_string();
        assert!(
            error.contains(&place.mine.sha256) && error.contains(&place.theirs.sha256),
            "names both: {error}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_swapped_meta_is_refused() {
    Place::each(async |place| {
        let ([data, _], [_, meta]) =
            (place.stored(place.mine.key).await, place.stored(place.theirs.key).await);
        place.put(place.mine.key, &data, &meta).await;
        place.refuses("meta").await;
    })
    .await;
}

#[tokio::test]
async fn a_swapped_stream_is_refused() {
    Place::each(async |place| {
        let ([_, meta], [data, _]) =
            (place.stored(place.mine.key).await, place.stored(place.theirs.key).await);
        assert_eq!(place.mine.size, data.len() as u64, "or its length alone would tell");
        place.put(place.mine.key, &data, &meta).await;
        // The meta object is right, so only reading shows it.
        assert!(head_recorded(&place.archives, &place.mine).await.unwrap().is_some());
        place.refuses("stream").await;
    })
    .await;
}

#[tokio::test]
async fn an_older_archive_of_the_same_workspace_is_refused() {
    Place::each(async |place| {
        let home = home_dir(place._dir.path(), &volume(place.mine.key, 1));
        fs::write(home.join("whose"), "more").unwrap();
        let newer = ArchiveKey::of(place.mine.key.workspace, OpId::from_uuid(Uuid::now_v7()));
        let meta = place.archives.put(&newer, &volume(newer, 1), &Transfer::default()).await.unwrap();
        let [data, old_meta] = place.stored(place.mine.key).await;
        place.put(newer, &data, &old_meta).await;
        let error = place.restore(&record(newer, &meta).unwrap(), 4).await.unwrap_err();
        assert!(error.is_corrupted(), "{error}");
    })
    .await;
}

/// Killed between the upload and the commit, the next try finds an archive that nothing was noted about.
#[tokio::test]
async fn an_upload_that_is_there_already_counts_only_where_it_is_this_home() {
    Place::each(async |place| {
        let key = place.mine.key;
        let put = async || place.archives.put(&key, &volume(key, 1), &Transfer::default()).await;
        assert_eq!(record(key, &put().await.unwrap()).unwrap(), place.mine);
        let mine = place.stored(key).await;
        let [data, meta] = place.stored(place.theirs.key).await;
        for (what, data, meta) in
            [("both", &data, &meta), ("meta", &mine[0], &meta), ("stream", &data, &mine[1])]
        {
            place.put(key, data, meta).await;
            let error = put().await.unwrap_err();
            assert!(error.is_corrupted(), "{what}: {error}");
            assert_eq!(place.stored(key).await, [data.clone(), meta.clone()], "{what}: nothing is removed");
        }
        place.put(key, &mine[0], &mine[1]).await;
        assert_eq!(record(key, &put().await.unwrap()).unwrap(), place.mine);
    })
    .await;
}

#[tokio::test]
async fn files_of_a_directory_of_archives_are_where_they_are_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let objects = ObjectArchives::open_local(&dir.path().join("archives"), "archives").unwrap();
    let place = Place::new(dir, objects).await;
    let root: &Path = place._dir.path();
    let on_disk = fs::read(root.join("archives/archives").join(place.mine.key.to_string())).unwrap();
    assert_eq!(on_disk, place.stored(place.mine.key).await[0]);
}
