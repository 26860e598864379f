//! What would win it back, in words: a form's variants by what each of them does better, the best first.

use crate::page::{Ink, Page, verdict_ink};
use crate::verdict::{self, ratio_figure};
use crate::words::Headline;
use serde::Serialize;
use tare_stats::{Analysis, Gain, Verdict, WinBack, percent_text};

/// A variant with what it wins back by metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// What it is called in every study.
    pub(crate) variant: String,
    /// What it does otherwise, and what is given up for it.
    pub(crate) changes: String,
    pub(crate) trades: String,
    /// By metric, in their order; none where it was not measured.
    pub(crate) cells: Vec<Option<Cell>>,
}

/// A variant by the form, in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) ratio: String,
    pub(crate) interval: String,
    /// How much of the way to the baseline: `62 % back`; empty where that cannot be said.
    pub(crate) share: String,
    /// `worse`, `better`, or nothing.
    pub(crate) class: &'static str,
    #[serde(skip)]
    verdict: Verdict,
}

/// The variants in the order of what they win back by the first metric, those that matter by any metric first; and how
/// many of them do.
pub(crate) fn rows(won: &WinBack) -> (Vec<Row>, usize) {
    let Some(first) = won.metrics.first() else { return (Vec::new(), 0) };
    let all = || won.metrics.iter().flat_map(|metric| &metric.variants);
    let wins = |gain: &&Gain| all().any(|other| other.form == gain.form && other.matters && other.better);
    let (some, none): (Vec<&Gain>, Vec<&Gain>) = first.variants.iter().partition(wins);
    let count = some.len();
    let row = |gain: &Gain| {
        let cells = won.metrics.iter().map(|metric| metric.variants.iter().find(|other| other.form == gain.form));
        Row {
            variant: gain.variant.clone(),
            changes: gain.changes.clone(),
            trades: gain.trades.clone(),
            cells: cells.map(|gain| gain.map(cell)).collect(),
        }
    };
    (some.into_iter().chain(none).map(row).collect(), count)
}

fn cell(gain: &Gain) -> Cell {
    let (verdict, class) = match (gain.matters, gain.better) {
        (false, _) => (Verdict::NoDifference, ""),
        (true, true) => (Verdict::Better, "better"),
        (true, false) => (Verdict::Worse, "worse"),
    };
    let text = ratio_figure(gain.cost.bound, gain.cost.ratio, gain.cost.interval);
    let (ratio, interval) = text.split_once(' ').unwrap_or((&text, ""));
    let share = share(gain).map_or_else(String::new, |share| format!("{share} back"));
    Cell { ratio: ratio.to_owned(), interval: interval.to_owned(), share, class, verdict }
}

/// How much of the way to the baseline a variant goes that certainly wins something back.
fn share(gain: &Gain) -> Option<String> {
    gain.share.filter(|_| gain.matters && gain.better).map(|share| percent_text(share.min(1.0)))
}

/// What each variant wins back that certainly wins something, the most first: `container with the
/// host's network instead of a bridge: throughput 1.30 [1.21, 1.39] times. 82 % of the way to native in throughput.`
pub(crate) fn headlines(won: &WinBack, analysis: &Analysis) -> Vec<Headline> {
    let (rows, count) = rows(won);
    let line = |row: &Row| {
        let gains = won.metrics.iter().filter_map(|metric| {
            let gain = metric.variants.iter().find(|gain| gain.variant == row.variant)?;
            (gain.matters && gain.better).then_some((metric, gain))
        });
        let figures: Vec<String> = gains
            .clone()
            .map(|(metric, gain)| {
                let ratio = ratio_figure(gain.cost.bound, gain.cost.ratio, gain.cost.interval);
                format!("{} {ratio} times", metric.title)
            })
            .collect();
        let back = gains.clone().next().and_then(|(metric, gain)| Some((metric, share(gain)?)));
        let way =
            back.map(|(metric, share)| format!("{share} of the way to {} in {}.", analysis.baseline, metric.title));
        let trade = (!row.trades.is_empty()).then(|| format!("Given up: {}.", row.trades));
        let rest = way.into_iter().chain(trade).collect::<Vec<_>>().join(" ");
        Headline { sentence: format!("{} with {}: {}.", won.of, row.changes, figures.join(", ")), rest }
    };
    let mut lines: Vec<Headline> = rows.iter().take(count).map(line).collect();
    if lines.is_empty() {
        let sentence = match withheld(won) {
            Some(why) => format!("What variants of {} win back is withheld: {why}.", won.of),
            None => format!("No variant of {} wins anything back that shows.", won.of),
        };
        lines.push(Headline { sentence, rest: String::new() });
    }
    lines
}

/// Why nothing is said of any variant by the first metric; none where something is said of one.
fn withheld(won: &WinBack) -> Option<&'static str> {
    let unsaid = |gain: &Gain| verdict::unsaid(gain.withheld, gain.matters, gain.cost.bound);
    let mut reasons = won.metrics.first()?.variants.iter().map(unsaid);
    let first = reasons.next()??;
    reasons.all(|reason| reason.is_some()).then_some(first)
}

/// What was left out, in words; nothing where nothing was.
pub(crate) fn left_out(won: &WinBack) -> Option<String> {
    (!won.left_out.is_empty()).then(|| format!("not measured: {}", won.left_out.join(", ")))
}

/// The part of a page for the terminal.
pub(crate) fn show(page: &mut Page, analysis: &Analysis, columns: usize) {
    let Some(won) = &analysis.advice else { return };
    let (rows, wins) = rows(won);
    page.blank();
    page.paragraph(0, 2, &format!("what would win it back: each variant by {}", won.of), Ink::Bold);
    let titles: Vec<(String, Ink)> =
        won.metrics.iter().take(columns).map(|metric| (metric.title.clone(), Ink::Dim)).collect();
    page.row("variant", Ink::Dim, &titles);
    for (at, row) in rows.iter().enumerate() {
        if at == wins {
            let why = withheld(won).map(|why| format!("withheld, {why}:"));
            page.paragraph(0, 2, why.as_deref().unwrap_or("nothing won back that shows:"), Ink::Dim);
        }
        let shown = || row.cells.iter().take(columns);
        let missing = || ("-".to_owned(), Ink::Dim);
        let upper =
            shown().map(|cell| cell.as_ref().map_or_else(missing, |c| (c.ratio.clone(), verdict_ink(c.verdict))));
        page.row(&row.variant, if at < wins { Ink::Bold } else { Ink::Plain }, &upper.collect::<Vec<_>>());
        for part in [|cell: &Cell| cell.interval.clone(), |cell: &Cell| cell.share.clone()] {
            let lower: Vec<(String, Ink)> =
                shown().map(|cell| (cell.as_ref().map_or_else(String::new, part), Ink::Dim)).collect();
            if lower.iter().any(|(text, _)| !text.is_empty()) {
                page.row("", Ink::Plain, &lower);
            }
        }
        page.paragraph(2, 2, &row.changes, Ink::Plain);
        if !row.trades.is_empty() {
            page.paragraph(2, 4, &format!("given up: {}", row.trades), Ink::Dim);
        }
    }
    if let Some(text) = left_out(won) {
        page.paragraph(0, 2, &text, Ink::Plain);
    }
}
