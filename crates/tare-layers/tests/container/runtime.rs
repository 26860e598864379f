//! Containers by an OCI runtime: every feature is there exactly where it was asked for.

use crate::stage::Stage;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tare_core::host::{Availability, ErasedLayer, Host, Leftover};
use tare_core::layer::LayerOptions;
use tare_core::workload::Volume;
use tare_layers::container::Container;

/// Every check, by name.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("by_a_runtime_there_is_what_was_asked_for", || there_is_what_was_asked_for("auto")),
    ("by_crun_there_is_what_was_asked_for", || there_is_what_was_asked_for("crun")),
    ("by_nspawn_there_is_what_was_asked_for", || of_a_system("nspawn")),
    ("by_lxc_there_is_what_was_asked_for", || of_a_system("lxc")),
    ("rungs_differ_in_what_they_say", rungs_differ_in_what_they_say),
    ("by_a_runtime_ends_and_mistakes_are_told", || ends_and_mistakes_are_told("auto")),
    ("by_crun_ends_and_mistakes_are_told", || ends_and_mistakes_are_told("crun")),
];

const LEAST: &str = "{by: runtime, root: directory, namespaces: host, limits: affinity}";

fn lacks(runtime: &str) -> bool {
    let options = serde_json::json!({"by": "runtime", "runtime": runtime, "network": "host", "limits": "cpuset", "seccomp": "unconfined",
        "capabilities": "all", "namespaces": "own", "storage": "volume", "read_only": false});
    let carrier = crate::stage::carrier(Path::new("/"));
    match Container.probe(&options, &carrier) {
        Availability::Ready(facts) => {
            assert!(facts.contains_key("runtime.name") && facts.contains_key("runtime.version"), "{facts:?}");
            false
        }
        Availability::Emulated(_, why) | Availability::Unavailable(why) => {
            println!("skipped: {why}");
            true
        }
    }
}

/// What the kernel says of a running service.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    /// Which namespaces are not those of this process.
    own: Vec<&'static str>,
    /// Whether it is in cgroups of the run, by controller.
    groups: BTreeMap<String, bool>,
    /// Whether a layer for writing is at its root.
    layered: bool,
    /// The options of what is mounted at `/dev/shm`.
    shared_memory: String,
    cpus: String,
    quota: String,
    seccomp: String,
    capabilities: String,
}

/// Those that a container has of its own, its mounts and its network aside.
fn own_namespaces() -> &'static [&'static str] {
    let unified = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if unified { &["cgroup", "ipc", "pid", "uts"] } else { &["ipc", "pid", "uts"] }
}

fn seen(stage: &Stage, host: &mut dyn Host) -> Seen {
    let start = stage.service();
    stage.start(host, &start);
    host.begin_probe(&[], Duration::from_secs(1)).unwrap();
    let scopes = std::mem::take(&mut stage.notes.lock().unwrap().scopes);
    let scope = scopes.iter().find(|scope| scope.name == "echo").unwrap();
    let pid = scope.pids[0];
    let in_group = |file: &str| {
        let texts = scope.cgroups.iter().map(|folder| std::fs::read_to_string(format!("{folder}/{file}")));
        texts.flatten().find_map(|text| text.split_whitespace().next().map(|word| word.replace("max", "-1")))
    };
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let namespace = |of: &str, kind: &str| std::fs::read_link(format!("/proc/{of}/ns/{kind}")).unwrap();
    let kinds = ["cgroup", "ipc", "net", "pid", "user", "uts"];
    let differs = |kind: &&&str| namespace("self", kind) != namespace(&pid.to_string(), kind);
    let mark = format!("/tare-{}/echo", stage.surroundings.run);
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap(), parts.next().unwrap());
        (controllers.to_owned(), path == mark)
    };
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    };
    let mounts = read("mountinfo");
    // The last one covers those before it.
    let mounted = |at: &str| mounts.lines().rev().find(|line| line.split(' ').nth(4) == Some(at)).unwrap_or_default();
    let root = mounted("/");
    let seen = Seen {
        own: kinds.iter().filter(differs).copied().collect(),
        groups: read("cgroup").lines().map(group).collect(),
        layered: root.contains(" - overlay ") && root.contains("upperdir="),
        shared_memory: mounted("/dev/shm").to_owned(),
        cpus: field("Cpus_allowed_list:"),
        // Without a limit of CPU time the service may be in no group that could have one.
        quota: in_group("cpu.cfs_quota_us").or_else(|| in_group("cpu.max")).unwrap_or_else(|| "-1".to_owned()),
        seccomp: field("Seccomp:"),
        capabilities: field("CapBnd:"),
    };
    host.end_probe().unwrap();
    host.stop("echo").unwrap();
    seen
}

