//! What the checks stand on: a bundle of one file, a run of their own, and a seat for the load.

use crate::cage::Cage;
use crate::mock::Mock;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tare_core::bundle::{Bundle, BundleStore, Kernel, Recipe, Source};
use tare_core::fault::Fault;
use tare_core::host::{Host, Layers, MachineServices, PlacedBundle, ResourceReport, ServiceStart, TrialContext};
use tare_core::layer::LayerUse;
use tare_core::telemetry::{Prober, Scope, TelemetryRow};
use tare_core::units::CpuSet;
use tare_core::workload::{FIRST_OWN, Readiness, Resources, Service, Volume};
use tare_layers::container::Container;
use tare_layers::local::LocalHost;
use tare_layers::network::{GeneratorSeat, free_subnets};
use tare_layers::run_mark::RunMark;
use tare_layers::vm::Vm;
use tare_layers::{leftovers, owner};
pub(crate) use tare_testkit::peer::free_port;
use tare_testkit::sample;

/// The layers that are held to the contract: the crate's own, the one that CONTRIBUTING shows, and one that starts
/// nothing.
pub(crate) const LAYERS: Layers = &[&Container, &Vm, &Cage, &Mock];

/// A check: its name, whether it needs root, and what it does.
pub(crate) type Check = (String, bool, fn());

/// The user and group of the service.
pub(crate) const USER: (u32, u32) = (65_534, 65_534);
/// The first user of services that have one of their own: not those of a run that is under way beside these checks, for
/// what such users bind is closed to all but that run.
pub(crate) const OWN: u32 = FIRST_OWN + 1000;
/// What the service may use.
pub(crate) const MEMORY: u64 = 64 << 20;

struct SelfStore {
    folder: PathBuf,
    number: u8,
}

/// What the digests of all bundles of this process begin with.
pub(crate) fn program_digits() -> String {
    format!("{:030x}", std::process::id())
}

impl BundleStore for SelfStore {
    fn bundle(&self, recipe: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
        let tree = self.folder.join("tree");
        let archive = self.folder.join("tree.tar");
        let made = Command::new("tar").arg("-C").arg(&tree).arg("-cf").arg(&archive).arg(".").status();
        let digest = format!("sha256:{}{:02x}{:032x}", program_digits(), self.number, 1);
        let archive = made.is_ok_and(|status| status.success()).then_some(archive);
        Ok(Arc::new(PlacedBundle { recipe: recipe.clone(), digest, directory: tree, archive }))
    }

    fn kernel(&self) -> Result<Kernel, Fault> {
        Err(Fault::new("this test brings no kernel along"))
    }
}

/// What samplers were told.
pub(crate) static SAMPLED: Mutex<Vec<Scope>> = Mutex::new(Vec::new());

struct NotingProber;

impl Prober for NotingProber {
    fn begin(&mut self, scopes: &[Scope], _: Duration) -> Result<(), Fault> {
        *SAMPLED.lock().unwrap() = scopes.to_vec();
        Ok(())
    }

    fn end(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        Ok(Vec::new())
    }
}

/// Makes the bundle's tree in a folder: this program and nothing else, or as `extra` has it.
pub(crate) fn make_tree(folder: &Path, extra: impl FnOnce(&Path)) {
    let tree = folder.join("tree");
    std::fs::create_dir_all(tree.join("bin")).unwrap();
    std::fs::copy(std::env::current_exe().unwrap(), tree.join("bin/service")).unwrap();
    extra(&tree);
}

/// What the process that carries a host supplies.
pub(crate) fn carrier(folder: &Path) -> Arc<MachineServices> {
    numbered_carrier(folder, 1)
}

/// The same with a bundle that is another one to those who know bundles by their digests.
fn numbered_carrier(folder: &Path, number: u8) -> Arc<MachineServices> {
    let program = std::env::current_exe().unwrap();
    let prober = || Ok(Box::new(NotingProber) as Box<dyn Prober>);
    let bundles = Arc::new(SelfStore { folder: folder.to_owned(), number });
    Arc::new(MachineServices { bundles, prober, program, layers: LAYERS })
}

/// A run id of its own for each check.
pub(crate) fn run_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:04x}{:02x}", std::process::id() & 0xffff, number & 0xff)
}

/// The service under a name.
pub(crate) fn service(instance: &str, port: u16, words: &[&str]) -> ServiceStart {
    let mut command = vec!["/bin/service".to_owned(), "serve".to_owned(), port.to_string()];
    command.extend(words.iter().map(|word| (*word).to_owned()));
    let ready = Readiness::Port { port: "main".to_owned(), within: Duration::from_secs(10) };
    let service = Service {
        environment: BTreeMap::from([("COLOUR".to_owned(), "blue".to_owned())]),
        user: USER,
        own_user: false,
        ports: BTreeMap::from([("main".to_owned(), port)]),
        volumes: ["/data", "/run/kept"].map(|path| (path.to_owned(), Volume::of(1 << 20))).into(),
        resources: Resources { memory_bytes: MEMORY, ..Resources::default() },
        stop_within: Duration::from_secs(5),
        ..Service::of(instance, Recipe::plain(Source::Folder("self".into())), command, ready)
    };
    ServiceStart { instance: instance.to_owned(), ..ServiceStart::on(service, Some(CpuSet::new([0]))) }
}

/// A run with everything that is outside of a host.
pub(crate) struct Stage {
    pub(crate) run: String,
    mark: Option<RunMark>,
    seat: Option<GeneratorSeat>,
    subnets: (u8, u8),
    folder: tempfile::TempDir,
    number: u8,
}

