//! A command in a container, beside the service, which is the container's first process.

use super::engine::{Engine, Heard};
use crate::cgroup::{self, counting};
use crate::local::command::too_much;
use crate::processes;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::{ExecConfig, ExecInspectResponse};
use futures_util::Stream;
use rustix::process::Signal;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tare_core::command::{COMMAND_ERRORS_MAX, COMMAND_OUTPUT_MAX, CappedOutput, CommandEnd, CommandStart, Ended};
use tare_core::fault::Fault;

/// How long a command that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the engine may take to start a command, and to notice that one has ended. In an emulated guest it is slow.
const ENGINE_WITHIN: Duration = Duration::from_secs(30);
/// How long a command's output may stay open after its end: somebody else is holding it then.
const DRAIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What engines write to the output of a command whose program they could not run, and the exit codes they give it.
const NOT_RUN: (&str, [i64; 2]) = ("OCI runtime exec failed", [126, 127]);
/// What Podman writes to its errors then: the words of the runtime, and behind them these of its own.
const NOT_RUN_BY_PODMAN: (&str, [&str; 3]) = (
    "Error: ",
    ["OCI runtime attempted to invoke a command that was not found", "OCI permission denied", "OCI runtime error"],
);

/// The environment variable that marks a command, and all that it starts, for Podman.
const MARK: &str = "TARE_COMMAND";

/// A mark that no other command on this machine has: this process, and a number of its own.
fn next_mark() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// A running command.
pub(super) struct Command {
    id: String,
    name: String,
    output: Output,
    stdout: CappedOutput,
    stderr: CappedOutput,
    /// Its first process, by this machine's numbering, once the engine has reported it.
    leader: Option<u32>,
    /// What it and all that it starts have in their environment, where the engine may never report its first process.
    mark: Option<String>,
    began: Instant,
    within: Duration,
    /// The container's groups, which hold the command.
    groups: Vec<PathBuf>,
}

