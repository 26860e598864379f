//! The thread that starts runs, one at a time, and waits for each to end. It begins before the server lowers its
//! priority, because a process has the priority of the thread that starts it, and a run must not be served last.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tare_core::fault::{Doing, Fault};

/// A run that is to be started.
struct Wanted {
    name: String,
    command: Command,
    /// Where it is said whether it was.
    answer: Sender<io::Result<()>>,
}

/// A run that was started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Started {
    /// The name of its record.
    pub(crate) name: String,
    pub(crate) process: u32,
    /// How it has ended, in words; none while it goes on.
    pub(crate) ended: Option<String>,
    pub(crate) has_failed: bool,
}

/// What starts runs. They go on when this is dropped, and when this process ends.
#[derive(Debug)]
pub(crate) struct Starter {
    ask: SyncSender<Wanted>,
    last: Arc<Mutex<Option<Started>>>,
}

impl Starter {
    /// Whose runs have the priority of the calling thread as it is now.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn new() -> Result<Starter, Fault> {
        let (ask, asked) = sync_channel(1);
        let last: Arc<Mutex<Option<Started>>> = Arc::default();
        let kept = Arc::clone(&last);
        let thread = std::thread::Builder::new().name("starter".to_owned());
        thread.spawn(move || start_each(&asked, &kept)).doing("start a thread")?;
        Ok(Starter { ask, last })
    }

    /// The run that was started last.
    pub(crate) fn last(&self) -> Option<Started> {
        locked(&self.last).clone()
    }

    /// Whether that has not ended.
    pub(crate) fn goes_on(&self) -> bool {
        self.last().is_some_and(|last| last.ended.is_none())
    }

    /// Starts a run in a session of its own, whose record has this name. Another one must have ended.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(&self, name: &str, mut command: Command) -> Result<(), Fault> {
        if let Some(Started { name, ended: None, .. }) = self.last() {
            let fault = Fault::new(format!("the run '{name}' was started from here and has not ended"));
            return Err(fault.remedy("wait for it to end, or stop it on the page Now"));
        }
        // SAFETY: setsid(2) is a plain system call, and nothing is allocated for it.
        unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
        let doing = format!("start {}", command.get_program().to_string_lossy());
        let (answer, answered) = channel();
        let gone = || Fault::new("the thread that starts runs has ended").remedy("start `tare serve` again");
        self.ask.send(Wanted { name: name.to_owned(), command, answer }).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?.doing(doing)
    }
}

fn start_each(asked: &Receiver<Wanted>, last: &Mutex<Option<Started>>) {
    for Wanted { name, mut command, answer } in asked {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let _ = answer.send(Err(error));
                continue;
            }
        };
        *locked(last) = Some(Started { name, process: child.id(), ended: None, has_failed: false });
        let _ = answer.send(Ok(()));
        let (ended, has_failed) = match child.wait() {
            Ok(status) => (status.to_string(), !status.success()),
            Err(error) => (error.to_string(), true),
        };
        if let Some(started) = locked(last).as_mut() {
            (started.ended, started.has_failed) = (Some(ended), has_failed);
        }
    }
}

fn locked(last: &Mutex<Option<Started>>) -> MutexGuard<'_, Option<Started>> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;
    use std::time::{Duration, Instant};

    fn shell(script: &str, output: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(File::create(output).unwrap());
        command
    }

    fn ended(starter: &Starter) -> Started {
        let began = Instant::now();
        loop {
            match starter.last() {
                Some(started) if started.ended.is_some() => return started,
                _ => assert!(began.elapsed() < Duration::from_secs(60), "it never ends"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_run_has_its_own_session_and_the_priority_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let usual = Command::new("nice").output().unwrap().stdout;
        let starter = Starter::new().unwrap();
        // Of this thread alone.
        let _ = rustix::process::nice(5);
        starter.start("one", shell("nice; echo $$; cut -d ' ' -f 6 /proc/$$/stat; exit 3", &output)).unwrap();
        let started = ended(&starter);
        assert!(started.name == "one" && started.has_failed, "{started:?}");
        assert_eq!(started.ended.as_deref(), Some("exit status: 3"));
        let said = std::fs::read_to_string(&output).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], String::from_utf8(usual).unwrap().trim());
        let process = started.process.to_string();
        assert_eq!(lines[1..], [process.as_str(), process.as_str()], "it leads its session");
    }

    #[test]
    fn one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let starter = Starter::new().unwrap();
        assert!(starter.start("none", Command::new("/nowhere/nothing")).is_err() && starter.last().is_none());
        let go = folder.path().join("go");
        let script = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
        starter.start("first", shell(&script, &output)).unwrap();
        let fault = starter.start("second", shell("exit 0", &output)).unwrap_err();
        assert!(fault.message.contains("'first' was started from here and has not ended"), "{fault}");
        File::create(go).unwrap();
        assert!(!ended(&starter).has_failed);
        starter.start("second", shell("exit 0", &output)).unwrap();
        assert_eq!(ended(&starter).name, "second");
    }
}
