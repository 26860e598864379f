//! A command run inside a form, beside a running service: what to run, and the result.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// What a command may print on its standard output, bytes; one that prints more is ended. JSON may turn one byte into
/// six, and all of it has to fit on one line from a guest.
pub const COMMAND_OUTPUT_MAX: usize = 4 << 20;

/// How much of the end of its standard error is kept, bytes.
pub const COMMAND_ERRORS_MAX: usize = 8 << 10;

/// A command about to be run exactly as a service is: in its root, namespaces and limits, as its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandStart {
    /// The program, an absolute path inside the form or a name to be found in the service's PATH, and its arguments.
    pub command: Vec<String>,
    /// What is added to the service's environment.
    pub environment: BTreeMap<String, String>,
    /// The directory it starts in, inside the form.
    pub directory: String,
    /// How long it may take before it is ended.
    pub within: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By itself, with an exit code.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// It used up its time.
    Late,
}

impl Ended {
    /// How a process that was waited for has ended.
    #[must_use]
    pub fn of(status: ExitStatus) -> Ended {
        // It is always one of the two.
        status.code().map_or_else(|| Ended::Signal(status.signal().unwrap_or_default()), Ended::Exit)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exit(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "killed by signal {signal}"),
            Ended::Late => f.write_str("its time was over"),
        }
    }
}

/// The result of a command. Once this is known, nothing of the command is running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// How it ended.
    pub ended: Ended,
    /// All of its standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
    /// The time from its start to its end, by the clock of the host that ran it.
    pub took: Duration,
    /// The CPU time it used that is in no serving scope of the telemetry, s: user and system, including children it
    /// waited for. 0 if such a scope already has it, as a hypervisor has that of its guest, and a service's control
    /// group that of everything in it. None when it cannot be known.
    pub cpu_s: Option<f64>,
}

/// The part kept of what a command prints: its start or its end, up to a limit.
#[derive(Debug, Default)]
pub struct CappedOutput {
    bytes: Vec<u8>,
    limit: usize,
    of_the_end: bool,
    cut: bool,
}

impl CappedOutput {
    /// Keeps the start; beyond `limit` bytes it is not whole, and no more is wanted.
    #[must_use]
    pub fn start(limit: usize) -> CappedOutput {
        CappedOutput { limit, ..CappedOutput::default() }
    }

    /// Keeps the last `limit` bytes.
    #[must_use]
    pub fn end(limit: usize) -> CappedOutput {
        CappedOutput { limit, of_the_end: true, ..CappedOutput::default() }
    }

    /// Adds a piece; false when no more is wanted.
    pub fn add(&mut self, piece: &[u8]) -> bool {
        self.bytes.extend_from_slice(piece);
        let surplus = self.bytes.len().saturating_sub(self.limit);
        if self.of_the_end {
            self.bytes.drain(..surplus);
        } else {
            self.bytes.truncate(self.limit);
            self.cut |= surplus > 0;
        }
        !self.cut
    }

    /// Whether nothing is missing at the end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.cut
    }

    /// What was kept; what is not UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_output_the_start_is_kept_and_of_errors_the_end() {
        let mut start = CappedOutput::start(4);
        assert!(start.add(b"ab") && start.add(b"cd") && start.is_whole());
        assert!(!start.add(b"e") && !start.add(b"") && !start.is_whole());
        assert_eq!(start.text(), "abcd");
        let mut end = CappedOutput::end(4);
        assert!(end.add(b"abc") && end.add(b"defgh") && end.add(b"") && end.is_whole());
        assert_eq!(end.text(), "efgh");
    }

    #[test]
    fn a_process_ends_by_itself_or_by_a_signal() {
        assert_eq!(Ended::of(ExitStatus::from_raw(3 << 8)), Ended::Exit(3));
        assert_eq!(Ended::of(ExitStatus::from_raw(9)), Ended::Signal(9));
    }

    #[test]
    fn an_end_is_told_in_words_and_survives_json() {
        let end = |ended| CommandEnd {
            ended,
            stdout: "1 \"two\"\n\u{1}".to_owned(),
            stderr: String::new(),
            took: Duration::from_millis(1500),
            cpu_s: None,
        };
        let cases = [
            (Ended::Exit(3), "exit code 3"),
            (Ended::Signal(9), "killed by signal 9"),
            (Ended::Late, "its time was over"),
        ];
        for (ended, words) in cases {
            assert_eq!(ended.to_string(), words);
            let json = serde_json::to_string(&end(ended)).unwrap();
            assert_eq!(serde_json::from_str::<CommandEnd>(&json).unwrap(), end(ended), "{json}");
        }
    }
}
