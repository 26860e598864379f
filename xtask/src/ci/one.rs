//! One test, in a process of its own: so it has a time, an output and a limit of its own, and takes nothing with it.

use crate::ci::programs::Test;
use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
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
const LIMIT: Duration = Duration::from_secs(300);
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

/// Runs a test to its end; how it ended, and how long it took.
pub(super) fn run(test: &Test, surroundings: &Surroundings<'_>) -> (End, Duration) {
    let started = Instant::now();
    let end = match attempt(test, surroundings) {
        Ok(end) => end,
        Err(error) => End::Failed(format!("could not run {}: {error}", test.program.display())),
    };
    (end, started.elapsed())
}

fn attempt(test: &Test, surroundings: &Surroundings<'_>) -> std::io::Result<End> {
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
    // SAFETY: signal is safe to be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    let group = i32::try_from(child.id()).unwrap_or(i32::MAX);
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
    let limit = if surroundings.thorough { THOROUGH_LIMIT } else { LIMIT };
    let until = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > until {
            // SAFETY: kill takes numbers only. The group is one that we made.
            unsafe { libc::kill(-group, libc::SIGKILL) };
            child.wait()?;
            break None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    Ok(match status {
        None => End::Failed(format!("{said}\nended by us: it ran for longer than {} s", limit.as_secs())),
        Some(status) if !status.success() => End::Failed(format!("{said}\n{status}")),
        Some(_) => judge(&said),
    })
}

/// How a test whose process ended well ended: a program may know no test of this name, and a test that passes may say
/// that it did nothing.
fn judge(said: &str) -> End {
    let ran = said.lines().any(|line| line.starts_with("running 1 test"));
    if !ran {
        return End::Failed(format!("{said}\nthe program ran no test of this name"));
    }
    // With output shown, the harness' own line may stand before it: "test a ... skipped: no engine".
    let skips = said.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")).map_or(line, |(_, rest)| rest);
        line.strip_prefix("skipped: ")
    });
    let skips: Vec<&str> = skips.collect();
    if skips.is_empty() { End::Passed } else { End::Skipped(skips.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_seen_wherever_the_line_begins() {
        assert_eq!(judge("running 1 test\ntest a ... ok\n"), End::Passed);
        let skipped = |why: &str| End::Skipped(why.to_owned());
        assert_eq!(judge("running 1 test\ntest a ... skipped: no engine\nok\n"), skipped("no engine"));
        assert_eq!(judge("running 1 test\nskipped: no KVM\ntest a ... ok\n"), skipped("no KVM"));
        assert_eq!(judge("running 1 test\n  skipped: one CPU\n skipped: no crun\nok\n"), skipped("one CPU; no crun"));
        assert_eq!(judge("running 1 test\nit was not skipped: fine\n"), End::Passed);
    }

    #[test]
    fn a_test_that_did_not_run_has_not_passed() {
        assert!(matches!(judge("running 0 tests\n"), End::Failed(_)));
        assert!(matches!(judge(""), End::Failed(_)));
    }
}