/// Options that ask for any runtime, with this one.
fn by(runtime: &str, options: &str) -> String {
    options.replace("by: runtime", &format!("by: runtime, runtime: {runtime}"))
}

fn there_is_what_was_asked_for(runtime: &str) {
    if lacks(runtime) {
        return;
    }
    let stage = Stage::new();
    let first = stage.surroundings.cpus.cpus()[0].to_string();
    let all = stage.surroundings.cpus.to_string();
    let (least, own): (&[&str], _) = (&["ipc"], own_namespaces());
    let cases: [(&str, &[&str], bool, &str); 5] = [
        (LEAST, least, false, &first),
        ("{by: runtime, root: directory, namespaces: host, limits: cpuset}", least, false, &first),
        ("{by: runtime, root: directory, limits: cpuset}", own, false, &first),
        ("{by: runtime, namespaces: host, limits: quota}", least, true, &all),
        ("{by: runtime, limits: none, read_only: true}", own, true, &all),
    ];
    for (options, namespaces, layered, cpus) in cases {
        let mut host = stage.open(&by(runtime, options));
        let seen = seen(&stage, host.as_mut());
        assert_eq!(seen.own, namespaces, "{options}");
        assert!(seen.groups.iter().filter(|(name, _)| !name.is_empty()).all(|(_, is)| *is), "{options}: {seen:?}");
        assert_eq!(seen.layered, layered, "{options}: {seen:?}");
        assert_eq!((seen.cpus.as_str(), seen.seccomp.as_str()), (cpus, "0"), "{options}");
        assert_eq!(seen.capabilities, "00000000a80425fb", "{options}: those of a plain process");
        assert_eq!(seen.quota, if options.contains("quota") { "100000" } else { "-1" }, "{options}");
        host.close().unwrap();
        nothing_is_left(&stage);
    }
}

fn nothing_is_left(stage: &Stage) {
    let left = tare_layers::leftovers::leftovers(tare_layers::LAYERS).unwrap();
    let left: Vec<_> = left.into_iter().filter(|found| found.run == stage.surroundings.run).collect();
    // The mark of the run and the seat of the load, with what keeps others from it, stand until the stage goes.
    let of_seat = |found: &Leftover| match found.kind.as_str() {
        "mount" => found.name.contains("/private-"),
        kind => ["directory", "link", "network namespace"].contains(&kind),
    };
    assert!(left.iter().all(of_seat), "{left:#?}");
    let names: Vec<_> = std::fs::read_dir(&stage.surroundings.scratch).unwrap().flatten().collect();
    assert!(names.is_empty(), "{names:?}");
}

/// The rungs of the usual container up to the engine's, each against the one before.
fn rungs_differ_in_what_they_say() {
    if lacks("auto") {
        return;
    }
    let stage = Stage::new();
    let options = crate::stage::options("{network: host}");
    let rungs = Container.rungs(&options, &[], tare_core::load::LoadOrigin::Outside);
    let names: Vec<&str> = rungs.iter().map(|rung| rung.name).collect();
    assert_eq!(names, ["group", "limits", "namespaces", "root", "engine", "confined"]);
    let all: Vec<Seen> = rungs
        .iter()
        .map(|rung| {
            let mut host = stage.open(&rung.options.to_string());
            let seen = seen(&stage, host.as_mut());
            host.close().unwrap();
            seen
        })
        .collect();
    assert_eq!(all[0].own, all[1].own);
    assert_eq!(all[1].own, ["ipc"], "what is left there would outlive it");
    for seen in &all[2..] {
        assert_eq!(seen.own, own_namespaces(), "an engine's are the same");
    }
    assert_eq!(all.iter().map(|seen| seen.layered).collect::<Vec<_>>(), [false, false, false, true, true, true]);
    assert_eq!(
        all.iter().map(|seen| seen.seccomp != "0").collect::<Vec<_>>(),
        [false, false, false, false, false, true]
    );
    let fewer = |seen: &Seen| u64::from_str_radix(&seen.capabilities, 16).unwrap().count_ones();
    assert!(fewer(&all[5]) < fewer(&all[4]), "{} and {}", all[5].capabilities, all[4].capabilities);
    assert!(all.windows(2).all(|pair| pair[0].cpus == pair[1].cpus), "the same CPUs in each: {all:#?}");
}

