//! `kill -9` at any moment, of one process or of all, then `clean` or `resume`: nothing is left, nothing is lost, and
//! nothing of anybody else is touched.

use crate::end_to_end::canaries::Canaries;
use crate::end_to_end::lab::{Lab, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tare_core::trial::Outcome;

/// How often runs are killed, and of how many blocks each is: run after run, until all kills are done. `TARE_KILLS`
/// says how often; 300 meet each moment of a trial, and take a quarter of an hour.
fn kills() -> (u64, &'static str) {
    if let Some(kills) = std::env::var_os("TARE_KILLS") {
        return (kills.to_str().and_then(|kills| kills.parse().ok()).expect("TARE_KILLS is a number"), "4");
    }
    if std::env::var_os("TARE_THOROUGH").is_some() { (60, "4") } else { (4, "2") }
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_whole() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    let home = std::env::var_os("TARE_HOME").map_or_else(|| PathBuf::from("/var/lib/tare"), PathBuf::from);
    let (kills, blocks) = kills();
    // The bundle is there before the first kill, so that kills fall into trials too.
    lab.expect(0, &["bundle", "build", "--workload", "redis"]);
    let mut canaries = Canaries::set_out(&home);
    let (mut record, mut whole) = (lab.path("record-0"), 0);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for kill in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let begun = record.join("record.json").exists();
        // In turn this process alone, whose others then find themselves alone, and all of them at once.
        let whom = if kill % 3 == 2 { Whom::All } else { Whom::First };
        let ended = killed(&lab, &record, blocks, Duration::from_millis(50 + random % 4000), whom);
        // Half of the time the host is cleaned by hand, else by the resume that follows.
        if kill % 2 == 0 || !record.join("record.json").exists() {
            lab.expect(0, &["clean"]);
            lab.expect_clean();
        }
        canaries.expect_untouched();
        if begun && ended {
            ends_whole(&lab, &record);
            whole += 1;
            record = lab.path(&format!("record-{}", kill + 1));
        }
    }
    if record.join("record.json").exists() {
        ends_whole(&lab, &record);
        whole += 1;
    }
    assert!(whole > 0, "no run has come as far as its record");
    canaries.expect_untouched();
}

/// Which processes of a run are killed.
#[derive(Clone, Copy, PartialEq)]
enum Whom {
    /// The one that was started.
    First,
    /// It and all that it has started: the load, samplers, plain services.
    All,
}

/// All processes that this one has started, and those that they have, the later ones first.
fn started_by(pid: u32) -> Vec<String> {
    let children = |of: &str| {
        let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
        let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let mut all = children(&pid.to_string());
    let mut at = 0;
    while let Some(next) = all.get(at) {
        let more = children(next);
        all.extend(more);
        at += 1;
    }
    all.reverse();
    all
}

/// Begins a run, or takes it up again, and kills it after a while; whether it had ended by itself.
fn killed(lab: &Lab, record: &Path, blocks: &str, after: Duration, whom: Whom) -> bool {
    let quick = ["--settle", "100ms", "--measure", "1s", "--form", "container", "--repeat", blocks, "--seed", "3"];
    let first = [&["run", "--design", "blocks"], &quick[..], &["--out", text(record)]].concat();
    let resume = ["resume", text(record)];
    let mut child = lab.command(if record.join("record.json").exists() { &resume } else { &first });
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let ended = child.try_wait().unwrap().is_some();
    if whom == Whom::All {
        let others = started_by(child.id());
        // In one call, so that none sees another one's end. Some have ended by now.
        let _ = Command::new("kill").arg("-9").arg(child.id().to_string()).args(others).stderr(Stdio::null()).status();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    ended
}

/// The run is taken up a last time, and its record is as that of one that nobody has killed.
fn ends_whole(lab: &Lab, record: &Path) {
    lab.expect(0, &["resume", text(record)]);
    lab.expect_clean();
    let read = lab.record(record);
    let (planned, again) = read.trials.split_at(read.header.plan.len().min(read.trials.len()));
    assert!(planned.iter().map(|trial| &trial.record.trial).eq(&read.header.plan), "not the trials of the plan");
    // Whoever else uses the machine may void a trial; then its block was run again.
    for trial in &read.trials {
        let (trial, outcome) = (&trial.record.trial, &trial.record.outcome);
        let made_up_for = again.iter().any(|later| later.record.trial.again == Some(trial.block));
        let void = matches!(outcome, Outcome::Invalid { .. }) && made_up_for;
        assert!(*outcome == Outcome::Measured || void, "{trial:?}: {outcome:?}");
    }
    let partial = std::fs::read_dir(record.join("trials")).unwrap();
    let partial = partial.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(partial.count(), 0, "no unfinished trial is left in the record");
}
