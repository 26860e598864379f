//! After `kill -9` another process finds everything of the run, and removes it.

use crate::canaries::Canaries;
use crate::checks;
use crate::stage::{self, Check, LAYERS, Stage, free_port, left_of, service};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tare_core::host::{Availability, Host, Leftover};
use tare_layers::local::{LoadGroup, LocalHost};
use tare_layers::lock::MachineLock;
use tare_layers::network::{self, GeneratorSeat};
use tare_layers::owner::live_runs;
use tare_layers::run_mark::RunMark;
use tare_layers::{home, leftovers, marks};

pub(crate) fn all() -> Vec<Check> {
    vec![
        ("what_a_killed_run_left_is_found_and_removed".to_owned(), true, || killed_run("")),
        ("what_a_killed_runtime_left_is_found_and_removed".to_owned(), true, || killed_run("by: runtime")),
        ("what_a_killed_crun_left_is_found_and_removed".to_owned(), true, || {
            killed_run("{by: runtime, runtime: crun}")
        }),
        ("what_a_killed_nspawn_left_is_found_and_removed".to_owned(), true, || killed_run("by: nspawn")),
        ("what_a_killed_lxc_left_is_found_and_removed".to_owned(), true, || killed_run("by: lxc")),
        ("what_a_killed_rootless_podman_left_is_found_and_removed".to_owned(), true, killed_rootless),
        ("what_a_killed_run_was_having_made_is_waited_for".to_owned(), true, asked_for),
        ("a_tool_that_leaves_its_session_ends_with_the_load".to_owned(), true, escaped_tool),
    ]
}

/// A user that no other check has.
const DOOMED: u32 = stage::OWN + 600;

/// Makes one of everything, with the service in a container where there are `options` for one, says so, and waits to be
/// killed.
pub(crate) fn doomed(run: &str, options: &str) -> ExitCode {
    let mark = RunMark::create(run).unwrap();
    let subnets = network::free_subnets().unwrap();
    let seat = GeneratorSeat::open(run, subnets).unwrap();
    let bridge = format!("t{run}b");
    network::bridge_create(&bridge, Ipv4Addr::new(subnets.0, subnets.1, 1, 1), 24).unwrap();
    network::tap_create(&format!("t{run}p"), &bridge).unwrap();
    let forwarding = network::allow_forwarding(run, &seat.host_interface(), &bridge).unwrap();
    let folder = mark.scratch().join("bundle");
    stage::make_tree(&folder, |_| {});
    let mount = marks::run_directory(run).join("mounted");
    std::fs::create_dir(&mount).unwrap();
    rustix::mount::mount("tmpfs", &mount, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    // With a tool that leaves its session and forgets whose it is.
    let mut load = Command::new("sh");
    let script = "setsid env -i sleep 1000 & exec sleep 1000";
    marks::mark_process(run, load.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()));
    seat.enter(&mut load);
    let group = LoadGroup::make(run).unwrap().unwrap();
    group.take_in(&mut load).unwrap();
    let load = load.spawn().unwrap();
    let surroundings = tare_testkit::sample::surroundings(run, &mark.scratch(), seat.host_address(), subnets);
    let host = LocalHost::new(stage::carrier(&folder), surroundings.clone()).unwrap();
    let mut host: Box<dyn Host> = Box::new(host);
    if !options.is_empty() {
        host = host.open(&checks::layer(checks::named("container"), options), &surroundings).unwrap();
    }
    // What a service binds without a word is closed for whoever has the machine.
    let machine = MachineLock::take("a check of Tare's").unwrap();
    let mut start = service("one", free_port(), &["child"]);
    (start.service.user, start.service.own_user) = ((DOOMED, DOOMED), true);
    let instance = host.start(&start).unwrap();
    println!("made: {} {} {}", instance.endpoints["main"], machine.is_ok(), instance.path);
    std::thread::sleep(Duration::from_secs(1000));
    drop((load, group, forwarding, machine));
    ExitCode::SUCCESS
}