fn ends_and_mistakes_are_told(runtime: &str) {
    if lacks(runtime) {
        return;
    }
    let stage = Stage::new();
    for options in ["{by: runtime}", LEAST] {
        told(&stage, &by(runtime, options));
    }
}

/// A container of nspawn or LXC.
fn of_a_system(by: &str) {
    let usual = format!("{{by: {by}}}");
    let found = Container.probe(&crate::stage::options(&usual), &crate::stage::carrier(Path::new("/")));
    if let Availability::Emulated(_, why) | Availability::Unavailable(why) = found {
        println!("skipped: {why}");
        return;
    }
    let stage = Stage::new();
    let first = stage.surroundings.cpus.cpus()[0].to_string();
    let all = stage.surroundings.cpus.to_string();
    for (more, cpus, quota) in [("", &first, "-1"), (", limits: quota, seccomp: unconfined", &all, "100000")] {
        let options = format!("{{by: {by}{more}}}");
        let mut host = stage.open(&options);
        let seen = seen(&stage, host.as_mut());
        assert_eq!(seen.own, ["cgroup", "ipc", "pid", "uts"], "{options}");
        assert!(seen.layered, "{options}: {seen:?}");
        for option in ["nosuid", "nodev", "noexec", "size=65536k"] {
            assert!(seen.shared_memory.contains(option), "{options}: {option} in {seen:?}");
        }
        let filter = if more.is_empty() { "2" } else { "0" };
        assert_eq!((seen.cpus.as_str(), seen.seccomp.as_str()), (cpus.as_str(), filter), "{options}");
        assert_eq!(seen.capabilities, "00000000a80425fb", "{options}: those of a plain process");
        assert_eq!(seen.quota, quota, "{options}");
        host.close().unwrap();
        nothing_is_left(&stage);
    }
    told(&stage, &usual);
    // LXC removes a container's group with what it has counted, and nspawn writes its words to the service's log.
    let below = "exit code 5, after a process of it was killed for lack of memory";
    let pretended = if by == "nspawn" && !the_kernel_tells_ends() { "killed by signal 9" } else { "exit code 1" };
    let mut host = stage.open(&usual);
    for (question, how) in [("eat-below", below), ("pretend", pretended)] {
        let (_, place) = stage.start(host.as_mut(), &stage.service());
        assert_eq!(stage.ask(place, question), None, "{usual}");
        assert_eq!(crate::checks::ended(host.as_mut()), how, "{usual}: {question}");
        host.stop("echo").unwrap();
    }
    if by == "nspawn" {
        let mut start = stage.service();
        start.service.volumes = [("/run".to_owned(), Volume::of(1 << 20))].into();
        let fault = host.start(&start).unwrap_err();
        assert!(fault.mistake && fault.message.contains("a volume at /run, and systemd-nspawn"), "{fault}");
    }
    host.close().unwrap();
    nothing_is_left(&stage);
}

/// Whether this kernel says how a process has ended to who is not its parent: from Linux 6.15 on.
fn the_kernel_tells_ends() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.trim().parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

/// How ends are told, and mistakes.
fn told(stage: &Stage, options: &str) {
    let mut host = stage.open(options);
    for (question, how) in [("exit 7", "exit code 7"), ("eat", "killed for lack of memory")] {
        let (_, place) = stage.start(host.as_mut(), &stage.service());
        assert_eq!(stage.ask(place, question), None, "{options}");
        assert_eq!(crate::checks::ended(host.as_mut()), how, "{options}");
        assert!(host.log("echo").unwrap().contains("serving with []"), "{options}");
        host.stop("echo").unwrap();
    }
    let mut start = stage.service();
    start.service.command[0] = "/bin/no-such-program".to_owned();
    let fault = host.start(&start).unwrap_err();
    assert!(fault.to_string().contains("/bin/no-such-program") && fault.to_string().contains("bundle"), "{fault}");
    start.service.resources.cpus = 4096;
    assert!(host.start(&start).unwrap_err().message.contains("4096 CPUs"));
    let start = stage.service();
    let report = host.resources(&start).unwrap();
    let (_, place) = stage.start(host.as_mut(), &start);
    for property in ["cpus", "ids"] {
        assert_eq!(report.properties[property].value, stage.ask(place, property).unwrap(), "{options}: {property}");
    }
    host.close().unwrap();
    nothing_is_left(stage);
}
