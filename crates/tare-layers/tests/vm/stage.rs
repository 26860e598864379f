//! What the checks stand on: bundles and a kernel from Debian, a run of their own, and a seat for the load.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tare_clock::monotonic_ns;
use tare_core::bundle::{Bundle, BundleStore, Kernel, Recipe, Source};
use tare_core::fault::Fault;
use tare_core::host::{Host, MachineServices, OpenError, Property, ResourceReport, ServiceStart, TrialContext};
use tare_core::layer::LayerUse;
use tare_core::telemetry::{Prober, Scope, TelemetryRow, Vantage};
use tare_core::units::CpuSet;
use tare_core::workload::{FIRST_OWN, Readiness, Resources, Service, Volume};
use tare_layers::local::LocalHost;
use tare_layers::network::{GeneratorSeat, free_subnets};
use tare_layers::run_mark::RunMark;
use tare_layers::{LAYERS, leftovers};
use tare_testkit::sample;

/// Debian's Redis.
const REDIS: &str = "redis-server";
/// What can say what it sees in a root.
const BUSYBOX: &str = "busybox-static";
/// What its service may use of memory.
pub(crate) const MEMORY: u64 = 128 << 20;
/// The port it listens on.
const PORT: u16 = 6379;

/// Whether this machine has what these checks need.
pub(crate) fn needs() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("guests need root".to_owned());
    }
    for program in ["qemu-system-x86_64", "mmdebstrap", "apt-get", "dpkg-deb", "depmod", "mke2fs"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|folder: PathBuf| folder.join(program).exists());
        if !found {
            return Err(format!("{program} is not installed"));
        }
    }
    Ok(())
}

/// Kept between test runs: downloads.
fn kept() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Makes `path` by `make`, once for all test runs.
fn once(path: PathBuf, make: impl FnOnce(&Path)) -> PathBuf {
    if !path.exists() {
        let unfinished = path.with_extension(format!("{}.new", std::process::id()));
        make(&unfinished);
        // Another test may have made it meanwhile; the first one counts.
        if let Err(error) = std::fs::rename(&unfinished, &path) {
            assert!(path.exists(), "{}: {error}", path.display());
            std::fs::remove_dir_all(&unfinished).unwrap();
        }
    }
    path
}

/// Bundles by mmdebstrap, whatever their name.
pub(crate) struct DebianStore;

struct DebianBundle {
    tree: PathBuf,
    /// Where what is made of it is kept, but for the ending.
    kept: PathBuf,
}

impl Bundle for DebianBundle {
    fn digest(&self) -> &str {
        "sha256:none"
    }

    fn directory(&self) -> Result<PathBuf, Fault> {
        Ok(self.tree.clone())
    }

    fn archive(&self) -> Result<PathBuf, Fault> {
        Ok(once(self.kept.with_added_extension("tar"), |path| {
            run(Command::new("tar").arg("-C").arg(&self.tree).arg("-cf").arg(path).arg("."));
        }))
    }

    fn disk(&self) -> Result<PathBuf, Fault> {
        Ok(once(self.kept.with_added_extension("ext4"), |path| {
            run(Command::new("mke2fs").args(["-q", "-t", "ext4", "-d"]).arg(&self.tree).arg(path).arg("1g"));
        }))
    }
}

impl BundleStore for DebianStore {
    fn bundle(&self, recipe: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
        let packages = match &recipe.source {
            Source::Packages(packages) => packages,
            // A tree that a check has made.
            Source::Folder(tree) => return Ok(Arc::new(DebianBundle { tree: tree.clone(), kept: tree.clone() })),
            _ => panic!("{recipe:?}"),
        };
        let name = packages.join("+");
        let tree = once(kept().join(&name), |path| {
            let include = format!("--include={}", packages.join(","));
            let mut command = Command::new("mmdebstrap");
            run(command.args(["--quiet", "--variant=extract", &include, "bookworm"]).arg(path));
            // What the packages' installation scripts, which are not run, would do.
            for name in ["iptables", "ip6tables"].iter().filter(|_| path.join("usr/sbin/xtables-nft-multi").exists()) {
                std::os::unix::fs::symlink("xtables-nft-multi", path.join("usr/sbin").join(name)).unwrap();
            }
        });
        Ok(Arc::new(DebianBundle { kept: tree.clone(), tree }))
    }

