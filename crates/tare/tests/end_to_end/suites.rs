//! Studies of several parts, and the microbenchmarks that the shipped one is made of.

use crate::end_to_end::lab::{Lab, said, text};
use serde_json::Value;
use tare_core::record::{Record, SuiteRecord};
use tare_core::trial::Outcome;

const TWO: &str = "\
study: two
question: Does it go on?
workload: redis
repeat: 1
design: blocks
load: {closed: {connections: 4}}
time: {settle: 0s, measure: 1s}
forms: {native: []}
parts:
  single: {}
  deep: {load: {closed: {connections: 4, pipeline: 8}}, published: {from: somebody, throughput: {native: 1.00}}}
presets:
  short: {parts: {deep: ~}}
";

/// A tool whose own check says so if its result must not be used.
const CHECKED: &str = "\
workload: checked
services:
  rest:
    bundle: {packages: [dash]}
    command: [/bin/sh, -c, 'echo ready; while :; do sleep 1; done']
    ready: {log: ready}
parameters: {passed: 'true', at: gflops}
load:
  protocol:
    exec:
      where: inside
      parser: tare
      settle: false
      command:
        - /bin/sh
        - -c
        - 'echo ''{\"seconds\": 1, \"operations\": {\"solve\": {\"count\": 3}}, \"metrics\": {\"${{at}}\": 5},
          \"checks\": [{\"name\": \"residual\", \"passed\": ${{passed}}, \"detail\": \"17 is not < 16\"}]}'''
      metrics: {gflops: {unit: GFLOP/s, better: more}}
";

const JUDGED: &str = "\
study: judged
workload: ./checked
load: {closed: {connections: 1}}
time: {settle: 0s, measure: 1s}
repeat: 1
forms: {native: []}
parts:
  right: {}
  wrong: {parameters: {passed: 'false'}}
  missing: {parameters: {at: flops}}
";

fn measured(record: &Record, metric: &str) {
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let what = format!("{}, {}", record.header.study.name, trial.trial.arm());
        assert_eq!(trial.outcome, Outcome::Measured, "{what}");
        assert!(trial.metrics[metric] > 0.0, "{what}: {:?}", trial.metrics);
        let load = trial.load.as_ref().unwrap();
        assert!(!load.checks.is_empty() && load.checks.iter().all(|check| check.passed), "{what}: {:?}", load.checks);
        let first = &record.trials[0].record;
        assert_eq!(trial.mapped, first.mapped, "{what} runs other files");
    }
}

fn part<'a>(suite: &'a SuiteRecord, name: &str) -> &'a Record {
    let is = |record: &&Record| record.header.study.part.as_ref().is_some_and(|part| part.name == name);
    suite.parts.iter().find(is).unwrap_or_else(|| panic!("no part {name}"))
}

#[test]
fn the_microbenchmarks_are_weighed_natively_and_in_containers() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let record = lab.path("record");
    let mut args = vec!["run", "docker-on-vm", "--preset", "quick", "--repeat", "1", "--form", "container"];
    args.extend(["--settle", "0s", "--measure", "1s"]);
    let mut cases = vec![("linpack", "gflops"), ("mixed", "p99_us")];
    // All of them with `TARE_THOROUGH`; these two count their own CPU time, and have two directions.
    if std::env::var_os("TARE_THOROUGH").is_some() {
        cases.extend([("stream", "triad"), ("transmit", "cpu_us_per_op"), ("round-trip", "p50_us")]);
    }
    cases.iter().for_each(|(part, _)| args.extend(["--part", part]));
    let output = lab.expect(0, &[&args[..], &["--out", text(&record)]].concat());
    lab.expect_clean();
    let suite = tare_runner::read_suite(&record).unwrap();
    assert_eq!(suite.header.preset.as_deref(), Some("quick"));
    assert_eq!(suite.parts.len(), cases.len(), "{output}");
    for (name, metric) in &cases {
        let part = part(&suite, name);
        assert_eq!(part.trials.len(), 3, "{name}: two forms and the control");
        measured(part, metric);
        assert!(record.join(name).join("report.html").is_file(), "{name}");
    }
    // A tool's CPU time is counted once: no more than its CPU has.
    for trial in &part(&suite, "linpack").trials {
        let (record, load) = (&trial.record, trial.record.load.as_ref().unwrap());
        let wall_us = (load.measure_end_ns - load.measure_start_ns) as f64 / 1e3;
        let share = record.metrics["cpu_us_per_op"] * load.operations["solve"].count as f64 / wall_us;
        assert!(share < 1.25, "{}: {share} of its CPU", record.trial.arm());
        // And it is counted: no CPU solves so much in less.
        assert!(record.metrics["cpu_us_per_op"] > 10_000.0, "{}: {:?}", record.trial.arm(), record.metrics);
    }
    // The two directions of a mixed job have a histogram each, from which the percentiles of both come.
    let mixed = part(&suite, "mixed").trials[0].record.load.as_ref().unwrap();
    assert!(mixed.operations["read"].count > mixed.operations["write"].count, "{:?}", mixed.operations);
    let page = std::fs::read_to_string(record.join("report.html")).unwrap();
    assert!(page.contains("another machine") && page.contains("linpack/report.html"), "the page of the whole");
    let table = lab.expect(0, &["report", text(&record)]);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let json = lab.report(&record);
    assert_eq!(json.pointer("/parts").and_then(Value::as_array).map(Vec::len), Some(cases.len()), "{json:#}");
    let csv = lab.expect(0, &["report", text(&record), "--format", "csv"]);
    assert!(csv.lines().any(|line| line.contains("gflops,GFLOP/s")), "{csv}");
}

