//! Commands beside a service: just as the service was started, bounded, told of, and ended with all they have started.

use crate::stage::{self, Stage, property, service};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tare_core::command::{COMMAND_OUTPUT_MAX, CommandEnd, CommandStart, Ended};
use tare_core::fault::Fault;
use tare_core::host::{Host, InstanceState, ResourceReport};
use tare_core::layer::LayerUse;
use tare_core::telemetry::Scope;

/// How long a command may take that ends by itself.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A tool beside a service, called with these words.
pub(crate) fn start(words: &[&str], within: Duration) -> CommandStart {
    let command = ["/bin/service", "tool"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    let environment = BTreeMap::from([("EXTRA".to_owned(), "1 2".to_owned())]);
    CommandStart { command, environment, directory: "/tmp".to_owned(), within }
}

/// Runs the tool to its end.
fn run(host: &mut dyn Host, words: &[&str], within: Duration) -> Result<CommandEnd, Fault> {
    host.begin_command("one", &start(words, within))?;
    loop {
        if let Some(end) = host.await_command("one", Duration::from_millis(200))? {
            return Ok(end);
        }
    }
}

/// What a program of the bundle prints, run as the tool beside a service.
pub(crate) fn printed(host: &mut dyn Host, service: &str, program: &str, words: &[&str]) -> String {
    let mut wanted = start(words, LONG);
    program.clone_into(&mut wanted.command[0]);
    host.begin_command(service, &wanted).unwrap();
    host.await_command(service, LONG).unwrap().expect("it ends").stdout
}

/// Whether the service sees a file.
pub(crate) fn seen(host: &mut dyn Host, path: &str) -> bool {
    run(host, &["seen", path], LONG).unwrap().stdout == "yes\n"
}

/// Whether the service of this name sees a file.
pub(crate) fn seen_by(host: &mut dyn Host, service: &str, path: &str) -> bool {
    printed(host, service, "/bin/service", &["seen", path]) == "yes\n"
}

/// A number that no other command of this machine has.
pub(crate) fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// How many processes of this machine live that have `mark` as a word.
pub(crate) fn living(mark: &str) -> usize {
    marked(mark).len()
}

/// Their ids.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let is_marked = |folder: &std::path::Path| {
        let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()) && !status.contains("State:\tZ")
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter(|entry| is_marked(&entry.path())).map(|entry| entry.file_name().into_string());
    ids.map(|id| id.unwrap().parse().expect("only folders of processes have these files")).collect()
}

