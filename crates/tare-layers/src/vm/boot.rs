//! Opening the layer: from a host and a wish to a guest whose agent answers.

use super::accelerator::{self, Accelerator, Qemu};
use super::block;
use super::disks::{self, Disks};
use super::host::VmHost;
use super::initramfs;
use super::machine::{Engine, Machine};
use super::options::{Carried, VmOptions};
use super::process::{Outside, Process, Shared};
use super::qmp::Qmp;
use super::size::Size;
use super::wiring::{self, Wiring};
use crate::agent::{AgentHost, GuestPlan};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tare_core::bundle::Kernel;
use tare_core::fault::{Doing, Fault};
use tare_core::form::LayerUse;
use tare_core::host::{Carrier, Facts, GuestNeeds, Host, LocalOuter, OpenError, Surroundings};
use tare_core::units::CpuSet;

/// Where the guest's own writable disk is mounted in it.
const SCRATCH_INSIDE: &str = "/scratch";
/// How long the guest may take until its agent answers, by what runs it.
const BOOT_WITHIN_KVM: Duration = Duration::from_secs(30);
const BOOT_WITHIN_TCG: Duration = Duration::from_secs(120);

/// Opens a guest on a host of this machine.
pub(super) fn open(
    outer: Box<dyn LocalOuter>,
    layer: &LayerUse,
    surroundings: &Surroundings,
) -> Result<Box<dyn Host>, OpenError> {
    let carrier = outer.carrier();
    match prepare(&carrier, layer, surroundings).and_then(|wish| Ok(boot(wish, surroundings)?)) {
        Ok(guest) => Ok(Box::new(VmHost::new(outer.into_host(), guest))),
        Err(error) => {
            // The reason why it failed is worth more than what closing the host may have to say.
            let _ = outer.close();
            Err(error)
        }
    }
}

/// What is known before anything is made.
struct Wish {
    options: VmOptions,
    qemu: Qemu,
    accelerator: Accelerator,
    kernel: Kernel,
    initial: PathBuf,
    size: Size,
    disks: Disks,
    vhost: bool,
}

/// A booted guest and everything that belongs to it on this machine.
pub(super) struct Guest {
    pub(super) agent: AgentHost,
    pub(super) process: Shared,
    pub(super) qmp: Qmp,
    pub(super) wiring: Wiring,
    pub(super) size: Size,
    pub(super) plan: GuestPlan,
    pub(super) facts: Facts,
    /// Files to remove when it is closed.
    pub(super) files: Vec<PathBuf>,
    /// The device that carries its writable disk, to be emptied when it is closed.
    pub(super) claim: Option<block::Claim>,
}

fn prepare(carrier: &Carrier, layer: &LayerUse, surroundings: &Surroundings) -> Result<Wish, OpenError> {
    let options = VmOptions::from_value(&layer.options)?;
    let qemu = Qemu::find().map_err(OpenError::Unavailable)?;
    let needs = inner_needs(&surroundings.inner)?;
    let accelerator = accelerator::choose(&qemu, carrier, &options.accelerator).map_err(OpenError::Unavailable)?;
    if options.machine == "microvm" && accelerator.engine == Engine::Tcg {
        let why = Fault::new("an emulated guest finds no clock on the machine type 'microvm' and does not boot");
        return Err(OpenError::Unavailable(why.remedy("use 'machine: q35', or a machine with a working KVM")));
    }
    let kernel = carrier.bundles.kernel().map_err(OpenError::Unavailable)?;
    let size = Size::of(&options, surroundings, &needs)?;
    if let Carried::Block(device) = &options.disk {
        block::examine(device, size.disk).map_err(OpenError::Unavailable)?;
    }
    let vhost = wants_vhost(&options).map_err(OpenError::Unavailable)?;
    if options.hugepages {
        check_huge_pages(size.memory).map_err(OpenError::Unavailable)?;
    }
    let more: Vec<String> = needs.iter().flat_map(|needs| needs.modules.iter().cloned()).collect();
    let initial = initramfs::packed(&kernel, &carrier.program, &more)?;
    let disks = disks::of(carrier, &options, surroundings, &needs, size.disk)?;
    Ok(Wish { options, qemu, accelerator, kernel, initial, size, disks, vhost })
}

