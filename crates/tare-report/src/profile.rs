//! What profiled trials say, in a few lines.

use crate::quantity::{digits, plain_quantity};
use tare_core::fault::Fault;
use tare_stats::{Analysis, CallRow, FormProfile, TimeRow};

/// Rows shown where there is little room.
const SAID: usize = 3;
/// Calls that differ by less, by operation, are not said on a terminal.
const CALLS_SAID: f64 = 0.01;

/// Of each form besides the baseline what differs most.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let mut lines: Vec<String> = analysis.profiles.iter().filter_map(|profile| line(analysis, profile)).collect();
    if !lines.is_empty() {
        lines.push("from one profiled trial of each form: leads only; they count for nothing above".to_owned());
    }
    lines
}

fn line(analysis: &Analysis, profile: &FormProfile) -> Option<String> {
    let mut said: Vec<String> = profile.why.iter().map(ToString::to_string).collect();
    said.extend(profile.missing.iter().map(|(what, why)| format!("no {what}: {}", missing_text(why))));
    if profile.form != analysis.baseline {
        said.extend(difference(profile, &analysis.baseline));
    }
    let mark = if emulated(analysis, &profile.form) { " EMULATED" } else { "" };
    (!said.is_empty()).then(|| format!("{}{mark}: {}", profile.form, said.join("; ")))
}

/// Whether what was seen of a form says nothing about the real thing.
pub(crate) fn emulated(analysis: &Analysis, form: &str) -> bool {
    analysis.arms.iter().any(|arm| arm.form == form && analysis.emulated(arm))
}

/// In how much more time and how many more calls a form differs, in words.
fn difference(profile: &FormProfile, baseline: &str) -> Vec<String> {
    let mut said = Vec::new();
    let time = |row: &TimeRow| {
        let sign = if row.difference_us() < 0.0 { "-" } else { "+" };
        format!("{} {sign}{}", row.name, plain_quantity(row.difference_us().abs(), "us"))
    };
    if profile.functions.iter().any(|row| row.baseline_us_per_op.is_some()) {
        let most: Vec<String> = profile.functions.iter().take(SAID).map(time).collect();
        said.push(format!("CPU per op {}", most.join(", ")));
    } else if profile.samples > 0 {
        said.push(format!("no function's CPU per op differs clearly from {baseline}'s"));
    }
    let call = |row: &CallRow| {
        let base = row.baseline_per_op.unwrap_or(0.0);
        format!("{} {} instead of {}", row.name, digits(row.per_op), digits(base))
    };
    let counted = |row: &&CallRow| row.baseline_per_op.is_some();
    let calls = profile.calls.iter().filter(counted).filter(|row| row.difference().abs() >= CALLS_SAID);
    let calls: Vec<String> = calls.take(SAID).map(call).collect();
    if !calls.is_empty() {
        said.push(format!("system calls per op {}", calls.join(", ")));
    } else if profile.calls.iter().any(|row| row.baseline_per_op.is_some()) {
        said.push(format!("as many system calls per op as {baseline}"));
    }
    said
}

/// What is missing of a profile and what to do about it.
pub(crate) fn missing_text(why: &Fault) -> String {
    if why.remedy.is_empty() { why.message.clone() } else { format!("{} (to do: {})", why.message, why.remedy) }
}
