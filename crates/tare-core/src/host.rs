//! A host is a place that can start a service, read counters and open a layer; a layer opens an inner host on an
//! outer one. A deployment form is a stack of layers, so there is one way to start a service, not one per form.

mod plugin;

pub use plugin::{ErasedLayer, FetchImage, Layer, Layers, layer_named};

use crate::bundle::{Bundle, BundleStore, Recipe};
use crate::command::{CommandEnd, CommandStart, Ended};
use crate::fault::Fault;
use crate::held::Held;
use crate::layer::LayerUse;
use crate::profile::Profile;
pub use crate::seen::{FilesSeen, SeenFile, Wait};
use crate::telemetry::{Prober, Rest, Scope, TelemetryRow};
use crate::units::CpuSet;
pub use crate::way_in::WayIn;
use crate::workload::Service;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a host needs to know about the run it serves. Plain data: it crosses into guests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialContext {
    /// The run's id; everything made for the run carries it.
    pub run: String,
    /// The trial's label, unique in the run: short, a-z, 0-9 and -.
    pub trial: String,
    /// A directory on this host for this trial alone, for volumes and the like. Whoever opens the host creates it and
    /// removes it afterwards.
    pub scratch: PathBuf,
    /// The address at which the generator reaches this host.
    pub address: IpAddr,
    /// The address space of this host from which layers take subnets: a /16 such as 10.99.0.0, given by its first two
    /// octets. Third octet 0 belongs to the generator's own link; layers use the others.
    pub subnets: (u8, u8),
    /// The range of third octets from which a layer may choose its networks: the first, and one past the last.
    #[serde(default = "third_octets")]
    pub third_octets: (u8, u8),
    /// CPUs for the system under test: services, hypervisor, engine helpers.
    pub cpus: CpuSet,
    /// CPUs for hypervisor threads that are not virtual CPUs; empty when they share the services' CPUs.
    #[serde(default)]
    pub hypervisor: CpuSet,
    /// What will be started, for layers that must be sized in advance.
    pub services: Vec<ServiceStart>,
    /// The layers inside this one, outermost first.
    pub inner: Vec<LayerUse>,
    /// The number of this form among those that stand side by side, from 1; 0 when it has the machine to itself. What
    /// is made for one place must not conflict with what is made for another.
    #[serde(default)]
    pub place: u8,
}

/// Third octets that layers may choose from by default. Lower ones are left to the generator's own links, higher ones
/// to guests.
pub const fn third_octets() -> (u8, u8) {
    (16, 32)
}

/// A service about to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceStart {
    /// The instance's name, unique in the trial.
    pub instance: String,
    /// What to start; its options are resolved into the command.
    pub service: Service,
    /// The CPUs of this host it may run on; none when the host itself is already confined (a guest).
    pub cpus: Option<CpuSet>,
    /// Whether `cpus` are all the CPUs there are and it may run on any of them: a guest for it then has as many virtual
    /// CPUs as the service asks for, and none is pinned.
    #[serde(default)]
    pub free: bool,
    /// The NUMA nodes of this host that its memory comes from; empty leaves that to the kernel.
    #[serde(default)]
    pub memory: Vec<u32>,
    /// The names that it can look up in its /etc/hosts, each with the address at which it reaches what has the name:
    /// its own with the loopback, until the host that starts it knows where it will stand.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, IpAddr>,
}

impl ServiceStart {
    /// A service under its own name, on these CPUs of the host, with memory from any node. It knows no names.
    pub fn on(service: Service, cpus: Option<CpuSet>) -> Self {
        let (instance, memory, names) = (service.name.clone(), Vec::new(), BTreeMap::new());
        ServiceStart { instance, service, cpus, free: false, memory, names }
    }

    /// The same once it is known at which address it will stand: its own names lead there, as container engines have
    /// it. A server that binds to its own name is then reached from outside.
    #[must_use]
    pub fn standing_at(&self, address: IpAddr) -> ServiceStart {
        let mut start = self.clone();
        for name in self.service.own_names() {
            if let Some(known) = start.names.get_mut(name) {
                *known = address;
            }
        }
        start
    }
}

