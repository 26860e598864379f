//! Causes planted in a real server, one in each form: the first finding names it.

use crate::end_to_end::lab::{Lab, text};
use std::fs;
use std::iter;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PLANTED: &str = "\
study: planted
workload: ./planted
load: {closed: {connections: 16}}
repeat: 3
time: {settle: 300ms, measure: 1s}
forms:
  plain: []
";

/// The same with a server of several workers, which keeps connections.
const HIDDEN: &str = "\
study: hidden
workload: ./hidden
load: {closed: {connections: 16}}
repeat: 3
design: blocks
time: {settle: 300ms, measure: 1s}
forms:
  plain: []
";

/// A form with a fault: its name, what it is, and the rule that should come first.
type Cause = (&'static str, &'static str, &'static str);

/// The processes of the server that has this fault.
fn called(fault: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    pids.filter(|pid| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command.split('\0');
        words.next().is_some_and(|program| program.ends_with("python3")) && words.any(|word| word == fault)
    })
    .collect()
}

/// A process that never rests, on the CPUs of another.
fn neighbour_of(pid: &str) -> Option<Child> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    let busy = ["-c", cpus, "sh", "-c", "while :; do :; done"];
    Command::new("taskset").args(busy).stdin(Stdio::null()).spawn().ok()
}

/// Stops the workers that are called so for a tenth of a second, and lets them go on for a third of one, again and
/// again.
fn keep_stopping(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let signal = |name: &str, pids: &[String]| {
            // One that has ended meanwhile is no longer stopped.
            let _ = Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
        };
        let pids = called("stops");
        if !pids.is_empty() {
            signal("-STOP", &pids);
            std::thread::sleep(Duration::from_millis(100));
            signal("-CONT", &pids);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Keeps a neighbour beside the server that is to have one, for as long as it runs.
fn keep_a_neighbour(over: &AtomicBool) {
    let mut neighbour: Option<Child> = None;
    while !over.load(Ordering::Relaxed) {
        match (called("neighbour").pop(), &mut neighbour) {
            (Some(pid), None) => neighbour = neighbour_of(&pid),
            (None, Some(child)) => {
                child.kill().and_then(|()| child.wait()).expect("a neighbour can be ended");
                neighbour = None;
            }
            _ => std::thread::sleep(Duration::from_millis(30)),
        }
    }
}

#[test]
fn a_planted_cause_is_found() {
    are_found(
        PLANTED,
        &[
            ("quota", "resources: {cpu_quota: 0.3}", "cpu-quota"),
            ("neighbour", "options: {fault: neighbour}", "busy-neighbour"),
        ],
    );
}

#[test]
fn a_planted_cause_within_the_server_is_found() {
    are_found(
        PLANTED,
        &[
            ("sleeps", "options: {fault: sleeps}", "sleeps"),
            ("backlog", "options: {fault: backlog}", "full-backlog"),
            ("syncs", "options: {fault: syncs}", "synchronous-writes"),
            ("reads", "options: {fault: reads}, resources: {memory: 48MiB}", "memory-limit"),
            ("asks", "options: {fault: asks}", "idle-services"),
        ],
    );
}

#[test]
fn a_cause_hidden_among_several_workers_is_found() {
    are_found(
        HIDDEN,
        &[
            ("pieces", "options: {fault: pieces}", "late-acknowledgments"),
            ("lock", "options: {fault: lock}", "locks"),
            ("workers", "options: {fault: workers}", "fewer-threads"),
            ("forks", "options: {fault: forks}", "new-processes"),
            ("touches", "options: {fault: touches}", "page-faults"),
            ("hands", "options: {fault: hands}", "hand-overs"),
            ("spins", "options: {fault: spins}", "other-code"),
            ("pauses", "options: {fault: pauses}", "other-code"),
            ("calls", "options: {fault: calls}", "kernel-work"),
            ("writes", "options: {fault: writes}", "more-written"),
            ("closes", "options: {fault: closes}", "new-connections"),
            ("stops", "options: {fault: stops}", "stopped"),
        ],
    );
}

/// Plants the causes, and asks that each comes first.
fn are_found(study: &str, causes: &[Cause]) {
    let Some(lab) = Lab::open(&["mmdebstrap", "taskset"]) else { return };
    lab.write("planted/workload.yaml", include_str!("../planted/workload.yaml"));
    lab.write("planted/server.py", include_str!("../planted/server.py"));
    lab.write("hidden/workload.yaml", include_str!("../hidden/workload.yaml"));
    lab.write("hidden/server.py", include_str!("../hidden/server.py"));
    let missed = missed_of(&lab, study, causes, "record");
    let shown = lab.expect(0, &["report", text(&lab.path("record")), "--verbose"]);
    assert!(shown.contains("To do:") && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    if missed.is_empty() {
        return;
    }
    // A machine that others use too may hide one of many in its noise, and another one the next time. What is missed
    // again, in a run of such alone, is not hidden by chance: its rule does not find it.
    assert!(causes.len() > 3, "of so few none is hidden: {missed:#?}");
    println!("planted once more: {missed:#?}");
    let causes: Vec<Cause> = missed.into_iter().map(|(cause, _)| cause).collect();
    let missed = missed_of(&lab, study, &causes, "again");
    assert!(missed.is_empty(), "missed twice: {missed:#?}");
}

/// Runs the server with each fault, into a record of this name. Which causes do not come first, and what does in the
/// place of each.
fn missed_of(lab: &Lab, study: &str, causes: &[Cause], record: &str) -> Vec<(Cause, Option<String>)> {
    let forms = causes.iter().map(|(name, what, _)| format!("  {name}: {{layers: [], {what}}}\n"));
    let study: String = iter::once(study.to_owned()).chain(forms).collect();
    let (study, out) = (lab.write("planted.yaml", study), lab.path(record));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_a_neighbour(&over));
        scope.spawn(|| keep_stopping(&over));
        let output = lab.tare(&["run", text(&study), "--out", text(&out)]);
        over.store(true, Ordering::Relaxed);
        assert_eq!(output.status.code(), Some(0), "{}", crate::end_to_end::lab::said(&output));
    });
    lab.expect_clean();

    let report = lab.report(&out);
    let explanations = report["analysis"]["explanations"].as_array().cloned().unwrap_or_default();
    let first = |form: &str| {
        let of = explanations.iter().find(|explanation| explanation["form"] == form)?;
        of["findings"][0]["rule"].as_str().map(str::to_owned)
    };
    let found = causes.iter().map(|cause| (*cause, first(cause.0)));
    found.filter(|((.., rule), first)| first.as_deref() != Some(*rule)).collect()
}
