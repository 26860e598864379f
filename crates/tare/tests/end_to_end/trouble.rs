//! Failures of real life: each ends in a message that names the form, the stage and the cause, and the other trials
//! continue.

use crate::end_to_end::lab::{Lab, flat, said, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use tare_core::trial::{Outcome, Stage};

const STUDY: &str = "\
study: trouble
workload: ./sick
load: {closed: {connections: 4}}
time: {settle: 100ms, measure: 3s, timeout: 2s}
repeat: 1
forms: {native: [], hostnet: [container: {network: host}]}
";

/// A Redis with something wrong.
const SICK: &str = "\
workload: sick
services:
  redis:
    bundle: {packages: [redis-server]}
    command: [/usr/bin/redis-server, --bind, 0.0.0.0, --protected-mode, 'no', --port, '7003', --save, '', --dir, /data
      ARGUMENTS]
    ports: {redis: 7003}
    volumes: {/data: 16MiB}
    resources: {memory: 64MiB}
EXTRA
load:
  protocol: {redis: {keys: 1000}}
";

fn workload(lab: &Lab, arguments: &str, extra: &str) -> PathBuf {
    lab.write("sick/workload.yaml", SICK.replace("ARGUMENTS", arguments).replace("EXTRA", extra));
    lab.write("trouble.yaml", STUDY)
}

/// Runs the study and returns how each form's trial ended; every planned trial has a row.
fn outcomes(lab: &Lab, study: &Path, code: i32) -> Vec<(String, Outcome, String)> {
    let record = lab.path("record");
    let _ = std::fs::remove_dir_all(&record);
    lab.expect(code, &["run", text(study), "--out", text(&record)]);
    lab.expect_clean();
    let trials = lab.record(&record).trials.into_iter().map(|trial| trial.record);
    let mut ended: Vec<_> = trials
        .map(|record| {
            let log = record.logs.values().cloned().collect::<String>();
            (record.trial.arm(), record.outcome, log)
        })
        .collect();
    ended.sort_by(|a, b| a.0.cmp(&b.0));
    // The checks that follow go over all rows: without rows they would pass too.
    let arms: Vec<&str> = ended.iter().map(|(arm, ..)| arm.as_str()).collect();
    assert_eq!(arms, ["hostnet", "native", "native (A/A)"]);
    ended
}

#[test]
fn a_service_that_does_not_start_is_a_failed_trial_with_its_log() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let study = workload(&lab, ", --no-such-option, x", "");
    for (arm, outcome, log) in outcomes(&lab, &study, 1) {
        let Outcome::Failed { stage: Stage::Deploy, why } = outcome else { panic!("{arm}: {outcome:?}") };
        assert!(why.message.contains("redis") && why.message.contains("ended"), "{arm}: {why}");
        assert!(why.log.contains("no-such-option") || log.contains("no-such-option"), "{arm}: {why:?} {log}");
    }
}

#[test]
fn a_service_that_never_becomes_ready_is_given_up_in_time() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let study = workload(&lab, "", "    ready: {log: these words never come, within: 2s}\n");
    for (arm, outcome, _) in outcomes(&lab, &study, 1) {
        let Outcome::Failed { stage: Stage::Deploy, why } = outcome else { panic!("{arm}: {outcome:?}") };
        assert!(why.message.contains("not ready within") && !why.log.is_empty(), "{arm}: {why:?}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let study = workload(&lab, "", "");
    let _taken = std::net::TcpListener::bind("0.0.0.0:7003").unwrap();
    for (arm, outcome, _) in outcomes(&lab, &study, 1) {
        let Outcome::Failed { why, .. } = outcome else { panic!("{arm}: {outcome:?}") };
        // Any failure may name its port and log; this message says that somebody else uses the port.
        let says = if arm == "hostnet" {
            ":7003, which service 'redis' needs, is in use already"
        } else {
            "port 7003 (redis) is already in use on this host, by process"
        };
        assert!(why.message.contains(says), "{arm}: {why:?}");
    }
}

#[test]
fn a_service_that_dies_under_load_is_named() {
    let Some(lab) = Lab::open(&["mmdebstrap", "pkill"]) else { return };
    let study = workload(&lab, "", "");
    let record = lab.path("record");
    let args = ["run", text(&study), "--form", "native", "--out", text(&record)];
    let mut child = lab.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
    // The first trial is killed once, in the middle of its measurement; the second must go on untouched.
    let events = record.join("events.jsonl");
    while !std::fs::read_to_string(&events).unwrap_or_default().contains("\"trial-started\"") {
        assert!(child.try_wait().unwrap().is_none(), "the run ended early");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let killed = Command::new("pkill").args(["-9", "-f", "redis-server.*:7003"]).status().unwrap();
    assert!(killed.success(), "there was no service to kill");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    lab.expect_clean();
    let read = lab.record(&record);
    let first = &read.trials[0].record.outcome;
    let Outcome::Failed { why, .. } = first else { panic!("{first:?}") };
    assert!(why.message.contains("redis") && why.message.contains("killed by signal 9"), "{why:?}");
    assert_eq!(read.trials[1].record.outcome, Outcome::Measured);
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_written() {
    let Some(lab) = Lab::open(&["mmdebstrap", "mount"]) else { return };
    let study = workload(&lab, "", "");
    let disk = lab.path("small");
    std::fs::create_dir_all(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=48k", "none"]).arg(&disk).status().unwrap();
    assert!(mounted.success());
    let record = disk.join("record");
    let args = ["run", text(&study), "--form", "native", "--repeat", "9", "--measure", "1s", "--out", text(&record)];
    let output = lab.tare(&args);
    lab.expect_clean();
    let said = said(&output);
    let header_is_whole = !record.join("record.json").exists() || tare_runner::read_record(&record).is_ok();
    let _ = Command::new("umount").arg(&disk).status();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let said = flat(&said);
    assert!(said.contains("No space left") && said.contains("free some space"), "{said}");
    assert!(header_is_whole, "whatever is on the disk is whole");
}
