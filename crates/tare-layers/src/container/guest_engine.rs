//! The container engine inside a Tare guest: nobody else starts it there, and nobody else uses it.
//!
//! Its programs come as a bundle on a disk of their own. They get their own root: the bundle, with a writable layer on
//! the guest's scratch disk, and those parts of the guest that they and the containers must see.

use super::engine::Engine;
use super::image;
use crate::local::root::{enter_mounted, mount_beside};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, unmount};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tare_core::bundle::{Bundle, BundleStore, Recipe, Source};
use tare_core::fault::{Doing, Fault};
use tare_core::host::TrialContext;
use tare_core::workload::USUAL_PATH;

/// Where the engine's root is assembled. Not below anything that is bound into it.
const ROOT: &str = "/engine";
/// Where the engine's own containerd listens, below that root. If the engine started it, it would give up after 15
/// seconds, which an emulated guest on a busy machine may need.
const CONTAINERD: &str = "/run/containerd.sock";
/// containerd's configuration. The Kubernetes part, which nobody uses here, would take it seconds to start.
const CONTAINERD_CONFIG: &str = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n";
/// How long the engine may take to answer: some seconds on a real CPU, a minute in an emulated one.
const START_WITHIN: Duration = Duration::from_secs(240);
/// How long it may take to exit.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// How much of its log a fault quotes, bytes.
const LOG_TAIL: usize = 4096;

/// Kernel modules that the engine needs in a guest: its layered file system, bridges, and the address translation of
/// published ports, whether the rules are written through nf_tables or the older tables.
pub const GUEST_MODULES: &[&str] = &[
    "overlay",
    "bridge",
    "br_netfilter",
    "veth",
    "llc",
    "stp",
    "nf_conntrack",
    "nf_nat",
    "nf_tables",
    "nft_compat",
    "nft_chain_nat",
    "nft_ct",
    "nft_nat",
    "nft_masq",
    "x_tables",
    "ip_tables",
    "iptable_filter",
    "iptable_nat",
    "iptable_raw",
    "xt_addrtype",
    "xt_conntrack",
    "xt_MASQUERADE",
    "xt_nat",
    "xt_tcpudp",
    "xt_comment",
    "xt_mark",
    "xt_set",
    "ip_set",
    "ip_set_hash_net",
];

/// How the engine's bundle is made.
pub(crate) fn recipe() -> Recipe {
    let packages = ["docker.io", "iptables"].map(str::to_owned).to_vec();
    Recipe::plain(Source::Packages(packages))
}

/// An engine that was started here.
pub(crate) struct GuestEngine {
    daemon: Child,
    containerd: Child,
    /// What was mounted, in order.
    mounts: Vec<PathBuf>,
}

impl GuestEngine {
    /// Starts the engine and waits until it answers.
    ///
    /// # Errors
    /// When its bundle is missing, it does not start, or it does not answer. Then nothing is left behind.
    pub(crate) fn start(
        bundles: &dyn BundleStore,
        surroundings: &TrialContext,
    ) -> Result<(GuestEngine, Engine), Fault> {
        let tree = bundles.bundle(&recipe())?.directory()?;
        let root = Path::new(ROOT);
        let mut mounts = Vec::new();
        let started = prepare(&tree, root, surroundings, &mut mounts).and_then(|()| spawn(root));
        let [daemon, containerd] = match started {
            Ok(processes) => processes,
            Err(fault) => {
                let fault = fault.with_log(log_tail(root));
                release(&mounts);
                return Err(fault);
            }
        };
        let mut own = GuestEngine { daemon, containerd, mounts };
        match own.wait_until_it_answers(root) {
            Ok(engine) => Ok((own, engine)),
            Err(fault) => {
                let fault = fault.with_log(log_tail(root));
                // Report the first failure, not one in the cleanup.
                let _ = own.stop();
                Err(fault)
            }
        }
    }

