//! One test, in a process of its own: so it has a time, an output and a limit of its own, and takes nothing with it.

use crate::ci::guest::{self, Guest};
use crate::ci::programs::Test;
use crate::ci::skips::Place;
use crate::ci::standstill;
use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What every test is given.
pub(super) struct Surroundings<'a> {
    /// The folder of the workspace.
    pub(super) root: &'a Path,
    /// The program that the tests run.
    pub(super) binary: &'a Path,
    /// Whether each test is to do all that it can.
    pub(super) thorough: bool,
    /// Where those run that run in a guest.
    pub(super) guest: Guest,
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Passed,
    /// It lacks something, which it names; or parts of it do.
    Skipped(String),
    /// Not as it should: what it said.
    Failed(String),
}

/// A test that would hang is ended after this long. The longest of the gate take a minute or two.
const LIMIT: Duration = Duration::from_secs(480);
/// The same for `--thorough`: deployments, kills and simulations of many minutes.
const THOROUGH_LIMIT: Duration = Duration::from_secs(3600);

/// Process groups of tests that are running.
static RUNNING: LazyLock<Mutex<BTreeSet<i32>>> = LazyLock::new(Mutex::default);

/// Ends every test that is running, for this process is about to end.
pub(super) fn end_all() {
    for group in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // SAFETY: kill takes numbers only. The group is one that we made.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// What a test took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cost {
    /// From its beginning to its end.
    pub(super) wall: Duration,
    /// CPU time of its process and of what that started and waited for. What daemons did for it is not in it.
    pub(super) cpu: Duration,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

/// Runs a test to its end, as nice to others as `niceness` says; how it ended, and what it took.
pub(super) fn run(test: &Test, niceness: i32, surroundings: &Surroundings<'_>) -> (End, Cost) {
    let started = Instant::now();
    // What a test in the guest costs is the guest's, which is no child of ours.
    let (end, cpu) = if test.in_guest {
        (in_guest(test, surroundings), Duration::ZERO)
    } else {
        match here(test, niceness, surroundings) {
            Ok(ended) => ended,
            Err(error) => (End::Failed(format!("could not run {}: {error}", test.program.display())), Duration::ZERO),
        }
    };
    (end, Cost { wall: started.elapsed(), cpu })
}

/// How a test's process ended, and the CPU time of it and of all that it waited for; `None` while it runs.
fn ended(pid: i32) -> std::io::Result<Option<(ExitStatus, Duration)>> {
    let mut status = 0;
    // SAFETY: wait4 fills the two values that it is handed, which live through the call; the process is our child.
    let (found, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage), usage)
    };
    match found {
        0 => Ok(None),
        -1 => Err(std::io::Error::last_os_error()),
        _ => {
            let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
            Ok(Some((ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime))))
        }
    }
}

fn in_guest(test: &Test, surroundings: &Surroundings<'_>) -> End {
    match surroundings.guest.run(test, surroundings.thorough) {
        Ok((Some(0), said)) => judge(&said, Place::now(true)),
        Ok((Some(code), said)) => End::Failed(format!("{said}\nexit code {code}")),
        Ok((None, said)) => {
            End::Failed(format!("{said}\nended by us: it ran for longer than {} s", guest::LIMIT.as_secs()))
        }
        Err(error) => End::Failed(format!("{error:#}")),
    }
}

