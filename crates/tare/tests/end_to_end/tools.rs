//! An external tool inside the forms: the one that comes with Redis, in the bundle of its server.

use crate::end_to_end::lab::{Lab, said, text};
use tare_core::load::LoadOrigin;
use tare_core::trial::Outcome;

const WORKLOAD: &str = "\
workload: inner
about: redis-benchmark beside its server
services:
  redis:
    bundle: {packages: [redis-server]}
    command: [/usr/bin/redis-server, --bind, 0.0.0.0, --protected-mode, 'no', --dir, /data, --save, '']
    ports: {redis: 6379}
    volumes: {/data: 16MiB}
load:
  protocol:
    exec:
      where: inside
      directory: /data
      command: [redis-benchmark, -h, '${host}', -p, '${port}', -c, '${connections}', -t, set, -n, '100000']
";

const STUDY: &str = "\
study: inside
workload: ./inner
load: {closed: {connections: 8}}
time: {settle: 200ms, measure: 1s}
repeat: 1
forms: {native: [], container: [container]}
";

#[test]
fn a_tool_runs_inside_the_forms() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    lab.write("inner/workload.yaml", WORKLOAD);
    let (said, read) = lab.run(STUDY);
    assert!(said.contains("from inside the form"), "{said}");
    assert_eq!((read.trials.len(), read.header.study.from), (3, LoadOrigin::Inside));
    for trial in read.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        let load = trial.load.as_ref().unwrap();
        assert_eq!(load.operations["request"].count, 100_000, "{arm}");
        let command = &load.facts["tool.command"];
        assert!(command.starts_with("-h 127.0.0.1 -p 6379 -c 8"), "{arm}: {command}");
        assert!(load.facts["tool.version"].contains("redis-benchmark"), "{arm}: {:?}", load.facts);
        // The service has one CPU, and the tool runs on it too: what both used together is no more than it has.
        let wall_s = trial.metrics["throughput"].recip() * 100_000.0;
        let share = trial.metrics["cpu_us_per_op"] * 0.1 / wall_s;
        assert!(share < 1.25, "{arm}: {share} of a CPU, {:?}", load.inside);
        // And it is counted: a request takes two processes more than this, with four system calls.
        assert!(
            load.inside.unwrap().cpu_s.is_some() && trial.metrics["cpu_us_per_op"] > 2.0,
            "{arm}: {:?}",
            trial.metrics
        );
    }
}

const BESIDE: &str = r#"
workload: nobody
about: a tool beside the form that tells what it may do
services:
  redis:
    bundle: {packages: [redis-server]}
    command: [/usr/bin/redis-server, --bind, 0.0.0.0, --protected-mode, 'no', --dir, /data, --save, '']
    ports: {redis: 6379}
    volumes: {/data: 16MiB}
load:
  protocol:
    exec:
      parser: tare
      command:
        - /bin/sh
        - -c
        - |
          printf '{"seconds": 1, "operations": {"request": {"count": 10, "errors": 0}}, "facts": {' &&
          printf '"user": "%s", ' "$(id -u) $(id -G)" &&
          printf '"rights": "%s", ' "$(grep -E '^(CapPrm|CapInh|CapAmb|NoNewPrivs):' /proc/self/status | tr -s '\n\t' '  ')" &&
          printf '"secret": "%s", ' "$(env | grep -c SECRET)" &&
          printf '"writes": "%s", ' "$(touch /etc/tare-was-here 2>/dev/null && echo yes || echo no)" &&
          printf '"shadow": "%s"}}' "$(cat /etc/shadow >/dev/null && echo read || echo denied)"
"#;

/// A workload from elsewhere is no root shell.
#[test]
fn a_tool_beside_the_form_is_nobody() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    lab.write("nobody/workload.yaml", BESIDE);
    let study = STUDY.replace("./inner", "./nobody").replace(", container: [container]", "");
    let (study, record) = (lab.write("beside.yaml", study), lab.path("record"));
    let output = lab.command(&["run", text(&study), "--out", text(&record)]).env("SECRET", "s").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    lab.expect_clean();
    let read = lab.record(&record);
    let facts = &read.trials[0].record.load.as_ref().unwrap().facts;
    let user = tare_layers::least::LOAD_USER;
    assert_eq!(facts["user"], format!("{user} {user}"));
    assert_eq!(facts["rights"].matches("0000000000000000").count(), 3, "{facts:?}");
    assert!(facts["rights"].contains("NoNewPrivs: 1"), "{facts:?}");
    assert_eq!((facts["secret"].as_str(), facts["writes"].as_str(), facts["shadow"].as_str()), ("0", "no", "denied"));
}
