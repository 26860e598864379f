//! Freezes services while it is not their turn.
//!
//! A control group of version 2 is frozen as a whole; otherwise the processes in the group are stopped by signals.
//! Processes frozen in either way can still be killed, so a load process that dies does not prevent anyone from
//! cleaning up. The load process itself must not have the right to do either, because it parses what services answer. A
//! separate process does it: it is started before root is given up, and can do this to these services and nothing else.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{pread, pwrite};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::held::Held;

/// How long it may take to freeze all that serves a load. A system call that cannot be interrupted may be under way,
/// and a process has to run to handle a stop signal, which took more than 100 ms on a busy machine.
const WITHIN: Duration = Duration::from_secs(1);
/// How long the freezing process may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Freezes what serves the loads, by load number.
pub(super) enum Freezer {
    /// Nothing is frozen.
    Nobody,
    /// This process freezes, which has the right to.
    Here(Vec<Frozen>),
    /// Another process freezes, see [`serve_freezer`]. Once it has not answered in time it is not asked again, because
    /// a late answer would be taken for the answer to another request.
    There(UnixStream, AtomicBool),
}

impl Freezer {
    /// Freezes through the process behind `there` if there is one, and from this process otherwise.
    ///
    /// # Errors
    /// When there is no such process, and one of these cannot be held here.
    pub(super) fn of(held: &[Vec<Held>], there: Option<UnixStream>) -> Result<Freezer, Fault> {
        if held.is_empty() {
            return Ok(Freezer::Nobody);
        }
        match there {
            Some(mut there) => {
                let mut ready = [0];
                let begun = there.set_read_timeout(Some(ANSWER_WITHIN)).and_then(|()| there.read_exact(&mut ready));
                begun.doing("hear from the process that freezes what waits that it can")?;
                Ok(Freezer::There(there, AtomicBool::new(false)))
            }
            None => Ok(Freezer::Here(hold(held)?)),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Freezer::Nobody)
    }

    /// Freezes or thaws what serves a load; returns whether that worked for all of it.
    pub(super) fn set(&self, load: usize, frozen: bool) -> bool {
        match self {
            Freezer::Nobody => true,
            Freezer::Here(all) => all.get(load).is_some_and(|one| one.set(frozen)),
            Freezer::There(_, broken) if broken.load(Ordering::Relaxed) => false,
            Freezer::There(stream, broken) => {
                let (mut stream, mut answer) = (stream, [0]);
                let asked = u8::try_from(load).map(|load| stream.write_all(&[load, u8::from(frozen)]));
                let answered = matches!(asked, Ok(Ok(()))) && stream.read_exact(&mut answer).is_ok();
                broken.store(!answered, Ordering::Relaxed);
                answered && answer == [1]
            }
        }
    }
}

fn hold(held: &[Vec<Held>]) -> Result<Vec<Frozen>, Fault> {
    held.iter().map(|held| Frozen::hold(held)).collect()
}

/// Reports by one byte that it is ready, then freezes and thaws what serves the loads of `held` as `orders` asks: each
/// request is two bytes, the load and whether to freeze it, and is answered by one byte, whether that worked for all of
/// it. When the other end is gone, everything is thawed.
///
/// # Errors
/// When one of them cannot be held.
pub fn serve_freezer(held: &[Vec<Held>], orders: &mut (impl Read + Write)) -> Result<(), Fault> {
    let all = hold(held)?;
    orders.write_all(&[1]).doing("say that what waits can be frozen")?;
    let mut order = [0; 2];
    while orders.read_exact(&mut order).is_ok() {
        let done = all.get(usize::from(order[0])).is_some_and(|one| one.set(order[1] == 1));
        if orders.write_all(&[u8::from(done)]).is_err() {
            break;
        }
    }
    Ok(())
}

/// All that serves one load. Thawed when this is dropped.
pub(super) struct Frozen {
    each: Vec<One>,
}

enum One {
    /// A group of version 2: the file that freezes it, and the file that shows when that is done.
    Group {
        freeze: OwnedFd,
        events: OwnedFd,
    },
    /// A group of version 1, by the file that lists its processes.
    Members(PathBuf),
    Process(OwnedFd, i32),
}

impl Frozen {
    /// Takes hold of what serves a load, and leaves it running.
    ///
    /// # Errors
    /// When there is nothing to hold, or one of them is gone.
    pub(super) fn hold(held: &[Held]) -> Result<Frozen, Fault> {
        if held.is_empty() {
            return Err(Fault::new("nothing is known of what serves this load, so it cannot be frozen"));
        }
        Ok(Frozen { each: held.iter().map(One::hold).collect::<Result<_, Fault>>()? })
    }

