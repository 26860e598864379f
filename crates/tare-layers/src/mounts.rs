//! Mounts below the directories of runs, and removing a directory that has none below it.

use std::fs;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// Run and path of every mount below runs' directories, most recently mounted first.
pub(crate) fn mounts_below(directories: &[(String, PathBuf)]) -> Result<Vec<(String, String)>, Fault> {
    let text = fs::read_to_string("/proc/self/mountinfo").doing("list the mounts of this machine")?;
    let mut found: Vec<(String, String)> = text.lines().filter_map(|line| marked_mount(line, directories)).collect();
    found.reverse();
    Ok(found)
}

fn marked_mount(line: &str, directories: &[(String, PathBuf)]) -> Option<(String, String)> {
    let path = line.split(' ').nth(4)?.replace("\\040", " ");
    let (run, _) = directories.iter().find(|(_, directory)| Path::new(&path).starts_with(directory))?;
    Some((run.clone(), path))
}

/// Removes a tree; one that is already gone is no error.
pub(crate) fn remove_tree(path: &Path) -> Result<(), Fault> {
    match tare_removal::remove_tree(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).doing(format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a directory, unless something is mounted below it: that would be emptied too, whoever owns it.
pub(crate) fn remove_whole(path: &Path, remove: impl FnOnce(&Path) -> Result<(), Fault>) -> Result<(), Fault> {
    match mounts_below(&[(String::new(), path.to_owned())])?.first() {
        Some((_, mounted)) => Err(Fault::new(format!("{mounted} is a mount, so {} is not removed", path.display()))
            .remedy(format!("umount {mounted}"))),
        None => remove(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::run_directory;

    #[test]
    fn only_mounts_below_a_run_are_recognised() {
        let run = || "a1b2c3".to_owned();
        let roots = [(run(), run_directory("a1b2c3")), (run(), PathBuf::from("/data/scratch/a1b2c3"))];
        let line = "30 1 0:5 / /run/tare/a1b2c3/my\\040root rw - tmpfs tmpfs rw";
        assert_eq!(marked_mount(line, &roots), Some(("a1b2c3".into(), "/run/tare/a1b2c3/my root".into())));
        let elsewhere = marked_mount("30 1 0:5 / /data/scratch/a1b2c3/v rw - ext4 ext4 rw", &roots);
        assert_eq!(elsewhere, Some(("a1b2c3".into(), "/data/scratch/a1b2c3/v".into())));
        let others = ["/run/tare", "/run/tare/notarun", "/run/tarea1b2c3", "/", "/run/a1b2c3", "/data/scratch/thesis"];
        for path in others {
            assert_eq!(marked_mount(&format!("30 1 0:5 / {path} rw - tmpfs tmpfs rw"), &roots), None, "{path}");
        }
    }
}
