//! The checks.

use crate::stage::{DebianStore, Stage, fault_of, left_of, program, redis, vm};
use crate::{crash, escapes, micro, passt, sharing};
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tare_clock::monotonic_ns;
use tare_core::bundle::BundleStore;
use tare_core::command::{CommandEnd, CommandStart, Ended};
use tare_core::config;
use tare_core::fault::Fault;
use tare_core::host::{Availability, ErasedLayer, Host, InstanceState, MachineServices, SeenFile, ServiceStart, Wait};
use tare_core::layer::{LayerOptions, LayerUse};
use tare_core::telemetry::Vantage;
use tare_core::units::CpuSet;
use tare_layers::container::Container;
use tare_layers::vm::Vm;
use tare_layers::{LAYERS, leftovers};

pub(crate) const ALL: &[(&str, fn())] = &[
    ("a_service_runs_in_a_guest_whose_death_is_named_at_once", service_in_guest),
    ("a_guests_threads_and_memory_are_where_they_were_put", placed),
    ("every_variant_boots", variants),
    ("a_microvm_boots_and_serves", micro::boots),
    ("passt_carries_a_guests_network", passt::carries_frames),
    ("passt_shares_a_guests_memory", passt::shares_memory),
    ("passt_forwards_no_routes_into_a_guest", passt::forwards_no_routes),
    ("several_guests_are_one_host", || several_guests("tap", &[])),
    ("several_guests_by_passt_are_one_host", || several_guests("passt", &[])),
    ("containers_in_several_guests_are_on_one_host", || several_guests("tap", &[container("bridge")])),
    // The layer's own test has its networks; here are the two ways into the guest: its address, and a route through it.
    ("a_container_runs_in_a_guest", || container_in_guest("tap", "published")),
    ("a_container_runs_in_a_guest_by_passt", || container_in_guest("passt", "published")),
    ("a_container_with_an_address_of_its_own_runs_in_a_guest", || container_in_guest("tap", "bridge")),
    ("a_hostile_program_is_refused_in_a_guest", || escapes::refused("guest", &[])),
    ("a_hostile_program_is_refused_in_a_container_in_a_guest", || {
        escapes::refused("container in a guest", &[container("published")]);
    }),
    ("services_of_a_guest_share_a_volume", || sharing::in_guest(&[])),
    ("containers_in_a_guest_share_a_volume", || sharing::in_guest(&[container("published")])),
    ("services_in_separate_guests_share_no_volume", sharing::in_separate_guests),
    ("a_guest_that_reads_for_nobody_is_switched_off", stopped_guest),
    ("a_kernel_that_panics_is_quoted", panicking_guest),
    ("what_cannot_be_had_is_unavailable", unavailable),
    ("a_killed_run_leaves_no_guest_running", || crash::killed_run("tap")),
    ("a_killed_run_leaves_no_passt_running", || crash::killed_run("passt")),
];

