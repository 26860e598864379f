//! The host at the bottom of every form: services are processes of the machine that this code runs on.

use super::accounts::Accounts;
use super::child::OwnChild;
use super::hosts::on_machine;
use super::launch::{Launch, Rooted};
use super::logs::{Keeper, tail};
use super::root::{OwnRoot, PROGRAM_INSIDE, Root};
use super::running::{Running, describe_end};
use super::shift::Shift;
use super::volumes::{make_volumes, remove_volumes, volume_folders};
use super::ways_in::into_service;
use super::{facts, files, ports};
use crate::cgroup::Group;
use crate::marks;
use crate::network::{Fenced, Room, UserHere};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::{Doing, Fault};
use tare_core::held::Held;
use tare_core::host::{
    Facts, FilesSeen, Host, Instance, InstanceState, LocalOuter, MachineServices, OpenError, ResourceReport, SeenFile,
    ServiceStart, TrialContext, Wait, WayIn, layer_named,
};
use tare_core::layer::LayerUse;
use tare_core::profile::Profile;
use tare_core::telemetry::{Prober, Rest, Scope, TelemetryRow};
use tare_core::units::CpuSet;

/// How long the resource probe may take; an emulated guest is about fifteen times slower than this machine.
pub(crate) const PROBE_WITHIN: Duration = Duration::from_secs(120);

/// Services as processes of this machine, each rooted in its bundle, unprivileged, within its limits.
///
/// Services, commands and the resource probe are children of a thread that the calling thread starts, so they begin
/// with its niceness and scheduling policy. Root, user, CPUs, NUMA nodes, limits, environment, capabilities and network
/// are set for each.
///
/// Inside a guest, whose first process reaps every child that ends, that process must leave this host's children alone.
pub struct LocalHost {
    carrier: Arc<MachineServices>,
    surroundings: TrialContext,
    running: BTreeMap<String, Running>,
    /// The logs of all instances, including those that were stopped.
    logs: BTreeMap<String, PathBuf>,
    keeper: Keeper,
    prober: Option<Box<dyn Prober>>,
    profiler: Option<Box<dyn Prober>>,
    /// A network of its own, when it stands beside other forms.
    room: Option<Room>,
    fenced: Fenced,
    /// Whether the scratch directory was made here, and so is removed with this host, whatever layers have put into it.
    own_scratch: bool,
}

impl LocalHost {
    /// A host on this machine; makes the directory for its volumes and logs.
    ///
    /// # Errors
    /// When the run's id is invalid or the directory cannot be made.
    pub fn new(carrier: Arc<MachineServices>, surroundings: TrialContext) -> Result<LocalHost, Fault> {
        marks::check_run(&surroundings.run)?;
        let scratch = &surroundings.scratch;
        let own_scratch = !scratch.exists();
        fs::create_dir_all(scratch).doing(format!("make {}", scratch.display()))?;
        let (running, logs, keeper) = (BTreeMap::new(), BTreeMap::new(), Keeper::default());
        let (prober, profiler, room, fenced) = (None, None, None, Fenced::default());
        Ok(LocalHost { carrier, surroundings, running, logs, keeper, prober, profiler, room, fenced, own_scratch })
    }

    /// The same, for services that stand beside those of other forms, which listen on the same ports: they get a
    /// network of their own, as near to the generator as this machine itself.
    ///
    /// # Errors
    /// See [`LocalHost::new`].
    pub fn in_room(carrier: Arc<MachineServices>, surroundings: TrialContext, room: Room) -> Result<LocalHost, Fault> {
        let address = room.address();
        let mut host = LocalHost::new(carrier, TrialContext { address, ..surroundings })?;
        host.room = Some(room);
        Ok(host)
    }

    fn instance(&mut self, name: &str) -> Result<&mut Running, Fault> {
        self.running.get_mut(name).ok_or_else(|| Fault::new(format!("no service runs under the name '{name}'")))
    }

