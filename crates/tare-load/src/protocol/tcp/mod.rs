//! Any request and reply over TCP: for servers that Tare has never heard of.

mod options;

use super::{Draw, Emit, Failure, Flight, Mix, Protocol, ProtocolRow, REPLY_MAX, Reply, Step, Verified, options_of};
use crate::engine::{Ledger, drive};
use crate::link::Link;
use crate::search::Needle;
use options::{Exchange, Options, Until};
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadPlan};

/// The row of this protocol.
pub(super) const ROW: ProtocolRow = ProtocolRow {
    name: "tcp",
    about: "any request and reply over TCP: a text to send, and how its reply ends",
    options: options::read,
    drive: |plan: &LoadPlan, emit: &mut Emit<'_>| drive(&Tcp::new(options_of(plan)?), plan, emit),
};

/// How the reply to a request ends.
enum End {
    Text(Needle),
    Bytes(u64),
}

/// One kind of operation.
struct Operation {
    name: String,
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
        Operation { name: exchange.name.clone(), request: exchange.request.0.clone(), end, expect }
    }
}

/// The protocol with its options. Operations to populate with stand behind those of the mix.
struct Tcp {
    mix: Mix,
    operations: Vec<Operation>,
    mixed: usize,
}

impl Tcp {
    fn new(options: Options) -> Self {
        let mix = Mix::new(options.requests.iter().map(|exchange| exchange.weight));
        let operations = options.requests.iter().chain(&options.populate).map(Operation::from).collect();
        Tcp { mix, operations, mixed: options.requests.len() }
    }
}

/// How much of a reply was seen.
#[derive(Debug, Default)]
struct Progress {
    length: u64,
    end: usize,
    expect: usize,
    expected: bool,
}

impl Protocol for Tcp {
    type Stream = Progress;
    type Before = ();

    fn operations(&self) -> Vec<String> {
        self.operations[..self.mixed].iter().map(|operation| operation.name.clone()).collect()
    }

    fn request(&self, draw: &mut Draw, out: &mut Vec<u8>) -> Flight {
        let operation = self.mix.draw(draw);
        out.extend_from_slice(&self.operations[operation].request);
        Flight { start_ns: 0, token: 0, operation: operation as u16 }
    }

    fn stream(&self) -> Progress {
        Progress::default()
    }

    fn feed(&self, stream: &mut Progress, flight: &Flight, bytes: &[u8]) -> Step {
        let operation = &self.operations[usize::from(flight.operation)];
        let end = match &operation.end {
            End::Text(needle) => needle.find(&mut stream.end, bytes),
            End::Bytes(wanted) => {
                let left = wanted - stream.length;
                (bytes.len() as u64 >= left).then_some(left as usize)
            }
        };
        let used = end.unwrap_or(bytes.len());
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
        *stream = Progress::default();
        Step::Done { used, reply: if right { Reply::Right } else { Reply::Wrong(Failure::WrongReply) }, last: false }
    }

    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault> {
        let mut verified = Verified::default();
        for (number, operation) in self.operations.iter().enumerate().skip(self.mixed) {
            let mut link = Link::open(plan.endpoint, plan.timeout)?;
            link.send(&operation.request)?;
            link.reply(self, &Flight { start_ns: 0, token: 0, operation: number as u16 })
                .map_err(|fault| fault.context(format_args!("populate with '{}'", operation.name)))?;
            let detail = "it was answered as expected".to_owned();
            verified.checks.push(Check { name: format!("populated with {}", operation.name), passed: true, detail });
        }
        Ok(verified)
    }

    fn before(&self, _plan: &LoadPlan) -> Result<(), Fault> {
        Ok(())
    }

    fn verify(&self, _plan: &LoadPlan, _before: &(), _ledger: &Ledger) -> Result<Verified, Fault> {
        Ok(Verified::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(reply: serde_json::Value, expect: Option<&str>) -> Tcp {
        let request = serde_json::json!({"name": "x", "weight": 1, "request": "x", "reply": reply, "expect": expect});
        Tcp::new(serde_json::from_value(serde_json::json!({"requests": [request], "populate": []})).unwrap())
    }

    const FLIGHT: Flight = Flight { start_ns: 0, token: 0, operation: 0 };

    #[test]
    fn a_reply_ends_with_its_text_or_its_length() {
        let until = tcp(serde_json::json!({"until": "END\\r\\n"}), Some("VALUE"));
        let feed = |protocol: &Tcp, text: &str| protocol.feed(&mut protocol.stream(), &FLIGHT, text.as_bytes());
        let done = |used, reply| Step::Done { used, reply, last: false };
        assert_eq!(feed(&until, "VALUE a\r\nEND\r\nVAL"), done(14, Reply::Right));
        assert_eq!(feed(&until, "END\r\nVALUE"), done(5, Reply::Wrong(Failure::WrongReply)));
        assert_eq!(feed(&until, "VALUE END"), Step::More);
        let bytes = tcp(serde_json::json!({"bytes": 3}), None);
        assert_eq!(feed(&bytes, "abcd"), done(3, Reply::Right));
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same(text in "[VE]{0,20}", cut in 0..20usize) {
            let protocol = tcp(serde_json::json!({"until": "EVE"}), Some("VV"));
            let bytes = text.as_bytes();
            let whole = protocol.feed(&mut protocol.stream(), &FLIGHT, bytes);
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            let mut stream = protocol.stream();
            let parts = match protocol.feed(&mut stream, &FLIGHT, left) {
                Step::More => match protocol.feed(&mut stream, &FLIGHT, right) {
                    Step::Done { used, reply, last } => Step::Done { used: used + left.len(), reply, last },
                    step => step,
                },
                step => step,
            };
            prop_assert_eq!(parts, whole);
        }
    }
}
