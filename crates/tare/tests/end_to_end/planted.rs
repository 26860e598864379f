//! Causes planted in a real server, one in each form: the first finding names it.

use crate::end_to_end::lab::{Lab, text};
use serde_json::Value;
use std::fs;
use std::iter;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const STUDY: &str = "\
study: planted
workload: ./planted
load: {closed: {connections: 16}}
repeat: 3
time: {settle: 300ms, measure: 1s}
forms:
  plain: []
";

/// A form with a fault: its name, what it is, and the rule that should come first.
type Cause = (&'static str, &'static str, &'static str);

/// The process of the server that is to have a neighbour.
fn beside() -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?;
    processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).find(|pid| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command.split('\0');
        words.next().is_some_and(|program| program.ends_with("python3")) && words.any(|word| word == "neighbour")
    })
}

/// A process that never rests, on the CPUs of another.
fn neighbour_of(pid: &str) -> Option<Child> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    let busy = ["-c", cpus, "sh", "-c", "while :; do :; done"];
    Command::new("taskset").args(busy).stdin(Stdio::null()).spawn().ok()
}

/// Keeps a neighbour beside the server that is to have one, for as long as it runs.
fn keep_a_neighbour(over: &AtomicBool) {
    let mut neighbour: Option<Child> = None;
    while !over.load(Ordering::Relaxed) {
        match (beside(), &mut neighbour) {
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
    are_found(&[
        ("quota", "resources: {cpu_quota: 0.3}", "cpu-quota"),
        ("backlog", "options: {fault: backlog}", "full-backlog"),
        ("syncs", "options: {fault: syncs}", "synchronous-writes"),
        ("neighbour", "options: {fault: neighbour}", "busy-neighbour"),
    ]);
}

#[test]
fn a_planted_cause_within_the_server_is_found() {
    are_found(&[
        ("sleeps", "options: {fault: sleeps}", "sleeps"),
        ("reads", "options: {fault: reads}, resources: {memory: 48MiB}", "memory-limit"),
        ("asks", "options: {fault: asks}", "idle-services"),
    ]);
}

/// Runs the server with each fault, and asks for the causes that come first.
fn are_found(causes: &[Cause]) {
    let Some(lab) = Lab::open(&["mmdebstrap", "taskset"]) else { return };
    lab.write("planted/workload.yaml", include_str!("../planted/workload.yaml"));
    lab.write("planted/server.py", include_str!("../planted/server.py"));
    let forms = causes.iter().map(|(name, what, _)| format!("  {name}: {{layers: [], {what}}}\n"));
    let study: String = iter::once(STUDY.to_owned()).chain(forms).collect();
    let (study, out) = (lab.write("planted.yaml", study), lab.path("record"));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_a_neighbour(&over));
        let output = lab.tare(&["run", text(&study), "--out", text(&out)]);
        over.store(true, Ordering::Relaxed);
        assert_eq!(output.status.code(), Some(0), "{}", crate::end_to_end::lab::said(&output));
    });
    lab.expect_clean();

    let report: Value = serde_json::from_str(&lab.expect(0, &["report", text(&out), "--format", "json"])).unwrap();
    let explanations = report["analysis"]["explanations"].as_array().cloned().unwrap_or_default();
    let first = |form: &str| {
        let of = explanations.iter().find(|explanation| explanation["form"] == form)?;
        of["findings"][0]["rule"].as_str().map(str::to_owned)
    };
    let found: Vec<_> = causes.iter().map(|(form, _, rule)| (form, rule, first(form))).collect();
    let right = found.iter().filter(|(_, rule, first)| first.as_deref() == Some(**rule)).count();
    // A machine that others use too may hide one of them in its noise.
    assert!(right + 1 >= causes.len(), "{found:#?}");
    let shown = lab.expect(0, &["report", text(&out), "--verbose"]);
    assert!(shown.contains("To do:") && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}