    /// Creates what a process needs around it: directories, volumes, root and cgroup.
    fn prepare(&self, start: &ServiceStart, name: &str) -> Result<(PathBuf, Root, Group), Fault> {
        let bundle = self.carrier.bundles.bundle(&start.service.recipe)?.directory()?;
        let directory = self.surroundings.scratch.join(name);
        let made = || {
            fs::create_dir_all(directory.join("root")).doing(format!("make {}", directory.display()))?;
            let volumes = volume_folders(&self.surroundings.scratch, name, start);
            make_volumes(&volumes, &start.service, &bundle)?;
            let shift = start.service.as_image.then(Shift::new).transpose()?;
            let own = shift.map(|shift| OwnRoot { layer: directory.clone(), shift: Arc::new(shift) });
            let group = match self.surroundings.place {
                0 => name.to_owned(),
                place => format!("{name}.{place}"),
            };
            let group = Group::create(&self.surroundings.run, &group, &start.service.resources)?;
            let accounts = Accounts::write(&self.surroundings.scratch, name, &bundle, start)?;
            let start = &on_machine(start, self.surroundings.address);
            let accounts = accounts.with_names(&self.surroundings.scratch, name, &bundle, start)?;
            let root = Root { bundle, assembly: directory.join("root"), volumes, accounts, program: None, own };
            Ok((directory.clone(), root, group))
        };
        made().inspect_err(|_| {
            let _ = tare_removal::remove_tree(&directory);
        })
    }

    /// The CPUs for a service, no fewer than it wants.
    pub(crate) fn cpus(start: &ServiceStart) -> Result<Option<CpuSet>, Fault> {
        let Some(given) = &start.cpus else { return Ok(None) };
        let wanted = start.service.resources.cpus as usize;
        if given.len() < wanted {
            let message =
                format!("service '{}' wants {wanted} CPUs, but {} are left to it", start.instance, given.len());
            return Err(Fault::new(message).remedy("lower 'cpus' of the service, or use a machine with more"));
        }
        Ok(Some(given.clone()))
    }

    /// Starts a service's process in what was prepared for it, with its output going to `log`.
    fn launch(&mut self, start: &ServiceStart, root: &Root, group: &Group, log: &Path) -> Result<Child, Fault> {
        let (service, cpus) = (&start.service, Self::cpus(start)?);
        let here = root.shift().map_or(service.user, |shift| shift.here(service.user));
        let file = create_log(log, here).doing(format!("make the log {}", log.display()))?;
        let second = file.try_clone().doing("share the log")?;
        self.keeper.keep(file.try_clone().doing("share the log")?);
        let launch = Launch {
            root: Rooted::New(root),
            group,
            command: &service.command,
            directory: service.directory.as_deref(),
            environment: &service.environment,
            user: service.user,
            as_image: service.as_image,
            shift: root.shift(),
            cpus: cpus.as_ref(),
            memory: &start.memory,
            room: self.room.as_ref(),
        };
        launch.start(file.into(), second.into())
    }

    /// Runs the resource probe just as the service would be run, and reads its report.
    fn run_probe(&self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        let cpus = Self::cpus(start)?;
        let (directory, mut root, mut group) = self.prepare(start, &format!("{}.resources", start.instance))?;
        root.program = Some(self.carrier.program.clone());
        let launch = Launch {
            root: Rooted::New(&root),
            group: &group,
            command: &[PROGRAM_INSIDE.to_owned(), "resources".to_owned()],
            directory: None,
            environment: &start.service.environment,
            user: start.service.user,
            as_image: start.service.as_image,
            shift: root.shift(),
            cpus: cpus.as_ref(),
            memory: &start.memory,
            room: self.room.as_ref(),
        };
        let outcome = launch.start(Stdio::piped(), Stdio::piped()).and_then(wait_for_report);
        let removed = group.remove();
        tare_removal::remove_tree(&directory).doing(format!("remove {}", directory.display()))?;
        remove_volumes(&self.surroundings.scratch, Some(&format!("{}.resources", start.instance)))?;
        let report = outcome?;
        removed.map(|()| report)
    }

    /// What serves here, after the scopes that an inner host has on this one.
    fn scopes(&self, outside: &[Scope]) -> Vec<Scope> {
        let own = self.running.values().map(|running| {
            let cgroups = running.group.directories().iter().map(|path| path.display().to_string()).collect();
            let name = running.start.instance.clone();
            Scope { name, serving: true, pids: running.roots(), cgroups }
        });
        outside.iter().cloned().chain(own).collect()
    }

    fn log_path(&self, instance: &str) -> PathBuf {
        self.surroundings.scratch.join(format!("{instance}.log"))
    }

