//! Controllers of version 2 cgroups: enabled from the machine's root for our groups, and disabled again where nobody
//! else has come to need them.
//!
//! An enabled controller costs everybody who runs in a group of the machine, so it is not left behind; disabling one
//! removes the limits of all groups, so it stays where somebody else's group has any.

use super::{keep_added, note_added};
use std::fs;
use std::io;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// The file of a group that lists the controllers enabled for the groups below it.
pub(super) const HANDED_DOWN: &str = "cgroup.subtree_control";

/// The settings that a controller adds to a group, and the value of each when nobody has set it.
const SETTINGS: [(&str, &str, &str); 21] = [
    ("memory", "memory.max", "max"),
    ("memory", "memory.high", "max"),
    ("memory", "memory.min", "0"),
    ("memory", "memory.low", "0"),
    ("memory", "memory.oom.group", "0"),
    ("memory", "memory.swap.max", "max"),
    ("memory", "memory.swap.high", "max"),
    ("memory", "memory.zswap.max", "max"),
    ("cpu", "cpu.weight", "100"),
    ("cpu", "cpu.max", "max 100000"),
    ("cpu", "cpu.max.burst", "0"),
    ("cpu", "cpu.idle", "0"),
    ("cpu", "cpu.uclamp.min", "0.00"),
    ("cpu", "cpu.uclamp.max", "max"),
    ("cpuset", "cpuset.cpus", ""),
    ("cpuset", "cpuset.mems", ""),
    ("cpuset", "cpuset.cpus.partition", "member"),
    ("io", "io.max", ""),
    ("io", "io.weight", "default 100"),
    ("io", "io.latency", ""),
    ("pids", "pids.max", "max"),
];

