//! LXC: a configuration of lines, for `lxc-start` in the foreground. It makes the control groups itself, below the
//! run's own; what happens is in a log of its own, which no service can write to.

use super::super::super::options::{Limits, Seccomp};
use super::super::super::spec::{QUOTA_PERIOD_US, cpu_quota, nodes};
use super::super::config::{Order, capabilities};
use super::{End, Told, write_secret};
use crate::cgroup::hierarchies::memory_root;
use crate::local::accounts::environment;
use crate::local::root::{PROGRAM_INSIDE, Root, mount_private_memory};
use crate::local::{CORE_BYTES, PROCESSES};
use std::fmt::Write;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use tare_core::fault::{Doing, Fault};

/// What the names of the groups end in that LXC makes for itself.
pub(super) const OWN_GROUPS: [&str; 2] = ["monitor", "pivot"];
/// Where LXC keeps its locks.
const STATE: &str = "/run/lxc";
/// The filter of system calls that LXC's own example configurations have.
const FILTER: &str = "/usr/share/lxc/config/common.seccomp";
/// LXC's log in what was made for a container.
const LOG: &str = "lxc.log";
/// What the group counted when the service ended: LXC removes it then.
const COUNTED: &str = "killed";

/// Completes the root, which this thread has mounted, and the command that starts the container.
pub(super) fn prepare(told: &Told, tree: &Root, command: &mut Command) -> Result<End, Fault> {
    let (order, directory) = (&told.order, told.directory);
    mount_private_memory(Path::new(STATE), "mode=755")?;
    tree.furnish(order.root, &[])?;
    let [mounted, state] = ["mounted", "lxc"].map(|name| directory.join(name));
    for folder in [&mounted, &state] {
        fs::create_dir_all(folder).doing(format!("make {}", folder.display()))?;
    }
    let place = directory.join("config");
    write_secret(&place, &config(told, &mounted)?)?;
    command.args(["-F", "-q", "-n", &told.machine, "-P"]).arg(&state).arg("-f").arg(&place).arg("--");
    match order.probe {
        Some(_) => command.args([PROGRAM_INSIDE, "resources"]),
        None => command.args(&order.start.service.command),
    };
    let directory = directory.to_owned();
    Ok(Box::new(move |status, _| {
        let counted = fs::read_to_string(directory.join(COUNTED)).unwrap_or_default();
        let killed = counted.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        (end_told(status, &messages(&directory)), killed.unwrap_or(0))
    }))
}

/// Lines of a configuration.
struct Lines(String);

impl Lines {
    /// Adds one.
    ///
    /// # Errors
    /// When the value would be more than one line: the rest could be any setting, such as a program to run as root.
    fn add(&mut self, key: &str, value: impl std::fmt::Display) -> Result<(), Fault> {
        self.add_told(key, key, value)
    }

    /// The same, with words for what an error is about. The value is left out of it: it may be a secret, and with its
    /// line breaks escaped it would not be found again and taken out, see [`tare_core::secrets`].
    ///
    /// # Errors
    /// See [`Lines::add`].
    fn add_told(&mut self, key: &str, what: &str, value: impl std::fmt::Display) -> Result<(), Fault> {
        let value = value.to_string();
        if value.contains(char::is_control) {
            let message = format!("LXC takes no line breaks or other control characters in {what}");
            return Err(Fault::new(message)
                .remedy("leave them out, or use 'by: nspawn' or 'by: runtime'")
                .as_mistake());
        }
        // In quotes it is taken as it is, with spaces at its ends and quotes in it.
        writeln!(self.0, "{key} = \"{value}\"").expect("a text takes what is written to it");
        Ok(())
    }
}

