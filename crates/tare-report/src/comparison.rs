//! The words of a comparison, for a page and for an issue: a run's, a change's, and text that is safe in a table.

use crate::compare::why_withheld;
use crate::words::machine;
use serde::Serialize;
use tare_core::record::Record;
use tare_stats::{Change, Verdict, ratio_text};

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

/// The words of a record.
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
