//! What can go wrong with an operation, by name, and how often it did.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Why an operation was not answered correctly. A protocol judges replies: most need `ErrorReply`, `WrongReply`,
/// `Garbage` and `TooLarge`. The engine itself detects failed connections and timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The service reported an error.
    ErrorReply,
    /// A well-formed reply that is not the answer to the request.
    WrongReply,
    /// Not the protocol at all.
    Garbage,
    /// Longer than the limit.
    TooLarge,
    /// Nothing listens there.
    Refused,
    /// The connection was reset.
    Reset,
    /// The connection was closed in an orderly way, without an answer.
    Closed,
    /// No answer in time.
    TimedOut,
    /// There is no route.
    Unreachable,
    /// Every local port is in use.
    NoPort,
    /// Anything else that went wrong with a connection.
    Connection,
    /// The two sides could not agree on how to secure the connection, or one of them broke it.
    Tls,
    /// The server's certificate is not trusted, or not issued for that name.
    Certificate,
    /// A body that is not encoded as declared.
    Coding,
    /// Redirected to another host, or too often.
    Redirect,
    /// The value to be captured is not in the reply.
    Capture,
    /// A variable without a value was to be sent.
    Unset,
    /// Each of its tries failed for a transient reason.
    Retries,
    /// The reply has a three-digit status that is none of those expected.
    Status(u16),
}

/// The statuses that three digits can express.
const STATUS_MIN: u16 = 100;
const STATUS_MAX: u16 = 999;
const STATUSES: usize = (STATUS_MAX - STATUS_MIN) as usize + 1;
/// Only this many statuses, the most frequent, are named individually in a record, so that a server which makes up
/// statuses cannot fill it.
const STATUSES_NAMED: usize = 12;

impl Failure {
    /// Every kind except the statuses, in the order in which they are counted.
    pub(crate) const ALL: [Failure; 18] = [
        Failure::ErrorReply,
        Failure::WrongReply,
        Failure::Garbage,
        Failure::TooLarge,
        Failure::Refused,
        Failure::Reset,
        Failure::Closed,
        Failure::TimedOut,
        Failure::Unreachable,
        Failure::NoPort,
        Failure::Connection,
        Failure::Tls,
        Failure::Certificate,
        Failure::Coding,
        Failure::Redirect,
        Failure::Capture,
        Failure::Unset,
        Failure::Retries,
    ];

    /// Its name in a record, such as `wrong reply`: a key of [`LoadSummary::failures`](tare_core::load::LoadSummary).
    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Failure::Status(status) => return Cow::Owned(format!("status {status}")),
            Failure::ErrorReply => "error reply",
            Failure::WrongReply => "wrong reply",
            Failure::Garbage => "garbage reply",
            Failure::TooLarge => "reply too large",
            Failure::Refused => "connection refused",
            Failure::Reset => "connection reset",
            Failure::Closed => "closed by server",
            Failure::TimedOut => "timed out",
            Failure::Unreachable => "host unreachable",
            Failure::NoPort => tare_core::load::NO_LOCAL_PORT,
            Failure::Connection => "connection failed",
            Failure::Tls => "TLS failed",
            Failure::Certificate => "certificate refused",
            Failure::Coding => "reply not decodable",
            Failure::Redirect => "redirect not followed",
            Failure::Capture => "nothing to capture",
            Failure::Unset => "variable without a value",
            Failure::Retries => "retries exhausted",
        })
    }

    /// Whether this may be how a service refuses a client whom it no longer knows: any answer except one that reports
    /// its own fault, for which HTTP uses the statuses from 500 on.
    pub(crate) fn may_refuse(self) -> bool {
        !matches!(self, Failure::Status(500..))
    }

    /// Whether it is the end of a connection, by the service or after a time limit, before anything was answered.
    pub(crate) fn is_silence(self) -> bool {
        matches!(self, Failure::Closed | Failure::Reset | Failure::TimedOut)
    }

    /// The index of its counter.
    fn slot(self) -> usize {
        match self {
            Failure::Status(status) => {
                Failure::ALL.len() + usize::from(status.clamp(STATUS_MIN, STATUS_MAX) - STATUS_MIN)
            }
            kind => Failure::ALL.iter().position(|known| *known == kind).expect("every kind is in the list"),
        }
    }
}

/// How often each failure happened. The size is fixed: counting allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct Failures([u64; Failure::ALL.len() + STATUSES]);

impl Default for Failures {
    fn default() -> Self {
        Failures([0; Failure::ALL.len() + STATUSES])
    }
}

impl Failures {
    /// Counts one.
    pub(crate) fn count(&mut self, failure: Failure) {
        self.add(failure, 1);
    }

    /// Counts `count` of them.
    pub(crate) fn add(&mut self, failure: Failure, count: u64) {
        self.0[failure.slot()] += count;
    }

    /// Adds what another counter counted.
    pub(crate) fn merge(&mut self, other: &Failures) {
        self.0.iter_mut().zip(&other.0).for_each(|(to, from)| *to += from);
    }

    /// Resets all counts.
    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The sum of all.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that happened, by name; the most frequent statuses individually, the others together.
    pub(crate) fn named(&self) -> BTreeMap<String, u64> {
        let (kinds, statuses) = self.0.split_at(Failure::ALL.len());
        let kinds = Failure::ALL.iter().zip(kinds).map(|(kind, count)| (kind.name().into_owned(), *count));
        let mut statuses: Vec<(u16, u64)> = (STATUS_MIN..).zip(statuses.iter().copied()).collect();
        statuses.retain(|(_, count)| *count > 0);
        statuses.sort_by_key(|(status, count)| (std::cmp::Reverse(*count), *status));
        let others = statuses.split_off(statuses.len().min(STATUSES_NAMED));
        let others = ("other statuses".to_owned(), others.iter().map(|(_, count)| count).sum());
        let statuses = statuses.into_iter().map(|(status, count)| (Failure::Status(status).name().into_owned(), count));
        kinds.chain(statuses).chain([others]).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_apart_and_named_apart() {
        let statuses = [100, 404, 999].map(Failure::Status);
        let all: Vec<Failure> = Failure::ALL.iter().copied().chain(statuses).collect();
        let mut failures = Failures::default();
        for (at, failure) in all.iter().enumerate() {
            failures.add(*failure, at as u64);
            failures.count(*failure);
        }
        let named = failures.named();
        assert_eq!((named.len(), named["error reply"], named["status 404"]), (all.len(), 1, 20));
        assert_eq!(failures.sum(), (1..=all.len() as u64).sum::<u64>());
        let mut twice = failures.clone();
        twice.merge(&failures);
        assert_eq!((twice.named()["status 999"], twice.sum()), (42, 2 * failures.sum()));
        failures.clear();
        assert!(failures.named().is_empty());
    }

    #[test]
    fn a_server_that_makes_up_statuses_fills_no_record() {
        let mut failures = Failures::default();
        for status in 100..1000 {
            failures.add(Failure::Status(status), u64::from(status));
        }
        failures.add(Failure::Status(404), 1_000);
        let named = failures.named();
        assert_eq!(named.len(), STATUSES_NAMED + 1);
        assert_eq!((named["status 404"], named["status 999"], named.get("status 500")), (1_404, 999, None));
        assert_eq!(named.values().sum::<u64>(), failures.sum());
        assert_eq!(named["other statuses"], failures.sum() - 1_404 - (989..1000).sum::<u64>());
    }
}
