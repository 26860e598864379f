//! Services in system containers: systemd-nspawn or LXC puts them into one, with the features that it always gives, and
//! a process of it stays to look after each. Tare assembles the root and makes the run's control group.
//!
//! What either keeps on the machine while it runs is hidden by memory in the mount namespace of the process that looks
//! after the service, and goes with it. Both have a filter of system calls of their own.

mod ending;
mod lxc;
mod nspawn;

use super::super::options::By;
use super::super::spec::{self, open_files};
use super::config::{HostFacts, Order};
use super::launch::{Launch, Started, group_name};
use crate::cgroup::{self, Group};
use crate::local::accounts::Accounts;
use crate::local::child::OwnChild;
use crate::local::confinement::{bind_memory, bind_to_cpus, check_user, cpu_mask, leave_open_files, node_mask};
use crate::local::hosts::on_machine;
use crate::local::root::Root;
use crate::local::running::{Inside, describe_end};
use crate::local::volumes::{make_volumes, volume_folders};
use crate::marks;
use ending::Watched;
use rustix::fs::Mode;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::TrialContext;
use tare_core::units::CpuSet;

/// How long a container may take to start: a fifth of a second is usual.
const STARTED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What the process that looks after a service is told, and where it tells what happens.
struct Told<'a> {
    order: Order<'a>,
    /// What was made for the container.
    directory: &'a Path,
    /// Where the service's output goes.
    log: &'a Path,
    /// The machine's name inside.
    machine: String,
}

/// How a service ended, by how the process that looked after it did and by what the kernel tells of the service itself,
/// if it does; with those killed for lack of memory that its group does not tell of.
type End = Box<dyn Fn(ExitStatus, Option<ExitStatus>) -> (ExitStatus, u64) + Send>;

/// Starts a service with its output going to `stdout` and `stderr`, which is the file `log`. On failure nothing of it
/// is left.
///
/// # Errors
/// What could not be made, or what nspawn or LXC says.
pub(super) fn start(launch: &Launch, log: &Path, stdout: File, stderr: File) -> Result<Started, Fault> {
    let service = &launch.start.service;
    check_user(service.user, service.as_image)?;
    if let Some(refused) = launch.options.refused_as_image(launch.start) {
        return Err(refused);
    }
    let scratch = &launch.surroundings.scratch;
    let directory = scratch.join(launch.name);
    let accounts = Accounts::write(scratch, launch.name, launch.bundle, launch.start).and_then(|accounts| {
        let start = on_machine(launch.start, launch.surroundings.address);
        accounts.with_names(scratch, launch.name, launch.bundle, &start)
    });
    let made = accounts.and_then(|accounts| {
        let started = start_in(launch, &directory, &accounts, log, (stdout, stderr))?;
        Ok(Started { warnings: accounts.warnings, ..started })
    });
    made.map_err(|fault| {
        // Report the first failure, not those in the cleanup.
        let _ = Group::found(&launch.surroundings.run, &launch.group_name()).and_then(|mut group| group.remove());
        let _ = forget(launch.options.by, launch.surroundings, launch.name);
        let _ = tare_removal::remove_tree(&directory);
        launch.explained(fault)
    })
}

/// Removes the control groups that the process which looked after a container has made for itself.
///
/// # Errors
/// When one stays.
pub(super) fn forget(by: By, surroundings: &TrialContext, name: &str) -> Result<(), Fault> {
    let own: &[&str] = if by == By::Lxc { &lxc::OWN_GROUPS } else { &[] };
    let name = group_name(surroundings, name);
    own.iter().try_for_each(|suffix| Group::found(&surroundings.run, &format!("{name}.{suffix}"))?.remove())
}

