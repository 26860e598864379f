//! What the plain process promises beyond the contract: exactly what it is given, and why it did not start or ended.

use crate::stage::{self, Check, MEMORY, Stage, free_port, property, service};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};
use tare_core::host::{Host, InstanceState, ServiceStart, Wait};
use tare_core::units::CpuSet;
use tare_core::workload::Volume;

pub(crate) fn all() -> Vec<Check> {
    let checks: [(&str, fn()); 15] = [
        ("a_service_gets_exactly_what_it_is_given", exactly_what_is_given),
        ("a_hostile_bundle_gains_no_privileges", crate::confined::hostile_bundle),
        ("a_hostile_bundle_names_no_user", crate::users::hostile),
        ("memory_comes_from_the_nodes_that_are_named", bound_memory),
        ("the_bundle_is_bound_as_it_is_when_it_lacks_nothing", complete_bundle),
        ("volumes_are_mounted_where_links_lead", linked_volumes),
        ("what_root_opens_for_a_service_is_the_machine_s", own_devices),
        ("why_a_program_cannot_be_run_is_told_at_once", cannot_run),
        ("a_taken_port_is_told_before_the_start", taken_port),
        ("how_a_service_ended_is_told", how_it_ended),
        ("a_service_that_will_not_end_is_ended_with_its_children", stubborn),
        ("equals_stand_side_by_side_on_the_same_port", side_by_side),
        ("limits_are_enforced_or_refused", limits),
        ("a_command_reaches_its_service_in_a_network_of_its_own", crate::commands::in_a_room),
        ("a_plain_process_keeps_the_contract", crate::checks::native_form),
    ];
    checks.into_iter().map(|(name, check)| (format!("native_{name}"), true, check)).collect()
}

/// A native host on a stage of its own, and everything closed afterwards.
fn with_host(extra: impl FnOnce(&Path), act: impl FnOnce(&Stage, &mut dyn Host)) {
    let stage = Stage::open(extra);
    let mut host = stage.host(&[], &[]);
    act(&stage, host.as_mut());
    host.close().unwrap();
    stage.close();
}

/// The same with a bundle of this program alone.
fn with_plain_host(act: impl FnOnce(&Stage, &mut dyn Host)) {
    with_host(|_| {}, act);
}

