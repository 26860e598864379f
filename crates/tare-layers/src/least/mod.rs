//! Runs Tare's own processes beside a form with the least privilege that each needs.
//!
//! The load process talks to services, parses their answers, and runs the tools that a workload names; the sampler
//! reads what other users' processes map. Neither is root while it works: each has a user that nothing else has, no way
//! to gain privileges, and only the capabilities that it cannot work without.
//!
//! Both give up root themselves, in their only thread, before they read anything from outside. If they were not started
//! as root there is nothing to give up.

pub(crate) mod filter;

use crate::local::confinement::{become_user_with, leave_open_files};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use tare_core::fault::{Doing, Fault};

/// The users of the load process with its tools, and of the sampler: the last ones before those of guests' QEMU.
pub const LOAD_USER: u32 = 98_999;
/// See [`LOAD_USER`].
pub const SAMPLER_USER: u32 = 98_998;
/// The limit on processes and threads of the load process and its tools: many more than any load tool starts, and few
/// enough to keep the machine usable.
const LOAD_PROCESSES: u64 = 4096;
/// How many files a process may have open if it asks for them: more than a machine has ports.
const OPEN_FILES: u64 = 1 << 20;

/// Capabilities, one bit each, as `linux/capability.h` numbers them.
const DAC_READ_SEARCH: u64 = 1 << 2;
const IPC_LOCK: u64 = 1 << 14;
const SYS_PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;
const SYSLOG: u64 = 1 << 34;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;
const CHECKPOINT_RESTORE: u64 = 1 << 40;

/// What the load process itself keeps of root; the tools that it starts do not get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetainedRights {
    /// Nothing.
    Nothing,
    /// It may read every file: for a trace that the user has named, which may be readable by the user alone.
    Reading,
}

/// Turns this process into the load process.
///
/// # Errors
/// When the kernel refuses, so that the process would stay root.
pub fn become_load(kept: RetainedRights) -> Result<(), Fault> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let become_it = || -> std::io::Result<()> {
        // It makes room for its connections once it knows how many there are.
        allow_open_files();
        let processes = Rlimit { current: Some(LOAD_PROCESSES), maximum: Some(LOAD_PROCESSES) };
        setrlimit(Resource::Nproc, processes)?;
        // For the tools that it starts.
        leave_open_files()?;
        let kept = if kept == RetainedRights::Reading { DAC_READ_SEARCH } else { 0 };
        become_user_with((LOAD_USER, LOAD_USER), kept)
    };
    become_it().doing("give up root for the load process")
}

/// Turns this process into the sampler: it sees all processes and counters of the machine, and changes nothing.
///
/// # Errors
/// See [`become_load`].
pub fn become_sampler() -> Result<(), Fault> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let become_it = || -> std::io::Result<()> {
        allow_open_files();
        // Before Linux 5.11 BPF maps count as locked memory.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
        leave_open_files()?;
        let sees = DAC_READ_SEARCH | SYS_PTRACE | SYSLOG | IPC_LOCK;
        become_user_with((SAMPLER_USER, SAMPLER_USER), sees | watches())?;
        filter::deny_all_that_changes()
    };
    become_it().doing("give up root for the sampler")
}

/// What counters, BPF programs and other users' mapped files need: before Linux 5.9 this was part of the system
/// administrator's capability.
fn watches() -> u64 {
    // SAFETY: plain numbers; a capability that the kernel does not know is an error and nothing else.
    let known = unsafe { libc::prctl(libc::PR_CAPBSET_READ, CHECKPOINT_RESTORE.trailing_zeros(), 0, 0, 0) } >= 0;
    if known { PERFMON | BPF | CHECKPOINT_RESTORE } else { SYS_ADMIN }
}

