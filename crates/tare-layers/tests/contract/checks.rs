//! The contract of [`Host`], by table: the plain process and every layer that this machine can have.

use crate::cage::Cage;
use crate::stage::{self, Check, LAYERS, Stage, left_of, property, service};
use crate::{commands, confined, daemons, escapes, image, mock, names, private, sharing, users};
use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tare_core::config;
use tare_core::held::Held;
use tare_core::host::{Availability, ErasedLayer, Host, InstanceState, SeenFile, ServiceStart, Wait, layer_named};
use tare_core::layer::LayerUse;
use tare_core::telemetry::Scope;
use tare_layers::listening;
use tare_layers::local::LocalHost;

/// Podman with the runtime that starts containers on every machine.
const PODMAN: &str = "{engine: podman, runtime: runc}";
/// Podman of a plain user of this machine.
const ROOTLESS: &str = "{engine: podman-rootless, runtime: runc}";

pub(crate) fn all() -> Vec<Check> {
    vec![
        ("every_layer_keeps_the_contract".to_owned(), true, every_form),
        ("a_container_by_a_runtime_keeps_the_contract".to_owned(), true, || by_a_runtime("auto")),
        ("a_container_by_crun_keeps_the_contract".to_owned(), true, || by_a_runtime("crun")),
        ("a_container_by_nspawn_keeps_the_contract".to_owned(), true, || by_an_engine("{by: nspawn}")),
        ("a_container_by_lxc_keeps_the_contract".to_owned(), true, || by_an_engine("{by: lxc}")),
        ("a_container_of_podman_keeps_the_contract".to_owned(), true, || by_an_engine(PODMAN)),
        ("a_container_of_rootless_podman_keeps_the_contract".to_owned(), true, || by_an_engine(ROOTLESS)),
        ("rootless_podman_on_the_host_s_network_keeps_the_contract".to_owned(), true, rootless_on_host),
        ("the_mock_layer_keeps_the_contract_without_root".to_owned(), false, mock_without_root),
        ("no_service_is_reached_from_another_network".to_owned(), true, confined::kept_from_others),
        ("networks_of_forms_side_by_side_are_private".to_owned(), true, private::side_by_side),
        ("networks_of_a_load_from_this_machine_are_private".to_owned(), true, private::from_host),
        ("a_service_alone_may_listen_at_its_low_port".to_owned(), true, confined::low_port),
        ("a_hostile_program_is_refused_alike_in_every_form".to_owned(), true, escapes::alike),
        ("a_hostile_root_of_an_image_is_refused_alike_in_every_form".to_owned(), true, escapes::alike_as_image),
        ("what_a_hostile_program_may_do_is_told".to_owned(), false, escapes::told),
        ("a_service_runs_as_its_image_alike_in_every_form".to_owned(), true, image::alike),
        ("what_would_make_the_machine_s_root_of_it_is_refused".to_owned(), true, image::refused),
        ("a_link_of_an_image_leads_nowhere_outside_of_it".to_owned(), true, image::linked),
        ("a_daemon_that_detaches_twice_is_seen_in_every_form".to_owned(), true, daemons::seen),
        ("services_share_a_volume_alike_in_every_form".to_owned(), true, sharing::alike),
        ("services_as_in_their_images_share_a_volume".to_owned(), true, sharing::as_image),
        ("no_shared_volume_is_mounted_inside_of_another".to_owned(), true, sharing::within_another),
        ("instances_are_users_of_their_own".to_owned(), true, users::apart),
        ("instances_find_their_users_by_name".to_owned(), true, users::named),
        ("names_of_services_are_known_in_each_network".to_owned(), true, names::in_each_network),
        ("an_unknown_layer_closes_the_outer_host".to_owned(), false, unknown_layer),
        ("a_layer_that_fails_to_open_leaves_nothing".to_owned(), false, failing_open),
        ("options_are_written_down_with_their_defaults".to_owned(), false, mock::options_are_written_down),
        ("the_layer_in_contributing_is_one".to_owned(), false, documented_layer),
    ]
}

pub(crate) fn named(name: &str) -> &'static dyn ErasedLayer {
    layer_named(LAYERS, name).expect("the list has it")
}

