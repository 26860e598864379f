//! Control groups, versions 1 and 2: limits, membership and removal.

pub(crate) mod counting;
pub(crate) mod freeze;
pub(crate) mod hierarchies;

use crate::marks;
use crate::register::{self, Kind};
use crate::settings::controllers;
use counting::{Uncounted, counts_cpu, hierarchy_for_it};
use hierarchies::{Hierarchy, unified_root};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::workload::Resources;

/// How long killed processes may take to leave a group.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);
/// The period over which a quota is distributed, us: the one that container engines use.
const QUOTA_PERIOD_US: u64 = 100_000;
/// The part of a group that systemd-nspawn has the service in; its other part is its own.
const SERVICE_PART: &str = "payload";

/// The group of one instance: a directory in each hierarchy that limits it.
#[derive(Debug)]
pub(crate) struct Group {
    /// The directories; the first one controls memory.
    directories: Vec<PathBuf>,
    unified: bool,
    /// Why none of them counts CPU time, for a group that was to count it.
    uncounted: Option<Fault>,
}

impl Group {
    /// Creates the group `tare-<run>/<instance>` with a service's limits: memory without swap always, CPU time only
    /// when it is limited, since scheduling by group is not free and a plain process has none. CPU time is always
    /// counted: adding up the live processes misses those that have ended, one per request with some servers.
    pub(crate) fn create(run: &str, instance: &str, resources: &Resources) -> Result<Group, Fault> {
        let path = group_path(run, instance);
        let hierarchies = hierarchies::hierarchies()?;
        let first = |name: &str| {
            let has = |h: &&Hierarchy| h.controllers.as_ref().is_some_and(|c| c.iter().any(|c| c == name));
            hierarchies.iter().find(has).map(|h| h.root.clone())
        };
        let mut group = Group { directories: Vec::new(), unified: first("memory").is_none(), uncounted: None };
        let unified = hierarchies.iter().find(|h| h.controllers.is_none()).map(|h| h.root.clone());
        let made = if group.unified {
            unified.as_ref().ok_or_else(no_cgroups).and_then(|root| group.fill_unified(root, &path, resources))
        } else {
            group.fill_first(&first, &path, resources)
        };
        match made {
            Ok(()) => {
                // If none counts, the live processes are added up, and the service is started all the same.
                group.uncounted = group.count(hierarchy_for_it(&hierarchies).or(unified), &path).err();
                Ok(group)
            }
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = group.remove();
                Err(fault)
            }
        }
    }

    /// Joins, without a limit, the hierarchies in which managers of containers split the group that they are started
    /// in: that of version 2 and systemd's. Otherwise they would split this process's own.
    ///
    /// # Errors
    /// When a group cannot be made.
    pub(crate) fn join_managed(&mut self, run: &str, instance: &str) -> Result<(), Fault> {
        let path = group_path(run, instance);
        let is_managed = |h: &Hierarchy| h.controllers.as_ref().is_none_or(|c| c.iter().any(|c| c == "name=systemd"));
        for hierarchy in hierarchies::hierarchies()?.into_iter().filter(is_managed) {
            if !self.directories.contains(&hierarchy.root.join(&path)) {
                self.directory(&hierarchy.root, &path)?;
            }
        }
        Ok(())
    }

    /// The group `tare-<run>/<instance>` as somebody else made it, in every hierarchy that it is in.
    pub(crate) fn found(run: &str, instance: &str) -> Result<Group, Fault> {
        let mut hierarchies = hierarchies::hierarchies()?;
        let controls_memory = |h: &Hierarchy| h.controllers.as_ref().is_some_and(|c| c.iter().any(|c| c == "memory"));
        let unified = !hierarchies.iter().any(controls_memory);
        // A stable sort: the one that controls memory goes first.
        hierarchies.sort_by_key(|h| if unified { h.controllers.is_some() } else { !controls_memory(h) });
        let path = group_path(run, instance);
        let directories = hierarchies.iter().map(|h| h.root.join(&path)).filter(|path| path.is_dir());
        Ok(Group { directories: directories.collect(), unified, uncounted: None })
    }

    fn fill_first(
        &mut self,
        root: &dyn Fn(&str) -> Option<PathBuf>,
        path: &Path,
        resources: &Resources,
    ) -> Result<(), Fault> {
        let memory = self.directory(&root("memory").ok_or_else(no_cgroups)?, path)?;
        set(&memory, "memory.limit_in_bytes", resources.memory_bytes)?;
        // The limit on memory and swap together exists only where the kernel accounts for swap.
        if memory.join("memory.memsw.limit_in_bytes").exists() {
            set(&memory, "memory.memsw.limit_in_bytes", resources.memory_bytes)?;
        } else {
            set(&memory, "memory.swappiness", 0)?;
        }
        if let Some(cpus) = resources.cpu_quota {
            let cpu = self.directory(&root("cpu").ok_or_else(no_cgroups)?, path)?;
            set(&cpu, "cpu.cfs_period_us", QUOTA_PERIOD_US)?;
            set(&cpu, "cpu.cfs_quota_us", quota_us(cpus))?;
        }
        Ok(())
    }

    /// Joins a hierarchy that counts CPU time without distributing it, unless one that limits the group already counts
    /// it.
    ///
    /// # Errors
    /// Why none counts it, and what that means.
    fn count(&mut self, root: Option<PathBuf>, path: &Path) -> Result<(), Fault> {
        if self.directories.iter().any(|directory| counts_cpu(directory)) {
            return Ok(());
        }
        let root = root.ok_or_else(|| Uncounted::NoHierarchy.fault())?;
        // The one that limits the group may be the only one there is.
        if !self.directories.contains(&root.join(path)) {
            self.directory(&root, path).map_err(|fault| Uncounted::NotMade(fault).fault())?;
        }
        if counts_cpu(&root.join(path)) { Ok(()) } else { Err(Uncounted::NoGroupDoes(root).fault()) }
    }

    /// Why the CPU time of ended processes is not counted, and what that means; `None` if it is, or was not to be.
    pub(crate) fn why_uncounted(&self) -> Option<&Fault> {
        self.uncounted.as_ref()
    }

    fn fill_unified(&mut self, root: &Path, path: &Path, resources: &Resources) -> Result<(), Fault> {
        let parent = path.parent().expect("the path was made of two parts");
        let controllers = if resources.cpu_quota.is_some() { &["memory", "cpu"][..] } else { &["memory"] };
        {
            let _one = one_at_a_time();
            make_top(&root.join(parent))?;
        }
        let run = parent.to_str().and_then(marks::run_of_mark).expect("a run's group is called after it");
        for above in [root.to_owned(), root.join(parent)] {
            controllers::hand_down(run, &above, controllers).map_err(|fault| {
                fault.remedy("run Tare where it may use the root of the cgroup hierarchy, not in a container")
            })?;
        }
        let directory = self.directory(root, path)?;
        set(&directory, "memory.max", resources.memory_bytes)?;
        // Absent where the kernel has no swap at all.
        if directory.join("memory.swap.max").exists() {
            set(&directory, "memory.swap.max", 0)?;
        }
        if let Some(cpus) = resources.cpu_quota {
            set(&directory, "cpu.max", format!("{} {QUOTA_PERIOD_US}", quota_us(cpus)))?;
        }
        Ok(())
    }

    fn directory(&mut self, root: &Path, path: &Path) -> Result<PathBuf, Fault> {
        let directory = root.join(path);
        make_below_top(&directory)?;
        self.directories.push(directory.clone());
        Ok(directory)
    }

    /// The directories of the group, one per hierarchy.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// The files into which a process writes "0" to join: where a manager has split the group, the service's part of
    /// it, since version 2 has no processes in a group that hands controllers down.
    pub(crate) fn entrances(&self) -> impl Iterator<Item = PathBuf> {
        self.directories.iter().map(|directory| {
            let part = directory.join(SERVICE_PART);
            let entered = if part.is_dir() { &part } else { directory };
            entered.join("cgroup.procs")
        })
    }

    /// The processes in it, and in the parts that a manager has split it into.
    pub(crate) fn members(&self) -> Vec<u32> {
        self.directories.first().map(|directory| members_below(directory)).unwrap_or_default()
    }

    /// How many processes the kernel has killed here for lack of memory.
    pub(crate) fn killed_for_memory(&self) -> u64 {
        let Some(directory) = self.directories.first() else { return 0 };
        let file = if self.unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Stops everything in the group from running, or lets it continue.
    pub(crate) fn freeze(&self, frozen: bool) -> Result<(), Fault> {
        let Some(directory) = self.directories.first() else { return Ok(()) };
        if self.unified {
            return freeze::by_group(directory, frozen);
        }
        freeze::by_signal(&|| members(directory), frozen)
    }

    /// Kills everything in the group, waits until it is gone, and removes it; the run's own group goes with its last
    /// instance.
    pub(crate) fn remove(&mut self) -> Result<(), Fault> {
        for directory in &self.directories {
            remove_below_top(directory)?;
        }
        self.directories.clear();
        Ok(())
    }
}

