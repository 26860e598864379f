//! Services that are kept from running while it is not their turn.
//!
//! By the control group where it is of version 2; else by signals to the processes in it. Whoever is frozen in one of
//! these ways can be killed, so a load process that dies keeps nobody from cleaning up.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{pread, pwrite};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::held::Held;

/// How long a group may take to be frozen: a system call that cannot be interrupted may be under way.
const WITHIN: Duration = Duration::from_millis(100);

/// All that serves one load. Runs on when this is dropped.
pub(super) struct Frozen {
    each: Vec<One>,
}

enum One {
    /// A group of version 2: what is written to, and what tells when that is done.
    Group {
        freeze: OwnedFd,
        events: OwnedFd,
    },
    /// A group of version 1, by the list of its processes.
    Members(PathBuf),
    Process(OwnedFd),
}

impl Frozen {
    /// Takes hold of what serves a load, and lets it run.
    ///
    /// # Errors
    /// When there is nothing, or one of them is gone.
    pub(super) fn hold(held: &[Held]) -> Result<Frozen, Fault> {
        if held.is_empty() {
            return Err(Fault::new("nothing is known of what serves this load, so it cannot be frozen"));
        }
        Ok(Frozen { each: held.iter().map(One::hold).collect::<Result<_, Fault>>()? })
    }

    /// Keeps it from running, or lets it run on; whether all of it could be.
    pub(super) fn set(&self, frozen: bool) -> bool {
        // All are tried, whatever becomes of the first.
        let failed = self.each.iter().map(|one| one.set(frozen)).filter(Result::is_err).count();
        failed == 0
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl One {
    fn hold(held: &Held) -> Result<One, Fault> {
        let group = match held {
            Held::Process(number) => {
                let doing = || format!("take hold of process {number}");
                let pid =
                    Pid::from_raw(number.cast_signed()).ok_or_else(|| Fault::new("no process has the number 0"))?;
                return pidfd_open(pid, PidfdFlags::empty()).map(One::Process).doing(doing());
            }
            Held::Group(group) => group,
        };
        let open = |name: &str, flags: OFlags| {
            let path = group.join(name);
            rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty()).doing(format!("open {}", path.display()))
        };
        if !group.join("cgroup.freeze").exists() {
            open("cgroup.procs", OFlags::RDONLY)?;
            return Ok(One::Members(group.join("cgroup.procs")));
        }
        Ok(One::Group {
            freeze: open("cgroup.freeze", OFlags::WRONLY)?,
            events: open("cgroup.events", OFlags::RDONLY)?,
        })
    }

    fn set(&self, frozen: bool) -> rustix::io::Result<()> {
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        match self {
            One::Group { freeze, events } => {
                pwrite(freeze, if frozen { b"1" } else { b"0" }, 0)?;
                // What runs on begins at once; what is frozen must not run beside others.
                if frozen { await_frozen(events) } else { Ok(()) }
            }
            One::Members(list) => {
                let members = || -> Vec<i32> {
                    let text = std::fs::read_to_string(list).unwrap_or_default();
                    text.lines().filter_map(|line| line.parse().ok()).collect()
                };
                let hold = |number: i32| Some((number, pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?));
                let held: Vec<(i32, OwnedFd)> = members().into_iter().filter_map(hold).collect();
                // Read again: a number may have passed to another process before it was taken hold of.
                let still = members();
                let mut done = Ok(());
                for (_, process) in held.iter().filter(|(number, _)| still.contains(number)) {
                    done = done.and(signalled(process, signal));
                }
                done
            }
            One::Process(process) => signalled(process, signal),
        }
    }
}

/// It may have ended: then it does not run.
fn signalled(process: impl AsFd, signal: Signal) -> rustix::io::Result<()> {
    match pidfd_send_signal(process, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        done => done,
    }
}

fn await_frozen(events: &OwnedFd) -> rustix::io::Result<()> {
    let began = Instant::now();
    let mut text = [0; 128];
    loop {
        let length = pread(events, &mut text, 0)?;
        if text[..length].split(|byte| *byte == b'\n').any(|line| line == b"frozen 1") {
            return Ok(());
        }
        if began.elapsed() > WITHIN {
            return Err(rustix::io::Errno::TIMEDOUT);
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> Sleeper {
            let mut command = Command::new("sleep");
            Sleeper(command.arg("60").stdin(Stdio::null()).spawn().expect("there is a sleep"))
        }

        /// The letter by which the kernel tells what it is doing.
        fn state(&self) -> char {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it is there");
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).expect("it has a state")
        }

        fn becomes(&self, wanted: char) {
            let began = Instant::now();
            while self.state() != wanted {
                assert!(began.elapsed() < Duration::from_secs(5), "it is {}, not {wanted}", self.state());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_is_stopped_and_goes_on_when_it_is_let_go() {
        let sleeper = Sleeper::start();
        let frozen = Frozen::hold(&[Held::Process(sleeper.0.id())]).unwrap();
        assert!(frozen.set(true));
        sleeper.becomes('T');
        assert!(frozen.set(false));
        sleeper.becomes('S');
        assert!(frozen.set(true));
        sleeper.becomes('T');
        drop(frozen);
        sleeper.becomes('S');
    }

    #[test]
    fn those_in_a_group_are_stopped_and_nobody_else() {
        let (inside, beside) = (Sleeper::start(), Sleeper::start());
        let folder = tempfile::tempdir().unwrap();
        // A group of version 1, as far as it is read.
        std::fs::write(folder.path().join("cgroup.procs"), format!("{}\n", inside.0.id())).unwrap();
        let frozen = Frozen::hold(&[Held::Group(folder.path().to_owned())]).unwrap();
        beside.becomes('S');
        assert!(frozen.set(true));
        inside.becomes('T');
        assert_eq!(beside.state(), 'S');
        assert!(frozen.set(false));
        inside.becomes('S');
    }

    #[test]
    fn what_is_gone_cannot_be_held_and_what_ends_later_does_not_run() {
        let mut sleeper = Sleeper::start();
        let frozen = Frozen::hold(&[Held::Process(sleeper.0.id())]).unwrap();
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        assert!(frozen.set(true) && frozen.set(false));
        assert!(Frozen::hold(&[Held::Process(sleeper.0.id())]).is_err());
        assert!(Frozen::hold(&[Held::Group("/sys/fs/cgroup/no-such-group".into())]).is_err());
        assert!(Frozen::hold(&[]).is_err());
    }
}
