//! What `/proc` says about processes.

use crate::marks::in_environment;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::workload::StopSignal;

/// How long killed processes may take to disappear.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How many processes are held by descriptors at once: a process may commonly have 1024 descriptors.
const HELD: usize = 256;

/// The ids of all processes this process can see.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Fields of `/proc/<pid>/stat` after the name, from the state on: field 3 of proc(5) is index 0 here.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself contain any character, so the last one closes it.
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// The process that a text of `/proc/<pid>/stat` is about, and when it started, see [`start_time`].
pub(crate) fn in_stat(text: &str) -> Option<(u32, u64)> {
    let (pid, _) = text.split_once(' ')?;
    let (_, rest) = text.rsplit_once(')')?;
    Some((pid.parse().ok()?, rest.split_whitespace().nth(19)?.parse().ok()?))
}

/// When a process started, in clock ticks since boot: together with its id this identifies a process for good. `None`
/// when it is gone, or dead and waiting to be reaped.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let fields = stat_fields(pid)?;
    if matches!(fields.first()?.as_str(), "Z" | "X") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// Whether every thread of a process is stopped by a signal. `None` when it is gone or dead.
pub(crate) fn is_stopped(pid: u32) -> Option<bool> {
    let state = |text: String| text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let states: Vec<char> = texts.filter_map(state).filter(|state| !matches!(state, 'Z' | 'X')).collect();
    (!states.is_empty()).then(|| states.iter().all(|state| *state == 'T'))
}

/// The name of a process, as the kernel keeps it (15 bytes).
pub(crate) fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// All living descendants of a process, not including itself.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for candidate in all() {
        if let Some(parent) = stat_fields(candidate).and_then(|fields| fields.get(1)?.parse().ok()) {
            children.entry(parent).or_default().push(candidate);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(next) = open.pop() {
        let below = children.get(&next).map(Vec::as_slice).unwrap_or_default();
        found.extend_from_slice(below);
        open.extend_from_slice(below);
    }
    found
}

/// Those of `members` that belong to a command and are alive: its first process, everything in the session that this
/// began, and its descendants.
fn of_command(leader: u32, members: Vec<u32>) -> Vec<u32> {
    let below = descendants(leader);
    let in_session = |pid: u32| stat_fields(pid).and_then(|fields| fields.get(3)?.parse().ok()) == Some(leader);
    let ours = |pid: &u32| *pid == leader || below.contains(pid) || in_session(*pid);
    members.into_iter().filter(|pid| start_time(*pid).is_some()).filter(ours).collect()
}

/// The processes of a service beside its first one: all descendants of that, and those of the service's control groups,
/// `members`. A daemon that has detached itself is a descendant only where the first process adopts it, as in a PID
/// namespace; it stays in the groups. A command beside the service, whose first process is `command`, is in these
/// groups too, but is no part of the service.
pub(crate) fn of_service(first: u32, members: BTreeSet<u32>, command: Option<u32>) -> BTreeSet<u32> {
    let beside = command.map(|leader| of_command(leader, members.iter().copied().collect())).unwrap_or_default();
    let mut found = members;
    found.extend(descendants(first));
    found.remove(&first);
    found.retain(|pid| !beside.contains(pid));
    found
}

/// The processes from which all of a service are reached by descent: its first one, and those of its control groups,
/// `members`, that have left its tree, such as a daemon that has detached itself. `command` is as in [`of_service`].
pub(crate) fn roots(first: u32, members: BTreeSet<u32>, command: Option<u32>) -> Vec<u32> {
    let others = of_service(first, members, command);
    let below = descendants(first);
    std::iter::once(first).chain(others.into_iter().filter(|pid| !below.contains(pid))).collect()
}

/// Sends a signal to those of `pids` that `meant` picks out, and to nobody else: each is held by a descriptor before it
/// is examined, so an id that passes to another process in between reaches nobody. Returns how many were picked out.
pub(crate) fn signal_those(pids: &[u32], signal: Signal, meant: impl Fn(Vec<u32>) -> Vec<u32>) -> usize {
    reach_those(pids, meant, |process| {
        // It may have ended in between.
        let _ = pidfd_send_signal(process, signal);
    })
}