/// Where the group of an instance is in each hierarchy.
pub(crate) fn group_path(run: &str, instance: &str) -> PathBuf {
    Path::new(&marks::mark_name(run)).join(instance)
}

fn no_cgroups() -> Fault {
    Fault::new("no cgroup hierarchy with a memory controller is mounted, so no limit can be enforced")
        .remedy("mount one: mount -t cgroup2 none /sys/fs/cgroup")
}

fn quota_us(cpus: f64) -> u64 {
    (cpus * QUOTA_PERIOD_US as f64).round() as u64
}

fn set(directory: &Path, file: &str, value: impl ToString) -> Result<(), Fault> {
    let (path, value) = (directory.join(file), value.to_string());
    fs::write(&path, &value).doing(format!("limit the service: write {value} to {}", path.display()))
}

/// The processes in a group.
pub(crate) fn members(directory: &Path) -> Vec<u32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Kills everything in a group and in those below it, waits until it is gone, and removes them. A group that is already
/// gone is no error.
pub(crate) fn remove_tree(directory: &Path) -> Result<(), Fault> {
    if let Ok(entries) = fs::read_dir(directory) {
        for entry in entries.filter_map(Result::ok).filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())) {
            remove_tree(&entry.path())?;
        }
    }
    let deadline = Instant::now() + EMPTY_WITHIN;
    loop {
        let inside = members(directory);
        for pid in inside.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            // It may have ended in between; the next turn sees whether all are gone.
            let _ = kill_member(directory, pid);
        }
        match fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > deadline => {
                let doing = format!("remove the cgroup {}, with processes {inside:?} in it", directory.display());
                return Err(error).doing(doing);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Kills a process if it is in a group: its id may have passed to another since it was seen there.
fn kill_member(directory: &Path, pid: Pid) -> rustix::io::Result<()> {
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    if members(directory).contains(&pid.as_raw_nonzero().get().cast_unsigned()) {
        rustix::process::pidfd_send_signal(process, Signal::KILL)?;
    }
    Ok(())
}

/// The processes in a group and in those below it.
pub(crate) fn members_below(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    members(directory).into_iter().chain(below.flat_map(|entry| members_below(&entry.path()))).collect()
}

/// The processes that are in each of these groups or below it. With several hierarchies, one group alone may hold
/// processes of others as well.
pub(crate) fn members_of_all<G: AsRef<Path>>(groups: &[G]) -> BTreeSet<u32> {
    let members = |group: &G| members_below(group.as_ref()).into_iter().collect::<BTreeSet<u32>>();
    groups.iter().map(members).reduce(|one, other| &one & &other).unwrap_or_default()
}

/// The groups in every hierarchy that are named as a run's would be, whoever made them.
pub(crate) fn named_like_ours() -> Vec<PathBuf> {
    let roots = hierarchies::hierarchies().unwrap_or_default().into_iter().map(|hierarchy| hierarchy.root);
    let entries = roots.flat_map(|root| fs::read_dir(root).into_iter().flatten().filter_map(Result::ok));
    let ours = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(marks::run_of_mark).is_some();
    entries.filter(ours).map(|entry| entry.path()).collect()
}

/// The run's own group in every hierarchy.
fn tops(run: &str) -> Result<Vec<PathBuf>, Fault> {
    Ok(hierarchies::hierarchies()?.into_iter().map(|hierarchy| hierarchy.root.join(marks::mark_name(run))).collect())
}

/// The most memory, bytes, that this process and its children may use under the groups that it is in, if that is
/// bounded.
pub(crate) fn own_memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    memory_limit_of(&groups, &hierarchies::hierarchies().ok()?)
}

