//! Predicts what a study will show on this machine: real servers, a short calibration, and nothing left of it.

use crate::end_to_end::lab::{Lab, text};
use serde_json::Value;
use std::process::Stdio;

const STUDY: &str = "\
study: foreseen
workload: redis
design: chop
load: {closed: {connections: 10, pipeline: 1}}
time: {settle: 200ms, measure: 1s}
forms: {plain: [], hosted: [container: {network: host}]}
";

#[test]
fn a_calibration_predicts_widths_and_leaves_nothing() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let study = lab.write("foreseen.yaml", STUDY);
    let told: Value = {
        let output = lab.tare(&["power", text(&study), "--deployments", "3", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    lab.expect_clean();
    assert!(!home().join("calibration").exists(), "its record is gone");
    let rows = told["rows"].as_array().unwrap();
    let of = |row: &Value| (row["arm"].as_str().unwrap().to_owned(), row["metric"].as_str().unwrap().to_owned());
    let metrics = ["throughput", "p50_us", "cpu_busy_us_per_op"];
    let wanted: Vec<(String, String)> =
        metrics.iter().map(|metric| ("hosted".to_owned(), (*metric).to_owned())).collect();
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), wanted);
    let blocks: Vec<u64> = told["blocks"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
    assert!(blocks[0] < blocks[1] && blocks[1] < blocks[2], "{blocks:?}");
    for row in rows {
        let half_hour = &row["half_widths"][2];
        let of = |name: &str| half_hour[name].as_f64().unwrap();
        assert!(0.0 < of("low") && of("low") <= of("likely") && of("likely") <= of("high"), "{row}");
        assert!(row["between"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{row}");
    }

    // A run of the study narrows the ranges, and its plan uses what it saw.
    let out = lab.path("record");
    lab.expect(0, &["run", text(&study), "--repeat", "6", "--out", text(&out)]);
    let said = lab.expect(0, &["run", text(&study), "--dry-run"]);
    assert!(said.contains("half-widths") && said.contains("earlier run"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

#[test]
fn an_interrupted_calibration_leaves_nothing() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let study = lab.write("foreseen.yaml", STUDY.replace("[container: {network: host}]", "[]"));
    let mut command = lab.command(&["power", text(&study), "--deployments", "50"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let record = home().join("calibration/trials");
    for _ in 0..600 {
        let trials = std::fs::read_dir(&record).map_or(0, Iterator::count);
        if trials > 0 || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(130), true), "{said}");
    lab.expect_clean();
    assert!(!home().join("calibration").exists(), "{said}");
}

fn home() -> std::path::PathBuf {
    std::env::var_os("TARE_HOME").map_or_else(|| "/var/lib/tare".into(), Into::into)
}
