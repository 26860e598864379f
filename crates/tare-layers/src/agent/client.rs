//! The near end: a host whose calls are answered at the other end of a stream.

use super::wire::{ANSWER_MAX, Call, Outcome, Piece, Reply, Request, receive_piece, send};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tare_clock::monotonic_ns;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::{Doing, Fault};
use tare_core::host::{
    Facts, FilesSeen, Host, Instance, InstanceState, OpenError, ResourceReport, SeenFile, ServiceStart, TrialContext,
    Wait,
};
use tare_core::layer::LayerUse;
use tare_core::telemetry::{Rest, Scope, TelemetryRow};
use tare_core::units::show_bytes;

/// How much an agent may send in its lifetime, which is one trial, bytes: even a log that is requested fifty times a
/// second for minutes stays below it.
const RECEIVED_MAX: u64 = 4 << 30;
/// How often, while waiting for an answer, to check the peer's health and whether anybody still wants the answer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is known about the machine at the other end by means other than the stream.
pub trait Peer: Send {
    /// Whether it can still answer.
    ///
    /// # Errors
    /// Why it cannot: it ended, its kernel panicked.
    fn check(&mut self) -> Result<(), Fault>;

    /// The last lines it wrote to its console, if there is one.
    fn last_words(&self) -> String;
}

/// A peer about which nothing is known but the stream.
pub struct NoPeer;

impl Peer for NoPeer {
    fn check(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn last_words(&self) -> String {
        String::new()
    }
}

/// How long calls may take. An emulated guest is some ten times slower than the machine it runs on.
struct Limits;

impl Limits {
    /// Reading something that already exists.
    const SHORT: Duration = Duration::from_secs(30);
    /// Starting, stopping, hashing: disks and processes are involved.
    const LONG: Duration = Duration::from_secs(180);
    /// Opening a layer or closing the host: an engine is started, images are loaded.
    const OPEN: Duration = Duration::from_secs(420);
}

/// A host over a byte stream.
pub struct AgentHost {
    stream: BufReader<UnixStream>,
    peer: Box<dyn Peer>,
    /// What has been received of a line so far.
    partial: Vec<u8>,
    /// Bytes received in total.
    received: u64,
    next_id: u64,
    /// Why no more requests are sent: the far end once failed to answer, so the two are out of step.
    broken: Option<Fault>,
}

impl AgentHost {
    /// The host at the other end of `stream`.
    ///
    /// # Errors
    /// When the stream cannot be given a time limit.
    pub fn new(stream: UnixStream, peer: Box<dyn Peer>) -> Result<Self, Fault> {
        stream.set_read_timeout(Some(LOOK_EVERY)).doing("set the time limit of the agent's line")?;
        stream.set_write_timeout(Some(Limits::SHORT)).doing("set the time limit of the agent's line")?;
        Ok(AgentHost {
            stream: BufReader::new(stream),
            peer,
            partial: Vec::new(),
            received: 0,
            next_id: 1,
            broken: None,
        })
    }

    /// Sends the plan from which a guest sets itself up, and waits until it has.
    ///
    /// # Errors
    /// When the guest does not answer `within` this time, or reports what it could not do.
    pub fn set_up(&mut self, plan: &super::GuestPlan, within: Duration) -> Result<(), Fault> {
        send(self.stream.get_mut(), plan).doing("send the guest its plan")?;
        // The reply to the plan carries the number 0.
        self.receive("set itself up", 0, ANSWER_MAX, within, Wait::always()).and_then(value)
    }

    /// The other end's CLOCK_MONOTONIC minus this one's, in ns, and when (here, ns) that held: of `tries` estimates,
    /// the one with the smallest round trip, assuming that the answer was given half way.
    ///
    /// # Errors
    /// When the other end does not answer.
    pub fn clock_offset(&mut self, tries: u32) -> Result<(i128, u64), Fault> {
        let mut best: Option<(u64, i128, u64)> = None;
        for _ in 0..tries.max(1) {
            let sent = monotonic_ns();
            let there: u64 = self.call(Call::Clock, "tell the time", Limits::SHORT)?;
            let received = monotonic_ns();
            let trip = received - sent;
            if best.is_none_or(|(shortest, ..)| trip < shortest) {
                let middle = sent + trip / 2;
                best = Some((trip, i128::from(there) - i128::from(middle), middle));
            }
        }
        let (_, offset, at) = best.expect("at least one try");
        Ok((offset, at))
    }

