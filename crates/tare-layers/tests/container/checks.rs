//! The checks themselves.

use crate::stage::{self, Stage, USER};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};
use tare_core::host::{ErasedLayer, Host, InstanceState, OpenError, Wait};
use tare_core::layer::LayerUse;
use tare_core::units::CpuSet;
use tare_layers::container::{self, Container};

/// Every check, by name.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("every_network_is_reached_from_outside", every_network_is_reached_from_outside),
    ("loopback_reaches_it_too", loopback_reaches_it_too),
    ("limits_are_what_was_stated", limits_are_what_was_stated),
    ("the_other_options_take_effect", the_other_options_take_effect),
    ("what_is_not_isolated_is_the_hosts", what_is_not_isolated_is_the_hosts),
    ("an_end_is_told_in_words", an_end_is_told_in_words),
    ("a_taken_port_is_named", a_taken_port_is_named),
    ("a_missing_program_is_named", a_missing_program_is_named),
    ("the_resource_probe_gets_what_the_service_gets", the_resource_probe_gets_what_the_service_gets),
    ("what_runs_is_what_is_in_the_bundle", what_runs_is_what_is_in_the_bundle),
    ("scopes_and_facts_say_what_there_is", scopes_and_facts_say_what_there_is),
    ("nothing_is_left", nothing_is_left),
    ("a_container_holds_no_layer", a_container_holds_no_layer),
    ("images_are_kept_until_removed", images_are_kept_until_removed),
    ("what_is_made_from_ours_is_somebody_elses", what_is_made_from_ours_is_somebody_elses),
    ("what_has_taken_a_bundle_s_name_is_not_run", what_has_taken_a_bundle_s_name_is_not_run),
];

fn every_network_is_reached_from_outside() {
    let stage = Stage::new();
    for (network, word) in [("published", "translation"), ("bridge", "routed"), ("host", "no bridge")] {
        let mut host = stage.open(&format!("network: {network}"));
        let (instance, place) = stage.start(host.as_mut(), &stage.service());
        assert!(instance.path.contains(word), "{network}: {}", instance.path);
        let own_address = place.ip() != stage.surroundings.address;
        assert_eq!(own_address, network == "bridge", "{network}: {place}");
        host.close().unwrap();
        assert_eq!(stage.ask(place, "hello"), None, "{network}: it still answers");
        assert_eq!(stage.leftovers(), [], "{network}");
    }
}

fn loopback_reaches_it_too() {
    let stage = Stage::on_loopback();
    for network in ["published", "bridge", "host"] {
        let mut host = stage.open(&format!("network: {network}"));
        stage.start(host.as_mut(), &stage.service());
        host.close().unwrap();
    }
}

fn limits_are_what_was_stated() {
    let stage = Stage::new();
    let all = stage.surroundings.cpus.to_string();
    let first = stage.surroundings.cpus.cpus()[0].to_string();
    // 100 000 us is the period: one CPU's worth of quota.
    let cases = [("cpuset", &first, "-1"), ("quota", &all, "100000"), ("none", &all, "-1")];
    for (limits, cpus, quota) in cases {
        let mut host = stage.open(&format!("limits: {limits}"));
        let (_, place) = stage.start(host.as_mut(), &stage.service());
        let ask = |question: &str| stage.ask(place, question).unwrap_or_default();
        assert_eq!(ask("cpus"), *cpus, "{limits}");
        // cgroup v2 says "max 100000" for none and "100000 100000" for one CPU.
        let seen = ask("quota").replace("max", "-1");
        assert_eq!(seen.split(' ').next(), Some(quota), "{limits}");
        assert_eq!(ask("memory"), (48 << 20).to_string());
        // Fewer where even root may not raise the limit.
        let open_files = stage::open_files_possible().min(tare_layers::local::OPEN_FILES);
        assert_eq!(ask("open-files"), format!("{open_files} {open_files}"));
        let (uid, gid) = USER;
        assert!(ask("ids").starts_with(&format!("{uid} ")) && ask("ids").contains(&format!("/ {gid} ")));
        let environment = ask("environment");
        let names: Vec<&str> = environment.split(' ').filter_map(|word| word.split_once('=')).map(|(n, _)| n).collect();
        // As plain processes have it, whose bundle does not name the user either.
        assert!(environment.contains("MODE=a b") && environment.contains("HOME=/ "), "{environment}");
        assert!(names.contains(&"PATH"), "{environment}");
        assert!(names.iter().all(|name| ["MODE", "PATH", "HOSTNAME", "HOME"].contains(name)), "{environment}");
        host.close().unwrap();
    }
    let mut start = stage.service();
    start.service.resources.cpu_quota = Some(0.5);
    let mut host = stage.open("limits: cpuset");
    let (_, place) = stage.start(host.as_mut(), &start);
    let seen = stage.ask(place, "quota").unwrap();
    assert_eq!(seen.split(' ').next(), Some("50000"), "a quota that the service states always applies");
    host.close().unwrap();
}

