//! A group for the command with which a workload builds its own programs: how much of the whole machine it may use.

use crate::cgroup::{self, Group};
use crate::run_mark::RunMark;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::process::Command;
use tare_core::fault::{Doing, Fault};
use tare_core::workload::Resources;

/// The share of this machine's memory, or of what Tare itself may have of it, that a build may have.
const SHARE: (u64, u64) = (3, 4);
/// The lowest CPU priority: any other computation gets about seventy times as much of a CPU.
const LAST_TURN: i32 = 19;

/// A group in a run of its own, so that what a killed Tare process leaves of it is found; everything in it is killed
/// when this is dropped.
#[derive(Debug)]
pub struct BuildGroup {
    mark: Option<RunMark>,
    group: Group,
    memory_bytes: u64,
}

impl BuildGroup {
    /// Makes one on behalf of `run`, a name that nothing else has: three quarters of this machine's memory, or of what
    /// this process may have, without swap.
    ///
    /// # Errors
    /// When no cgroups that limit memory are mounted, or it cannot be made.
    pub fn make(run: &str) -> Result<BuildGroup, Fault> {
        let machine = rustix::system::sysinfo();
        let memory = machine.totalram * u64::from(machine.mem_unit);
        let memory = cgroup::own_memory_limit().map_or(memory, |own| own.min(memory));
        BuildGroup::with(run, memory / SHARE.1 * SHARE.0)
    }

    fn with(run: &str, memory_bytes: u64) -> Result<BuildGroup, Fault> {
        let mark = RunMark::create(run)?;
        let resources = Resources { cpus: 1, cpu_quota: None, memory_bytes };
        match Group::create(run, "build", &resources) {
            Ok(group) => Ok(BuildGroup { mark: Some(mark), group, memory_bytes }),
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = mark.close();
                Err(fault)
            }
        }
    }

    /// Has the process that `command` will start begin in the group, with the lowest CPU priority.
    ///
    /// # Errors
    /// When the group cannot be entered.
    pub fn take_in(&self, command: &mut Command) -> Result<(), Fault> {
        let open = |path: std::path::PathBuf| {
            OpenOptions::new().write(true).open(&path).doing(format!("open {}", path.display()))
        };
        let entrances = self.group.entrances().map(open).collect::<Result<Vec<File>, Fault>>()?;
        let enter = move || -> std::io::Result<()> {
            entrances.iter().try_for_each(|entrance| rustix::io::write(entrance, b"0").map(drop))?;
            Ok(rustix::process::setpriority_process(None, LAST_TURN)?)
        };
        // SAFETY: between fork and exec it makes only system calls, on descriptors that were opened before.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    /// How much memory it may have, bytes, if the kernel has killed any of it for lack of that.
    pub fn ran_out_of(&self) -> Option<u64> {
        (self.group.killed_for_memory() > 0).then_some(self.memory_bytes)
    }
}

impl Drop for BuildGroup {
    fn drop(&mut self) {
        // What is left of it is in its run's register, which then stays for `tare clean`.
        let _ = self.group.remove();
        let _ = self.mark.take().map(RunMark::close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers;

    #[test]
    fn a_build_has_so_much_memory_and_the_last_turn() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let run = "b01db1";
        let group = BuildGroup::with(run, 64 << 20).unwrap();
        let shell = |script: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            group.take_in(&mut command).unwrap();
            command.output().unwrap()
        };
        assert_eq!(String::from_utf8(shell("nice").stdout).unwrap().trim(), "19");
        assert!(shell("head -c 30000000 /dev/zero | tail -c 29000000 >/dev/null").status.success());
        assert_eq!(group.ran_out_of(), None);
        // Several processes together get no more than one alone: three times 30 MB.
        let hungry = "hold() { head -c 30000000 /dev/zero | tail -c 29000000 | (sleep 2; cat >/dev/null); }
                      hold & hold & hold & wait";
        shell(hungry);
        assert_eq!(group.ran_out_of(), Some(64 << 20));
        // What it has left behind in a session of its own goes with it.
        shell("setsid sleep 1000 >/dev/null 2>&1 &");
        let members = group.group.members();
        assert!(!members.is_empty());
        drop(group);
        assert!(members.iter().all(|pid| crate::processes::start_time(*pid).is_none()));
        assert!(leftovers::leftovers(crate::LAYERS).unwrap().iter().all(|left| left.run != run));
    }
}