/// How a service ends that does so by itself.
fn end_of(host: &mut dyn Host, instance: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let InstanceState::Ended(how) = host.state(instance).unwrap() {
            return how;
        }
        assert!(Instant::now() < deadline, "{instance} does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn exactly_what_is_given() {
    with_plain_host(|stage, host| {
        let start = service("one", free_port(), &[]);
        let probed = host.resources(&start).unwrap();
        let place = host.start(&start).unwrap().endpoints["main"];
        let served = stage.ask(place);
        assert_eq!(probed.properties.keys().collect::<Vec<_>>(), served.properties.keys().collect::<Vec<_>>());
        for name in probed.properties.keys() {
            assert_eq!(property(&probed, name), property(&served, name), "{name}: probe and service differ");
        }
        let environment = property(&served, "environment");
        let expected = "{\"COLOUR\": \"blue\", \"HOME\": \"/\", \"PATH\": \"/usr/local/sbin:";
        assert!(environment.starts_with(expected), "{environment}");
        assert_eq!(environment.matches("\": \"").count(), 3, "{environment}");
        assert_eq!(property(&served, "root"), "bin data dev proc run sys tmp");
        assert_eq!(property(&served, "write /"), "read-only filesystem or storage medium");
        assert_ne!(property(&served, "write /sys"), "yes");
        assert_eq!(property(&served, "null"), "yes");
        assert_eq!(property(&served, "memory"), MEMORY.to_string());
        assert_eq!(property(&served, "umask"), "0022");
        assert_eq!(property(&served, "groups"), "");
        assert_eq!(property(&served, "permitted"), "0000000000000000");
    });
}

fn bound_memory() {
    if !Path::new("/proc/self/numa_maps").exists() {
        return println!("skipped: this kernel knows no NUMA nodes, so no memory can be bound to one");
    }
    with_plain_host(|stage, host| {
        for (memory, policy) in [(Vec::new(), " default "), (vec![0], " bind:0 ")] {
            let start = ServiceStart { memory, ..service("one", free_port(), &[]) };
            stage.ask(host.start(&start).unwrap().endpoints["main"]);
            let pid = scope_of(host, "one").pids[0];
            let maps = std::fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap();
            let stack = maps.lines().find(|line| line.contains(" stack")).unwrap();
            assert!(stack.contains(policy), "{stack}");
            host.stop("one").unwrap();
        }
        let start = ServiceStart { memory: vec![1000], ..service("two", free_port(), &[]) };
        let said = host.start(&start).unwrap_err().to_string();
        assert!(said.contains("have its memory bound to NUMA nodes"), "{said}");
    });
}

fn complete_bundle() {
    let fill = |tree: &Path| {
        for name in ["proc", "dev", "sys", "tmp", "run", "data"] {
            std::fs::create_dir(tree.join(name)).unwrap();
        }
    };
    with_host(fill, |stage, host| {
        let mut start = service("one", free_port(), &[]);
        start.service.volumes.remove("/run/kept");
        let place = host.start(&start).unwrap().endpoints["main"];
        let served = stage.ask(place);
        assert_eq!(property(&served, "write /data"), "yes");
        assert_eq!(property(&served, "write /"), "read-only filesystem or storage medium");
        let pid = scope_of(host, "one").pids[0];
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
        assert!(!mounts.contains("overlay /"), "nothing was lacking, so nothing may be put over it: {mounts}");
        assert!(std::fs::read_dir(stage.folder().join("tree/data")).unwrap().next().is_none(), "written to the bundle");
    });
}

fn linked_volumes() {
    let fill = |tree: &Path| {
        std::fs::create_dir_all(tree.join("var/lib")).unwrap();
        std::fs::set_permissions(tree.join("var/lib"), std::fs::Permissions::from_mode(0o711)).unwrap();
        symlink("/run", tree.join("var/run")).unwrap();
        symlink("var/lib", tree.join("data")).unwrap();
    };
    with_host(fill, |stage, host| {
        let mut start = service("one", free_port(), &[]);
        start.service.volumes = ["/data/deep/er", "/var/run/kept"].map(|path| (path.to_owned(), Volume::of(1))).into();
        let place = host.start(&start).unwrap().endpoints["main"];
        let served = stage.ask(place);
        assert_eq!(property(&served, "write /run/kept"), "yes");
        assert_ne!(property(&served, "write /data"), "yes", "only the volume below it may be written to");
        let data = std::fs::metadata(stage.folder().join("tree/var/lib")).unwrap();
        assert_eq!(data.permissions().mode() & 0o777, 0o711);
    });
}

/// Where a root has a /dev of its own making, of which nothing is to be opened by root.
fn own_devices() {
    with_plain_host(|stage, host| {
        let mut start = service("one", free_port(), &[]);
        start.service.volumes.insert("/dev".to_owned(), Volume::of(1 << 20));
        let place = host.start(&start).unwrap().endpoints["main"];
        stage.ask(place);
        let pid = scope_of(host, "one").pids[0];
        let input = std::fs::metadata(format!("/proc/{pid}/fd/0")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::rdev(&input), rustix::fs::makedev(1, 3), "its input");
        let volumes = host.volumes(&start).unwrap();
        let planted = volumes.iter().find(|volume| volume.ends_with("1")).unwrap().join("null");
        // What the service has made there, in the place of which comes what root alone could read.
        std::fs::remove_file(&planted).unwrap();
        std::fs::write(&planted, "planted").unwrap();
        std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o600)).unwrap();
        let said = crate::commands::printed(host, "one", "/bin/service", &["read", "/proc/self/fd/0"]);
        assert_eq!(said, "read\n", "what a command beside it has for its input");
    });
}

