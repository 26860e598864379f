//! Opening the layer: from a host and a request to guests whose agents answer.

use super::accelerator::{self, Accelerator, Qemu};
use super::block;
use super::confinement::{Cell, Handed};
use super::dealing::dealt_out;
use super::disks::{self, Disks};
use super::guest::{Guest, on_each, remove};
use super::host::VmHost;
use super::initramfs;
use super::leftovers;
use super::machine::{self, Card, Engine, Open, QemuMachine};
use super::micro;
use super::options::{Carried, VmOptions};
use super::passt::{self, Line, Passt};
use super::process::{Outside, Process, Shared};
use super::qmp::Qmp;
use super::size::Size;
use super::wiring::{self, Plug, Wiring};
use crate::agent::{AgentHost, GuestPlan};
use crate::network;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tare_core::bundle::Kernel;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{
    Facts, GuestNeeds, Host, Layers, LocalOuter, MachineServices, OpenError, TrialContext, layer_named,
};
use tare_core::layer::{LayerUse, Listens};
use tare_core::units::CpuSet;

/// A guest's files in its scratch directory: what it writes to its console, and what QEMU says.
const CONSOLE: &str = "guest-console.log";
const OWN_LOG: &str = "guest-qemu.log";
/// Where the guest's own writable disk is mounted in it.
const SCRATCH_INSIDE: &str = "/scratch";
/// How long the guest may take until its agent answers, by accelerator.
const BOOT_WITHIN_KVM: Duration = Duration::from_secs(30);
const BOOT_WITHIN_TCG: Duration = Duration::from_secs(120);

/// Opens guests on a host of this machine.
pub(super) fn open(
    outer: Box<dyn LocalOuter>,
    options: VmOptions,
    surroundings: &TrialContext,
) -> Result<Box<dyn Host>, OpenError> {
    let carrier = outer.carrier();
    let opened = prepare(&carrier, options, surroundings).and_then(|wish| {
        let wishes = each(&carrier, &wish, surroundings)?;
        Ok(boot(&wish, wishes, surroundings)?)
    });
    match opened {
        Ok((guests, wiring)) => Ok(Box::new(VmHost::new(outer, guests, wiring))),
        Err(error) => {
            // The reason for the failure is worth more than any error from closing the host.
            let _ = outer.close();
            Err(error)
        }
    }
}

/// What is known about all guests before anything is made.
struct BootRequest {
    options: VmOptions,
    qemu: Qemu,
    accelerator: Accelerator,
    /// What the guests' kernel must be told about its clock.
    clock: String,
    kernel: Kernel,
    initial: PathBuf,
    needs: Vec<GuestNeeds>,
    vhost: bool,
    /// What carries the guests' networks, if a process does.
    passt: Option<Passt>,
}

/// What is known about one of them.
struct Own {
    /// What is deployed in it, and its own scratch directory.
    surroundings: TrialContext,
    size: Size,
    disks: Disks,
    /// Files and directories to remove when it is closed.
    files: Vec<PathBuf>,
}

fn prepare(
    carrier: &MachineServices,
    options: VmOptions,
    surroundings: &TrialContext,
) -> Result<BootRequest, OpenError> {
    let qemu = Qemu::find().map_err(OpenError::Unavailable)?;
    let needs = inner_needs(carrier.layers, &surroundings.inner)?;
    let accelerator = accelerator::choose(&qemu, carrier, &options.accelerator).map_err(OpenError::Unavailable)?;
    let kernel = carrier.bundles.kernel().map_err(OpenError::Unavailable)?;
    let mut clock = String::new();
    if options.is_micro() {
        micro::check(&qemu, &kernel).map_err(OpenError::Unavailable)?;
        micro::check_disks(options.iothread, accelerator.engine).map_err(OpenError::Unavailable)?;
        clock = micro::clock_arguments(accelerator.engine).map_err(OpenError::Unavailable)?;
    }
    let passt = Passt::wanted(&options).map_err(OpenError::Unavailable)?;
    if passt.is_some() {
        qemu.check_passt(&options).map_err(OpenError::Unavailable)?;
        check_forwarded(carrier.layers, &surroundings.inner).map_err(OpenError::Unavailable)?;
    }
    let vhost = passt.is_none() && wants_vhost(&options).map_err(OpenError::Unavailable)?;
    let more: Vec<String> = needs.iter().flat_map(|needs| needs.modules.iter().cloned()).collect();
    let initial = initramfs::packed(&kernel, &carrier.program, &more)?;
    Ok(BootRequest { options, qemu, accelerator, clock, kernel, initial, needs, vhost, passt })
}

