//! Any request and reply over TCP, for servers with protocols that Tare does not know. Also streams, of which an
//! operation is a chunk, and connections with one request each.

mod exchange;
mod options;
mod peer;
mod socket;
mod traffic;

use super::{ErasedProtocol, LoadProtocol, REPLY_MAX, erased};
use crate::draw::Draw;
use crate::engine::{self, Emit};
use crate::operation::{
    Failure, Flight, Greeting, Ledger, Link, OperationRow, Protocol, Reply, SocketOptions, Step, Verified, answers_once,
};
use crate::peer::Counts;
use crate::search::Needle;
use exchange::{Exchange, Sent, Until};
use options::Options;
use rustix::fd::OwnedFd;
use socket::Sockets;
use std::sync::Arc;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadPlan, LoadSummary, LoadTask};
use traffic::{Totals, Traffic};

/// Bytes of a stream sent by one system call: as much as stays in a cache close to the CPU.
const PIECE: usize = 128 * 1024;

/// This protocol, for the list.
pub(super) const PROTOCOL: &dyn ErasedProtocol = erased::<Tcp>();

impl LoadProtocol for Tcp {
    type Options = Options;
    const NAME: &'static str = "tcp";
    const ABOUT: &'static str = "any request and reply over TCP: a text to send, and how its reply ends";

    fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
        options::read(node, problems)
    }

    fn operations(options: &Options) -> Vec<String> {
        options.requests.iter().map(|exchange| exchange.name.clone()).collect()
    }

    fn drive(plan: &LoadPlan, options: Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        let mut tcp = Tcp::new(options);
        if tcp.peer && plan.task == LoadTask::Run {
            // Before anything connects, because a peer may send as soon as something has.
            tcp.counts = Some(peer::settled(plan)?);
        }
        engine::drive(&tcp, plan, emit)
    }
}

/// How the reply to a request ends.
enum End {
    Text(Needle),
    Bytes(u64),
}

/// One kind of operation.
struct Operation {
    name: String,
    weight: u64,
    request: Vec<u8>,
    end: End,
    expect: Option<Needle>,
}

impl From<&Exchange> for Operation {
    fn from(exchange: &Exchange) -> Self {
        let end = match &exchange.reply {
            Until::Until(text) => End::Text(Needle::new(&text.0)),
            Until::Bytes(bytes) => End::Bytes(*bytes),
        };
        let expect = exchange.expect.as_ref().map(|text| Needle::new(&text.0));
        let (name, weight) = (exchange.name.clone(), exchange.weight);
        let request = match &exchange.request {
            Sent::Text(text) => text.0.clone(),
            Sent::Filler(bytes) => filler(*bytes),
        };
        Operation { name, weight, request, end, expect }
    }
}

/// Letters that do not compress.
fn filler(bytes: u64) -> Vec<u8> {
    let mut draw = Draw::new(1, bytes);
    (0..bytes).map(|_| b'a' + draw.below(26) as u8).collect()
}

/// The protocol with its options. The operations for populating follow those of the mix.
struct Tcp {
    operations: Vec<Operation>,
    mixed: usize,
    fresh: bool,
    open_with: Vec<u8>,
    // What streams send repeatedly, if nothing else is sent; empty if requests have texts of their own.
    piece: Vec<u8>,
    peer: bool,
    // The peer's counts before the first connection.
    counts: Option<Counts>,
    set: SocketOptions,
    sockets: Sockets,
    totals: Arc<Totals>,
}

/// The protocol with options in their written form, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(super) fn made(options: serde_json::Value) -> impl Protocol {
    Tcp::new(serde_json::from_value(options).expect("they were written down"))
}

impl Tcp {
    fn new(options: Options) -> Self {
        let operations: Vec<_> = options.requests.iter().chain(&options.populate).map(Operation::from).collect();
        let open_with = options.open_with.map(|text| text.0).unwrap_or_default();
        let filled = options.requests.iter().all(|exchange| matches!(exchange.request, Sent::Filler(_)));
        let ends_sent = options.requests.iter().any(|exchange| exchange.reply == Until::Bytes(0));
        let options::Sockets { nodelay, send_buffer, receive_buffer } = options.sockets;
        Tcp {
            operations,
            mixed: options.requests.len(),
            fresh: options.fresh,
            open_with,
            piece: if filled && ends_sent { filler(PIECE as u64) } else { Vec::new() },
            peer: options.peer,
            counts: None,
            set: SocketOptions { nodelay, send_buffer, receive_buffer },
            sockets: Sockets::default(),
            totals: Arc::default(),
        }
    }
}

/// A connection.
struct Session {
    progress: Progress,
    // How much of a stream still has to be sent for the operations begun, bytes.
    owed: u64,
    traffic: Traffic,
}

