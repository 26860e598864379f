//! A host whose services are started by an OCI runtime, or in system containers.

use super::super::engine::is_guest;
use super::super::observe;
use super::super::options::{By, ContainerOptions};
use super::launch::{Launch, Started, forget, state};
use super::program::Program;
use super::system;
use crate::local::host::{PROBE_WITHIN, create_log};
use crate::local::logs::{Keeper, tail};
use crate::local::running::Running;
use crate::local::volumes::{remove_volumes, volume_folders};
use crate::local::ways_in::into_service;
use crate::local::{self, ports};
use crate::network::{Fenced, UserHere};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::{Doing, Fault};
use tare_core::held::Held;
use tare_core::host::{
    Facts, FilesSeen, Host, Instance, InstanceState, LocalOuter, MachineServices, OpenError, ResourceReport, SeenFile,
    ServiceStart, TrialContext, Wait, WayIn,
};
use tare_core::layer::LayerUse;
use tare_core::telemetry::{Rest, Scope, TelemetryRow};

/// Opens the layer with a runtime; the contract is that of [`Host::open`].
pub(in super::super) fn open(
    outer: Box<dyn LocalOuter>,
    options: ContainerOptions,
    surroundings: &TrialContext,
) -> Result<Box<dyn Host>, OpenError> {
    let carrier = outer.carrier();
    let outer = outer.into_host();
    match Inner::open(carrier, options, surroundings) {
        Ok(inner) => Ok(Box::new(RuntimeHost { outer, inner })),
        Err(error) => {
            // Report the first failure, not one in the cleanup.
            let _ = outer.close();
            Err(error)
        }
    }
}

/// The containers on their outer host.
struct RuntimeHost {
    outer: Box<dyn Host>,
    inner: Inner,
}

/// What this layer itself made.
struct Inner {
    carrier: Arc<MachineServices>,
    options: ContainerOptions,
    surroundings: TrialContext,
    program: Program,
    running: BTreeMap<String, Running>,
    /// The logs of all instances, including those that were stopped.
    logs: BTreeMap<String, PathBuf>,
    fenced: Fenced,
    keeper: Keeper,
}

impl Inner {
    fn open(
        carrier: Arc<MachineServices>,
        options: ContainerOptions,
        around: &TrialContext,
    ) -> Result<Inner, OpenError> {
        if is_guest() {
            let fault = Fault::new("in a guest there is nothing that starts a container but the engine")
                .remedy("leave 'by' out where the container stands in a guest");
            return Err(OpenError::Unavailable(fault));
        }
        let program = Program::of(&options).map_err(OpenError::Unavailable)?;
        let state = state(around);
        fs::create_dir_all(&state).doing(format!("make {}", state.display()))?;
        let (surroundings, running, logs) = (around.clone(), BTreeMap::new(), BTreeMap::new());
        let (fenced, keeper) = (Fenced::default(), Keeper::default());
        Ok(Inner { carrier, options, surroundings, program, running, logs, fenced, keeper })
    }

    fn known(&mut self, instance: &str) -> Result<&mut Running, Fault> {
        let unknown = || Fault::new(format!("no instance '{instance}' was started here"));
        self.running.get_mut(instance).ok_or_else(unknown)
    }

    /// Starts the container of a service, or the resource probe in its place, with its errors going to the file `log`;
    /// returns what it lacks.
    fn launch(
        &self,
        start: &ServiceStart,
        name: &str,
        log: &Path,
        output: (File, File),
        probe: bool,
    ) -> Result<(Running, Vec<String>), Fault> {
        let bundle = self.carrier.bundles.bundle(&start.service.recipe)?.directory()?;
        let launch = Launch {
            program: &self.program,
            options: self.options,
            surroundings: &self.surroundings,
            start,
            name,
            bundle: &bundle,
            probe: probe.then_some(self.carrier.program.as_path()),
        };
        let started = match self.options.by {
            By::Nspawn | By::Lxc => system::start(&launch, log, output.0, output.1),
            By::Engine | By::Runtime => launch.start(output.0, output.1),
        };
        let Started { child, inside, ended, group, directory, cpus, warnings } = started?;
        let start = start.clone();
        let (shift, frozen, command) = (None, Some(false), None);
        let running = Running { start, child, inside, ended, group, directory, bundle, shift, cpus, frozen, command };
        Ok((running, warnings))
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        let instance = &start.instance;
        assert!(!self.running.contains_key(instance), "instance '{instance}' was started twice");
        ports::check_free(&start.service.ports)?;
        let open = self.fenced.close(&self.surroundings.run, start, UserHere::Same)?;
        let log = self.surroundings.scratch.join(format!("{instance}.log"));
        let launched = self.launch_with_log(start, &log);
        let (running, warnings) = launched.inspect_err(|_| {
            self.fenced.open(start);
            let _ = fs::remove_file(&log);
        })?;
        let cpus = running.cpus.clone();
        self.logs.insert(instance.clone(), log);
        self.running.insert(instance.clone(), running);
        let address = self.surroundings.address;
        let ports = &start.service.ports;
        Ok(Instance {
            instance: instance.clone(),
            endpoints: ports.iter().map(|(name, port)| (name.clone(), SocketAddr::new(address, *port))).collect(),
            peers: BTreeMap::new(),
            path: format!("the host's own network, no bridge and no translation{open}"),
            cpus,
            warnings,
        })
    }

