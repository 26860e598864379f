//! A service's process, and a command beside it.

use super::child::OwnChild;
use super::command::Command;
use super::inside::open_tree;
use super::launch::{Launch, Rooted};
use super::mapped::mapped_files;
use super::shift::Shift;
use crate::cgroup::{self, Group};
use crate::network::Room;
use crate::processes;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io::PipeReader;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::{Doing, Fault};
use tare_core::held::Held;
use tare_core::host::{InstanceState, SeenFile, ServiceStart, Wait};
use tare_core::units::CpuSet;

/// How often to check the state of a process that is ending.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A service whose parent, the process that was started, only looks after it.
pub(crate) struct Inside {
    /// The service's own process id, unless it had ended before it was seen.
    pub(crate) pid: Option<u32>,
    /// How the service ended, by how its parent did, with the processes that were killed for lack of memory as far as
    /// its group does not tell of them.
    pub(crate) told: Box<dyn Fn(ExitStatus) -> (ExitStatus, u64) + Send>,
}

/// A process that was started.
pub(crate) struct Running {
    pub(crate) start: ServiceStart,
    pub(crate) child: OwnChild,
    /// The service, if it is not the child itself.
    pub(crate) inside: Option<Inside>,
    pub(crate) ended: Option<String>,
    pub(crate) group: Group,
    /// What was made for it, and is removed with it.
    pub(crate) directory: PathBuf,
    /// What its root is made from.
    pub(crate) bundle: PathBuf,
    /// Who its users are on this machine, if not those of the same numbers.
    pub(crate) shift: Option<Arc<Shift>>,
    /// The CPUs that it may run on; `None` if its group alone decides that.
    pub(crate) cpus: Option<CpuSet>,
    /// Whether it is kept from running; `None` while somebody else controls that.
    pub(crate) frozen: Option<bool>,
    pub(crate) command: Option<Command>,
}

impl Running {
    pub(crate) fn state(&mut self) -> Result<InstanceState, Fault> {
        if let Some(how) = &self.ended {
            return Ok(InstanceState::Ended(how.clone()));
        }
        match self.child.try_wait() {
            Ok(None) => Ok(InstanceState::Running),
            Ok(Some(status)) => {
                let told = self.inside.as_ref().map(|inside| (inside.told)(status));
                let (status, killed) = told.unwrap_or((status, 0));
                let how = describe_end(status, killed.max(self.group.killed_for_memory()));
                self.ended = Some(how.clone());
                Ok(InstanceState::Ended(how))
            }
            Err(error) => Err(error).doing("see whether the service runs"),
        }
    }

    /// The process id of the service itself.
    ///
    /// # Errors
    /// When whoever looks after the service still runs, and the service does not.
    pub(crate) fn pid(&self) -> Result<u32, Fault> {
        let Some(inside) = &self.inside else { return Ok(self.child.id()) };
        // Its parent collects it, so its id may have passed to another process.
        let living = inside.pid.filter(|pid| self.group.members().contains(pid));
        living.ok_or_else(|| Fault::new("the service has ended"))
    }

    /// The folder of `/proc` of the service itself: what is found in it is that process's alone, whoever has its id
    /// later.
    ///
    /// # Errors
    /// As [`Running::pid`].
    fn opened(&self) -> Result<OwnedFd, Fault> {
        let folder = open_tree(Path::new(&format!("/proc/{}", self.pid()?)))?;
        // Again, now that it is held: the id may have passed to another process before.
        self.pid().map(|_| folder)
    }

    /// The same as [`Running::pid`]; `None` when it has ended.
    pub(crate) fn runs_as(&mut self) -> Option<u32> {
        matches!(self.state(), Ok(InstanceState::Running)).then(|| self.pid().ok()).flatten()
    }

    /// See [`tare_core::host::Host::mapped_files`].
    pub(crate) fn mapped_files(&mut self, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
        if let InstanceState::Ended(how) = self.state()? {
            return Err(Fault::new(format!("'{}' has ended: {how}", self.start.instance)));
        }
        let first = self.pid()?;
        let others = processes::of_service(first, self.members(), self.command.as_ref().map(Command::id));
        mapped_files(first, &others, wait)
    }

    /// The processes that a scope of it must name: its first one, and daemons that have left the tree of that one.
    /// Empty when the service has ended, and whoever looks after it has not.
    pub(crate) fn roots(&self) -> Vec<u32> {
        let command = self.command.as_ref().map(Command::id);
        self.pid().map(|first| processes::roots(first, self.members(), command)).unwrap_or_default()
    }

    /// The processes in its groups, the command's included. Empty where somebody looks after the service, who is in
    /// them too, and gives it a PID namespace: there all are its descendants.
    fn members(&self) -> BTreeSet<u32> {
        let alone = self.inside.is_none();
        if alone { cgroup::members_of_all(self.group.directories()) } else { BTreeSet::new() }
    }

