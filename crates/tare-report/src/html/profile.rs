//! What profiled trials say on the page: flame graphs and tables of each form.

use super::{plain, safe};
use crate::profile::{emulated, missing_text};
use crate::quantity::{digits, quantity};
use crate::svg::{Paint, flame as draw};
use minijinja::{Value, context};
use serde_json::json;
use tare_core::record::{Record, TrialData};
use tare_stats::{Analysis, CallRow, FormProfile, TimeRow, flame};

/// Rows of a table on the page.
const SHOWN: usize = 10;

/// The one script of a page, and only of one that has flame graphs; pages allow it by its digest.
pub(super) const SCRIPT: &str = include_str!("../../assets/flame.js");
/// Its digest, as a page's policy states it.
pub(crate) const SCRIPT_DIGEST: &str = "sha256-4ZAF4HhlZpTTR7DYBZzxtCacWcnn7UfRGbs61eFzbIE=";

/// What the page shows of each form.
pub(super) fn panels(record: &Record, analysis: &Analysis) -> Vec<Value> {
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
        profile.missing.iter().map(|(what, why)| format!("No {what}: {}.", missing_text(why))).collect();
    let several = |_: &&TimeRow| profile.scopes.len() > 1;
    Some(context! {
        form => profile.form.clone(),
        emulated => emulated(analysis, &profile.form),
        against => against,
        facts => facts(profile),
        why => profile.why.as_ref().map(missing_text),
        missing => missing,
        flame => own,
        difference => other,
        functions => plain(profile.functions.iter().take(SHOWN).map(time_row).collect::<Vec<_>>()),
        // One scope is the whole, which the facts tell.
        scopes => plain(profile.scopes.iter().filter(several).map(time_row).collect::<Vec<_>>()),
        calls => plain(profile.calls.iter().take(SHOWN).map(call_row).collect::<Vec<_>>()),
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