fn cannot_run() {
    let fill = |tree: &Path| {
        std::fs::write(tree.join("bin/text"), "no program").unwrap();
        std::fs::write(tree.join("bin/script"), "#!/bin/nothing\n").unwrap();
        std::fs::write(tree.join("bin/noise"), [0x7f; 64]).unwrap();
        for name in ["script", "noise"] {
            std::fs::set_permissions(tree.join("bin").join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    };
    with_host(fill, |_, host| {
        let cases = [
            ("/bin/absent", "no such file"),
            ("/bin/text", "not executable"),
            ("/bin/script", "interpreter"),
            ("/bin/noise", "no program for this machine"),
            ("/bin", "not a file"),
        ];
        for (program, why) in cases {
            let mut start = service("one", free_port(), &[]);
            start.service.command[0] = program.to_owned();
            let fault = host.start(&start).unwrap_err();
            assert!(fault.message.contains(program) && fault.message.contains(why), "{program}: {fault}");
            assert!(host.state("one").is_err());
        }
    });
}

fn taken_port() {
    with_plain_host(|stage, host| {
        let port = free_port();
        let place = host.start(&service("one", port, &[])).unwrap().endpoints["main"];
        stage.ask(place);
        let fault = host.start(&service("two", port, &[])).unwrap_err();
        assert!(fault.message.contains(&port.to_string()) && fault.message.contains("service"), "{fault}");
    });
}

fn how_it_ended() {
    with_plain_host(|stage, host| {
        host.start(&service("failing", free_port(), &["fail"])).unwrap();
        assert_eq!(end_of(host, "failing"), "exit code 3");
        assert!(host.log("failing").unwrap().contains("serving with"));
        assert!(host.mapped_files("failing", Wait::always()).is_err());
        host.stop("failing").unwrap();

        host.start(&service("hungry", free_port(), &["hog"])).unwrap();
        assert_eq!(end_of(host, "hungry"), "killed for lack of memory");

        let place = host.start(&service("killed", free_port(), &[])).unwrap().endpoints["main"];
        stage.ask(place);
        kill_instance(host, "killed");
        assert_eq!(end_of(host, "killed"), "killed by signal 9");
    });
}

/// Kills an instance from outside.
fn kill_instance(host: &mut dyn Host, instance: &str) {
    let pid = scope_of(host, instance).pids[0];
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
}

/// What samplers are told of an instance.
pub(crate) fn scope_of(host: &mut dyn Host, instance: &str) -> tare_core::telemetry::Scope {
    host.begin_probe(&[], Duration::from_secs(1)).unwrap();
    host.end_probe().unwrap();
    let sampled = stage::SAMPLED.lock().unwrap();
    sampled.iter().find(|scope| scope.name == instance).expect("it is sampled").clone()
}

fn stubborn() {
    with_plain_host(|stage, host| {
        // Its child listens on the next port, ignores being asked to end, and outlives its parent.
        let mut start = service("one", free_port(), &["child", "stubborn"]);
        start.service.stop_within = Duration::from_millis(200);
        let place = host.start(&start).unwrap().endpoints["main"];
        stage.ask(place);
        let group = std::path::PathBuf::from(&scope_of(host, "one").cgroups[0]);
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert_eq!(members.lines().count(), 2, "{members}");
        host.stop("one").unwrap();
        assert!(!group.exists());
        for pid in members.lines() {
            // What is dead and waits for being collected by the machine's first process is gone.
            let state = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            assert!(state.is_empty() || state.contains("State:\tZ"), "{pid} still runs: {state}");
        }
    });
}

fn side_by_side() {
    // Twice: the names of the first round's links are free again.
    for _ in 0..2 {
        let stage = Stage::open(|_| {});
        let mut start = service("one", free_port(), &["child"]);
        start.service.stop_within = Duration::from_secs(60);
        let mut hosts = [stage.beside(1), stage.beside(2)];
        let places = hosts.each_mut().map(|host| host.start(&start).unwrap().endpoints["main"]);
        assert_eq!(places[0].port(), places[1].port());
        places.iter().for_each(|place| drop(stage.ask(*place)));
        hosts[0].freeze().unwrap();
        assert!(stage.try_ask(places[0]).is_none(), "it answers while it is frozen");
        stage.ask(places[1]);
        // Not one of its processes gets any time.
        let group = std::path::PathBuf::from(&scope_of(hosts[0].as_mut(), "one").cgroups[0]);
        let used = || -> Vec<String> {
            let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
            let time = |pid: &str| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
                stat.split(' ').next().map(str::to_owned).unwrap()
            };
            members.lines().map(time).collect()
        };
        let before = used();
        assert_eq!(before.len(), 2);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(used(), before);
        hosts[0].thaw().unwrap();
        stage.ask(places[0]);
        hosts[1].freeze().unwrap();
        let began = Instant::now();
        hosts.into_iter().for_each(|host| host.close().unwrap());
        assert!(began.elapsed() < Duration::from_secs(60), "a frozen service was waited for");
        stage.close();
    }
}

fn limits() {
    with_plain_host(|_, host| {
        let mut start = service("one", free_port(), &[]);
        start.service.resources.cpu_quota = Some(0.5);
        host.start(&start).unwrap();
        let groups = scope_of(host, "one").cgroups;
        let read = |name: &str| groups.iter().find_map(|group| std::fs::read_to_string(format!("{group}/{name}")).ok());
        let quota = read("cpu.cfs_quota_us").or_else(|| read("cpu.max")).unwrap();
        assert!(quota.starts_with("50000"), "{quota}");
        host.start(&service("two", free_port(), &[])).unwrap();
        let groups = scope_of(host, "two").cgroups;
        let scheduled = |group: &String| std::path::Path::new(group).join("cpu.cfs_quota_us").exists();
        assert!(!groups.iter().any(scheduled), "no quota was asked, so there is no group for it: {groups:?}");

        let mut greedy = service("greedy", free_port(), &[]);
        greedy.service.resources.cpus = 2;
        greedy.cpus = Some(CpuSet::new([0]));
        let fault = host.start(&greedy).unwrap_err();
        assert!(fault.message.contains("wants 2 CPUs"), "{fault}");
    });
}
