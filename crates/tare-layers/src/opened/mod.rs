//! Which files a program uses: it is started once, as a user who is not trusted with more, and the kernel tells of each
//! call by which it, or a process that it has started, names a file.

mod calls;
mod names;
mod rights;

pub use names::{Names, Use};
pub use rights::with_rights_of;

use crate::listening;
use crate::local::confinement::{become_user, leave_open_files};
use crate::local::logs::{self, Keeper};
use crate::local::{BuildGroup, PROCESSES};
use names::Kept;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal, kill_process, pidfd_getfd, pidfd_open, setrlimit,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{PipeReader, Read};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tare_core::fault::{Doing, Fault};
use tare_core::telemetry::Scope;

/// A program to be watched.
pub struct Program<'a> {
    /// The absolute path of the program, and its arguments.
    pub words: &'a [String],
    /// The folder that it starts in.
    pub directory: &'a Path,
    /// Its whole environment.
    pub environment: &'a BTreeMap<String, String>,
    /// User and group that it runs as, without other groups and without capabilities. Never root, who owns the
    /// machine's files without any.
    pub user: (u32, u32),
}

/// A program that is watched. It is killed when this is dropped, with all that it has started.
pub struct Watch {
    child: Child,
    group: Option<BuildGroup>,
    names: Arc<Mutex<Kept>>,
    over: Arc<AtomicBool>,
    keeper: Option<JoinHandle<Result<(), Fault>>>,
    output: File,
    /// Keeps the output short while it runs.
    _short: Keeper,
}

impl Watch {
    /// Starts a program on behalf of `run`, a name that nothing else has. It gets nothing on its standard input, and
    /// what it prints goes to `output`, of which only the end is kept.
    ///
    /// # Errors
    /// When it cannot be started, or the kernel cannot tell which files it names.
    ///
    /// # Panics
    /// For root.
    pub fn start(run: &str, program: &Program<'_>, output: File) -> Result<Watch, Fault> {
        assert_ne!(program.user.0, 0, "no program is watched as root");
        let (first, arguments) = program.words.split_first().ok_or_else(|| Fault::new("the command is empty"))?;
        let group = BuildGroup::make(run)?;
        let mut command = Command::new(first);
        command.args(arguments).current_dir(program.directory).env_clear().envs(program.environment);
        let printed = || output.try_clone().doing("share the file for its output");
        command.stdin(Stdio::null()).stdout(printed()?).stderr(printed()?);
        let mut short = Keeper::default();
        short.keep(printed()?);
        group.take_in(&mut command)?;
        let (reader, writer) = std::io::pipe().doing("make a pipe")?;
        let (user, code) = (program.user, calls::instructions());
        let enter = move || -> std::io::Result<()> {
            // An interrupt on the terminal is for whoever watches.
            rustix::process::setsid()?;
            setrlimit(Resource::Nproc, Rlimit { current: Some(PROCESSES), maximum: Some(PROCESSES) })?;
            become_user(user)?;
            leave_open_files()?;
            let listener = calls::tell(&code)?;
            let mut said = [0; 8];
            said[..4].copy_from_slice(&std::process::id().to_ne_bytes());
            said[4..].copy_from_slice(&listener.as_raw_fd().to_ne_bytes());
            rustix::io::write(&writer, &said)?;
            // The program's beginning closes it; until then it has to stay open.
            std::mem::forget(listener);
            Ok(())
        };
        // SAFETY: between fork and exec it makes system calls on what was prepared here, and allocates nothing.
        unsafe { command.pre_exec(enter) };
        let (names, over) = (Arc::new(Mutex::new(Kept::default())), Arc::new(AtomicBool::new(false)));
        // Its first call waits to be told of, and only then the start of the program is over.
        let keeper = std::thread::spawn({
            let (names, over) = (Arc::clone(&names), Arc::clone(&over));
            move || attend(reader, &names, &over)
        });
        let spawned = command.spawn();
        // With the writing end of the pipe, in case that the child has not got as far as to write.
        drop(command);
        match spawned {
            Ok(child) => {
                let (group, keeper) = (Some(group), Some(keeper));
                Ok(Watch { child, group, names, over, keeper, output, _short: short })
            }
            Err(error) => {
                over.store(true, Ordering::Relaxed);
                let _ = keeper.join();
                Err(Fault::from_error(format_args!("start {first} to see which files it uses"), &error))
            }
        }
    }

