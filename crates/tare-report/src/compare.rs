//! Two records side by side.

use crate::condition::{DifferenceWords, differences_json};
use crate::finding;
use crate::gate::identity;
use crate::json::finite;
use crate::lines::paragraph;
use crate::verdict::{VerdictWords, withheld};
use crate::warnings::missing;
use crate::words::{machine, same_bits};
use serde_json::{Value, json};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_core::trial::Outcome;
use tare_core::units::show_duration;
use tare_stats::{
    Analysis, Change, MetricAnalysis, Occasions, Verdict, Withheld, analyse, changes, changes_explained, conditions,
    differences, percent_at_most, percent_text, ratio_text,
};

/// By which factor the slices of two runs may differ: each run of a study finds its own, by response times that vary.
const SLICES_ALIKE: f64 = 1.5;
/// The version of the comparison's JSON. Fields may be added within a version.
pub(crate) const COMPARE_SCHEMA: u32 = 1;

/// The same as [`compare`], for programs: both records, what else differs between them, what is not sound, every
/// change, and what is known of occasions.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn compare_json(a: &Record, b: &Record, occasions: &Occasions) -> Result<String, Fault> {
    let writing = |error: serde_json::Error| Fault::from_error("write JSON", &error);
    let (before, after) = (analyse(a), analyse(b));
    let value = json!({
        "compare_schema": COMPARE_SCHEMA,
        "before": identity(a),
        "after": identity(b),
        "differences": differences_json(&differences(&conditions(&a.header), &conditions(&b.header))),
        "warnings": not_whole(a, b).into_iter().chain(unsound(&before, &after)).chain(other_slices(a, b)).collect::<Vec<_>>(),
        "explanations": finite(serde_json::to_value(changes_explained(a, b)).map_err(writing)?),
        "changes": finite(changes_json(&before, &after, occasions).map_err(writing)?),
        "occasions": finite(serde_json::to_value(occasions).map_err(writing)?),
    });
    Ok(serde_json::to_string_pretty(&value).map_err(writing)? + "\n")
}

/// Every change, each of its ratios with its verdict in words.
fn changes_json(before: &Analysis, after: &Analysis, occasions: &Occasions) -> serde_json::Result<Value> {
    let all = changes(before, after, occasions);
    let mut value = serde_json::to_value(&all)?;
    for (at, change) in all.iter().enumerate() {
        for (side, analysis, ratio) in [("before", before, &change.before), ("after", after, &change.after)] {
            let metric = analysis.metrics.iter().find(|metric| metric.name == change.metric);
            if let Some(metric) = metric {
                value[at][side]["words"] = VerdictWords::of(analysis, metric, ratio).whole().into();
            }
        }
    }
    Ok(value)
}

/// Sets two records side by side, form by form and metric by metric: each run's ratio to its own baseline, and the
/// second ratio over the first, in lines of at most `width` columns. `occasions` is what the machine's history says of
/// how far apart equals lie from run to run. The baselines' absolute values are not compared:
/// they say as much of the day as of the software.
pub fn compare(a: &Record, b: &Record, occasions: &Occasions, width: usize) -> String {
    let (before, after) = (analyse(a), analyse(b));
    let mut text = String::new();
    let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
    for (label, record) in [("before  ", a), ("after   ", b)] {
        let header = &record.header;
        let run = format!("run {}, {}, tare {}, study {}", header.run, header.started, header.tare, header.study.name);
        say(label, 8, &run);
        say("        ", 8, &machine(record));
    }
    let mut warn = |warning: &str| say("WARNING ", 8, warning);
    for difference in differences(&conditions(&a.header), &conditions(&b.header)) {
        let difference = DifferenceWords::of(&difference);
        warn(&format!("{} differs: {}", difference.what, difference.values()));
    }
    for (label, analysis) in [("before", &before), ("after", &after)] {
        for bits in analysis.bits.iter().filter(|bits| !bits.same) {
            warn(&format!("{label}: same bits of {}: {}", bits.service, same_bits(bits)));
        }
    }
    for warning in not_whole(a, b).into_iter().chain(unsound(&before, &after)).chain(other_slices(a, b)) {
        warn(&warning);
    }
    say("", 0, "");
    let head = format!("{:12} {:20} {:20} after / before, changed?", "form, metric", "before", "after");
    say(&head, 0, "");
    let mut form = String::new();
    let changes = in_forms(changes(&before, &after, occasions));
    for change in &changes {
        if change.form != form {
            form.clone_from(&change.form);
            say("", 2, &form);
        }
        let (figures, why) = row(change);
        say(&figures, 4, &why);
    }
    if changes.is_empty() {
        say("  ", 2, "no form was measured together with its baseline in both runs");
    }
    for (number, explanation) in changes_explained(a, b).iter().enumerate() {
        if number == 0 {
            say("", 0, "");
            say(
                "",
                2,
                "what changed in absolute terms between the runs, which were not interleaved, and what goes with it:",
            );
        }
        for (number, line) in finding::changed(explanation).iter().enumerate() {
            let margin = if number == 0 { 2 } else { 4 };
            say(&" ".repeat(margin), margin + 2, line);
        }
    }
    say("", 0, "");
    say("", 0, &of_intervals(changes.iter()));
    say("", 0, &between_occasions(&before, occasions));
    text
}