/// Waits until so many of them live.
pub(crate) fn wait_until_living(mark: &str, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while living(mark) != count {
        assert!(Instant::now() < deadline, "{} of {count} processes are there", living(mark));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the contract asks of a form in which the service runs as `one`, and answers at `place`.
pub(crate) fn beside(form: &str, stage: &Stage, host: &mut dyn Host, place: SocketAddr) {
    just_as_the_service(form, stage, host, place);
    told_of(form, host);
    ended_with_all_it_started(form, host);
    refused(form, host);
    assert_eq!(host.state("one").unwrap(), InstanceState::Running, "{form}");
    assert!(stage.try_ask(place).is_some(), "{form}: the service has outlived them all");
}

fn just_as_the_service(form: &str, stage: &Stage, host: &mut dyn Host, place: SocketAddr) {
    // Whoever is asked writes to /tmp, among other places: one file system is behind both.
    let served = stage.ask(place);
    assert_eq!(run(host, &["seen", "/tmp/probe"], LONG).unwrap().stdout, "yes\n", "{form}");
    let end = run(host, &["given"], LONG).unwrap();
    assert_eq!(end.ended, Ended::Exit(0), "{form}: {end:?}");
    let given: ResourceReport = serde_json::from_str(&end.stdout).unwrap();
    for name in ["uid", "gid", "cpus", "capabilities", "open_files", "memory", "root", "write /", "write /data"] {
        assert_eq!(property(&given, name), property(&served, name), "{form}: {name} of command and service differ");
    }
    assert_eq!(property(&given, "directory"), "/tmp", "{form}");
    let environment = property(&given, "environment");
    let usual = ["\"HOME\": \"/\"", "\"PATH\": \"/usr/local/sbin:"];
    for wanted in ["\"COLOUR\": \"blue\"", "\"EXTRA\": \"1 2\""].iter().chain(&usual) {
        assert!(environment.contains(wanted), "{form}: {wanted} is missing in {environment}");
    }
    // The service is at the loopback of its own network.
    let visited = run(host, &["visit", &place.port().to_string()], LONG).unwrap();
    assert!(visited.stdout.contains("COLOUR"), "{form}: {visited:?}");
}

fn told_of(form: &str, host: &mut dyn Host) {
    let end = run(host, &["exit", "7"], LONG).unwrap();
    assert_eq!((end.ended, end.stdout.as_str()), (Ended::Exit(7), ""), "{form}");
    assert!(end.stderr.contains("ending with 7"), "{form}: {end:?}");
    let end = run(host, &["print", "300000"], LONG).unwrap();
    assert_eq!((end.ended, end.stdout.len()), (Ended::Exit(0), 300_000), "{form}");
    assert_eq!(run(host, &["reopen"], LONG).unwrap().stdout, "by its name\n", "{form}: /dev/stdout can be opened");
    let scope = scope_of_one(host);
    let before_s = sampled_s(&scope);
    let end = run(host, &["spin", "600"], LONG).unwrap();
    // What the telemetry finds in the service's scope and what the host tells hold the command's CPU time once.
    let used = end.cpu_s.expect("CPU time can be read here") + sampled_s(&scope) - before_s;
    assert!(used > 0.55 && used < 1.1, "{form}: {used} s, {end:?}");
    assert!(end.took >= Duration::from_millis(600), "{form}: {end:?}");
    let most = (COMMAND_OUTPUT_MAX + 1).to_string();
    let fault = run(host, &["print", &most], LONG).unwrap_err();
    assert!(fault.message.contains("printed more than 4 MiB"), "{form}: {fault}");
}

/// What samplers are told of the service.
fn scope_of_one(host: &mut dyn Host) -> Scope {
    host.begin_probe(&[], Duration::from_secs(1)).unwrap();
    host.end_probe().unwrap();
    let sampled = stage::SAMPLED.lock().unwrap();
    sampled.iter().find(|scope| scope.name.contains("one")).expect("it is sampled").clone()
}

/// The CPU time, s, that samplers find in a scope: its groups' where one counts it, else its processes'.
fn sampled_s(scope: &Scope) -> f64 {
    let of_group = |directory: &String| {
        let read = |file: &str| std::fs::read_to_string(format!("{directory}/{file}")).ok();
        let of_all = || read("cpu.stat")?.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok());
        let first = read("cpuacct.usage").and_then(|ns| ns.trim().parse::<f64>().ok()).map(|ns| ns * 1e-9);
        first.or_else(|| of_all().map(|us: f64| us * 1e-6))
    };
    let of_process = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // utime and stime, in ticks of 10 ms.
        fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() * 0.01
    };
    scope.cgroups.iter().find_map(of_group).unwrap_or_else(|| scope.pids.iter().map(of_process).sum())
}

