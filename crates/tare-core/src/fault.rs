//! Operating errors: what was seen, and what to do about it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;

/// An operating error in words a user can act on. It crosses process and guest boundaries, so it is plain data.
///
/// A user's mistake in a file is a [`crate::config::Problem`] instead: it has a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What was seen and why it matters: lower case, no full stop, reads after "failed: ".
    pub message: String,
    /// What to do about it, as an instruction. Empty when nothing better is known than the message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// The last lines of the log that shows the cause, if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// Whether the input was wrong (a refused archive, a missing file) rather than the machine: exit code 2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mistake: bool,
    /// Whether a disk was full, or a quota used up. Not passed on to other processes.
    #[serde(skip)]
    pub disk_full: bool,
}

impl Fault {
    /// A fault with nothing but a message.
    pub fn new(message: impl Into<String>) -> Self {
        Fault { message: message.into(), remedy: String::new(), log: String::new(), mistake: false, disk_full: false }
    }

    /// A fault from an error and what was being done: `could not do X: cause: cause of cause`.
    pub fn from_error(doing: impl fmt::Display, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut message = format!("could not {doing}: {error}");
        let mut disk_full = is_disk_full(error);
        let mut cause = error.source();
        while let Some(next) = cause {
            disk_full |= is_disk_full(next);
            let text = next.to_string();
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = next.source();
        }
        Fault { disk_full, ..Fault::new(message) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Adds a further thing to do, behind what is known already.
    #[must_use]
    pub fn also(mut self, to_do: impl fmt::Display) -> Self {
        let known = if self.remedy.is_empty() { String::new() } else { format!("{}; ", self.remedy) };
        self.remedy = format!("{known}{to_do}");
        self
    }

    /// Adds the log excerpt that shows the cause.
    #[must_use]
    pub fn with_log(mut self, log: impl Into<String>) -> Self {
        self.log = log.into();
        self
    }

    /// Says that the input was wrong, not the machine.
    #[must_use]
    pub fn as_mistake(mut self) -> Self {
        self.mistake = true;
        self
    }

    /// Says that a disk was full, for errors that are not a [`std::io::Error`].
    #[must_use]
    pub fn as_disk_full(mut self) -> Self {
        self.disk_full = true;
        self
    }

    /// Puts what was being done before the message.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.remedy.is_empty() {
            write!(f, " (to do: {})", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Told by the error's code, which stays the same whatever its text and the language of the machine.
fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

/// Turns any error into a [`Fault`] at the place that knows what was being done.
pub trait Doing<T> {
    /// `result.doing("start the service")` becomes `could not start the service: ...` on an error.
    fn doing(self, what: impl fmt::Display) -> Result<T, Fault>;
}

impl<T, E: std::error::Error + 'static> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Fault> {
        self.map_err(|error| Fault::from_error(what, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reads_as_a_sentence_with_its_remedy() {
        let fault = Fault::new("port 6379 is taken").remedy("stop what listens there").context("start redis");
        assert_eq!(fault.to_string(), "start redis: port 6379 is taken (to do: stop what listens there)");
    }

    #[test]
    fn doing_names_the_action() {
        let error: Result<(), _> = Err(std::io::Error::other("boom"));
        assert_eq!(error.doing("open x").unwrap_err().message, "could not open x: boom");
    }

    #[test]
    fn a_full_disk_is_told_by_its_code() {
        let of = |error: std::io::Error| Fault::from_error("write x", &error);
        assert!(of(ErrorKind::StorageFull.into()).disk_full && of(ErrorKind::QuotaExceeded.into()).disk_full);
        assert!(!of(std::io::Error::other("No space left on device (os error 28)")).disk_full);
        assert!(of(ErrorKind::StorageFull.into()).context("while testing").disk_full);
    }
}
