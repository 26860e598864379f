//! What the checks stand on: a bundle, an outer host that only notes down what it is asked, and a seat for the load.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tare_core::bundle::{Bundle, BundleStore, Kernel, Recipe, Source};
use tare_core::config;
use tare_core::fault::Fault;
use tare_core::host::{
    ErasedLayer, Facts, FilesSeen, Host, Instance, InstanceState, LocalOuter, MachineServices, OpenError,
    ResourceReport, SeenFile, ServiceStart, TrialContext, Wait,
};
use tare_core::layer::{LayerOptions, LayerUse};
use tare_core::telemetry::{Prober, Scope, TelemetryRow};
use tare_core::units::CpuSet;
use tare_core::workload::{Readiness, Resources, Service, Volume};
use tare_layers::container::{self, Container};
use tare_layers::network::{GeneratorSeat, free_subnets};
use tare_layers::run_mark::RunMark;

/// The user and group of the service.
pub(crate) const USER: (u32, u32) = (65_534, 65_534);

/// What the checks lack on this machine.
pub(crate) fn lacks() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("the container layer needs root".to_owned());
    }
    if !Command::new("tar").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some("there is no tar to make a bundle with".to_owned());
    }
    let carrier = carrier(Path::new("/"));
    match Container.probe(&options("{}"), &carrier) {
        tare_core::host::Availability::Unavailable(fault) => Some(fault.to_string()),
        _ => None,
    }
}

/// Stands for the digest of the program: it may differ from one run of the checks to the next.
static DIGEST: LazyLock<String> = LazyLock::new(|| format!("sha256:{:032x}{:032x}", std::process::id(), 0));

/// A bundle of one file: this program.
struct SelfBundle {
    folder: PathBuf,
}

impl Bundle for SelfBundle {
    fn digest(&self) -> &str {
        &DIGEST
    }

    fn directory(&self) -> Result<PathBuf, Fault> {
        let (tree, program) = (self.folder.join("tree"), self.folder.join("tree/bin/service"));
        std::fs::create_dir_all(tree.join("bin")).unwrap();
        // Not over one that runs.
        if !program.exists() {
            std::fs::copy(std::env::current_exe().unwrap(), program).unwrap();
        }
        Ok(tree)
    }

    fn archive(&self) -> Result<PathBuf, Fault> {
        let (tree, archive) = (self.directory()?, self.folder.join("tree.tar"));
        let made = Command::new("tar").arg("-C").arg(&tree).arg("-cf").arg(&archive).arg(".").status().unwrap();
        assert!(made.success());
        Ok(archive)
    }

    fn disk(&self) -> Result<PathBuf, Fault> {
        Err(Fault::new("no disks here"))
    }
}

struct SelfStore {
    folder: PathBuf,
}

impl BundleStore for SelfStore {
    fn bundle(&self, _: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
        Ok(Arc::new(SelfBundle { folder: self.folder.clone() }))
    }

    fn kernel(&self) -> Result<Kernel, Fault> {
        Err(Fault::new("no kernels here"))
    }
}

/// Options as a study writes them, with every default.
pub(crate) fn options(text: &str) -> serde_json::Value {
    config::read("study.yaml", text, |node, problems| Container.read(node, problems)).unwrap()
}

pub(crate) fn carrier(folder: &Path) -> MachineServices {
    fn no_prober() -> Result<Box<dyn Prober>, Fault> {
        Err(Fault::new("no prober here"))
    }
    let program = std::env::current_exe().unwrap();
    let bundles = Arc::new(SelfStore { folder: folder.to_owned() });
    MachineServices { bundles, prober: no_prober, program, layers: tare_layers::LAYERS }
}

/// The image of the bundle in the engine's store.
pub(crate) fn image() -> Option<container::CachedImage> {
    let tag = format!("{:032x}", std::process::id());
    container::cached_images().unwrap().into_iter().find(|image| image.name.ends_with(&tag))
}

