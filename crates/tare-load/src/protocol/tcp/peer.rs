//! Tests against `tare peer`: what they exchange, and the comparison of its counts with ours.

use super::exchange::{Bytes, Exchange, Sent, Until};
use super::traffic::Totals;
use crate::operation::{Ledger, Link};
use crate::peer::Counts;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadPlan};

/// The least time that an exchange off the measured path may take: an emulated guest is slow.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait between two checks whether the last connections have ended.
const PAUSE: Duration = Duration::from_millis(10);
/// Its counts are about a hundred bytes; anything longer than this is no peer.
const TEXT_MAX: usize = 4096;

/// A megabyte: with chunks of this size throughput is in MB/s, and microseconds of CPU per operation are ms per GB.
pub(super) const MEGABYTE: u64 = 1_000_000;

/// What is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// The load sends without end.
    StreamOut,
    /// The load receives without end.
    StreamIn,
    /// A byte out, a byte back, one at a time on each connection.
    RequestResponse,
    /// The same, with a connection for each.
    Connect,
}

impl Test {
    /// Their names in a workload.
    pub(super) const NAMES: [&str; 4] = ["stream-out", "stream-in", "request-response", "connect"];

    /// The test of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let all = [Test::StreamOut, Test::StreamIn, Test::RequestResponse, Test::Connect];
        Test::NAMES.iter().position(|other| *other == name).map(|at| all[at])
    }

    /// The exchange of the test, with chunks of this size if it is a stream.
    pub(super) fn exchange(self, chunk: u64) -> Exchange {
        let stream = if chunk == MEGABYTE { "megabyte" } else { "chunk" };
        let (name, sent, received) = match self {
            Test::StreamOut => (stream, chunk, 0),
            Test::StreamIn => (stream, 0, chunk),
            Test::RequestResponse => ("request", 1, 1),
            Test::Connect => ("connection", 1, 1),
        };
        let (request, reply) = (Sent::Filler(sent), Until::Bytes(received));
        Exchange { name: name.to_owned(), weight: 1, request, reply, expect: None }
    }

    /// The line that tells the peer the role of the connection.
    pub(super) fn line(self) -> Bytes {
        let line: &[u8] = match self {
            Test::StreamOut => b"sink\n",
            Test::StreamIn => b"source\n",
            Test::RequestResponse => b"echo\n",
            Test::Connect => b"once\n",
        };
        Bytes(line.to_vec())
    }
}

/// Asks a peer for its counts.
///
/// # Errors
/// When it does not answer, or not like a peer.
pub(super) fn ask(link: &mut Link) -> Result<Counts, Fault> {
    link.send(b"counts\n")?;
    let mut text = Vec::new();
    link.receive(|bytes| {
        text.extend_from_slice(bytes);
        let told = std::str::from_utf8(&text).ok().filter(|text| text.ends_with('\n')).and_then(Counts::parse);
        match told {
            None if text.len() > TEXT_MAX => Err(Fault::new("this is no answer of `tare peer`")
                .remedy("let the workload's service run `tare peer`, or leave 'peer' out and say what is exchanged")),
            told => Ok((bytes.len(), told)),
        }
    })
}

/// Its counts once no connection is open any more, or the last ones before the time is up.
///
/// # Errors
/// When it does not answer.
pub(super) fn settled(plan: &LoadPlan) -> Result<Counts, Fault> {
    let within = plan.timeout.max(PATIENCE);
    let deadline = Instant::now() + within;
    loop {
        let counts = ask(&mut Link::open(plan.endpoint, within)?)?;
        if counts.open == 0 || Instant::now() > deadline {
            return Ok(counts);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether each side has received what the other sent. If operations were lost, connections were cut off with bytes in
/// flight: then neither side may have received more than was sent.
pub(super) fn compare(before: Counts, after: Counts, totals: &Totals, ledger: &Ledger) -> Vec<Check> {
    let lost: u64 = ledger.sent.iter().zip(&ledger.answered).map(|(sent, answered)| sent - answered).sum();
    let (sent, received) = totals.bytes();
    let check = |name: &str, sent: u64, received: u64| Check {
        always: false,
        outcome: false,
        name: name.to_owned(),
        passed: if lost == 0 { sent == received } else { received <= sent },
        detail: format!("{sent} bytes sent, {received} received, {lost} operations lost"),
    };
    let of = |count: fn(&Counts) -> u64| count(&after).saturating_sub(count(&before));
    vec![
        check("bytes from the load to the peer", sent, of(|counts| counts.received)),
        check("bytes from the peer to the load", of(|counts| counts.sent), received),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Traffic;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn bytes_that_are_missing_are_found() {
        let totals = Arc::new(Totals::default());
        let mut traffic = Traffic::new(&totals);
        (traffic.sent, traffic.received) = (100, 50);
        drop(traffic);
        let before = Counts { received: 7, sent: 3, ..Counts::default() };
        let passed = |received: u64, sent: u64, lost: u64| {
            let mut ledger = Ledger::new(1);
            (ledger.sent[0], ledger.answered[0]) = (10, 10 - lost);
            let after = Counts { received: 7 + received, sent: 3 + sent, ..before };
            compare(before, after, &totals, &ledger).iter().map(|check| check.passed).collect::<Vec<_>>()
        };
        assert_eq!(passed(100, 50, 0), [true, true]);
        assert_eq!(passed(99, 51, 0), [false, false]);
        assert_eq!(passed(99, 51, 1), [true, true]);
        assert_eq!(passed(101, 49, 1), [false, false]);
    }

    #[test]
    fn every_name_is_a_test() {
        let lines = Test::NAMES.map(|name| Test::named(name).unwrap().line().0);
        assert_eq!(lines, [&b"sink\n"[..], b"source\n", b"echo\n", b"once\n"]);
        assert_eq!(Test::named("stream"), None);
        assert_eq!(Test::StreamIn.exchange(MEGABYTE).name, "megabyte");
    }
}