    fn kernel(&self) -> Result<Kernel, Fault> {
        let unpacked = once(kept().join("kernel"), |path| {
            std::fs::create_dir_all(path).unwrap();
            let depends = run(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]));
            let package = depends.split_whitespace().find(|word| word.starts_with("linux-image-6")).unwrap();
            run(Command::new("apt-get").current_dir(path).args(["download", package]));
            let file = std::fs::read_dir(path).unwrap().next().unwrap().unwrap().path();
            run(Command::new("dpkg-deb").arg("-x").arg(file).arg(path));
            run(Command::new("/sbin/depmod").arg("-b").arg(path).arg(package.trim_start_matches("linux-image-")));
        });
        let folder = std::fs::read_dir(unpacked.join("lib/modules")).unwrap().next().unwrap().unwrap();
        let release = folder.file_name().into_string().unwrap();
        let image = unpacked.join(format!("boot/vmlinuz-{release}"));
        Ok(Kernel { image, modules: folder.path(), release, origin: "Debian's cloud kernel".to_owned() })
    }
}

/// A sampler that has one row to tell.
pub(crate) struct OneRow;

impl Prober for OneRow {
    fn begin(&mut self, _: &[Scope], _: Duration) -> Result<(), Fault> {
        Ok(())
    }

    fn end(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        let values = BTreeMap::from([("threads".to_owned(), 1.0)]);
        let row = TelemetryRow {
            at_ns: monotonic_ns(),
            vantage: Vantage::Host,
            scope: "one".to_owned(),
            serving: true,
            values,
        };
        Ok(vec![row])
    }
}

/// What the resource probe says here: on how many CPUs it may run.
pub(crate) fn report() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let property = Property { value: cpus.to_string(), number: Some(cpus as f64), tolerance: 0.0, matters: true };
    let report = ResourceReport { properties: BTreeMap::from([("cpus".to_owned(), property)]) };
    serde_json::to_string(&report).unwrap()
}

