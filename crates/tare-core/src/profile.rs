//! What a profiled trial brings beside its figures: where the processes that serve were on their CPUs, and what they
//! asked the kernel for. Such a trial never counts.

use crate::config::{Node, NodeKind, Problems};
use crate::fault::Fault;
use crate::form::Form;
use crate::load::COUNT_MAX;
use crate::study::Study;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often a second each CPU's stack is looked at. No divisor of the kernel's own ticks, so as to beat with none.
pub const STACKS_PER_S: u32 = 499;

/// What stands behind the name of a function of the kernel, in a frame.
pub const IN_KERNEL: &str = "_[k]";

/// What [`Profile::missing`] calls the call stacks.
pub const CALL_STACKS: &str = "call stacks";

/// What [`Profile::missing`] calls the counts of system calls.
pub const SYSTEM_CALLS: &str = "system calls";

/// Which forms of a study are profiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profiled {
    /// All; of a ladder the baseline and the form that is climbed to.
    All,
    /// These, and the baseline.
    Forms(Vec<String>),
}

impl Profiled {
    /// Reads `true`, `false` or a list of forms.
    pub fn read(node: &Node, forms: &[Form], problems: &mut Problems) -> Option<Profiled> {
        let NodeKind::List(items) = &node.kind else {
            return node.boolean(problems)?.then_some(Profiled::All);
        };
        let mut named = Vec::new();
        for item in items {
            let Some(name) = item.text(problems) else { continue };
            if !forms.iter().any(|form| form.name == name) {
                let known: Vec<&str> = forms.iter().map(|form| form.name.as_str()).collect();
                let hint = format!("its forms: {}", known.join(", "));
                problems.add(item.place, format!("the study has no form '{name}' to profile"), hint);
            }
            named.push(name);
        }
        Some(Profiled::Forms(named))
    }
}

impl Study {
    /// The forms that are profiled, the baseline first: without it nothing could be compared.
    pub fn profiled(&self) -> Vec<String> {
        let Some(profiled) = &self.profile else { return Vec::new() };
        let wanted = |form: &&Form| match (profiled, &self.ladder) {
            _ if form.name == self.baseline => true,
            (Profiled::Forms(names), _) => names.contains(&form.name),
            (Profiled::All, Some(ladder)) => form.name == ladder.to,
            (Profiled::All, None) => true,
        };
        let mut names: Vec<String> = self.forms.iter().filter(wanted).map(|form| form.name.clone()).collect();
        names.sort_by_key(|name| *name != self.baseline);
        names
    }
}

/// What was seen while a profiled trial was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// From when: CLOCK_MONOTONIC of this machine, ns.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// How often a second each CPU's stack was looked at; a sample stands for that share of a second of CPU time.
    pub stacks_per_s: u32,
    /// Samples that the kernel had to leave out, for want of room.
    #[serde(default)]
    pub lost: u64,
    /// By scope that serves: how often its processes called the kernel, by the call's name.
    pub calls: BTreeMap<String, BTreeMap<String, f64>>,
    /// [`CALL_STACKS`] and [`SYSTEM_CALLS`], where they could not be had, and why.
    #[serde(default)]
    pub missing: BTreeMap<String, Fault>,
    /// The stacks; in a record they stand in a file of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Stack>,
}

/// A call stack, and how often it was met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// The scope, the thread's name, and the functions from the outermost to the one that ran.
    pub frames: Vec<String>,
    /// How often.
    pub samples: u64,
}

/// Stacks as other tools read them: a line each, `frame;frame;frame samples`.
pub fn folded(stacks: &[Stack]) -> String {
    // What separates cannot be in a name.
    let frame = |frame: &String| frame.replace(';', ":").replace('\n', " ");
    let line = |stack: &Stack| {
        let frames: Vec<String> = stack.frames.iter().map(frame).collect();
        format!("{} {}\n", frames.join(";"), stack.samples)
    };
    stacks.iter().map(line).collect()
}

/// The stacks of such text; what is no line of it is left out.
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
    use crate::study::tests::{TextOf, read};

    fn profiled(more: &str) -> Result<Vec<String>, String> {
        let forms = "{boxed: [box: {}], plain: [], caged: [cage: {}]}";
        let text = TextOf { baseline: "plain", forms, design: "blocks" };
        read(&format!("{text}{more}\n")).map(|(study, _)| study.profiled()).map_err(|found| found.join("\n"))
    }

    #[test]
    fn a_study_says_which_forms_are_profiled_and_the_baseline_always_is() {
        assert_eq!(profiled("").unwrap(), Vec::<String>::new());
        assert_eq!(profiled("profile: false").unwrap(), Vec::<String>::new());
        assert_eq!(profiled("profile: true").unwrap(), ["plain", "boxed", "caged"]);
        assert_eq!(profiled("profile: [caged]").unwrap(), ["plain", "caged"]);
        assert_eq!(profiled("profile: true\nladder: boxed").unwrap(), ["plain", "boxed"]);
        assert!(profiled("profile: [none]").unwrap_err().contains("no form 'none' to profile"));
        assert!(profiled("profile: maybe").is_err());
    }

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