/// Refuses layers whose services have addresses of their own in a guest: passt forwards ports of the guest's address.
fn check_forwarded(layers: Layers, inner: &[LayerUse]) -> Result<(), Fault> {
    let listens = |layer: &&LayerUse| layer_named(layers, &layer.layer).map(|known| known.listens(&layer.options));
    let Some(apart) = inner.iter().find(|layer| listens(layer) == Some(Listens::Apart)) else { return Ok(()) };
    let message = format!(
        "services in the layer '{}' have addresses of their own in the guest, and passt forwards ports of the guest's \
         address alone",
        apart.layer
    );
    Err(Fault::new(message).remedy("publish their ports ('container: {network: published}'), or use 'network: tap'"))
}

/// What is each guest's own: the services in it, its size, its disks.
fn each(carrier: &MachineServices, wish: &BootRequest, surroundings: &TrialContext) -> Result<Vec<Own>, OpenError> {
    let options = &wish.options;
    let dealt = dealt_out(surroundings.services.iter().map(|start| &start.service), options.guests)
        .map_err(OpenError::Unavailable)?;
    let share = |at: usize| {
        let own = surroundings.services.iter().zip(&dealt).filter(|(_, guest)| **guest == at);
        let services = own.map(|(start, _)| start.clone()).collect();
        let scratch = match options.guests {
            1 => surroundings.scratch.clone(),
            _ => surroundings.scratch.join(format!("guest-{}", at + 1)),
        };
        TrialContext { services, scratch, ..surroundings.clone() }
    };
    let shares: Vec<TrialContext> = (0..options.guests as usize).map(share).collect();
    let sizes = shares.iter().enumerate().map(|(at, share)| Size::of(options, share, &wish.needs, at));
    let sizes = sizes.collect::<Result<Vec<Size>, Fault>>()?;
    if options.hugepages {
        check_huge_pages(&sizes).map_err(OpenError::Unavailable)?;
    }
    let mut all: Vec<Own> = Vec::new();
    for (share, size) in shares.into_iter().zip(sizes) {
        match own(carrier, wish, share, size) {
            Ok(own) => all.push(own),
            Err(error) => {
                all.iter().for_each(|own| remove(&own.files));
                return Err(error);
            }
        }
    }
    Ok(all)
}

fn own(
    carrier: &MachineServices,
    wish: &BootRequest,
    surroundings: TrialContext,
    size: Size,
) -> Result<Own, OpenError> {
    let (options, scratch) = (&wish.options, surroundings.scratch.clone());
    let wanted = disks::count(surroundings.services.iter().map(|start| &start.service), &wish.needs);
    machine::takes_disks(options, wanted)
        .and_then(|()| machine::takes_cpus(options, size.cpus))
        .map_err(OpenError::Unavailable)?;
    if let Carried::Block(device) = &options.disk {
        block::examine(device, size.disk).map_err(OpenError::Unavailable)?;
    }
    let mut files: Vec<PathBuf> = [CONSOLE, OWN_LOG, passt::LOG, disks::RAW_FILE, disks::IMAGE_FILE]
        .iter()
        .map(|name| scratch.join(name))
        .collect();
    if options.guests > 1 {
        std::fs::create_dir_all(&scratch).doing(format!("make {}", scratch.display()))?;
        files.push(scratch);
    }
    let disks = disks::of(carrier, options, &surroundings, &wish.needs, size.disk).inspect_err(|_| remove(&files))?;
    Ok(Own { surroundings, size, disks, files })
}

