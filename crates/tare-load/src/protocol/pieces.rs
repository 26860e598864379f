//! Feeds a protocol a server's bytes, divided into different pieces.

use crate::draw::Draw;
use crate::operation::{Failure, Flight, Greeting, Protocol, Reply, Step};
use std::fmt::Debug;
use tare_core::fault::Fault;

/// Feeds bytes to every operation of a protocol from the first message on: byte by byte, and as a server would send
/// them that waits for each request. The results must be the same.
pub(super) fn chew<P: Protocol>(protocol: &P, bytes: &[u8]) {
    for operation in 0..protocol.operations().len() as u16 {
        let talk = Talk { protocol, operation, bytes };
        let single = talk.events(1, &[]);
        let stops: Vec<usize> = single.iter().map(|(at, _)| *at).collect();
        assert_eq!(talk.events(usize::MAX, &stops), single, "operation {operation}, whole");
        let piece = 2 + bytes.len() % 14;
        assert_eq!(talk.events(piece, &stops), single, "operation {operation}, in pieces of {piece}");
        if P::PIPELINES {
            assert_eq!(talk.events(usize::MAX, &[]), single, "operation {operation}, all at once");
        }
    }
}

/// Whether these bytes are a right answer to the first operation; the server closes after them if `closes`.
pub(super) fn answered<P: Protocol>(protocol: &P, bytes: &[u8], closes: bool) -> bool {
    let talk = Talk { protocol, operation: 0, bytes };
    let events = talk.events(bytes.len() / 3 + 1, &[]);
    let right = |event: &Event| match event {
        Event::Done(reply) => *reply == Reply::Right,
        Event::Closed(reply) => closes && *reply == Reply::Right,
        _ => false,
    };
    events.iter().any(|(_, event)| right(event))
}

/// Feeds bytes to something that takes one answer after the other: byte by byte, in pieces, and all at once. The
/// results must be the same; they are the answers, and last the fault that ended it, if any. `take` returns how much it
/// took, and the answer once complete; `begin` makes its state.
pub(super) fn answers<S, A: PartialEq + Debug>(
    bytes: &[u8],
    begin: impl Fn() -> S,
    take: impl Fn(&mut S, &[u8]) -> Result<(usize, Option<A>), Fault>,
) -> Vec<Result<A, Fault>> {
    let in_pieces = |piece: usize| {
        let (mut state, mut said, mut at) = (begin(), Vec::new(), 0);
        while at < bytes.len() {
            let piece = &bytes[at..at.saturating_add(piece).min(bytes.len())];
            match take(&mut state, piece) {
                Ok((used, answer)) => {
                    let whole = used == piece.len();
                    assert!(whole || (1..piece.len()).contains(&used) && answer.is_some(), "it took {used}");
                    at += used;
                    said.extend(answer.map(Ok));
                }
                Err(fault) => {
                    said.push(Err(fault));
                    break;
                }
            }
        }
        said
    };
    let single = in_pieces(1);
    assert_eq!(in_pieces(usize::MAX), single, "all at once");
    let piece = 2 + bytes.len() % 14;
    assert_eq!(in_pieces(piece), single, "in pieces of {piece}");
    single
}

/// What happens in a conversation.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    /// This many bytes were sent.
    Said(usize),
    /// The greeting was over.
    Greeted,
    /// An answer was complete.
    Done(Reply),
    /// The operation continues on another connection.
    Reopen,
    /// The server closed the connection, which completed an answer.
    Closed(Reply),
}

/// Bytes from a server, and the operation they answer.
struct Talk<'a, P> {
    protocol: &'a P,
    operation: u16,
    bytes: &'a [u8],
}

impl<P: Protocol> Talk<'_, P> {
    /// The events, and after how many bytes each happens, when the bytes come in pieces, none of which crosses a stop.
    /// When a reply is found to be broken is not an event: with a whole line in view that may be earlier.
    fn events(&self, piece: usize, stops: &[usize]) -> Vec<(usize, Event)> {
        let protocol = self.protocol;
        let (mut session, mut user, mut draw) = (protocol.session(), protocol.user(0), Draw::new(1, 0));
        let (mut out, mut events, mut at) = (Vec::new(), Vec::new(), 0);
        let next = |at: usize| {
            let stop = stops.iter().copied().find(|stop| *stop > at).unwrap_or(usize::MAX);
            at.saturating_add(piece).min(stop).min(self.bytes.len())
        };
        let mut greeting = protocol.greet(&mut session, &mut out);
        while greeting == Greeting::Wait {
            if at == self.bytes.len() {
                return events;
            }
            out.clear();
            let to = next(at);
            match protocol.shake(&mut session, &self.bytes[at..to], &mut out) {
                Ok(now) => greeting = now,
                Err(_) => return events,
            }
            at = to;
            if !out.is_empty() {
                events.push((at, Event::Said(out.len())));
            }
            if greeting == Greeting::Ready {
                events.push((at, Event::Greeted));
            }
        }
        out.clear();
        let mut flight = self.begin(&mut session, &mut user, &mut out);
        while at < self.bytes.len() {
            let to = next(at);
            out.clear();
            let piece = &self.bytes[at..to];
            match protocol.feed(&mut session, &mut user, &flight, piece, &mut draw, &mut out) {
                Step::Reopen => {
                    events.push((to, Event::Reopen));
                    return events;
                }
                Step::More => {
                    at = to;
                    if !out.is_empty() {
                        events.push((at, Event::Said(out.len())));
                    }
                }
                Step::Done { used, reply, last } => {
                    assert!(used <= piece.len(), "it took more than there was");
                    at += used;
                    events.push((at, Event::Done(reply)));
                    // Further bytes were not asked for, unless several operations may be in flight.
                    if last || (at < to && !P::PIPELINES) {
                        return events;
                    }
                    flight = self.begin(&mut session, &mut user, &mut out);
                }
                Step::Broken(failure) => {
                    assert!(matches!(failure, Failure::Status(100..=999)) || Failure::ALL.contains(&failure));
                    return events;
                }
            }
        }
        events.extend(protocol.closed(&mut session, &mut user, &flight).map(|reply| (at, Event::Closed(reply))));
        events
    }

    fn begin(&self, session: &mut P::Session, user: &mut P::User, out: &mut Vec<u8>) -> Flight {
        let token = self.protocol.begin(session, user, self.operation, &mut Draw::new(7, 7), out);
        Flight { token, operation: self.operation, ..Flight::default() }
    }
}