#[test]
fn the_microbenchmarks_finish_in_a_container_in_a_guest() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "qemu-system-x86_64"]) else { return };
    let record = lab.path("record");
    let parts = ["--part", "linpack", "--part", "round-trip"];
    let args = ["run", "docker-on-vm", "--form", "vm+container", "--repeat", "1", "--measure", "2s", "--settle", "0s"];
    lab.expect(0, &[&args[..], &parts[..], &["--out", text(&record)]].concat());
    lab.expect_clean();
    let suite = tare_runner::read_suite(&record).unwrap();
    for (name, metric) in [("linpack", "gflops"), ("round-trip", "p50_us")] {
        let part = part(&suite, name);
        assert!(part.trials.iter().any(|trial| trial.record.trial.form == "vm+container"), "{name}");
        measured(part, metric);
    }
}

#[test]
fn a_study_of_parts_that_was_interrupted_goes_on() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let (study, record) = (lab.write("two.yaml", TWO), lab.path("record"));
    let args = ["run", text(&study), "--workloads", "workloads", "--out", text(&record)];
    lab.interrupt(&args, &record.join("single/trials/0000/trial.json"), std::time::Duration::ZERO);
    let kept = tare_runner::read_suite(&record).unwrap();
    assert!(kept.parts[1].trials.is_empty(), "the second part was begun after the interrupt");
    lab.expect(0, &["resume", text(&record)]);
    lab.expect_clean();
    let whole = tare_runner::read_suite(&record).unwrap();
    assert_eq!(whole.parts.iter().map(|part| part.trials.len()).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(whole.parts[0].trials[0], kept.parts[0].trials[0], "what was kept is untouched");
    whole.parts.iter().for_each(|part| measured(part, "throughput"));
    assert!(lab.expect(0, &["resume", text(&record)]).contains("every trial of every part is on disk"));
    let refused = lab.expect(2, &args);
    assert!(refused.contains("records are never"), "{refused}");
}

#[test]
fn a_tool_whose_check_fails_gives_no_figure() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    lab.write("checked/workload.yaml", CHECKED);
    let (study, record) = (lab.write("judged.yaml", JUDGED), lab.path("record"));
    let output = lab.tare(&["run", text(&study), "--out", text(&record)]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    lab.expect_clean();
    let suite = tare_runner::read_suite(&record).unwrap();
    measured(part(&suite, "right"), "gflops");
    for trial in &part(&suite, "wrong").trials {
        let Outcome::Invalid { why } = &trial.record.outcome else { panic!("{:?}", trial.record.outcome) };
        assert!(why.message.contains("check 'residual' failed: 17 is not < 16"), "{why}");
        assert!(trial.record.metrics.is_empty(), "{:?}", trial.record.metrics);
    }
    for trial in &part(&suite, "missing").trials {
        let Outcome::Failed { why, .. } = &trial.record.outcome else { panic!("{:?}", trial.record.outcome) };
        assert!(why.message.contains("'gflops' should stand at /metrics/gflops"), "{why}");
    }
}
