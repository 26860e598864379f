//! `tare place`: placements are really measured, the outcome is in the record, and an interrupted search goes on.

use crate::end_to_end::lab::{Lab, flat, text};
use serde_json::Value;
use std::time::Duration;

/// The shipped workload whose tool runs inside the form, so that every CPU serves, and that is over in seconds.
fn write(lab: &Lab) -> String {
    let shipped = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/redis-benchmark/workload.yaml"),
    )
    .unwrap();
    let inside = shipped.replace("      within: 60s\n", "      within: 60s\n      where: inside\n");
    let short = inside.replace("\"3000000\"", "\"50000\"");
    assert!(inside != shipped && short != inside, "the shipped workload has changed");
    lab.write("inner/workload.yaml", short.replace("workload: redis-benchmark", "workload: inner"));
    let study = "study: s\nworkload: ./inner\nload: {closed: {connections: 10}}\ntime: {settle: 0s, measure: 1s}\n\
                 forms: {native: []}\n";
    text(&lab.write("s.yaml", study)).to_owned()
}

/// Whether there is something to choose.
fn several_cpus() -> bool {
    let several = std::thread::available_parallelism().unwrap().get() > 1;
    if !several {
        println!("skipped: on one CPU there is one placement");
    }
    several
}

#[test]
fn a_search_measures_what_it_ranks_and_says_what_it_found() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    if !several_cpus() {
        return;
    }
    let (study, path) = (write(&lab), lab.path("record"));
    let output = lab.tare(&["place", &study, "--repeat", "3", "--top", "1", "--json", "--out", text(&path)]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    lab.expect_clean();
    let record = lab.record(&path);
    let trials = &record.trials;
    // Two placements and the A/A control, in three blocks; a machine that is used for other things may void one.
    assert!(trials.len() >= 9, "{}", trials.len());
    let free = &record.header.forms["free"].placement.as_ref().unwrap().services["redis"];
    let thread = &record.header.forms["thread"].placement.as_ref().unwrap().services["redis"];
    assert!(free.free && free.cpus.len() > thread.cpus.len() && thread.cpus.len() == 1, "{free:?} {thread:?}");
    // The kernel is asked once a second: of a short trial it may have told nothing.
    let pinned = trials.iter().filter(|trial| trial.record.trial.form == "thread");
    let ran_on: Vec<_> = pinned.filter_map(|trial| trial.record.ran_on.get("redis")).collect();
    assert!(!ran_on.is_empty() && ran_on.iter().all(|cpus| **cpus == thread.cpus), "{ran_on:?}");
    assert_eq!((&found["place_schema"], &found["metric"]), (&Value::from(1), &Value::from("throughput")));
    let contest = &found["contest"];
    assert_eq!(contest["leads"].as_array().unwrap().len(), 1, "{found:#}");
    assert!(contest["leads"][0]["interval"]["low"].as_f64().unwrap() > 0.0, "{found:#}");
    let name = found["choice"]["name"].as_str().unwrap();
    assert_eq!(found["settings"].as_object().unwrap().is_empty(), name == "free", "{found:#}");
    assert!(path.join("report.html").is_file());
    assert!(record.header.command.starts_with("tare place ") && record.header.command.contains("--top 1"));
}

#[test]
fn an_interrupted_search_is_on_disk_and_goes_on() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    if !several_cpus() {
        return;
    }
    let (study, path) = (write(&lab), lab.path("record"));
    let args = ["place", &study, "--repeat", "2", "--top", "1", "--out", text(&path)];
    let said = lab.interrupt(&args, &path.join("trials/0000/trial.json"), Duration::ZERO);
    let flat = flat(&said);
    assert!(flat.contains("what was measured is on disk") && flat.contains("tare resume"), "{said}");
    let there = lab.record(&path).trials.len();
    assert!((1..6).contains(&there), "{there} trials");
    let said = lab.expect(0, &["resume", text(&path)]);
    assert!(said.contains("free"), "{said}");
    assert_eq!(lab.record(&path).trials.len(), 6);
    lab.expect_clean();
}

#[test]
fn the_message_says_if_there_is_nothing_to_choose() {
    let Some(lab) = Lab::open(&[]) else { return };
    if std::thread::available_parallelism().unwrap().get() != 2 {
        return println!("skipped: with other than two CPUs there is something to choose");
    }
    let said = lab.expect(0, &["place", "canonical"]);
    let flat = flat(&said);
    assert!(flat.contains("nothing to choose") && flat.contains("Nothing was measured"), "{said}");
}