/// The same with the signal that asks a service to end, which may be a real-time one.
pub(crate) fn ask_those_to_end(pids: &[u32], by: StopSignal, meant: impl Fn(Vec<u32>) -> Vec<u32>) -> usize {
    reach_those(pids, meant, |process| {
        let (process, no_facts) = (process.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: plain numbers and no memory; a process that has ended is an error and nothing else.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, by.number(), no_facts, 0) };
    })
}

fn reach_those(pids: &[u32], meant: impl Fn(Vec<u32>) -> Vec<u32>, reach: impl Fn(&OwnedFd)) -> usize {
    let hold = |pid: &u32| {
        let id = Pid::from_raw(pid.cast_signed())?;
        Some((*pid, pidfd_open(id, PidfdFlags::empty()).ok()?))
    };
    let each = |some: &[u32]| {
        let held: BTreeMap<u32, OwnedFd> = some.iter().filter_map(hold).collect();
        let picked = meant(held.keys().copied().collect());
        for process in picked.iter().filter_map(|pid| held.get(pid)) {
            reach(process);
        }
        picked.len()
    };
    pids.chunks(HELD).map(each).sum()
}

/// Sends a signal to all processes of a command that are among `members`; returns how many there are.
pub(crate) fn signal_command(leader: u32, members: Vec<u32>, signal: Signal) -> usize {
    signal_those(&members, signal, |held| of_command(leader, held))
}

/// Kills all processes of a command that are among `members`, and waits until they are gone. As long as its first
/// process is not reaped, no other process can be mistaken for it.
///
/// # Errors
/// When some of them still exist.
pub(crate) fn kill_command(leader: u32, members: &dyn Fn() -> Vec<u32>) -> Result<(), Fault> {
    kill_those(members, |held| of_command(leader, held))
}

/// The same for a command whose first process nobody knows: all that were started with this value of an environment
/// variable, which no other command is given.
///
/// # Errors
/// When some of them still exist.
pub(crate) fn kill_marked(variable: &str, value: &str, members: &dyn Fn() -> Vec<u32>) -> Result<(), Fault> {
    let is_marked =
        |pid: &u32| start_time(*pid).is_some() && in_environment(*pid, variable).is_some_and(|found| found == value);
    kill_those(members, |held| held.into_iter().filter(is_marked).collect())
}