impl Command {
    /// Starts a command in a container that is in these groups.
    ///
    /// # Errors
    /// When the engine refuses.
    pub(super) fn begin(
        engine: &Engine,
        container: &str,
        groups: Vec<PathBuf>,
        user: (u32, u32),
        wanted: &CommandStart,
    ) -> Result<Command, Fault> {
        let doing = format!("run a command in the container {container}");
        // Podman forgets the first process of a command that has ended, and so whose processes it has left.
        let mark = engine.is_podman().then(next_mark);
        let marked = mark.iter().map(|mark| format!("{MARK}={mark}"));
        // The engine adds this to the container's environment, which is the service's.
        let environment = wanted.environment.iter().map(|(key, value)| format!("{key}={value}")).chain(marked);
        let config = ExecConfig {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(environment.collect()),
            cmd: Some(wanted.command.clone()),
            user: Some(format!("{}:{}", user.0, user.1)),
            working_dir: Some(wanted.directory.clone()),
            ..Default::default()
        };
        let created = engine.call(engine.docker().create_exec(container, config));
        let id = created.map_err(|error| error.doing(&doing))?.id;
        let began = Instant::now();
        let started = engine.call(engine.docker().start_exec(&id, None)).map_err(|error| error.doing(&doing))?;
        let StartExecResults::Attached { output, .. } = started else {
            return Err(Fault::new(format!("could not {doing}: the engine keeps its output to itself")));
        };
        let name = wanted.command.first().cloned().unwrap_or_default();
        let (stdout, stderr) = (CappedOutput::start(COMMAND_OUTPUT_MAX), CappedOutput::end(COMMAND_ERRORS_MAX));
        let within = wanted.within;
        let mut command = Command { id, name, output, stdout, stderr, leader: None, mark, began, within, groups };
        // What cannot be identified could not be ended either.
        let deadline = Instant::now() + ENGINE_WITHIN;
        while command.leader.is_none() && ended_with(&command.look(engine)?).is_none() {
            if Instant::now() >= deadline {
                let seconds = ENGINE_WITHIN.as_secs();
                return Err(Fault::new(format!("could not {doing}: it was not started within {seconds} s")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(command)
    }

    /// Its first process, by this machine's numbering.
    pub(super) fn leader(&self) -> Option<u32> {
        self.leader
    }

    /// Waits for its end, for at most `patience`; `None` if it is still running. If its time is over, it is ended.
    ///
    /// # Errors
    /// When its program could not be run, it printed too much, or the engine does not answer.
    pub(super) fn wait(&mut self, engine: &Engine, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        let closed = self.read(engine, patience.min(self.within.saturating_sub(self.began.elapsed())))?;
        if !self.stdout.is_whole() {
            return Err(too_much());
        }
        let took = self.began.elapsed();
        let deadline = Instant::now() + ENGINE_WITHIN;
        let code = loop {
            // Its output ends a moment before the engine knows that it has ended; nobody else may hold it.
            match ended_with(&self.look(engine)?) {
                None if closed && took < self.within && Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                code => break code,
            }
        };
        let Some(code) = code else {
            if took < self.within {
                return Ok(None);
            }
            self.end(engine)?;
            return Ok(Some(self.concluded(Ended::Late, took)));
        };
        // Whatever it has left running is ended with it.
        self.end(engine)?;
        if !(closed || self.read(engine, DRAIN)?) {
            return Err(too_much());
        }
        if let Some(said) = why_not_run(code, &self.stdout.text(), &self.stderr.text(), engine.is_podman()) {
            return Err(Fault::new(format!("could not run {} in the container: {said}", self.name))
                .remedy("check the command of the tool against the files of the service's bundle"));
        }
        let ended = match code {
            // Engines report death by a signal as a shell does, 128 plus the signal.
            129..=192 => Ended::Signal((code - 128) as i32),
            code => Ended::Exit(code as i32),
        };
        Ok(Some(self.concluded(ended, took)))
    }

    /// Ends it together with everything that it has started, gently first.
    ///
    /// # Errors
    /// When something of it is left.
    pub(super) fn end(&mut self, engine: &Engine) -> Result<(), Fault> {
        let running = ended_with(&self.look(engine)?).is_none();
        let members = || self.groups.first().map(|directory| cgroup::members(directory)).unwrap_or_default();
        let Some(leader) = self.leader else {
            let mark = self.mark.as_deref();
            return mark.map_or(Ok(()), |mark| processes::kill_marked(MARK, mark, &members));
        };
        if running {
            processes::signal_command(leader, members(), Signal::TERM);
            let deadline = Instant::now() + GRACE;
            while processes::start_time(leader).is_some() && Instant::now() < deadline {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        processes::kill_command(leader, &members)
    }

    fn concluded(&self, ended: Ended, took: Duration) -> CommandEnd {
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        // If a group counts CPU time, the telemetry has the command's from there; otherwise nobody knows it.
        let counted = self.groups.iter().any(|directory| counting::counts_cpu(directory));
        CommandEnd { ended, stdout, stderr, took, cpu_s: counted.then_some(0.0) }
    }

    /// What the engine knows about it; records its first process.
    fn look(&mut self, engine: &Engine) -> Result<ExecInspectResponse, Fault> {
        let found = engine.call(engine.docker().inspect_exec(&self.id));
        let found = found.map_err(|error| error.doing("look at a command in a container"))?;
        let pid = found.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
        self.leader = self.leader.or(pid);
        Ok(found)
    }

    /// Reads what it prints, for at most this long; returns whether that was all of it.
    fn read(&mut self, engine: &Engine, within: Duration) -> Result<bool, Fault> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match engine.hear(left, &mut self.output) {
                Ok(Heard::Item(LogOutput::StdErr { message })) => {
                    self.stderr.add(&message);
                }
                Ok(Heard::Item(other)) => {
                    self.stdout.add(&other.into_bytes());
                }
                Ok(Heard::Nothing) => return Ok(false),
                Ok(Heard::End) => return Ok(true),
                Err(error) => return Err(error.doing("read the output of a command in a container")),
            }
            // A command that prints without end must not be read without end.
            if !self.stdout.is_whole() || left.is_zero() {
                return Ok(false);
            }
        }
    }
}

/// What the engine has said in the place of a command that it could not run, if this is it.
fn why_not_run(code: i64, stdout: &str, stderr: &str, is_podman: bool) -> Option<String> {
    let (start, ends) = NOT_RUN_BY_PODMAN;
    let is_podmans = |line: &&str| line.starts_with(start) && ends.iter().any(|end| line.ends_with(end));
    let said = match is_podman {
        true => stderr.lines().find(is_podmans),
        false => Some(stdout).filter(|said| said.contains(NOT_RUN.0)),
    };
    said.filter(|_| NOT_RUN.1.contains(&code)).map(|said| said.trim().to_owned())
}

/// Its exit code, when the engine knows that it has ended.
fn ended_with(found: &ExecInspectResponse) -> Option<i64> {
    // Before it was started it is not running either, and has no code.
    found.exit_code.filter(|_| found.running == Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_ended_when_it_has_a_code_and_does_not_run() {
        let found = |running, exit_code| ExecInspectResponse { running, exit_code, ..Default::default() };
        assert_eq!(ended_with(&found(Some(false), None)), None, "it was not started yet");
        assert_eq!(ended_with(&found(Some(true), Some(0))), None);
        assert_eq!(ended_with(&found(Some(false), Some(7))), Some(7));
    }

    /// The second is what Podman 4.3 says with runc 1.1.
    #[test]
    fn each_engine_says_in_its_way_that_it_could_not_run_a_program() {
        let docker =
            "OCI runtime exec failed: exec failed: exec: \"/x\": stat /x: no such file or directory: unknown\r\n";
        assert_eq!(why_not_run(127, docker, "", false).as_deref(), Some(docker.trim()));
        assert_eq!(why_not_run(1, docker, "", false), None, "a program that printed this and ended so");
        let line = "Error: runc: exec failed: unable to start container process: exec: \"/x\": stat /x: no such file \
                    or directory: OCI runtime attempted to invoke a command that was not found";
        let podman =
            format!("{line}\nError: read unixpacket @->/proc/self/fd/14/attach: read: connection reset by peer\n");
        assert_eq!(why_not_run(127, "", &podman, true).as_deref(), Some(line));
        assert_eq!(why_not_run(127, "", "sh: 1: x: not found\n", true), None, "a shell ran, and found no x");
    }
}