/// One running copy of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// The name under which it was started.
    pub instance: String,
    /// Where the generator reaches each port, by the port's name.
    pub endpoints: BTreeMap<String, SocketAddr>,
    /// Where other services of the deployment reach each port, if the address differs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, SocketAddr>,
    /// How a request gets there, for the reader: "veth, then address translation to a bridge".
    pub path: String,
    /// The CPUs it was confined to, numbered as they are where it runs; none when it was not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// What it had to be started without, for the record; the trial still counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Whether an instance is still running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    /// It is running.
    Running,
    /// It ended; how, in words: "exit code 1", "killed by signal 9", "killed for lack of memory".
    Ended(String),
}

impl InstanceState {
    /// Whether it ended with exit code 0, and nothing of it was killed.
    pub fn succeeded(&self) -> bool {
        matches!(self, InstanceState::Ended(how) if *how == Ended::Exit(0).to_string())
    }
}

/// What a service really gets in its form, read by a short program that is started exactly as the service is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ResourceReport {
    /// By property: `cpus`, `memory_limit_bytes`, `open_files`, `somaxconn`, `kernel` ... A property that cannot be
    /// read is absent.
    pub properties: BTreeMap<String, Property>,
}

/// One property of a [`ResourceReport`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Property {
    /// The value, as text for the reader.
    pub value: String,
    /// Its number, where it is one; compared within `tolerance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// By how much two forms may differ and still match, as a share; 0 for an exact property.
    #[serde(default)]
    pub tolerance: f64,
    /// Whether a difference biases a comparison of forms; otherwise it is part of what a form is.
    #[serde(default)]
    pub matters: bool,
}

/// What a host is, for the record: kernel, CPUs, engine, hypervisor. Keys are dotted: `engine.version`.
pub type Facts = BTreeMap<String, String>;

/// A place that can start a service, read counters and open a layer.
///
/// The default methods suit a host that can do only what the required methods ask: it keeps no volumes on this machine,
/// runs no commands, and is never frozen or profiled. So a host that leaves services on its outer host must forward
/// every method.
pub trait Host: Send {
    /// What this host is: this layer and those outside it.
    ///
    /// # Errors
    /// When the host does not answer.
    fn facts(&mut self) -> Result<Facts, Fault>;

    /// Runs the resource probe exactly as `start` would be run, and waits for it.
    ///
    /// # Errors
    /// When the probe could not be run.
    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault>;

    /// Starts a service. It need not be ready yet.
    ///
    /// # Errors
    /// When it could not be started: port taken, program missing, limit refused.
    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault>;

    /// Where the volumes of a service started here are on this machine, in the order of their paths inside. The service
    /// finds what is there when it starts; what it leaves there stays until this host is closed. None by default, and
    /// where the volumes are not files of this machine: in a guest, or in a container's own layer.
    fn volumes(&self, _start: &ServiceStart) -> Option<Vec<PathBuf>> {
        None
    }

    /// Whether a service about to be started can reach the running instance `other` at its [`Instance::peers`]. It
    /// cannot when the two are in separate guests. By default it can.
    fn beside(&self, _start: &ServiceStart, _other: &str) -> bool {
        true
    }

    /// Whether an instance is still running.
    ///
    /// # Errors
    /// When the host does not answer or knows no such instance.
    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault>;

    /// The hashes of the files that the running instance has mapped, sorted by path; none where the form shows them to
    /// nobody outside of it, which the report says.
    ///
    /// # Errors
    /// When it is not running or cannot be read, or the wait was given up.
    fn mapped_files(&mut self, instance: &str, wait: Wait) -> Result<Vec<SeenFile>, Fault>;

    /// Compares the files that the running instance of `start` sees with those of its bundle, or with `said` (a list of
    /// them) where this host does not keep the bundles, as inside a guest.
    ///
    /// # Errors
    /// When it is not running, there are too many files or they cannot be read, or the wait was given up.
    fn files_seen(&mut self, start: &ServiceStart, said: Option<&[SeenFile]>, wait: Wait) -> Result<FilesSeen, Fault>;

    /// The end of the instance's output, at most 64 KiB.
    ///
    /// # Errors
    /// When the host does not answer or knows no such instance.
    fn log(&mut self, instance: &str) -> Result<String, Fault>;

    /// How a person gets into a started instance, or into what is left of an ended one, from a root shell on this
    /// machine. Empty by default, and where no way is known.
    fn ways_in(&mut self, _instance: &str) -> Vec<WayIn> {
        Vec::new()
    }