fn service_in_guest() {
    let start = redis();
    let stage = Stage::open(std::slice::from_ref(&start), &[]);
    let began = Instant::now();
    let mut host = stage.guest(&vm(json!({})), &program()).unwrap();
    println!("  a guest answers after {:.1} s", began.elapsed().as_secs_f64());
    let facts = host.facts().unwrap();
    for fact in ["vm.accelerator", "vm.memory_bytes", "vm.kernel", "vm.kernel_origin", "guest.kernel.release"] {
        assert!(facts.contains_key(fact), "{fact} is missing in {facts:#?}");
    }
    assert_eq!((facts["vm.cpus"].as_str(), facts["vm.on_cpus"].as_str()), ("1", "0"));
    confined(hypervisor(&stage.run), facts["vm.sandbox"] == "yes");

    assert_eq!(host.resources(&start).unwrap().properties["cpus"].number, Some(1.0));
    let instance = host.start(&start).unwrap();
    assert!(stage.answers(instance.endpoints["main"]), "{}", host.log("redis").unwrap());
    assert_eq!(host.state("redis").unwrap(), InstanceState::Running);

    // The very bits that a plain process would run.
    let tree = DebianStore.bundle(&start.service.recipe).unwrap().directory().unwrap();
    let sums = Command::new("sha256sum").arg(tree.join("usr/bin/redis-check-rdb")).output().unwrap();
    let sum = String::from_utf8(sums.stdout).unwrap();
    let mapped = host.mapped_files("redis", Wait::always()).unwrap();
    assert!(mapped.len() > 5, "{mapped:#?}");
    let digest = format!("sha256:{}", sum.split_whitespace().next().unwrap());
    assert!(mapped.iter().any(|file| file.digest == digest), "{sum}: {mapped:#?}");
    let file = |path: &str| SeenFile { path: path.to_owned(), digest: digest.clone() };
    let files = ["/usr/bin/redis-check-rdb", "/etc/passwd"].map(file);
    let seen = host.files_seen(&start, Some(&files), Wait::always()).unwrap();
    assert_eq!((seen.differing.len(), seen.more), (usize::from(seen.compared == 2), 0), "{seen:?}");
    assert!(!seen.differing.contains(&"/usr/bin/redis-check-rdb".to_owned()), "{seen:?}");

    let before = monotonic_ns();
    host.begin_probe(&[], Duration::from_millis(500)).unwrap();
    let rows = host.end_probe().unwrap();
    let inside: Vec<_> = rows.iter().filter(|row| row.vantage == Vantage::Guest).collect();
    assert_eq!((rows.len(), inside.len()), (2, 1), "{rows:#?}");
    assert!(inside[0].serving && (before..monotonic_ns()).contains(&inside[0].at_ns), "{before}: {rows:#?}");

    commands(host.as_mut());
    assert!(host.log("redis").unwrap().contains("Ready to accept connections"));
    host.stop("redis").unwrap();
    assert!(host.state("redis").is_err());
    ends_by_itself(host.as_mut(), start.clone());
    as_image(&stage, host.as_mut(), start.clone());
    dies(&stage, host.as_mut(), start);
    host.close().unwrap();
    stage.close();
}

/// The guest is killed under its service.
fn dies(stage: &Stage, host: &mut dyn Host, start: ServiceStart) {
    host.start(&start).unwrap();
    let guest = left_of(&stage.run).into_iter().find(|leftover| leftover.kind == "guest").unwrap();
    leftovers::remove(LAYERS, &guest).unwrap();
    let asked = Instant::now();
    for fault in [host.state("redis").unwrap_err(), host.facts().unwrap_err(), host.log("redis").unwrap_err()] {
        assert!(fault.message.contains("QEMU ended (signal: 9"), "{fault}");
    }
    assert!(asked.elapsed() < Duration::from_secs(10), "it did not wait for a dead guest's answers");
}

/// A service that does its work and ends has ended well, and is gone once it is stopped.
fn ends_by_itself(host: &mut dyn Host, mut start: ServiceStart) {
    start.service.command = ["/usr/bin/redis-server", "--version"].map(str::to_owned).to_vec();
    host.start(&start).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while host.state("redis").unwrap() == InstanceState::Running {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(host.state("redis").unwrap().succeeded(), "{}", host.log("redis").unwrap());
    host.stop("redis").unwrap();
    assert!(host.state("redis").is_err());
}

/// Once more as an image with an entry script has it: as root of a user namespace in the guest.
fn as_image(stage: &Stage, host: &mut dyn Host, mut start: ServiceStart) {
    (start.service.user, start.service.own_user, start.service.as_image) = ((0, 0), false, true);
    let answers = host.start(&start).unwrap().endpoints["main"];
    assert!(stage.answers(answers), "{}", host.log("redis").unwrap());
    host.stop("redis").unwrap();
}

/// QEMU is nobody else's user, gains nothing, sees no device but its own and has a filter of system calls.
fn confined(pid: u32, sandbox: bool) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    for ids in ["Uid:", "Gid:"] {
        // The first that no other guest of this machine has.
        let ours = |id: &str| id.parse().is_ok_and(|id: u32| (99_000..99_256).contains(&id));
        let distinct: std::collections::BTreeSet<&str> = field(ids).split_whitespace().collect();
        assert!(distinct.len() == 1 && distinct.iter().all(|id| ours(id)), "{status}");
    }
    assert_eq!(field("Groups:"), "");
    for set in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), if sandbox { "2" } else { "0" });
    let names = std::fs::read_dir(format!("/proc/{pid}/root/dev")).unwrap();
    let mut names: Vec<_> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "kvm");
    names.sort();
    assert_eq!(names, ["null", "urandom"]);
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let mut variables: Vec<&str> =
        environment.split_terminator('\0').filter_map(|variable| variable.split('=').next()).collect();
    variables.sort_unstable();
    assert_eq!(variables, ["PATH", "TARE_GUEST"]);
}

