//! A run leaves nothing on the machine, as seen from outside Tare: by what the kernel and the engine list.

use crate::end_to_end::lab::{Lab, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tare_core::record::{Record, TrialData};
use tare_core::trial::Outcome;

/// How long a moment of a run may be in coming; emulated machines take minutes for what takes seconds elsewhere.
const COMES_WITHIN: Duration = Duration::from_secs(480);
const RUNTIMES: [&str; 2] = ["runc", "crun"];

/// Redis as a process, by the engine and by each runtime that is installed: names and layers.
fn forms() -> Vec<(String, String)> {
    let form = |name: &str, layers: &str| (name.to_owned(), format!("[{layers}]"));
    let mut forms =
        vec![form("native", ""), form("published", "container: {}"), form("hostnet", "container: {network: host}")];
    for name in RUNTIMES {
        if !["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(name).exists()) {
            println!("skipped: there is no {name} on this machine");
        } else if name == "crun" && has_both_versions() {
            println!("skipped: crun starts no container beside control groups of both versions");
        } else {
            forms.push(form(name, &format!("container: {{by: runtime, runtime: {name}}}")));
        }
    }
    forms
}

/// Whether controllers are divided between trees of both versions of control groups, which crun refuses.
fn has_both_versions() -> bool {
    let controllers = std::fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers").unwrap_or_default();
    !controllers.trim().is_empty()
}

/// One trial of each form, and one more of the first. A quota is stated, so that each has one to enforce.
fn study(lab: &Lab, forms: &[(String, String)]) -> PathBuf {
    let first = &forms[0].0;
    let forms: String = forms.iter().map(|(name, layers)| format!("  {name}: {layers}\n")).collect();
    let study = format!(
        "study: traces\nworkload: redis\nbaseline: {first}\nload: {{closed: {{connections: 4}}}}\nrepeat: 1\n\
         resources: {{cpu_quota: 0.8}}\ntime: {{settle: 100ms, measure: 1s}}\nforms:\n{forms}"
    );
    lab.write("traces.yaml", study)
}

/// What stands on this machine, by kind.
type Standing = BTreeMap<&'static str, BTreeSet<String>>;

fn standing() -> Standing {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let lines = |text: String| text.lines().map(|line| line.trim().to_owned()).collect::<BTreeSet<_>>();
    let names = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = mounts.lines().map(|line| line.split(' ').nth(4).unwrap());
    // Counters stand in brackets, and the time in remarks.
    let rules = said("/usr/sbin/iptables-save", &[]);
    let rules = rules.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(" [").next().unwrap());
    let mut groups = BTreeSet::new();
    groups_below(Path::new("/sys/fs/cgroup"), &mut groups);
    Standing::from([
        ("control groups", groups),
        ("links", names("/sys/class/net")),
        ("network namespaces", names("/run/tare/netns")),
        // The engine makes its default namespace for the first container on the host's network, and keeps it.
        ("mounts", mounted.filter(|path| *path != "/run/docker/netns/default").map(str::to_owned).collect()),
        ("rules", rules.map(str::to_owned).collect()),
        ("containers", lines(said("/usr/bin/docker", &["ps", "--all", "--quiet", "--no-trunc"]))),
        ("networks", lines(said("/usr/bin/docker", &["network", "ls", "--quiet", "--no-trunc"]))),
        ("volumes", lines(said("/usr/bin/docker", &["volume", "ls", "--quiet"]))),
        ("forwarding", lines(said("sysctl", &["-n", "net.ipv4.ip_forward"]))),
        ("runs", names("/run/tare").into_iter().filter(|name| name != "netns").collect()),
    ])
}

/// The groups of the tree, except those that the system makes and removes as it likes, and those of the engine that it
/// keeps for the next container.
fn groups_below(folder: &Path, found: &mut BTreeSet<String>) {
    const SYSTEM: [&str; 5] = [".service", ".slice", ".mount", ".socket", "/docker"];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        groups_below(&path, found);
        let path = path.to_str().unwrap();
        if !SYSTEM.iter().any(|end| path.ends_with(end)) {
            found.insert(path.to_owned());
        }
    }
}

fn expect_same(before: &Standing, when: &str) {
    for (kind, after) in standing() {
        assert_eq!(after, before[kind], "{kind} {when}");
    }
}

/// All trials of a record that has ended: in the order of the plan, and each measured.
fn expect_measured(record: &Record) {
    assert_eq!(record.trials.len(), record.header.plan.len());
    for TrialData { record, .. } in &record.trials {
        assert_eq!(record.outcome, Outcome::Measured, "{}", record.trial.arm());
    }
}

#[test]
fn every_way_to_start_a_container_runs_the_same_and_leaves_nothing() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker", "iptables-save"]) else { return };
    let (study, record) = (study(&lab, &forms()), lab.path("record"));
    let doctor = lab.expect(0, &["doctor", "--json"]);
    let before = standing();
    lab.expect(0, &["run", text(&study), "--out", text(&record)]);
    expect_same(&before, "after the run");
    let record = lab.record(&record);
    expect_measured(&record);
    let first = &record.trials[0].record;
    let mut reports = 0;
    for TrialData { record, .. } in &record.trials {
        let form = record.trial.arm();
        assert_eq!(record.mapped, first.mapped, "{form} runs other files");
        // Read in the first trial of each form.
        let Some(got) = record.resources.get("redis").map(|report| &report.properties) else { continue };
        reports += 1;
        for (name, value) in [("memory_limit_bytes", f64::from(512 << 20)), ("cpu_quota", 0.8), ("cpus", 1.0)] {
            assert_eq!(got[name].number, Some(value), "{form}: {name}: {got:?}");
        }
    }
    assert_eq!(reports, record.header.forms.len());
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let version = &record.header.environment["cgroup.version"];
    assert_eq!(version == "v2", unified, "the record says {version}, and doctor {doctor}");
}

#[test]
fn a_run_that_is_killed_is_cleaned_up_and_resumed_in_every_form() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker", "iptables-save"]) else { return };
    lab.expect(0, &["bundle", "build", "--workload", "redis"]);
    for (number, (name, layers)) in forms().into_iter().enumerate() {
        let study = study(&lab, &[(name.clone(), layers)]);
        let record = lab.path(&name);
        let before = standing();
        let mut command = lab.command(&["run", text(&study), "--out", text(&record)]);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // By turns while the service comes up, and under load.
        await_process(&mut run, &record, if number % 2 == 0 { "redis-server" } else { "drive" });
        run.kill().unwrap();
        run.wait().unwrap();
        lab.expect(0, &["clean"]);
        lab.expect_clean();
        expect_same(&before, &format!("after {name} was killed and cleaned up"));
        lab.expect(0, &["resume", text(&record)]);
        expect_same(&before, &format!("after {name} was resumed"));
        expect_measured(&lab.record(&record));
    }
}

/// Waits until the record is begun and a process has this among its words, while the run lives.
fn await_process(run: &mut Child, record: &Path, word: &str) {
    let deadline = Instant::now() + COMES_WITHIN;
    let has_word = |pid: &str| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|part| part.rsplit(|byte| *byte == b'/').next() == Some(word.as_bytes()))
    };
    loop {
        let pids =
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let begun = record.join("record.json").exists();
        if begun && pids.filter(|pid| pid.parse::<u32>().is_ok()).any(|pid| has_word(&pid)) {
            return;
        }
        assert!(run.try_wait().unwrap().is_none(), "the run ended before there was a {word}");
        assert!(Instant::now() < deadline, "there is no {word}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