    fn launch_with_log(&mut self, start: &ServiceStart, log: &Path) -> Result<(Running, Vec<String>), Fault> {
        let file = create_log(log, start.service.user).doing(format!("make the log {}", log.display()))?;
        let second = file.try_clone().doing("share the log")?;
        self.keeper.keep(file.try_clone().doing("share the log")?);
        self.launch(start, &start.instance, log, (file, second), false)
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        let log = self.surroundings.scratch.join("runtime.log");
        let stopped = self.known(instance)?.stop().map_err(|fault| fault.context(format!("stop '{instance}'")));
        let forgotten = self.forget(instance, &log);
        stopped.and(forgotten)?;
        if let Some(stopped) = self.running.remove(instance) {
            self.fenced.open(&stopped.start);
        }
        Ok(())
    }

    /// Has whoever has started a container forget it.
    fn forget(&self, name: &str, log: &Path) -> Result<(), Fault> {
        match self.options.by {
            By::Nspawn | By::Lxc => system::forget(self.options.by, &self.surroundings, name),
            By::Engine | By::Runtime => forget(&self.program, &self.surroundings, name, log),
        }
    }

    /// Runs the resource probe just as the service would be run, and reads its report.
    fn resources(&self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        let name = format!("{}.resources", start.instance);
        let place = |kind: &str| self.surroundings.scratch.join(format!("{name}.{kind}"));
        let make = |path: PathBuf| create_log(&path, start.service.user).doing(format!("make {}", path.display()));
        let (stdout, stderr) = (make(place("report"))?, make(place("log"))?);
        let (mut probe, _) = self.launch(start, &name, &place("log"), (stdout, stderr), true)?;
        let ended = wait_for_end(&mut probe);
        let stopped = probe.stop();
        let forgotten = self.forget(&name, &place("runtime"));
        let read = |kind| fs::read_to_string(place(kind)).unwrap_or_default();
        let (text, said) = (read("report"), read("log"));
        for kind in ["report", "log", "runtime"] {
            // Absent if the runtime had nothing to say; all of it goes with the run.
            let _ = fs::remove_file(place(kind));
        }
        let removed = remove_volumes(&self.surroundings.scratch, Some(&name));
        let how = ended?;
        stopped.and(forgotten).and(removed)?;
        if how != "exit code 0" {
            return Err(Fault::new(format!("the resource probe ended: {how}")).with_log(said));
        }
        serde_json::from_str(&text).doing("understand what the resource probe says")
    }

    /// What is sampled on the outer host because of this layer.
    fn scopes(&self) -> Vec<Scope> {
        let scope = |(name, running): (&String, &Running)| {
            let cgroups = match &running.inside {
                None => running.pid().map(observe::cgroups).unwrap_or_default(),
                // With whoever looks after the service: it is a part of such a container.
                Some(_) => running.group.directories().iter().map(|path| path.display().to_string()).collect(),
            };
            Scope { name: name.clone(), serving: true, pids: running.roots(), cgroups }
        };
        self.running.iter().map(scope).collect()
    }

    fn facts(&self) -> Facts {
        let mut facts = self.program.facts();
        facts.extend(self.options.facts());
        facts
    }