fn start_in(
    launch: &Launch,
    directory: &Path,
    accounts: &Accounts,
    log: &Path,
    output: (File, File),
) -> Result<Started, Fault> {
    fs::create_dir_all(directory.join("root")).doing(format!("make {}", directory.display()))?;
    let volumes = volume_folders(&launch.surroundings.scratch, launch.name, launch.start);
    make_volumes(&volumes, &launch.start.service, launch.bundle)?;
    let (bundle, assembly, accounts) = (launch.bundle.to_owned(), directory.join("root"), accounts.clone());
    let tree = Root { bundle, assembly, volumes, accounts, program: None, own: None };
    let cpus = launch.cpus()?;
    let nspawns = (launch.options.by == By::Nspawn).then(|| own_group(launch)).transpose()?;
    let spawn = || spawn_rooted(launch, directory, &tree, log, cpus.as_ref(), nspawns.as_ref(), output);
    // A thread of its own, which gives up its mounts for good.
    let (child, end) =
        std::thread::scope(|scope| scope.spawn(spawn).join().expect("making a container does not panic"))?;
    let group = || Group::found(&launch.surroundings.run, &launch.group_name());
    let seen = await_service(child, launch.program.path(), &group);
    if launch.options.by == By::Lxc {
        cgroup::keep_tops_in_use(&launch.surroundings.run)?;
    }
    let (pid, ended) = match seen? {
        Seen::Running(pid) => (Some(pid), None),
        Seen::Ended(status) => {
            if let Some(why) = complaint(launch, directory, log, status) {
                return Err(why);
            }
            let (status, killed) = end(status, None);
            (None, Some(describe_end(status, killed)))
        }
    };
    let group = nspawns.map_or_else(group, Ok)?;
    // What is still in the group once it is held is the service, and not somebody who has got its number.
    let held = pid.and_then(|pid| Watched::hold(pid).filter(|_| group.members().contains(&pid)));
    let told = Box::new(move |status| end(status, held.as_ref().and_then(Watched::end)));
    let warnings = Vec::new();
    let inside = Some(Inside { pid, told });
    Ok(Started { child, inside, ended, group, directory: directory.to_owned(), cpus, warnings })
}

/// The group of a service that nspawn starts, which makes none but splits the one that it is started in.
fn own_group(launch: &Launch) -> Result<Group, Fault> {
    let wanted = launch.start.service.resources;
    let cpu_quota = spec::cpu_quota(launch.options.limits, &wanted);
    let (run, name) = (&launch.surroundings.run, launch.group_name());
    let mut group = Group::create(run, &name, &tare_core::workload::Resources { cpu_quota, ..wanted })?;
    group.join_managed(run, &name)?;
    Ok(group)
}

/// Makes the root in a mount namespace of this thread, and starts whoever looks after the service in it.
fn spawn_rooted(
    launch: &Launch,
    directory: &Path,
    tree: &Root,
    log: &Path,
    cpus: Option<&CpuSet>,
    group: Option<&Group>,
    (stdout, stderr): (File, File),
) -> Result<(OwnChild, End), Fault> {
    let root = tree.place_layered(directory)?;
    let run = &launch.surroundings.run;
    let told = Told {
        order: Order {
            options: launch.options,
            start: launch.start,
            home: &tree.accounts.home,
            root: &root,
            volumes: &tree.volumes,
            probe: launch.probe,
            group: &cgroup::group_path(run, &launch.group_name()),
            cpus,
            open_files: open_files(),
            machine: HostFacts::this(),
        },
        directory,
        log,
        machine: marks::mark_name(run),
    };
    let mut command = Command::new(launch.program.path());
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    marks::mark_process(run, &mut command);
    let end = match launch.options.by {
        By::Nspawn => nspawn::prepare(&told, tree, &mut command)?,
        _ => lxc::prepare(&told, tree, &mut command)?,
    };
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    if group.is_none() {
        // It makes its groups below, in the hierarchies that it chooses.
        cgroup::make_tops(run)?;
    }
    confine(&mut command, cpus, &launch.start.memory, group)?;
    let child = command.spawn().doing(format!("run {}", launch.program.path().display()))?;
    Ok((OwnChild::spawned(&child), end))
}

