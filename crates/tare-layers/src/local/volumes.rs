//! The folders that are the volumes of services.

use super::confinement::check_user;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::host::ServiceStart;

/// Below a host's directory: where the volumes of all its services stand, and what names their users. Not beside what
/// is made for a process, which goes with it: what a service has left there outlives it. No service can be called so.
pub(super) const VOLUMES: &str = ".volumes";

/// Where the volumes of a service stand: (path inside, path on the host).
pub(crate) fn volume_folders(scratch: &Path, name: &str, start: &ServiceStart) -> Vec<(String, PathBuf)> {
    let folder = scratch.join(VOLUMES).join(name);
    // A number, for the path inside may hold what a file's name cannot.
    let paths = start.service.volumes.keys().enumerate();
    paths.map(|(index, inside)| (inside.clone(), folder.join(index.to_string()))).collect()
}

/// Makes a directory for each volume, owned by the service's user. One that is there stays as it is. It is the first
/// thing that is done for a service in each form, so users that no service may have are refused here.
pub(crate) fn make_volumes(folders: &[(String, PathBuf)], user: (u32, u32)) -> Result<(), Fault> {
    check_user(user)?;
    for (inside, folder) in folders.iter().filter(|(_, folder)| !folder.is_dir()) {
        let make = || {
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
            std::os::unix::fs::chown(folder, Some(user.0), Some(user.1))
        };
        make().doing(format!("make the volume for {inside}"))?;
    }
    Ok(())
}

/// Removes the volumes of all services of a host, or of those called `name`.
pub(crate) fn remove_volumes(scratch: &Path, name: Option<&str>) -> Result<(), Fault> {
    let all = scratch.join(VOLUMES);
    let folder = name.map_or(all.clone(), |name| all.join(name));
    match tare_removal::remove_tree(&folder) {
        Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.doing(format!("remove {}", folder.display())),
    }
}
