//! What `tare power` prints when nothing can be measured.

use crate::cli::{flat, said, tare};

#[test]
fn without_earlier_runs_the_message_says_how_to_get_a_prediction() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| tare().env("TARE_HOME", home.path()).args(args).output().unwrap();
    let plan = run(&["run", "canonical", "--dry-run"]);
    assert_eq!(plan.status.code(), Some(0), "{}", said(&plan));
    assert!(
        flat(&plan).contains("no earlier run on this machine has these forms; `tare power` finds out"),
        "{}",
        said(&plan)
    );
    let unknown = run(&["power", "canonical", "--dry-run"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
    assert!(flat(&unknown).contains("to do: omit --dry-run"), "{}", said(&unknown));
    let peak = run(&["power", "peak", "--dry-run"]);
    assert_eq!(peak.status.code(), Some(2), "{}", said(&peak));
    assert!(flat(&peak).contains("to do: name a study that measures at one load"), "{}", said(&peak));
}