    fn close(mut self) -> Result<(), Fault> {
        let mut outcome = Ok(());
        for name in self.running.keys().cloned().collect::<Vec<_>>() {
            outcome = outcome.and(self.stop(&name));
        }
        for path in self.logs.values().cloned().chain([self.surroundings.scratch.join("runtime.log")]) {
            // If this fails, the whole directory goes with the run.
            let _ = fs::remove_file(path);
        }
        outcome = outcome.and_then(|()| remove_volumes(&self.surroundings.scratch, None));
        let state = state(&self.surroundings);
        outcome.and(tare_removal::remove_tree(&state).doing(format!("remove {}", state.display())))
    }
}

/// Waits for a process that ends by itself; returns how it ended.
fn wait_for_end(running: &mut Running) -> Result<String, Fault> {
    let deadline = Instant::now() + PROBE_WITHIN;
    loop {
        match running.state()? {
            InstanceState::Ended(how) => return Ok(how),
            InstanceState::Running if Instant::now() >= deadline => {
                let seconds = PROBE_WITHIN.as_secs();
                return Err(Fault::new(format!("the resource probe did not end within {seconds} s")));
            }
            InstanceState::Running => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

impl Host for RuntimeHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        let mut facts = self.outer.facts()?;
        facts.extend(self.inner.facts());
        Ok(facts)
    }

    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        self.inner.resources(start)
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        self.inner.start(start)
    }

    fn volumes(&self, start: &ServiceStart) -> Option<Vec<PathBuf>> {
        let folders = volume_folders(&self.inner.surroundings.scratch, &start.instance, start);
        Some(folders.into_iter().map(|volume| volume.folder).collect())
    }

    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        self.inner.known(instance)?.state()
    }

    fn mapped_files(&mut self, instance: &str, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
        self.inner.known(instance)?.mapped_files(wait)
    }

    fn files_seen(&mut self, start: &ServiceStart, said: Option<&[SeenFile]>, wait: Wait) -> Result<FilesSeen, Fault> {
        let pid = self.inner.known(&start.instance)?.pid()?;
        local::files::files_seen(pid, &local::files::of_bundle(&self.inner.carrier, start, said, wait)?, wait)
    }

    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        let unknown = || Fault::new(format!("no instance '{instance}' was started here"));
        let path = self.inner.logs.get(instance).ok_or_else(unknown)?;
        tail(path).doing(format!("read the log {}", path.display()))
    }

    fn ways_in(&mut self, instance: &str) -> Vec<WayIn> {
        into_service(self.inner.running.get_mut(instance), self.inner.logs.get(instance))
    }

    fn begin_command(&mut self, instance: &str, command: &CommandStart) -> Result<(), Fault> {
        let begun = self.inner.known(instance)?.begin_command(command, None);
        begun.map_err(|fault| fault.context(format!("run a command beside '{instance}'")))
    }

    fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        let awaited = self.inner.known(instance)?.await_command(patience);
        awaited.map_err(|fault| fault.context(format!("run a command beside '{instance}'")))
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        let ended = self.inner.known(instance)?.end_command();
        ended.map_err(|fault| fault.context(format!("end the command beside '{instance}'")))
    }

    fn freeze(&mut self) -> Result<(), Fault> {
        self.inner.running.values_mut().try_for_each(|running| running.freeze(true))
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        self.inner.running.values_mut().try_for_each(|running| running.freeze(false))
    }

    fn held(&mut self) -> Result<Vec<Held>, Fault> {
        self.inner.running.values_mut().map(Running::held).collect()
    }

    fn serving(&mut self) -> Result<Vec<Scope>, Fault> {
        Ok(self.inner.scopes())
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.inner.stop(instance)
    }

    fn begin_probe(&mut self, outside: &[Scope], period: Duration) -> Result<(), Fault> {
        let mut scopes = outside.to_vec();
        scopes.extend(self.inner.scopes());
        self.outer.begin_probe(&scopes, period)
    }

    fn rest_probe(&mut self, rests: &[Rest]) -> Result<(), Fault> {
        self.outer.rest_probe(rests)
    }

    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        self.outer.end_probe()
    }

    fn open(self: Box<Self>, layer: &LayerUse, _: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        // Report why it cannot be opened, not what else went wrong.
        let _ = self.close();
        Err(OpenError::Unavailable(super::super::holds_no_layer(&layer.layer)))
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        let RuntimeHost { outer, inner } = *self;
        let own = inner.close();
        let outer = outer.close();
        own.and(outer)
    }
}