    /// Stops everything and removes what it used; reports what was left.
    fn clear(&mut self) -> Result<(), Fault> {
        if let Some(mut prober) = self.prober.take() {
            // Nobody wants its rows any more.
            let _ = prober.end();
        }
        // It ends when it is dropped.
        self.profiler = None;
        let mut outcome = Ok(());
        for name in self.running.keys().cloned().collect::<Vec<_>>() {
            outcome = outcome.and(self.stop(&name));
        }
        for path in std::mem::take(&mut self.logs).into_values() {
            // If this fails, the whole directory goes with the run.
            let _ = fs::remove_file(path);
        }
        if let Some(room) = self.room.take() {
            outcome = outcome.and(room.close());
        }
        let scratch = &self.surroundings.scratch;
        outcome = outcome.and_then(|()| remove_volumes(scratch, None));
        if outcome.is_ok() && self.own_scratch && scratch.exists() {
            outcome = tare_removal::remove_tree(scratch).doing(format!("remove {}", scratch.display()));
        }
        outcome
    }
}

/// A log that the service's user may reopen through /dev/stdout, as many servers do.
pub(crate) fn create_log(path: &Path, user: (u32, u32)) -> std::io::Result<File> {
    let log = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    std::os::unix::fs::fchown(&log, Some(user.0), Some(user.1))?;
    drop(log);
    // Append mode: two descriptors for one file would otherwise overwrite each other.
    OpenOptions::new().append(true).open(path)
}

/// Waits for the resource probe and reads what it wrote.
fn wait_for_report(child: Child) -> Result<ResourceReport, Fault> {
    // By a descriptor: the waiter may reap the process at the very moment when it is given up on.
    let pid = rustix::process::Pid::from_child(&child);
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).doing("watch the probe")?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let in_time = receiver.recv_timeout(PROBE_WITHIN);
    if in_time.is_err() {
        let _ = rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL);
    }
    waiter.join().expect("waiting for a process does not panic").ok();
    let late = || Fault::new(format!("the resource probe has not answered for {} s", PROBE_WITHIN.as_secs()));
    let output = in_time.map_err(|_| late())?.doing("wait for the resource probe")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let how = describe_end(output.status, 0);
        return Err(Fault::new(format!("the resource probe failed: {how}")).with_log(said));
    }
    serde_json::from_slice(&output.stdout)
        .doing("understand the resource probe's report")
        .map_err(|fault| fault.with_log(said))
}

