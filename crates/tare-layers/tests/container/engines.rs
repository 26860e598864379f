//! Engines and runtimes that a form names: each is the one that was asked for, and what it leaves is found.

use crate::stage::{self, Stage};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::host::{Availability, ErasedLayer, Host, Wait};
use tare_layers::container::Container;

/// Every check, by name.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("docker_is_had_by_its_name", || had_by_its_name("{engine: docker}", "Docker Engine")),
    ("podman_is_had_by_its_name", || had_by_its_name("{engine: podman, runtime: runc}", "Podman")),
    ("podman_on_a_bridge_is_had", || had_by_its_name("{engine: podman, runtime: runc, network: bridge}", "Podman")),
    ("podman_on_the_host_s_network_is_had", || {
        had_by_its_name("{engine: podman, runtime: runc, network: host}", "Podman");
    }),
    ("what_podman_has_left_is_found", what_podman_has_left_is_found),
    ("what_netavark_has_left_of_a_killed_start_is_found", || killed_start(false)),
    ("what_netavark_has_left_of_a_network_that_is_gone_is_found", || killed_start(true)),
    ("docker_starts_containers_with_runc", || started_with("{engine: docker, runtime: runc}", "runc")),
    ("docker_starts_containers_with_crun", || started_with("{engine: docker, runtime: crun}", "crun")),
    ("docker_starts_containers_with_gvisor", || started_with("{engine: docker, runtime: runsc}", "runsc")),
    ("podman_starts_containers_with_crun", || started_with("{engine: podman, runtime: crun}", "crun")),
    ("what_cannot_be_had_says_why", what_cannot_be_had_says_why),
];

/// Why there is no such container on this machine, if there is none.
fn why_not(options: &str) -> Option<Fault> {
    match Container.probe(&stage::options(options), &stage::carrier(Path::new("/"))) {
        Availability::Ready(_) => None,
        Availability::Emulated(_, why) | Availability::Unavailable(why) => Some(why),
    }
}

/// Whether there is none; then it is said.
fn lacks(options: &str) -> bool {
    let why = why_not(options);
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    why.is_some()
}

/// What the facts say under a name.
fn fact(host: &mut dyn Host, name: &str) -> String {
    host.facts().unwrap().get(name).cloned().unwrap_or_default()
}

