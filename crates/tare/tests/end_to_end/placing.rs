//! Services run where a study puts them, in every form; what the kernel was seen to do is in the record.

use crate::end_to_end::lab::{Lab, text};
use tare_core::record::Record;
use tare_core::telemetry::TelemetryRow;
use tare_core::trial::Outcome;
use tare_core::units::CpuSet;

/// Two services that never rest, and a tool that only waits: all CPUs of the machine are services'.
const BUSY: &str = "\
workload: busy
services:
  left:
    bundle: {packages: [dash]}
    command: [/bin/sh, -c, 'echo ready; while :; do :; done']
    ready: {log: ready}
    stop_within: 0s
  right:
    bundle: {packages: [dash]}
    command: [/bin/sh, -c, 'echo ready; while :; do :; done']
    ready: {log: ready}
    stop_within: 0s
load:
  service: left
  protocol:
    exec:
      where: inside
      parser: tare
      settle: false
      within: 60s
      command: [/bin/sh, -c, 'n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done;
        echo ''{\"seconds\": 1, \"operations\": {\"wait\": {\"count\": 3}}}''']
";

fn study(placement: &str, forms: &str) -> String {
    format!(
        "study: placed\nworkload: ./busy\nload: {{closed: {{connections: 1}}}}\nrepeat: 1\n\
         time: {{settle: 0s, measure: 1s}}\nplacement: {placement}\nforms: {forms}\n"
    )
}

fn run(lab: &Lab, placement: &str, forms: &str) -> Record {
    lab.write("busy/workload.yaml", BUSY);
    lab.run(&study(placement, forms)).1
}

fn set(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap()
}

#[test]
fn services_run_on_their_own_cpus_natively_and_in_containers() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    on_their_own_cpus(&lab, "container", "[container: {network: host}]");
}

#[test]
fn services_run_on_their_own_cpus_in_a_guest() {
    let Some(lab) = Lab::open(&["mmdebstrap", "qemu-system-x86_64"]) else { return };
    on_their_own_cpus(&lab, "vm", "[vm: {}]");
}

/// Places two services in plain processes and in a form, and sees where they ran.
fn on_their_own_cpus(lab: &Lab, form: &str, layers: &str) {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return println!("skipped: two services on CPUs of their own need two CPUs");
    }
    // Against the order in which they would come otherwise, so that nothing is right by chance.
    let placement = "{memory: local, services: {left: {cpus: \"1\"}, right: {cpus: \"0\"}}}";
    let record = run(lab, placement, &format!("{{native: [], {form}: {layers}}}"));
    assert_eq!(record.trials.len(), 3);
    for trial in record.trials.iter().map(|trial| &trial.record) {
        assert_eq!(trial.outcome, Outcome::Measured, "{}", trial.trial.arm());
        let ran_on = |service: &str| trial.ran_on[service].clone();
        // The guest has two virtual CPUs, the first on CPU 0.
        assert_eq!([ran_on("left"), ran_on("right")], [set("1"), set("0")], "{}", trial.trial.arm());
    }
    for trial in &record.trials {
        // Nearly all that it used was seen on its CPU: what was not is what it used before the first look. In what the
        // other used there is the tool's, which is no child of it.
        let rows: Vec<_> = trial.telemetry.iter().filter(|row| row.scope == "right").collect();
        let grown = |metric: &str| {
            let of = |row: &TelemetryRow| row.values.get(metric).copied().unwrap_or(0.0);
            of(rows.last().unwrap()) - of(rows.first().unwrap())
        };
        let (used, there) = (grown("cpu_total_s"), grown("cpu_on_s@0"));
        assert!(there > 0.7 * used && used > 0.1, "{}: {there} of {used} s", trial.record.trial.arm());
    }
    let places = &record.header.forms[form].placement.as_ref().unwrap().services;
    assert_eq!((places["left"].cpus.clone(), places["right"].cpus.clone()), (set("1"), set("0")));
    let shown = lab.expect(0, &["report", text(&lab.path("record")), "--verbose"]);
    assert!(shown.contains("left: CPUs 1") && shown.contains("right: CPUs 0"), "{shown}");
}

#[test]
fn free_services_use_all_cpus_and_unmet_requests_are_refused() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let record =
        run(&lab, "{policy: free}", "{native: [], one: {layers: [], placement: {cpus: \"0\", over_commit: true}}}");
    for trial in record.trials.iter().map(|trial| &trial.record) {
        assert_eq!(trial.outcome, Outcome::Measured, "{}", trial.trial.arm());
        if trial.trial.form == "one" {
            assert_eq!([&trial.ran_on["left"], &trial.ran_on["right"]], [&set("0"), &set("0")]);
        }
    }
    let free = &record.header.forms["native"].placement.as_ref().unwrap().services["left"];
    assert!(free.free && free.cpus.len() == std::thread::available_parallelism().unwrap().get(), "{free:?}");
    for (placement, why) in [
        ("{services: {left: {cpus: \"0\"}, right: {cpus: \"0\"}}}", "'right': CPUs 0 serve another service"),
        ("{cpus: \"4000\"}", "CPUs 4000 are not there"),
        ("{near: eth99}", "'eth99', which is not a device here"),
        ("{aside: {hypervisor: 4000}}", "4000 CPUs are to be kept aside"),
        ("{services: {middle: core}}", "'middle'"),
    ] {
        let study = lab.write("refused.yaml", study(placement, "{native: []}"));
        let said = lab.expect(2, &["run", text(&study), "--out", text(&lab.path("refused"))]);
        assert!(said.contains(why), "{placement}: {said}");
    }
    lab.expect_clean();
}