/// Two CPUs of the machine: one for the guest's only virtual CPU, one for the rest of its process.
fn placed() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return println!("  skipped: a guest and what serves it on CPUs of their own need two CPUs");
    }
    let on = |cpus: &str| Some(CpuSet::parse(cpus).unwrap());
    for (start, facts, threads) in [
        (ServiceStart { cpus: on("1"), memory: vec![0], ..redis() }, ("1", "yes"), "1"),
        (ServiceStart { cpus: on("0-1"), free: true, ..redis() }, ("0-1", "no"), "0-1"),
    ] {
        let bound = !start.memory.is_empty();
        let mut stage = Stage::open(std::slice::from_ref(&start), &[]);
        stage.surroundings.cpus = CpuSet::new([0, 1]);
        stage.surroundings.hypervisor = CpuSet::new([0]);
        let mut host = stage.guest(&vm(json!({})), &program()).unwrap();
        let said = host.facts().unwrap();
        assert_eq!((said["vm.on_cpus"].as_str(), said["vm.pinned"].as_str()), facts, "{said:#?}");
        assert_eq!(said["vm.cpus"], "1");
        let instance = host.start(&start).unwrap();
        assert!(stage.answers(instance.endpoints["main"]));
        assert_eq!(instance.cpus, None, "it has the guest to itself");
        let pid = hypervisor(&stage.run);
        let mut allowed = allowed_cpus(pid);
        assert!(allowed.len() > 1, "{allowed:?}");
        let place = allowed.iter().position(|cpus| cpus == threads).unwrap_or_else(|| panic!("{allowed:?}"));
        allowed.remove(place);
        assert!(allowed.iter().all(|cpus| cpus == "0"), "all others: {allowed:?}");
        let maps = std::fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
        assert!(maps.is_empty() || maps.contains(" bind:0 ") == bound, "{maps}");
        host.close().unwrap();
        stage.close();
    }
}

/// The process of a run's guest.
fn hypervisor(run: &str) -> u32 {
    let wanted = format!("tare-{run}-t1");
    let mut pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.split('\0').next().is_some_and(|program| program.contains("qemu-system")) && line.contains(&wanted)
    };
    pids.find(is).expect("the guest's process is there")
}

/// Of each thread of a process: the CPUs that it may run on, as the kernel says it.
pub(crate) fn allowed_cpus(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(entry.ok()?.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    };
    tasks.filter_map(of).collect()
}