    /// Asks the instance to end, then kills it if it does not, and waits until nothing of it is left.
    ///
    /// # Errors
    /// When something of it is left.
    fn stop(&mut self, instance: &str) -> Result<(), Fault>;

    /// Begins a command beside a running instance, started exactly as the service was: with the same root, namespaces,
    /// limits and cgroup, and nothing on its standard input. Each instance can have one command at a time; it ends with
    /// the instance.
    ///
    /// # Errors
    /// When the instance is not running, already has a command, or the program cannot be run; by default, always.
    fn begin_command(&mut self, instance: &str, _command: &CommandStart) -> Result<(), Fault> {
        Err(Fault::new(format!("this kind of form cannot run a command beside '{instance}'"))
            .remedy("let the tool run beside the form, where its protocol can"))
    }

    /// Waits for the command beside an instance to end, for at most `patience`; returns none if it is still running. A
    /// command that has used up its time is ended here, with everything it started; so is anything that a finished
    /// command leaves running.
    ///
    /// # Errors
    /// When there is no command, its program could not be run, or it printed too much, in which case it is ended. By
    /// default, always.
    fn await_command(&mut self, instance: &str, _patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        Err(Fault::new(format!("no command runs beside '{instance}'")))
    }

    /// Ends the command beside an instance, with everything it started. Does nothing if there is none.
    ///
    /// # Errors
    /// When something of it is left.
    fn end_command(&mut self, _instance: &str) -> Result<(), Fault> {
        Ok(())
    }

    /// Freezes in place what runs here: it stays deployed, with its memory and connections, and uses no CPU until
    /// [`Host::thaw`].
    ///
    /// # Errors
    /// When this kind of host cannot, which is the default, or something is still running.
    fn freeze(&mut self) -> Result<(), Fault> {
        Err(Fault::new("this kind of form cannot be frozen")
            .remedy("use `design: blocks`, in which forms do not stand beside each other"))
    }

    /// Resumes what was frozen. Does nothing to what is not frozen.
    ///
    /// # Errors
    /// When it does not resume; by default, always.
    fn thaw(&mut self) -> Result<(), Fault> {
        Err(Fault::new("this kind of form cannot be thawed"))
    }

    /// Everything that runs here, for a caller that suspends it while other forms are loaded. Suspending must take
    /// microseconds, which [`Host::freeze`] does not promise. After this call, [`Host::thaw`] no longer assumes that
    /// anything is running.
    ///
    /// # Errors
    /// When this kind of host cannot tell, which is the default.
    fn held(&mut self) -> Result<Vec<Held>, Fault> {
        Err(Fault::new("this kind of form cannot be frozen while others are loaded")
            .remedy("leave 'freeze' out of the study's design"))
    }

    /// What serves requests here, as this machine accounts its CPU time: for a guest, its hypervisor. Nothing by
    /// default.
    ///
    /// # Errors
    /// When that cannot be determined.
    fn serving(&mut self) -> Result<Vec<Scope>, Fault> {
        Ok(Vec::new())
    }

    /// Starts sampling this host, what runs on it, and `outside`: the scopes that an inner host has on this one.
    ///
    /// # Errors
    /// When nothing can be sampled.
    fn begin_probe(&mut self, outside: &[Scope], period: Duration) -> Result<(), Fault>;

    /// Makes every running sampler rest during these stretches, counted from now. Does nothing by default.
    ///
    /// # Errors
    /// When a sampler died, or none was begun.
    fn rest_probe(&mut self, _rests: &[Rest]) -> Result<(), Fault> {
        Ok(())
    }

    /// Ends sampling and returns the rows of every vantage.
    ///
    /// # Errors
    /// When a sampler died.
    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault>;

    /// Starts profiling what serves here and in `outside`. It is seen from this machine only, so what runs in a guest
    /// shows as its hypervisor.
    ///
    /// # Errors
    /// When nothing can be profiled; always, for a host that has no profiler.
    fn begin_profile(&mut self, _outside: &[Scope]) -> Result<(), Fault> {
        Err(Fault::new("this kind of form cannot be profiled"))
    }