/// What the layers inside the guest need there.
fn inner_needs(layers: Layers, inner: &[LayerUse]) -> Result<Vec<GuestNeeds>, Fault> {
    let needs = |layer: &LayerUse| {
        let known = layer_named(layers, &layer.layer);
        known.ok_or_else(|| Fault::new(format!("there is no layer '{}'", layer.layer)))?.in_guest(&layer.options)
    };
    inner.iter().map(needs).collect()
}

const VHOST: &str = "/dev/vhost-net";

fn open_vhost() -> Result<File, Fault> {
    File::options().read(true).write(true).open(VHOST).doing(format!("open {VHOST}"))
}

fn wants_vhost(options: &VmOptions) -> Result<bool, Fault> {
    let there = Path::new(VHOST).exists();
    match options.vhost.as_str() {
        "off" => Ok(false),
        "on" if !there => {
            Err(Fault::new(format!("this machine has no {VHOST}"))
                .remedy("load the kernel's module: modprobe vhost_net"))
        }
        _ => Ok(there),
    }
}

/// Huge pages must be reserved before guests ask for them, otherwise QEMU is killed while it touches them.
fn check_huge_pages(sizes: &[Size]) -> Result<(), Fault> {
    let text = std::fs::read_to_string("/proc/meminfo").doing("read /proc/meminfo")?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let page = field("Hugepagesize:").unwrap_or(2048) << 10;
    let needed: u64 = sizes.iter().map(|size| size.memory.div_ceil(page)).sum();
    let free = field("HugePages_Free:").unwrap_or(0);
    if free >= needed {
        return Ok(());
    }
    let (who, need) = if sizes.len() > 1 { ("the guests", "need") } else { ("the guest", "needs") };
    let message = format!("{who} {need} {needed} huge pages of {} KiB, {free} are free", page >> 10);
    Err(Fault::new(message).remedy(format!("sysctl -w vm.nr_hugepages={needed}")))
}

/// Boots all guests at the same time, and waits until every agent answers.
fn boot(wish: &BootRequest, all: Vec<Own>, surroundings: &TrialContext) -> Result<(Vec<Guest>, Wiring), Fault> {
    let files: Vec<PathBuf> = all.iter().flat_map(|own| own.files.clone()).collect();
    let booted = Wiring::make(surroundings, &wish.options).and_then(|mut wiring| {
        let started = Instant::now();
        // In this thread: what it starts ends with it.
        let launched = all.into_iter().zip(wiring.plugs.clone()).enumerate();
        let guests: Result<Vec<Guest>, Fault> =
            launched.map(|(at, (own, plug))| launch(wish, own, &mut wiring, &plug, at)).collect();
        match guests.and_then(|guests| set_up(wish, guests, started)) {
            Ok(guests) => Ok((guests, wiring)),
            Err(fault) => {
                let _ = wiring.remove();
                Err(fault)
            }
        }
    });
    booted.inspect_err(|_| remove(&files))
}

