//! Several records side by side, the first of which all others are compared with, in words: what differs between their
//! circumstances, each run's ratios, and by how much these changed.

use crate::compare::{COMPARE_SCHEMA, between_occasions, of_intervals, slices_apart, unsound_in, usual_slices};
use crate::comparison::{ChangeWords, RunWords, cell, change_words, run_words};
use crate::condition::differing_words;
use crate::finding;
use crate::json::finite;
use crate::lines::paragraph;
use crate::warnings::missing;
use crate::words::same_bits;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write;
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_stats::{
    Analysis, Change, Condition, Conditions, Occasions, Ratio, analyse, changes_explained, changes_from, conditions,
    differing,
};

/// What stands where a run has no figure.
const NO_FIGURE: &str = "–";

/// What a comparison with others needs of a record. Records are large: of several, one at a time need be in memory.
#[derive(Debug, Clone)]
pub struct Weighed {
    words: RunWords,
    conditions: Conditions,
    analysis: Analysis,
    /// What is not in the record and was to be.
    missing: Vec<String>,
    /// By form, how long its slices usually were, nanoseconds.
    slices: Vec<(String, u64)>,
}

impl Weighed {
    /// Of this record.
    pub fn of(record: &Record) -> Weighed {
        Weighed::with(record, analyse(record))
    }

    /// Of a record whose analysis is there already.
    pub(crate) fn with(record: &Record, analysis: Analysis) -> Weighed {
        Weighed {
            words: run_words(record),
            conditions: conditions(&record.header),
            analysis,
            missing: missing(record),
            slices: usual_slices(record),
        }
    }

    fn ratio(&self, form: &str, metric: &str) -> Option<&Ratio> {
        let metric = self.analysis.metrics.iter().find(|known| known.name == metric && known.compared)?;
        metric.ratios.iter().find(|ratio| ratio.arm == form)
    }
}

/// Several records side by side, in words.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Several {
    /// What the runs are called: two are `before` and `after`, more are `run 1` and so on.
    pub labels: Vec<String>,
    /// The runs, in their order: the first is the reference.
    pub runs: Vec<RunWords>,
    /// What is not the same in all of them, the machine's first.
    pub differences: Vec<DifferingWords>,
    /// What is not sound in any of them.
    pub warnings: Vec<String>,
    /// Every metric of every form, all metrics of a form together.
    pub rows: Vec<SeveralRow>,
    /// Of two runs: what changed in absolute terms, and what goes with it; paragraphs of lines.
    pub explained: Vec<Vec<String>>,
    /// What the intervals hold.
    pub notes: Vec<String>,
}

/// Something that differs between runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferingWords {
    /// What.
    pub what: String,
    /// What it is in each run.
    pub values: Vec<String>,
}

/// One metric of a form in several runs.
#[derive(Debug, Clone, Serialize)]
pub struct SeveralRow {
    /// The form.
    pub form: String,
    /// The metric's title.
    pub metric: String,
    /// Its ratio to the baseline in each run, or a dash.
    pub ratios: Vec<String>,
    /// Of each run after the first: its ratio over the first one's; none where either run has no ratio.
    pub changes: Vec<Option<ChangeWords>>,
}

/// Compares runs with the first of them. `occasions` has an entry for each of the others, in their order: what the
/// machine's history says of how far apart equals lie between the first run and that one.
pub fn several(runs: &[Weighed], occasions: &[Occasions]) -> Several {
    let Some((reference, others)) = runs.split_first() else { return Several::default() };
    let labels = labels(runs.len());
    let changes = changes_of(reference, others, occasions);
    let rows = metrics_of_forms(runs).into_iter().map(|[form, metric, title]| {
        let ratio = |run: &Weighed| run.ratio(&form, &metric).map_or_else(|| NO_FIGURE.to_owned(), Ratio::text);
        let of_run = |(at, changes): (usize, &Vec<Change>)| {
            let change = changes.iter().find(|change| change.form == form && change.metric == metric)?;
            Some(change_words(change, [&labels[0], &labels[at + 1]]))
        };
        let ratios = runs.iter().map(ratio).collect();
        let changes = changes.iter().enumerate().map(of_run).collect();
        SeveralRow { form, metric: title, ratios, changes }
    });
    let rows = rows.collect();
    let intervals = of_intervals(changes.iter().flatten());
    let within = "The intervals of ratios are each run's own: those of one run hold together in 95 % of runs.";
    let occasions = known_of_occasions(reference, occasions, &labels);
    Several {
        runs: runs.iter().map(|run| run.words.clone()).collect(),
        differences: differences(runs),
        warnings: warnings(runs, &labels),
        rows,
        explained: Vec::new(),
        notes: [intervals, within.to_owned()].into_iter().chain(occasions).collect(),
        labels,
    }
}

