//! Which files a program uses: it is started once, as a user who is not trusted with more, and the kernel tells of each
//! call by which it, or a process that it has started, names a file.

mod calls;
mod names;
mod rights;

pub use names::{Names, Use};
pub use rights::with_rights_of;

use crate::listening;
use crate::local::BuildGroup;
use crate::local::confinement::{become_user, leave_open_files};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{PipeReader, Read, Seek, SeekFrom};
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
    /// User and group that it runs as, without other groups and without capabilities.
    pub user: (u32, u32),
}

/// A program that is watched. It is killed when this is dropped, with all that it has started.
pub struct Watch {
    child: Child,
    group: Option<BuildGroup>,
    names: Arc<Mutex<Names>>,
    over: Arc<AtomicBool>,
    keeper: Option<JoinHandle<Result<(), Fault>>>,
    output: File,
}

impl Watch {
    /// Starts a program on behalf of `run`, a name that nothing else has. It gets nothing on its standard input, and
    /// what it prints goes to `output`.
    ///
    /// # Errors
    /// When it cannot be started, or the kernel cannot tell which files it names.
    pub fn start(run: &str, program: &Program<'_>, output: File) -> Result<Watch, Fault> {
        let (first, arguments) = program.words.split_first().ok_or_else(|| Fault::new("the command is empty"))?;
        let group = BuildGroup::make(run)?;
        let mut command = Command::new(first);
        command.args(arguments).current_dir(program.directory).env_clear().envs(program.environment);
        let printed = || output.try_clone().doing("share the file for its output");
        command.stdin(Stdio::null()).stdout(printed()?).stderr(printed()?);
        group.take_in(&mut command)?;
        let (reader, writer) = std::io::pipe().doing("make a pipe")?;
        let (user, code) = (program.user, calls::instructions());
        let enter = move || -> std::io::Result<()> {
            // An interrupt on the terminal is for whoever watches.
            rustix::process::setsid()?;
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
        let (names, over) = (Arc::new(Mutex::new(Names::new())), Arc::new(AtomicBool::new(false)));
        // Its first call waits to be told of, and only then the start of the program is over.
        let keeper = std::thread::spawn({
            let (names, over) = (Arc::clone(&names), Arc::clone(&over));
            move || attend(reader, &names, &over)
        });
        let spawned = command.spawn();
        // With the writing end of the pipe, in case that the child has not got as far as to write.
        drop(command);
        match spawned {
            Ok(child) => Ok(Watch { child, group: Some(group), names, over, keeper: Some(keeper), output }),
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
        held(&self.names).len()
    }

    /// What it has printed. It must have ended, since both read and write at one position.
    fn printed(&mut self) -> String {
        let mut bytes = Vec::new();
        // What cannot be read is only missing from a message.
        let _ = self.output.seek(SeekFrom::Start(0)).and_then(|_| self.output.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Kills it; returns what was named, and what it has printed.
    ///
    /// # Errors
    /// When the kernel could not tell which files it named.
    pub fn end(mut self) -> Result<(Names, String), Fault> {
        self.kill().unwrap_or(Ok(()))?;
        let names = std::mem::take(&mut *held(&self.names));
        Ok((names, self.printed()))
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

fn held(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the descriptor at which the kernel tells, and keeps the names. A child that was not started says nothing.
fn attend(mut reader: PipeReader, names: &Mutex<Names>, over: &AtomicBool) -> Result<(), Fault> {
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
    fn what_still_runs_is_killed() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let words = ["/bin/sh", "-c", "sleep 1000 & sleep 1001; true"].map(str::to_owned);
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let program = Program { words: &words, directory: Path::new("/"), environment: &environment, user: (0, 0) };
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