fn had_by_its_name(options: &str, name: &str) {
    if lacks(options) {
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open(options);
    let start = stage.service();
    let report = host.resources(&start).unwrap();
    let (_, place) = stage.start(host.as_mut(), &start);
    assert_eq!(fact(host.as_mut(), "engine.name"), name);
    assert_eq!(report.properties["cpus"].value, stage.ask(place, "cpus").unwrap());
    assert_eq!(stage.ask(place, "memory").unwrap(), (48 << 20).to_string());
    let files = host.mapped_files("echo", Wait::always()).unwrap();
    assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/bin/service"]);
    host.begin_probe(&[], Duration::from_secs(1)).unwrap();
    let scopes = std::mem::take(&mut stage.notes.lock().unwrap().scopes);
    let own = scopes.iter().find(|scope| scope.name == "echo").unwrap();
    assert!(own.serving && !own.cgroups.is_empty(), "{own:?}");
    host.close().unwrap();
    assert_eq!(stage.leftovers(), []);
}

fn what_podman_has_left_is_found() {
    let options = "{engine: podman, runtime: runc}";
    if lacks(options) {
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open(options);
    stage.start(host.as_mut(), &stage.service());
    // As after a killed run: nobody closes the host.
    std::mem::forget(host);
    let left = stage.leftovers();
    // Its service is only of the run if it was started for it.
    let kinds = left.iter().map(|left| left.kind.as_str()).filter(|kind| *kind != "podman service");
    assert_eq!(kinds.collect::<Vec<_>>(), ["container", "container-network"]);
    for leftover in left {
        Container.remove(&leftover).unwrap();
        Container.remove(&leftover).unwrap();
    }
    assert_eq!(stage.leftovers(), []);
    remove_rest(&stage.surroundings.run);
}

/// Podman's service is killed while netavark works for it. Somebody may remove container and network by hand before
/// anybody cleans up.
fn killed_start(by_hand: bool) {
    let options = "{engine: podman, runtime: runc}";
    if lacks(options) {
        return;
    }
    let stage = Stage::new();
    let run = stage.surroundings.run.clone();
    let mut host = stage.open(options);
    let Some(service) = service_of(&run) else { return println!("skipped: Podman's service is not of the run") };
    let killer = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(60);
        // Once it has begun it has heard from Podman all that it needs.
        let is_at_work = |(pid, name): &(i32, String)| name == "netavark" && !children(*pid).is_empty();
        while !children(service.as_raw_nonzero().get()).iter().any(is_at_work) && Instant::now() < until {}
        rustix::process::kill_process(service, rustix::process::Signal::KILL).unwrap();
    });
    assert!(host.start(&stage.service()).is_err(), "its engine was killed");
    killer.join().unwrap();
    std::mem::forget(host);
    let (network, (a, b)) = (format!("tare-{run}-b1-c"), stage.surroundings.subnets);
    let names = Path::new("/run/containers/networks/aardvark-dns").join(&network);
    let rules = || {
        let said = |table| Command::new("iptables").args(["-w", "-t", table, "-S"]).output().unwrap().stdout;
        let text: String = ["nat", "filter"].map(|table| String::from_utf8(said(table)).unwrap()).concat();
        text.lines().filter(|line| line.contains(&format!(" {a}.{b}.16."))).count()
    };
    let is_of_network = |entry: &std::fs::DirEntry| {
        let namespace = format!("--net={}", entry.path().display());
        let said = Command::new("nsenter").args([&namespace, "ip", "-4", "address"]).output().unwrap().stdout;
        String::from_utf8_lossy(&said).contains(&format!(" {a}.{b}.16."))
    };
    let namespaces = || std::fs::read_dir("/run/netns").into_iter().flatten().flatten().filter(is_of_network).count();
    let until = Instant::now() + Duration::from_secs(20);
    // What it works at when its Podman is killed it ends.
    // It writes the names after the rules.
    let netavark_runs = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let mut names = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok());
        names.any(|name| name.trim() == "netavark")
    };
    while (rules() < 6 || !names.exists() || netavark_runs()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(rules() >= 6 && names.exists(), "{} rules, names: {}", rules(), names.exists());
    assert_eq!(namespaces(), 1, "the container's");
    if by_hand {
        let podman = |words: &[&str]| {
            let output = Command::new("podman").args(words).output().unwrap();
            assert!(output.status.success(), "podman {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        podman(&["rm", "--force", &format!("{network}-echo")]);
        podman(&["network", "rm", &network]);
    }
    let left = stage.leftovers();
    let kinds: Vec<&str> = left.iter().map(|left| left.kind.as_str()).collect();
    let wanted = if by_hand { vec!["container-network rules"] } else { vec!["container", "container-network"] };
    assert_eq!(kinds, wanted);
    for leftover in left {
        Container.remove(&leftover).unwrap();
        Container.remove(&leftover).unwrap();
    }
    assert_eq!(stage.leftovers(), []);
    assert_eq!((rules(), names.exists(), namespaces()), (0, false, 0));
    remove_rest(&run);
}

/// Removes what others than the layer remove of a run whose host nobody has closed: the bridge, and rules for it.
fn remove_rest(run: &str) {
    let all = tare_layers::leftovers::leftovers(tare_layers::LAYERS).unwrap();
    let is_rest = |kind: &str, name: &str| kind == "forwarding rules" || name.starts_with(&format!("t{run}c"));
    for left in all.iter().filter(|left| left.run == run && is_rest(&left.kind, &left.name)) {
        tare_layers::leftovers::remove(tare_layers::LAYERS, left).unwrap();
    }
}

/// Podman's service that was started for a run.
fn service_of(run: &str) -> Option<rustix::process::Pid> {
    let socket = format!("unix:///run/tare/{run}/podman-");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&socket)
    };
    let pid = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find(is_it)?;
    rustix::process::Pid::from_raw(pid)
}

/// The children of a process, each with its program's name.
fn children(of: i32) -> Vec<(i32, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let texts = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let pids: Vec<i32> =
        texts.flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect();
    let name = |pid: i32| Some((pid, std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned()));
    pids.into_iter().filter_map(name).collect()
}

fn started_with(options: &str, runtime: &str) {
    if lacks(options) {
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open(options);
    let start = stage.service();
    let (_, place) = stage.start(host.as_mut(), &start);
    assert_eq!(fact(host.as_mut(), "engine.runtime"), runtime);
    assert_ne!(fact(host.as_mut(), "engine.runtime.version"), "");
    let files = host.mapped_files("echo", Wait::always()).unwrap();
    let hides = runtime == "runsc";
    assert_eq!(files.is_empty(), hides, "{files:?}");
    assert!(!hides || host.files_seen(&start, None, Wait::always()).is_err());
    assert_eq!(stage.ask(place, "hello").as_deref(), Some("hello"));
    host.close().unwrap();
    assert_eq!(stage.leftovers(), []);
}

fn what_cannot_be_had_says_why() {
    let nobody = why_not("{engine: podman-rootless, user: no-such-user}").expect("it is refused");
    let is_there = Path::new("/usr/bin/podman").exists();
    assert!(!is_there || nobody.message.contains("no user no-such-user"), "{nobody}");
    assert!(!nobody.remedy.is_empty(), "{nobody}");
    if lacks("{engine: docker}") {
        return;
    }
    let fault = why_not("{engine: docker, runtime: no-such-runtime}").expect("no engine has it");
    assert!(fault.message.contains("has no runtime no-such-runtime; it has"), "{fault}");
    assert!(fault.remedy.contains("/etc/docker/daemon.json"), "{fault}");
}