fn ended_with_all_it_started(form: &str, host: &mut dyn Host) {
    let (late, left, unwanted) = (mark(), mark(), mark());
    // Itself and a child that does not want to end.
    let mut within = Duration::from_millis(1500);
    let mut end = run(host, &["hang", &late], within).unwrap();
    // An engine on an emulated machine may take longer than that to start it; it is to be ended when it has begun.
    while end.stdout.is_empty() && within < Duration::from_secs(15) {
        within *= 4;
        end = run(host, &["hang", &late], within).unwrap();
    }
    assert_eq!((end.ended, end.stdout.as_str()), (Ended::Late, "hanging\n"), "{form}");
    assert!(end.took >= within && end.took < within + Duration::from_secs(18), "{form}: {:?}", end.took);
    assert_eq!(living(&late), 0, "{form}: of what was late something runs on");
    // A child that has outlived it, with its output closed.
    let end = run(host, &["leave", &left], LONG).unwrap();
    assert_eq!((end.ended, living(&left)), (Ended::Exit(0), 0), "{form}");
    host.begin_command("one", &start(&["hang", &unwanted], LONG)).unwrap();
    wait_until_living(&unwanted, 2);
    assert_eq!(host.await_command("one", Duration::from_millis(10)).unwrap(), None, "{form}");
    let fault = host.begin_command("one", &start(&["exit", "0"], LONG)).unwrap_err();
    assert!(fault.message.contains("already"), "{form}: {fault}");
    host.end_command("one").unwrap();
    assert_eq!(living(&unwanted), 0, "{form}: of what was ended something runs on");
    host.end_command("one").unwrap();
}

fn refused(form: &str, host: &mut dyn Host) {
    assert!(host.await_command("one", Duration::ZERO).is_err(), "{form}: there is no command");
    assert!(host.begin_command("nobody", &start(&["exit", "0"], LONG)).is_err(), "{form}: there is no such service");
    for program in ["/bin/absent", "absent-from-path"] {
        let wanted = CommandStart { command: vec![program.to_owned()], ..start(&[], LONG) };
        let began = host.begin_command("one", &wanted);
        let mut ended = || -> Result<CommandEnd, Fault> {
            loop {
                if let Some(end) = host.await_command("one", Duration::from_millis(200))? {
                    return Ok(end);
                }
            }
        };
        let fault = began.and_then(|()| ended()).unwrap_err();
        assert!(fault.message.contains(program), "{form}: {fault}");
    }
}

/// A service that is stopped takes the command beside it along.
pub(crate) fn goes_with_the_service(form: &str, host: &mut dyn Host, stop: impl FnOnce(&mut dyn Host)) {
    let mark = mark();
    host.begin_command("one", &start(&["hang", &mark], LONG)).unwrap();
    wait_until_living(&mark, 2);
    stop(host);
    wait_until_living(&mark, 0);
    assert!(host.await_command("one", Duration::ZERO).is_err(), "{form}: there is no service any more");
}

/// What a host that starts nothing keeps of the contract.
pub(crate) fn beside_nothing(host: &mut dyn Host) {
    assert!(host.await_command("one", Duration::ZERO).is_err());
    assert_eq!(run(host, &["exit", "7"], LONG).unwrap().stdout, "");
    host.begin_command("one", &start(&["exit", "7"], LONG)).unwrap();
    assert!(host.begin_command("one", &start(&["exit", "7"], LONG)).is_err());
    host.end_command("one").unwrap();
    host.end_command("one").unwrap();
    assert!(host.begin_command("nobody", &start(&[], LONG)).is_err());
}

/// Beside a form that stands beside others, which has a network of its own.
pub(crate) fn in_a_room() {
    let stage = Stage::open(|_| {});
    let start = service("one", stage::free_port(), &[]);
    let mut host = stage.beside(1);
    let place = host.start(&start).unwrap().endpoints["main"];
    stage.ask(place);
    let visited = run(host.as_mut(), &["visit", &place.port().to_string()], LONG).unwrap();
    assert!(visited.stdout.contains("COLOUR"), "{visited:?}");
    host.close().unwrap();
    stage.close();
}

/// A command that runs on when its host is closed.
pub(crate) fn goes_with_the_host(form: &str, layers: &[LayerUse]) {
    let stage = Stage::open(|_| {});
    let service = service("one", stage::free_port(), &[]);
    let mut host = stage.host(std::slice::from_ref(&service), layers);
    stage.ask(host.start(&service).unwrap().endpoints["main"]);
    let mark = mark();
    host.begin_command("one", &start(&["hang", &mark], LONG)).unwrap();
    wait_until_living(&mark, 2);
    host.close().unwrap();
    assert_eq!(living(&mark), 0, "{form}: a command has outlived its host");
    stage.close();
}
