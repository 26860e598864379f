//! Guests that a dead run left behind. Their links are found with all other links. A guest's QEMU carries a mark in its
//! environment, since anybody may give a guest a name like ours; so does its passt, whose name is there too.

use crate::marks::{full_mark, in_environment, run_in_environment};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::host::Leftover;

/// The kind of leftover that a guest is.
pub(super) const KIND: &str = "guest";

/// The kind of leftover that a guest's passt is.
const PASST: &str = "guest's passt";

/// The environment variable in which a guest's QEMU carries its run. It differs from that of other processes, which are
/// found as such.
const GUEST_VARIABLE: &str = "TARE_GUEST";
/// The variable in which a guest's passt carries its run.
const PASST_VARIABLE: &str = "TARE_PASST";
/// The variable in which it carries its guest's name: its arguments have no place for one.
const NAME_VARIABLE: &str = "TARE_PASST_OF";

/// Marks a QEMU that is about to be started as a run's guest.
pub(super) fn mark(run: &str, command: &mut Command) {
    command.env(GUEST_VARIABLE, full_mark(run));
}

/// Marks a passt that is about to be started as that of a run's guest, which has this name.
pub(super) fn mark_passt(run: &str, guest: &str, command: &mut Command) {
    command.env(PASST_VARIABLE, full_mark(run)).env(NAME_VARIABLE, guest);
}

/// Guests of any run on this machine, and what carries their networks.
pub(super) fn find() -> Vec<Leftover> {
    let mut found: Vec<Leftover> = guests().into_iter().map(|(_, leftover)| leftover).collect();
    found.sort();
    found.dedup();
    found
}

/// Ends a guest, or its passt.
///
/// # Errors
/// When it still runs afterwards.
pub(super) fn remove(leftover: &Leftover) -> Result<(), Fault> {
    let running = || guests().into_iter().filter(|(_, found)| found == leftover).map(|(pid, _)| pid);
    let is_it = |pid: i32| guest(pid).as_ref() == Some(leftover);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let pids: Vec<i32> = running().collect();
        if pids.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Fault::new(format!("the {} {} does not end", leftover.kind, leftover.name)));
        }
        for pid in pids.into_iter().filter_map(Pid::from_raw) {
            // Held from before the last check: the process that is killed is the one that was examined.
            let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if is_it(pid.as_raw_nonzero().get()) {
                let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn guests() -> Vec<(i32, Leftover)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, guest(pid)?))).collect()
}

/// The guest that a process is, or whose passt.
fn guest(pid: i32) -> Option<Leftover> {
    if let Some(passt) = passt(pid) {
        return Some(passt);
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let words: Vec<&str> = line.split('\0').collect();
    let guest = recognise(&words)?;
    let marked = run_in_environment(pid.cast_unsigned(), GUEST_VARIABLE);
    (marked.as_deref() == Some(guest.run.as_str())).then_some(guest)
}

/// The passt of a guest that a process is. Its program is not looked at: a script may have started the real one.
fn passt(pid: i32) -> Option<Leftover> {
    let run = run_in_environment(pid.cast_unsigned(), PASST_VARIABLE)?;
    let name = in_environment(pid.cast_unsigned(), NAME_VARIABLE)?;
    named(&name, PASST).filter(|found| found.run == run)
}

/// Whether a command line is that of our guest: QEMU with the name `tare-<run>-<trial>`.
fn recognise(words: &[&str]) -> Option<Leftover> {
    let program = words.first()?.rsplit('/').next()?;
    if !program.starts_with("qemu-system-") {
        return None;
    }
    let at = words.iter().position(|word| *word == "-name")?;
    named(words.get(at + 1)?, KIND)
}

fn named(name: &str, kind: &str) -> Option<Leftover> {
    let (run, trial) = name.strip_prefix("tare-")?.split_once('-')?;
    let ours = run.len() == 6 && run.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) && !trial.is_empty();
    ours.then(|| Leftover { run: run.to_owned(), kind: kind.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_guests_are_recognised() {
        let ours = recognise(&["/usr/bin/qemu-system-x86_64", "-m", "1", "-name", "tare-abc123-b1-vm"]).unwrap();
        assert_eq!((ours.run.as_str(), ours.name.as_str()), ("abc123", "tare-abc123-b1-vm"));
        for words in [
            &["qemu-system-x86_64", "-name", "web"][..],
            &["qemu-system-x86_64", "-name", "tare-mine"],
            &["qemu-system-x86_64", "-name", "tare-toolong-1"],
            &["qemu-system-x86_64", "-m", "tare-abc123-1"],
            &["vi", "-name", "tare-abc123-1"],
            &["qemu-system-x86_64", "-name"],
            &[],
        ] {
            assert_eq!(recognise(words), None, "{words:?}");
        }
    }
}