/// A process that deploys a service in a form with these options, and waits to be killed; and what it says of that.
fn doomed_run(run: &str, options: &str) -> (std::process::Child, String) {
    let mut doomed = Command::new(std::env::current_exe().unwrap());
    let mut doomed = doomed.args(["doomed", run, options]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(doomed.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("made: "), "{line}");
    (doomed, line)
}

fn killed_run(options: &str) {
    if !options.is_empty() {
        let layer = checks::layer(checks::named("container"), options);
        let carrier = stage::carrier(std::path::Path::new("/"));
        if let Availability::Unavailable(why) = checks::named("container").probe(&layer.options, &carrier) {
            println!("skipped: {why}");
            return;
        }
    }
    let run = stage::run_id();
    let (mut doomed, line) = doomed_run(&run, options);
    assert!(live_runs().contains(&run));
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    assert!(!live_runs().contains(&run), "its owner is dead");

    // The service outlives its owner and may still be about to start its child.
    let processes_of = |found: &[Leftover]| found.iter().filter(|leftover| leftover.kind == "process").count();
    let until = Instant::now() + Duration::from_secs(20);
    let mut found = left_of(&run);
    // A system container has a process that looks after it.
    let count = if ["by: nspawn", "by: lxc"].contains(&options) { 5 } else { 4 };
    while processes_of(&found) < count && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        found = left_of(&run);
    }
    let kinds: BTreeSet<&str> = found.iter().map(|leftover| leftover.kind.as_str()).collect();
    let wanted = ["cgroup", "directory", "forwarding rules", "link", "mount", "network namespace", "process"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), wanted, "{found:#?}");
    assert_eq!(processes_of(&found), count, "the load, its tool, the service and its child: {found:#?}");
    kept_from_the_lab(line.trim_end());
    // They have names of their own, so one check has them.
    let mut canaries = options.is_empty().then(|| Canaries::beside(&run, &home::work_folder(&run)));
    canaries.iter().for_each(Canaries::expect_unlisted);
    let beside = left_of(&run);
    assert_eq!(beside, found, "what somebody else calls by the run's name is not the run's");
    fence_goes_last(line.trim_end(), &found);
    for leftover in &found {
        leftovers::remove(LAYERS, leftover).unwrap_or_else(|fault| panic!("{leftover:?}: {fault}"));
    }
    assert_eq!(left_of(&run), []);
    canaries.iter_mut().for_each(Canaries::expect_untouched);
    for leftover in &found {
        leftovers::remove(LAYERS, leftover).unwrap_or_else(|fault| panic!("gone already, but {leftover:?}: {fault}"));
    }
}

/// All that a plain user's Podman has started is in the run's groups, and goes by them.
fn killed_rootless() {
    let options = "{engine: podman-rootless, runtime: runc}";
    let layer = checks::layer(checks::named("container"), options);
    if let Availability::Unavailable(why) =
        checks::named("container").probe(&layer.options, &stage::carrier(Path::new("/")))
    {
        println!("skipped: {why}");
        return;
    }
    let run = stage::run_id();
    let (mut doomed, _) = doomed_run(&run, options);
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let found = left_of(&run);
    for program in ["podman", "conmon", "slirp4netns", "rootlessport", "service"] {
        let is_it = |left: &Leftover| left.kind == "process" && left.name.ends_with(&format!(" {program}"));
        assert!(found.iter().any(is_it), "{program}: {found:#?}");
    }
    for leftover in &found {
        leftovers::remove(LAYERS, leftover).unwrap_or_else(|fault| panic!("{leftover:?}: {fault}"));
    }
    assert_eq!(left_of(&run), []);
}

/// A service that outlives its run, which has said how it stands, is not reached from another network.
fn kept_from_the_lab(made: &str) {
    let words: Vec<&str> = made.split(' ').collect();
    let declared: SocketAddr = words[1].parse().unwrap();
    let ports = if words[2] == "true" { vec![0, 1] } else { vec![0] };
    if ["as no fence stands", "if this process is killed"].iter().any(|open| made.contains(open)) {
        return println!("skipped: whether it is kept from others: {made}");
    }
    // Another run's seat for load is a machine of the lab, on another link.
    let lab = Stage::open(|_| {});
    for port in ports.into_iter().map(|number| declared.port() + number) {
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "nobody serves at {port}: {made}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let place = SocketAddr::new(lab.surroundings(&[], &[]).address, port);
        assert!(lab.try_ask(place).is_none(), "the lab reaches {place}, whose run was killed: {made}");
    }
    lab.close();
}