/// What the layers inside the guest need there.
pub(super) fn inner_needs(inner: &[LayerUse]) -> Result<Vec<GuestNeeds>, Fault> {
    let row = |layer: &LayerUse| crate::LAYERS.iter().find(|row| row.name == layer.layer);
    let needs = |layer: &LayerUse| {
        let row = row(layer).ok_or_else(|| Fault::new(format!("there is no layer '{}'", layer.layer)))?;
        Ok((row.in_guest)(&layer.options))
    };
    inner.iter().map(needs).collect()
}

fn wants_vhost(options: &VmOptions) -> Result<bool, Fault> {
    let there = Path::new("/dev/vhost-net").exists();
    match options.vhost.as_str() {
        "off" => Ok(false),
        "on" if !there => {
            Err(Fault::new("this machine has no /dev/vhost-net").remedy("load the kernel's module: modprobe vhost_net"))
        }
        _ => Ok(there),
    }
}

/// Huge pages must be set aside before the guest asks for them, else QEMU is killed while it touches them.
fn check_huge_pages(memory: u64) -> Result<(), Fault> {
    let text = std::fs::read_to_string("/proc/meminfo").doing("read /proc/meminfo")?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let size = field("Hugepagesize:").unwrap_or(2048) << 10;
    let (free, needed) = (field("HugePages_Free:").unwrap_or(0), memory.div_ceil(size));
    if free >= needed {
        return Ok(());
    }
    let message = format!("the guest needs {needed} huge pages of {} KiB, {free} are free", size >> 10);
    Err(Fault::new(message).remedy(format!("sysctl -w vm.nr_hugepages={needed}")))
}

fn boot(mut wish: Wish, surroundings: &Surroundings) -> Result<Guest, Fault> {
    let scratch = &surroundings.scratch;
    let file = |name: &str| scratch.join(name);
    let made = [disks::RAW_FILE, disks::IMAGE_FILE].map(file);
    let files: Vec<PathBuf> = [file("guest-console.log"), file("guest-qemu.log")].into_iter().chain(made).collect();
    let remove = || files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    let mut wiring =
        Wiring::make(&surroundings.run, surroundings.place, surroundings.subnets, !surroundings.inner.is_empty())
            .inspect_err(|_| remove())?;
    match launch(&wish, surroundings, &wiring, &files) {
        Ok((agent, process, qmp, plan)) => {
            let facts = facts(&wish, &qmp);
            let claim = wish.disks.claim.take();
            Ok(Guest { agent, process, qmp, wiring, size: wish.size, plan, facts, files, claim })
        }
        Err(fault) => {
            let _ = wiring.remove();
            remove();
            Err(fault)
        }
    }
}

type Launched = (AgentHost, Shared, Qmp, GuestPlan);

fn launch(wish: &Wish, surroundings: &Surroundings, wiring: &Wiring, files: &[PathBuf]) -> Result<Launched, Fault> {
    let started = Instant::now();
    let (agent_near, agent_far) = UnixStream::pair().doing("make the agent's line")?;
    let (control_near, control_far) = UnixStream::pair().doing("make QEMU's control line")?;
    let machine = Machine {
        name: format!("tare-{}-{}", surroundings.run, surroundings.trial),
        options: &wish.options,
        engine: wish.accelerator.engine,
        size: &wish.size,
        kernel: &wish.kernel.image,
        initial: &wish.initial,
        disks: &wish.disks.machine,
        tap: &wiring.tap,
        hardware: wiring.hardware.clone(),
        vhost: wish.vhost,
        console: &files[0],
        agent_fd: agent_far.as_raw_fd(),
        control_fd: control_far.as_raw_fd(),
    };
    let arguments = machine.arguments();
    let far: [OwnedFd; 2] = [agent_far.into(), control_far.into()];
    let own = &surroundings.hypervisor;
    let on = Some(if own.is_empty() { &surroundings.cpus } else { own });
    let process = Process::start(&wish.qemu.program, &arguments, &far, on, &files[0], &files[1])?;
    drop(far);
    let process = Shared::new(process);
    // When QEMU refuses its arguments, its own words explain what the broken line does not.
    let explain = |fault: Fault| {
        process.lock().wait(Duration::from_secs(2));
        process.lock().check().err().unwrap_or(fault)
    };
    let mut qmp = Qmp::greet(control_near).map_err(explain)?;
    if wish.options.pin || wish.size.free {
        pin(&mut qmp, &wish.size)?;
    }
    qmp.execute("cont", serde_json::json!({})).map_err(explain)?;
    let plan = plan(wish, surroundings, wiring);
    let mut agent = AgentHost::new(agent_near, Box::new(Outside(process.clone())))?;
    let within = if wish.accelerator.engine == Engine::Kvm { BOOT_WITHIN_KVM } else { BOOT_WITHIN_TCG };
    agent
        .set_up(&plan, within.saturating_sub(started.elapsed()))
        .map_err(|fault| fault.context("the guest did not come up"))?;
    Ok((agent, process, qmp, plan))
}