fn the_other_options_take_effect() {
    let stage = Stage::new();
    // Options and the mode of the filter of system calls: 2 is a filter, 0 is none.
    let cases = [("{}", "2"), ("{storage: overlay, seccomp: unconfined}", "0"), ("{read_only: true}", "2")];
    for (options, seccomp) in cases {
        let mut host = stage.open(options);
        let (_, place) = stage.start(host.as_mut(), &stage.service());
        assert_eq!(stage.ask(place, "seccomp").as_deref(), Some(seccomp), "{options}");
        let write = |path: &str| stage.ask(place, &format!("write {path}")).unwrap();
        assert_eq!(write("/var/lib/echo/file"), "written", "{options}");
        assert_eq!(write("/tmp/file"), "written", "{options}");
        // An unprivileged service may not write beside its volumes in any case; the error tells why.
        let refused = if options.contains("read_only") { "Read-only" } else { "Permission denied" };
        assert!(write("/file").contains(refused), "{options}: {}", write("/file"));
        let on_host = stage.surroundings.scratch.join(".volumes/echo/0/file");
        assert_eq!(on_host.exists(), !options.contains("overlay"), "{options}");
        let _ = std::fs::remove_file(on_host);
        host.close().unwrap();
    }
}

fn what_is_not_isolated_is_the_hosts() {
    let stage = Stage::new();
    let mut said = Vec::new();
    for options in ["{}", "{capabilities: all, namespaces: host}"] {
        let mut host = stage.open(options);
        let (_, place) = stage.start(host.as_mut(), &stage.service());
        let ask = |what: &str| stage.ask(place, what).unwrap();
        let pid: u32 = ask("pid").parse().unwrap();
        assert_eq!(pid == 1, options == "{}", "{options}: a container of its own begins to count there");
        let bounds = u64::from_str_radix(&ask("capabilities"), 16).unwrap();
        said.push(bounds.count_ones());
        assert_eq!(ask("seccomp"), "2", "{options}: that is another option");
        host.close().unwrap();
    }
    assert!(said[1] > said[0], "capabilities in all: {said:?}");
}

