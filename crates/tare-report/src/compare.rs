//! Two records side by side.

use crate::gate::identity;
use crate::json::finite;
use crate::words::{machine, same_bits};
use serde_json::json;
use std::fmt::Write;
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_stats::{
    Analysis, Change, Difference, Verdict, analyse, changes, conditions, differences, missing, percent_text, ratio_text,
};

/// The version of the comparison's JSON. Fields may be added within a version.
const COMPARE_SCHEMA: u32 = 1;

/// The same as [`compare`], for programs: both records, what else differs between them, what is not sound, and every
/// change.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn compare_json(a: &Record, b: &Record) -> Result<String, Fault> {
    let writing = |error: serde_json::Error| Fault::from_error("write JSON", &error);
    let (before, after) = (analyse(a), analyse(b));
    let value = json!({
        "compare_schema": COMPARE_SCHEMA,
        "before": identity(a),
        "after": identity(b),
        "differences": differences(&conditions(&a.header), &conditions(&b.header)),
        "warnings": not_whole(a, b).into_iter().chain(unsound(&before, &after)).collect::<Vec<_>>(),
        "changes": finite(serde_json::to_value(changes(&before, &after)).map_err(writing)?),
    });
    Ok(serde_json::to_string_pretty(&value).map_err(writing)? + "\n")
}

/// Sets two records side by side, form by form and metric by metric: each run's ratio to its own baseline, and the
/// second ratio over the first. The baselines' absolute values are not compared: they say as much of the day as of
/// the software.
pub fn compare(a: &Record, b: &Record) -> String {
    let (before, after) = (analyse(a), analyse(b));
    let mut text = String::new();
    let mut say = |line: &str| writeln!(text, "{line}").expect("writing to a string cannot fail");
    for (label, record) in [("before", a), ("after", b)] {
        let header = &record.header;
        say(&format!(
            "{label:7} run {}, {}, tare {}, study {}",
            header.run, header.started, header.tare, header.study.name
        ));
        say(&format!("        {}", machine(record)));
    }
    for difference in differences(&conditions(&a.header), &conditions(&b.header)) {
        let Difference { what, before, after } = difference;
        say(&format!("WARNING {what} differs: {before} | {after}"));
    }
    for (label, analysis) in [("before", &before), ("after", &after)] {
        for bits in analysis.bits.iter().filter(|bits| !bits.same) {
            say(&format!("WARNING {label}: same bits of {}: {}", bits.service, same_bits(bits)));
        }
    }
    for warning in not_whole(a, b).into_iter().chain(unsound(&before, &after)) {
        say(&format!("WARNING {warning}"));
    }
    say("");
    say(&format!("{:16} {:20} {:20} {:20} changed?", "form, metric", "before", "after", "after / before"));
    let mut form = String::new();
    let changes = in_forms(changes(&before, &after));
    for change in &changes {
        if change.form != form {
            form.clone_from(&change.form);
            say(&form);
        }
        let figure = |ratio: &tare_stats::Ratio| ratio_text(ratio.ratio, ratio.interval);
        let changed = match change.interval {
            None if [&change.before, &change.after].iter().any(|r| r.verdict == Verdict::Emulated) => "EMULATED",
            None => "no interval",
            Some(interval) if interval.contains(1.0) => "no",
            Some(_) => "YES",
        };
        let (before, after) = (figure(&change.before), figure(&change.after));
        let ratio = ratio_text(change.change, change.interval);
        say(&format!("  {:14} {before:20} {after:20} {ratio:20} {changed}", change.title));
    }
    if changes.is_empty() {
        say("  no form was measured beside its baseline in both runs");
    }
    say("");
    say("Ratios are to each run's own baseline. Intervals of the change are 95 % for each pair alone: of twenty");
    say("pairs that did not change, expect one YES.");
    text
}

/// What is not in either of the two records, and was to be.
fn not_whole(before: &Record, after: &Record) -> Vec<String> {
    let of = |label: &'static str, record| missing(record).into_iter().map(move |what| format!("{label}: {what}"));
    of("before", before).chain(of("after", after)).collect()
}

/// In which of the two records equals were treated differently: a change that is no larger than that is none.
fn unsound(before: &Analysis, after: &Analysis) -> Vec<String> {
    let mut warnings = Vec::new();
    for (label, analysis) in [("before", before), ("after", after)] {
        for metric in analysis.metrics.iter().filter(|metric| metric.control_differs) {
            let (title, floor) = (&metric.title, percent_text(metric.noise_floor.unwrap_or_default()));
            warnings.push(format!(
                "{label}: the A/A control differs from its equal in {title}: that machine was not sound, so a change of \
                 {title} below {floor} may be its doing"
            ));
        }
    }
    warnings
}

/// All metrics of a form together.
fn in_forms(changes: Vec<Change>) -> Vec<Change> {
    let mut forms: Vec<String> = Vec::new();
    for change in &changes {
        if !forms.contains(&change.form) {
            forms.push(change.form.clone());
        }
    }
    let mut changes = changes;
    changes.sort_by_key(|change| forms.iter().position(|form| *form == change.form));
    changes
}
