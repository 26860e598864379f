//! Starting one container: its root, its `config.json`, and the runtime's two steps, between which its process is bound
//! to its CPUs.

use super::super::observe;
use super::super::options::{ContainerOptions, RootKind};
use super::super::spec::{self, open_files};
use super::config::{HostFacts, Order, config};
use super::program::Program;
use crate::cgroup::{self, Group};
use crate::local::accounts::Accounts;
use crate::local::child::OwnChild;
use crate::local::hosts::on_machine;
use crate::local::root::{self, Root};
use crate::local::running::Inside;
use crate::local::volumes::{make_volumes, volume_folders};
use rustix::process::{Signal, child_subreaper, getpid, set_child_subreaper};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{ServiceStart, TrialContext};
use tare_core::units::CpuSet;

/// A container that is about to be started.
pub(super) struct Launch<'a> {
    pub(super) program: &'a Program,
    pub(super) options: ContainerOptions,
    pub(super) surroundings: &'a TrialContext,
    pub(super) start: &'a ServiceStart,
    /// Its name among those of the run: the instance's, or that of the resource probe in its place.
    pub(super) name: &'a str,
    /// The bundle's tree.
    pub(super) bundle: &'a Path,
    /// The program that reports what a service gets, if it is to run.
    pub(super) probe: Option<&'a Path>,
}

/// A container that was started.
pub(super) struct Started {
    pub(super) child: OwnChild,
    /// The service, if the child only looks after it.
    pub(super) inside: Option<Inside>,
    /// How it has ended, if it had before it was seen.
    pub(super) ended: Option<String>,
    pub(super) group: Group,
    /// What was made for it.
    pub(super) directory: PathBuf,
    /// The CPUs that it may run on.
    pub(super) cpus: Option<CpuSet>,
    /// What it was started without.
    pub(super) warnings: Vec<String>,
}

