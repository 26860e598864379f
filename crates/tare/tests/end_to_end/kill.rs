//! `kill -9` at any moment, then `clean` or `resume`: nothing left, nothing lost, nothing of anybody else's touched.

use crate::end_to_end::lab::{Lab, text};
use std::process::Command;
use std::time::Duration;
use tare_core::trial::Outcome;

/// How often a run is killed, and of how many blocks; with `TARE_THOROUGH`, so often that each stage of a trial is met
/// several times.
fn kills() -> (u64, &'static str) {
    if std::env::var_os("TARE_THOROUGH").is_some() { (40, "4") } else { (4, "2") }
}

fn docker(args: &[&str]) -> bool {
    Command::new("/usr/bin/docker").args(args).output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_whole() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    let record = lab.path("record");
    let (network, namespace) = ("tare-e2e-somebody-else", "somebody-else");
    docker(&["network", "rm", network]);
    assert!(docker(&["network", "create", network]), "make a network that is not ours");
    let _ = Command::new("ip").args(["netns", "add", namespace]).status();
    // Called as a run would be.
    let home = std::env::var_os("TARE_HOME").unwrap_or_else(|| "/var/lib/tare".into());
    let folder = std::path::Path::new(&home).join("scratch/thesis");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("chapter-1"), "years of work").unwrap();
    let (kills, blocks) = kills();
    let quick = ["--settle", "100ms", "--measure", "1s", "--form", "container", "--repeat", blocks, "--seed", "3"];
    let first = [&["run"], &quick[..], &["--out", text(&record)]].concat();
    // The bundle is there before the first kill, so that kills fall into trials too.
    lab.expect(0, &["bundle", "build", "--workload", "redis"]);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for kill in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let begun = record.join("record.json").exists();
        let resume = ["resume", text(&record)];
        let mut child = lab.command(if begun { &resume } else { &first });
        let mut child = child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50 + random % 4000));
        let ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        if begun && ended {
            break;
        }
        // Half of the time the host is cleaned by hand, else by the resume that follows.
        if kill % 2 == 0 || !record.join("record.json").exists() {
            lab.expect(0, &["clean"]);
            lab.expect_clean();
        }
    }
    lab.expect(0, &["resume", text(&record)]);
    lab.expect_clean();
    let read = lab.record(&record);
    assert_eq!(read.trials.len(), read.header.plan.len());
    for (trial, planned) in read.trials.iter().zip(&read.header.plan) {
        assert_eq!(trial.record.trial, *planned);
        assert_eq!(trial.record.outcome, Outcome::Measured, "{planned:?}");
    }
    let partial = std::fs::read_dir(record.join("trials")).unwrap();
    let partial = partial.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(partial.count(), 0, "no unfinished trial is left in the record");
    assert!(docker(&["network", "inspect", network]), "somebody else's network is still there");
    assert!(std::path::Path::new("/run/netns").join(namespace).exists(), "somebody else's namespace too");
    assert!(folder.join("chapter-1").exists(), "and somebody else's folder");
    std::fs::remove_dir_all(folder).unwrap();
    docker(&["network", "rm", network]);
    let _ = Command::new("ip").args(["netns", "del", namespace]).status();
}