    /// Where it listens now; an unspecified address means all.
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        let scope = Scope { name: String::new(), serving: true, pids: vec![self.child.id()], cgroups: Vec::new() };
        let here = listening::network_of(std::process::id()).unwrap_or_default();
        listening::addresses(&scope, &here)
    }

    /// How it has ended, if it has: "exit code 1".
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn ended(&mut self) -> Result<Option<String>, Fault> {
        let status = self.child.try_wait().doing("ask whether the program still runs")?;
        Ok(status.map(how))
    }

    /// How many different paths were named so far.
    pub fn count(&self) -> usize {
        held(&self.names).count()
    }

    /// Kills it; returns what was named, and the end of what it has printed, with a line that says how much is left
    /// out.
    ///
    /// # Errors
    /// When the kernel could not tell which files it named.
    pub fn end(mut self) -> Result<(Names, String), Fault> {
        self.kill().unwrap_or(Ok(()))?;
        let names = held(&self.names).take();
        // What cannot be read is only missing from a message.
        Ok((names, logs::end_of(&self.output).unwrap_or_default()))
    }

    /// Kills it once; returns how the keeping of names went.
    fn kill(&mut self) -> Option<Result<(), Fault>> {
        let keeper = self.keeper.take()?;
        // Of one that has ended by itself there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // With all that it has started; those wait for the keeper no longer, since they are killed.
        drop(self.group.take());
        self.over.store(true, Ordering::Relaxed);
        Some(keeper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn held(names: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the descriptor at which the kernel tells, and keeps the names. A child that was not started says nothing.
fn attend(mut reader: PipeReader, names: &Mutex<Kept>, over: &AtomicBool) -> Result<(), Fault> {
    let mut said = [0; 8];
    if reader.read_exact(&mut said).is_err() {
        return Ok(());
    }
    let number = |at: usize| i32::from_ne_bytes([said[at], said[at + 1], said[at + 2], said[at + 3]]);
    let Some(process) = Pid::from_raw(number(0)) else { return Ok(()) };
    let taken = || -> rustix::io::Result<OwnedFd> {
        // The child waits in the call that runs its program until the kernel is answered, so it still has it.
        pidfd_getfd(pidfd_open(process, PidfdFlags::empty())?, number(4), PidfdGetfdFlags::empty())
    };
    match taken() {
        Ok(listener) => {
            names::keep(&listener, names, over);
            Ok(())
        }
        Err(error) => {
            // It would wait forever. It is a child that nobody has waited for, so the number is its own.
            let _ = kill_process(process, Signal::KILL);
            Err(Fault::from_error("have the kernel tell which files the program uses", &error)
                .remedy("put the program into an image or a folder: `bundle: {folder: ...}`; this needs Linux 5.6"))
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn watched(script: &str) -> Option<(Names, String)> {
        tare_testkit::needs::root()?;
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let program =
            Program { words: &words, directory: Path::new("/usr"), environment: &environment, user: (65534, 65534) };
        let output = tempfile::tempfile().unwrap();
        let mut watch = Watch::start("0fe11e", &program, output).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while watch.ended().unwrap().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(watch.end().unwrap())
    }

    #[test]
    fn files_of_a_program_and_of_its_children_are_named() {
        let script = "cat lib/os-release /etc/shadow; cd lib; ls -d . >/dev/null; id -u; : >/usr/none-such";
        let Some((names, printed)) = watched(script) else { return };
        let of = |path: &str| names.get(Path::new(path)).copied().unwrap_or_else(|| panic!("{path}: {names:?}"));
        assert!(of("/bin/sh").run && of("/usr/bin/cat").run);
        assert!(of("/usr/lib/os-release").opened && !of("/usr/lib/os-release").changed);
        let refused = of("/usr/none-such");
        assert!(refused.changed && refused.made, "it is nobody: {refused:?}");
        assert!(printed.lines().any(|line| line == "65534"), "{printed}");
        assert!(printed.contains("/etc/shadow"), "it could not read that: {printed}");
        let left = crate::leftovers::leftovers(crate::LAYERS).unwrap();
        assert!(left.iter().all(|left| left.run != "0fe11e"));
    }

    #[test]
    fn what_it_prints_and_starts_has_bounds() {
        let script = "head -c 300000 /dev/zero | tr '\\0' x; echo; cat /proc/self/limits; echo the end";
        let Some((_, printed)) = watched(script) else { return };
        let start: String = printed.chars().take(80).collect();
        assert!(start.contains(" of output before this are left out]\nxxx"), "{start}");
        assert!(printed.len() < 70_000 && printed.ends_with("the end\n"), "{} bytes", printed.len());
        let processes = printed.lines().find(|line| line.starts_with("Max processes")).unwrap();
        assert!(processes.contains(&format!(" {PROCESSES} ")), "{processes}");
    }

    #[test]
    fn what_still_runs_is_killed() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let words = ["/bin/sh", "-c", "sleep 1000 & sleep 1001; true"].map(str::to_owned);
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let program =
            Program { words: &words, directory: Path::new("/"), environment: &environment, user: (65534, 65534) };
        let watch = Watch::start("0fe11d", &program, tempfile::tempfile().unwrap()).unwrap();
        let process = watch.child.id();
        let deadline = Instant::now() + Duration::from_secs(20);
        while crate::processes::descendants(process).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let below = crate::processes::descendants(process);
        assert_eq!(below.len(), 2);
        drop(watch);
        assert!(below.iter().chain([&process]).all(|pid| crate::processes::start_time(*pid).is_none()));
    }

    #[test]
    fn a_program_that_is_not_there_is_said() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let (words, environment) = (["/none/such".to_owned()], BTreeMap::new());
        let program = Program { words: &words, directory: Path::new("/"), environment: &environment, user: (1, 1) };
        let started = Watch::start("0fe11c", &program, tempfile::tempfile().unwrap());
        let fault = started.map(drop).unwrap_err();
        assert!(fault.message.contains("/none/such") && fault.message.contains("No such file"), "{fault}");
    }
}
