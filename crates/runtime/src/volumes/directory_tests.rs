use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn key(generation: u32) -> VolumeKey {
    VolumeKey {
        owner: "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(),
        workspace: "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap(),
        generation: Generation(generation),
    }
}

struct Place {
    dir: tempfile::TempDir,
    volumes: DirectoryVolumes,
}

impl Place {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let volumes = DirectoryVolumes::new(dir.path());
        volumes.prepare().await.unwrap();
        Self { dir, volumes }
    }

    async fn made(&self, generation: u32) -> PathBuf {
        self.volumes.create(&key(generation), 0).await.unwrap();
        home_dir(self.dir.path(), &key(generation))
    }

    async fn all(&self) -> Vec<VolumeKey> {
        let listed = self.volumes.list(Scope::All).await.unwrap();
        listed.into_iter().filter(|listed| listed.trouble.is_none()).map(|listed| listed.key).collect()
    }

    fn trash(&self) -> usize {
        fs::read_dir(self.dir.path().join("homes/.trash")).map_or(0, Iterator::count)
    }
}

#[tokio::test]
async fn volumes_are_private_and_deleting_the_last_tidies_up() {
    let place = Place::new().await;
    let home = place.made(1).await;
    place.made(2).await;
    assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
    for generation in [1, 2] {
        place.volumes.delete(&key(generation), &Fence::open()).await.unwrap();
    }
    assert_eq!(place.trash(), 0);
    assert!(!place.dir.path().join("homes/users").join(key(1).owner.to_string()).exists(), "tidied up");
}

#[tokio::test]
async fn strangers_are_neither_volumes_nor_touched() {
    let place = Place::new().await;
    let home = place.made(3).await;
    let workspace = home.parent().unwrap();
    for name in ["home-03", "home-x", "home-", "home-4294967296", "home", "other"] {
        fs::create_dir(workspace.join(name)).unwrap();
    }
    fs::write(workspace.join("home-9"), "a file").unwrap();
    symlink("/", workspace.join("home-8")).unwrap();
    fs::create_dir_all(place.dir.path().join("homes/users/somebody/workspaces/x/home-1")).unwrap();
    assert_eq!(place.all().await, [key(3)]);
    place.volumes.delete(&key(3), &Fence::open()).await.unwrap();
    assert!(workspace.join("home-9").exists());
}

/// An operator moved a home to another disk and left a link: that is no lost home, and none to start on.
#[tokio::test]
async fn what_is_not_a_directory_is_listed_with_what_is_wrong() {
    let place = Place::new().await;
    let home = place.made(1).await;
    place.made(2).await;
    let moved = place.dir.path().join("moved");
    fs::rename(&home, &moved).unwrap();
    symlink(&moved, &home).unwrap();
    let mut listed = place.volumes.list(Scope::Of(&[(key(1).owner, key(1).workspace)])).await.unwrap();
    listed.sort_by_key(|listed| listed.key.generation);
    assert_eq!(listed[1], key(2).into());
    let trouble = listed[0].trouble.as_deref().unwrap();
    assert_eq!(listed[0].key, key(1));
    assert!(trouble.contains("is not a directory") && trouble.contains(home.to_str().unwrap()), "{trouble}");
    fs::remove_file(&home).unwrap();
    fs::rename(&moved, &home).unwrap();
    assert!(place.volumes.list(Scope::All).await.unwrap().iter().all(|listed| listed.trouble.is_none()));
}

#[tokio::test]
async fn a_deletion_that_was_cut_off_is_finished_later() {
    let place = Place::new().await;
    let home = place.made(1).await;
    fs::create_dir_all(home.join("a/b")).unwrap();
    // What a crash right after the rename leaves, and one in the middle of the removal.
    place.volumes.inner.discard(&home, &place.dir.path().join("homes/.trash")).unwrap();
    fs::create_dir_all(place.dir.path().join("homes/.trash/old/d1/x")).unwrap();
    assert_eq!(place.all().await, [], "half deleted is deleted");
    assert_eq!(place.trash(), 2);
    let again = DirectoryVolumes::new(place.dir.path());
    again.prepare().await.unwrap();
    codehub_testing::eventually("the trash is swept at start", async || place.trash() == 0).await;
}