/// Commands beside the Redis in a guest: one that ends, one that does not, one that is not there.
fn commands(host: &mut dyn Host) {
    let mut run = |words: &[&str], within: Duration| -> Result<CommandEnd, Fault> {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        let start = CommandStart { command, environment: BTreeMap::new(), directory: "/data".to_owned(), within };
        host.begin_command("redis", &start)?;
        loop {
            if let Some(end) = host.await_command("redis", Duration::from_millis(500))? {
                return Ok(end);
            }
        }
    };
    let long = Duration::from_secs(120);
    let end = run(&["redis-cli", "-h", "127.0.0.1", "PING"], long).unwrap();
    assert_eq!((end.ended, end.stdout.as_str(), end.cpu_s), (Ended::Exit(0), "PONG\n", Some(0.0)), "{end:?}");
    // One of the names that it was told.
    let hosts = run(&["busybox", "cat", "/etc/hosts"], long).unwrap().stdout;
    assert!(hosts.lines().any(|line| line == "127.0.0.1\tcache"), "{hosts}");
    // The bundle has no such file: packages are only unpacked here.
    let line = "tare-65536:x:65536:65536::/nonexistent:/usr/sbin/nologin\n";
    assert_eq!(run(&["busybox", "cat", "/etc/passwd"], long).unwrap().stdout, line);
    let end = run(&["redis-cli", "-h", "127.0.0.1", "-e", "NONSENSE"], long).unwrap();
    assert_eq!(end.ended, Ended::Exit(1), "{end:?}");
    let end = run(&["redis-cli", "-h", "127.0.0.1", "SUBSCRIBE", "nothing"], Duration::from_secs(10)).unwrap();
    assert_eq!(end.ended, Ended::Late, "{end:?}");
    let fault = run(&["no-such-tool"], long).unwrap_err();
    assert!(fault.message.contains("no-such-tool"), "{fault}");
    let end = run(&["redis-cli", "-h", "127.0.0.1", "CLIENT", "LIST"], long).unwrap();
    assert_eq!(end.stdout.lines().filter(|line| line.contains("cmd=")).count(), 1, "the late one is gone: {end:?}");
}

fn variants() {
    let device = LoopDevice::new(1 << 30);
    let mut last = json!({"iothread": true, "pin": false, "cache": "unsafe", "memory": 400 << 20});
    match &device {
        Some(device) => last["disk"] = json!({"block": device.path}),
        None => println!("skipped: a guest on a block device: this machine has no loop device to give"),
    }
    for changes in [
        json!({"machine": "pc", "cache": "writeback", "vhost": "off", "disk": "qcow2"}),
        json!({"cache": "directsync", "aio": "native"}),
        last,
    ] {
        let start = redis();
        let stage = Stage::open(std::slice::from_ref(&start), &[]);
        let mut host = stage.guest(&vm(changes.clone()), &program()).unwrap();
        let instance = host.start(&start).unwrap();
        assert!(stage.answers(instance.endpoints["main"]), "{changes}");
        let facts = host.facts().unwrap();
        println!("  {changes}: {}, {}", facts["vm.disk"], facts["vm.disk_aio"]);
        if let Some(device) = device.as_ref().filter(|_| changes.get("disk").is_some_and(|disk| disk.is_object())) {
            let (_, refused) = fault_of(stage.guest(&vm(changes.clone()), &program()));
            assert!(refused.message.contains("in use"), "a second guest on {}: {refused}", device.path);
        }
        host.close().unwrap();
        stage.close();
    }
    if let Some(device) = &device {
        assert!(device.is_empty(), "the guest gave {} back with something on it", device.path);
    }
}

