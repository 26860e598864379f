//! Forms with the same layers that differ in options and resources of a service.

use crate::end_to_end::lab::{Lab, flat, text};
use tare_core::trial::Outcome;

const STUDY: &str = "\
study: own
workload: redis
load: {closed: {connections: 20}}
repeat: 1
time: {settle: 0s, measure: 1s}
parameters: {keys: 1000, set: 50, get: 50}
forms:
  native: []
  durable: {layers: [], options: {persistence: always}}
  squeezed: {layers: [], resources: {memory: 96MiB, cpu_quota: 0.3}}
";

#[test]
fn a_forms_own_settings_apply_only_there() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let (_, record) = lab.run(STUDY);
    let header = &record.header;
    assert_eq!(lab.expect(0, &["--version"]).trim(), format!("tare {}", header.tare));
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        assert!(!trial.load.as_ref().unwrap().checks.is_empty(), "{arm} was verified");
    }
    let command = |name: &str| {
        let form = header.study.forms.iter().find(|form| form.name == name).unwrap();
        header.study.deployed(&header.workload, form).services.remove(0).command.join(" ")
    };
    assert!(command("native").contains("--appendonly no") && command("squeezed") == command("native"));
    assert!(command("durable").contains("--appendonly yes --appendfsync always"), "{}", command("durable"));
    assert_eq!(header.forms["durable"].describe, "plain process, persistence=always");
    assert_eq!(header.forms["squeezed"].describe, "plain process, cpu_quota=0.3, memory=96 MiB");

    let first = |form: &str| {
        let trials = record.trials.iter().map(|trial| &trial.record);
        trials.clone().find(|trial| trial.trial.form == form && !trial.trial.control).unwrap()
    };
    // They really apply: a third of a CPU is less than it would use alone, and writing to the disk means fewer answers.
    let throughput = |form: &str| first(form).metrics["throughput"];
    let cpus = throughput("squeezed") * first("squeezed").metrics["cpu_us_per_op"] / 1e6;
    assert!(cpus < 0.4, "{cpus} CPUs: {:?}", first("squeezed").metrics);
    assert!(throughput("durable") < throughput("native"), "{:?}", first("durable").metrics);
    let shown = flat(&lab.expect(0, &["report", text(&lab.path("record")), "--verbose"]));
    let asked = "set by the study: memory_limit_bytes (in squeezed)";
    assert!(shown.contains(asked) && shown.matches("memory_limit_bytes").count() == 1, "{shown}");
}