/// A layer with the options written in `text`.
pub(crate) fn layer(kind: &dyn ErasedLayer, text: &str) -> LayerUse {
    let read = config::read("options", text, |node, problems| kind.read(node, problems));
    let options = read.expect("the options are right");
    LayerUse { layer: kind.name().to_owned(), options }
}

/// All but guests: those are held to it by `vm.rs`, which boots them emulated where there is no KVM.
fn every_form() {
    assert!(tare_layers::LAYERS.iter().all(|own| layer_named(LAYERS, own.name()).is_some()), "none is left out");
    for kind in LAYERS.iter().filter(|kind| kind.name() != "vm") {
        let layer = layer(*kind, "{}");
        let carrier = stage::carrier(std::path::Path::new("/"));
        match kind.probe(&layer.options, &carrier) {
            Availability::Ready(_) => contract(kind.name(), &[layer]),
            Availability::Emulated(_, why) | Availability::Unavailable(why) => {
                println!("skipped: the contract of '{}': {why}", kind.name());
            }
        }
    }
}

/// With all that a runtime gives, and with the least.
fn by_a_runtime(runtime: &str) {
    let kind = named("container");
    for more in ["", ", root: directory, namespaces: host, limits: affinity"] {
        let options = format!("{{by: runtime, runtime: {runtime}{more}}}");
        let layer = layer(kind, &options);
        match kind.probe(&layer.options, &stage::carrier(std::path::Path::new("/"))) {
            Availability::Ready(_) => contract(&format!("container {options}"), &[layer]),
            Availability::Emulated(_, why) | Availability::Unavailable(why) => {
                println!("skipped: the contract of a container by a runtime: {why}");
            }
        }
    }
}

/// By an engine, or whoever else starts containers, that is named.
fn by_an_engine(options: &str) {
    let kind = named("container");
    let layer = layer(kind, options);
    match kind.probe(&layer.options, &stage::carrier(std::path::Path::new("/"))) {
        Availability::Ready(_) => contract(&format!("container {options}"), &[layer]),
        Availability::Emulated(_, why) | Availability::Unavailable(why) => {
            println!("skipped: the contract of a container {options}: {why}");
        }
    }
}

/// As the first user that has subordinate ids: on the machine's network a form has to name one.
fn rootless_on_host() {
    let listed = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
    let mut users = listed.lines().filter_map(|line| line.split(':').next()).filter(|name| *name != "root");
    let user = users.next().unwrap_or("nobody");
    by_an_engine(&format!("{{engine: podman-rootless, runtime: runc, network: host, user: {user}}}"));
}

/// By itself, without any layer.
pub(crate) fn native_form() {
    contract("native", &[]);
}

fn mock_without_root() {
    contract("mock", &[layer(named("mock"), "{}")]);
}