/// Starts one guest's QEMU and lets it run.
fn launch(wish: &BootRequest, own: Own, wiring: &mut Wiring, plug: &Plug, at: usize) -> Result<Guest, Fault> {
    let Own { surroundings, size, mut disks, files } = own;
    let (agent_near, agent_far) = UnixStream::pair().doing("make the agent's line")?;
    let (control_near, control_far) = UnixStream::pair().doing("make QEMU's control line")?;
    let beside = if wish.options.guests > 1 { format!("-g{}", at + 1) } else { String::new() };
    let console = surroundings.scratch.join(CONSOLE);
    let mut handed = Handed::default();
    let (card, line) = card(wish, plug, &surroundings.scratch, &mut handed)?;
    let open = Open {
        kernel: handed.add_readable(&wish.kernel.image)?,
        initial: handed.add_readable(&wish.initial)?,
        disks: disks.machine.iter().map(|disk| Ok(handed.add(disk.open()?))).collect::<Result<_, Fault>>()?,
        card,
        console: handed.add(File::create(&console).doing("make the guest's console log")?),
        agent: handed.add(agent_far),
        control: handed.add(control_far),
    };
    let machine = QemuMachine {
        name: format!("tare-{}-{}{beside}", surroundings.run, surroundings.trial),
        options: &wish.options,
        engine: wish.accelerator.engine,
        clock: &wish.clock,
        cpu: &wish.accelerator.cpu,
        size: &size,
        disks: &disks.machine,
        hardware: plug.hardware.clone(),
        sandbox: wish.qemu.sandbox,
        open,
    };
    let own_log = surroundings.scratch.join(OWN_LOG);
    let mut qemu = wish.qemu.command();
    leftovers::mark(&surroundings.run, &mut qemu);
    let cell = Cell::new(wish.accelerator.engine == Engine::Kvm, &handed, Some(own_cpus(&surroundings)))?;
    let process = Process::start(qemu, &machine.arguments(), cell, &console, &own_log)?;
    // QEMU must be the only holder of its ends, so that a broken line is noticed.
    drop(handed);
    let process = Shared::new(process);
    start_passt(wish, line, &process, &machine.name, &surroundings, wiring, plug)?;
    // When QEMU refuses its arguments, its own message explains what the broken line does not.
    let explain = |fault: Fault| {
        process.lock().wait(Duration::from_secs(2));
        process.lock().check().err().unwrap_or(fault)
    };
    let mut qmp = Qmp::greet(control_near).map_err(explain)?;
    if wish.options.pin || size.free {
        pin(&mut qmp, &size)?;
    }
    qmp.execute("cont", serde_json::json!({})).map_err(explain)?;
    let plan = plan(wish, &size, &disks, &surroundings, wiring, plug);
    let agent = AgentHost::new(agent_near, Box::new(Outside(process.clone())))?;
    let facts = facts(wish, &size, &disks, &qmp);
    let holds = surroundings.services.iter().map(|start| start.instance.clone()).collect();
    Ok(Guest { holds, agent, process, qmp, size, plan, facts, files, claim: disks.claim.take() })
}

/// The host's end of a guest's network card; and of passt's line to it, where passt carries the network.
fn card(wish: &BootRequest, plug: &Plug, scratch: &Path, handed: &mut Handed) -> Result<(Card, Option<Line>), Fault> {
    if wish.passt.is_some() {
        return Line::make(wish.options.vhost_user, scratch, handed).map(|(card, line)| (card, Some(line)));
    }
    let tap = handed.add(network::tap_open(&plug.tap)?);
    let vhost = if wish.vhost { Some(handed.add(open_vhost()?)) } else { None };
    Ok((Card::Tap { tap, vhost }, None))
}

/// Starts the passt that carries the network of the guest with this process and name, if one does.
fn start_passt(
    wish: &BootRequest,
    line: Option<Line>,
    process: &Shared,
    guest: &str,
    surroundings: &TrialContext,
    wiring: &mut Wiring,
    plug: &Plug,
) -> Result<(), Fault> {
    let (Some(passt), Some(line)) = (&wish.passt, line) else { return Ok(()) };
    let ports: BTreeSet<u16> =
        surroundings.services.iter().flat_map(|start| start.service.ports.values().copied()).collect();
    let qemu = process.lock().user();
    let mut handed = Handed::default();
    let line = handed.add(line.joined(&qemu, || process.lock().check())?);
    let cell = Cell::new(false, &handed, Some(own_cpus(surroundings)))?;
    wiring.let_listen(&surroundings.run, &ports, cell.user().number())?;
    let service = passt::Service {
        run: &surroundings.run,
        guest,
        plug,
        gateway: wiring.gateway,
        bridge: &wiring.bridge,
        ports,
        vhost_user: wish.options.vhost_user,
        line,
        log: surroundings.scratch.join(passt::LOG),
    };
    let running = passt.start(&service, cell)?;
    process.lock().carry(running);
    Ok(())
}

