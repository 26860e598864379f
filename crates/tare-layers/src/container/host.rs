//! A host whose services run in containers.

mod frozen;
mod given;
mod observed;
mod placed;
mod reached;
mod ways_in;

use super::command::Command;
use super::engine::{Engine, is_guest};
use super::guest_engine::GuestEngine;
use super::link::Link;
use super::options::{ContainerOptions, Network, Storage};
use super::runtimes::{self, EngineRuntime};
use super::spec::{self, Order};
use super::{find, image, observe, rootless, run};
use crate::cgroup::Group;
use crate::local::{self, accounts::Accounts};
use crate::network::Fenced;
use bollard::models::ContainerInspectResponse;
use given::Given;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
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
use tare_core::profile::Profile;
use tare_core::telemetry::{Rest, Scope, TelemetryRow};

/// How long the resource probe may take; it spins for a moment and writes a little.
const PROBE_WITHIN: Duration = Duration::from_secs(180);

/// Opens the layer with an engine; the contract is that of [`Host::open`].
pub(crate) fn open(
    outer: Box<dyn LocalOuter>,
    options: ContainerOptions,
    surroundings: &TrialContext,
) -> Result<Box<dyn Host>, OpenError> {
    let carrier = outer.carrier();
    let outer = outer.into_host();
    match Inner::open(carrier, options, surroundings) {
        Ok(inner) => Ok(Box::new(ContainerHost { outer, inner })),
        Err(error) => {
            // Report the first failure, not one in the cleanup.
            let _ = outer.close();
            Err(error)
        }
    }
}

/// The containers on their outer host.
struct ContainerHost {
    outer: Box<dyn Host>,
    inner: Inner,
}

/// What this layer itself made.
struct Inner {
    carrier: Arc<MachineServices>,
    options: ContainerOptions,
    surroundings: TrialContext,
    engine: Engine,
    runtime: EngineRuntime,
    guest_engine: Option<GuestEngine>,
    link: Option<Link>,
    /// The addresses on it that containers were given.
    given: Given,
    running: BTreeMap<String, Running>,
    /// Whether the containers are paused.
    frozen: bool,
    /// The containers' groups, whose contents somebody else may have frozen.
    held: Vec<Held>,
    fenced: Fenced,
}

/// What a container that was started lacks, and the group with its limits, see [`Inner::launch`].
type Launched = (Vec<String>, Option<Group>);

/// A container that was started and not yet removed.
struct Running {
    container: String,
    start: ServiceStart,
    command: Option<Command>,
    /// The group with the limits that its engine may not set.
    group: Option<Group>,
}