/// The whole configuration, for a root that LXC mounts at `mounted`.
fn config(told: &Told, mounted: &Path) -> Result<String, Fault> {
    let (order, mut lines) = (&told.order, Lines(String::new()));
    let service = &order.start.service;
    lines.add("lxc.log.file", told.directory.join(LOG).display())?;
    lines.add("lxc.log.level", "INFO")?;
    lines.add("lxc.uts.name", &told.machine)?;
    lines.add("lxc.rootfs.path", format!("dir:{}", order.root.display()))?;
    lines.add("lxc.rootfs.mount", mounted.display())?;
    for (key, value) in [
        ("lxc.net.0.type", "none"),
        ("lxc.autodev", "1"),
        ("lxc.mount.auto", "proc:mixed sys:ro cgroup:ro:force"),
        ("lxc.mount.entry", "tmpfs dev/shm tmpfs nosuid,nodev,noexec,mode=1777,size=64m,create=dir 0 0"),
        ("lxc.console.path", "none"),
        ("lxc.tty.max", "0"),
        ("lxc.pty.max", "1024"),
        ("lxc.no_new_privs", "1"),
    ] {
        lines.add(key, value)?;
    }
    if let Some(program) = order.probe {
        let entry = format!("{} {} none bind,ro,create=file 0 0", field(program), &PROGRAM_INSIDE[1..]);
        lines.add("lxc.mount.entry", entry)?;
    }
    lines.add("lxc.init.uid", service.user.0)?;
    lines.add("lxc.init.gid", service.user.1)?;
    lines.add("lxc.init.cwd", service.directory.as_deref().unwrap_or("/"))?;
    for (key, value) in environment(&service.environment, order.home) {
        let what = format!("the variable {key:?} of '{}'", order.start.instance);
        lines.add_told("lxc.environment", &what, format!("{key}={value}"))?;
    }
    let kept = capabilities(order.machine.capabilities);
    let kept: Vec<String> = kept.iter().map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect();
    // With an empty list LXC keeps every capability.
    lines.add("lxc.cap.keep", if kept.is_empty() { "none".to_owned() } else { kept.join(" ") })?;
    if order.options.seccomp == Seccomp::Default {
        lines.add("lxc.seccomp.profile", FILTER)?;
    }
    lines.add("lxc.prlimit.nofile", order.open_files)?;
    lines.add("lxc.prlimit.nproc", PROCESSES)?;
    lines.add("lxc.prlimit.core", CORE_BYTES)?;
    limits(order, &mut lines)?;
    count_killed(told, &mut lines)?;
    Ok(lines.0)
}

/// A path as a field of a line of fstab(5).
fn field(path: &Path) -> String {
    path.display().to_string().replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011")
}

fn limits(order: &Order, lines: &mut Lines) -> Result<(), Fault> {
    let group = order.group.display().to_string();
    lines.add("lxc.cgroup.dir.container", &group)?;
    lines.add("lxc.cgroup.dir.monitor", format!("{group}.{}", OWN_GROUPS[0]))?;
    lines.add("lxc.cgroup.dir.monitor.pivot", format!("{group}.{}", OWN_GROUPS[1]))?;
    let (wanted, period) = (&order.start.service.resources, QUOTA_PERIOD_US as u64);
    let quota = cpu_quota(order.options.limits, wanted).map(|cpus| (cpus * QUOTA_PERIOD_US).round() as u64);
    let (version, memory) = if order.machine.unified { ("cgroup2", "max") } else { ("cgroup", "limit_in_bytes") };
    lines.add(&format!("lxc.{version}.memory.{memory}"), wanted.memory_bytes)?;
    match (order.machine.unified, order.machine.limits_swap) {
        // Absent where the kernel has no swap at all, and LXC starts nothing with a limit that it cannot set.
        (true, _) if !Path::new("/proc/swaps").exists() => {}
        (true, _) => lines.add("lxc.cgroup2.memory.swap.max", 0)?,
        // The sum of memory and swap: the same figure means no swap.
        (false, true) => lines.add("lxc.cgroup.memory.memsw.limit_in_bytes", wanted.memory_bytes)?,
        (false, false) => lines.add("lxc.cgroup.memory.swappiness", 0)?,
    }
    match (quota, order.machine.unified) {
        (None, _) => {}
        (Some(quota), true) => lines.add("lxc.cgroup2.cpu.max", format!("{quota} {period}"))?,
        (Some(quota), false) => {
            lines.add("lxc.cgroup.cpu.cfs_period_us", period)?;
            lines.add("lxc.cgroup.cpu.cfs_quota_us", quota)?;
        }
    }
    if let Some(cpus) = order.cpus.filter(|_| order.options.limits != Limits::Affinity) {
        lines.add(&format!("lxc.{version}.cpuset.cpus"), cpus)?;
    }
    if let Some(nodes) = nodes(&order.start.memory) {
        lines.add(&format!("lxc.{version}.cpuset.mems"), nodes)?;
    }
    Ok(())
}