/// The CPUs of what serves a guest: all but its virtual CPUs.
fn own_cpus(surroundings: &TrialContext) -> rustix::thread::CpuSet {
    let own = &surroundings.hypervisor;
    let mut on = rustix::thread::CpuSet::new();
    let cpus = if own.is_empty() { &surroundings.cpus } else { own };
    cpus.cpus().iter().for_each(|cpu| on.set(*cpu as usize));
    on
}

/// Sends every guest its plan, and waits until all have followed it.
fn set_up(wish: &BootRequest, mut guests: Vec<Guest>, started: Instant) -> Result<Vec<Guest>, Fault> {
    let within = if wish.accelerator.engine == Engine::Kvm { BOOT_WITHIN_KVM } else { BOOT_WITHIN_TCG };
    // They may all be booting on one CPU.
    let within = within * wish.options.guests;
    on_each(&mut guests, |guest| guest.agent.set_up(&guest.plan, within.saturating_sub(started.elapsed())))
        .map_err(|fault| fault.context("the guest did not come up"))?;
    Ok(guests)
}

/// Binds each virtual CPU's thread to its own CPU, or to all CPUs that it may use. The other threads stay where QEMU
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

fn plan(
    wish: &BootRequest,
    size: &Size,
    disks: &Disks,
    surroundings: &TrialContext,
    wiring: &Wiring,
    plug: &Plug,
) -> GuestPlan {
    GuestPlan {
        mtu: wish.passt.as_ref().map(|_| passt::MTU),
        address: plug.address,
        prefix: wiring::PREFIX,
        gateway: wiring.gateway,
        bundles: disks.guest.clone(),
        scratch: disks::SCRATCH.to_owned(),
        surroundings: TrialContext {
            scratch: SCRATCH_INSIDE.into(),
            address: plug.address.into(),
            subnets: wiring.inner,
            third_octets: plug.third_octets,
            cpus: size.cpus_inside(),
            hypervisor: CpuSet::default(),
            services: surroundings.services.iter().map(|start| size.inside(start)).collect(),
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

fn facts(wish: &BootRequest, size: &Size, disks: &Disks, qmp: &Qmp) -> Facts {
    let BootRequest { options, qemu, accelerator, kernel, vhost, passt, .. } = wish;
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let direct = disks.machine.iter().all(|disk| disk.direct);
    let mut facts = vec![
        ("accelerator", accelerator.engine.name().to_owned()),
        ("qemu", format!("{} (answers as {})", qemu.version, qmp.version)),
        ("machine", options.machine.clone()),
        ("cpu", accelerator.cpu.clone()),
        ("kernel", kernel.release.clone()),
        ("mitigations", if accelerator.engine == Engine::Tcg { "off" } else { "the kernel's choice" }.to_owned()),
        ("kernel_origin", kernel.origin.clone()),
        ("cpus", size.cpus.to_string()),
        ("on_cpus", size.on.to_string()),
        ("pinned", yes(options.pin && !size.free)),
        ("memory_bytes", size.memory.to_string()),
        ("hugepages", yes(options.hugepages)),
        ("vhost", yes(*vhost)),
        ("sandbox", yes(qemu.sandbox)),
        ("disk_cache", options.cache.clone()),
        ("disk_direct", yes(direct)),
        ("iothread", yes(options.iothread)),
        ("disk", carried(&options.disk)),
        ("disk_aio", disks.machine.last().map_or("", |disk| disk.aio(&options.aio)).to_owned()),
    ];
    // Guests are expected to have a tap device.
    facts.extend(passt.iter().flat_map(|passt| passt.facts(options)));
    if let Some(why) = &accelerator.emulated {
        facts.push(("emulated_because", why.message.clone()));
    }
    facts.into_iter().map(|(key, value)| (format!("vm.{key}"), value)).collect()
}