/// How far a reply has been read.
#[derive(Debug, Default)]
struct Progress {
    // Bytes of a stream that came before they were waited for.
    early: u64,
    length: u64,
    end: usize,
    expect: usize,
    expected: bool,
}

impl Protocol for Tcp {
    type Session = Session;
    type User = ();
    type Before = ();
    const PIPELINES: bool = true;

    fn operations(&self) -> Vec<OperationRow> {
        let row = |operation: &Operation| OperationRow {
            name: operation.name.clone(),
            weight: operation.weight,
            lingers: false,
        };
        self.operations[..self.mixed].iter().map(row).collect()
    }

    fn session(&self) -> Session {
        Session { progress: Progress::default(), owed: 0, traffic: Traffic::new(&self.totals) }
    }

    fn socket_options(&self) -> SocketOptions {
        self.set
    }

    fn observe(&self, socket: &OwnedFd, ending: bool) {
        self.sockets.look(socket, ending);
    }

    fn user(&self, _number: u64) {}

    fn fresh(&self) -> bool {
        self.fresh
    }

    fn greet(&self, _session: &mut Session, out: &mut Vec<u8>) -> Greeting {
        out.extend_from_slice(&self.open_with);
        Greeting::Ready
    }

    /// A stream continues while nothing waits for its next chunk: these bytes count for later chunks, up to a limit.
    fn idle(&self, session: &mut Session, bytes: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        session.traffic.received += bytes.len() as u64;
        let streamed = self.operations.iter().any(|operation| operation.request.is_empty());
        session.progress.early = (session.progress.early + bytes.len() as u64).min(REPLY_MAX);
        if streamed { Ok(()) } else { Err(Failure::Garbage) }
    }

    fn streams(&self) -> bool {
        let streams = |operation: &Operation| operation.request.is_empty() || matches!(operation.end, End::Bytes(0));
        self.operations.iter().any(streams)
    }

