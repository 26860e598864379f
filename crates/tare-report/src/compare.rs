//! Two records side by side.

use crate::words::{machine, same_bits};
use std::collections::BTreeSet;
use std::fmt::Write;
use tare_core::record::Record;
use tare_stats::{Change, Verdict, analyse, changes, ratio_text};

/// Facts that always differ and mean nothing.
const FLEETING: &[&str] = &["uptime_s", "load_average"];

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
    for warning in differences(a, b) {
        say(&format!("WARNING {warning}"));
    }
    for (label, analysis) in [("before", &before), ("after", &after)] {
        for bits in analysis.bits.iter().filter(|bits| !bits.same) {
            say(&format!("WARNING {label}: same bits of {}: {}", bits.service, same_bits(bits)));
        }
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
            None if change.before.verdict == Verdict::Emulated => "EMULATED",
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

/// What else differs between the two runs, and so may explain a change.
fn differences(a: &Record, b: &Record) -> Vec<String> {
    let (a, b) = (&a.header, &b.header);
    let mut found = Vec::new();
    let mut note = |what: &str, before: &str, after: &str| {
        if before != after {
            found.push(format!("{what} differs: {before} | {after}"));
        }
    };
    note("the workload", &a.workload.name, &b.workload.name);
    note("the baseline", &a.study.baseline, &b.study.baseline);
    note("the load", &format!("{:?}", a.study.load), &format!("{:?}", b.study.load));
    note("the load's origin", &format!("{:?}", a.study.from), &format!("{:?}", b.study.from));
    note("the version of Tare", &a.tare, &b.tare);
    for (what, before, after) in [
        ("bundle", &a.bundles, &b.bundles),
        ("environment", &a.environment, &b.environment),
        ("placement", &a.placement, &b.placement),
    ] {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys.into_iter().filter(|key| !FLEETING.contains(&key.as_str())) {
            let value =
                |of: &std::collections::BTreeMap<String, String>| of.get(key).cloned().unwrap_or("absent".into());
            note(&format!("{what} {key}"), &value(before), &value(after));
        }
    }
    for form in a.study.forms.iter() {
        let other = b.study.forms.iter().find(|other| other.name == form.name);
        if other.is_some_and(|other| other != form) {
            found.push(format!("form {} has other layers or options", form.name));
        }
    }
    found
}
