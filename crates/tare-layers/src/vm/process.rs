//! QEMU as a child process, and what it and the guest's console say about its end.

use super::confinement::{Cell, OwnUser};
use super::passt;
use crate::agent::Peer;
use crate::local::logs::{self, Keeper};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};

/// How many lines of the console a fault shows.
const LINES_SHOWN: usize = 25;
/// How many of them come before the line that says that the kernel gave up.
const LINES_BEFORE: usize = 8;
/// How long QEMU may take to be gone once its passt has ended, which it does right after QEMU.
const GONE_WITHIN: Duration = Duration::from_millis(300);
/// What a Linux kernel says when it gives up.
const PANIC: &str = "Kernel panic - not syncing";

/// A running QEMU. Dropping it kills it.
pub(super) struct Process {
    child: Child,
    console: PathBuf,
    own_log: PathBuf,
    _keeper: Keeper,
    /// Goes to another guest once this one has ended.
    user: OwnUser,
    /// What carries the guest's network, if that is a process.
    passt: Option<passt::Running>,
}

/// A QEMU that several owners look at.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Process>>);

impl Shared {
    pub(super) fn new(process: Process) -> Self {
        Shared(Arc::new(Mutex::new(process)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Process> {
        // A thread that panicked while looking has left nothing half done.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Process {
    /// Starts QEMU with `command` in its cell, and gives it the cell's files.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(
        mut command: Command,
        arguments: &[String],
        cell: Cell,
        console: &Path,
        own_log: &Path,
    ) -> Result<Process, Fault> {
        let mut keeper = Keeper::default();
        keeper.keep(File::options().write(true).open(console).doing("open the guest's console log")?);
        // Append mode: output goes after what is there, wherever the end is by then.
        let log = File::options().create(true).append(true).open(own_log).doing("make QEMU's log")?;
        keeper.keep(log.try_clone().doing("share QEMU's log")?);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let user = cell.user();
        // SAFETY: what runs between fork and exec makes only system calls; it neither allocates nor takes locks.
        unsafe { command.pre_exec(move || cell.enter()) };
        let child = command.spawn().doing(format!("start {}", command.get_program().display()))?;
        let (console, own_log) = (console.to_owned(), own_log.to_owned());
        Ok(Process { child, console, own_log, _keeper: keeper, user, passt: None })
    }

    /// QEMU's process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// QEMU's user, to be kept until it has ended.
    pub(super) fn user(&self) -> OwnUser {
        self.user.clone()
    }

    /// Has the guest's network carried by a process, which is killed with QEMU.
    pub(super) fn carry(&mut self, passt: passt::Running) {
        self.passt = Some(passt);
    }

    /// The id of the process that carries the guest's network, if one does.
    pub(super) fn passt_pid(&self) -> Option<u32> {
        self.passt.as_ref().map(passt::Running::pid)
    }

    /// The file that the guest's console is written to.
    pub(super) fn console(&self) -> &Path {
        &self.console
    }

    /// Whether the guest still runs.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&mut self) -> Result<(), Fault> {
        let console = tail(&self.console);
        if let Some(what) = panic_in(&console) {
            return Err(Fault::new(format!("the guest's kernel panicked: {what}")).with_log(self.last_words()));
        }
        match self.child.try_wait().doing("ask for QEMU's state")? {
            None => self.check_passt(),
            Some(status) => {
                let own = tail(&self.own_log);
                let said = own.lines().map(|line| line.trim_start_matches("qemu-system-x86_64: ")).next();
                let said = said.map_or(String::new(), |line| format!(": {line}"));
                let fault = Fault::new(format!("the guest is gone: QEMU ended ({status}){said}"));
                Err(fault.with_log(self.last_words()))
            }
        }
    }

    fn check_passt(&mut self) -> Result<(), Fault> {
        let Some(passt) = &mut self.passt else { return Ok(()) };
        match passt.ended()? {
            None => Ok(()),
            // The cause is named, not what followed from it.
            Some(_) if self.wait(GONE_WITHIN) => self.check(),
            Some(fault) => Err(fault),
        }
    }

    /// Whether somebody has killed it: a cleanup by another process, or the kernel for lack of memory.
    pub(super) fn was_killed(&mut self) -> bool {
        let ended = self.child.try_wait().ok().flatten();
        ended.and_then(|status| status.signal()) == Some(rustix::process::Signal::KILL.as_raw())
    }

    /// Waits until it has ended; false if it has not within the time.
    pub(super) fn wait(&mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }

    /// Kills it, and what carries the guest's network.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(passt) = &mut self.passt {
            passt.kill();
        }
    }

