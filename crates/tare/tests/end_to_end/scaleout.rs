//! Several instances of a service, and several tiles of a workload: in every form, and when one of them dies.

use crate::end_to_end::lab::{Lab, flat, text};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tare_core::record::FAIRNESS;
use tare_core::trial::Outcome;

fn study(workload: &str, rest: &str) -> String {
    format!("study: several\nworkload: {workload}\nload: {{closed: {{connections: 4, pipeline: 5}}}}\n{rest}\n")
}

#[test]
fn servers_behind_a_proxy_share_the_keys_alike_natively_and_in_containers() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    shared_alike(&lab, "{native: [], container: [container: {}]}", 3);
}

#[test]
fn servers_behind_a_proxy_share_the_keys_alike_in_containers_in_guests() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "qemu-system-x86_64"]) else { return };
    shared_alike(&lab, "{native: [], nested: [vm: {guests: 2}, container: {}]}", 3);
}

/// Deploys balancer, proxy and two servers in each form, and asks where the keys are.
fn shared_alike(lab: &Lab, forms: &str, trials: usize) {
    let rest = "repeat: 1\ndesign: blocks\nemulated_blocks: 1\ntime: {settle: 0s, measure: 1s}\nparameters: {keys: 2000}\nforms: ";
    let (_, record) = lab.run(&study("redis-scaleout", &format!("{rest}{forms}")));
    assert_eq!(record.trials.len(), trials);
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        let ran: BTreeSet<&str> = trial.mapped.keys().map(String::as_str).collect();
        assert_eq!(ran, BTreeSet::from(["balancer", "proxy", "redis-1", "redis-2"]), "{arm}");
        assert_eq!(trial.mapped["redis-1"], trial.mapped["redis-2"], "{arm}");
        let checks = &trial.load.as_ref().unwrap().checks;
        let shares = checks.iter().find(|check| check.name == "keys on every server").unwrap();
        assert!(checks.len() >= 5 && shares.detail.starts_with("2 servers hold "), "{arm}: {checks:#?}");
        let held = ["vm.holds@1", "vm.holds@2"].map(|fact| trial.facts.get(fact).map(String::as_str));
        let guests = [Some("redis-1, redis-2"), Some("proxy, balancer")];
        assert_eq!(held, if arm.contains("nested") { guests } else { [None, None] }, "{arm}");
        // The hash goes by name: whatever their addresses, the servers hold the same keys everywhere.
        let first = record.trials[0].record.load.as_ref().unwrap();
        let same = first.checks.iter().find(|check| check.name == shares.name);
        assert_eq!(same.map(|check| &check.detail), Some(&shares.detail), "{arm}");
    }
}

/// Waits until a process whose command line holds `pattern` runs, lets it work for a moment, and kills it.
fn kill_at_work(pattern: &str) {
    let pkill = |signal: &str| Command::new("pkill").args([signal, "-f", pattern]).status().unwrap().success();
    let there = (0..2400).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        pkill("-0")
    });
    assert!(there, "nothing like '{pattern}' was started");
    // It is the last to be started, or those after it need less than this.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(pkill("-9"), "'{pattern}' has ended by itself");
}

#[test]
fn any_server_that_dies_under_load_is_named() {
    let Some(lab) = Lab::open(&["mmdebstrap", "pkill"]) else { return };
    let rest =
        "repeat: 2\ndesign: blocks\ntime: {settle: 0s, measure: 3s}\nparameters: {keys: 2000}\nforms: {native: []}";
    let (study, record) = (lab.write("several.yaml", study("redis-scaleout", rest)), lab.path("record"));
    let args = ["run", text(&study), "--out", text(&record)];
    let mut child = lab.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
    let events = record.join("events.jsonl");
    let begun = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().matches("\"trial-started\"").count();
    let victims =
        [("redis-2", "redis-server.*:6380"), ("proxy", "/usr/sbin/nutcracker"), ("balancer", "/usr/sbin/haproxy")];
    for (at, (_, pattern)) in victims.iter().enumerate() {
        while begun(&events) <= at {
            assert!(child.try_wait().unwrap().is_none(), "the run ended early");
            std::thread::sleep(Duration::from_millis(20));
        }
        kill_at_work(pattern);
    }
    assert_eq!(child.wait().unwrap().code(), Some(1));
    lab.expect_clean();
    let read = lab.record(&record);
    for ((victim, _), trial) in victims.iter().zip(&read.trials) {
        let Outcome::Failed { why, .. } = &trial.record.outcome else { panic!("{victim}: {:?}", trial.record.outcome) };
        let named = format!("service {victim} ended under load: killed by signal 9");
        assert!(why.message.contains(&named), "{victim}: {why:?}");
    }
    assert_eq!(read.trials[3].record.outcome, Outcome::Measured);
}

#[test]
fn tiles_are_loaded_side_by_side_and_told_apart() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let rest = "repeat: 1\ndesign: blocks\ntime: {settle: 0s, measure: 1s}\nparameters: {keys: 1000}\nforms: {one: {layers: [], \
                instances: 1}, two: {layers: [], instances: 2}, boxed: {layers: [container: {}], instances: 2}}";
    let (_, record) = lab.run(&study("redis", rest));
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        if trial.trial.form == "one" {
            assert!(trial.instances.is_empty() && trial.mapped.contains_key("redis"), "{arm}");
            continue;
        }
        let names: Vec<&str> = trial.instances.keys().map(String::as_str).collect();
        assert_eq!(names, ["redis-1", "redis-2"], "{arm}");
        let each: f64 = trial.instances.values().map(|metrics| metrics["throughput"]).sum();
        let all = trial.metrics["throughput"];
        assert!((each / all - 1.0).abs() < 0.05, "{arm}: {each} and {all} together");
        assert!((0.0..=1.0).contains(&trial.metrics[FAIRNESS]), "{arm}");
        // Each was asked for its own: the checks of both are there.
        let checks = &trial.load.as_ref().unwrap().checks;
        for name in names {
            assert!(checks.iter().any(|check| check.name.starts_with(&format!("{name}: "))), "{arm}: {checks:?}");
        }
    }
    let shown = flat(&lab.expect(0, &["report", text(&lab.path("record"))]));
    assert!(shown.contains("redis 2 for 1") && shown.contains("fairness"), "{shown}");
}
