//! The main job: one Redis, weighed in every form.

use crate::end_to_end::lab::{Lab, flat, said, text};
use serde_json::Value;
use std::path::Path;
use tare_core::ladder::Place;
use tare_core::trial::Outcome;

/// Runs the program until all that it measured counts. Where others take CPU time from a generator that has one CPU, a
/// trial is void, as it should be, and says nothing of what is asked here; three times in a row it is no accident.
fn undisturbed(lab: &Lab, args: &[&str], record: &Path) -> String {
    for _ in 0..2 {
        let output = lab.tare(args);
        lab.expect_clean();
        let said = said(&output);
        if output.status.code() == Some(0) || !said.contains("the generator was the limit") {
            assert_eq!(output.status.code(), Some(0), "{said}");
            return said;
        }
        std::fs::remove_dir_all(record).unwrap();
    }
    let said = lab.expect(0, args);
    lab.expect_clean();
    said
}

#[test]
fn a_published_port_is_explained_rung_by_rung() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let record = lab.path("record");
    // With `TARE_THOROUGH` all rungs side by side, which is how they are weighed by default, and takes thrice as long.
    let design = if std::env::var_os("TARE_THOROUGH").is_some() { "chop" } else { "blocks" };
    let args = ["explain", "loopback", "--form", "published", "--design", design, "--repeat", "1"];
    let times = ["--settle", "0s", "--measure", "1s", "--out", text(&record)];
    let said = undisturbed(&lab, &[&args[..], &times[..]].concat(), &record);
    assert!(said.contains("ladder from native to published"), "{said}");
    let read = lab.record(&record);
    assert_eq!(read.trials.len(), 11, "nine rungs, the baseline and its control");
    assert!(read.trials.iter().all(|trial| trial.record.outcome == Outcome::Measured));
    let json = lab.report(&record);
    let throughput = &json["analysis"]["ladder"]["metrics"][0];
    let rungs = throughput["rungs"].as_array().unwrap();
    let ratio = |rung: &Value| rung["cost"]["ratio"].as_f64().unwrap();
    let costliest = rungs.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b))).unwrap();
    // The proxy copies every byte in user land: it halves the throughput at least, on any machine.
    assert_eq!(costliest["form"], "published", "{throughput:#}");
    assert_eq!(costliest["adds"][0], "user-land proxy instead of translation");
    let product: f64 = rungs.iter().map(ratio).product();
    assert!((product / throughput["together"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{throughput:#}");
}

#[test]
fn a_feature_is_weighed_in_the_places_where_it_can_stand() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let record = lab.path("record");
    let args = ["explain", "loopback", "--form", "published", "--orders", "--design", "blocks", "--repeat", "3"];
    let times = ["--settle", "0s", "--measure", "1s", "--out", text(&record)];
    let output = lab.tare(&[&args[..], &times[..]].concat());
    lab.expect_clean();
    let said = flat(&said(&output));
    // Of so many trials some are void where others take CPU time from the generator, and their block is run again.
    let void = output.status.code() == Some(1) && said.contains("the generator was the limit");
    assert!(output.status.code() == Some(0) || void, "{said}");
    assert!(said.contains("ladder from native to published"), "{said}");
    assert!(said.contains("times as much as first") && !said.contains("other orders were"), "{said}");
    let read = lab.record(&record);
    let ladder = read.header.study.ladder.as_ref().unwrap();
    assert!(ladder.turned.len() >= 4, "{ladder:?}");
    let json = lab.report(&record);
    let metrics = json["analysis"]["ladder"]["metrics"].as_array().unwrap();
    let rungs = || metrics.iter().flat_map(|metric| metric["rungs"].as_array().unwrap());
    let mut in_both = 0;
    for rung in rungs() {
        let is_turned = |place: Place| ladder.turned.iter().any(|it| rung["form"] == it.rung && it.place == place);
        let is_told = |place: &str| rung["orders"][place]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0);
        let places = [is_turned(Place::First), is_turned(Place::Last)];
        assert_eq!([is_told("first"), is_told("last")], places, "{rung:#}");
        in_both += usize::from(places == [true, true]);
    }
    assert!(in_both >= metrics.len(), "a feature stood first and last: {metrics:#?}");
    // The proxy makes a whole of which there are shares; where the generator was the limit it is CPU time alone.
    let share = |rung: &Value| {
        let share = &rung["orders"]["share"];
        Some((share["low"].as_f64()?, share["high"].as_f64()?))
    };
    let shares: Vec<(f64, f64)> = rungs().filter_map(share).collect();
    assert!(!shares.is_empty() && shares.iter().all(|(low, high)| low <= high), "{metrics:#?}");
}

#[test]
fn redis_is_weighed_natively_and_in_containers() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let record = lab.path("record");
    let args = ["run", "--design", "blocks", "--form", "container", "--form", "container-hostnet", "--repeat", "3"];
    let said = undisturbed(
        &lab,
        &[&args[..], &["--measure", "1s", "--settle", "100ms", "--out", text(&record)]].concat(),
        &record,
    );
    assert!(said.contains("report.html"), "{said}");
    let read = lab.record(&record);
    assert_eq!(read.trials.len(), 3 * 4, "three forms and the control, three times");
    for trial in &read.trials {
        let record = &trial.record;
        assert_eq!(record.outcome, Outcome::Measured, "{}", record.trial.arm());
        assert!(record.metrics["throughput"] > 100.0, "{:?}", record.metrics);
        assert!(record.metrics.contains_key("cpu_us_per_op"), "{:?}", record.metrics);
        let load = record.load.as_ref().unwrap();
        assert!(load.checks.len() >= 3 && load.checks.iter().all(|check| check.passed), "{:?}", load.checks);
        assert!(!trial.seconds.is_empty() && !trial.telemetry.is_empty());
        assert!(
            record.mapped["redis"]
                .iter()
                .any(|file| file.path.ends_with("redis-check-rdb") || file.path.contains("redis"))
        );
    }
    let bits: Vec<_> = read.trials.iter().map(|trial| &trial.record.mapped).collect();
    assert!(bits.windows(2).all(|pair| pair[0] == pair[1]), "all forms run the same files");
    let json = lab.report(&record);
    assert!(json.pointer("/analysis/metrics").is_some(), "{json:#}");
    let csv = lab.expect(0, &["report", text(&record), "--format", "csv"]);
    assert!(csv.lines().count() > 12 * 4, "{csv}");
    let page = std::fs::read_to_string(record.join("report.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("http://") || page.contains("www.w3.org"), "self-contained");
    assert!(lab.expect(0, &["resume", text(&record)]).contains("every trial is on disk"));
    assert!(lab.expect(0, &["history"]).contains(&read.header.run));
    let compared = lab.expect(0, &["compare", text(&record), text(&record)]);
    assert!(compared.contains("throughput"), "{compared}");
    let table = lab.expect(0, &["report", text(&record), "--verbose"]);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("same bits  redis: yes"), "{table}");
    let words: Vec<&str> = table.split_whitespace().collect();
    let compared = words.windows(4).find(|four| four[1..] == ["files", "of", "its"]);
    let compared = compared.and_then(|four| four[0].parse().ok());
    assert!(compared.is_some_and(|files: u64| files > 1000), "a whole distribution is in the bundle: {table}");
}

#[test]
fn redis_is_weighed_in_a_guest() {
    weighed_in_a_guest("vm");
}

#[test]
fn redis_is_weighed_in_a_container_in_a_guest() {
    weighed_in_a_guest("vm+container");
}

fn weighed_in_a_guest(form: &str) {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "qemu-system-x86_64"]) else { return };
    let record = lab.path("record");
    let args = ["run", "--design", "blocks", "--form", form, "--repeat", "1", "--measure", "2s", "--settle", "100ms"];
    let args = [&args[..], &["--out", text(&record)]].concat();
    let output = lab.tare(&args);
    let said = said(&output);
    lab.expect_clean();
    let read = lab.record(&record);
    for trial in &read.trials {
        let record = &trial.record;
        assert_eq!(record.outcome, Outcome::Measured, "{}: {said}", record.trial.arm());
    }
    assert_eq!(read.trials.len(), 3, "two forms and the control");
    let guests: Vec<_> = read.trials.iter().filter(|trial| trial.record.trial.form == form).collect();
    assert_eq!(guests.len(), 1);
    for trial in guests {
        let vantages: std::collections::BTreeSet<_> = trial.telemetry.iter().map(|row| row.vantage).collect();
        assert_eq!(vantages.len(), 2, "a guest is seen from inside and from outside");
        assert_eq!(trial.record.mapped, read.trials[0].record.mapped, "the guest runs the same files");
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let table = lab.expect(0, &["report", text(&record), "--verbose"]);
    let emulated = read.header.forms[form].emulated.is_some();
    assert_eq!(table.contains("EMULATED"), emulated, "{table}");
}

#[test]
fn an_interrupt_takes_the_trial_down_and_keeps_what_was_measured() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let record = lab.path("record");
    let times = ["--settle", "100ms", "--measure", "1s"];
    let args =
        [&["run", "--design", "blocks", "--form", "native", "--repeat", "2"], &times[..], &["--out", text(&record)]]
            .concat();
    lab.interrupt(&args, &record.join("trials/0001/trial.json"), std::time::Duration::from_millis(800));
    let kept = lab.record(&record);
    assert!(kept.trials.len() >= 2 && kept.trials.len() < 4, "{}", kept.trials.len());
    assert_eq!(kept.end.as_ref().unwrap().how, "interrupted");
    lab.expect(0, &["resume", text(&record)]);
    let whole = lab.record(&record);
    assert_eq!(whole.trials.len(), 4);
    assert_eq!(whole.trials[..kept.trials.len()], kept.trials[..], "what was kept is untouched");
    assert_eq!(whole.end.unwrap().how, "complete");
}