    /// Opens a layer at the other end; this host then stands for the inner one.
    ///
    /// # Errors
    /// As for [`Host::open`]; the other end has then closed its host, and this one must still be closed.
    pub fn open_inside(&mut self, layer: &LayerUse, surroundings: &TrialContext) -> Result<(), OpenError> {
        let doing = format!("open the layer '{}'", layer.layer);
        let call = Call::Open(layer.clone(), Box::new(surroundings.clone()));
        match self.exchange::<()>(call, &doing, Limits::OPEN, Wait::always())? {
            Outcome::Ok(()) => Ok(()),
            Outcome::Failed(fault) => Err(OpenError::Failed(fault)),
            Outcome::Unavailable(fault) => Err(OpenError::Unavailable(fault)),
        }
    }

    /// Closes the host at the other end and waits for its answer.
    ///
    /// # Errors
    /// What could not be removed there, or that it does not answer.
    pub fn close_inside(&mut self) -> Result<(), Fault> {
        self.call(Call::Close, "close", Limits::OPEN)
    }

    /// The peer behind the stream.
    pub fn peer(&mut self) -> &mut dyn Peer {
        self.peer.as_mut()
    }

    fn call<T: DeserializeOwned>(&mut self, call: Call, doing: &str, within: Duration) -> Result<T, Fault> {
        self.exchange(call, doing, within, Wait::always()).and_then(value)
    }

    /// The same for a call whose answer is no longer awaited once the user wants to stop. The agent cannot be told: no
    /// more requests are sent to it then, and it ends with its guest.
    fn call_while<T: DeserializeOwned>(&mut self, wait: Wait, call: Call, doing: &str) -> Result<T, Fault> {
        self.exchange(call, doing, Limits::LONG, wait).and_then(value)
    }

    fn exchange<T: DeserializeOwned>(
        &mut self,
        call: Call,
        doing: &str,
        within: Duration,
        wait: Wait,
    ) -> Result<Outcome<T>, Fault> {
        let most = call.answer_max();
        self.exchange_of(call, most, doing, within, wait)
    }

    /// The same for a call of any kind, whose answer has at most `most` bytes.
    fn exchange_of<C: Serialize, T: DeserializeOwned>(
        &mut self,
        call: C,
        most: usize,
        doing: &str,
        within: Duration,
        wait: Wait,
    ) -> Result<Outcome<T>, Fault> {
        if let Some(fault) = &self.broken {
            return Err(fault.clone());
        }
        let id = self.next_id;
        self.next_id += 1;
        if let Err(error) = send(self.stream.get_mut(), &Request { id, call }) {
            let fault = self.dying(Fault::from_error(format!("ask it to {doing}"), &error));
            return Err(self.give_up(fault));
        }
        self.receive(doing, id, most, within, wait)
    }

    /// Asks the other end something that is no call of a host.
    pub(super) fn ask<T: DeserializeOwned>(
        &mut self,
        question: impl Serialize,
        doing: &str,
        within: Duration,
    ) -> Result<T, Fault> {
        self.exchange_of(question, ANSWER_MAX, doing, within, Wait::always()).and_then(value)
    }

    /// Waits for the answer `id`, of at most `most` bytes. The time, the total, and whether anybody still waits are
    /// checked as bytes trickle in, not only between answers.
    fn receive<T: DeserializeOwned>(
        &mut self,
        doing: &str,
        id: u64,
        most: usize,
        within: Duration,
        wait: Wait,
    ) -> Result<Outcome<T>, Fault> {
        let deadline = Instant::now() + within;
        loop {
            match receive_piece(&mut self.stream, &mut self.partial, most) {
                Ok(Piece::Last(_)) => {
                    let line = std::mem::take(&mut self.partial);
                    return match serde_json::from_slice::<Reply<T>>(&line) {
                        Ok(reply) if reply.id == id => Ok(reply.outcome),
                        Ok(reply) => {
                            let fault = Fault::new(format!("the agent answered call {} when asked {id}", reply.id));
                            Err(self.give_up(fault))
                        }
                        Err(error) => Err(self.give_up(garbage(doing, &error, &line))),
                    };
                }
                Ok(Piece::Of(bytes)) => {
                    self.received += bytes as u64;
                    if self.received > RECEIVED_MAX {
                        let most = show_bytes(RECEIVED_MAX);
                        return Err(
                            self.give_up(Fault::new(format!("the agent has sent more than {most} in one trial")))
                        );
                    }
                }
                Ok(Piece::None) => {
                    let fault = self.dying(Fault::new(format!("the agent hung up when asked to {doing}")));
                    return Err(self.give_up(fault));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if let Err(fault) = self.peer.check() {
                        return Err(self.give_up(fault.context(format!("while it was to {doing}"))));
                    }
                }
                Err(error) => {
                    let fault = Fault::from_error(format!("read the agent's answer, of {most} bytes at most"), &error);
                    let fault = self.dying(fault);
                    return Err(self.give_up(fault));
                }
            }
            if Instant::now() >= deadline {
                let fault = Fault::new(format!("the agent did not {doing} within {} s", within.as_secs()));
                return Err(self.give_up(fault));
            }
            if let Err(fault) = wait.check() {
                return Err(self.give_up(fault));
            }
        }
    }