fn here(test: &Test, niceness: i32, surroundings: &Surroundings<'_>) -> std::io::Result<(End, Duration)> {
    // A file and not a pipe: what a test leaves running must not keep us waiting for the end of its output.
    let mut output = tempfile::tempfile()?;
    let mut command = Command::new(&test.program);
    command.args([&test.within, "--exact", "--nocapture", "--test-threads=1"]).current_dir(&test.folder);
    command.env("TARE_BIN", surroundings.binary).env("CARGO_MANIFEST_DIR", &test.folder);
    command.env("INSTA_WORKSPACE_ROOT", surroundings.root);
    if surroundings.thorough {
        command.env("TARE_THOROUGH", "1");
    }
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?).process_group(0);
    // A shell that runs this in the background has interrupts ignored, and children would inherit that.
    // SAFETY: signal and setpriority are safe to be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            // Only tests that may be late are nice, so it does not matter whether this works.
            libc::setpriority(libc::PRIO_PROCESS, 0, niceness);
            Ok(())
        });
    }
    let child = command.spawn()?;
    let group = i32::try_from(child.id()).expect("the kernel's process ids are of this type");
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
    let limit = if surroundings.thorough { THOROUGH_LIMIT } else { LIMIT };
    let until = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    let mut late = None;
    let (status, cpu) = loop {
        if let Some(ended) = ended(group)? {
            break ended;
        }
        if Instant::now() > until {
            late.get_or_insert_with(|| standstill::tree(group));
            // SAFETY: kill takes numbers only. The group is one that we made.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    let end = match status.success() {
        false if late.is_some() => {
            let (limit, tree) = (limit.as_secs(), late.unwrap_or_default());
            End::Failed(format!("{said}\nended by us: it ran for longer than {limit} s, and then there were\n{tree}"))
        }
        false => End::Failed(format!("{said}\n{status}")),
        true => judge(&said, Place::now(false)),
    };
    Ok((end, cpu))
}

/// How a test whose process ended well ended: a program may know no test of this name or ignore it, and a test that
/// passes may say that it did nothing.
fn judge(said: &str, place: Place) -> End {
    let ran = said.lines().any(|line| line.starts_with("running 1 test"));
    let passed = said.lines().any(|line| line.starts_with("test result: ok. 1 passed;"));
    if !ran || !passed {
        return End::Failed(format!("{said}\nthe program ran no test of this name"));
    }
    // With output shown, the harness' own line may stand before it: "test a ... skipped: no engine".
    let skips = said.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")).map_or(line, |(_, rest)| rest);
        line.strip_prefix("skipped: ")
    });
    let skips: Vec<&str> = skips.collect();
    if let Some(why) = skips.iter().find(|why| !place.permits(why)) {
        return End::Failed(format!("{said}\nno test is skipped for this where ./test can give what it needs: {why}"));
    }
    if skips.is_empty() { End::Passed } else { End::Skipped(skips.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the harness says of one test that said this.
    fn well(said: &str) -> End {
        let said = format!("\nrunning 1 test\n{said}\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n");
        judge(&said, Place { in_guest: false, decides: false })
    }

    #[test]
    fn a_skip_is_seen_wherever_the_line_begins() {
        assert_eq!(well("test a ... ok"), End::Passed);
        let skipped = |why: &str| End::Skipped(why.to_owned());
        assert_eq!(well("test a ... skipped: there is one CPU\nok"), skipped("there is one CPU"));
        assert_eq!(well("skipped: no loop device\ntest a ... ok"), skipped("no loop device"));
        assert_eq!(well("  skipped: one CPU\n skipped: no loop device\nok"), skipped("one CPU; no loop device"));
        assert_eq!(well("it was not skipped: fine"), End::Passed);
    }

    #[test]
    fn what_the_gate_can_give_is_no_reason_to_skip() {
        let End::Failed(said) = well("skipped: one CPU\nskipped: no engine\nok") else { panic!("it was skipped") };
        assert!(said.ends_with("no engine"), "{said}");
    }

    #[test]
    fn a_test_that_did_not_run_has_not_passed() {
        let ended =
            |passed: u8, ignored: u8| format!("test result: ok. {passed} passed; 0 failed; {ignored} ignored\n");
        for said in [String::new(), "running 0 tests\n".to_owned() + &ended(0, 0)] {
            assert!(matches!(judge(&said, Place::now(false)), End::Failed(_)), "{said}");
        }
        assert!(
            matches!(judge(&("running 1 test\n".to_owned() + &ended(0, 1)), Place::now(false)), End::Failed(_)),
            "ignored"
        );
    }
}