/// The same, from what /proc says about a process's groups.
fn memory_limit_of(groups: &str, hierarchies: &[Hierarchy]) -> Option<u64> {
    let limit = |line: &str| {
        let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { return None };
        let is = |h: &&Hierarchy| match &h.controllers {
            None => controllers.is_empty(),
            Some(own) => own.iter().any(|c| c == "memory") && controllers.split(',').any(|c| c == "memory"),
        };
        let (hierarchy, path) = (hierarchies.iter().find(is)?, path.trim_start_matches('/'));
        let file = if hierarchy.controllers.is_some() { "memory.limit_in_bytes" } else { "memory.max" };
        // A group can use no more than those above it.
        let above = Path::new(path).ancestors().map(|group| hierarchy.root.join(group).join(file));
        above.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()).min()
    };
    groups.lines().filter_map(limit).min()
}

/// Creates the run's own group in every hierarchy, for a runtime that is about to create groups below it in those that
/// it chooses. Made here, each one's kernel number is in the register; a name alone proves nothing.
///
/// # Errors
/// When one cannot be made, or belongs to somebody else.
pub(crate) fn make_tops(run: &str) -> Result<(), Fault> {
    if let Some(root) = unified_root()? {
        controllers::intend(run, &root)?;
    }
    let _one = one_at_a_time();
    tops(run)?.iter().try_for_each(|top| make_top(top))
}