    pub(crate) fn freeze(&mut self, frozen: bool) -> Result<(), Fault> {
        if self.frozen != Some(frozen) {
            self.group.freeze(frozen)?;
            self.frozen = Some(frozen);
        }
        Ok(())
    }

    /// See [`tare_core::host::Host::held`].
    pub(crate) fn held(&mut self) -> Result<Held, Fault> {
        let group = self.group.directories().first().cloned();
        self.frozen = None;
        group.map(Held::Group).ok_or_else(|| Fault::new("the service has no control group, so it cannot be frozen"))
    }

    /// Starts a command in the root, cgroup and network of the service, as its user and on its CPUs.
    pub(crate) fn begin_command(&mut self, wanted: &CommandStart, room: Option<&Room>) -> Result<(), Fault> {
        if let InstanceState::Ended(how) = self.state()? {
            return Err(Fault::new(format!("the service has ended: {how}")));
        }
        if self.command.is_some() {
            return Err(Fault::new("a command runs beside it already"));
        }
        let service = &self.start.service;
        let mut environment: BTreeMap<String, String> = service.environment.clone();
        environment.extend(wanted.environment.clone());
        let launch = Launch {
            root: Rooted::Beside { service: self.opened()?, bundle: &self.bundle },
            group: &self.group,
            command: &wanted.command,
            directory: Some(&wanted.directory),
            environment: &environment,
            user: service.user,
            as_image: service.as_image,
            shift: self.shift.as_deref(),
            cpus: self.cpus.as_ref(),
            memory: &self.start.memory,
            room,
        };
        let here = self.shift.as_ref().map_or(service.user, |shift| shift.here(service.user));
        let (stdout, out) = pipe_for(here).doing("make a pipe for the command's output")?;
        let (stderr, err) = pipe_for(here).doing("make a pipe for the command's errors")?;
        let began = Instant::now();
        let child = launch.start(out.into(), err.into())?;
        self.command = Some(Command::watch(&child, began, wanted.within, stdout, stderr)?);
        Ok(())
    }

    /// See [`tare_core::host::Host::await_command`].
    pub(crate) fn await_command(&mut self, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        let command = self.command.as_mut().ok_or_else(|| Fault::new("no command runs beside it"))?;
        let awaited = command.wait(patience, &self.group);
        if !matches!(awaited, Ok(None)) {
            self.command = None;
        }
        awaited
    }

    /// See [`tare_core::host::Host::end_command`].
    pub(crate) fn end_command(&mut self) -> Result<(), Fault> {
        self.command.take().map_or(Ok(()), |mut command| command.end(&self.group))
    }

    /// Asks the process to end, waits for as long as it may take, then kills whatever is left in its group.
    pub(crate) fn stop(&mut self) -> Result<(), Fault> {
        // A frozen process does not receive the signal to end.
        self.freeze(false)?;
        // Whatever is left of the command goes with the group below, and only a failure there counts.
        let _ = self.end_command();
        if self.state()? == InstanceState::Running {
            self.ask_to_end();
            let deadline = Instant::now() + self.start.service.stop_within;
            while self.state()? == InstanceState::Running && Instant::now() < deadline {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        self.end()
    }

    /// Sends the service itself the signal that asks it to end.
    fn ask_to_end(&self) {
        let by = self.start.service.stop_signal;
        match &self.inside {
            None => self.child.ask_to_end(by),
            Some(inside) => {
                // Its parent collects it, so its id may pass to another process at any moment.
                processes::ask_those_to_end(inside.pid.as_slice(), by, |held| {
                    let members = self.group.members();
                    held.into_iter().filter(|pid| members.contains(pid)).collect()
                });
            }
        }
    }

    /// Kills what is left of the process and its children, and removes what was made for it.
    fn end(&mut self) -> Result<(), Fault> {
        if self.ended.is_none() {
            self.child.signal(Signal::KILL);
            self.child.wait().doing("wait for the end of the service")?;
            self.ended = Some("killed by signal 9".to_owned());
        }
        self.group.remove()?;
        tare_removal::remove_tree(&self.directory).doing(format!("remove {}", self.directory.display()))
    }
}

/// A pipe that a user may reopen through /dev/stdout, as some programs do.
fn pipe_for(user: (u32, u32)) -> std::io::Result<(PipeReader, std::io::PipeWriter)> {
    let (reader, writer) = std::io::pipe()?;
    std::os::unix::fs::fchown(&writer, Some(user.0), Some(user.1))?;
    Ok((reader, writer))
}

/// "exit code 1", "killed by signal 9", "killed for lack of memory".
pub(crate) fn describe_end(status: ExitStatus, killed_for_memory: u64) -> String {
    match (status.signal(), killed_for_memory) {
        (Some(libc::SIGKILL), 1..) => "killed for lack of memory".to_owned(),
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, 0) => format!("exit code {}", status.code().unwrap_or_default()),
        (None, _) => {
            let code = status.code().unwrap_or_default();
            format!("exit code {code}, after a process of it was killed for lack of memory")
        }
    }
}
