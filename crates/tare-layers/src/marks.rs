//! Names and marks that identify what a run makes. Anybody could use a name; nobody else makes a mark.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tare_core::fault::Fault;

/// Where runs keep what need not survive a restart of the machine.
pub const RUN_ROOT: &str = "/run/tare";
/// The environment variable in which a process started for a run carries the run and this boot. Services do not have
/// it; they are in the run's cgroup.
pub const RUN_VARIABLE: &str = "TARE_RUN";

/// What identifies this boot of the machine.
pub(crate) fn boot() -> &'static str {
    static BOOT: LazyLock<String> =
        LazyLock::new(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned());
    &BOOT
}

/// The directory of a run for what need not survive a restart.
pub fn run_directory(run: &str) -> PathBuf {
    Path::new(RUN_ROOT).join(run)
}

/// The name of anything that a run makes only one of on this machine: `tare-<run>`.
pub fn mark_name(run: &str) -> String {
    format!("tare-{run}")
}

/// The run in a name of the form `tare-<run>`; `None` for any other name.
pub fn run_of_mark(name: &str) -> Option<&str> {
    name.strip_prefix("tare-").filter(|run| is_run(run))
}

pub(crate) fn is_run(text: &str) -> bool {
    text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Refuses a run id that could not be recognised in names made from it.
pub(crate) fn check_run(run: &str) -> Result<(), Fault> {
    if is_run(run) {
        return Ok(());
    }
    Err(Fault::new(format!("'{run}' is not a run id: six of a-z and 0-9")))
}

/// The run in the name of a link, `t<run><suffix>`. Other people's links can look like that ("tailscale0"), so the name
/// alone proves nothing.
pub(crate) fn run_of_link(name: &str) -> Option<&str> {
    name.strip_prefix('t').and_then(|rest| rest.get(..6)).filter(|run| is_run(run))
}

/// A mark that nobody else makes, for things that keep a line of text: `tare-<run>-<boot>`.
pub(crate) fn full_mark(run: &str) -> String {
    format!("{}-{}", mark_name(run), boot())
}

/// The run in a [`full_mark`] of this boot; `None` for any other text.
pub(crate) fn run_of_full_mark(text: &str) -> Option<&str> {
    text.strip_suffix(boot()).and_then(|rest| rest.strip_suffix('-')).and_then(run_of_mark)
}

/// Marks a process that is about to be started as a run's, so that it can be found if this process dies.
pub fn mark_process(run: &str, command: &mut Command) {
    command.env(RUN_VARIABLE, full_mark(run));
}

/// The run whose mark a process carries in this environment variable.
pub(crate) fn run_in_environment(pid: u32, variable: &str) -> Option<String> {
    run_of_full_mark(&in_environment(pid, variable)?).map(str::to_owned)
}

/// The value of an environment variable that a process was started with.
pub(crate) fn in_environment(pid: u32, variable: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let wanted = format!("{variable}=");
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(wanted.as_bytes()))?;
    std::str::from_utf8(value).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_recognised() {
        assert_eq!(run_of_mark("tare-a1b2c3"), Some("a1b2c3"));
        for name in ["tare-", "tare-a1b2c", "tare-a1b2c3d", "tare-A1b2c3", "tar-a1b2c3", "tare-a1b2c3-x", "docker0"] {
            assert_eq!(run_of_mark(name), None, "{name}");
        }
        assert_eq!(run_of_full_mark(&full_mark("a1b2c3")), Some("a1b2c3"));
        for text in ["a1b2c3", "tare-a1b2c3", "tare-a1b2c3-", "tare-a1b2c3-another-boot"] {
            assert_eq!(run_of_full_mark(text), None, "{text}");
        }
        assert_eq!(run_of_link("ta1b2c3h"), Some("a1b2c3"));
        assert_eq!(run_of_link("tun0"), None);
    }
}