/// Removes the groups that the runtime has not chosen, and records which controllers it has enabled for the others.
///
/// # Errors
/// When that cannot be recorded.
pub(crate) fn keep_tops_in_use(run: &str) -> Result<(), Fault> {
    let all = tops(run)?;
    {
        let _one = one_at_a_time();
        for top in all.iter().filter(|top| register::is_made(run, Kind::Cgroup, &top.display().to_string())) {
            // It stays while another group is in it, and that is no failure.
            let _ = fs::remove_dir(top);
        }
    }
    unified_root()?.map_or(Ok(()), |root| controllers::settle(run, &root))
}

/// Held while a run's own groups are created and removed: one just made must not go with the last one that was in it.
/// The lock guards state in the kernel, so a panic leaves nothing half done.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a group in a run's own group, which is created if the run has none in this hierarchy.
pub(crate) fn make_below_top(directory: &Path) -> Result<(), Fault> {
    let _one = one_at_a_time();
    let top = directory.parent().expect("it is below the run's own");
    make_top(top)?;
    fs::create_dir_all(directory).doing(format!("make the cgroup {}", directory.display())).inspect_err(|_| {
        // Nobody else would remove it; while another group is in it, it stays.
        let _ = fs::remove_dir(top);
    })
}

/// Kills everything in a group below a run's own one, and removes it; the run's own goes with its last.
pub(crate) fn remove_below_top(directory: &Path) -> Result<(), Fault> {
    remove_tree(directory)?;
    let _one = one_at_a_time();
    // It stays while another group is in it, and that is no failure.
    let _ = directory.parent().map(fs::remove_dir);
    Ok(())
}

