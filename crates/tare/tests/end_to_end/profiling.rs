//! Profiled trials of a real server: counts match what it does, and stacks have names.

use crate::end_to_end::lab::{Lab, text};
use tare_core::profile::Profile;
use tare_core::record::TrialData;
use tare_core::trial::Outcome;

const STUDY: &str = "\
study: profiled
workload: redis
repeat: 1
design: blocks
load: {closed: {connections: 1, pipeline: 1}}
time: {settle: 500ms, measure: 1500ms}
profile: true
forms: {plain: [], boxed: [container: {}]}
";

/// How often a call was made by operation, by all that serves.
fn per_op(trial: &TrialData, profile: &Profile, call: &str) -> f64 {
    let load = trial.record.load.as_ref().expect("it was measured");
    let operations: u64 = load.operations.values().map(|operation| operation.count).sum();
    profile.calls.values().filter_map(|calls| calls.get(call)).sum::<f64>() / operations as f64
}

#[test]
fn a_server_reads_and_writes_once_an_operation_in_every_form_and_its_stacks_have_names() {
    let Some(lab) = Lab::with_engine(&["redis-server"]) else { return };
    let ((said, record), out) = (lab.run(STUDY), lab.path("record"));
    // Two forms and the control, and of each form one that is profiled.
    assert_eq!((record.trials.len(), record.profiles.len()), (3, 2));
    for trial in &record.profiles {
        let form = &trial.record.trial.form;
        assert_eq!(trial.record.outcome, Outcome::Measured, "{form}");
        let profile = trial.record.profile.as_ref().expect("it was profiled");
        if let Some((what, why)) = profile.missing.first_key_value() {
            println!("skipped: no {what}: {why}");
            return;
        }
        // With one connection each operation is waited for, read, and answered by itself.
        for call in ["read", "write", "epoll_wait"] {
            let times = per_op(trial, profile, call);
            println!("  {form}: {times:.4} {call} per operation");
            assert!((0.98..1.02).contains(&times), "{form}: {times} {call} per operation");
        }
        let met = |name: &str| profile.stacks.iter().any(|stack| stack.frames.iter().any(|frame| frame == name));
        assert!(met("redis") && met("redis-server") && met("tcp_sendmsg_[k]"), "{form}: {:?}", profile.stacks);
        // Functions of the program itself, by the symbols that it shows.
        let own = ["aeProcessEvents", "processCommand", "call", "lookupKey", "dictFind", "epoll_wait", "__write"];
        let named = own.iter().filter(|name| met(name)).count();
        assert!(named >= 2, "{form}: of the program's functions only {named} have names");
    }
    assert!(said.contains("profile  ") && said.contains("profiled trial of each form"), "{said}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Difference from plain"));
    // A record whose profiles are gone is resumed, and nothing that counts is run again.
    std::fs::remove_dir_all(out.join("profiles/0001")).unwrap();
    let again = lab.expect(0, &["resume", text(&out)]);
    assert!(again.contains("3 of 3 trials are on disk"), "{again}");
    assert_eq!(lab.record(&out).profiles.len(), 2);
}