    /// The last lines of the guest's console, and what QEMU itself said. For a panic, its first lines: what follows is
    /// a kernel trace.
    pub(super) fn last_words(&self) -> String {
        shown(&format!("{}{}", tail(&self.console), tail(&self.own_log)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The guest at the other end of an agent's line, as seen from outside.
pub(super) struct Outside(pub(super) Shared);

impl Peer for Outside {
    fn check(&mut self) -> Result<(), Fault> {
        self.0.lock().check()
    }

    fn last_words(&self) -> String {
        self.0.lock().last_words()
    }
}

/// The end of a log, printable.
fn tail(path: &Path) -> String {
    printable(&logs::tail(path).unwrap_or_default())
}

/// A console carries whatever the guest writes.
fn printable(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

/// What the guest's kernel said when it gave up, if it did.
fn panic_in(console: &str) -> Option<&str> {
    console.lines().find_map(|line| Some(line[line.find(PANIC)?..].trim()))
}

/// The lines of a console that are shown, see [`Process::last_words`].
fn shown(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let panicked = lines.iter().position(|line| line.contains(PANIC)).map(|at| at.saturating_sub(LINES_BEFORE));
    let first = panicked.unwrap_or(lines.len().saturating_sub(LINES_SHOWN));
    lines[first..].iter().take(LINES_SHOWN).copied().collect::<Vec<_>>().join("\n")
}

/// Reads any text as a guest's console: few lines are shown, all are printable, and a panic is among them.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(text: &str) {
    let console = printable(text);
    let shown = shown(&console);
    let is_plain = shown.chars().all(|c| c == '\n' || !c.is_control());
    assert!(shown.lines().count() <= LINES_SHOWN && is_plain, "{shown:?}");
    assert_eq!(panic_in(&console).is_some(), console.contains(PANIC));
    assert!(panic_in(&console).is_none_or(|what| what.starts_with(PANIC) && shown.contains(what)), "{shown:?}");
}

/// Kernel threads that move a guest's packets for this QEMU: `vhost-<pid>`. In newer kernels they are threads of QEMU
/// itself, which its own id covers.
pub(super) fn vhost_threads(qemu: u32) -> Vec<u32> {
    let wanted = format!("vhost-{qemu}");
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == wanted)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::confinement::Handed;
    use super::*;

    fn shell(script: &str, folder: &Path) -> Process {
        let arguments = ["-c".to_owned(), script.to_owned()];
        let console = folder.join("console");
        File::create(&console).unwrap();
        let cell = Cell::new(false, &Handed::default(), None).unwrap();
        Process::start(Command::new("/bin/sh"), &arguments, cell, &console, &folder.join("log")).unwrap()
    }

    #[test]
    fn the_end_of_the_process_is_told_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = shell("echo cannot do that >&2; exit 3", folder.path());
        assert!(process.wait(Duration::from_secs(60)));
        let fault = process.check().unwrap_err();
        assert!(fault.message.contains("exit status: 3") && fault.log.contains("cannot do that"), "{fault:?}");
    }

    #[test]
    fn a_console_without_end_takes_no_more_of_the_disk_than_a_log_may() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let script = "yes | tr -d '\\n' | head -c 40000000 >&2; echo >&2; exec sleep 1000";
        let mut process = shell(script, folder.path());
        let log = folder.path().join("log");
        let deadline = Instant::now() + Duration::from_secs(60);
        let facts = || fs::metadata(&log).unwrap();
        while facts().len() < 40_000_001 || facts().blocks() * 512 > logs::KEPT_MAX {
            assert!(Instant::now() < deadline, "{} bytes on the disk", facts().blocks() * 512);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(process.last_words().contains("of output before this are left out"), "{}", process.last_words().len());
        process.kill();
    }

    #[test]
    fn a_panic_is_seen_while_the_process_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = shell("exec sleep 1000", folder.path());
        process.check().unwrap();
        fs::write(folder.path().join("console"), "[ 1.0] \u{1b}[mKernel panic - not syncing: no init\n").unwrap();
        let fault = process.check().unwrap_err();
        assert!(fault.message.contains("not syncing: no init"), "{fault:?}");
        process.kill();
        assert!(process.wait(Duration::ZERO));
    }
}
