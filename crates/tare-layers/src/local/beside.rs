//! A group for what runs beside a form on behalf of a run: the load process, and the tools that it starts. Anything
//! that these start in turn stays in it, even in its own session, and ends with it.

use crate::cgroup::hierarchies::{self, Hierarchy};
use crate::{cgroup, marks};
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use tare_core::fault::{Doing, Fault};

/// A group beside those of services; everything in it is killed when this is dropped.
#[derive(Debug)]
pub struct LoadGroup {
    directory: PathBuf,
}

impl LoadGroup {
    /// Makes one on behalf of a run, or none if the run has no directory on this machine.
    ///
    /// # Errors
    /// When no cgroups are mounted, or it cannot be made.
    pub fn make(run: &str) -> Result<Option<LoadGroup>, Fault> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !marks::run_directory(run).is_dir() {
            return Ok(None);
        }
        let hierarchies = hierarchies::hierarchies()?;
        let root = choose(&hierarchies).ok_or_else(|| {
            Fault::new("no cgroup hierarchy is mounted, so what the load's tools start could outlive them")
                .remedy("mount one: mount -t cgroup2 none /sys/fs/cgroup")
        })?;
        // No service can have this name.
        let name = format!(".load-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = root.root.join(cgroup::group_path(run, &name));
        cgroup::make_below_top(&directory)?;
        Ok(Some(LoadGroup { directory }))
    }

    /// Has the process that `command` will start begin in the group.
    ///
    /// # Errors
    /// When the group cannot be entered.
    pub fn take_in(&self, command: &mut Command) -> Result<(), Fault> {
        let path = self.directory.join("cgroup.procs");
        let entrance = OpenOptions::new().write(true).open(&path).doing(format!("open {}", path.display()))?;
        let enter = move || -> std::io::Result<()> { Ok(rustix::io::write(&entrance, b"0").map(drop)?) };
        // SAFETY: between fork and exec it makes one system call, on a descriptor that was opened before.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

impl Drop for LoadGroup {
    fn drop(&mut self) {
        // What is left of it is in the run's register, and the run reports it when it is closed.
        let _ = cgroup::remove_below_top(&self.directory);
    }
}

/// The hierarchy that lists processes and does the least otherwise: version 2, or one that controls nothing that the
/// load uses.
fn choose(hierarchies: &[Hierarchy]) -> Option<&Hierarchy> {
    let has = |hierarchy: &Hierarchy, name: &str| {
        hierarchy.controllers.as_ref().is_some_and(|controllers| controllers.iter().any(|c| c == name))
    };
    let second = hierarchies.iter().find(|hierarchy| hierarchy.controllers.is_none());
    let idle = || ["freezer", "devices", "pids"].iter().find_map(|name| hierarchies.iter().find(|h| has(h, name)));
    second.or_else(idle).or_else(|| hierarchies.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_one_that_does_least() {
        let of = |root: &str, controllers: Option<&str>| Hierarchy {
            root: PathBuf::from(root),
            controllers: controllers.map(|names| names.split(',').map(str::to_owned).collect()),
            whole: true,
        };
        let (memory, freezer, second) = (of("/m", Some("rw,memory")), of("/f", Some("rw,freezer")), of("/u", None));
        let chosen = |all: &[Hierarchy]| choose(all).map(|hierarchy| hierarchy.root.clone());
        assert_eq!(chosen(&[memory.clone(), freezer.clone(), second]), Some("/u".into()));
        assert_eq!(chosen(&[memory.clone(), freezer]), Some("/f".into()));
        assert_eq!(chosen(&[memory]), Some("/m".into()));
        assert_eq!(chosen(&[]), None);
    }
}
