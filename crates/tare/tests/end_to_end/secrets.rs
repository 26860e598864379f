//! A secret by reference, with real services, while another run waits for the machine.

use crate::end_to_end::lab::{Lab, said, text};
use std::path::Path;
use std::process::Stdio;
use tare_core::trial::Outcome;

const SECRET: &str = "correct-horse-battery-staple";

/// A service that says what it was told, and is ready when that is as long as the secret: 28 characters, not the 24 of
/// the reference.
const WORKLOAD: &str = "\
workload: keeper
services:
  keeper:
    bundle: {packages: [dash]}
    command: [/bin/sh, -c, 'echo \"it is $TOKEN\"; [ ${#TOKEN} = 28 ] && echo ready; while :; do sleep 1; done']
    environment: {TOKEN: '${{env.TARE_TEST_TOKEN}}'}
    ready: {log: ready}
load:
  protocol:
    exec:
      where: inside
      parser: tare
      settle: false
      command: [/bin/sh, -c, 'echo ''{\"seconds\": 1, \"operations\": {\"keep\": {\"count\": 3}}}''']
";

const STUDY: &str = "\
study: kept
workload: ./keeper
load: {closed: {connections: 1}}
time: {settle: 0s, measure: 1s}
repeat: 1
forms: {native: [], container: [container]}
";

/// Whether any file below `folder` holds `needle`.
fn is_found(folder: &Path, needle: &str) -> bool {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| match path.is_dir() {
        true => is_found(&path, needle),
        false => std::fs::read(&path).unwrap().windows(needle.len()).any(|part| part == needle.as_bytes()),
    })
}

#[test]
fn a_secret_reaches_real_services_and_no_record_while_another_run_waits() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    lab.write("keeper/workload.yaml", WORKLOAD);
    let study = lab.write("kept.yaml", STUDY);
    let (first, second) = (lab.path("first"), lab.path("second"));
    let run = |record: &Path, more: &[&str]| {
        let mut run = lab.command(&["run", text(&study), "--out", text(record)]);
        run.args(more).env("TARE_TEST_TOKEN", SECRET).stdout(Stdio::piped()).stderr(Stdio::piped());
        run.spawn().unwrap()
    };
    let mut holder = run(&first, &[]);
    while !first.join("record.json").exists() {
        assert!(holder.try_wait().unwrap().is_none(), "the first run has ended before it began");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let refused = run(&lab.path("refused"), &[]).wait_with_output().unwrap();
    assert_ne!(refused.status.code(), Some(0));
    let refused = said(&refused).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(refused.contains("--wait") && refused.contains(&format!("(process {}", holder.id())), "{refused}");
    let waited = run(&second, &["--wait"]).wait_with_output().unwrap();
    assert_eq!(waited.status.code(), Some(0), "{}", said(&waited));
    assert_eq!(holder.try_wait().unwrap().and_then(|status| status.code()), Some(0), "it was not waited for");
    lab.expect_clean();
    for record in [&first, &second] {
        let read = lab.record(record);
        assert_eq!(read.trials.len(), 3);
        for trial in &read.trials {
            assert_eq!(trial.record.outcome, Outcome::Measured, "{}", trial.record.trial.arm());
        }
        assert!(!is_found(record, SECRET), "{}", record.display());
    }
    // Nor does what was said, or what is left of the run, hold it.
    assert!(!said(&waited).contains(SECRET));
}