pub(crate) fn ended(host: &mut dyn Host) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match host.state("echo").unwrap() {
            InstanceState::Ended(how) => return how,
            InstanceState::Running => assert!(Instant::now() < deadline, "it still runs"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn an_end_is_told_in_words() {
    let stage = Stage::new();
    let mut host = stage.open("{}");
    for (question, how) in [("exit 7", "exit code 7"), ("eat", "killed for lack of memory")] {
        let (_, place) = stage.start(host.as_mut(), &stage.service());
        assert_eq!(host.state("echo").unwrap(), InstanceState::Running);
        assert_eq!(stage.ask(place, question), None);
        assert_eq!(ended(host.as_mut()), how);
        let log = host.log("echo").unwrap();
        assert!(log.contains("serving with []") && log.contains("standard error"), "{log}");
        assert!(host.mapped_files("echo", Wait::always()).is_err(), "it does not run");
        host.stop("echo").unwrap();
        assert!(host.state("echo").is_err(), "it is gone");
    }
    let (_, place) = stage.start(host.as_mut(), &stage.service());
    host.begin_probe(&[], Duration::from_secs(1)).unwrap();
    let pid = stage.notes.lock().unwrap().scopes[0].pids[0];
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    assert_eq!(ended(host.as_mut()), "killed by signal 9");
    assert_eq!(stage.ask(place, "hello"), None);
    host.stop("echo").unwrap();
    let mut failing = stage.service();
    failing.service.command.push("fail".to_owned());
    host.start(&failing).unwrap();
    assert_eq!(ended(host.as_mut()), "exit code 3");
    host.close().unwrap();
}

fn a_taken_port_is_named() {
    let stage = Stage::new();
    for network in ["published", "host"] {
        let mut host = stage.open(&format!("network: {network}"));
        let start = stage.service();
        let port = start.service.ports["main"];
        let taken = TcpListener::bind((stage.surroundings.address, port)).unwrap();
        let fault = host.start(&start).unwrap_err();
        let place = format!("{}:{port}", stage.surroundings.address);
        assert!(fault.message.contains(&place) && fault.message.contains("in use"), "{network}: {fault}");
        drop(taken);
        stage.start(host.as_mut(), &start);
        let second = tare_core::host::ServiceStart { instance: "second".to_owned(), ..start.clone() };
        let fault = host.start(&second).unwrap_err();
        assert!(fault.message.contains(&place) && fault.message.contains("in use"), "{network}: {fault}");
        host.close().unwrap();
        assert_eq!(stage.leftovers(), [], "{network}");
    }
}

fn a_missing_program_is_named() {
    let stage = Stage::new();
    let mut host = stage.open("{}");
    let mut start = stage.service();
    start.service.command[0] = "/bin/no-such-program".to_owned();
    let fault = host.start(&start).unwrap_err();
    assert!(fault.to_string().contains("/bin/no-such-program"), "{fault}");
    start.service.command[0] = "/bin/service".to_owned();
    start.service.resources.cpus = 4096;
    let fault = host.start(&start).unwrap_err();
    assert!(fault.message.contains("4096 CPUs"), "{fault}");
    assert!(stage.leftovers().iter().all(|leftover| leftover.kind != "container"), "{:?}", stage.leftovers());
    host.close().unwrap();
}

fn the_resource_probe_gets_what_the_service_gets() {
    let stage = Stage::new();
    let mut host = stage.open("{}");
    let start = stage.service();
    let report = host.resources(&start).unwrap();
    let (_, place) = stage.start(host.as_mut(), &start);
    for property in ["cpus", "ids"] {
        assert_eq!(report.properties[property].value, stage.ask(place, property).unwrap(), "{property}");
    }
    host.close().unwrap();
    assert_eq!(stage.leftovers(), []);
}

fn what_runs_is_what_is_in_the_bundle() {
    let stage = Stage::new();
    let mut host = stage.open("{}");
    stage.start(host.as_mut(), &stage.service());
    let files = host.mapped_files("echo", Wait::always()).unwrap();
    let output = Command::new("sha256sum").arg(std::env::current_exe().unwrap()).output().unwrap();
    let sum = String::from_utf8_lossy(&output.stdout);
    let digest = format!("sha256:{}", sum.split_whitespace().next().unwrap());
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!((files[0].path.as_str(), &files[0].digest), ("/bin/service", &digest));
    host.close().unwrap();
}

fn scopes_and_facts_say_what_there_is() {
    let stage = Stage::new();
    let mut host = stage.open("{}");
    let (_, place) = stage.start(host.as_mut(), &stage.service());
    let outside =
        tare_core::telemetry::Scope { name: "outer".to_owned(), serving: true, pids: vec![1], cgroups: Vec::new() };
    host.begin_probe(std::slice::from_ref(&outside), Duration::from_secs(1)).unwrap();
    let scopes = std::mem::take(&mut stage.notes.lock().unwrap().scopes);
    assert_eq!(scopes[0], outside);
    let own = scopes.iter().find(|scope| scope.name == "echo").unwrap();
    assert!(own.serving && !own.cgroups.is_empty());
    let command = std::fs::read_to_string(format!("/proc/{}/cmdline", own.pids[0])).unwrap();
    assert!(command.contains(&place.port().to_string()), "{command}");
    for cgroup in &own.cgroups {
        let members = std::fs::read_to_string(format!("{cgroup}/cgroup.procs")).unwrap();
        assert!(members.lines().any(|line| line == own.pids[0].to_string()), "{cgroup}: {members}");
    }
    let engine = scopes.iter().find(|scope| scope.name == "container engine").unwrap();
    assert!(!engine.serving);
    let facts = host.facts().unwrap();
    for key in ["outer.fact", "engine.name", "engine.version", "engine.storage_driver", "container.network"] {
        assert!(facts.contains_key(key), "{key} is missing: {facts:#?}");
    }
    let proxied = scopes.iter().any(|scope| scope.name == "port proxy" && scope.serving);
    if facts["engine.name"] != "Podman" {
        assert_eq!(facts["engine.userland_proxy"], proxied.to_string());
    }
    host.close().unwrap();
}

fn nothing_is_left() {
    let stage = Stage::new();
    let links = || tare_layers::network::links(&format!("t{}c", stage.surroundings.run)).unwrap();
    let mut host = stage.open("network: bridge");
    stage.start(host.as_mut(), &stage.service());
    assert_eq!(links().len(), 1);
    let kinds: Vec<String> = stage.leftovers().into_iter().map(|leftover| leftover.kind).collect();
    assert_eq!(kinds, ["container", "container-network"]);
    host.close().unwrap();
    assert!(stage.notes.lock().unwrap().closed, "the outer host is closed as well");
    assert!(links().is_empty() && stage.leftovers().is_empty());

    // As after a killed run: nobody closes the host, and only what is known by its label can be removed.
    let mut host = stage.open("{}");
    stage.start(host.as_mut(), &stage.service());
    std::mem::forget(host);
    for leftover in stage.leftovers() {
        Container.remove(&leftover).unwrap();
        Container.remove(&leftover).unwrap();
    }
    assert!(links().is_empty() && stage.leftovers().is_empty());
}

fn a_container_holds_no_layer() {
    let stage = Stage::new();
    let host = stage.open("{}");
    let layer = LayerUse { layer: "vm".to_owned(), options: serde_json::json!({}) };
    let Err(OpenError::Unavailable(fault)) = host.open(&layer, &stage.surroundings) else {
        panic!("a layer was opened in a container")
    };
    assert!(fault.message.contains("'vm'"), "{fault}");
    assert!(stage.notes.lock().unwrap().closed);
    assert_eq!(stage.leftovers(), []);
}

fn images_are_kept_until_removed() {
    let mut stage = Stage::new();
    stage.surroundings.services = vec![stage.service()];
    stage.surroundings.cpus = CpuSet::new([0]);
    let host = stage.open("network: host");
    host.close().unwrap();
    let image = stage::image().expect("the image outlives its run");
    assert!(image.bytes > 0);
    container::remove_image(&image.name).unwrap();
    assert_eq!(stage::image(), None);
    container::remove_image(&image.name).unwrap();
}

/// The docker program's answer, trimmed; `None` when it refused or is not there.
fn docker(words: &[&str]) -> Option<String> {
    let output = Command::new("docker").args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn what_is_made_from_ours_is_somebody_elses() {
    if docker(&["version"]).is_none() {
        println!("skipped: there is no docker program that reaches the engine");
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open("{}");
    stage.start(host.as_mut(), &stage.service());
    let run = &stage.surroundings.run;
    let ours = stage.leftovers();
    let container = &ours.iter().find(|left| left.kind == "container").expect("it runs").name;
    let (committed, built) = (format!("canary-committed:{run}"), format!("canary-built:{run}"));
    let (copy, network) = (format!("canary-copy-{run}"), format!("tare-{run}-canary"));
    docker(&["commit", container, &committed]).expect("an image of the container");
    let image = stage::image().expect("the image of the bundle").name;
    let script = format!("printf 'FROM {image}\\nENV MINE=1\\n' | docker build -q -t {built} -");
    assert!(Command::new("sh").args(["-c", &script]).output().unwrap().status.success(), "{script}");
    docker(&["create", "--name", &copy, &committed]).expect("a container of that image");
    docker(&["network", "create", "--label", &format!("tare.run={run}"), &network]).expect("a network");

    assert_eq!(stage.leftovers(), ours, "the labels alone make nothing ours");
    let kept = container::cached_images().unwrap();
    let listed = |name: &str| kept.iter().any(|image| image.name.contains(name) || docker_id(name) == image.name);
    assert!(!listed(&committed) && !listed(&built), "{kept:?}");
    host.close().unwrap();
    for name in [&committed, &built] {
        container::remove_image(name).unwrap();
        assert!(docker(&["image", "inspect", name]).is_some(), "{name} is gone");
    }
    assert!(docker(&["container", "inspect", &copy]).is_some() && docker(&["network", "inspect", &network]).is_some());
    let _ = docker(&["rm", &copy]);
    let _ = docker(&["network", "rm", &network]);
    let _ = docker(&["rmi", &committed, &built]);
}

fn what_has_taken_a_bundle_s_name_is_not_run() {
    if docker(&["version"]).is_none() {
        println!("skipped: there is no docker program that reaches the engine");
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open("{}");
    stage.start(host.as_mut(), &stage.service());
    host.close().unwrap();
    let name = stage::image().expect("the image of the bundle").name;
    let ours = docker_id(&name);
    // It has our label from ours, too.
    let script = format!("printf 'FROM {name}\\nENV MINE=1\\n' | docker build -q -t {name} -");
    assert!(Command::new("sh").args(["-c", &script]).output().unwrap().status.success(), "{script}");
    let theirs = docker_id(&name);
    assert_ne!(theirs, ours);
    let mut host = stage.open("{}");
    stage.start(host.as_mut(), &stage.service());
    assert_eq!(stage::image().expect("the image of the bundle").name, name);
    assert_ne!(docker_id(&name), theirs, "what is run was imported");
    host.close().unwrap();
    let _ = docker(&["rmi", &theirs]);
    let _ = docker(&["rmi", &ours]);
}

/// What the engine knows an image by.
fn docker_id(image: &str) -> String {
    docker(&["image", "inspect", "--format", "{{.Id}}", image]).unwrap_or_default()
}