    /// Ends profiling and returns what was seen between two times of CLOCK_MONOTONIC, ns.
    ///
    /// # Errors
    /// When the profiler died, or was never begun; by default, always.
    fn end_profile(&mut self, _from_ns: u64, _to_ns: u64) -> Result<Profile, Fault> {
        Err(Fault::new("this kind of form cannot be profiled"))
    }

    /// Opens a layer on this host. The inner host owns the outer one and closes it after itself. On failure the outer
    /// host has been closed, and nothing of the layer is left. A host that cannot carry any layer closes itself and
    /// returns [`OpenError::Unavailable`].
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] when this host cannot have the layer at all, otherwise what went wrong.
    fn open(self: Box<Self>, layer: &LayerUse, surroundings: &TrialContext) -> Result<Box<dyn Host>, OpenError>;

    /// Closes this host: stops what runs, inner before outer, waits, and leaves nothing behind.
    ///
    /// # Errors
    /// What could not be removed.
    fn close(self: Box<Self>) -> Result<(), Fault>;
}

/// Why a layer was not opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum OpenError {
    /// This host cannot have the layer; the trial is skipped. The remedy says how it could have it.
    #[error("{0}")]
    Unavailable(Fault),
    /// It should have worked; the trial failed.
    #[error("{0}")]
    Failed(Fault),
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        OpenError::Failed(fault)
    }
}

/// What the process that carries a host supplies to it: things that a layer may use but must not create itself.
pub struct MachineServices {
    /// Bundles by recipe.
    pub bundles: Arc<dyn BundleStore>,
    /// Makes a sampler for the machine this process runs on.
    pub prober: fn() -> Result<Box<dyn Prober>, Fault>,
    /// The program that is started inside forms as agent and resource probe: this very binary, statically linked.
    pub program: PathBuf,
    /// The layers that can be opened.
    pub layers: Layers,
}

/// Something that a layer keeps between runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CachedItem {
    /// What it is: "image", "initial file system" ...
    pub kind: String,
    /// What its kind calls it.
    pub name: String,
    /// The digest of the bundle that it was made from, if any.
    pub bundle: Option<String>,
}

/// Something of a run that exists on this machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Leftover {
    /// The run it belongs to.
    pub run: String,
    /// What it is: "container", "network", "process", "tap" ...
    pub kind: String,
    /// What its kind calls it.
    pub name: String,
}

/// A host on which code running on it can open a layer: it gives access to its carrier.
pub trait LocalOuter: Host {
    /// What the carrying process supplies.
    fn carrier(&self) -> Arc<MachineServices>;
    /// The host itself, to be owned by the layer.
    fn into_host(self: Box<Self>) -> Box<dyn Host>;
}

/// What a layer needs when it is opened inside a guest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GuestNeeds {
    /// Bundles to be attached in addition to the services'.
    pub bundles: Vec<Recipe>,
    /// Whether the services' bundles are needed as archives (otherwise as trees).
    pub archives: bool,
    /// Memory for the layer itself, bytes.
    pub memory_bytes: u64,
    /// Kernel modules to be loaded in the guest, with those they depend on. One that the kernel does not have is not an
    /// error: it may be built in.
    pub modules: Vec<String>,
}

/// Whether a layer can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// It can be used; facts about it: engine version, accelerator.
    Ready(Facts),
    /// It works, but its figures say nothing about the real thing, and why. Marked EMULATED and left out of verdicts.
    Emulated(Facts, Fault),
    /// It cannot be used: why, and what would make it usable.
    Unavailable(Fault),
}

/// A bundle that has already been emitted to known places, as inside a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedBundle {
    /// The recipe it was made by.
    pub recipe: Recipe,
    /// Its digest.
    pub digest: String,
    /// Where its tree is.
    pub directory: PathBuf,
    /// Where its archive is, if it came along.
    pub archive: Option<PathBuf>,
}

impl Bundle for PlacedBundle {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn directory(&self) -> Result<PathBuf, Fault> {
        Ok(self.directory.clone())
    }

    fn archive(&self) -> Result<PathBuf, Fault> {
        self.archive.clone().ok_or_else(|| Fault::new("this bundle came into the guest without its archive"))
    }

    fn disk(&self) -> Result<PathBuf, Fault> {
        Err(Fault::new("a bundle cannot be emitted as a disk inside a guest"))
    }
}