impl Inner {
    fn open(
        carrier: Arc<MachineServices>,
        options: ContainerOptions,
        surroundings: &TrialContext,
    ) -> Result<Inner, OpenError> {
        let found = find::find_for(&options, Some(surroundings)).map_err(OpenError::Unavailable)?;
        let (engine, guest_engine) = match found {
            Some(engine) => (engine, None),
            None if is_guest() => {
                let (own, engine) = GuestEngine::start(carrier.bundles.as_ref(), surroundings)?;
                (engine, Some(own))
            }
            None => return Err(OpenError::Unavailable(super::no_engine())),
        };
        let runtime = match runtimes::of(&engine, &options) {
            Ok(runtime) => runtime,
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = guest_engine.map_or(Ok(()), GuestEngine::stop);
                return Err(OpenError::Unavailable(fault));
            }
        };
        let (surroundings, running, link) = (surroundings.clone(), BTreeMap::new(), None);
        let (given, frozen, held, fenced) = (Given::default(), false, Vec::new(), Fenced::default());
        let mut inner = Inner {
            carrier,
            options,
            surroundings,
            engine,
            runtime,
            guest_engine,
            link,
            given,
            running,
            frozen,
            held,
            fenced,
        };
        match inner.prepare() {
            Ok(()) => Ok(inner),
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = inner.close();
                Err(OpenError::Failed(fault))
            }
        }
    }

    /// The network, and the images of all that will be started, so that starting takes no longer than in other forms.
    fn prepare(&mut self) -> Result<(), Fault> {
        if !self.options.is_rootless() {
            self.link = Link::open(&self.engine, self.options.network, &self.surroundings)?;
        }
        for start in &self.surroundings.services {
            let bundle = self.carrier.bundles.bundle(&start.service.recipe)?;
            match &mut self.guest_engine {
                Some(own) => own.place(&self.engine, bundle.as_ref())?,
                None => drop(image::ensure(&self.engine, bundle.as_ref())?),
            }
        }
        Ok(())
    }

    fn close(mut self) -> Result<(), Fault> {
        // A container that has ended cannot be resumed; its remains are removed below.
        let _ = self.pause(false);
        let mut faults = Vec::new();
        for running in self.running.values_mut() {
            let stopped = run::stop(&self.engine, &running.container, running.start.service.stop_within);
            faults.extend(stopped.err());
            faults.extend(running.group.as_mut().and_then(|group| group.remove().err()));
        }
        match (self.guest_engine, self.link) {
            // The network is the guest's and goes with it; dismantling it costs an emulated guest seconds.
            (Some(engine), _) => faults.extend(engine.stop().err()),
            (None, Some(link)) => faults.extend(link.close(&self.engine).err()),
            (None, None) => {}
        }
        faults.into_iter().next().map_or(Ok(()), Err)
    }

    fn known(&self, instance: &str) -> Result<&Running, Fault> {
        self.running.get(instance).ok_or_else(|| Fault::new(format!("no instance '{instance}' was started here")))
    }

    fn begin_command(&mut self, instance: &str, wanted: &CommandStart) -> Result<(), Fault> {
        let known = self.known(instance)?;
        if known.command.is_some() {
            return Err(Fault::new(format!("a command runs beside '{instance}' already")));
        }
        let (service, user) = (self.pid(instance)?, known.start.service.user);
        let lent = self.lend(known)?;
        let groups = match &known.group {
            Some(group) => group.directories().to_vec(),
            None => observe::cgroups(service).into_iter().map(PathBuf::from).collect(),
        };
        let command = Command::begin(&self.engine, &known.container, groups, user, wanted)?;
        drop(lent);
        self.running.get_mut(instance).expect("it was found above").command = Some(command);
        Ok(())
    }

    fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        self.known(instance)?;
        let running = self.running.get_mut(instance).expect("it was found right before");
        let command = running.command.as_mut();
        let command = command.ok_or_else(|| Fault::new(format!("no command runs beside '{instance}'")))?;
        let awaited = command.wait(&self.engine, patience);
        if awaited.is_err() {
            // Report the first failure, not one in the cleanup.
            let _ = command.end(&self.engine);
        }
        if !matches!(awaited, Ok(None)) {
            running.command = None;
        }
        awaited
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        self.known(instance)?;
        let command = self.running.get_mut(instance).and_then(|running| running.command.take());
        command.map_or(Ok(()), |mut command| command.end(&self.engine))
    }

    fn inspect(&self, instance: &str) -> Result<ContainerInspectResponse, Fault> {
        let container = &self.known(instance)?.container;
        run::inspect(&self.engine, container)?
            .ok_or_else(|| Fault::new(format!("the container {container} was removed by somebody else")))
    }

    /// The process id of the service in its container.
    fn pid(&self, instance: &str) -> Result<u32, Fault> {
        let state = self.inspect(instance)?.state.unwrap_or_default();
        match state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0) {
            Some(pid) => self.examined(instance, pid),
            None => Err(Fault::new(format!("instance '{instance}' does not run"))),
        }
    }

    /// Creates and starts the container of a service, or the resource probe in its place; returns what it lacks, and
    /// the group of its limits if its engine may not set them.
    fn launch(
        &self,
        start: &ServiceStart,
        (container, address): (&str, Option<Ipv4Addr>),
        probe: Option<PathBuf>,
    ) -> Result<Launched, Fault> {
        let low = placed::lowest_port();
        let refused = self.options.refused_as_image(start).or_else(|| rootless::refused(&self.options, start, low));
        if let Some(refused) = refused {
            return Err(refused);
        }
        let bundle = self.carrier.bundles.bundle(&start.service.recipe)?;
        let (image, directory) = (image::ensure(&self.engine, bundle.as_ref())?, bundle.directory()?);
        let accounts = Accounts::write(&self.surroundings.scratch, &start.instance, &directory, start)?;
        let order = Order {
            options: self.options,
            surroundings: &self.surroundings,
            start,
            image: &image,
            bundle: &directory,
            accounts: &accounts,
            network: self.link.as_ref().map_or("", |link| &link.name),
            address,
            published_at: self.published_at(),
            by_podman: self.engine.is_podman(),
            rootless: self.options.is_rootless(),
            probe: probe.as_deref(),
        };
        let mut group = self.limits_of(start)?;
        let launched = match &group {
            None => run::launch(&self.engine, &order, container, None),
            Some(group) => self.launch_placed(&order, container, group),
        };
        match launched {
            Ok(()) => Ok((accounts.warnings, group)),
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = group.as_mut().map(Group::remove);
                Err(fault)
            }
        }
    }

    /// Keeps the helpers of a container on the CPUs of the system under test.
    fn confine_helpers(&self, start: &ServiceStart) -> Result<(), Fault> {
        if self.surroundings.cpus.is_empty() || start.cpus.is_none() {
            return Ok(());
        }
        let ports: Vec<u16> = start.service.ports.values().copied().collect();
        let mut pids = observe::shims(&self.inspect(&start.instance)?.id.unwrap_or_default());
        pids.extend(observe::port_proxies(self.published_at(), &ports));
        pids.extend(self.helpers().0);
        observe::confine(&pids, &self.surroundings.cpus);
        Ok(())
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        let instance = &start.instance;
        assert!(!self.running.contains_key(instance), "instance '{instance}' was started twice");
        if self.options.network != Network::Bridge {
            run::check_ports(start, self.published_at())?;
        }
        let mut open = String::new();
        if self.options.network == Network::Host {
            open = self.fenced.close(&self.surroundings.run, start, self.engine.user_here()?)?;
        }
        let container = spec::container_name(&self.surroundings, instance);
        let (start, own) = &self.seat(start);
        let launched = self.launch(start, (&container, *own), None);
        let (warnings, group) = launched.inspect_err(|_| self.fenced.open(start))?;
        self.running.insert(instance.clone(), Running { container, start: start.clone(), command: None, group });
        self.confine_helpers(start)?;
        // A container that ended at once no longer has an address; its state and its log then say more than this error.
        let address = self.address(instance).unwrap_or(self.surroundings.address);
        let own_address = self.own_address(instance).unwrap_or(address);
        let ports = &start.service.ports;
        let at = |address| ports.iter().map(|(name, port)| (name.clone(), SocketAddr::new(address, *port))).collect();
        Ok(Instance {
            instance: instance.clone(),
            endpoints: at(address),
            // Between containers on one network nothing is translated, and no proxy is in the way.
            peers: if own_address == address { BTreeMap::new() } else { at(own_address) },
            path: format!("{}{open}", self.path()),
            cpus: spec::cpuset(self.options.limits, &self.surroundings.cpus, start)?,
            warnings,
        })
    }

    /// The program that reports what a service gets, at a place that the engine can see as well.
    fn place_program(&self) -> Result<PathBuf, Fault> {
        let place = self.surroundings.scratch.join("program");
        if !place.exists() {
            let copy = || {
                std::fs::copy(&self.carrier.program, &place)?;
                std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755))
            };
            copy().doing(format!("copy the resource probe to {}", place.display()))?;
        }
        Ok(place)
    }

    fn resources(&self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        let container = format!("{}-resources", spec::container_name(&self.surroundings, &start.instance));
        let (_, group) = self.launch(start, (&container, None), Some(self.place_program()?))?;
        let report = self.read_report(&container);
        run::remove(&self.engine, &container)?;
        group.map_or(Ok(()), |mut group| group.remove())?;
        report
    }

    fn read_report(&self, container: &str) -> Result<ResourceReport, Fault> {
        let deadline = Instant::now() + PROBE_WITHIN;
        loop {
            let state = run::inspect(&self.engine, container)?.and_then(|found| found.state).unwrap_or_default();
            match run::state_of(&state, || false) {
                InstanceState::Ended(how) => {
                    if state.exit_code != Some(0) {
                        let log = run::log(&self.engine, container)?;
                        return Err(Fault::new(format!("the resource probe ended: {how}")).with_log(log));
                    }
                    let text = run::standard_output(&self.engine, container)?;
                    return serde_json::from_str(&text).doing("understand what the resource probe says");
                }
                InstanceState::Running if Instant::now() >= deadline => {
                    let seconds = PROBE_WITHIN.as_secs();
                    return Err(Fault::new(format!("the resource probe did not end within {seconds} s")));
                }
                InstanceState::Running => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Host for ContainerHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        let mut facts = self.outer.facts()?;
        facts.extend(self.inner.facts()?);
        Ok(facts)
    }

    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        self.inner.resources(start)
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        self.inner.start(start)
    }

    fn volumes(&self, start: &ServiceStart) -> Option<Vec<PathBuf>> {
        // In the container's own layer they do not exist before it does.
        let inner = &self.inner;
        let folders = || local::volumes::volume_folders(&inner.surroundings.scratch, &start.instance, start);
        (inner.options.storage == Storage::Volume).then(|| folders().into_iter().map(|volume| volume.folder).collect())
    }

    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        let found = self.inner.inspect(instance)?;
        let group = self.inner.known(instance)?.group.as_ref();
        Ok(run::state_of(&found.state.unwrap_or_default(), || match group {
            Some(group) => group.killed_for_memory() > 0,
            None => observe::killed_for_memory(&found.id.unwrap_or_default()),
        }))
    }

    fn mapped_files(&mut self, instance: &str, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
        self.inner.mapped_files(instance, wait)
    }

    fn files_seen(&mut self, start: &ServiceStart, said: Option<&[SeenFile]>, wait: Wait) -> Result<FilesSeen, Fault> {
        self.inner.files_seen(start, said, wait)
    }

    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        run::log(&self.inner.engine, &self.inner.known(instance)?.container)
    }

    fn ways_in(&mut self, instance: &str) -> Vec<WayIn> {
        self.inner.ways_in(instance)
    }

    fn begin_command(&mut self, instance: &str, command: &CommandStart) -> Result<(), Fault> {
        self.inner.begin_command(instance, command)
    }

    fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        self.inner.await_command(instance, patience)
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        self.inner.end_command(instance)
    }

    fn freeze(&mut self) -> Result<(), Fault> {
        self.inner.pause(true)
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        self.inner.pause(false)
    }

    fn held(&mut self) -> Result<Vec<Held>, Fault> {
        self.inner.hold()
    }

    fn serving(&mut self) -> Result<Vec<Scope>, Fault> {
        Ok(self.inner.scopes()?.into_iter().filter(|scope| scope.serving).collect())
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        // A paused container does not receive the signal to end.
        self.inner.pause(false)?;
        let running = self.inner.known(instance)?;
        run::stop(&self.inner.engine, &running.container, running.start.service.stop_within)?;
        if let Some(mut stopped) = self.inner.running.remove(instance) {
            self.inner.fenced.open(&stopped.start);
            stopped.group.as_mut().map_or(Ok(()), Group::remove)?;
        }
        Ok(())
    }

    fn begin_probe(&mut self, outside: &[Scope], period: Duration) -> Result<(), Fault> {
        let scopes = [outside, &self.inner.scopes()?].concat();
        self.outer.begin_probe(&scopes, period)
    }

    fn rest_probe(&mut self, rests: &[Rest]) -> Result<(), Fault> {
        self.outer.rest_probe(rests)
    }

    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        self.outer.end_probe()
    }

    fn begin_profile(&mut self, outside: &[Scope]) -> Result<(), Fault> {
        let scopes = [outside, &self.inner.scopes()?].concat();
        self.outer.begin_profile(&scopes)
    }

    fn end_profile(&mut self, from_ns: u64, to_ns: u64) -> Result<Profile, Fault> {
        self.outer.end_profile(from_ns, to_ns)
    }

    fn open(self: Box<Self>, layer: &LayerUse, _: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        // Report why it cannot be opened, not what else went wrong.
        let _ = self.close();
        Err(OpenError::Unavailable(super::holds_no_layer(&layer.layer)))
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        let ContainerHost { outer, inner } = *self;
        let own = inner.close();
        let outer = outer.close();
        own.and(outer)
    }
}