/// Two records side by side, with what goes with a change. `occasions` is what the machine's history says of how far
/// apart equals lie from run to run.
pub fn comparison(before: &Record, after: &Record, occasions: &Occasions) -> Several {
    let explained = changes_explained(before, after).iter().map(finding::changed).collect();
    let runs = [Weighed::of(before), Weighed::of(after)];
    Several { explained, ..several(&runs, std::slice::from_ref(occasions)) }
}

/// The same as [`several`], for programs: in words, and beside them every change of each run after the first as data.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn several_json(runs: &[Weighed], occasions: &[Occasions]) -> Result<String, Fault> {
    let writing = |error: serde_json::Error| Fault::from_error("write JSON", &error);
    let Several { runs: words, differences, warnings, rows, notes, .. } = several(runs, occasions);
    let changes = runs.split_first().map(|(reference, others)| changes_of(reference, others, occasions));
    let value = json!({
        "compare_schema": COMPARE_SCHEMA,
        "runs": words,
        "differences": differences,
        "warnings": warnings,
        "rows": rows,
        "rows_data": finite(serde_json::to_value(changes.unwrap_or_default()).map_err(writing)?),
        "occasions": finite(serde_json::to_value(occasions).map_err(writing)?),
        "notes": notes,
    });
    Ok(serde_json::to_string_pretty(&value).map_err(writing)? + "\n")
}

/// The changes of each run after the first, all of whose intervals hold together.
fn changes_of(reference: &Weighed, others: &[Weighed], occasions: &[Occasions]) -> Vec<Vec<Change>> {
    let pairs: Vec<(&Analysis, &Occasions)> = others.iter().map(|run| &run.analysis).zip(occasions).collect();
    changes_from(&reference.analysis, &pairs)
}

/// What so many runs are called.
fn labels(count: usize) -> Vec<String> {
    match count {
        2 => ["before", "after"].map(str::to_owned).into(),
        count => (1..=count).map(|number| format!("run {number}")).collect(),
    }
}

/// Every form and compared metric of which any run has a ratio: form, metric, title. The forms come in the order in
/// which runs first have them, and so do the metrics of each.
fn metrics_of_forms(runs: &[Weighed]) -> Vec<[String; 3]> {
    let (mut forms, mut metrics): (Vec<&str>, Vec<(&str, &str)>) = (Vec::new(), Vec::new());
    let compared = runs.iter().flat_map(|run| &run.analysis.metrics).filter(|metric| metric.compared);
    for metric in compared {
        if !metrics.iter().any(|(name, _)| *name == metric.name) {
            metrics.push((metric.name.as_str(), metric.title.as_str()));
        }
        for ratio in &metric.ratios {
            if !forms.contains(&ratio.arm.as_str()) {
                forms.push(ratio.arm.as_str());
            }
        }
    }
    let all = forms.iter().flat_map(|form| metrics.iter().map(move |(metric, title)| [*form, *metric, *title]));
    let is_there = |[form, metric, _]: &[&str; 3]| runs.iter().any(|run| run.ratio(form, metric).is_some());
    all.filter(is_there).map(|row| row.map(str::to_owned)).collect()
}

fn differences(runs: &[Weighed]) -> Vec<DifferingWords> {
    let all: Vec<Conditions> = runs.iter().map(|run| run.conditions.clone()).collect();
    let mut found = differing(&all);
    found.sort_by_key(|row| !matches!(row.condition, Condition::Environment(_)));
    let words = found.iter().map(differing_words);
    words.map(|(what, values)| DifferingWords { what, values }).collect()
}

fn warnings(runs: &[Weighed], labels: &[String]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (run, label) in runs.iter().zip(labels) {
        let other = run.analysis.bits.iter().filter(|bits| !bits.same);
        warnings.extend(other.map(|bits| format!("{label}: same bits of {}: {}", bits.service, same_bits(bits))));
        warnings.extend(run.missing.iter().map(|what| format!("{label}: {what}")));
        warnings.extend(unsound_in(label, &run.analysis));
        if let Some((form, first, this)) = slices_apart(&runs[0].slices, &run.slices) {
            warnings.push(format!(
                "slices of {form} lasted {first} ({}) and {this} ({label}): what a form loses right after the load moves \
                 to it weighs more in shorter slices",
                labels[0]
            ));
        }
    }
    warnings
}

