//! The contract of the ports, by real processes and directories.

use std::sync::Arc;

use async_trait::async_trait;
use codehub_archive::{ObjectArchives, PackOptions};

use super::*;
use crate::{
    archives::StoredArchives,
    contract::{Hands, Harness, contract_suite},
    homes::DirectoryTransfer,
};

contract_suite!(super::harness);
contract_suite!(lines super::harness);

async fn harness() -> Harness {
    let place = Place::new(web()).await;
    // The place's own workspace is none of the suite's.
    fs::remove_dir_all(place.dir.path().join("homes/users")).unwrap();
    let data = place.dir.path();
    let homes = Arc::new(DirectoryTransfer::new(data, PackOptions::default()));
    let objects = ObjectArchives::open_local(&data.join("archives"), "").unwrap();
    Harness {
        instances: Arc::new(runtime(&place).await),
        volumes: Arc::new(DirectoryVolumes::new(data)),
        archives: Arc::new(StoredArchives::new("files", objects, homes.clone())),
        homes: Some(homes),
        image_ref: String::new(),
        world: Box::new(Machine(place)),
    }
}

/// Every workspace of the suite has an owner of its own.
async fn runtime(place: &Place) -> ProcessRuntime {
    let config = ProcessConfig { unsandboxed_users: true, ..place.config() };
    ProcessRuntime::open(config).await.unwrap()
}

struct Machine(Place);

impl Machine {
    fn home(&self, volume: &VolumeKey) -> PathBuf {
        home_dir(self.0.dir.path(), volume)
    }
}

#[async_trait]
impl Hands for Machine {
    async fn another(&self) -> Arc<dyn Instances> {
        Arc::new(runtime(&self.0).await)
    }

    async fn kill(&self, id: WorkspaceId) {
        let boot = super::super::proc_scan::boot().unwrap();
        let main = |it: &Process| it.is_main() && it.marks.is_some_and(|marks| marks.workspace == id);
        for process in self.0.ours().into_iter().filter(main) {
            process.identity(&boot).signal(&boot, rustix::process::Signal::KILL).unwrap();
        }
    }

    async fn write(&self, volume: &VolumeKey, text: &str) {
        fs::write(self.home(volume).join(text.replace(' ', "-")), text).unwrap();
    }

    async fn read(&self, volume: &VolumeKey) -> String {
        let mut all: Vec<String> = fs::read_dir(self.home(volume))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| format!("{:?} {:?}", path.file_name(), fs::read_to_string(&path)))
            .collect();
        all.sort();
        all.join("\n")
    }

    async fn cut_off(&self, id: WorkspaceId, off: bool) -> bool {
        let data = self.0.dir.path();
        let (record, marker) = (data.join(format!("instances/{id}.json")), data.join("homes/.codehub"));
        let aside = |path: &Path| path.with_extension("aside");
        for path in [&record, &marker] {
            if off && path.exists() {
                fs::rename(path, aside(path)).unwrap();
            } else if !off && aside(path).exists() {
                fs::remove_dir(path).ok();
                fs::rename(aside(path), path).unwrap();
            }
        }
        if off && aside(&record).exists() {
            // What cannot be read is not what is not there.
            fs::create_dir(&record).unwrap();
        }
        true
    }
}