#[tokio::test]
async fn hostile_trees_are_removed_and_links_are_not_followed() {
    let place = Place::new().await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    let home = place.made(1).await;
    symlink(outside.path(), home.join("link")).unwrap();
    symlink(outside.path().join("precious"), home.join("file-link")).unwrap();
    fs::create_dir_all(home.join("shut/inner/more")).unwrap();
    fs::write(home.join("shut/inner/file"), "x").unwrap();
    symlink(outside.path(), home.join("shut/inner/link")).unwrap();
    for name in ["d1", "d2", "volume"] {
        fs::create_dir_all(home.join(name).join("d1/d2")).unwrap();
    }
    for (path, mode) in [("shut/inner/more", 0), ("shut/inner", 0o500), ("shut", 0), ("", 0o500)] {
        fs::set_permissions(home.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    place.volumes.delete(&key(1), &Fence::open()).await.unwrap();
    assert_eq!(place.trash(), 0);
    assert_eq!(fs::read_to_string(outside.path().join("precious")).unwrap(), "x");
}

#[tokio::test]
async fn a_tree_deeper_than_any_path_is_removed() {
    let place = Place::new().await;
    let home = place.made(1).await;
    // Built by moving a tower under a new floor, since no path reaches down.
    let mut tower = home.join("t");
    fs::create_dir(&tower).unwrap();
    for _ in 0..300 {
        let floor = home.join("floor");
        fs::create_dir(&floor).unwrap();
        fs::rename(&tower, floor.join("a-name-long-enough-to-make-the-path-too-long")).unwrap();
        tower = home.join("t");
        fs::rename(&floor, &tower).unwrap();
    }
    place.volumes.delete(&key(1), &Fence::open()).await.unwrap();
    assert_eq!(place.trash(), 0);
}

#[tokio::test]
async fn a_missing_disk_is_an_error_and_not_an_empty_one() {
    let place = Place::new().await;
    place.made(1).await;
    let homes = place.dir.path().join("homes");
    let away = place.dir.path().join("away");
    fs::rename(&homes, &away).unwrap();
    let check = async |why: &str| {
        let of = [(key(1).owner, key(1).workspace)];
        assert!(place.volumes.list(Scope::All).await.is_err(), "{why}");
        assert!(place.volumes.list(Scope::Of(&of)).await.is_err(), "{why}");
        assert!(place.volumes.create(&key(2), 0).await.is_err(), "{why}");
        assert!(place.volumes.delete(&key(1), &Fence::open()).await.is_err(), "{why}");
        let error = place.volumes.ping().await.unwrap_err().to_string();
        assert!(error.contains("mounted"), "{error}");
    };
    check("the directory is not there").await;
    fs::create_dir(&homes).unwrap();
    check("an empty mount point").await;
    assert!(DirectoryVolumes::new(place.dir.path()).prepare().await.is_err(), "not taken for a first start");
    fs::remove_dir(&homes).unwrap();
    fs::rename(&away, &homes).unwrap();
    assert_eq!(place.all().await, [key(1)]);
}

#[tokio::test]
async fn a_file_in_the_way_is_said_so() {
    let place = Place::new().await;
    let home = place.made(1).await;
    fs::write(home.with_file_name("home-2"), "").unwrap();
    let error = place.volumes.create(&key(2), 0).await.unwrap_err().to_string();
    assert!(error.contains("not a directory"), "{error}");
}

/// Several servers share a data directory, and start at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn many_may_make_it_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let places: Vec<_> = (0..8).map(|_| DirectoryVolumes::new(dir.path())).collect();
        for prepared in futures::future::join_all(places.iter().map(DirectoryVolumes::prepare)).await {
            prepared.unwrap();
        }
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["homes"], "and nothing is left of those who came second");
        places[0].ping().await.unwrap();
    }
}
