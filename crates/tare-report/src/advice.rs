//! What would win it back, in words: a form's variants by what each of them does better, the best first.

use crate::page::{Ink, Page, verdict_ink};
use crate::verdict::{self, ratio_figure};
use crate::words::Headline;
use serde::Serialize;
use tare_stats::{AdviceGains, Analysis, VariantGain, Verdict, percent_text};

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
pub(crate) fn rows(advice: &AdviceGains) -> (Vec<Row>, usize) {
    let Some(first) = advice.metrics.first() else { return (Vec::new(), 0) };
    let all = || advice.metrics.iter().flat_map(|metric| &metric.variants);
    let wins = |gain: &&VariantGain| all().any(|other| other.form == gain.form && other.matters && other.better);
    let (some, none): (Vec<&VariantGain>, Vec<&VariantGain>) = first.variants.iter().partition(wins);
    let count = some.len();
    let row = |gain: &VariantGain| {
        let cells = advice.metrics.iter().map(|metric| metric.variants.iter().find(|other| other.form == gain.form));
        Row {
            variant: gain.variant.clone(),
            changes: gain.changes.clone(),
            trades: gain.trades.clone(),
            cells: cells.map(|gain| gain.map(cell)).collect(),
        }
    };
    (some.into_iter().chain(none).map(row).collect(), count)
}

fn cell(gain: &VariantGain) -> Cell {
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
fn share(gain: &VariantGain) -> Option<String> {
    gain.share.filter(|_| gain.matters && gain.better).map(|share| percent_text(share.min(1.0)))
}

/// What each variant wins back that certainly wins something, the most first: `container with the
/// host's network instead of a bridge: throughput 1.30 [1.21, 1.39] times. 82 % of the way to native in throughput.`
pub(crate) fn headlines(advice: &AdviceGains, analysis: &Analysis) -> Vec<Headline> {
    let (rows, count) = rows(advice);
    let line = |row: &Row| {
        let gains = advice.metrics.iter().filter_map(|metric| {
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
        Headline { sentence: format!("{} with {}: {}.", advice.of, row.changes, figures.join(", ")), rest }
    };
    let mut lines: Vec<Headline> = rows.iter().take(count).map(line).collect();
    if lines.is_empty() {
        let sentence = match withheld(advice) {
            Some(why) => format!("The gains of the variants of {} are withheld: {why}.", advice.of),
            None => format!("No variant of {} wins back a detectable amount.", advice.of),
        };
        lines.push(Headline { sentence, rest: String::new() });
    }
    lines
}

/// Why nothing is said of any variant by the first metric; none where something is said of one.
fn withheld(advice: &AdviceGains) -> Option<&'static str> {
    let unsaid = |gain: &VariantGain| verdict::unsaid(gain.withheld, gain.matters, gain.cost.bound);
    let mut reasons = advice.metrics.first()?.variants.iter().map(unsaid);
    let first = reasons.next()??;
    reasons.all(|reason| reason.is_some()).then_some(first)
}

/// What was left out, in words; nothing where nothing was.
pub(crate) fn left_out(advice: &AdviceGains) -> Option<String> {
    (!advice.left_out.is_empty()).then(|| format!("not measured: {}", advice.left_out.join(", ")))
}

/// The part of a page for the terminal.
pub(crate) fn show(page: &mut Page, analysis: &Analysis, columns: usize) {
    let Some(advice) = &analysis.advice else { return };
    let (rows, wins) = rows(advice);
    page.blank();
    page.paragraph(0, 2, &format!("what would win it back: each variant relative to {}", advice.of), Ink::Bold);
    let titles: Vec<(String, Ink)> =
        advice.metrics.iter().take(columns).map(|metric| (metric.title.clone(), Ink::Dim)).collect();
    page.row("variant", Ink::Dim, &titles);
    for (at, row) in rows.iter().enumerate() {
        if at == wins {
            let why = withheld(advice).map(|why| format!("withheld, {why}:"));
            page.paragraph(0, 2, why.as_deref().unwrap_or("nothing detectable won back:"), Ink::Dim);
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
    if let Some(text) = left_out(advice) {
        page.paragraph(0, 2, &text, Ink::Plain);
    }
}
