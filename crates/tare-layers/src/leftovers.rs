//! What runs have made on this machine, so that another process can clean up after a run that was killed. Anybody could
//! use a name: nothing is listed or touched unless it carries a mark that nobody else makes, or is recorded in its
//! run's register.

use crate::container::socket;
use crate::marks::{RUN_ROOT, RUN_VARIABLE, check_run, mark_name, run_in_environment};
use crate::mounts::{mounts_below, remove_tree, remove_whole};
use crate::owner::{live_runs, runs};
use crate::register::{self, Kind};
use crate::run_mark::SCRATCH_NOTE;
use crate::{cgroup, home, network, processes, settings};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::{Layers, Leftover};

/// How long a killed process may take to vanish.
const VANISH_WITHIN: Duration = Duration::from_secs(10);

const PROCESS: &str = "process";
const MOUNT: &str = "mount";
const LINK: &str = "link";
const NAMESPACE: &str = "network namespace";
const RULES: &str = "forwarding rules";
const CGROUP: &str = "cgroup";
const DIRECTORY: &str = "directory";
/// The kinds that are removed here; all others belong to layers.
const KINDS: [&str; 7] = [PROCESS, MOUNT, LINK, NAMESPACE, RULES, CGROUP, DIRECTORY];

/// The directories of all runs, alive or dead, here and on disks: those that carry a run's mark.
fn directories() -> Vec<(String, PathBuf)> {
    let (mut all, _) = home::run_folders();
    for (run, directory, _) in runs() {
        // The run may have been started with another home.
        all.extend(scratch_noted(&directory).and_then(|noted| home::noted_at(&noted)));
        all.push((run, directory));
    }
    all.sort();
    all.dedup();
    // A run's own directory tells how to recognise everything else, and goes last.
    all.sort_by_key(|(_, path)| path.starts_with(RUN_ROOT));
    all
}

/// Where a run's own directory says its folder on a disk is.
fn scratch_noted(directory: &Path) -> Option<PathBuf> {
    let noted = fs::read_to_string(directory.join(SCRATCH_NOTE)).ok()?;
    Some(PathBuf::from(noted.trim_end_matches('\n')))
}

/// What is named as a run's would be but is left alone, because it carries no mark or another user may have put it
/// there. In words.
pub fn left_alone() -> Vec<String> {
    let (_, folders) = home::run_folders();
    let noted = runs().into_iter().filter_map(|(_, directory, _)| scratch_noted(&directory));
    let noted = noted.filter(|folder| home::in_other_hands(folder)).filter_map(|folder| home::standing(&folder));
    let folders = folders.into_iter().chain(noted).map(|path| format!("directory {}", path.display()));
    let runs: Vec<String> = runs().into_iter().map(|(run, ..)| run).collect();
    let groups = cgroup::named_like_ours().into_iter().map(|path| (Kind::Cgroup, path));
    let namespaces = network::namespaces_named_like_ours().into_iter().map(|path| (Kind::Namespace, path));
    let strange = |(kind, path): &(Kind, PathBuf)| {
        let name = path.display().to_string();
        !runs.iter().any(|run| register::is_made(run, *kind, &name))
    };
    let strange: Vec<_> = groups.chain(namespaces).filter(strange).collect();
    folders.chain(strange.into_iter().map(|(kind, path)| format!("{} {}", kind.word(), path.display()))).collect()
}

/// Why leftovers of runs in a container engine cannot be seen, if the user names an engine that does not answer.
pub fn unseen() -> Option<Fault> {
    socket::nobody_at_choice()
}

/// What dead runs left on this machine: [`leftovers`] without those of runs that are alive.
///
/// # Errors
/// When the kernel or a layer's engine does not answer.
pub fn of_dead_runs(layers: Layers) -> Result<Vec<Leftover>, Fault> {
    let before = live_runs();
    let mut found = leftovers(layers)?;
    // A run that began while we looked is alive too.
    let after = live_runs();
    found.retain(|left| !before.contains(&left.run) && !after.contains(&left.run));
    Ok(found)
}

