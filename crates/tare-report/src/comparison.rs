//! The words of a comparison of two records, for a page and for an issue: the same that [`crate::compare()`] says.

use crate::compare::{between_occasions, in_forms, not_whole, of_intervals, other_slices, unsound, why_withheld};
use crate::condition::DifferenceWords;
use crate::finding;
use crate::words::{machine, same_bits};
use serde::Serialize;
use std::fmt::Write;
use tare_core::record::Record;
use tare_stats::{
    Analysis, Change, Occasions, Verdict, analyse, changes, changes_explained, conditions, differences, ratio_text,
};

/// Two records side by side, in words.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The first one.
    pub before: RunWords,
    /// The second one.
    pub after: RunWords,
    /// What else differs between them: what, before, after.
    pub differences: Vec<[String; 3]>,
    /// What is not sound in either.
    pub warnings: Vec<String>,
    /// Every change, all metrics of a form together.
    pub changes: Vec<ChangeWords>,
    /// What changed in absolute terms, and what goes with it: paragraphs of lines.
    pub explained: Vec<Vec<String>>,
    /// What the intervals hold.
    pub notes: Vec<String>,
}

/// A record in words.
#[derive(Debug, Clone, Serialize)]
pub struct RunWords {
    /// The run's id.
    pub run: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// The version of Tare.
    pub tare: String,
    /// The study's name.
    pub study: String,
    /// The machine.
    pub machine: String,
}

/// One metric of a form.
#[derive(Debug, Clone, Serialize)]
pub struct ChangeWords {
    /// The form.
    pub form: String,
    /// The metric's title.
    pub metric: String,
    /// Its ratio to the baseline in the first run.
    pub before: String,
    /// The same in the second.
    pub after: String,
    /// The second over the first.
    pub change: String,
    /// `YES`, `no`, or why that is not known.
    pub changed: String,
    /// Whether it is certain that it changed.
    pub certain: bool,
}

/// Compares two records; `occasions` is what the machine's history says of how far apart equals lie from run to run.
pub fn comparison(a: &Record, b: &Record, occasions: &Occasions) -> Comparison {
    let (before, after) = (analyse(a), analyse(b));
    let found = differences(&conditions(&a.header), &conditions(&b.header));
    let differences = found.iter().map(|difference| {
        let DifferenceWords { what, before, after } = DifferenceWords::of(difference);
        [what, before, after]
    });
    let changes = in_forms(changes(&before, &after, occasions));
    Comparison {
        before: run_words(a),
        after: run_words(b),
        differences: differences.collect(),
        warnings: warnings((a, &before), (b, &after)),
        explained: changes_explained(a, b).iter().map(finding::changed).collect(),
        notes: vec![of_intervals(changes.iter()), between_occasions(&before, occasions)],
        changes: changes.iter().map(|change| change_words(change, ["before", "after"])).collect(),
    }
}

pub(crate) fn run_words(record: &Record) -> RunWords {
    let header = &record.header;
    RunWords {
        run: header.run.clone(),
        started: header.started.clone(),
        tare: header.tare.clone(),
        study: header.study.name.clone(),
        machine: machine(record),
    }
}

fn warnings((a, before): (&Record, &Analysis), (b, after): (&Record, &Analysis)) -> Vec<String> {
    let mut warnings = Vec::new();
    for (label, analysis) in [("before", before), ("after", after)] {
        let other = analysis.bits.iter().filter(|bits| !bits.same);
        warnings.extend(other.map(|bits| format!("{label}: same bits of {}: {}", bits.service, same_bits(bits))));
    }
    warnings.extend(not_whole(a, b).into_iter().chain(unsound(before, after)).chain(other_slices(a, b)));
    warnings
}

/// The labels are what the two runs are called.
pub(crate) fn change_words(change: &Change, labels: [&str; 2]) -> ChangeWords {
    let emulated = [&change.before, &change.after].iter().any(|ratio| ratio.verdict == Verdict::Emulated);
    let is_bound = change.before.bound.or(change.after.bound).is_some();
    let certain = change.together.is_some_and(|interval| !interval.contains(1.0));
    let changed = match change.together {
        Some(_) if certain => "YES".to_owned(),
        Some(_) => "no".to_owned(),
        None if emulated => "EMULATED".to_owned(),
        None => why_withheld(change, labels)
            .unwrap_or_else(|| if is_bound { "of a bound".to_owned() } else { "no interval".to_owned() }),
    };
    ChangeWords {
        form: change.form.clone(),
        metric: change.title.clone(),
        before: change.before.text(),
        after: change.after.text(),
        change: ratio_text(change.change, change.together),
        changed,
        certain,
    }
}

impl Comparison {
    /// A small table for an issue, in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (label, run) in [("before", &self.before), ("after", &self.after)] {
            let RunWords { run, started, tare, study, machine } = run;
            let [run, started, tare, study, machine] = [run, started, tare, study, machine].map(|text| cell(text));
            let _ = writeln!(text, "- **{label}**: run {run}, {started}, tare {tare}, study {study}, {machine}");
        }
        text.push('\n');
        for [what, before, after] in &self.differences {
            let _ = writeln!(text, "- {} differs: {} | {}", cell(what), cell(before), cell(after));
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "- WARNING: {}", cell(warning));
        }
        if !self.differences.is_empty() || !self.warnings.is_empty() {
            text.push('\n');
        }
        text.push_str("| form | metric | before | after | after / before | changed? |\n|---|---|---|---|---|---|\n");
        for ChangeWords { form, metric, before, after, change, changed, .. } in &self.changes {
            let cells = [form, metric, before, after, change, changed].map(|text| cell(text));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for note in &self.notes {
            let _ = write!(text, "\n{}\n", cell(note));
        }
        text
    }
}

/// Text that stays in its cell and is no markup, wherever it comes from.
pub(crate) fn cell(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '#' => plain.extend(['\\', c]),
            '<' => plain.push_str("&lt;"),
            '&' => plain.push_str("&amp;"),
            '@' => plain.push_str("&#64;"),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_record_neither_leaves_its_cell_nor_becomes_markup() {
        assert_eq!(cell("a|b\n<img src=x> @all"), "a\\|b &lt;img src=x> &#64;all");
    }
}