fn handed_down(group: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(group.join(HANDED_DOWN))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Enables controllers of the machine's root for the groups below it, on behalf of a run.
///
/// # Errors
/// When this process may not, or the root does not have them.
pub(crate) fn hand_down(run: &str, root: &Path, wanted: &[&str]) -> Result<(), Fault> {
    let file = root.join(HANDED_DOWN);
    let doing = || format!("hand controllers down in {}", file.display());
    let now = handed_down(root).doing(doing())?;
    let missing: Vec<&str> = wanted.iter().copied().filter(|name| !now.iter().any(|there| there == name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    note_added(run, &file, &missing)?;
    let words: Vec<String> = missing.iter().map(|name| format!("+{name}")).collect();
    fs::write(&file, words.join(" ")).doing(doing())
}

/// Records that somebody is about to enable controllers on behalf of a run, and which ones these could be.
///
/// # Errors
/// When nothing can be recorded.
pub(crate) fn intend(run: &str, root: &Path) -> Result<(), Fault> {
    let read = || -> io::Result<Vec<String>> {
        let (all, now) = (fs::read_to_string(root.join("cgroup.controllers"))?, handed_down(root)?);
        Ok(all.split_whitespace().filter(|name| !now.iter().any(|there| there == name)).map(str::to_owned).collect())
    };
    let missing = read().doing(format!("see what is handed down in {}", root.display()))?;
    if missing.is_empty() {
        return Ok(());
    }
    note_added(run, &root.join(HANDED_DOWN), &missing.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Records which of them it has enabled.
///
/// # Errors
/// See [`intend`].
pub(crate) fn settle(run: &str, root: &Path) -> Result<(), Fault> {
    let now = handed_down(root).doing(format!("see what is handed down in {}", root.display()))?;
    keep_added(run, &root.join(HANDED_DOWN), |name| now.iter().any(|there| there == name))
}

/// Disables what was enabled for a run, according to its file, unless somebody else needs it.
///
/// # Errors
/// When the kernel refuses for any reason other than that it is needed.
pub(super) fn take_back(file: &Path, added: &[&str]) -> Result<(), Fault> {
    let Some(root) = file.parent().filter(|root| root.is_dir()) else { return Ok(()) };
    let now = handed_down(root).doing(format!("read {}", file.display()))?;
    for name in added.iter().filter(|name| now.iter().any(|there| there == *name) && !is_needed(root, name)) {
        match fs::write(file, format!("-{name}")) {
            // Somebody has enabled it further down.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            written => written.doing(format!("take the controller {name} back in {}", file.display()))?,
        }
    }
    Ok(())
}

/// Whether a group below has set something that only this controller keeps. What cannot be read counts as needed.
fn is_needed(root: &Path, controller: &str) -> bool {
    let Ok(entries) = fs::read_dir(root) else { return true };
    let groups = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let settings = || SETTINGS.iter().filter(|(of, ..)| *of == controller);
    let known = settings().next().is_some();
    let set = |group: &Path| {
        let differs = |(_, name, usual): &(&str, &str, &str)| match fs::read_to_string(group.join(name)) {
            Ok(value) => value.trim() != *usual,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if known { settings().any(differs) } else { has_limit(group, controller) }
    };
    groups.map(|entry| entry.path()).any(|group| set(&group))
}

/// Some kernels write "no limit" as the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// Whether a group has a limit from a controller that is not in the table, such as a number in `hugetlb.2MB.max`.
fn has_limit(group: &Path, controller: &str) -> bool {
    let Ok(entries) = fs::read_dir(group) else { return true };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut limits = names.filter(|name| {
        name.strip_prefix(controller).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".max"))
    });
    limits.any(|name| match fs::read_to_string(group.join(name)) {
        Ok(text) => text.split([' ', '=', '\n']).any(|word| word.parse().is_ok_and(|limit: u64| limit < NO_LIMIT)),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::hierarchies;
    use crate::run_mark::RunMark;

    #[test]
    fn a_controller_is_needed_where_a_group_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join("users.slice");
        fs::create_dir(&group).unwrap();
        fs::write(folder.path().join(HANDED_DOWN), "cpu memory\n").unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(group.join("cpu.weight"), "100\n").unwrap();
        let needed = || ["memory", "cpu"].map(|name| is_needed(folder.path(), name));
        assert_eq!(needed(), [false, false], "nothing is set");
        fs::write(group.join("memory.max"), "1048576\n").unwrap();
        assert_eq!(needed(), [true, false]);
        fs::write(group.join("cpu.weight"), "50\n").unwrap();
        assert_eq!(needed(), [true, true]);
        let others = || ["hugetlb", "rdma"].map(|name| is_needed(folder.path(), name));
        fs::write(group.join("hugetlb.2MB.max"), "max\n").unwrap();
        fs::write(group.join("hugetlb.1GB.max"), "9223372036854771712\n").unwrap();
        fs::write(group.join("rdma.max"), "mlx4_0 hca_handle=max hca_object=max\n").unwrap();
        fs::write(group.join("hugetlb.2MB.current"), "4096\n").unwrap();
        assert_eq!(others(), [false, false]);
        fs::write(group.join("hugetlb.2MB.max"), "0\n").unwrap();
        fs::write(group.join("rdma.max"), "mlx4_0 hca_handle=2 hca_object=max\n").unwrap();
        assert_eq!(others(), [true, true]);
        take_back(&folder.path().join(HANDED_DOWN), &["memory", "cpu"]).unwrap();
        assert_eq!(handed_down(folder.path()).unwrap(), ["cpu", "memory"], "both stay");
        fs::remove_dir_all(&group).unwrap();
        assert_eq!(needed(), [false, false]);
    }

    #[test]
    fn each_setting_that_is_another_than_usual_keeps_its_controller() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join("users.slice");
        fs::create_dir(&group).unwrap();
        for (controller, file, usual) in SETTINGS {
            let needed = |value: &str| {
                fs::write(group.join(file), value).unwrap();
                is_needed(folder.path(), controller)
            };
            assert!(!needed(usual) && !needed(&format!("{usual}\n")) && needed("7\n"), "{file}");
            fs::remove_file(group.join(file)).unwrap();
        }
    }

    /// Uses any controller that the machine's root still has to enable.
    #[test]
    fn what_a_run_has_handed_down_is_taken_back_with_it() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let Some(root) = hierarchies::unified_root().unwrap() else {
            return println!("skipped: no cgroups of version 2");
        };
        let has = fs::read_to_string(root.join("cgroup.controllers")).unwrap();
        let before = handed_down(&root).unwrap();
        let Some(free) = has.split_whitespace().find(|name| !before.iter().any(|there| there == name)) else {
            return println!("skipped: all of {} is handed down already", has.trim());
        };
        let mark = RunMark::create("cc00cc").unwrap();
        hand_down(mark.run(), &root, &[free]).unwrap();
        assert!(handed_down(&root).unwrap().iter().any(|there| there == free));
        // A second service of the run.
        hand_down(mark.run(), &root, &[free]).unwrap();
        intend(mark.run(), &root).unwrap();
        settle(mark.run(), &root).unwrap();
        mark.close().unwrap();
        assert_eq!(handed_down(&root).unwrap(), before);

        // A runtime does it itself; and before it has, somebody else might.
        let mark = RunMark::create("cc00ce").unwrap();
        intend(mark.run(), &root).unwrap();
        settle(mark.run(), &root).unwrap();
        fs::write(root.join(HANDED_DOWN), format!("+{free}")).unwrap();
        mark.close().unwrap();
        assert!(handed_down(&root).unwrap().iter().any(|there| there == free), "it is somebody else's");
        fs::write(root.join(HANDED_DOWN), format!("-{free}")).unwrap();
        let mark = RunMark::create("cc00cf").unwrap();
        intend(mark.run(), &root).unwrap();
        fs::write(root.join(HANDED_DOWN), format!("+{free}")).unwrap();
        settle(mark.run(), &root).unwrap();
        mark.close().unwrap();
        assert_eq!(handed_down(&root).unwrap(), before, "it is the runtime's");

        let mark = RunMark::create("cc00cd").unwrap();
        hand_down(mark.run(), &root, &[free]).unwrap();
        let group = root.join("somebody-else");
        fs::create_dir(&group).unwrap();
        fs::write(group.join(HANDED_DOWN), format!("+{free}")).unwrap();
        mark.close().unwrap();
        let stays = handed_down(&root).unwrap().iter().any(|there| there == free);
        fs::remove_dir(&group).unwrap();
        fs::write(root.join(HANDED_DOWN), format!("-{free}")).unwrap();
        assert!(stays, "somebody else came to need it");
    }
}