/// Everything that runs have made on this machine, alive or dead, in the order in which it can be removed: processes,
/// what `layers` keep, mounts, links, namespaces, rules, cgroups, directories.
///
/// # Errors
/// When the kernel or a layer's engine does not answer.
pub fn leftovers(layers: Layers) -> Result<Vec<Leftover>, Fault> {
    let mut own = own_leftovers()?;
    let after_processes = own.iter().position(|found| found.kind != PROCESS).unwrap_or(own.len());
    let rest = own.split_off(after_processes);
    for layer in layers {
        let left = layer.leftovers();
        own.extend(left.map_err(|fault| fault.context(format!("see what layer '{}' left", layer.name())))?);
    }
    own.extend(rest);
    Ok(own)
}

fn own_leftovers() -> Result<Vec<Leftover>, Fault> {
    let mut found = Vec::new();
    let mut add = |run: &str, kind: &str, name: String| {
        found.push(Leftover { run: run.to_owned(), kind: kind.to_owned(), name });
    };
    for (run, pid, started) in marked_processes() {
        add(&run, PROCESS, format!("{pid} {started} {}", processes::name(pid)));
    }
    let directories = directories();
    for (run, path) in mounts_below(&directories)? {
        add(&run, MOUNT, path);
    }
    let runs: BTreeSet<String> = runs().into_iter().map(|(run, ..)| run).collect();
    let standing: Vec<_> =
        runs.iter().flat_map(|run| register::standing(run).into_iter().map(move |made| (run, made))).collect();
    for (run, (kind, name)) in standing.iter().filter(|(_, (kind, _))| *kind != Kind::Cgroup) {
        add(run, kind.word(), name.clone());
    }
    for run in network::runs_with_rules() {
        add(&run, RULES, mark_name(&run));
    }
    for (run, (kind, name)) in standing.iter().filter(|(_, (kind, _))| *kind == Kind::Cgroup) {
        add(run, kind.word(), name.clone());
    }
    for (run, directory) in directories {
        add(&run, DIRECTORY, directory.display().to_string());
    }
    Ok(found)
}

/// Run, id and start time of every process of a run: in one of its cgroups, or with its mark in the environment.
fn marked_processes() -> Vec<(String, u32, u64)> {
    let mut found = BTreeSet::new();
    let mut add = |run: &str, pid: u32| {
        // An owner in its own run's environment, such as a test within a test, must not be told to kill itself.
        if let Some(started) = processes::start_time(pid).filter(|_| pid != std::process::id()) {
            found.insert((pid, run.to_owned(), started));
        }
    };
    for (run, ..) in runs() {
        for (_, group) in register::standing(&run).iter().filter(|(kind, _)| *kind == Kind::Cgroup) {
            cgroup::members_below(Path::new(group)).into_iter().for_each(|pid| add(&run, pid));
        }
    }
    for pid in processes::all() {
        if let Some(run) = run_in_environment(pid, RUN_VARIABLE) {
            add(&run, pid);
        }
    }
    found.into_iter().map(|(pid, run, started)| (run, pid, started)).collect()
}

/// Removes one of [`leftovers`]; what is already gone is no error.
///
/// # Errors
/// When it still exists.
pub fn remove(layers: Layers, leftover: &Leftover) -> Result<(), Fault> {
    remove_if(layers, leftover, &|| true)
}

/// The same, but nothing of a live run: `tare resume` may have brought one back since its leftovers were listed.
///
/// # Errors
/// See [`remove`].
pub fn remove_of_dead_run(layers: Layers, leftover: &Leftover) -> Result<(), Fault> {
    remove_if(layers, leftover, &|| !live_runs().contains(&leftover.run))
}

/// Asks again whether it may remove something once it has found it.
fn remove_if(layers: Layers, leftover: &Leftover, may: &dyn Fn() -> bool) -> Result<(), Fault> {
    check_run(&leftover.run)?;
    // A layer may use the same word for something of its own, so the kind alone does not say who owns it.
    if KINDS.contains(&leftover.kind.as_str()) && own_leftovers()?.contains(leftover) {
        return if may() { remove_own(layers, leftover) } else { Ok(()) };
    }
    for layer in layers {
        if layer.leftovers()?.contains(leftover) {
            return if may() { layer.remove(leftover) } else { Ok(()) };
        }
    }
    Ok(())
}