    /// Gives the engine a bundle's image. An import, which unpacks an archive and hashes it twice, takes an emulated
    /// guest a minute; so the image's layer is imported empty, and the bundle's tree, which came as a disk, is mounted
    /// over the layer's folder. A container's root is then the same layered file system as always.
    ///
    /// # Errors
    /// When the engine refuses the image, or its layer is not where it says.
    pub(crate) fn place(&mut self, engine: &Engine, bundle: &dyn Bundle) -> Result<(), Fault> {
        let Some(folder) = image::ensure_hollow(engine, bundle)? else { return Ok(()) };
        let folder_here = inside(Path::new(ROOT), &folder);
        if !folder_here.is_dir() {
            return Err(Fault::new(format!("the image's layer is not at {}", folder_here.display())));
        }
        mount_beside(self.daemon.id(), &bundle.directory()?, &folder)
    }

    fn wait_until_it_answers(&mut self, root: &Path) -> Result<Engine, Fault> {
        let socket = root.join("run/docker.sock");
        let deadline = Instant::now() + START_WITHIN;
        loop {
            if let Some(status) = self.daemon.try_wait().doing("see whether the container engine runs")? {
                return Err(Fault::new(format!("the container engine in the guest ended at once: {status}")));
            }
            // It listens some time before it answers, so only a fault at the end is final.
            match Engine::at(&socket) {
                Ok(Some(engine)) => return Ok(engine),
                Err(fault) if Instant::now() >= deadline => return Err(fault),
                Ok(None) if Instant::now() >= deadline => {
                    let seconds = START_WITHIN.as_secs();
                    return Err(Fault::new(format!("the container engine in the guest did not answer in {seconds} s")));
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Stops the engine and removes its root.
    ///
    /// # Errors
    /// When it does not exit.
    pub(crate) fn stop(mut self) -> Result<(), Fault> {
        let stopped = self.end();
        release(&self.mounts);
        stopped
    }

    /// Ends the engine, and then what it depends on.
    fn end(&mut self) -> Result<(), Fault> {
        let engine = end(&mut self.daemon);
        engine.and(end(&mut self.containerd))
    }
}

/// Lets a process exit by itself, and kills it if it does not.
fn end(process: &mut Child) -> Result<(), Fault> {
    let doing = "stop the container engine in the guest";
    let pid = i32::try_from(process.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid.filter(|_| matches!(process.try_wait(), Ok(None))) {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).doing(doing)?;
    }
    let deadline = Instant::now() + STOP_WITHIN;
    while Instant::now() < deadline {
        if !matches!(process.try_wait(), Ok(None)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().doing(doing)?;
    process.wait().doing(doing).map(drop)
}

fn make(path: &Path) -> Result<(), Fault> {
    fs::create_dir_all(path).doing(format!("make {}", path.display()))
}

/// Assembles the engine's root.
fn prepare(tree: &Path, root: &Path, at: &TrialContext, mounts: &mut Vec<PathBuf>) -> Result<(), Fault> {
    let own = at.scratch.join("engine");
    let (upper, work, data) = (own.join("upper"), own.join("work"), own.join("data"));
    for path in [root, &upper, &work, &data] {
        make(path)?;
    }
    let layers = format!("lowerdir={},upperdir={},workdir={}", tree.display(), upper.display(), work.display());
    let layers = std::ffi::CString::new(layers).doing("name the layers of the engine's root")?;
    let doing = "mount the engine's root; the guest's kernel needs the module 'overlay'";
    mount("overlay", root, "overlay", MountFlags::empty(), layers.as_c_str()).doing(doing)?;
    mounts.push(root.to_owned());
    for folder in ["/proc", "/sys", "/dev"] {
        bind(Path::new(folder), &inside(root, Path::new(folder)), true, mounts)?;
    }
    for (folder, mode) in [("run", c"mode=0755"), ("tmp", c"mode=1777")] {
        let point = root.join(folder);
        make(&point)?;
        mount("tmpfs", &point, "tmpfs", MountFlags::empty(), mode).doing(format!("mount {}", point.display()))?;
        mounts.push(point);
    }
    // Its own store must not be on the layered root: such file systems cannot be stacked twice.
    bind(&data, &root.join("var/lib/docker"), false, mounts)?;
    // What containers are given must have the same path for the engine as here.
    bind(&at.scratch, &inside(root, &at.scratch), false, mounts)
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn bind(from: &Path, to: &Path, recursive: bool, mounts: &mut Vec<PathBuf>) -> Result<(), Fault> {
    make(to)?;
    let bound = if recursive { mount_bind_recursive(from, to) } else { mount_bind(from, to) };
    bound.doing(format!("bind {} to {}", from.display(), to.display()))?;
    mounts.push(to.to_owned());
    Ok(())
}

/// Starts the engine and, before it, its containerd.
fn spawn(root: &Path) -> Result<[Child; 2], Fault> {
    let log = File::create(log_path(root)).doing("make the engine's log")?;
    let config = "/run/containerd.toml";
    fs::write(inside(root, Path::new(config)), CONTAINERD_CONFIG).doing("write containerd's configuration")?;
    let mut containerd = program("/usr/bin/containerd", &log)?;
    containerd.args(["--config", config, "--address", CONTAINERD]);
    containerd.args(["--root", "/var/lib/docker/containerd", "--state", "/run/containerd"]);
    let mut engine = program("/usr/sbin/dockerd", &log)?;
    engine
        .args(["--host", "unix:///run/docker.sock", "--data-root", "/var/lib/docker", "--pidfile", "/run/docker.pid"])
        .args(["--exec-opt", "native.cgroupdriver=cgroupfs", "--storage-driver", "overlay2"])
        .args(["--containerd", CONTAINERD])
        // Nobody uses the default bridge here, and it takes time to make.
        .args(["--bridge", "none"]);
    // A thread of its own, which gives up its root for good. The engine's root is that of a mount namespace, not a
    // chroot in the guest's: what an engine executes in a container joins the container's namespace and starts at its
    // root. Both processes are in the same namespace, since containerd's children must see what the engine mounts.
    let enter_and_start = || {
        enter_mounted(root)?;
        let mut containerd = containerd.spawn().doing("start containerd in the guest")?;
        let engine = wait_for_containerd(&mut containerd)
            .and_then(|()| engine.spawn().doing("start the container engine in the guest"));
        match engine {
            Ok(engine) => Ok([engine, containerd]),
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = end(&mut containerd);
                Err(fault)
            }
        }
    };
    std::thread::scope(|scope| scope.spawn(enter_and_start).join().expect("starting a process does not panic"))
}

/// One of the engine's programs, with its own environment, writing to the log.
fn program(path: &str, log: &File) -> Result<Command, Fault> {
    let log = || log.try_clone().doing("share the engine's log");
    let mut command = Command::new(path);
    command.env_clear().env("PATH", USUAL_PATH).stdin(Stdio::null()).stdout(log()?).stderr(log()?);
    Ok(command)
}

/// Waits in the engine's root until containerd listens.
fn wait_for_containerd(containerd: &mut Child) -> Result<(), Fault> {
    let deadline = Instant::now() + START_WITHIN;
    while UnixStream::connect(CONTAINERD).is_err() {
        if let Some(status) = containerd.try_wait().doing("see whether containerd runs")? {
            return Err(Fault::new(format!("containerd in the guest ended at once: {status}")));
        }
        if Instant::now() >= deadline {
            let seconds = START_WITHIN.as_secs();
            return Err(Fault::new(format!("containerd in the guest did not listen in {seconds} s")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn log_path(root: &Path) -> PathBuf {
    root.join("run/dockerd.log")
}

fn log_tail(root: &Path) -> String {
    let text = fs::read(log_path(root)).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL)..]).into_owned()
}

/// Unmounts what was mounted, last first. Lazily, and ignoring errors: the guest itself ends soon after.
fn release(mounts: &[PathBuf]) {
    for point in mounts.iter().rev() {
        let _ = unmount(point, UnmountFlags::DETACH);
    }
}