/// Start, reach, read, tear down, nothing left.
fn contract(form: &str, layers: &[LayerUse]) {
    println!("form {form}");
    let starts_something = form != "mock";
    let stage = Stage::open(|_| {});
    let mut start = service("one", stage::free_port(), &[]);
    start.service.directory = Some("/data".to_owned());
    names::tell(&mut start);
    let mut host = stage.host(std::slice::from_ref(&start), layers);
    assert!(!host.facts().unwrap().is_empty());
    let resources = host.resources(&start).unwrap();
    assert!(resources.properties.contains_key("cpus"), "{form}: {resources:?}");
    assert!(host.state("one").is_err(), "{form}: nothing was started yet");

    if starts_something {
        confined::refused_users(form, host.as_mut());
    }
    let kept = laid_down(host.as_ref(), &start);
    let beside_us = kept.is_some();
    // Where volumes of a further layer stand is its own business.
    if form == "native" || form.starts_with("container") || !starts_something {
        assert_eq!(beside_us, starts_something, "{form}: volumes stand on this machine, or nowhere");
    }
    let instance = host.start(&start).unwrap();
    assert_eq!(instance.instance, "one");
    assert!(!instance.path.is_empty());
    if starts_something {
        reach_and_read(form, &stage, host.as_mut(), instance.endpoints["main"]);
        confined::without_privileges(form, host.as_mut(), &stage.ask(instance.endpoints["main"]));
        commands::beside(form, &stage, host.as_mut(), instance.endpoints["main"]);
        names::known(form, host.as_mut(), &instance);
        assert_eq!(commands::seen(host.as_mut(), "/data/laid-down"), beside_us, "{form}");
    } else {
        commands::beside_nothing(host.as_mut());
    }
    freeze_and_thaw(form, &stage, host.as_mut(), instance.endpoints["main"]);
    held_by_another(form, &stage, host.as_mut(), instance.endpoints["main"]);
    assert_eq!(host.state("one").unwrap(), InstanceState::Running);
    let stop = |host: &mut dyn Host| host.stop("one").unwrap();
    if starts_something {
        commands::goes_with_the_service(form, host.as_mut(), stop);
    } else {
        stop(host.as_mut());
    }
    assert!(stage.try_ask(instance.endpoints["main"]).is_none(), "{form}: it still answers");
    assert!(host.state("one").is_err(), "{form}: it was stopped");
    assert!(kept.iter().all(|file| file.exists()), "{form}: volumes outlive their service");

    // Again under the same name, and then closed without being stopped, frozen as it is.
    host.start(&start).unwrap();
    host.freeze().unwrap();
    host.close().unwrap();
    stage.close();
    assert!(!kept.iter().any(|file| file.exists()), "{form}: volumes do not outlive their host");
    if starts_something {
        commands::goes_with_the_host(form, layers);
        ends_by_itself(form, layers);
    }
}