fn kill_those(members: &dyn Fn() -> Vec<u32>, meant: impl Fn(Vec<u32>) -> Vec<u32>) -> Result<(), Fault> {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        // Repeatedly: one may have started another before it was killed.
        let left = signal_those(&members(), Signal::KILL, &meant);
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            let seconds = GONE_WITHIN.as_secs();
            let message = format!("{left} processes of a command are still there {seconds} s after being killed");
            return Err(Fault::new(message));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_a_descendant_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        assert!(start_time(child.id()).is_some());
        let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        assert_eq!(in_stat(&text), start_time(child.id()).map(|started| (child.id(), started)));
        assert_eq!(in_stat("1 (a) b) S 0"), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(start_time(child.id()), None);
    }

    #[test]
    fn what_carries_the_mark_of_a_command_is_killed_and_nothing_else() {
        let sleep = |mark: &str| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env("TARE_MARKED", mark).spawn().unwrap()
        };
        let (mut ours, mut other) = (sleep("1-1"), sleep("1-11"));
        // Its environment appears a moment after it was started.
        for process in [&ours, &other] {
            while in_environment(process.id(), "TARE_MARKED").is_none() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        let members = [ours.id(), other.id()];
        kill_marked("TARE_MARKED", "1-1", &|| members.to_vec()).unwrap();
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().and_then(|()| other.wait()).unwrap();
    }

    #[test]
    fn a_number_that_has_passed_to_another_process_leads_to_nobody() {
        let last = "/proc/sys/kernel/ns_last_pid";
        let sleep = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut first = sleep();
        let number = first.id();
        let other = std::cell::RefCell::new(None);
        let picked = signal_those(&[number], Signal::KILL, |held| {
            assert_eq!(held, [number]);
            first_ends(number);
            for _ in 0..200 {
                if std::fs::write(last, (number - 1).to_string()).is_err() {
                    break;
                }
                let mut next = sleep();
                if next.id() == number {
                    other.replace(Some(next));
                    return held;
                }
                next.kill().and_then(|()| next.wait()).unwrap();
            }
            held
        });
        assert_eq!(picked, 1);
        // It was reaped by its id; what std thinks about it does not matter.
        let _ = first.try_wait();
        let Some(mut other) = other.into_inner() else {
            return println!("skipped: no process could be given a number that another had");
        };
        std::thread::sleep(Duration::from_millis(50));
        assert!(other.try_wait().unwrap().is_none(), "it was killed for another");
        other.kill().and_then(|()| other.wait()).unwrap();
    }

    #[test]
    fn only_those_that_are_meant_are_asked_to_end() {
        use std::os::unix::process::ExitStatusExt;
        let mut started = ["60", "61"].map(|time| std::process::Command::new("sleep").arg(time).spawn().unwrap());
        let [meant, other] = started.each_ref().map(std::process::Child::id);
        let by = StopSignal::parse("SIGRTMIN+3").unwrap();
        let picked = ask_those_to_end(&[meant, other], by, |held| {
            assert_eq!(held.into_iter().collect::<BTreeSet<u32>>(), BTreeSet::from([meant, other]));
            vec![meant]
        });
        assert_eq!(picked, 1);
        let [first, second] = &mut started;
        assert_eq!(first.wait().unwrap().signal(), Some(by.number()));
        assert!(second.try_wait().unwrap().is_none(), "it is not meant");
        assert_eq!(ask_those_to_end(&[], by, |held| held), 0, "the service had ended before it was seen");
        second.kill().and_then(|()| second.wait()).unwrap();
    }

    /// Ends and reaps a child of this process.
    fn first_ends(number: u32) {
        let child = crate::local::child::OwnChild::adopted(number).unwrap();
        child.signal(Signal::KILL);
        child.wait().unwrap();
    }

    /// Starts a script in a session of its own.
    fn start(script: &str) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]);
        // SAFETY: setsid(2) is a plain system call.
        unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
        command.spawn().unwrap()
    }

    #[test]
    fn a_daemon_in_its_groups_is_part_of_a_service_and_a_command_beside_it_is_not() {
        let mut started = ["sleep 71 & exec sleep 72", "exec sleep 73", "sleep 74 & exec sleep 75"].map(start);
        let [service, daemon, command] = started.each_ref().map(std::process::Child::id);
        let below = |pid: u32| {
            let patience = Instant::now() + Duration::from_secs(10);
            loop {
                match descendants(pid)[..] {
                    [child] => return child,
                    ref other => assert!(Instant::now() < patience, "{other:?}"),
                }
                std::thread::sleep(LOOK_EVERY);
            }
        };
        let (child, other) = (below(service), below(command));
        let members = || BTreeSet::from([service, child, daemon, command, other]);
        assert_eq!(of_service(service, members(), Some(command)), BTreeSet::from([child, daemon]));
        assert_eq!(of_service(service, BTreeSet::new(), None), BTreeSet::from([child]), "it may have no group");
        assert_eq!(of_service(service, members(), None).len(), 4);
        assert_eq!(roots(service, members(), Some(command)), [service, daemon]);
        assert_eq!(roots(service, BTreeSet::new(), None), [service]);
        for child in &mut started {
            kill_command(child.id(), &all).unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_command_is_killed_with_what_left_its_parent_and_nothing_else() {
        // The background process is adopted once the shell in between has ended.
        let mut ours = start("(sleep 61 & sleep 62 &) ; exec sleep 63");
        let mut other = start("exec sleep 64");
        let leader = ours.id();
        let patience = Instant::now() + Duration::from_secs(10);
        while of_command(leader, all()).len() < 3 {
            assert!(Instant::now() < patience, "{:?}", of_command(leader, all()));
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(of_command(leader, vec![other.id(), std::process::id()]).is_empty());
        kill_command(leader, &all).unwrap();
        assert!(of_command(leader, all()).is_empty());
        assert!(other.try_wait().unwrap().is_none(), "it is no part of the command");
        ours.wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
