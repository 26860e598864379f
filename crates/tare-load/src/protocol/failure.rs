//! What can go wrong with an operation, by name.

/// Why an operation was not answered correctly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Failure {
    /// The service said that it could not.
    ErrorReply,
    /// A well-formed reply that is not the answer to what was asked.
    WrongReply,
    /// Not the protocol at all.
    Garbage,
    /// Longer than is taken.
    TooLarge,
    /// Nobody listens.
    Refused,
    /// The connection was reset.
    Reset,
    /// The connection was closed in an orderly way, without an answer.
    Closed,
    /// No answer in time.
    TimedOut,
    /// No way there.
    Unreachable,
    /// Every local port is in use.
    NoPort,
    /// Anything else that went wrong with a connection.
    Connection,
    /// The two sides could not agree on how to secure the connection, or one of them broke it.
    Tls,
    /// The server's certificate is not trusted, or not for that name.
    Certificate,
    /// A body that is not encoded as it says.
    Coding,
    /// Sent on to another host, or too often.
    Redirect,
    /// What was to be captured is not in the reply.
    Capture,
    /// A variable without a value was to be sent.
    Unset,
    /// It failed for a passing reason, on each of the tries that it had.
    Retries,
}

/// How many kinds of [`Failure`] there are.
pub(crate) const FAILURES: usize = Failure::ALL.len();

impl Failure {
    /// Every kind, in the order of its number.
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

    /// Its name in a record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Failure::ErrorReply => "error reply",
            Failure::WrongReply => "wrong reply",
            Failure::Garbage => "garbage reply",
            Failure::TooLarge => "reply too large",
            Failure::Refused => "connection refused",
            Failure::Reset => "connection reset",
            Failure::Closed => "closed by server",
            Failure::TimedOut => "timed out",
            Failure::Unreachable => "host unreachable",
            Failure::NoPort => "no free local port",
            Failure::Connection => "connection failed",
            Failure::Tls => "TLS failed",
            Failure::Certificate => "certificate refused",
            Failure::Coding => "reply not decodable",
            Failure::Redirect => "redirect not followed",
            Failure::Capture => "nothing to capture",
            Failure::Unset => "variable without a value",
            Failure::Retries => "retries exhausted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_numbered_in_order_and_named_apart() {
        let names: std::collections::BTreeSet<_> = Failure::ALL.iter().map(|failure| failure.name()).collect();
        assert_eq!(names.len(), FAILURES);
        assert!(Failure::ALL.iter().enumerate().all(|(at, failure)| *failure as usize == at));
    }
}