impl Stage {
    /// With root: a marked run and a seat. Without: nothing of the kind, and the loopback.
    pub(crate) fn open(extra: impl FnOnce(&Path)) -> Stage {
        Self::open_numbered(1, extra)
    }

    /// The same with a bundle of this number; what is in one of the same number is the same.
    pub(crate) fn open_numbered(number: u8, extra: impl FnOnce(&Path)) -> Stage {
        let run = run_id();
        let folder = tempfile::tempdir().unwrap();
        make_tree(folder.path(), extra);
        let root = rustix::process::geteuid().is_root();
        let subnets = free_subnets().unwrap();
        let mark = root.then(|| RunMark::create(&run).unwrap());
        let seat = root.then(|| GeneratorSeat::open(&run, subnets).unwrap());
        Stage { run, mark, seat, subnets, folder, number }
    }

    /// With a marked run whose load comes from this machine itself.
    pub(crate) fn open_without_seat() -> Stage {
        let (run, folder) = (run_id(), tempfile::tempdir().unwrap());
        make_tree(folder.path(), |_| {});
        let (mark, subnets) = (Some(RunMark::create(&run).unwrap()), free_subnets().unwrap());
        Stage { run, mark, seat: None, subnets, folder, number: 1 }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn surroundings(&self, services: &[ServiceStart], inner: &[LayerUse]) -> TrialContext {
        let scratch = self.mark.as_ref().map_or(self.folder.path().join("scratch"), RunMark::scratch);
        let address = self.seat.as_ref().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), GeneratorSeat::host_address);
        let around = sample::surroundings(&self.run, &scratch, address, self.subnets);
        TrialContext { services: services.to_vec(), inner: inner.to_vec(), ..around }
    }

    /// Those of a form that stands beside others at `place`, with networks of its own.
    pub(crate) fn surroundings_beside(&self, place: u8, subnets: (u8, u8)) -> TrialContext {
        let around = self.surroundings(&[], &[]);
        let scratch = around.scratch.with_file_name(format!("t{place}"));
        let address = self.seat.as_ref().expect("root was asked for").address_beside(place).unwrap();
        TrialContext { trial: format!("t{place}"), scratch, place, address, subnets, ..around }
    }

    /// The host of a form.
    pub(crate) fn host(&self, services: &[ServiceStart], layers: &[LayerUse]) -> Box<dyn Host> {
        self.host_in(self.surroundings(services, layers), layers)
    }

    /// The same in surroundings of its own.
    pub(crate) fn host_in(&self, surroundings: TrialContext, layers: &[LayerUse]) -> Box<dyn Host> {
        let mut host: Box<dyn Host> =
            Box::new(LocalHost::new(numbered_carrier(self.folder.path(), self.number), surroundings.clone()).unwrap());
        for layer in layers {
            host = host.open(layer, &surroundings).unwrap_or_else(|error| panic!("{}: {error}", layer.layer));
        }
        host
    }

    /// A plain process's host that stands beside others.
    pub(crate) fn beside(&self, place: u8) -> Box<dyn Host> {
        let around = self.surroundings(&[], &[]);
        let scratch = around.scratch.with_file_name(format!("t{place}"));
        let around = TrialContext { trial: format!("t{place}"), scratch, place, ..around };
        let room = self.seat.as_ref().expect("root was asked for").room(place).unwrap();
        Box::new(LocalHost::in_room(carrier(self.folder.path()), around, room).unwrap())
    }

    /// Asks the service from where load comes from, until it answers.
    pub(crate) fn ask(&self, place: SocketAddr) -> ResourceReport {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(report) = self.try_ask(place) {
                return report;
            }
            assert!(Instant::now() < deadline, "nothing answers at {place}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn try_ask(&self, place: SocketAddr) -> Option<ResourceReport> {
        let output = self.asked("ask", place);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Whether a datagram comes back to where load comes from.
    pub(crate) fn comes_back(&self, place: SocketAddr) -> bool {
        self.asked("ask-by-datagram", place).status.success()
    }

    fn asked(&self, how: &str, place: SocketAddr) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([how, &place.to_string()]);
        if let Some(seat) = &self.seat {
            seat.enter(&mut command);
        }
        command.output().unwrap()
    }

    /// Closes all, and makes sure that nothing is left.
    pub(crate) fn close(mut self) {
        if let Some(seat) = self.seat.take() {
            seat.close().unwrap();
        }
        if let Some(mark) = self.mark.take() {
            assert!(owner::live_runs().contains(&self.run));
            let scratch = mark.scratch();
            let trials: Vec<_> = std::fs::read_dir(&scratch).unwrap().collect();
            assert!(trials.is_empty(), "left in {}: {trials:?}", scratch.display());
            mark.close().unwrap();
            assert!(!scratch.exists());
        }
        assert_eq!(left_of(&self.run), []);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A check that failed must not spoil those after it, nor leave the machine dirty.
        if std::thread::panicking() {
            let left = leftovers::leftovers(LAYERS).unwrap_or_default();
            for leftover in left.iter().filter(|found| found.run == self.run) {
                if let Err(fault) = leftovers::remove(LAYERS, leftover) {
                    println!("could not clean up: {fault}");
                }
            }
        }
    }
}

/// What a run has left.
pub(crate) fn left_of(run: &str) -> Vec<tare_core::host::Leftover> {
    leftovers::leftovers(LAYERS).unwrap().into_iter().filter(|found| found.run == run).collect()
}

/// A property of a report, as text.
pub(crate) fn property<'a>(report: &'a ResourceReport, name: &str) -> &'a str {
    report.properties.get(name).map_or("", |property| property.value.as_str())
}
