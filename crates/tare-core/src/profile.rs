//! What a profiled trial adds to its figures: where the serving processes spent their CPU time, and which system calls
//! they made. Such a trial never counts.

use crate::counted::COUNT_MAX;
use crate::fault::Fault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often per second each CPU's stack is sampled. It does not divide the kernel's tick rates, so that it is never in
/// step with one.
pub const STACKS_PER_S: u32 = 499;

/// The suffix of a kernel function's name in a frame.
pub const IN_KERNEL: &str = "_[k]";

/// What [`Profile::missing`] calls the call stacks.
pub const CALL_STACKS: &str = "call stacks";

/// What [`Profile::missing`] calls the counts of system calls.
pub const SYSTEM_CALLS: &str = "system calls";

/// Which forms of a study are profiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profiled {
    /// All; for a ladder, the baseline and the form being climbed to.
    All,
    /// These, and the baseline.
    Forms(Vec<String>),
}

/// What was seen while a profiled trial was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Its start: CLOCK_MONOTONIC of this machine, ns.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// How often per second each CPU's stack was sampled; a sample stands for one second of CPU time divided by this.
    pub stacks_per_s: u32,
    /// Samples that the kernel had to drop for lack of room.
    #[serde(default)]
    pub lost: u64,
    /// By serving scope: how often its processes made each system call, by the call's name.
    pub calls: BTreeMap<String, BTreeMap<String, f64>>,
    /// [`CALL_STACKS`] and [`SYSTEM_CALLS`], if they could not be recorded, and why.
    #[serde(default)]
    pub missing: BTreeMap<String, Fault>,
    /// The stacks; in a record they are in a file of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Stack>,
}

/// A call stack, and how often it was sampled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// The scope, the thread's name, and the functions from the outermost to the one that ran.
    pub frames: Vec<String>,
    /// How often.
    pub samples: u64,
}

/// Stacks in the format that other tools read: a line each, `frame;frame;frame samples`.
pub fn folded(stacks: &[Stack]) -> String {
    // Separators cannot be in a name.
    let frame = |frame: &String| frame.replace(';', ":").replace('\n', " ");
    let line = |stack: &Stack| {
        let frames: Vec<String> = stack.frames.iter().map(frame).collect();
        format!("{} {}\n", frames.join(";"), stack.samples)
    };
    stacks.iter().map(line).collect()
}

/// The stacks in such a text; lines that do not have this format are skipped.
pub fn unfolded(text: &str) -> Vec<Stack> {
    let stack = |line: &str| {
        let (frames, samples) = line.rsplit_once(' ')?;
        let samples = samples.parse().ok().filter(|samples| *samples <= COUNT_MAX)?;
        Some(Stack { frames: frames.split(';').map(str::to_owned).collect(), samples })
    };
    text.lines().filter_map(stack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_survive_their_text() {
        let stack = |frames: &[&str], samples| Stack {
            frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            samples,
        };
        let stacks = [stack(&["redis", "io thread", "main", "read_[k]"], 12), stack(&["redis", "main"], 1)];
        assert_eq!(folded(&stacks), "redis;io thread;main;read_[k] 12\nredis;main 1\n");
        assert_eq!(unfolded(&folded(&stacks)), stacks);
        assert_eq!(folded(&[stack(&["a;b"], 1)]), "a:b 1\n", "a separator in a name");
        assert_eq!(unfolded("torn;li\nother 1x\nmany 18446744073709551615\n"), []);
    }
}