impl Launch<'_> {
    /// Starts it with its output going to `stdout` and `stderr`. On failure nothing of it is left.
    ///
    /// # Errors
    /// What could not be made, or what the runtime says: a missing program, a limit refused.
    pub(super) fn start(&self, stdout: File, stderr: File) -> Result<Started, Fault> {
        if let Some(refused) = self.options.refused_as_image(self.start) {
            return Err(refused);
        }
        let directory = self.surroundings.scratch.join(self.name);
        let scratch = &self.surroundings.scratch;
        let accounts = Accounts::write(scratch, self.name, self.bundle, self.start).and_then(|accounts| {
            let start = on_machine(self.start, self.surroundings.address);
            accounts.with_names(scratch, self.name, self.bundle, &start)
        });
        let made = accounts.and_then(|accounts| {
            let child = self.create(&directory, &accounts, stdout, stderr)?;
            Ok(Started { warnings: accounts.warnings, ..self.let_go(child, &directory)? })
        });
        made.map_err(|fault| {
            // Report the first failure, not those in the cleanup.
            let _ = self.group().and_then(|mut group| group.remove());
            let _ = self.forget(&directory);
            let _ = tare_removal::remove_tree(&directory);
            self.explained(fault)
        })
    }

    /// What the runtime calls it.
    fn id(&self) -> String {
        spec::container_name(self.surroundings, self.name)
    }

    /// Its cgroup's name below the run's.
    pub(super) fn group_name(&self) -> String {
        group_name(self.surroundings, self.name)
    }

    fn group(&self) -> Result<Group, Fault> {
        Group::found(&self.surroundings.run, &self.group_name())
    }

    /// Makes its directory, volumes and root, and has the runtime make everything but its program.
    fn create(&self, directory: &Path, accounts: &Accounts, stdout: File, stderr: File) -> Result<OwnChild, Fault> {
        fs::create_dir_all(directory.join("root")).doing(format!("make {}", directory.display()))?;
        let volumes = volume_folders(&self.surroundings.scratch, self.name, self.start);
        make_volumes(&volumes, &self.start.service, self.bundle)?;
        let (bundle, assembly, accounts) = (self.bundle.to_owned(), directory.join("root"), accounts.clone());
        let tree = Root { bundle, assembly, volumes, accounts, program: None, own: None };
        let create = || {
            let placed = match self.options.root {
                RootKind::Directory => tree.place_bundle()?,
                RootKind::Overlay => tree.place_layered(directory)?,
            };
            // Mounted here, since a runtime gives memory the mode of the directory that it is mounted on.
            root::place_memory(&placed)?;
            self.write_config(directory, &placed, &tree)?;
            let (log, pid) = (directory.join("runtime.log"), directory.join("pid"));
            let mut command = self.program.command(&self.surroundings.run, &state(self.surroundings), &log);
            command.arg("create").arg("--bundle").arg(directory).arg("--pid-file").arg(&pid).arg(self.id());
            command.stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
            let doing = format!("make the container of '{}'", self.start.instance);
            // The runtime makes its cgroups below, in the hierarchies that it chooses.
            let run = &self.surroundings.run;
            adopting(|| {
                let made = cgroup::make_tops(run).and_then(|()| self.program.run(&mut command, &log, &doing));
                let kept = cgroup::keep_tops_in_use(run);
                made.and(kept)
            })?;
            let text = fs::read_to_string(&pid).doing(format!("read {}", pid.display()))?;
            let child = text.trim().parse().ok().and_then(OwnChild::adopted);
            child.ok_or_else(|| Fault::new(format!("{} names no process: '{text}'", pid.display())))
        };
        // A thread of its own, which gives up its mounts for good.
        std::thread::scope(|scope| scope.spawn(create).join().expect("making a container does not panic"))
    }

    fn write_config(&self, directory: &Path, root: &Path, tree: &Root) -> Result<(), Fault> {
        let cpus = self.cpus()?;
        let order = Order {
            options: self.options,
            start: self.start,
            home: &tree.accounts.home,
            root,
            volumes: &tree.volumes,
            probe: self.probe,
            group: &cgroup::group_path(&self.surroundings.run, &self.group_name()),
            cpus: cpus.as_ref(),
            open_files: open_files(),
            machine: HostFacts::this(),
        };
        let place = directory.join("config.json");
        // It contains the service's environment, including its secrets.
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&place);
        file.and_then(|mut file| file.write_all(config(&order).to_string().as_bytes()))
            .doing(format!("write {}", place.display()))
    }

    /// The CPUs that it may run on.
    pub(super) fn cpus(&self) -> Result<Option<CpuSet>, Fault> {
        spec::cpuset(self.options.limits, &self.surroundings.cpus, self.start)
    }

    /// Binds the process that the runtime has made and that is waiting, and lets it run its program.
    fn let_go(&self, child: OwnChild, directory: &Path) -> Result<Started, Fault> {
        let go = || {
            let cpus = self.cpus()?;
            if let Some(cpus) = &cpus {
                // Otherwise it would keep this process's CPUs, or lose them on joining its cgroup; kernels differ.
                observe::confine(&[child.id()], cpus);
            }
            let log = directory.join("runtime.log");
            let mut command = self.program.command(&self.surroundings.run, &state(self.surroundings), &log);
            let doing = format!("start the container of '{}'", self.start.instance);
            self.program.run(command.arg("start").arg(self.id()), &log, &doing)?;
            let (group, directory) = (self.group()?, directory.to_owned());
            Ok(Started { child, inside: None, ended: None, group, directory, cpus, warnings: Vec::new() })
        };
        go().inspect_err(|_| {
            child.signal(Signal::KILL);
            let _ = child.wait();
        })
    }

    /// Has the runtime forget the container, whose processes are gone.
    fn forget(&self, directory: &Path) -> Result<(), Fault> {
        forget(self.program, self.surroundings, self.name, &directory.join("runtime.log"))
    }

    /// The fault with what to do about it, where that is known.
    pub(super) fn explained(&self, fault: Fault) -> Fault {
        let missing = ["no such file or directory", "not found", "permission denied"];
        let program = self.start.service.command.first().map(String::as_str).unwrap_or_default();
        let message = fault.message.to_lowercase();
        if fault.message.contains(program) && missing.iter().any(|words| message.contains(words)) {
            return fault.remedy("check the command of the service against the files of the service's bundle");
        }
        fault
    }
}

/// The name of a container's cgroup below the run's; one in another place must not be mistaken for it.
pub(super) fn group_name(surroundings: &TrialContext, name: &str) -> String {
    match surroundings.place {
        0 => name.to_owned(),
        place => format!("{name}.{place}"),
    }
}

/// Where runtimes keep their state for a trial.
pub(super) fn state(surroundings: &TrialContext) -> PathBuf {
    surroundings.scratch.join("runtime")
}

/// Has the runtime forget a container in which nothing runs any more; one that it does not know is no error.
///
/// # Errors
/// When the runtime refuses.
pub(super) fn forget(program: &Program, surroundings: &TrialContext, name: &str, log: &Path) -> Result<(), Fault> {
    let (state, id) = (state(surroundings), spec::container_name(surroundings, name));
    if !state.join(&id).exists() {
        return Ok(());
    }
    let mut command = program.command(&surroundings.run, &state, log);
    program.run(command.args(["delete", "--force", &id]), log, &format!("forget the container of '{name}'"))
}

/// Makes this process the parent of what the runtime starts and leaves behind, so that its end can be observed; only
/// while that is needed, since anything else that loses its parent is not ours.
fn adopting<T>(start: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // The lock guards state in the kernel: a panic has left nothing half done.
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let doing = "become the parent of the container's process";
    let before = child_subreaper().doing(doing)?;
    set_child_subreaper(Some(getpid())).doing(doing)?;
    let started = start();
    set_child_subreaper(before).doing(doing)?;
    started
}
