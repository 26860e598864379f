//! The far end: answers over pipes, and ends with them.

use super::super::wire::{Outcome, Reply, Request, receive_line, send};
use super::program::{PROGRAM, digest_of};
use super::question::{MachineFacts, Question, Stamps, VerbEnd};
use crate::environment;
use crate::noted::Noted;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::Timespec;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tare_clock::realtime_ns;
use tare_core::fault::{Doing, Fault};
use tare_core::units::{CpuSet, exact_duration};

/// How long the near end may be silent: whoever has lost its machine without a word leaves no agent behind.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long a verb that is to end may take to clean up before it is killed: with its pipes closed an agent ends within
/// ten seconds.
const GRACE: Duration = Duration::from_secs(5);
/// How often to look whether a verb has ended and the pipes are still open.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The most that is kept of what a verb prints, bytes. As JSON it may take six times as much, which still is an answer.
const OUTPUT_MAX: u64 = 512 << 10;
const ERRORS_MAX: u64 = 64 << 10;

/// Whether standard input is a pipe or a socket, so that somebody speaks to this process: the agent of a guest has a
/// console.
pub fn is_piped() -> bool {
    let kind = fstat(io::stdin()).map(|facts| FileType::from_raw_mode(facts.st_mode));
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// Answers questions over standard input and output until the near end says that it leaves, closes them, or is silent
/// for a minute. By then what was started has ended.
///
/// # Errors
/// When the near end has gone without a word, or the pipes break.
pub fn serve_machine() -> Result<(), Fault> {
    let own = |fd: io::Result<std::os::fd::OwnedFd>| fd.map(File::from).doing("use the agent's pipes");
    let input = own(io::stdin().as_fd().try_clone_to_owned())?;
    let output = own(io::stdout().as_fd().try_clone_to_owned())?;
    Far { input, output, program: PathBuf::from(PROGRAM), grace: GRACE }.serve()
}

/// The agent.
struct Far {
    input: File,
    output: File,
    /// What carries out verbs.
    program: PathBuf,
    /// How long a verb may take to end by itself.
    grace: Duration,
}

/// An input that gives up when nothing comes for too long.
struct Patient<'a>(&'a File);

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let limit = Timespec { tv_sec: SILENCE_MAX.as_secs().cast_signed(), tv_nsec: 0 };
        loop {
            match poll(&mut [PollFd::new(self.0, PollFlags::IN)], Some(&limit)) {
                Ok(0) => return Err(io::Error::new(ErrorKind::TimedOut, "nothing was heard for a minute")),
                Ok(_) => return self.0.read(into),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Far {
    fn serve(&self) -> Result<(), Fault> {
        let mut reader = BufReader::new(Patient(&self.input));
        let mut line = Vec::new();
        loop {
            line.clear();
            if !receive_line(&mut reader, &mut line).doing("hear the other end of the pipes")? {
                return Ok(());
            }
            let received_ns = realtime_ns();
            let Ok(Request { id, call }) = serde_json::from_slice::<Request<Question>>(&line) else {
                let fault = Fault::new("the agent was asked something that it does not know: it is of another version");
                self.answer(0, Outcome::Failed(fault))?;
                continue;
            };
            let ends = call == Question::Leave;
            let outcome = match call {
                Question::Greet => Outcome::of(facts()),
                Question::WallClock => Outcome::of(Ok(Stamps { received_ns, sent_ns: realtime_ns() })),
                // Only an address of its own can be bound.
                Question::HasAddress(address) => Outcome::of(Ok(UdpSocket::bind((address, 0)).is_ok())),
                Question::Verb(arguments, within) => Outcome::of(self.carry_out(&arguments, within)),
                Question::Leave => Outcome::of(Ok(())),
            };
            self.answer(id, outcome)?;
            if ends {
                return Ok(());
            }
        }
    }

    fn answer(&self, id: u64, outcome: Outcome) -> Result<(), Fault> {
        send(&mut &self.output, &Reply { id, outcome }).doing("answer")
    }

    /// Runs a verb of this program to its end, or ends it with all that it has started when its time is over or nobody
    /// waits for it any more.
    fn carry_out(&self, arguments: &[String], within: Duration) -> Result<VerbEnd, Fault> {
        let doing = || format!("carry out `tare {}`", arguments.join(" "));
        let (stdout, stderr) = (Noted::of(OUTPUT_MAX).doing(doing())?, Noted::of(ERRORS_MAX).doing(doing())?);
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null()).env("PATH", environment::path_with_system());
        command.stdout(stdout.stdio().doing(doing())?).stderr(stderr.stdio().doing(doing())?);
        let mut verb = Verb(command.process_group(0).spawn().doing(doing())?);
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = verb.0.try_wait().doing(doing())? {
                return Ok(VerbEnd { code: status.code(), stdout: stdout.text(), stderr: stderr.text() });
            }
            if self.is_left() {
                verb.end(self.grace);
                return Err(Fault::new(format!("nobody waits any more for the end of `tare {}`", arguments.join(" "))));
            }
            if Instant::now() >= deadline {
                verb.end(self.grace);
                let message = format!("`tare {}` did not end within {}", arguments.join(" "), exact_duration(within));
                return Err(Fault::new(message).with_log(stderr.text()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether the other end of a pipe is closed. What it sent before that does not matter then.
    fn is_left(&self) -> bool {
        let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL;
        let mut both = [PollFd::new(&self.input, PollFlags::RDHUP), PollFd::new(&self.output, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut both, Some(&at_once)).is_ok() && both.iter().any(|pipe| pipe.revents().intersects(gone))
    }
}

/// A verb that runs, with its process group.
struct Verb(Child);

impl Verb {
    /// Ends it, by a signal first, and waits for it.
    fn end(&mut self, grace: Duration) {
        let group = Pid::from_child(&self.0);
        let _ = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + grace;
        while !self.has_ended() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        // What it has started and not taken down stays in its group.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

/// What this machine is.
fn facts() -> Result<MachineFacts, Fault> {
    let kernel = rustix::system::uname();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| CpuSet::parse(&text).ok());
    let seen = || std::thread::available_parallelism().map_or(1, |count| count.get());
    Ok(MachineFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest: digest_of(Path::new(PROGRAM))?,
        root: rustix::process::geteuid().is_root(),
        kernel: kernel.release().to_string_lossy().into_owned(),
        architecture: kernel.machine().to_string_lossy().into_owned(),
        cpus: online.map_or_else(seen, |online| online.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::{AgentHost, NoPeer};
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;

    /// An agent whose verbs are scripts, and the other end of its pipes.
    fn agent() -> (UnixStream, JoinHandle<Result<(), Fault>>) {
        let (near, far) = UnixStream::pair().unwrap();
        let file = |stream: UnixStream| File::from(OwnedFd::from(stream));
        let (input, output) = (file(far.try_clone().unwrap()), file(far));
        let far = Far { input, output, program: PathBuf::from("/bin/sh"), grace: Duration::from_millis(300) };
        (near, std::thread::spawn(move || far.serve()))
    }

    #[test]
    fn an_agent_says_what_its_machine_is_and_how_a_verb_ended() {
        let (near, served) = agent();
        let mut agent = AgentHost::new(near, Box::new(NoPeer)).unwrap();
        let facts = agent.greet(Duration::from_secs(60)).unwrap();
        let of = (facts.root, facts.version.as_str(), facts.digest.len());
        assert_eq!(of, (rustix::process::geteuid().is_root(), env!("CARGO_PKG_VERSION"), 64));
        assert!(facts.cpus > 0 && !facts.kernel.is_empty() && !facts.architecture.is_empty(), "{facts:?}");
        let clock = agent.wall_clock(3).unwrap();
        assert!(clock.offset_ns.unsigned_abs() <= clock.uncertainty_ns + 1_000_000, "one clock: {clock:?}");
        let mut has = |address: [u8; 4]| agent.has_address(address.into()).unwrap();
        assert!(has([127, 0, 0, 1]));
        assert!(!has([192, 0, 2, 1]), "it is for documents (RFC 5737)");
        let end = agent.carry_out(&["-c", "printf out; printf err >&2; exit 3"], Duration::from_secs(60)).unwrap();
        assert_eq!((end.code, end.stdout.as_str(), end.stderr.as_str()), (Some(3), "out", "err"));
        let late = agent.carry_out(&["-c", "printf slow >&2; exec sleep 100"], Duration::from_millis(200)).unwrap_err();
        assert!(late.message.contains("did not end within 200 ms") && late.log == "slow", "{late:?}");
        agent.leave().unwrap();
        served.join().unwrap().unwrap();
    }

    #[test]
    fn a_verb_ends_when_the_pipes_are_closed_whatever_it_ignores() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        let script = format!("trap '' TERM; echo $$ > {0}.new; mv {0}.new {0}; sleep 100", note.display());
        let (mut near, served) = agent();
        let call = Question::Verb(vec!["-c".to_owned(), script], Duration::from_secs(60));
        send(&mut near, &Request { id: 1, call }).unwrap();
        while !note.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let began = Instant::now();
        drop(near);
        assert!(served.join().unwrap().is_err(), "nobody was there to hear how it ended");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let pid = fs::read_to_string(&note).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid} still runs");
    }

    #[test]
    fn what_is_no_question_is_answered_and_the_end_of_the_pipes_is_no_fault() {
        let (mut near, served) = agent();
        send(&mut near, &"what?").unwrap();
        let mut line = Vec::new();
        assert!(receive_line(&mut BufReader::new(near.try_clone().unwrap()), &mut line).unwrap());
        assert!(String::from_utf8_lossy(&line).contains("of another version"), "{}", String::from_utf8_lossy(&line));
        drop(near);
        served.join().unwrap().unwrap();
    }
}
