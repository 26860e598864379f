//! A command that is run inside a form, beside a service that runs there: what is to run, and how it went.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a command may print on its standard output, bytes; one that prints more is ended. A line of JSON may make six
/// bytes of one, and it has to pass into a guest's line whole.
pub const COMMAND_OUTPUT_MAX: usize = 4 << 20;

/// The end of its standard error that is kept, bytes.
pub const COMMAND_ERRORS_MAX: usize = 8 << 10;

/// A command about to be run just as a service is: in its root, its namespaces and its limits, as its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandStart {
    /// The program, an absolute path inside the form or a name that is looked for in the service's PATH, and its
    /// arguments.
    pub command: Vec<String>,
    /// What is added to the service's environment.
    pub environment: BTreeMap<String, String>,
    /// The directory it starts in, inside the form.
    pub directory: String,
    /// How long it may take before it is ended.
    pub within: Duration,
}

/// How a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By itself, with an exit code.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// Its time was over.
    Late,
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

/// How a command went. When this is known, nothing of the command runs any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// How it ended.
    pub ended: Ended,
    /// All of its standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
    /// From its start to its end, by the clock of the host that ran it.
    pub took: Duration,
    /// CPU time that it used and that no serving scope of the telemetry holds, s: user and system, with what it waited
    /// for. 0 where such a scope has it already, as a hypervisor has that of its guest. None when it cannot be known.
    pub cpu_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
