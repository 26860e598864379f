//! Freezes what is in a cgroup: through the group itself in version 2, by stopping each process in version 1, whose
//! freezer is a hierarchy of its own that not every machine mounts.

use super::members;
use crate::processes;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::held::Held;

/// How long processes may take to stop: they may be in a system call that cannot be interrupted.
const WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Resumes what somebody else may have frozen or stopped.
///
/// # Errors
/// When it does not resume.
pub(crate) fn thaw(held: &[Held]) -> Result<(), Fault> {
    held.iter().try_for_each(|held| match held {
        Held::Group(group) if !group.is_dir() => Ok(()),
        Held::Group(group) if group.join("cgroup.freeze").exists() => by_group(group, false),
        Held::Group(group) => by_signal(&|| members(group), false),
        Held::Process(number) => by_signal(&|| vec![*number], false),
    })
}

/// Freezes or thaws everything in the version 2 group at `directory`, and waits until it is.
pub(super) fn by_group(directory: &Path, frozen: bool) -> Result<(), Fault> {
    let file = directory.join("cgroup.freeze");
    let word = if frozen { "freeze" } else { "thaw" };
    fs::write(&file, if frozen { "1" } else { "0" }).doing(format!("{word} the service by {}", file.display()))?;
    let wanted = format!("frozen {}", u8::from(frozen));
    wait(word, || {
        let events = fs::read_to_string(directory.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == wanted)
    })
}

/// Stops or continues every process in the version 1 group at `directory`, and waits until all of them are.
pub(super) fn by_signal(members: &dyn Fn() -> Vec<u32>, frozen: bool) -> Result<(), Fault> {
    let (signal, word) = if frozen { (Signal::STOP, "freeze") } else { (Signal::CONT, "thaw") };
    // Repeatedly: a process may have started another before it was stopped.
    wait(word, || {
        let astray: Vec<u32> =
            members().into_iter().filter(|pid| processes::is_stopped(*pid) == Some(!frozen)).collect();
        processes::signal_those(&astray, signal, |held| {
            let still = members();
            held.into_iter().filter(|pid| still.contains(pid)).collect()
        });
        // The next turn sees whether all are stopped.
        astray.is_empty()
    })
}

fn wait(word: &str, mut done: impl FnMut() -> bool) -> Result<(), Fault> {
    let deadline = Instant::now() + WITHIN;
    while !done() {
        if Instant::now() > deadline {
            return Err(Fault::new(format!("could not {word} the service within {} s", WITHIN.as_secs())));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