/// Raises the hard limit only: the soft limit of the process stays as it is.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.map(|maximum| maximum.max(OPEN_FILES));
    // If this is not allowed, the process says so when it needs more.
    let _ = setrlimit(Resource::Nofile, Rlimit { maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    /// What `act` returns in a child of this process, which then ends; the child has none of the other threads.
    fn in_a_child(act: impl FnOnce() -> String) -> String {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        // SAFETY: the child has only this thread, and ends without running what others have left to be run.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            drop(reader);
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            let _ = writer.write_all(said.unwrap_or_else(|_| "it panicked".to_owned()).as_bytes());
            // SAFETY: it ends this child and nothing else.
            unsafe { libc::_exit(0) };
        }
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        // SAFETY: it is a child of this process that nobody else waits for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        said
    }

    fn status(keys: &[&str]) -> String {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |key: &&str| text.lines().find_map(|line| line.strip_prefix(*key)).unwrap_or_default().trim();
        keys.iter().map(field).collect::<Vec<_>>().join(" ").replace('\t', " ")
    }

    const NONE: &str = "0000000000000000";

    #[test]
    fn a_tool_of_a_workload_is_nobody() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "s").unwrap();
        let reads = || std::fs::read_to_string(secret.path()).unwrap_or_else(|error| error.kind().to_string());
        for (kept, wanted) in [(RetainedRights::Nothing, "permission denied"), (RetainedRights::Reading, "s")] {
            let said = in_a_child(|| {
                become_load(kept).unwrap();
                let script = format!(
                    "id -u; id -G; grep -E 'Cap(Inh|Prm|Amb)|NoNewPrivs' /proc/self/status; cat {0} 2>/dev/null || echo no; \
                     echo x 2>/dev/null >/etc/tare-was-here || echo no; ls /proc/self/fd",
                    secret.path().display()
                );
                let tool = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
                format!("{}\n{}", reads(), String::from_utf8(tool.stdout).unwrap())
            });
            let words: Vec<&str> = said.split_whitespace().collect();
            let (user, caps) = (LOAD_USER.to_string(), ["CapInh:", NONE, "CapPrm:", NONE, "CapAmb:", NONE]);
            let told = [&[user.as_str(), user.as_str()][..], &caps, &["NoNewPrivs:", "1", "no", "no", "0", "1", "2"]];
            assert!(said.starts_with(&format!("{wanted}\n")), "{kept:?}: {said}");
            // The last one is the folder being read.
            let skipped = wanted.split_whitespace().count();
            assert_eq!(words[skipped..words.len() - 1], told.concat(), "{kept:?}: {said}");
        }
    }

    #[test]
    fn the_sampler_sees_all_and_changes_nothing() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "s").unwrap();
        let own = std::process::id();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let program = maps.lines().find(|line| line.contains(" /")).unwrap();
        // The kernel writes bounds without leading zeros there.
        let bounds = program.split(' ').next().unwrap().split('-').map(|bound| bound.trim_start_matches('0'));
        let mapped = bounds.collect::<Vec<_>>().join("-");
        let said = in_a_child(|| {
            become_sampler().unwrap();
            let said =
                |result: std::io::Result<()>| result.map_or_else(|error| error.kind().to_string(), |()| "done".into());
            let read = |path: String| std::fs::read(path).map(drop);
            [
                status(&["Uid:", "NoNewPrivs:", "Seccomp:"]),
                said(read(secret.path().display().to_string())),
                said(read(format!("/proc/{own}/maps"))),
                said(read(format!("/proc/{own}/map_files/{mapped}"))),
                said(std::fs::write(secret.path(), "x")),
                said(std::fs::write("/etc/tare-was-here", "x")),
                said(Command::new("/bin/true").status().map(drop)),
                // SAFETY: plain numbers.
                said(os(unsafe { libc::ptrace(libc::PTRACE_ATTACH, own.cast_signed(), 0, 0) })),
                // SAFETY: plain numbers.
                said(os(unsafe { libc::kill(own.cast_signed(), 0) }.into())),
                // SAFETY: plain numbers.
                said(os(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into())),
            ]
            .join("\n")
        });
        let user = format!("{SAMPLER_USER} {SAMPLER_USER} {SAMPLER_USER} {SAMPLER_USER} 1 2");
        let denied = "permission denied";
        let told = [user.as_str(), "done", "done", "done", denied, denied, denied, denied, denied, denied];
        assert_eq!(said.lines().collect::<Vec<_>>(), told);
        assert_eq!(std::fs::read_to_string(secret.path()).unwrap(), "s");
    }

    /// It has threads, and may end itself; it creates no process, and reaches none that has the same user.
    #[test]
    fn the_sampler_starts_nothing_and_signals_nobody() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let said = in_a_child(|| {
            // Ends when this child does.
            let mut other = Command::new("/bin/cat");
            let mut other = other.uid(SAMPLER_USER).stdin(std::process::Stdio::piped()).spawn().unwrap();
            become_sampler().unwrap();
            let said = |answer: libc::c_long| match os(answer) {
                Ok(()) => "done".to_owned(),
                Err(error) => error.raw_os_error().unwrap().to_string(),
            };
            let thread = std::thread::spawn(|| "thread".to_owned()).join().unwrap();
            // SAFETY: plain numbers. If a process is created after all, it ends at once.
            let call = |number: libc::c_long, arguments: [libc::c_long; 3]| unsafe {
                let made = libc::syscall(number, arguments[0], arguments[1], arguments[2], 0, 0);
                if made == 0 && number == libc::SYS_clone {
                    libc::_exit(0);
                }
                said(made)
            };
            let (own, others) = (std::process::id().into(), other.id().into());
            let said = [
                thread,
                call(libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0]),
                call(libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD).into(), 0, 0]),
                call(libc::SYS_clone3, [0, 0, 0]),
                call(libc::SYS_tgkill, [own, own, 0]),
                call(libc::SYS_tgkill, [others, others, 0]),
                call(libc::SYS_tkill, [others, 0, 0]),
                call(libc::SYS_mount_setattr, [-1, 0, 0]),
                call(libc::SYS_fsmount, [-1, 0, 0]),
            ];
            drop(other.stdin.take());
            other.wait().unwrap();
            said.join(" ")
        });
        let (denied, unknown) = (libc::EPERM, libc::ENOSYS);
        let told = format!("thread {denied} {denied} {unknown} done {denied} {denied} {denied} {denied}");
        assert_eq!(said, told);
    }

    /// Root in a container, with the capabilities that engines leave it.
    #[test]
    fn whoever_has_less_than_root_keeps_less() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let said = in_a_child(|| {
            let (header, low) = ([0x2008_0522_u32, 0], crate::local::confinement::BOUNDS as u32);
            let sets = [low, low, 0, 0, 0, 0];
            // SAFETY: a header of two numbers and two triples of sets, as this version defines them; both outlive the
            // call.
            os(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) }).unwrap();
            become_sampler().unwrap();
            status(&["Uid:", "CapPrm:"])
        });
        assert_eq!(said, format!("{SAMPLER_USER} {SAMPLER_USER} {SAMPLER_USER} {SAMPLER_USER} {NONE}"));
    }

    fn os(result: libc::c_long) -> std::io::Result<()> {
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }
}
