//! Reads from YAML how long users pause.

use super::{Distribution, Pause};
use crate::config::{Fields, Node, NodeKind, Problems};
use std::time::Duration;

/// Pauses longer than a day are typing mistakes.
const PAUSE_MAX: Duration = Duration::from_secs(86_400);

/// How long users or companions pause: `think:` or `cycle:`, otherwise `usual`, if there is one.
pub(super) fn read_pauses(fields: &mut Fields<'_>, usual: Option<Pause>, problems: &mut Problems) -> Option<Pause> {
    match (fields.get("think"), fields.get("cycle")) {
        (Some(node), None) => read_distribution(node, problems).map(Pause::Think),
        (None, Some(node)) => {
            let cycle = read_distribution(node, problems)?;
            if cycle.mean_s() <= 0.0 {
                let hint = "write a longer one, or 'think: 0s'";
                problems.add(node.place, "a cycle of length 0 would start operations without end", hint);
            }
            Some(Pause::Cycle(cycle))
        }
        (Some(_), Some(node)) => {
            problems.add(node.place, "users have either a think time or a cycle time, not both", "keep one of them");
            None
        }
        (None, None) if usual.is_some() => usual,
        (None, None) => {
            problems.add(fields.place(), "nothing says how long users pause", "add 'think: 1s' or 'cycle: 5s'");
            None
        }
    }
}

/// A distribution: a duration alone means a constant one.
fn read_distribution(node: &Node, problems: &mut Problems) -> Option<Distribution> {
    if let NodeKind::Scalar { .. } = node.kind {
        return read_pause(node, problems).map(Distribution::Constant);
    }
    const KINDS: [&str; 4] = ["constant", "exponential", "uniform", "normal"];
    let (kind, place, value) = node.kind("a distribution", problems)?;
    if kind == "constant" {
        return read_pause(value, problems).map(Distribution::Constant);
    }
    if !KINDS.contains(&kind) {
        Node::unknown(kind, place, "distribution", &KINDS, problems);
        return None;
    }
    let mut fields = Fields::of(value, format!("distribution '{kind}'"), problems)?;
    let mut length = |name: &'static str, otherwise: Option<Duration>, problems: &mut Problems| {
        let node = if otherwise.is_some() { fields.get(name) } else { fields.require(name, problems) };
        node.map_or(otherwise, |node| read_pause(node, problems))
    };
    let read = match kind {
        "exponential" => {
            let mean = length("mean", None, problems);
            // Ten times the mean, as in TPC-W and similar benchmarks: five of 100,000 draws are cut.
            let max = length("max", mean.map(|mean| (mean * 10).min(PAUSE_MAX)).or(Some(PAUSE_MAX)), problems);
            mean.zip(max).map(|(mean, max)| Distribution::Exponential { mean, max })
        }
        "uniform" => {
            let min = length("min", Some(Duration::ZERO), problems);
            let max = length("max", None, problems);
            min.zip(max).map(|(min, max)| Distribution::Uniform { min, max })
        }
        _ => {
            let (mean, sd) = (length("mean", None, problems), length("sd", None, problems));
            let min = length("min", Some(Duration::ZERO), problems);
            let max = length("max", Some(PAUSE_MAX), problems);
            let bounds = mean.zip(sd).zip(min.zip(max));
            bounds.map(|((mean, sd), (min, max))| Distribution::Normal { mean, sd, min, max })
        }
    };
    fields.finish(problems);
    let ordered = match read {
        Some(Distribution::Uniform { min, max } | Distribution::Normal { min, max, .. }) => min <= max,
        Some(Distribution::Exponential { mean, max }) => mean <= max,
        _ => true,
    };
    if !ordered {
        problems.add(value.place, "the longest is shorter than the others", "raise 'max'");
    }
    read
}

fn read_pause(node: &Node, problems: &mut Problems) -> Option<Duration> {
    let pause = node.duration(problems)?;
    if pause > PAUSE_MAX {
        problems.add(node.place, "a pause longer than a day", "at most 24h");
    }
    Some(pause)
}
