//! What `tare power` says where nothing can be measured.

use crate::cli::{flat, said, tare};

#[test]
fn what_a_study_will_show_is_said_by_earlier_runs_or_how_to_find_out() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| tare().env("TARE_HOME", home.path()).args(args).output().unwrap();
    let plan = run(&["run", "canonical", "--dry-run"]);
    assert_eq!(plan.status.code(), Some(0), "{}", said(&plan));
    assert!(
        flat(&plan).contains("no earlier run of these forms here says it; `tare power` finds it out"),
        "{}",
        said(&plan)
    );
    let unknown = run(&["power", "canonical", "--dry-run"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
    assert!(flat(&unknown).contains("to do: leave --dry-run away"), "{}", said(&unknown));
    let peak = run(&["power", "peak", "--dry-run"]);
    assert_eq!(peak.status.code(), Some(2), "{}", said(&peak));
    assert!(flat(&peak).contains("to do: name a study that measures at one load"), "{}", said(&peak));
}