/// The largest limit of open files that a program may be given on this machine.
pub(crate) fn open_files_possible() -> u64 {
    let tried = Command::new("sh").args(["-c", "ulimit -n 1048576 2>/dev/null; ulimit -Hn"]).output().unwrap();
    String::from_utf8_lossy(&tried.stdout).trim().parse().unwrap()
}

/// What the outer host was asked.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) scopes: Vec<Scope>,
    pub(crate) closed: bool,
}

/// An outer host that starts nothing.
struct Outer {
    carrier: Arc<MachineServices>,
    notes: Arc<Mutex<Notes>>,
}

impl Host for Outer {
    fn facts(&mut self) -> Result<Facts, Fault> {
        Ok(Facts::from([("outer.fact".to_owned(), "1".to_owned())]))
    }
    fn resources(&mut self, _: &ServiceStart) -> Result<ResourceReport, Fault> {
        unreachable!("the layer starts its own probe")
    }
    fn start(&mut self, _: &ServiceStart) -> Result<Instance, Fault> {
        unreachable!("the layer starts services itself")
    }
    fn state(&mut self, _: &str) -> Result<InstanceState, Fault> {
        unreachable!("the layer knows its instances")
    }
    fn mapped_files(&mut self, _: &str, _: Wait) -> Result<Vec<SeenFile>, Fault> {
        unreachable!("the layer knows its instances")
    }
    fn files_seen(&mut self, _: &ServiceStart, _: Option<&[SeenFile]>, _: Wait) -> Result<FilesSeen, Fault> {
        unreachable!("the layer knows its instances")
    }
    fn log(&mut self, _: &str) -> Result<String, Fault> {
        unreachable!("the layer knows its instances")
    }
    fn stop(&mut self, _: &str) -> Result<(), Fault> {
        unreachable!("the layer knows its instances")
    }
    fn begin_probe(&mut self, outside: &[Scope], _: Duration) -> Result<(), Fault> {
        self.notes.lock().unwrap().scopes = outside.to_vec();
        Ok(())
    }
    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        Ok(Vec::new())
    }
    fn open(self: Box<Self>, layer: &LayerUse, surroundings: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        Container.open(&layer.options, self, surroundings)
    }
    fn close(self: Box<Self>) -> Result<(), Fault> {
        self.notes.lock().unwrap().closed = true;
        Ok(())
    }
}

impl LocalOuter for Outer {
    fn carrier(&self) -> Arc<MachineServices> {
        Arc::clone(&self.carrier)
    }
    fn into_host(self: Box<Self>) -> Box<dyn Host> {
        self
    }
}

/// A run of one trial, with everything that the runner would have made.
pub(crate) struct Stage {
    pub(crate) surroundings: TrialContext,
    pub(crate) notes: Arc<Mutex<Notes>>,
    folder: tempfile::TempDir,
    seat: Option<GeneratorSeat>,
    /// Says that the run is alive, so that nobody cleans up after it.
    mark: Option<RunMark>,
}

impl Stage {
    /// A stage whose load comes from a namespace of its own.
    pub(crate) fn new() -> Stage {
        let subnets = free_subnets().unwrap();
        let run = run_id();
        let mark = RunMark::create(&run).unwrap();
        let seat = GeneratorSeat::open(&run, subnets).unwrap();
        let address = seat.host_address();
        Stage::with(mark, subnets, address, Some(seat))
    }

    /// A stage whose load comes from the host's own loopback.
    pub(crate) fn on_loopback() -> Stage {
        let mark = RunMark::create(&run_id()).unwrap();
        Stage::with(mark, free_subnets().unwrap(), IpAddr::from([127, 0, 0, 1]), None)
    }