    /// Freezes or thaws it; returns whether that worked for all of it.
    pub(super) fn set(&self, frozen: bool) -> bool {
        // All are tried even if the first fails, and share one time limit, which the side waiting for the answer relies
        // on.
        let began = Instant::now();
        let failed = self.each.iter().map(|one| one.set(frozen, began)).filter(Result::is_err).count();
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
                let held = pidfd_open(pid, PidfdFlags::empty()).doing(doing())?;
                return Ok(One::Process(held, number.cast_signed()));
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

    fn set(&self, frozen: bool, began: Instant) -> rustix::io::Result<()> {
        match self {
            One::Group { freeze, events } => {
                pwrite(freeze, if frozen { b"1" } else { b"0" }, 0)?;
                // Thawing needs no confirmation, but what is frozen must not run while others do.
                if frozen { await_frozen(events, began) } else { Ok(()) }
            }
            One::Members(list) => signal_members(list, frozen, began),
            One::Process(process, number) => {
                signalled(process, if frozen { Signal::STOP } else { Signal::CONT })?;
                while frozen && !is_stopped(*number) {
                    if began.elapsed() > WITHIN {
                        return Err(rustix::io::Errno::TIMEDOUT);
                    }
                }
                Ok(())
            }
        }
    }
}

/// Stops or continues every process of a group, including those started meanwhile; waits until the stopped ones have
/// stopped.
fn signal_members(list: &PathBuf, frozen: bool, began: Instant) -> rustix::io::Result<()> {
    let signal = if frozen { Signal::STOP } else { Signal::CONT };
    let members = || -> Vec<i32> {
        let text = std::fs::read_to_string(list).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let mut signalled_to: Vec<i32> = Vec::new();
    loop {
        let fresh: Vec<i32> = members().into_iter().filter(|number| !signalled_to.contains(number)).collect();
        let hold = |number: &i32| Some((*number, pidfd_open(Pid::from_raw(*number)?, PidfdFlags::empty()).ok()?));
        let held: Vec<(i32, OwnedFd)> = fresh.iter().filter_map(hold).collect();
        // Read again: a process id may have been reused before it was taken hold of.
        let still = members();
        for (_, process) in held.iter().filter(|(number, _)| still.contains(number)) {
            signalled(process, signal)?;
        }
        signalled_to.extend(fresh);
        let all = still.iter().all(|number| signalled_to.contains(number));
        if all && (!frozen || still.iter().all(|number| is_stopped(*number))) {
            return Ok(());
        }
        if began.elapsed() > WITHIN {
            return Err(rustix::io::Errno::TIMEDOUT);
        }
    }
}

/// Whether all threads of a process are stopped, or gone.
fn is_stopped(number: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{number}/task")) else { return true };
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let state = |stat: String| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    stats.filter_map(state).all(|state| matches!(state, 'T' | 'Z' | 'X'))
}

/// Sends a signal. The process may have ended: then it does not run, which is fine.
fn signalled(process: impl AsFd, signal: Signal) -> rustix::io::Result<()> {
    match pidfd_send_signal(process, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        done => done,
    }
}

fn await_frozen(events: &OwnedFd, began: Instant) -> rustix::io::Result<()> {
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

        /// The letter by which the kernel reports the process state.
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
        // A group of version 1: only the file that is read.
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

    #[test]
    fn a_process_of_its_own_freezes_as_it_is_told_and_lets_all_run_on_at_the_end() {
        let sleepers = [Sleeper::start(), Sleeper::start()];
        let held = sleepers.each_ref().map(|sleeper| vec![Held::Process(sleeper.0.id())]).to_vec();
        let (here, mut there) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| serve_freezer(&held, &mut there).unwrap());
            let freezer = Freezer::of(&held, Some(here)).unwrap();
            assert!(freezer.is_there() && freezer.set(0, true) && freezer.set(1, true));
            sleepers[0].becomes('T');
            sleepers[1].becomes('T');
            assert!(freezer.set(1, false) && !freezer.set(7, true), "there is no eighth");
            sleepers[1].becomes('S');
            assert_eq!(sleepers[0].state(), 'T');
            drop(freezer);
        });
        sleepers[0].becomes('S');
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        assert!(Freezer::of(&held, Some(here)).is_err(), "who cannot hold them says nothing");
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(&[1]).unwrap();
        let freezer = Freezer::of(&held, Some(here)).unwrap();
        drop(there);
        assert!(!freezer.set(0, true) && !freezer.set(1, true), "nobody answers");
    }
}