    fn bulk<'p>(&'p self, session: &Session) -> &'p [u8] {
        &self.piece[..session.owed.min(self.piece.len() as u64) as usize]
    }

    fn poured(&self, session: &mut Session, bytes: usize) {
        session.owed -= bytes as u64;
        session.traffic.sent += bytes as u64;
    }

    fn parts(&self) -> bool {
        self.peer
    }

    /// A chunk that is only sent is done; one that is only received is done if it has come already.
    fn flushed(&self, session: &mut Session, flight: &Flight) -> Option<Reply> {
        let operation = &self.operations[usize::from(flight.operation)];
        let End::Bytes(wanted) = operation.end else { return None };
        let progress = &mut session.progress;
        if progress.length > 0 || progress.early < wanted || wanted > 0 && !operation.request.is_empty() {
            return None;
        }
        progress.early -= wanted;
        Some(Reply::Right)
    }

    fn begin(&self, session: &mut Session, _user: &mut (), operation: u16, _: &mut Draw, out: &mut Vec<u8>) -> u64 {
        let request = &self.operations[usize::from(operation)].request;
        if self.piece.is_empty() || usize::from(operation) >= self.mixed {
            out.extend_from_slice(request);
            session.traffic.sent += request.len() as u64;
        } else {
            session.owed += request.len() as u64;
        }
        0
    }

    fn feed(
        &self,
        session: &mut Session,
        _user: &mut (),
        flight: &Flight,
        bytes: &[u8],
        _draw: &mut Draw,
        _out: &mut Vec<u8>,
    ) -> Step {
        let operation = &self.operations[usize::from(flight.operation)];
        let stream = &mut session.progress;
        let end = match &operation.end {
            End::Text(needle) => needle.find(&mut stream.end, bytes),
            End::Bytes(wanted) => {
                let early = stream.early.min(wanted.saturating_sub(stream.length));
                (stream.early, stream.length) = (stream.early - early, stream.length + early);
                let left = wanted.saturating_sub(stream.length);
                (bytes.len() as u64 >= left).then_some(left as usize)
            }
        };
        let used = end.unwrap_or(bytes.len());
        session.traffic.received += used as u64;
        stream.length += used as u64;
        if stream.length > REPLY_MAX {
            return Step::Broken(Failure::TooLarge);
        }
        if let Some(expect) = &operation.expect {
            stream.expected = stream.expected || expect.find(&mut stream.expect, &bytes[..used]).is_some();
        }
        if end.is_none() {
            return Step::More;
        }
        let right = operation.expect.is_none() || stream.expected;
        // Bytes that came early and were not needed belong to the next chunk.
        *stream = Progress { early: stream.early, ..Progress::default() };
        Step::Done { used, reply: if right { Reply::Right } else { Reply::Wrong(Failure::WrongReply) }, last: false }
    }

    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault> {
        let mut verified = Verified::default();
        for (number, operation) in self.operations.iter().enumerate().skip(self.mixed) {
            let mut link = Link::open(plan.endpoint, plan.timeout)?;
            let mut session = link.greet(self)?;
            link.operate(self, &mut session, &mut (), number as u16, &mut Draw::new(plan.seed, 0))
                .map_err(|fault| fault.context(format_args!("populate with '{}'", operation.name)))?;
            let detail = "it was answered as expected".to_owned();
            verified.checks.push(Check {
                always: false,
                outcome: false,
                name: format!("populated with {}", operation.name),
                passed: true,
                detail,
            });
        }
        Ok(verified)
    }

    fn ready(&self, link: &mut Link, seed: u64) -> Result<(), Fault> {
        if self.peer {
            return peer::ask(link).map(|_| ());
        }
        if self.streams() {
            // It need not be answered: a service that accepts a connection is ready.
            return Ok(());
        }
        if self.operations.len() == self.mixed {
            return answers_once(self, link, seed);
        }
        // What is expected may be what is populated, and that comes later; so may be the length of the reply.
        let mut session = link.greet(self)?;
        if matches!(self.operations[0].end, End::Bytes(_)) {
            return Ok(());
        }
        session.progress.expected = true;
        link.operate(self, &mut session, &mut (), 0, &mut Draw::new(seed, 0))
    }

    fn before(&self, _plan: &LoadPlan) -> Result<(), Fault> {
        Ok(())
    }

    fn verify(&self, plan: &LoadPlan, _before: &(), ledger: &Ledger) -> Result<Verified, Fault> {
        let mut verified = Verified { facts: self.sockets.facts(), ..Verified::default() };
        if let Some(before) = self.counts {
            verified.checks = peer::compare(before, peer::settled(plan)?, &self.totals, ledger);
        }
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(reply: serde_json::Value, expect: Option<&str>) -> Tcp {
        let request =
            serde_json::json!({"name": "x", "weight": 1, "request": {"text": "x"}, "reply": reply, "expect": expect});
        Tcp::new(serde_json::from_value(serde_json::json!({"requests": [request], "populate": []})).unwrap())
    }

    fn feed(protocol: &Tcp, stream: &mut Session, bytes: &[u8]) -> Step {
        protocol.feed(stream, &mut (), &Flight::default(), bytes, &mut Draw::new(1, 1), &mut Vec::new())
    }

    #[test]
    fn a_reply_ends_with_its_text_or_its_length() {
        let until = tcp(serde_json::json!({"until": "END\\r\\n"}), Some("VALUE"));
        let feed = |protocol: &Tcp, text: &str| feed(protocol, &mut protocol.session(), text.as_bytes());
        let done = |used, reply| Step::Done { used, reply, last: false };
        assert_eq!(feed(&until, "VALUE a\r\nEND\r\nVAL"), done(14, Reply::Right));
        assert_eq!(feed(&until, "END\r\nVALUE"), done(5, Reply::Wrong(Failure::WrongReply)));
        assert_eq!(feed(&until, "VALUE END"), Step::More);
        let bytes = tcp(serde_json::json!({"bytes": 3}), None);
        assert_eq!(feed(&bytes, "abcd"), done(3, Reply::Right));
    }

    #[test]
    fn what_came_early_is_the_next_chunks() {
        let mut options = serde_json::json!({"requests": [], "populate": []});
        options["requests"] =
            serde_json::json!([{"name": "x", "weight": 1, "request": {"filler": 0}, "reply": {"bytes": 100}}]);
        let protocol = Tcp::new(serde_json::from_value(options).unwrap());
        let mut stream = protocol.session();
        protocol.idle(&mut stream, &[7; 250], &mut Vec::new()).unwrap();
        for (used, early) in [(0, 150), (0, 50), (50, 0)] {
            assert_eq!(feed(&protocol, &mut stream, &[7; 80]), Step::Done { used, reply: Reply::Right, last: false });
            assert_eq!(stream.progress.early, early);
        }
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same(text in "[VE]{0,20}", cut in 0..20usize) {
            let protocol = tcp(serde_json::json!({"until": "EVE"}), Some("VV"));
            let bytes = text.as_bytes();
            let whole = feed(&protocol, &mut protocol.session(), bytes);
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            let mut stream = protocol.session();
            let parts = match feed(&protocol, &mut stream, left) {
                Step::More => match feed(&protocol, &mut stream, right) {
                    Step::Done { used, reply, last } => Step::Done { used: used + left.len(), reply, last },
                    step => step,
                },
                step => step,
            };
            prop_assert_eq!(parts, whole);
        }
    }
}