/// Binds each virtual CPU's thread to its own CPU, or to all that they may run on. The other threads stay where QEMU
/// was started.
fn pin(qmp: &mut Qmp, size: &Size) -> Result<(), Fault> {
    let threads = qmp.cpu_threads()?;
    let all = size.on.cpus();
    for (at, thread) in threads.into_iter().enumerate() {
        let own = if size.free { all } else { all.get(at..=at).unwrap_or(all) };
        let mut set = rustix::thread::CpuSet::new();
        own.iter().for_each(|cpu| set.set(*cpu as usize));
        rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(thread), &set)
            .doing(format!("bind a virtual CPU to CPUs {}", CpuSet::new(own.iter().copied())))?;
    }
    Ok(())
}

fn plan(wish: &Wish, surroundings: &Surroundings, wiring: &Wiring) -> GuestPlan {
    GuestPlan {
        address: wiring.guest,
        prefix: wiring::PREFIX,
        gateway: wiring.gateway,
        bundles: wish.disks.guest.clone(),
        scratch: disks::SCRATCH.to_owned(),
        surroundings: Surroundings {
            scratch: SCRATCH_INSIDE.into(),
            address: wiring.guest.into(),
            subnets: wiring.inner,
            cpus: wish.size.cpus_inside(),
            hypervisor: CpuSet::default(),
            services: surroundings.services.iter().map(|start| wish.size.inside(start)).collect(),
            ..surroundings.clone()
        },
    }
}

fn carried(disk: &Carried) -> String {
    match disk {
        Carried::Raw => "a raw file".to_owned(),
        Carried::Qcow2 => "a qcow2 image".to_owned(),
        Carried::Block(device) => format!("the block device {}", device.display()),
    }
}

fn facts(wish: &Wish, qmp: &Qmp) -> Facts {
    let Wish { options, qemu, accelerator, kernel, size, disks, vhost, .. } = wish;
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let direct = disks.machine.iter().all(|disk| disk.direct);
    let mut facts = vec![
        ("accelerator", accelerator.engine.name().to_owned()),
        ("qemu", format!("{} (answers as {})", qemu.version, qmp.version)),
        ("machine", options.machine.clone()),
        ("cpu", accelerator.engine.cpu_model().to_owned()),
        ("kernel", kernel.release.clone()),
        ("mitigations", if accelerator.engine == Engine::Tcg { "off" } else { "the kernel's choice" }.to_owned()),
        ("kernel_origin", kernel.origin.clone()),
        ("cpus", size.cpus.to_string()),
        ("on_cpus", size.on.to_string()),
        ("pinned", yes(options.pin && !size.free)),
        ("memory_bytes", size.memory.to_string()),
        ("hugepages", yes(options.hugepages)),
        ("vhost", yes(*vhost)),
        ("disk_cache", options.cache.clone()),
        ("disk_direct", yes(direct)),
        ("iothread", yes(options.iothread)),
        ("disk", carried(&options.disk)),
        ("disk_aio", disks.machine.last().map_or("", |disk| disk.aio(&options.aio)).to_owned()),
    ];
    if let Some(why) = &accelerator.emulated {
        facts.push(("emulated_because", why.message.clone()));
    }
    facts.into_iter().map(|(key, value)| (format!("vm.{key}"), value)).collect()
}