/// Asks a Redis whether it is there, for as long as it may take to be.
pub(crate) fn ask(place: &str) -> ExitCode {
    let place: SocketAddr = place.parse().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let mut answer = [0; 7];
        let asked = TcpStream::connect_timeout(&place, Duration::from_secs(1)).and_then(|mut stream| {
            stream.write_all(b"PING\r\n")?;
            stream.read_exact(&mut answer)
        });
        if asked.is_ok() && &answer == b"+PONG\r\n" {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    ExitCode::FAILURE
}

/// Redis, unprivileged, with one CPU.
pub(crate) fn redis() -> ServiceStart {
    let words = ["/usr/bin/redis-server", "--port", "6379", "--save", "", "--dir", "/data", "--protected-mode", "no"];
    let recipe = Recipe::plain(Source::Packages([REDIS, BUSYBOX].map(str::to_owned).to_vec()));
    let ready = Readiness::Port { port: "main".to_owned(), within: Duration::from_secs(60) };
    let service = Service {
        user: (FIRST_OWN, FIRST_OWN),
        ports: BTreeMap::from([("main".to_owned(), PORT)]),
        volumes: BTreeMap::from([("/data".to_owned(), Volume::of(64 << 20))]),
        resources: Resources { memory_bytes: MEMORY, ..Resources::default() },
        ..Service::of("redis", recipe, words.map(str::to_owned).to_vec(), ready)
    };
    let names = BTreeMap::from([("cache".to_owned(), Ipv4Addr::LOCALHOST.into())]);
    ServiceStart { instance: "redis".to_owned(), names, ..ServiceStart::on(service, Some(CpuSet::new([0]))) }
}

/// The layer `vm`, emulated unless told otherwise: what is checked is Tare, not this machine's KVM.
pub(crate) fn vm(changes: serde_json::Value) -> LayerUse {
    let mut options = serde_json::to_value(tare_layers::vm::VmOptions::default()).unwrap();
    options["accelerator"] = "tcg".into();
    for (key, value) in changes.as_object().unwrap() {
        options[key] = value.clone();
    }
    LayerUse { layer: "vm".to_owned(), options }
}

/// A run with everything that is outside of a host.
pub(crate) struct Stage {
    pub(crate) run: String,
    mark: Option<RunMark>,
    seat: Option<GeneratorSeat>,
    pub(crate) surroundings: TrialContext,
}

impl Stage {
    pub(crate) fn open(services: &[ServiceStart], inner: &[LayerUse]) -> Stage {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self::open_as(
            &format!("{:04x}v{:x}", std::process::id() & 0xffff, COUNT.fetch_add(1, Ordering::Relaxed)),
            services,
            inner,
        )
    }

    pub(crate) fn open_as(run: &str, services: &[ServiceStart], inner: &[LayerUse]) -> Stage {
        let mark = RunMark::create(run).unwrap();
        let subnets = free_subnets().unwrap();
        let seat = GeneratorSeat::open(run, subnets).unwrap();
        let around = sample::surroundings(run, &mark.scratch(), seat.host_address(), subnets);
        let surroundings = TrialContext { services: services.to_vec(), inner: inner.to_vec(), ..around };
        Stage { run: run.to_owned(), mark: Some(mark), seat: Some(seat), surroundings }
    }

    /// A guest whose agent is `program`.
    pub(crate) fn guest(&self, layer: &LayerUse, program: &Path) -> Result<Box<dyn Host>, OpenError> {
        let prober = || Ok(Box::new(OneRow) as Box<dyn Prober>);
        let carrier =
            MachineServices { bundles: Arc::new(DebianStore), prober, program: program.to_owned(), layers: LAYERS };
        let local = Box::new(LocalHost::new(Arc::new(carrier), self.surroundings.clone()).unwrap());
        local.open(layer, &self.surroundings)
    }

    /// Whether the Redis at `place` answers to where load comes from.
    pub(crate) fn answers(&self, place: SocketAddr) -> bool {
        self.succeeds(&["ask", &place.to_string()])
    }

    /// Whether this program, told these words, succeeds where load comes from.
    pub(crate) fn succeeds(&self, words: &[&str]) -> bool {
        let mut command = Command::new(program());
        command.args(words);
        self.seat.as_ref().expect("it stands until the end").enter(&mut command);
        command.status().unwrap().success()
    }

    /// Ends the run; nothing of it may be left.
    pub(crate) fn close(mut self) {
        self.seat.take().expect("it stands until the end").close().unwrap();
        self.mark.take().expect("it stands until the end").close().unwrap();
        assert_eq!(left_of(&self.run), []);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A check that failed must not spoil those that run beside it.
        if std::thread::panicking() {
            for left in left_of(&self.run) {
                if let Err(fault) = leftovers::remove(LAYERS, &left) {
                    println!("could not clean up: {fault}");
                }
            }
        }
    }
}

/// What is left of a run on this machine.
pub(crate) fn left_of(run: &str) -> Vec<tare_core::host::Leftover> {
    leftovers::leftovers(LAYERS).unwrap().into_iter().filter(|leftover| leftover.run == run).collect()
}

/// This program.
pub(crate) fn program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// What a failed opening says.
pub(crate) fn fault_of(result: Result<Box<dyn Host>, OpenError>) -> (bool, Fault) {
    match result.err().expect("it was not to open") {
        OpenError::Unavailable(fault) => (true, fault),
        OpenError::Failed(fault) => (false, fault),
    }
}