/// Creates a run's own group in a hierarchy, unless the run has it; somebody else's is not taken for it.
fn make_top(top: &Path) -> Result<(), Fault> {
    let name = top.display().to_string();
    let run = top.file_name().and_then(OsStr::to_str).and_then(marks::run_of_mark);
    let run = run.ok_or_else(|| Fault::new(format!("the cgroup {name} is not called as a run's is")))?;
    if register::is_made(run, Kind::Cgroup, &name) {
        return Ok(());
    }
    let make = || match fs::create_dir(top) {
        // If there is no register, as in a guest, nobody else makes any.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !marks::run_directory(run).is_dir() => Ok(()),
        other => other.doing(format!("make the cgroup {name}")),
    };
    register::make(run, Kind::Cgroup, &name, make)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_mark::RunMark;

    #[test]
    fn why_nothing_counts_is_known_and_a_group_that_counts_is_joined() {
        let folder = tempfile::tempdir().unwrap();
        let (path, root) = (group_path("c60002", "one"), folder.path().join("root"));
        let why = |group: &mut Group, root: Option<PathBuf>| group.count(root, &path).unwrap_err().message;
        let mut group = Group { directories: Vec::new(), unified: false, uncounted: None };
        assert!(why(&mut group, None).contains("no hierarchy of control groups is mounted"));
        fs::write(&root, "no folder").unwrap();
        assert!(why(&mut group, Some(root.clone())).contains("could not make the cgroup"));
        assert!(group.directories.is_empty());
        fs::remove_file(&root).unwrap();
        fs::create_dir(&root).unwrap();
        for _ in 0..2 {
            assert!(why(&mut group, Some(root.clone())).contains("do not count CPU time"));
            assert_eq!(group.directories, [root.join(&path)], "once");
        }
        // Where it counts, no other is joined; where it does not, the counting one is.
        fs::write(root.join(&path).join("cpuacct.usage"), "0\n").unwrap();
        group.count(None, &path).unwrap();
        group.directories = vec![folder.path().join("memory")];
        group.count(Some(root.clone()), &path).unwrap();
        assert_eq!(group.directories, [folder.path().join("memory"), root.join(&path)]);
    }

    #[test]
    fn the_least_memory_of_a_group_and_those_above_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        for (file, text) in [("a/memory.max", "3000\n"), ("a/b/memory.max", "max\n"), ("a/b/c/memory.max", "4000\n")] {
            fs::write(root.join(file), text).unwrap();
        }
        fs::write(root.join("a/memory.limit_in_bytes"), "2000\n").unwrap();
        let unified = Hierarchy { root: root.clone(), controllers: None, whole: true };
        let first = Hierarchy { root, controllers: Some(vec!["memory".to_owned()]), whole: true };
        let both = [unified.clone(), first];
        assert_eq!(memory_limit_of("0::/a/b/c\n", &both), Some(3000));
        assert_eq!(memory_limit_of("4:memory:/a\n0::/a/b/c\n", &both), Some(2000));
        assert_eq!(memory_limit_of("4:memory:/a\n0::/\n", &[unified]), None);
    }

    #[test]
    fn a_quota_is_a_share_of_its_period() {
        assert_eq!(quota_us(0.5), 50_000);
        assert_eq!(quota_us(2.0), 200_000);
    }

    #[test]
    fn the_groups_above_a_runtime_s_are_known_by_more_than_a_name() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let mark = RunMark::create("c60001").unwrap();
        make_tops(mark.run()).unwrap();
        let all = tops(mark.run()).unwrap();
        let ours = |top: &PathBuf| register::is_made(mark.run(), Kind::Cgroup, &top.display().to_string());
        assert!(!all.is_empty() && all.iter().all(ours));
        // As a runtime does, in the one that it has chosen.
        let [chosen, ..] = &all[..] else { panic!("there is one at least") };
        fs::create_dir(chosen.join("instance")).unwrap();
        keep_tops_in_use(mark.run()).unwrap();
        assert_eq!(all.iter().filter(|top| top.is_dir()).collect::<Vec<_>>(), [chosen]);
        // Somebody else's in its place.
        fs::remove_dir(chosen.join("instance")).unwrap();
        fs::remove_dir(chosen).unwrap();
        fs::create_dir(chosen).unwrap();
        let (is_ours, made) = (ours(chosen), make_tops(mark.run()));
        keep_tops_in_use(mark.run()).unwrap();
        let stays = chosen.is_dir();
        fs::remove_dir(chosen).unwrap();
        assert!(!is_ours && made.is_err() && stays, "{is_ours} {made:?} {stays}");
        mark.close().unwrap();
    }
}