/// A service that does its work and ends has ended well, though a child of it lives on. Once it is stopped nothing of
/// it is left, and those beside it are started, sampled and frozen without it.
fn ends_by_itself(form: &str, layers: &[LayerUse]) {
    let stage = Stage::open(|_| {});
    let (mut work, one) = (service("work", stage::free_port(), &[]), service("one", stage::free_port(), &[]));
    let mark = commands::mark();
    work.service.command = ["/bin/service", "tool", "leave", mark.as_str()].map(str::to_owned).to_vec();
    work.service.ports.clear();
    let mut host = stage.host(&[work.clone(), one.clone()], layers);
    host.start(&work).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while host.state("work").unwrap() == InstanceState::Running {
        assert!(Instant::now() < deadline, "{form}: it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let state = host.state("work").unwrap();
    assert!(state.succeeded(), "{form}: {state:?}");
    host.stop("work").unwrap();
    assert_eq!(commands::living(&mark), 0, "{form}: something of it lives on");
    assert!(host.state("work").is_err(), "{form}: it was stopped");

    let place = host.start(&one).unwrap().endpoints["main"];
    stage.ask(place);
    host.begin_probe(&[], Duration::from_secs(1)).unwrap();
    host.end_probe().unwrap();
    assert!(host.serving().unwrap().iter().all(|scope| scope.name != "work"), "{form}");
    host.freeze().unwrap();
    host.thaw().unwrap();
    assert_eq!(host.state("one").unwrap(), InstanceState::Running, "{form}");
    assert!(!host.held().unwrap().is_empty(), "{form}");
    host.thaw().unwrap();
    host.stop("one").unwrap();
    host.close().unwrap();
    stage.close();
}

/// Puts a file where the volume /data of a service will stand, and says where it is; none where it stands nowhere.
fn laid_down(host: &dyn Host, start: &ServiceStart) -> Option<PathBuf> {
    let places = host.volumes(start)?;
    assert_eq!(places.len(), start.service.volumes.len());
    std::fs::create_dir_all(&places[0]).unwrap();
    let (uid, gid) = stage::USER;
    std::os::unix::fs::chown(&places[0], Some(uid), Some(gid)).unwrap();
    let file = places[0].join("laid-down");
    std::fs::write(&file, "").unwrap();
    Some(file)
}

fn reach_and_read(form: &str, stage: &Stage, host: &mut dyn Host, place: std::net::SocketAddr) {
    let report = stage.ask(place);
    let (uid, gid) = stage::USER;
    assert_eq!(property(&report, "uid"), format!("{uid} {uid} {uid} {uid}"), "{form}");
    assert_eq!(property(&report, "gid"), format!("{gid} {gid} {gid} {gid}"), "{form}");
    assert_eq!(property(&report, "capabilities"), "0000000000000000", "{form}");
    assert_eq!(property(&report, "cpus"), "0", "{form}");
    assert_eq!(property(&report, "open_files"), tare_layers::local::OPEN_FILES.to_string(), "{form}");
    assert_eq!(property(&report, "processes"), tare_layers::local::PROCESSES.to_string(), "{form}");
    assert_eq!(property(&report, "directory"), "/data", "{form}");
    for path in ["/tmp", "/run", "/data", "/run/kept", "/dev/shm"] {
        assert_eq!(property(&report, &format!("write {path}")), "yes", "{form}: {path} in {report:?}");
    }

    let files = host.mapped_files("one", Wait::always()).unwrap();
    let own = files.iter().find(|file| file.path == "/bin/service").expect("the program is mapped");
    let hash = Sha256::digest(std::fs::read(std::env::current_exe().unwrap()).unwrap());
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(own.digest, format!("sha256:{hex}"), "{form}");
    // Where something is mounted, there is nothing of the bundle to be seen.
    let file = |path: &str| SeenFile { path: path.to_owned(), digest: own.digest.clone() };
    let bundle = ["/bin/service", "/bin/none", "/data/kept"].map(file);
    let one = service("one", 0, &[]);
    let fault = host.files_seen(&one, Some(&bundle), Wait::until(&|| true)).unwrap_err();
    assert!(fault.message.ends_with("interrupted"), "{form}: {fault}");
    let seen = host.files_seen(&one, Some(&bundle), Wait::always()).unwrap();
    assert_eq!((seen.compared, seen.differing), (2, vec!["/bin/none".to_owned()]), "{form}");
    let log = host.log("one").unwrap();
    assert!(log.contains("serving with") && log.contains("and this goes to standard error"), "{form}: {log}");

    let outside = Scope { name: "outside".to_owned(), serving: true, pids: vec![1], cgroups: Vec::new() };
    host.begin_probe(std::slice::from_ref(&outside), Duration::from_secs(1)).unwrap();
    host.end_probe().unwrap();
    let sampled = stage::SAMPLED.lock().unwrap().clone();
    assert!(sampled.contains(&outside), "{form}: the outer scopes were forgotten in {sampled:?}");
    let own = sampled.iter().find(|scope| scope.name.contains("one") && scope.serving);
    assert!(own.is_some(), "{form}: {sampled:?}");
    if form == "native" || form.starts_with("container") {
        let counted = own.is_some_and(|own| own.cgroups.iter().any(|group| counts_cpu(Path::new(group))));
        assert!(counted, "{form}: CPU time of processes that have ended is lost: {sampled:?}");
        // Whatever network namespace its processes are in.
        let network = own.and_then(|own| listening::network_of(*own.pids.first()?)).unwrap_or_default();
        let listens = own.map(|own| listening::addresses(own, &network)).unwrap_or_default();
        assert!(listens.iter().any(|address| address.port() == place.port()), "{form}: {listens:?}");
    }
    let charged: Vec<String> = host.serving().unwrap().into_iter().map(|scope| scope.name).collect();
    let serves = |scope: &&Scope| scope.serving && **scope != outside;
    let serving: Vec<String> = sampled.iter().filter(serves).map(|scope| scope.name.clone()).collect();
    assert!(!charged.is_empty() && charged == serving, "{form}: {charged:?} of {sampled:?}");
    assert!(host.end_probe().is_err(), "{form}: sampling was ended already");
    assert!(!left_of(&stage.run).is_empty(), "{form}: what runs must be found by its name");
}

/// Whether a control group counts the CPU time of all that was ever in it.
fn counts_cpu(group: &Path) -> bool {
    let of_all = || std::fs::read_to_string(group.join("cpu.stat")).is_ok_and(|text| text.contains("usage_usec"));
    group.join("cpuacct.usage").exists() || of_all()
}

fn freeze_and_thaw(form: &str, stage: &Stage, host: &mut dyn Host, place: std::net::SocketAddr) {
    let answers = form != "mock";
    for _ in 0..2 {
        host.freeze().unwrap();
        host.freeze().unwrap();
        assert!(stage.try_ask(place).is_none(), "{form}: it answers while it is frozen");
        host.thaw().unwrap();
        host.thaw().unwrap();
        assert_eq!(stage.try_ask(place).is_some(), answers, "{form}: it does not go on");
    }
}

/// Who holds all that runs in a form stops it, and the host lets it run on, whatever was done to it meanwhile.
fn held_by_another(form: &str, stage: &Stage, host: &mut dyn Host, place: std::net::SocketAddr) {
    if form == "mock" {
        assert!(host.held().is_err(), "nothing runs there");
        return;
    }
    let held = host.held().unwrap();
    assert!(!held.is_empty(), "{form}");
    for held in &held {
        match held {
            Held::Group(group) if group.join("cgroup.freeze").exists() => {
                std::fs::write(group.join("cgroup.freeze"), "1").unwrap();
            }
            Held::Group(group) => {
                let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
                assert!(!members.trim().is_empty(), "{form}: {group:?} is empty");
                members.lines().for_each(|pid| signal(pid.parse().unwrap(), Signal::STOP));
            }
            Held::Process(pid) => signal(pid.cast_signed(), Signal::STOP),
        }
    }
    assert!(stage.try_ask(place).is_none(), "{form}: it answers though all of it was stopped");
    host.thaw().unwrap();
    assert!(stage.try_ask(place).is_some(), "{form}: it does not go on");
    // And is frozen when it is asked for, though others have had it.
    let again = host.held().unwrap();
    assert_eq!(again, held, "{form}");
    host.freeze().unwrap();
    assert!(stage.try_ask(place).is_none(), "{form}: it answers while it is frozen");
    host.thaw().unwrap();
    assert!(stage.try_ask(place).is_some(), "{form}: it does not go on");
}

fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).expect("a process"), signal).expect("it is there");
}

