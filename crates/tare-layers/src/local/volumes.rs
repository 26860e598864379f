//! The folders that serve as volumes of services.

use super::confinement::check_user;
use super::content;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::host::ServiceStart;
use tare_core::workload::Service;

/// Below a host's directory: where the volumes of all its services are, and the files that name users and services. It
/// is not next to what is made for a process, which is removed with the process: what a service leaves here outlives
/// it. No service can have this name.
pub(super) const VOLUMES: &str = ".volumes";

/// Where a service's volumes are: (path inside, path on the host).
pub(crate) fn volume_folders(scratch: &Path, name: &str, start: &ServiceStart) -> Vec<(String, PathBuf)> {
    let folder = scratch.join(VOLUMES).join(name);
    // A number, since the path inside may contain what a file name cannot.
    let paths = start.service.volumes.keys().enumerate();
    paths.map(|(index, inside)| (inside.clone(), folder.join(index.to_string()))).collect()
}

/// Makes a directory for each volume, owned by the service's user. An existing one stays as it is. In each form this is
/// the first thing done for a service, so users that no service may have are refused here.
///
/// A service that runs as its image does finds in a new one what its image holds there.
pub(crate) fn make_volumes(folders: &[(String, PathBuf)], service: &Service, bundle: &Path) -> Result<(), Fault> {
    let user = service.user;
    check_user(user, service.as_image)?;
    if let Some(own) = folders.first().and_then(|(_, folder)| folder.parent()).filter(|_| service.as_image) {
        // What its root user makes may have set-user-id bits, and its owner may be this machine's root.
        let make = || {
            fs::create_dir_all(own)?;
            fs::set_permissions(own, Permissions::from_mode(0o700))
        };
        make().doing(format!("make {}", own.display()))?;
    }
    for (inside, folder) in folders.iter().filter(|(_, folder)| !folder.is_dir()) {
        let make = || {
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
            std::os::unix::fs::chown(folder, Some(user.0), Some(user.1))
        };
        make().doing(format!("make the volume for {inside}"))?;
        if service.as_image {
            let most = service.volumes.get(inside).copied().unwrap_or(u64::MAX);
            content::begin_with(bundle, inside, folder, most)?;
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
