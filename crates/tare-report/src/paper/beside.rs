//! Several runs of one study beside each other: what differs between them, and the ratios of each.

use super::document::{Piece, Table};
use super::study::ratio_words;
use crate::several::{Weighed, several};

/// So many runs stand beside each other; more do not fit on a page.
const RUNS: std::ops::RangeInclusive<usize> = 2..=8;

/// Of runs in their order, each with what the paper calls it; nothing where there are too few or too many.
pub(super) fn pieces(study: &str, runs: &[(String, Weighed)]) -> Vec<Piece> {
    if !RUNS.contains(&runs.len()) {
        return Vec::new();
    }
    let weighed: Vec<Weighed> = runs.iter().map(|(_, run)| run.clone()).collect();
    // How far equals lie apart from run to run is in the machine's history, not in a record: no change is claimed.
    let all = several(&weighed, &[]);
    let titles = |first: &[&str]| {
        let first = first.iter().map(|title| (*title).to_owned());
        first.chain(runs.iter().map(|(label, _)| label.clone())).collect::<Vec<String>>()
    };
    let text = "The intervals of ratios are each run's own. Whether a ratio changed from one run to another, tare compare tells, \
                with what the machine's history knows of runs.";
    let rows = all.rows.iter().map(|row| {
        let ratios = row.ratios.iter().map(|ratio| ratio_words(ratio));
        [row.form.clone(), row.metric.clone()].into_iter().chain(ratios).collect()
    });
    let ratios = Table {
        number: 0,
        caption: format!("{study}: ratios in each run, to the baseline of the same run"),
        head: titles(&["Form", "Metric"]),
        rows: rows.collect(),
    };
    let mut pieces = vec![Piece::Heading(format!("The runs of {study} beside each other"))];
    if !all.differences.is_empty() {
        let rows = all.differences.iter();
        let rows = rows.map(|row| [row.what.clone()].into_iter().chain(row.values.iter().cloned()).collect());
        let caption = format!("{study}: what is not the same in all runs");
        pieces.push(Piece::Table(Table { number: 0, caption, head: titles(&["What"]), rows: rows.collect() }));
    }
    pieces.extend([Piece::Table(ratios), Piece::Text(text.to_owned())]);
    pieces
}