    /// The stream ends a moment before the process behind it does, and the end of the process explains more.
    fn dying(&mut self, otherwise: Fault) -> Fault {
        for _ in 0..20 {
            if let Err(fault) = self.peer.check() {
                return fault;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        otherwise
    }

    fn give_up(&mut self, fault: Fault) -> Fault {
        let fault = if fault.log.is_empty() { fault.with_log(self.peer.last_words()) } else { fault };
        self.broken.get_or_insert_with(|| fault.clone());
        fault
    }
}

fn garbage(doing: &str, error: &serde_json::Error, line: &[u8]) -> Fault {
    let shown: String = String::from_utf8_lossy(&line[..line.len().min(800)]).chars().take(200).collect();
    let doing = format!("understand the answer to '{doing}': the agent's line carries something that is no answer");
    Fault::from_error(doing, error).with_log(shown)
}

fn value<T>(outcome: Outcome<T>) -> Result<T, Fault> {
    match outcome {
        Outcome::Ok(value) => Ok(value),
        Outcome::Failed(fault) | Outcome::Unavailable(fault) => Err(fault),
    }
}

impl Host for AgentHost {
    fn facts(&mut self) -> Result<Facts, Fault> {
        self.call(Call::Facts, "tell its facts", Limits::LONG)
    }

    fn resources(&mut self, start: &ServiceStart) -> Result<ResourceReport, Fault> {
        self.call(Call::Resources(start.clone()), "run the resource probe", Limits::LONG)
    }

    fn start(&mut self, start: &ServiceStart) -> Result<Instance, Fault> {
        self.call(Call::Start(start.clone()), &format!("start '{}'", start.instance), Limits::LONG)
    }

    fn state(&mut self, instance: &str) -> Result<InstanceState, Fault> {
        self.call(Call::State(instance.to_owned()), &format!("tell the state of '{instance}'"), Limits::SHORT)
    }

    fn mapped_files(&mut self, instance: &str, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
        self.call_while(wait, Call::MappedFiles(instance.to_owned()), &format!("hash what '{instance}' maps"))
    }

    fn files_seen(&mut self, start: &ServiceStart, said: Option<&[SeenFile]>, wait: Wait) -> Result<FilesSeen, Fault> {
        let doing = format!("hash what '{}' sees of its bundle", start.instance);
        self.call_while(wait, Call::FilesSeen(start.clone(), said.map(<[SeenFile]>::to_vec)), &doing)
    }

    fn log(&mut self, instance: &str) -> Result<String, Fault> {
        self.call(Call::Log(instance.to_owned()), &format!("hand over the log of '{instance}'"), Limits::SHORT)
    }

    fn stop(&mut self, instance: &str) -> Result<(), Fault> {
        self.call(Call::Stop(instance.to_owned()), &format!("stop '{instance}'"), Limits::LONG)
    }

    fn begin_command(&mut self, instance: &str, command: &CommandStart) -> Result<(), Fault> {
        let doing = format!("begin a command beside '{instance}'");
        self.call(Call::BeginCommand(instance.to_owned(), command.clone()), &doing, Limits::LONG)
    }

    fn await_command(&mut self, instance: &str, patience: Duration) -> Result<Option<CommandEnd>, Fault> {
        // A command that has ended has ended completely, and its output comes with it.
        let (doing, within) = (format!("await the command beside '{instance}'"), patience + Limits::LONG);
        self.call(Call::AwaitCommand(instance.to_owned(), patience), &doing, within)
    }

    fn end_command(&mut self, instance: &str) -> Result<(), Fault> {
        let doing = format!("end the command beside '{instance}'");
        self.call(Call::EndCommand(instance.to_owned()), &doing, Limits::LONG)
    }

    fn freeze(&mut self) -> Result<(), Fault> {
        self.call(Call::Freeze, "freeze what runs", Limits::SHORT)
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        self.call(Call::Thaw, "let what is frozen run on", Limits::SHORT)
    }

    fn begin_probe(&mut self, outside: &[Scope], period: Duration) -> Result<(), Fault> {
        self.call(Call::BeginProbe(outside.to_vec(), period), "begin sampling", Limits::SHORT)
    }

    fn rest_probe(&mut self, rests: &[Rest]) -> Result<(), Fault> {
        self.call(Call::RestProbe(rests.to_vec()), "let the sampler rest", Limits::SHORT)
    }

    fn end_probe(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        self.call(Call::EndProbe, "end sampling", Limits::LONG)
    }

    fn open(mut self: Box<Self>, layer: &LayerUse, surroundings: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
        self.open_inside(layer, surroundings)?;
        Ok(self)
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        self.close_inside()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A host whose agent writes what it likes, and the thread that writes.
    fn with_agent(write: impl Fn(&mut UnixStream) -> std::io::Result<()> + Send + 'static) -> AgentHost {
        let (near, mut far) = UnixStream::pair().unwrap();
        std::thread::spawn(move || while write(&mut far).is_ok() {});
        AgentHost::new(near, Box::new(NoPeer)).unwrap()
    }

    #[test]
    fn an_answer_that_trickles_is_not_waited_for_longer() {
        let mut host = with_agent(|far| {
            std::thread::sleep(Duration::from_millis(5));
            far.write_all(b" ")
        });
        let began = Instant::now();
        let fault = host.call::<u64>(Call::Clock, "tell the time", Duration::from_millis(300)).unwrap_err();
        assert!(fault.message.contains("did not tell the time within"), "{fault}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn an_answer_that_nobody_waits_for_any_more_is_given_up() {
        let (near, _far) = UnixStream::pair().unwrap();
        let silent = AgentHost::new(near, Box::new(NoPeer)).unwrap();
        let trickling = with_agent(|far| {
            std::thread::sleep(Duration::from_millis(5));
            far.write_all(b" ")
        });
        for mut host in [silent, trickling] {
            let began = Instant::now();
            let fault = host.mapped_files("x", Wait::until(&|| true)).unwrap_err();
            assert_eq!(fault.message, "interrupted");
            // It is out of step, so a later request does not take this call's answer for its own.
            assert_eq!(host.state("x").unwrap_err().message, "interrupted");
            assert_eq!(host.close_inside().unwrap_err().message, "interrupted");
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        }
    }

    #[test]
    fn an_answer_is_no_longer_than_its_call_allows() {
        let mut host = with_agent(|far| far.write_all(&[b'x'; 1 << 16]));
        let fault = host.state("x").unwrap_err();
        assert!(fault.message.contains("4194304 bytes"), "{fault}");
        assert!(host.partial.capacity() <= 2 * ANSWER_MAX, "{}", host.partial.capacity());
        assert!(Call::EndProbe.answer_max() > Call::AwaitCommand(String::new(), Duration::ZERO).answer_max());
    }

    #[test]
    fn an_answer_is_of_the_type_that_was_asked_for() {
        let mut host = with_agent(|far| {
            std::thread::sleep(Duration::from_millis(20));
            far.write_all(b"{\"id\":1,\"outcome\":{\"ok\":[[],[]]}}\n")
        });
        let fault = host.log("x").unwrap_err();
        assert!(fault.message.contains("hand over the log of 'x'") && fault.log.contains("[[],[]]"), "{fault:?}");
    }

    #[test]
    fn all_that_an_agent_sends_has_a_sum() {
        let mut host = with_agent(|far| far.write_all(b"xxxx"));
        host.received = RECEIVED_MAX - 1;
        let fault = host.state("x").unwrap_err();
        assert!(fault.message.contains("more than 4 GiB in one trial"), "{fault}");
    }
}
