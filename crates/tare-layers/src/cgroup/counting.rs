//! Whether the CPU time of a service's processes is still counted after they have ended, and what it means if not.

use super::hierarchies::Hierarchy;
use std::path::{Path, PathBuf};
use tare_core::fault::Fault;

/// Why no group counts a service's CPU time.
#[derive(Debug)]
pub(super) enum Uncounted {
    /// No hierarchy is mounted that would count it without distributing it.
    NoHierarchy,
    /// No group could be made in the one that exists.
    NotMade(Fault),
    /// Groups in the hierarchy mounted here do not count it.
    NoGroupDoes(PathBuf),
}

impl Uncounted {
    /// What was seen, what it means for the figures, and what to do about it.
    pub(super) fn fault(self) -> Fault {
        let (seen, remedy) = match self {
            Uncounted::NoHierarchy => (
                "no hierarchy of control groups is mounted that counts CPU time and does not share it out".to_owned(),
                "mount one: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified".to_owned(),
            ),
            Uncounted::NotMade(Fault { message, remedy, .. }) if remedy.is_empty() => {
                (message, "run Tare where it may make control groups, not in a container".to_owned())
            }
            Uncounted::NotMade(Fault { message, remedy, .. }) => (message, remedy),
            Uncounted::NoGroupDoes(root) => (
                format!("the control groups in {} do not count CPU time", root.display()),
                "boot a newer kernel: from Linux 4.15 on, all groups of version 2 count it".to_owned(),
            ),
        };
        let means = "what a service's process has used is lost when it ends, and a service that starts one for each \
                     request seems to use less CPU time than it does";
        Fault::new(format!("{seen}, so {means}")).remedy(remedy)
    }
}

/// The version 1 hierarchy that counts CPU time without distributing it. Where both versions are mounted, the one of
/// version 2 also counts it, or does so in its place.
pub(super) fn hierarchy_for_it(hierarchies: &[Hierarchy]) -> Option<PathBuf> {
    let has = |controllers: &[String], name: &str| controllers.iter().any(|controller| controller == name);
    // A new group of cpuset has no CPU, and admits nobody.
    let others = |controllers: &[String]| ["cpu", "cpuset"].iter().any(|name| has(controllers, name));
    let counts = |h: &&Hierarchy| h.controllers.as_ref().is_some_and(|c| has(c, "cpuacct") && !others(c));
    hierarchies.iter().find(counts).map(|h| h.root.clone())
}

/// Whether a cgroup counts the CPU time of everything that ever ran in it, which the telemetry then takes as its
/// service's: version 1 counts it in a hierarchy of its own, version 2 in every group.
pub(crate) fn counts_cpu(directory: &Path) -> bool {
    let of_all = || std::fs::read_to_string(directory.join("cpu.stat")).is_ok_and(|text| text.contains("usage_usec "));
    directory.join("cpuacct.usage").is_file() || of_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_counted_by_version_one_in_a_hierarchy_and_by_version_two_everywhere() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!counts_cpu(folder.path()));
        std::fs::write(folder.path().join("cpu.stat"), "nr_periods 0\n").unwrap();
        assert!(!counts_cpu(folder.path()), "a hierarchy of version 1 for quotas alone");
        std::fs::write(folder.path().join("cpu.stat"), "usage_usec 2500000\nuser_usec 1\n").unwrap();
        assert!(counts_cpu(folder.path()));
        std::fs::remove_file(folder.path().join("cpu.stat")).unwrap();
        std::fs::write(folder.path().join("cpuacct.usage"), "1500000000\n").unwrap();
        assert!(counts_cpu(folder.path()));
    }

    #[test]
    fn a_hierarchy_that_shares_out_or_lets_nobody_in_is_not_joined_to_count() {
        let of = |controllers: &[&str]| Hierarchy {
            root: PathBuf::from("/").join(controllers.join(",")),
            controllers: Some(controllers.iter().map(|name| (*name).to_owned()).collect()),
            whole: true,
        };
        let second = Hierarchy { root: PathBuf::from("/unified"), controllers: None, whole: true };
        let all = [of(&["memory"]), of(&["cpu", "cpuacct"]), of(&["cpuset", "cpuacct"]), second];
        assert_eq!(hierarchy_for_it(&all), None);
        assert_eq!(hierarchy_for_it(&[of(&["cpu"]), of(&["cpuacct"])]), Some("/cpuacct".into()));
    }

    #[test]
    fn what_is_not_counted_is_said_with_what_it_means_and_what_to_do() {
        let refused = || Fault::new("could not make the cgroup /x: Read-only file system");
        for (why, seen, remedy) in [
            (Uncounted::NoHierarchy, "no hierarchy", "mount -t cgroup2"),
            (Uncounted::NotMade(refused()), "could not make the cgroup /x", "not in a container"),
            (Uncounted::NotMade(refused().remedy("tare clean")), "could not make the cgroup /x", "tare clean"),
            (Uncounted::NoGroupDoes("/u".into()), "in /u do not count", "Linux 4.15"),
        ] {
            let said = why.fault().to_string();
            assert!(said.contains(seen), "{said}");
            assert!(said.contains("seems to use less CPU time") && said.contains(remedy), "{said}");
        }
    }
}
