//! What is asked of an agent on another machine, and what it answers.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Question {
    /// What it is and where it runs: [`MachineFacts`].
    Greet,
    /// What its CLOCK_REALTIME says: [`Stamps`].
    WallClock,
    /// Whether the machine has this address: yes or no.
    HasAddress(IpAddr),
    /// Carries out a verb of this program with these arguments, for at most this long: [`VerbEnd`].
    Verb(Vec<String>, Duration),
    /// Ends the agent.
    Leave,
}

/// When a question came in and when its answer went out, CLOCK_REALTIME of the machine that answers, ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamps {
    pub(super) received_ns: u64,
    pub(super) sent_ns: u64,
}

/// What an agent says of itself and its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// The version of Tare.
    pub version: String,
    /// The SHA-256 of its program, 64 hexadecimal digits.
    pub digest: String,
    /// Whether it is root.
    pub root: bool,
    /// The kernel's release.
    pub kernel: String,
    /// The machine's architecture, as uname(2) has it.
    pub architecture: String,
    /// How many CPUs are online.
    pub cpus: usize,
}

/// How a verb ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbEnd {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed to standard output.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
}
