//! The mounted control group hierarchies, versions 1 and 2.

use std::fs;
use std::io;
use std::path::PathBuf;
use tare_core::fault::{Doing, Fault};

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// Where it is mounted.
    pub(crate) root: PathBuf,
    /// Its controllers in version 1; `None` means version 2.
    pub(crate) controllers: Option<Vec<String>>,
    /// Whether the mount begins at the hierarchy's root, as far as this process can see; another mount shows only a
    /// part.
    pub(crate) whole: bool,
}

/// The number of the cgroup namespace in which the machine starts (`PROC_CGROUP_INIT_INO`).
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// The hierarchies that are mounted on this machine.
pub(crate) fn hierarchies() -> Result<Vec<Hierarchy>, Fault> {
    let text = fs::read_to_string("/proc/self/mountinfo").doing("list the mounts of this machine")?;
    Ok(hierarchies_of(&text))
}

/// The same, from what /proc says about a process's mounts.
fn hierarchies_of(mounts: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for hierarchy in mounts.lines().filter_map(parse_mount) {
        // The same hierarchy may be mounted in several places, and somebody may have bound a part of it elsewhere.
        match found.iter_mut().find(|known| known.controllers == hierarchy.controllers) {
            Some(known) if hierarchy.whole && !known.whole => *known = hierarchy,
            Some(_) => {}
            None => found.push(hierarchy),
        }
    }
    found
}

fn parse_mount(line: &str) -> Option<Hierarchy> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mount: Vec<&str> = mount.split(' ').collect();
    let [_, _, _, within, at, ..] = mount[..] else { return None };
    let file_system: Vec<&str> = file_system.split(' ').collect();
    let [kind, _, options] = file_system[..] else { return None };
    let controllers = match kind {
        "cgroup2" => None,
        // It may be read-only as a whole; that is an option, not a controller.
        "cgroup" => Some(options.split(',').filter(|word| !["rw", "ro"].contains(word)).map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Hierarchy { root: PathBuf::from(at.replace("\\040", " ")), controllers, whole: within == "/" })
}

/// The root of the version 2 hierarchy, for programs that run for every process of this machine.
///
/// # Errors
/// When none is mounted, or this process sees only a part of it, as in a container.
pub(crate) fn root_of_all() -> io::Result<fs::File> {
    let hierarchies = hierarchies().map_err(io::Error::other)?;
    let root = hierarchies.into_iter().find(|hierarchy| hierarchy.controllers.is_none());
    let root = root.ok_or_else(|| io::Error::other("no cgroup hierarchy of version 2 is mounted"))?;
    // A kernel that does not report its namespace has only the first.
    let elsewhere =
        fs::read_link("/proc/self/ns/cgroup").is_ok_and(|namespace| namespace.as_os_str() != FIRST_NAMESPACE);
    if elsewhere || !root.whole {
        return Err(io::Error::other("this process sees only a part of the machine's cgroups"));
    }
    fs::File::open(root.root)
}

/// The root of the hierarchy that controls memory, if one is mounted.
pub(crate) fn memory_root() -> Result<Option<PathBuf>, Fault> {
    let (first, second): (Vec<Hierarchy>, _) = hierarchies()?.into_iter().partition(|h| h.controllers.is_some());
    let controls = |h: &Hierarchy| h.controllers.as_ref().is_some_and(|all| all.iter().any(|name| name == "memory"));
    Ok(first.into_iter().find(controls).or_else(|| second.into_iter().next()).map(|h| h.root))
}

/// Mounts the version 2 hierarchy at its usual place if no hierarchy is mounted: what a guest's first process does.
///
/// # Errors
/// When the kernel has no cgroups or this process may not mount.
pub fn mount_unified() -> Result<(), Fault> {
    if !hierarchies()?.is_empty() {
        return Ok(());
    }
    let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
    rustix::mount::mount("none", "/sys/fs/cgroup", "cgroup2", flags, None).doing("mount cgroups on /sys/fs/cgroup")
}

/// The versions in use, for the record: "1", "2" or "1+2".
pub(crate) fn versions() -> String {
    let hierarchies = hierarchies().unwrap_or_default();
    let first = hierarchies.iter().any(|h| h.controllers.as_ref().is_some_and(|c| c.iter().any(|c| c == "memory")));
    let second = hierarchies.iter().any(|h| h.controllers.is_none());
    match (first, second) {
        (true, true) => "1+2".to_owned(),
        (true, false) => "1".to_owned(),
        (false, true) => "2".to_owned(),
        (false, false) => "none".to_owned(),
    }
}

/// Where the version 2 hierarchy is mounted.
pub(crate) fn unified_root() -> Result<Option<PathBuf>, Fault> {
    Ok(hierarchies()?.into_iter().find(|hierarchy| hierarchy.controllers.is_none()).map(|hierarchy| hierarchy.root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_recognised_by_their_mounts() {
        let first =
            parse_mount("32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct").unwrap();
        assert_eq!(first.controllers.unwrap(), ["cpu", "cpuacct"]);
        let second = parse_mount("41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate").unwrap();
        assert_eq!((second.root, second.controllers), (PathBuf::from("/sys/fs/cgroup"), None));
        assert_eq!(parse_mount("31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755"), None);
    }

    #[test]
    fn a_mount_of_the_whole_hierarchy_is_taken_before_that_of_a_part() {
        let mounts = "\
            31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
            60 23 0:38 /kubepods/pod7 /srv/part rw shared:7 master:3 - cgroup2 cgroup2 rw,nsdelegate\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
            61 23 0:38 / /srv/late\\040one rw - cgroup2 cgroup2 rw\n\
            32 31 0:29 /docker/7 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n\
            a line of another kind\n";
        let of = |root: &str, controllers: Option<&[&str]>, whole| Hierarchy {
            root: PathBuf::from(root),
            controllers: controllers.map(|all| all.iter().map(|one| (*one).to_owned()).collect()),
            whole,
        };
        let both =
            [of("/sys/fs/cgroup/unified", None, true), of("/sys/fs/cgroup/cpu", Some(&["cpu", "cpuacct"]), false)];
        assert_eq!(hierarchies_of(mounts), both);
    }
}