    fn with(mark: RunMark, subnets: (u8, u8), address: IpAddr, seat: Option<GeneratorSeat>) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let cpus = CpuSet::new(0..std::thread::available_parallelism().unwrap().get() as u32);
        let around = tare_testkit::sample::surroundings(mark.run(), &scratch, address, subnets);
        let surroundings = TrialContext { trial: "b1-c".to_owned(), scratch, cpus, ..around };
        Stage { surroundings, notes: Arc::default(), folder, seat, mark: Some(mark) }
    }

    /// Opens the layer with options as a study writes them.
    pub(crate) fn open(&self, options: &str) -> Box<dyn Host> {
        self.try_open(options).map_err(|error| error.to_string()).unwrap()
    }

    pub(crate) fn try_open(&self, text: &str) -> Result<Box<dyn Host>, OpenError> {
        let layer = LayerUse { layer: Container.name().to_owned(), options: options(text) };
        let carrier = Arc::new(carrier(self.folder.path()));
        let outer = Box::new(Outer { carrier, notes: Arc::clone(&self.notes) });
        outer.open(&layer, &self.surroundings)
    }

    /// What is to be started: the service on a port that no other check uses at the same time.
    pub(crate) fn service(&self) -> ServiceStart {
        static PORTS: AtomicU32 = AtomicU32::new(0);
        // Below those that the kernel gives to who connects: such a number is not free for a minute after it.
        let base = 21_000 + std::process::id() % 1_170 * 10;
        let port = (base + PORTS.fetch_add(1, Ordering::Relaxed)) as u16;
        let recipe = Recipe::plain(Source::Folder(self.folder.path().to_owned()));
        let ready = Readiness::Port { port: "main".to_owned(), within: Duration::from_secs(10) };
        let service = Service {
            environment: BTreeMap::from([("MODE".to_owned(), "a b".to_owned())]),
            user: USER,
            own_user: false,
            ports: BTreeMap::from([("main".to_owned(), port)]),
            volumes: BTreeMap::from([("/var/lib/echo".to_owned(), Volume::of(1 << 20))]),
            resources: Resources { memory_bytes: 48 << 20, ..Resources::default() },
            // As the first process of its namespace a service that does not ask for it never gets SIGTERM.
            stop_within: Duration::ZERO,
            ..Service::of(
                "echo",
                recipe,
                ["/bin/service", "serve", &port.to_string()].map(str::to_owned).to_vec(),
                ready,
            )
        };
        let cpus = CpuSet::new(self.surroundings.cpus.cpus().iter().copied().take(1));
        ServiceStart::on(service, Some(cpus))
    }

    /// Asks from where the load will come; none when it does not answer.
    pub(crate) fn ask(&self, place: SocketAddr, question: &str) -> Option<String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["ask", &place.to_string(), question]);
        if let Some(seat) = &self.seat {
            seat.enter(&mut command);
        }
        let output = command.output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Waits until the service answers.
    pub(crate) fn await_ready(&self, place: SocketAddr) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.ask(place, "hello").as_deref() != Some("hello") {
            assert!(Instant::now() < deadline, "{place} does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the service and waits until it answers.
    pub(crate) fn start(&self, host: &mut dyn Host, start: &ServiceStart) -> (Instance, SocketAddr) {
        let instance = host.start(start).unwrap();
        let place = instance.endpoints["main"];
        self.await_ready(place);
        (instance, place)
    }

    /// What of this run the layer finds on the machine.
    pub(crate) fn leftovers(&self) -> Vec<tare_core::host::Leftover> {
        let all = Container.leftovers().unwrap();
        all.into_iter().filter(|leftover| leftover.run == self.surroundings.run).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A check that failed half-way must not spoil the next one.
        for leftover in self.leftovers() {
            let _ = Container.remove(&leftover);
        }
        if let Some(seat) = self.seat.take() {
            let _ = seat.close();
        }
        if let Some(mark) = self.mark.take() {
            let _ = mark.close();
        }
    }
}

fn run_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("c{:03x}{count:02x}", std::process::id() % 4096)
}