/// Has the process that looks after a service, and so the service, be in a group, on its CPUs and on its memory.
fn confine(command: &mut Command, cpus: Option<&CpuSet>, memory: &[u32], group: Option<&Group>) -> Result<(), Fault> {
    let mut entrances = Vec::new();
    for path in group.into_iter().flat_map(Group::entrances) {
        let opened = OpenOptions::new().write(true).open(&path);
        entrances.push(opened.doing(format!("open the cgroup's {}", path.display()))?);
    }
    let (cpus, nodes) = (cpus.map(cpu_mask), (!memory.is_empty()).then(|| node_mask(memory)));
    let confine = move || -> std::io::Result<()> {
        for entrance in &entrances {
            rustix::io::write(entrance, b"0")?;
        }
        // Otherwise an interrupt on the terminal would end the service before the load.
        rustix::process::setsid()?;
        rustix::process::umask(Mode::from(0o022));
        leave_open_files()?;
        bind_to_cpus(cpus.as_ref())?;
        bind_memory(nodes.as_ref())
    };
    // SAFETY: between fork and exec the closure makes system calls on what was prepared here, and allocates nothing.
    unsafe { command.pre_exec(confine) };
    Ok(())
}

/// What became of a container that is being started.
enum Seen {
    /// The service's program runs, in this process.
    Running(u32),
    /// All of it has ended already.
    Ended(ExitStatus),
}

/// Waits until a child of `manager`, in the service's group, runs another program than it.
fn await_service(manager: OwnChild, program: &Path, group: &impl Fn() -> Result<Group, Fault>) -> Result<Seen, Fault> {
    let file = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let own = file(program);
    let is_service = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok());
        let runs = file(&PathBuf::from(format!("/proc/{pid}/exe")));
        parent == Some(manager.id()) && runs.is_some() && runs != own
    };
    let deadline = Instant::now() + STARTED_WITHIN;
    loop {
        // In this order: one that is seen has not ended before.
        let found = group()?.members().into_iter().find(is_service);
        if let Some(pid) = found {
            return Ok(Seen::Running(pid));
        }
        if let Some(status) = manager.try_wait().doing("wait for the container")? {
            return Ok(Seen::Ended(status));
        }
        if Instant::now() >= deadline {
            manager.signal(rustix::process::Signal::KILL);
            let _ = manager.wait();
            let seconds = STARTED_WITHIN.as_secs();
            return Err(Fault::new(format!("the container's program was not started in {seconds} s")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Why a container was not started whose program was never seen, if whoever was to start it says so.
fn complaint(launch: &Launch, directory: &Path, log: &Path, status: ExitStatus) -> Option<Fault> {
    let (name, of) = (launch.program.name(), format!("the container of '{}'", launch.start.instance));
    let said = match launch.options.by {
        By::Nspawn => {
            let words = nspawn::last_words(status, &crate::local::logs::tail(log).unwrap_or_default())?;
            nspawn_said(&of, &words)
        }
        _ => format!("could not start {of}: {name} refused: {}", lxc::complaint(status, &lxc::messages(directory))?),
    };
    Some(Fault::new(said))
}

/// What is known where a service's log ends in words as nspawn's: they may be the service's, of which nothing was seen.
fn nspawn_said(of: &str, words: &str) -> String {
    format!("{of} has ended before its program was seen, and the log ends with what may be systemd-nspawn's: {words}")
}

/// Writes a file that contains the service's environment, including its secrets.
fn write_secret(place: &Path, text: &str) -> Result<(), Fault> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(place);
    file.and_then(|mut file| file.write_all(text.as_bytes())).doing(format!("write {}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn nspawn_is_not_said_to_have_refused_where_the_service_may_have_spoken() {
        let printed = "src/nspawn/nspawn.c:1: a line that the service has printed\n";
        let words = nspawn::last_words(ExitStatus::from_raw(1 << 8), printed).unwrap();
        let said = nspawn_said("the container of 'web'", &words);
        assert!(!said.contains("refused") && !said.contains("could not start"), "{said}");
        assert!(said.ends_with("what may be systemd-nspawn's: a line that the service has printed"), "{said}");
    }
}
