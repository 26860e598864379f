//! The folders that serve as volumes of services.

use super::confinement::check_user;
use super::content;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::host::ServiceStart;
use tare_core::workload::{Service, Volume};

/// Below a host's directory: where the volumes of all its services are, and the files that name users and services. It
/// is not next to what is made for a process, which is removed with the process: what a service leaves here outlives
/// it. No service can have this name.
pub(super) const VOLUMES: &str = ".volumes";

/// Among them: what services share, in a folder for each volume and tile.
const SHARED: &str = ".shared";

/// A folder that serves as a volume of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeFolder {
    /// The path inside the service's root.
    pub(crate) inside: String,
    /// The path on the host.
    pub(crate) folder: PathBuf,
    /// Whether others may change what is in it while the service is being started.
    pub(crate) shared: bool,
    /// Whether the service may only read it.
    pub(crate) read_only: bool,
}

/// Where the volumes are of a service, in the order of their paths inside, or of the resource probe that is started in
/// its place under another name: that one gets no shared volume, since the first service begins it.
pub(crate) fn volume_folders(scratch: &Path, name: &str, start: &ServiceStart) -> Vec<VolumeFolder> {
    let all = scratch.join(VOLUMES);
    let of = |(index, (inside, volume)): (usize, (&String, &Volume))| {
        let shared = volume.shared.as_ref().filter(|_| name == start.instance);
        let folder = match shared {
            Some(shared) => all.join(SHARED).join(format!("{}.{}", shared.name, start.service.tile())),
            // A number, since the path inside may contain what a file name cannot.
            None => all.join(name).join(index.to_string()),
        };
        let read_only = shared.is_some_and(|shared| shared.read_only);
        VolumeFolder { inside: inside.clone(), folder, shared: shared.is_some(), read_only }
    };
    start.service.volumes.iter().enumerate().map(of).collect()
}

/// Makes a directory for each volume, owned by the service's user. An existing one stays as it is. In each form this is
/// the first thing done for a service, so users that no service may have are refused here.
///
/// A service that runs as its image does finds in a new one what its image holds there. The first service to start
/// begins a shared volume: only while none of those that share it runs is it safe to write to it from outside.
pub(crate) fn make_volumes(volumes: &[VolumeFolder], service: &Service, bundle: &Path) -> Result<(), Fault> {
    let user = service.user;
    check_user(user, service.as_image)?;
    for VolumeFolder { inside, folder, shared, .. } in volumes {
        if let Some(above) = folder.parent().filter(|_| service.as_image || *shared) {
            // What a root user in it makes may have set-user-id bits, and its owner may be this machine's root.
            let make = || {
                fs::create_dir_all(above)?;
                fs::set_permissions(above, Permissions::from_mode(0o700))
            };
            make().doing(format!("make {}", above.display()))?;
        }
        if folder.is_dir() {
            continue;
        }
        let make = || {
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
            std::os::unix::fs::chown(folder, Some(user.0), Some(user.1))
        };
        make().doing(format!("make the volume for {inside}"))?;
        if service.as_image {
            let most = service.volumes.get(inside).map_or(u64::MAX, |volume| volume.bytes);
            content::begin_with(bundle, inside, folder, most).inspect_err(|_| {
                // Half a volume must not be taken for one that was begun; the first failure is the one to report.
                let _ = tare_removal::remove_tree(folder);
            })?;
        }
    }
    Ok(())
}

/// Removes the volumes of all services of a host, or only of the one called `name`.
pub(crate) fn remove_volumes(scratch: &Path, name: Option<&str>) -> Result<(), Fault> {
    let all = scratch.join(VOLUMES);
    let folder = name.map_or(all.clone(), |name| all.join(name));
    match tare_removal::remove_tree(&folder) {
        Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.doing(format!("remove {}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::os::unix::fs::MetadataExt;

    fn start(name: &str, volumes: &[(&str, Volume)]) -> ServiceStart {
        let volumes = volumes.iter().map(|(path, volume)| ((*path).to_owned(), volume.clone())).collect();
        ServiceStart::on(Service { volumes, user: (0, 0), as_image: true, ..sample::service(name) }, None)
    }

    #[test]
    fn who_states_the_same_name_has_the_same_folder() {
        let shared = |read_only| Volume::shared("site", 1, read_only);
        let web = start("web", &[("/a", Volume::of(1)), ("/srv", shared(true))]);
        let app = start("app", &[("/var/www", shared(false))]);
        let folders = |name, start| volume_folders(Path::new("/s"), name, start);
        let of_web = folders("web", &web);
        let places: Vec<&Path> = of_web.iter().map(|volume| volume.folder.as_path()).collect();
        assert_eq!(places, ["/s/.volumes/web/0", "/s/.volumes/.shared/site.1"].map(Path::new));
        let kinds: Vec<(bool, bool)> = of_web.iter().map(|volume| (volume.shared, volume.read_only)).collect();
        assert_eq!(kinds, [(false, false), (true, true)]);
        let of_app = folders("app", &app);
        assert_eq!((&of_app[0].folder, of_app[0].read_only), (&of_web[1].folder, false));
        let probe = folders("web.resources", &web);
        assert_eq!(probe[1].folder, Path::new("/s/.volumes/web.resources/1"));
        assert!(!probe[1].shared && !probe[1].read_only, "it begins nothing that others have");
    }

    #[test]
    fn the_first_service_begins_what_is_shared_and_later_ones_write_nothing_to_it() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let stage = tempfile::tempdir().unwrap();
        let bundle = |name: &str, file: &str| {
            let data = stage.path().join(name).join("data");
            fs::create_dir_all(&data).unwrap();
            fs::write(data.join(file), "x").unwrap();
            stage.path().join(name)
        };
        let (one, two) = (bundle("one", "first"), bundle("two", "second"));
        let make = |name: &str, bytes: u64, bundle: &Path| {
            let start = start(name, &[("/data", Volume::shared("site", bytes, false))]);
            let folders = volume_folders(&stage.path().join("scratch"), name, &start);
            make_volumes(&folders, &start.service, bundle).map(|()| folders[0].folder.clone())
        };
        assert!(make("small", 1, &one).is_err(), "it does not fit");
        let folder = make("one", 2, &one).unwrap();
        assert!(folder.join("first").exists(), "nothing is left of what did not fit");
        // As a service may leave it: what stands there leads out of the volume.
        let outside = stage.path().join("outside");
        std::os::unix::fs::symlink(&outside, folder.join("second")).unwrap();
        assert_eq!(make("two", 2, &two).unwrap(), folder);
        assert!(!outside.exists(), "a link of a service was followed");
        let above = fs::metadata(folder.parent().unwrap()).unwrap();
        assert_eq!(above.mode() & 0o7777, 0o700);
        remove_volumes(&stage.path().join("scratch"), None).unwrap();
        assert!(!folder.exists());
    }
}