/// A block device over a file of zeros; gone with this.
struct LoopDevice {
    path: String,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    /// None where this machine has none to give.
    fn new(bytes: u64) -> Option<LoopDevice> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().ok()?;
        let path = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        made.status.success().then_some(LoopDevice { path, _file: file })
    }

    /// Whether nothing is known of what is on it.
    fn is_empty(&self) -> bool {
        Command::new("blkid").args(["--probe", &self.path]).status().unwrap().code() == Some(2)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

/// A container with this network.
pub(crate) fn container(network: &str) -> LayerUse {
    let text = format!("network: {network}");
    let options = config::read("study.yaml", &text, |node, problems| Container.read(node, problems)).unwrap();
    LayerUse { layer: "container".to_owned(), options }
}

fn container_in_guest(by: &str, network: &str) {
    if by == "passt" && !passt::is_here() {
        return;
    }
    let (start, inner) = (redis(), container(network));
    let stage = Stage::open(std::slice::from_ref(&start), std::slice::from_ref(&inner));
    let began = Instant::now();
    let guest = stage.guest(&vm(json!({"network": by})), &program()).unwrap();
    println!("  the guest answers after {:.1} s", began.elapsed().as_secs_f64());
    let mut host = guest.open(&inner, &stage.surroundings).unwrap();
    println!("  an engine in a guest answers after {:.1} s", began.elapsed().as_secs_f64());
    let instance = host.start(&start).unwrap();
    println!("  {network}: {} at {:?}", instance.path, instance.endpoints);
    assert!(stage.answers(instance.endpoints["main"]), "{network}: {}", host.log("redis").unwrap());
    assert!(host.mapped_files("redis", Wait::always()).unwrap().len() > 5);
    // Seven commands by an emulated engine take half a minute; a guest's are tried above, a container's by contract.
    if std::env::var_os("TARE_THOROUGH").is_some() {
        commands(host.as_mut());
    }
    host.begin_probe(&[], Duration::from_millis(500)).unwrap();
    assert!(host.end_probe().unwrap().iter().any(|row| row.vantage == Vantage::Guest));
    host.stop("redis").unwrap();
    host.close().unwrap();
    stage.close();
}

/// Two guests with a service each: as plain processes, and in containers by their own addresses, which is where guests
/// could get in each other's way.
fn several_guests(network: &str, inner: &[LayerUse]) {
    if network == "passt" && !passt::is_here() {
        return;
    }
    let two: Vec<ServiceStart> = (1..=2).map(numbered_redis).collect();
    let stage = Stage::open(&two, inner);
    let began = Instant::now();
    let mut host = stage.guest(&vm(json!({"guests": 2, "network": network})), &program()).unwrap();
    println!("  two guests answer after {:.1} s", began.elapsed().as_secs_f64());
    for layer in inner {
        host = host.open(layer, &stage.surroundings).unwrap();
    }
    let guests = left_of(&stage.run).into_iter().filter(|left| left.kind == "guest").count();
    assert_eq!(guests, 2);
    let facts = host.facts().unwrap();
    let said = ["vm.guests", "vm.holds@1", "vm.holds@2"].map(|fact| facts[fact].as_str());
    assert_eq!(said, ["2", "redis-1", "redis-2"], "{facts:#?}");
    assert!(!host.beside(&two[1], "redis-1") && host.beside(&two[1], "redis-2"));

    let mut places = Vec::new();
    for start in &two {
        let instance = host.start(start).unwrap();
        assert!(instance.path.contains("into a guest, one of 2"), "{}", instance.path);
        let place = instance.endpoints["main"];
        assert!(stage.answers(place), "{place}: {}", host.log(&start.instance).unwrap());
        places.push(place);
    }
    assert_ne!(places[0].ip(), places[1].ip());
    // From one guest to the other.
    let (address, port) = (places[0].ip().to_string(), places[0].port().to_string());
    let command = ["redis-cli", "-h", &address, "-p", &port, "PING"].map(str::to_owned).to_vec();
    let within = Duration::from_secs(120);
    let asked = CommandStart { command, environment: BTreeMap::new(), directory: "/data".to_owned(), within };
    host.begin_command("redis-2", &asked).unwrap();
    let end = host.await_command("redis-2", within).unwrap().expect("it ends within its time");
    assert_eq!((end.ended, end.stdout.as_str()), (Ended::Exit(0), "PONG\n"), "{end:?}");

    host.begin_probe(&[], Duration::from_millis(500)).unwrap();
    let rows = host.end_probe().unwrap();
    for scope in ["one of guest 1", "one of guest 2"] {
        assert!(rows.iter().any(|row| row.scope == scope && row.vantage == Vantage::Guest), "{scope}: {rows:#?}");
    }
    let killed = left_of(&stage.run).into_iter().rfind(|left| left.kind == "guest").unwrap();
    assert!(killed.name.ends_with("-g2"), "{}", killed.name);
    leftovers::remove(LAYERS, &killed).unwrap();
    let fault = host.state("redis-2").unwrap_err();
    assert!(fault.message.contains("guest 2") && fault.message.contains("QEMU ended (signal: 9"), "{fault}");
    assert_eq!(host.state("redis-1").unwrap(), InstanceState::Running);
    host.close().unwrap();
    stage.close();
}

/// One of several, at a port of its own.
pub(crate) fn numbered_redis(number: u16) -> ServiceStart {
    let mut start = redis();
    let port = start.service.ports["main"] + number;
    start.service.command[2] = port.to_string();
    start.service.ports.insert("main".to_owned(), port);
    start.service.name = format!("redis-{number}");
    ServiceStart { instance: start.service.name.clone(), ..start }
}

/// Its agent cannot be told that nobody waits any more: it reads on, and the guest goes all the same.
fn stopped_guest() {
    let start = redis();
    let stage = Stage::open(std::slice::from_ref(&start), &[]);
    let mut host = stage.guest(&vm(json!({})), &program()).unwrap();
    host.start(&start).unwrap();
    // Gigabytes, which take longer than it is waited for without asking.
    let file = SeenFile { path: "/usr/bin/redis-check-rdb".to_owned(), digest: String::new() };
    let (files, asked, began) = (vec![file; 4000], Cell::new(0), Instant::now());
    let ended = || {
        asked.set(asked.get() + 1);
        asked.get() > 1
    };
    let fault = host.files_seen(&start, Some(&files), Wait::until(&ended)).unwrap_err();
    assert_eq!(
        (fault.message.as_str(), asked.get()),
        ("interrupted", 2),
        "once before it was asked, once while it read"
    );
    println!("  nobody waits for it after {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(host.close().unwrap_err().message, "interrupted");
    println!("  it is gone after {:.1} s", began.elapsed().as_secs_f64());
    assert!(began.elapsed() < Duration::from_secs(30), "it was waited for");
    stage.close();
}

fn panicking_guest() {
    let stage = Stage::open(&[redis()], &[]);
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("agent");
    std::fs::write(&broken, "no program at all").unwrap();
    let (unavailable, fault) = fault_of(stage.guest(&vm(json!({})), &broken));
    assert!(!unavailable && fault.message.contains("the guest's kernel panicked"), "{fault}");
    assert!(fault.log.contains("Kernel panic"), "{}", fault.log);
    stage.close();
}

fn unavailable() {
    let stage = Stage::open(&[redis()], &[]);
    let changes = json!({"hugepages": true, "memory": 1_u64 << 44});
    let (unavailable, fault) = fault_of(stage.guest(&vm(changes), &program()));
    assert!(unavailable && fault.remedy.contains("vm.nr_hugepages"), "{fault:?}");
    let (_, fault) = fault_of(stage.guest(&vm(json!({"cpus": 4000})), &program()));
    assert!(fault.message.contains("4000 CPUs"), "{fault}");
    stage.close();

    let bundles = Arc::new(DebianStore);
    let carrier = MachineServices { bundles, prober: || unreachable!(), program: program(), layers: LAYERS };
    match Vm.probe(&vm(json!({"accelerator": "auto"})).options, &carrier) {
        Availability::Ready(facts) => assert_eq!(facts["vm.accelerator"], "kvm"),
        Availability::Emulated(facts, why) => {
            println!("  {why}");
            assert_eq!(facts["vm.accelerator"], "tcg");
            let (unavailable, fault) = {
                let stage = Stage::open(&[redis()], &[]);
                let told = fault_of(stage.guest(&vm(json!({"accelerator": "kvm"})), &program()));
                stage.close();
                told
            };
            assert!(unavailable && fault.message.contains("demands KVM"), "{fault}");
        }
        Availability::Unavailable(fault) => panic!("{fault}"),
    }
}