/// Has LXC copy what the group counted before it removes the group.
fn count_killed(told: &Told, lines: &mut Lines) -> Result<(), Fault> {
    let order = &told.order;
    let Some(root) = memory_root()? else { return Ok(()) };
    let file = if order.machine.unified { "memory.events" } else { "memory.oom_control" };
    let (from, to) = (root.join(order.group).join(file), told.directory.join(COUNTED));
    let quoted = |path: &PathBuf| format!("'{}'", path.display());
    if [&from, &to].iter().any(|path| path.display().to_string().contains('\'')) {
        // Only the reason of an end is less exact.
        return Ok(());
    }
    lines.add("lxc.hook.version", 1)?;
    lines.add("lxc.hook.stop", format!("cp {} {}", quoted(&from), quoted(&to)))
}

/// What LXC has to say.
pub(super) fn messages(directory: &Path) -> String {
    fs::read_to_string(directory.join(LOG)).unwrap_or_default()
}

/// How the service ended, which `lxc-start` itself does not say by how it ends.
fn end_told(status: ExitStatus, messages: &str) -> ExitStatus {
    let ended = |line: &str| {
        let (_, how) = line.rsplit_once("> ended on ")?;
        let number: i32 = how.rsplit_once('(')?.1.trim_end().strip_suffix(')')?.parse().ok()?;
        Some(if how.starts_with("signal") { number } else { number << 8 })
    };
    messages.lines().rev().find_map(ended).map_or(status, ExitStatus::from_raw)
}

/// Why the container was not started, if LXC says so.
pub(super) fn complaint(status: ExitStatus, messages: &str) -> Option<String> {
    if status.success() || messages.lines().any(|line| line.contains(" NOTICE ") && line.contains(" - Started \"")) {
        return None;
    }
    let text = |line: &str| line.splitn(3, " - ").nth(2).map(str::to_owned);
    let first = messages.lines().filter(|line| line.contains(" ERROR ")).find_map(text);
    Some(first.unwrap_or_else(|| status.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_service_ended_is_in_the_log() {
        let end = |messages: &str| end_told(ExitStatus::from_raw(0), messages);
        let line = |how: &str| {
            format!("lxc-start x 2026 INFO error - ../src/lxc/error.c:f:31 - Child <2551> ended on {how}\n")
        };
        assert_eq!(end(&line("error (9)")).code(), Some(9));
        assert_eq!(end(&line("signal Killed(9)")).signal(), Some(9));
        assert!(end("something else\n").success());
    }

    #[test]
    fn a_container_that_was_not_started_has_a_reason() {
        let failed = ExitStatus::from_raw(1 << 8);
        let error =
            "lxc-start x 2026 ERROR start - ../src/lxc/start.c:start:2197 - No such file - Failed to exec \"/x\"\n";
        assert_eq!(complaint(failed, error).as_deref(), Some("No such file - Failed to exec \"/x\""));
        let started =
            "lxc-start x 2026 NOTICE   start - ../src/lxc/start.c:post_start:2205 - Started \"/x\" with pid \"1\"\n";
        assert_eq!(complaint(failed, started), None);
        assert_eq!(complaint(ExitStatus::from_raw(0), error), None);
    }

    #[test]
    fn no_value_is_more_than_one_line() {
        let mut lines = Lines(String::new());
        lines.add("lxc.environment", "A= b\" ").unwrap();
        assert_eq!(lines.0, "lxc.environment = \"A= b\" \"\n");
        let fault = lines.add("lxc.uts.name", "b\nlxc.hook.pre-start = /x").unwrap_err();
        assert!(fault.message.ends_with(" in lxc.uts.name"), "{fault}");
        let fault = lines.add_told("lxc.environment", "the variable \"KEY\"", "KEY=hush\nhush").unwrap_err();
        assert!(fault.message.ends_with(" in the variable \"KEY\""), "{fault}");
        assert!(!fault.to_string().contains("hush"), "{fault}");
        assert_eq!(lines.0.lines().count(), 1);
    }

    #[test]
    fn a_space_in_a_path_ends_no_field() {
        assert_eq!(field(Path::new("/a b\\c")), "/a\\040b\\134c");
    }
}