/// Whether the intervals cover variation from run to run: once where the same is known of all others.
fn known_of_occasions(reference: &Weighed, occasions: &[Occasions], labels: &[String]) -> Vec<String> {
    let texts: Vec<String> = occasions.iter().map(|known| between_occasions(&reference.analysis, known)).collect();
    match texts.split_first() {
        Some((first, rest)) if rest.iter().all(|text| text == first) => vec![first.clone()],
        _ => texts.iter().zip(&labels[1..]).map(|(text, label)| format!("Of {label}: {text}")).collect(),
    }
}

impl Several {
    /// A small table for an issue, in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Of many runs, columns are narrow.
        let names: Vec<&str> = self.labels.iter().map(|label| label.strip_prefix("run ").unwrap_or(label)).collect();
        for (name, run) in names.iter().zip(&self.runs) {
            let RunWords { run, started, tare, study, machine } = run;
            let [run, started, tare, study, machine] = [run, started, tare, study, machine].map(|text| cell(text));
            let _ = writeln!(text, "- **{name}**: run {run}, {started}, tare {tare}, study {study}, {machine}");
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "- WARNING: {}", cell(warning));
        }
        let owned = |name: &&str| (*name).to_owned();
        if !self.differences.is_empty() {
            head(&mut text, ["differs".to_owned()].into_iter().chain(names.iter().map(owned)));
            for DifferingWords { what, values } in &self.differences {
                line(&mut text, [what].into_iter().chain(values).map(|text| cell(text)));
            }
        }
        let of_run = |(at, name): (usize, &&str)| match at {
            0 => vec![owned(name)],
            _ => vec![owned(name), format!("{name} / {}", names[0])],
        };
        let titles = ["form", "metric"].map(str::to_owned);
        head(&mut text, titles.into_iter().chain(names.iter().enumerate().flat_map(of_run)));
        for SeveralRow { form, metric, ratios, changes } in &self.rows {
            let mut cells = vec![cell(form), cell(metric)];
            cells.extend(ratios.first().map(|ratio| cell(ratio)));
            for (ratio, change) in ratios.iter().skip(1).zip(changes) {
                let change = change.as_ref().map(|of| format!("{} {}", cell(&of.change), cell(&of.changed)));
                cells.extend([cell(ratio), change.unwrap_or_else(|| NO_FIGURE.to_owned())]);
            }
            line(&mut text, cells);
        }
        for note in &self.notes {
            let _ = write!(text, "\n{}\n", cell(note));
        }
        text
    }

    /// For a terminal, in lines of at most `width` columns: a line for each run in each metric of a form.
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
        for (label, run) in self.labels.iter().zip(&self.runs) {
            let RunWords { run, started, tare, study, machine } = run;
            say(&format!("{label:8}"), 8, &format!("run {run}, {started}, tare {tare}, study {study}"));
            say("        ", 8, machine);
        }
        for DifferingWords { what, values } in &self.differences {
            say("WARNING ", 8, &format!("{what} differs: {}", values.join(" | ")));
        }
        for warning in &self.warnings {
            say("WARNING ", 8, warning);
        }
        say("", 0, "");
        let reference = self.labels.first().map_or("", String::as_str);
        say(&format!("{:12} {:5} {:20} over {reference}, changed?", "form, metric", "run", "ratio"), 0, "");
        let mut form = "";
        for row in &self.rows {
            if row.form != form {
                form = &row.form;
                say("", 2, form);
            }
            for (at, ratio) in row.ratios.iter().enumerate() {
                let metric = if at == 0 { row.metric.as_str() } else { "" };
                let change = at.checked_sub(1).and_then(|at| row.changes.get(at)?.as_ref());
                let (change, changed) = change.map_or(("", ""), |of| (of.change.as_str(), of.changed.as_str()));
                let (number, ratio) = (at + 1, ratio.replace(NO_FIGURE, "-"));
                say(&format!("  {metric:10} {number:<5} {ratio:20} {change:20} "), 4, changed);
            }
        }
        if self.rows.is_empty() {
            say("  ", 2, "no form was measured together with its baseline in any of these runs");
        }
        for (number, note) in self.notes.iter().enumerate() {
            if number == 0 {
                say("", 0, "");
            }
            say("", 0, note);
        }
        text
    }
}

/// The first two lines of a table with these columns, after an empty one.
fn head(text: &mut String, titles: impl IntoIterator<Item = String>) {
    text.push('\n');
    let columns = line(text, titles);
    let _ = writeln!(text, "|{}", "---|".repeat(columns));
}

/// A line of a table; returns how many cells it has.
fn line(text: &mut String, cells: impl IntoIterator<Item = String>) -> usize {
    let cells: Vec<String> = cells.into_iter().collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
    cells.len()
}