/// What the ratios are relative to, and what the intervals of changes hold.
pub(crate) fn of_intervals<'a>(changes: impl Iterator<Item = &'a Change> + Clone) -> String {
    let judged = changes.filter(|change| change.together.is_some());
    let is_known = judged.clone().all(|change| change.occasions.is_some());
    let note = match judged.count() {
        0 => String::new(),
        judged if !is_known => format!(
            " All {judged} intervals of a change hold together in 95 % of comparisons, but cover only the variation \
             between blocks: variation from run to run adds YES where nothing changed."
        ),
        1 => " The interval of the change is one of 95 %.".to_owned(),
        judged => format!(
            " All {judged} intervals of a change hold together in 95 % of comparisons: of twenty in which nothing \
             changed, expect one with a YES."
        ),
    };
    format!("Ratios are to each run's own baseline.{note}")
}

/// Whether intervals of a change cover the variation from run to run.
pub(crate) fn between_occasions(analysis: &Analysis, occasions: &Occasions) -> String {
    let of_metric = |metric: &MetricAnalysis| {
        let occasion = occasions.get(&metric.name)?;
        let [deviation, at_most] =
            [occasion.deviation, occasion.deviation_at_most].map(|log| percent_text(log.exp_m1()));
        Some(format!("{} {deviation}, at most {at_most} ({} runs)", metric.title, occasion.runs))
    };
    let known: Vec<String> = analysis.metrics.iter().filter_map(of_metric).collect();
    let compared = analysis.metrics.iter().filter(|metric| metric.compared);
    let unknown = compared.filter(|metric| !occasions.contains_key(&metric.name));
    let unknown: Vec<&str> = unknown.map(|metric| metric.title.as_str()).collect();
    if known.is_empty() {
        return "The intervals do not cover variation from run to run: it is learned from the A/A controls of at least \
                three runs with this load, design and baseline in this machine's history, and there are fewer."
            .to_owned();
    }
    format!(
        "Intervals cover variation from run to run, as learned from the A/A controls in this machine's history (standard \
         deviation): {}.{}",
        known.join(", "),
        if unknown.is_empty() {
            String::new()
        } else {
            format!(" Not those of {}: the history has too few runs with them.", unknown.join(", "))
        }
    )
}

/// What is not in either of the two records, and was to be.
fn not_whole(before: &Record, after: &Record) -> Vec<String> {
    let of = |label: &'static str, record| missing(record).into_iter().map(move |what| format!("{label}: {what}"));
    of("before", before).chain(of("after", after)).collect()
}

