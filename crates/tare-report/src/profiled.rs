//! What profiled trials say: a few lines for a terminal, and for the page flame graphs and tables.

use crate::figures::{digits, plain_quantity, quantity};
use crate::html::safe;
use crate::svg::{Paint, flame as draw};
use minijinja::{Value, context};
use serde_json::json;
use tare_core::fault::Fault;
use tare_core::record::{Record, TrialData};
use tare_stats::{Analysis, CallRow, FormProfile, TimeRow, flame};

/// Rows that are said where there is little room.
const SAID: usize = 3;
/// Rows of a table on the page.
const SHOWN: usize = 10;
/// Calls that differ by less, by operation, are not said on a terminal.
const CALLS_SAID: f64 = 0.01;

/// The one script of a page, and only of one that has flame graphs; pages allow it by its digest.
pub(crate) const SCRIPT: &str = include_str!("../assets/flame.js");
/// Its digest, as a page's policy states it.
pub(crate) const SCRIPT_DIGEST: &str = "sha256-4ZAF4HhlZpTTR7DYBZzxtCacWcnn7UfRGbs61eFzbIE=";

/// Lines for the terminal: of each form besides the baseline what differs most.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let mut lines: Vec<String> = analysis.profiles.iter().filter_map(|profile| line(analysis, profile)).collect();
    if !lines.is_empty() {
        lines.push("of one watched trial of each form: leads, which count for nothing above".to_owned());
    }
    lines
}

fn line(analysis: &Analysis, profile: &FormProfile) -> Option<String> {
    let mut said: Vec<String> = profile.why.iter().map(ToString::to_string).collect();
    said.extend(profile.missing.iter().map(|(what, why)| format!("no {what}: {}", advice(why))));
    if profile.form != analysis.baseline {
        said.extend(difference(profile, &analysis.baseline));
    }
    let mark = if emulated(analysis, &profile.form) { " EMULATED" } else { "" };
    (!said.is_empty()).then(|| format!("{}{mark}: {}", profile.form, said.join("; ")))
}

/// Whether what was seen of a form says nothing about the real thing.
fn emulated(analysis: &Analysis, form: &str) -> bool {
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

fn advice(why: &Fault) -> String {
    if why.remedy.is_empty() { why.message.clone() } else { format!("{} (to do: {})", why.message, why.remedy) }
}

/// What the page shows of each form.
pub(crate) fn panels(record: &Record, analysis: &Analysis) -> Vec<Value> {
    let trial_of = |form: &str| record.profiles.iter().find(|trial| trial.record.trial.form == form);
    let base = trial_of(&analysis.baseline);
    let panel = |profile: &FormProfile| panel(analysis, profile, trial_of(&profile.form)?, base);
    analysis.profiles.iter().filter_map(panel).collect()
}

fn panel(analysis: &Analysis, profile: &FormProfile, trial: &TrialData, base: Option<&TrialData>) -> Option<Value> {
    let is_baseline = profile.form == analysis.baseline;
    let base = base.filter(|base| !is_baseline && base.record.profile.is_some());
    let against = base.map(|_| analysis.baseline.as_str());
    let whole = flame(trial, base);
    let own = whole.as_ref().map(|whole| safe(draw(whole, &profile.form, against, Paint::Place)));
    let other = whole.as_ref().filter(|whole| base.is_some() && whole.baseline_us_per_op > 0.0);
    let other = other.map(|whole| safe(draw(whole, &profile.form, against, Paint::Difference)));
    let missing: Vec<String> =
        profile.missing.iter().map(|(what, why)| format!("No {what}: {}.", advice(why))).collect();
    let several = |_: &&TimeRow| profile.scopes.len() > 1;
    Some(context! {
        form => profile.form.clone(),
        emulated => emulated(analysis, &profile.form),
        against => against,
        facts => facts(profile),
        why => profile.why.as_ref().map(advice),
        missing => missing,
        flame => own,
        difference => other,
        functions => crate::html::plain(profile.functions.iter().take(SHOWN).map(time_row).collect::<Vec<_>>()),
        // One scope is the whole, which the facts tell.
        scopes => crate::html::plain(profile.scopes.iter().filter(several).map(time_row).collect::<Vec<_>>()),
        calls => crate::html::plain(profile.calls.iter().take(SHOWN).map(call_row).collect::<Vec<_>>()),
    })
}

/// How much was seen, and what watching took.
fn facts(profile: &FormProfile) -> String {
    let mut facts = Vec::new();
    if profile.samples > 0 {
        facts.push(format!("{} samples of call stacks", tare_core::units::grouped(profile.samples as f64)));
    }
    if let Some(watched) = profile.cpu_us_per_op {
        let counted =
            profile.counted_cpu_us_per_op.map(|us| format!(", {} in the trials that count", quantity(us, "us")));
        facts.push(format!("CPU per op {} while watched{}", quantity(watched, "us"), counted.unwrap_or_default()));
    }
    facts.join("; ")
}

fn time_row(row: &TimeRow) -> serde_json::Value {
    let us = |value: f64| quantity(value, "us");
    json!({
        "name": row.name,
        "here": us(row.us_per_op),
        "there": row.baseline_us_per_op.map(us),
        "difference": row.baseline_us_per_op.map(|_| signed(row.difference_us(), us)),
    })
}

fn call_row(row: &CallRow) -> serde_json::Value {
    json!({
        "name": row.name,
        "here": digits(row.per_op),
        "there": row.baseline_per_op.map(digits),
        "difference": row.baseline_per_op.map(|_| signed(row.difference(), digits)),
    })
}

fn signed(value: f64, text: impl Fn(f64) -> String) -> String {
    let sign = if value < 0.0 { "\u{2212}" } else { "+" };
    format!("{sign}{}", text(value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use sha2::Digest;

    #[test]
    fn the_page_s_policy_allows_its_script_and_no_other() {
        let digest = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(SCRIPT.trim_end()));
        assert_eq!(SCRIPT_DIGEST, format!("sha256-{digest}"), "state the new digest");
    }
}