fn unknown_layer() {
    let stage = Stage::open(|_| {});
    let surroundings = stage.surroundings(&[], &[]);
    let host = stage.host(&[], &[]);
    let layer = LayerUse { layer: "nonsense".to_owned(), options: serde_json::Value::Null };
    let error = host.open(&layer, &surroundings).err().expect("there is no such layer");
    assert!(error.to_string().contains("mock"), "{error}");
    assert!(!surroundings.scratch.exists(), "the outer host was not closed");
    stage.close();
}

fn failing_open() {
    let stage = Stage::open(|_| {});
    let surroundings = stage.surroundings(&[], &[]);
    let host = stage.host(&[], &[]);
    let error = host.open(&layer(named("mock"), "{fail_in: open}"), &surroundings).err().expect("it was told to fail");
    assert!(error.to_string().contains("told to fail"), "{error}");
    assert!(!surroundings.scratch.exists(), "the outer host was not closed");
    assert_eq!(mock::take_calls(&stage.run, "t1"), ["open"]);
    stage.close();
}

/// What CONTRIBUTING shows is that layer, word for word.
fn documented_layer() {
    let document = include_str!("../../../../CONTRIBUTING.md");
    let (_, section) = document.split_once("## Adding a layer").expect("there is such a section");
    let (_, rest) = section.split_once("   ```rust\n").expect("it shows a layer");
    let (shown, _) = rest.split_once("   ```\n").expect("which ends somewhere");
    let shown: String = shown.lines().map(|line| format!("{}\n", line.strip_prefix("   ").unwrap_or(line))).collect();
    assert_eq!(shown, include_str!("cage.rs"));

    let used = layer(&Cage, "{}");
    assert_eq!(used.options, serde_json::json!({ "bars": 12 }));
    let stage = Stage::open(|_| {});
    let surroundings = stage.surroundings(&[], &[]);
    let outer = Box::new(LocalHost::new(stage::carrier(Path::new("/")), surroundings.clone()).unwrap());
    let cage: &dyn ErasedLayer = &Cage;
    let mut host = cage.open(&used.options, outer, &surroundings).unwrap();
    assert!(!host.facts().unwrap().is_empty());
    host.close().unwrap();
    stage.close();
}
