//! The limits of this process's own cgroups, as far as they are visible from inside.

use crate::root::Root;
use std::path::{Path, PathBuf};

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    /// There is one, but it cannot be seen from here.
    Hidden,
    /// There is none.
    None,
    /// This much.
    At(f64),
}

/// The path of this process in the tree of a controller, from `/proc/self/cgroup`, and whether that is version 2.
fn own_path(root: &Root, controller: &str) -> Option<(bool, String)> {
    let text = root.text("proc/self/cgroup")?;
    let mut unified = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        if controllers.split(',').any(|name| name == controller) {
            return Some((false, path.to_owned()));
        }
        if controllers.is_empty() {
            unified = Some((true, path.to_owned()));
        }
    }
    unified
}

/// The directories whose limits apply to this process: its own and those above, as far as they are visible. A container
/// without a cgroup namespace reads its path on the host, but sees its own directory as the top.
fn binding(root: &Root, controller: &str, unified: bool, path: &str) -> Vec<PathBuf> {
    let top = match unified {
        true if root.has("sys/fs/cgroup/unified/cgroup.controllers") => PathBuf::from("sys/fs/cgroup/unified"),
        true => PathBuf::from("sys/fs/cgroup"),
        false => Path::new("sys/fs/cgroup").join(controller),
    };
    let own = top.join(path.trim_start_matches('/'));
    if !root.has(&own) {
        return vec![top];
    }
    own.ancestors().take_while(|directory| directory.starts_with(&top)).map(Path::to_path_buf).collect()
}

/// Whether a visible group of version 2 lacks a controller, and so has no limit of its own: the groups above have not
/// delegated it.
fn is_switched_off(root: &Root, directory: &Path, controller: &str) -> bool {
    let handed_down = root.text(directory.join("cgroup.controllers"));
    handed_down.is_some_and(|names| names.split(' ').all(|name| name != controller))
}

fn smallest(root: &Root, controller: &str, read: impl Fn(&Path, bool) -> Option<Option<f64>>) -> Limit {
    let Some((unified, path)) = own_path(root, controller) else { return Limit::None };
    let directories = binding(root, controller, unified, &path);
    let seen: Vec<Option<f64>> = directories.iter().filter_map(|directory| read(directory, unified)).collect();
    let limit = seen.iter().flatten().copied().reduce(f64::min);
    match limit {
        Some(limit) => Limit::At(limit),
        // The top of the tree has no limit, and in version 2 no file for one.
        None if !seen.is_empty() || path == "/" => Limit::None,
        None if unified && is_switched_off(root, &directories[0], controller) => Limit::None,
        None => Limit::Hidden,
    }
}

/// The memory limit, bytes.
pub(super) fn memory(root: &Root) -> Limit {
    smallest(root, "memory", |directory, unified| {
        let name = if unified { "memory.max" } else { "memory.limit_in_bytes" };
        let text = root.text(directory.join(name))?;
        // Version 1 writes "no limit" as the greatest whole number of pages.
        Some(text.parse::<u64>().ok().filter(|bytes| *bytes < 1 << 60).map(|bytes| bytes as f64))
    })
}

/// CPU time per second of real time, in CPUs.
pub(super) fn cpu_quota(root: &Root) -> Limit {
    smallest(root, "cpu", |directory, unified| {
        let (quota, period) = if unified {
            let text = root.text(directory.join("cpu.max"))?;
            let (quota, period) = text.split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        } else {
            (root.text(directory.join("cpu.cfs_quota_us"))?, root.text(directory.join("cpu.cfs_period_us"))?)
        };
        let (quota, period) = (quota.parse::<f64>().ok(), period.parse::<f64>().ok()?);
        Some(quota.filter(|quota| *quota > 0.0 && period > 0.0).map(|quota| quota / period))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tare_testkit::files::tree(files);
        let root = Root::at(directory.path());
        (directory, root)
    }

    #[test]
    fn the_tightest_limit_above_a_process_binds() {
        let (_keep, root) = tree(&[
            ("proc/self/cgroup", "0::/tare-abc/redis\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/tare-abc/memory.max", "536870912\n"),
            ("sys/fs/cgroup/tare-abc/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/tare-abc/redis/memory.max", "max\n"),
            ("sys/fs/cgroup/tare-abc/redis/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(memory(&root), Limit::At(536_870_912.0));
        assert_eq!(cpu_quota(&root), Limit::At(1.5));
    }

    /// What a plain process without a quota finds on Debian 12 with systemd, where nobody else asks for the controller.
    #[test]
    fn without_the_controller_there_is_no_limit() {
        let (_keep, root) = tree(&[
            ("proc/self/cgroup", "0::/tare-abc/redis\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n"),
            ("sys/fs/cgroup/tare-abc/cgroup.controllers", "memory pids\n"),
            ("sys/fs/cgroup/tare-abc/redis/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/tare-abc/redis/memory.max", "536870912\n"),
        ]);
        assert_eq!(memory(&root), Limit::At(536_870_912.0));
        assert_eq!(cpu_quota(&root), Limit::None);
    }

    #[test]
    fn version_1_is_read_beside_version_2_and_without_a_namespace() {
        let (_keep, root) = tree(&[
            ("proc/self/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(memory(&root), Limit::At(268_435_456.0));
        assert_eq!(cpu_quota(&root), Limit::None);
    }

    #[test]
    fn what_cannot_be_seen_is_not_taken_for_no_limit() {
        let (_keep, root) = tree(&[("proc/self/cgroup", "0::/somewhere\n")]);
        assert_eq!(memory(&root), Limit::Hidden);
        let (_keep, root) = tree(&[("proc/self/cgroup", "0::/\n")]);
        assert_eq!(memory(&root), Limit::None);
        let (_keep, root) = tree(&[]);
        assert_eq!(memory(&root), Limit::None, "a guest whose kernel has no cgroups");
    }
}