/// Whoever removes first what keeps others from a service ends the service by it.
fn fence_goes_last(made: &str, found: &[Leftover]) {
    let place: SocketAddr = made.split(' ').nth(1).unwrap().parse().unwrap();
    let fence = found.iter().find(|left| left.kind == "mount" && left.name.contains("/fence-"));
    let Some(fence) = fence else { return println!("skipped: whether services end before their fence: {made}") };
    assert!(TcpStream::connect(("127.0.0.1", place.port())).is_ok(), "nobody serves: {made}");
    leftovers::remove(LAYERS, fence).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", place.port())).is_err(), "it stands without a fence: {made}");
}

/// A tool that starts another one in a session of its own, and ends.
fn escaped_tool() {
    let stage = Stage::open(|_| {});
    let group = LoadGroup::make(&stage.run).unwrap().unwrap();
    let mut load = Command::new("sh");
    load.args(["-c", "setsid sh -c 'echo $$; exec sleep 1000' & wait"]).stdin(Stdio::null()).stdout(Stdio::piped());
    group.take_in(&mut load).unwrap();
    let mut load = load.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(load.stdout.take().unwrap()).read_line(&mut line).unwrap();
    load.kill().and_then(|()| load.wait()).unwrap();
    let tool = Path::new("/proc").join(line.trim());
    // What is dead and waits for being collected by the machine's first process is gone.
    let lives = || std::fs::read_to_string(tool.join("status")).is_ok_and(|status| !status.contains("State:\tZ"));
    assert!(lives(), "it is not the load process that is to end it");
    drop(group);
    assert!(!lives(), "{} outlives the load", tool.display());
    stage.close();
}

/// Has a run's directories, says so, and waits to be killed.
pub(crate) fn owner(run: &str) -> ExitCode {
    let _mark = RunMark::create(run).unwrap();
    println!("made");
    std::thread::sleep(Duration::from_secs(1000));
    ExitCode::SUCCESS
}

/// An engine goes on with what it was asked for by a process that is killed.
fn asked_for() {
    let docker = |words: &[&str]| Command::new("docker").args(words).output().is_ok_and(|end| end.status.success());
    if !docker(&["info"]) {
        println!("skipped: no Docker Engine answers");
        return;
    }
    let run = stage::run_id();
    let mut owner = Command::new(std::env::current_exe().unwrap());
    let mut owner = owner.args(["owner", &run]).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    // As it stands when the process is killed while the engine makes the container.
    let name = format!("tare-{run}-t1-one");
    std::fs::write(marks::run_directory(&run).join("asked").join(&name), "").unwrap();
    owner.kill().and_then(|()| owner.wait()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (archive, image) = (folder.path().join("empty.tar"), format!("tare-test-{run}"));
    std::fs::write(&archive, [0_u8; 1024]).unwrap();
    assert!(docker(&["import", archive.to_str().unwrap(), &image]));
    let made = std::thread::spawn({
        let (run, name, image) = (format!("tare.run={run}"), name.clone(), image.clone());
        move || {
            std::thread::sleep(Duration::from_secs(1));
            let docker = Command::new("docker")
                .args([
                    "create",
                    "--name",
                    &name,
                    "--label",
                    &run,
                    "--label",
                    &format!("tare.name={name}"),
                    &image,
                    "/x",
                ])
                .output();
            docker.is_ok_and(|end| end.status.success())
        }
    });
    let found = left_of(&run);
    assert!(made.join().unwrap(), "no container was made");
    let container = |left: &Leftover| left.kind == "container" && left.name == name;
    assert!(found.iter().any(container), "the look was over before the engine was: {found:#?}");
    for leftover in &found {
        leftovers::remove(LAYERS, leftover).unwrap_or_else(|fault| panic!("{leftover:?}: {fault}"));
    }
    let asked = Instant::now();
    assert_eq!(left_of(&run), []);
    assert!(asked.elapsed() < Duration::from_secs(8), "nobody waits for what has been made already");
    assert!(docker(&["rmi", &image]));
}