fn remove_own(layers: Layers, leftover: &Leftover) -> Result<(), Fault> {
    let Leftover { run, kind, name } = leftover;
    match kind.as_str() {
        PROCESS => end_process(name),
        MOUNT if network::is_pinned(Path::new(name)) => take_fence_down(layers, run, name),
        MOUNT => match rustix::mount::unmount(name.as_str(), UnmountFlags::DETACH) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error).doing(format!("unmount {name}")),
        },
        LINK => network::link_delete(name),
        NAMESPACE => network::remove_namespace(Path::new(name)),
        RULES => network::remove_rules(run),
        CGROUP => cgroup::remove_tree(Path::new(name)),
        DIRECTORY if Path::new(name).starts_with(RUN_ROOT) => {
            settings::restore(run)?;
            remove_whole(Path::new(name), remove_tree)
        }
        DIRECTORY => remove_whole(Path::new(name), home::remove_marked),
        other => unreachable!("remove() hands over the kinds of this module only, not '{other}'"),
    }
}

/// Opens the ports of a run's services to others once no service is left.
fn take_fence_down(layers: Layers, run: &str, name: &str) -> Result<(), Fault> {
    let refuse_before = |is_process: bool| -> Result<(), Fault> {
        let found = leftovers(layers)?;
        let mut runs = found.iter().take_while(|left| left.kind != MOUNT).filter(|left| left.run == run);
        let Some(Leftover { kind, name: what, .. }) = runs.find(|left| (left.kind == PROCESS) == is_process) else {
            return Ok(());
        };
        let fault =
            Fault::new(format!("{name} keeps others from the services of run {run}, and {kind} {what} is left"));
        Err(fault.remedy("remove what is left of it, then: tare clean"))
    };
    refuse_before(false)?;
    // Processes that were started after the search for others.
    for (_, group) in register::standing(run).iter().filter(|(kind, _)| *kind == Kind::Cgroup) {
        cgroup::remove_tree(Path::new(group))?;
    }
    refuse_before(true)?;
    network::take_down(Path::new(name)).doing(format!("take down {name}"))
}

/// Kills the process that a leftover's name identifies, unless its id has passed to another, and waits until it is
/// gone.
fn end_process(name: &str) -> Result<(), Fault> {
    let mut words = name.split(' ');
    let (Some(Ok(pid)), Some(Ok(started))) = (words.next().map(str::parse), words.next().map(str::parse::<u64>)) else {
        return Err(Fault::new(format!("'{name}' does not name a process: id and start time are missing")));
    };
    let deadline = Instant::now() + VANISH_WITHIN;
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let id = id.ok_or_else(|| Fault::new(format!("{pid} cannot be the id of a process")))?;
    // Held from before its start time is read: the process that is killed is the one that was examined.
    let process = match rustix::process::pidfd_open(id, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        other => other.doing(format!("see process {pid}"))?,
    };
    while processes::start_time(pid) == Some(started) {
        match rustix::process::pidfd_send_signal(&process, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error).doing(format!("kill process {pid}")),
        }
        if Instant::now() > deadline {
            return Err(Fault::new(format!("process {pid} does not end even though it was killed"))
                .remedy("it waits for a device; see its state with: ps -o stat,wchan -p"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::mark_process;
    use crate::run_mark::RunMark;
    use std::process::Command;

    #[test]
    fn nothing_of_a_run_that_has_come_back_is_removed() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let mark = RunMark::create("cc00d1").unwrap();
        let of_run = || own_leftovers().unwrap().into_iter().filter(|left| left.run == "cc00d1").collect::<Vec<_>>();
        let found = of_run();
        assert!(!found.is_empty(), "it has a folder");
        found.iter().for_each(|left| remove_of_dead_run(crate::LAYERS, left).unwrap());
        assert_eq!(of_run(), found, "this process is its owner, and lives");
        mark.close().unwrap();
        assert_eq!(of_run(), []);
    }

    #[test]
    fn a_process_is_not_killed_for_having_the_id_of_another() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        end_process(&format!("{} 1 sleep", child.id())).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it was killed");
        let started = processes::start_time(child.id()).unwrap();
        let name = format!("{} {started} sleep", child.id());
        end_process(&name).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_tells_its_run_by_its_environment() {
        let mut command = Command::new("sleep");
        mark_process("zz00zz", command.arg("60"));
        let mut child = command.spawn().unwrap();
        // Its environment appears a moment after it was started.
        while run_in_environment(child.id(), RUN_VARIABLE).is_none() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(run_in_environment(child.id(), RUN_VARIABLE).as_deref(), Some("zz00zz"));
        assert!(marked_processes().iter().any(|(run, pid, _)| run == "zz00zz" && *pid == child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