impl Host for LocalHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        Ok(facts::facts())
    }

    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        let doing = format!("read what '{}' really gets", start.instance);
        self.run_probe(start).map_err(|fault| fault.context(doing))
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        let service = &start.service;
        if self.running.contains_key(&start.instance) {
            return Err(Fault::new(format!("a service runs under the name '{}' already", start.instance)));
        }
        let (mut open, cpus) = (String::new(), Self::cpus(start)?);
        if self.room.is_none() {
            ports::check_free(&service.ports)?;
            open = self.fenced.close(&self.surroundings.run, start, UserHere::Same)?;
        }
        let prepared = self.prepare(start, &start.instance).inspect_err(|_| self.fenced.open(start));
        let (directory, root, mut group) = prepared?;
        let log = self.log_path(&start.instance);
        let child = match self.launch(start, &root, &group, &log) {
            Ok(child) => child,
            Err(fault) => {
                self.fenced.open(start);
                // Report the first failure, not those in the cleanup.
                let _ = group.remove();
                let _ = tare_removal::remove_tree(&directory);
                let _ = fs::remove_file(&log);
                return Err(fault);
            }
        };
        self.logs.insert(start.instance.clone(), log);
        let uncounted = group.why_uncounted().map(Fault::to_string);
        let running = Running {
            start: start.clone(),
            child: OwnChild::spawned(&child),
            inside: None,
            ended: None,
            group,
            directory,
            bundle: root.bundle,
            shift: root.own.map(|own| own.shift),
            cpus: cpus.clone(),
            frozen: Some(false),
            command: None,
        };
        self.running.insert(start.instance.clone(), running);
        let address = self.surroundings.address;
        let link = if address.is_loopback() { "loopback" } else { "veth" };
        Ok(Instance {
            instance: start.instance.clone(),
            endpoints: service
                .ports
                .iter()
                .map(|(name, port)| (name.clone(), SocketAddr::new(address, *port)))
                .collect(),
            peers: BTreeMap::new(),
            path: format!("{link}, straight to the process{open}"),
            cpus,
            warnings: root.accounts.warnings.into_iter().chain(uncounted).collect(),
        })
    }

    fn volumes(&self, start: &ServiceStart) -> Option<Vec<PathBuf>> {
        let folders = volume_folders(&self.surroundings.scratch, &start.instance, start);
        Some(folders.into_iter().map(|volume| volume.folder).collect())
    }

    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        self.instance(instance)?.state()
    }

    fn mapped_files(&mut self, instance: &str, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
        self.instance(instance)?.mapped_files(wait)
    }

    fn files_seen(&mut self, start: &ServiceStart, said: Option<&[SeenFile]>, wait: Wait) -> Result<FilesSeen, Fault> {
        let pid = self.instance(&start.instance)?.child.id();
        files::files_seen(pid, &files::of_bundle(&self.carrier, start, said, wait)?, wait)
    }

    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        let path = self.logs.get(instance);
        let path = path.ok_or_else(|| Fault::new(format!("no service was started under the name '{instance}'")))?;
        tail(path).doing(format!("read the log {}", path.display()))
    }

    fn ways_in(&mut self, instance: &str) -> Vec<WayIn> {
        into_service(self.running.get_mut(instance), self.logs.get(instance))
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.instance(instance)?.stop().map_err(|fault| fault.context(format!("stop '{instance}'")))?;
        if let Some(stopped) = self.running.remove(instance) {
            self.fenced.open(&stopped.start);
        }
        Ok(())
    }

    fn begin_command(&mut self, instance: &str, command: &CommandStart) -> Result<(), Fault> {
        self.instance(instance)?;
        let (running, room) = (self.running.get_mut(instance), self.room.as_ref());
        let running = running.expect("it was found right before");
        let begun = running.begin_command(command, room);
        begun.map_err(|fault| fault.context(format!("run a command beside '{instance}'")))
    }

    fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        let awaited = self.instance(instance)?.await_command(patience);
        awaited.map_err(|fault| fault.context(format!("run a command beside '{instance}'")))
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        let ended = self.instance(instance)?.end_command();
        ended.map_err(|fault| fault.context(format!("end the command beside '{instance}'")))
    }

    fn freeze(&mut self) -> Result<(), Fault> {
        self.running.values_mut().try_for_each(|running| running.freeze(true))
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        self.running.values_mut().try_for_each(|running| running.freeze(false))
    }

    fn held(&mut self) -> Result<Vec<Held>, Fault> {
        self.running.values_mut().map(Running::held).collect()
    }

    fn serving(&mut self) -> Result<Vec<Scope>, Fault> {
        Ok(self.scopes(&[]))
    }

    fn begin_probe(&mut self, outside: &[Scope], period: Duration) -> Result<(), Fault> {
        if self.prober.is_some() {
            return Err(Fault::new("this host is being sampled already"));
        }
        let mut prober = (self.carrier.prober)()?;
        prober.begin(&self.scopes(outside), period)?;
        self.prober = Some(prober);
        Ok(())
    }

    fn rest_probe(&mut self, rests: &[Rest]) -> Result<(), Fault> {
        let prober = self.prober.as_mut();
        prober.ok_or_else(|| Fault::new("this host is not being sampled"))?.rest(rests)
    }

    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        let prober = self.prober.take();
        prober.ok_or_else(|| Fault::new("this host is not being sampled"))?.end()
    }

    fn begin_profile(&mut self, outside: &[Scope]) -> Result<(), Fault> {
        if self.profiler.is_some() {
            return Err(Fault::new("this host is being profiled already"));
        }
        let mut profiler = (self.carrier.prober)()?;
        profiler.begin_profile(&self.scopes(outside))?;
        self.profiler = Some(profiler);
        Ok(())
    }

    fn end_profile(&mut self, from_ns: u64, to_ns: u64) -> Result<Profile, Fault> {
        let profiler = self.profiler.take();
        profiler.ok_or_else(|| Fault::new("this host is not being profiled"))?.end_profile(from_ns, to_ns)
    }

    fn open(self: Box<Self>, layer: &LayerUse, surroundings: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        let layers = self.carrier.layers;
        if let Some(known) = layer_named(layers, &layer.layer) {
            return known.open(&layer.options, self, surroundings);
        }
        self.close()?;
        let known: Vec<&str> = layers.iter().map(|known| known.name()).collect();
        Err(OpenError::Unavailable(Fault::new(format!(
            "this build of Tare knows no layer '{}', only {}",
            layer.layer,
            known.join(", ")
        ))))
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        self.clear()
    }
}

impl LocalOuter for LocalHost {
    fn carrier(&self) -> Arc<MachineServices> {
        Arc::clone(&self.carrier)
    }

    fn into_host(self: Box<Self>) -> Box<dyn Host> {
        self
    }
}

impl Drop for LocalHost {
    fn drop(&mut self) {
        // Only after a panic is anything left here; a leftover is found by its name.
        let _ = self.clear();
    }
}