/// One metric of a form: its figures, and what is said of the change where there is no interval, for the two do not
/// always fit into one line.
fn row(change: &Change) -> (String, String) {
    let emulated = || [&change.before, &change.after].iter().any(|ratio| ratio.verdict == Verdict::Emulated);
    let ratio = ratio_text(change.change, change.together);
    let (before, after) = (change.before.text(), change.after.text());
    let figures = format!("  {:10} {before:20} {after:20} ", change.title);
    match change.together {
        None if emulated() => (figures, format!("{ratio} EMULATED")),
        None => match why_withheld(change, ["before", "after"]) {
            Some(why) => (figures + &ratio + " ", why),
            None if change.before.bound.or(change.after.bound).is_some() => (figures, format!("{ratio} of a bound")),
            None => (figures, format!("{ratio} no interval")),
        },
        Some(interval) => {
            let changed = if interval.contains(1.0) { "no" } else { "YES" };
            (format!("{figures}{ratio:20} {changed}"), String::new())
        }
    }
}

/// Why nothing is said of a change: `withheld: the A/A control differs (after)`. The labels are what the two runs are
/// called.
pub(crate) fn why_withheld(change: &Change, [first, second]: [&str; 2]) -> Option<String> {
    let of = |label: &str, why: Withheld| format!("{} ({label})", withheld(why));
    let why = match (change.before.withheld, change.after.withheld) {
        (None, None) => return None,
        (Some(before), None) => of(first, before),
        (None, Some(after)) => of(second, after),
        (Some(before), Some(after)) if before == after => of(&format!("{first} and {second}"), before),
        (Some(before), Some(after)) => format!("{}; {}", of(first, before), of(second, after)),
    };
    Some(format!("withheld: {why}"))
}

/// In which of the two records identical forms differed: what changed there may be the machine's doing.
fn unsound(before: &Analysis, after: &Analysis) -> Vec<String> {
    let [before, after] = [("before", before), ("after", after)].map(|(label, analysis)| unsound_in(label, analysis));
    [before, after].concat()
}

/// In which metrics identical forms differed in a record.
pub(crate) fn unsound_in(label: &str, analysis: &Analysis) -> Vec<String> {
    let differs = analysis.metrics.iter().filter(|metric| metric.control_differs);
    let warning = |metric: &MetricAnalysis| {
        let (title, floor) = (&metric.title, percent_at_most(metric.noise_floor.unwrap_or_default()));
        format!(
            "{label}: the A/A control differs from the baseline in {title}: identical forms lay up to {floor} apart on \
             that machine, so changes of {title} are withheld"
        )
    };
    differs.map(warning).collect()
}

/// That the slices of chopped loads, which a run may choose by itself, were of other lengths: of the form of which they
/// differ most.
fn other_slices(before: &Record, after: &Record) -> Option<String> {
    let [before, after] = [before, after].map(usual_slices);
    let (form, before, after) = slices_apart(&before, &after)?;
    Some(format!(
        "slices of {form} lasted {before} before and {after} after: what a form loses right after the load moves to it \
         weighs more in shorter slices"
    ))
}

/// By form, in the order of the study, how long its slices usually were, nanoseconds; only those that had slices.
pub(crate) fn usual_slices(record: &Record) -> Vec<(String, u64)> {
    let usual_ns = |form: &str| {
        let of_form = record.trials.iter().map(|trial| &trial.record).filter(|trial| trial.trial.form == form);
        let turns = of_form.filter(|trial| trial.outcome == Outcome::Measured);
        let mut lengths: Vec<u64> = turns.filter_map(|trial| Some(trial.load.as_ref()?.turns?.slice_ns)).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied().filter(|length| *length > 0)
    };
    let forms = record.header.study.forms.iter();
    forms.filter_map(|form| Some((form.name.clone(), usual_ns(&form.name)?))).collect()
}

/// The form whose slices differ most between two runs, and how long they were in each; none where all are alike.
pub(crate) fn slices_apart(before: &[(String, u64)], after: &[(String, u64)]) -> Option<(String, String, String)> {
    let factor = |(_, before, after): &(&str, u64, u64)| *before.max(after) as f64 / *before.min(after) as f64;
    let both = before.iter().filter_map(|(form, length)| {
        let (_, other) = after.iter().find(|(name, _)| name == form)?;
        Some((form.as_str(), *length, *other))
    });
    let most = both.filter(|lengths| factor(lengths) > SLICES_ALIKE).min_by(|a, b| factor(b).total_cmp(&factor(a)))?;
    let shown = |ns: u64| show_duration(Duration::from_nanos(ns));
    Some((most.0.to_owned(), shown(most.1), shown(most.2)))
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
