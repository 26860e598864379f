//! The ladder in words: what each rung costs, those that matter first.

use crate::contrast;
use crate::finding;
use crate::page::{Ink, Page, verdict_ink};
use crate::verdict::{self, ratio_figure};
use crate::words::Headline;
use serde::Serialize;
use tare_stats::{Analysis, Cost, LadderCosts, MetricRungCosts, Orders, RungCost, Verdict};

/// A rung with its costs by metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The rung's form.
    pub(crate) form: String,
    /// What it adds, in words.
    pub(crate) adds: String,
    /// By metric, in their order; none where it was not measured.
    pub(crate) cells: Vec<Option<Cell>>,
}

/// The cost of a rung by one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) ratio: String,
    pub(crate) interval: String,
    /// `worse`, `better`, or nothing.
    pub(crate) class: &'static str,
    #[serde(skip)]
    verdict: Verdict,
}

/// The rungs by what they cost by the first metric, the largest difference first, and those without one behind them;
/// and how many of them matter by any metric.
pub(crate) fn rows(ladder: &LadderCosts, analysis: &Analysis) -> (Vec<Row>, usize) {
    let Some(first) = ladder.metrics.first() else { return (Vec::new(), 0) };
    let of = |metric: &MetricRungCosts, form: &str| metric.rungs.iter().find(|rung| rung.form == form).cloned();
    let matters = |rung: &&RungCost| ladder.metrics.iter().any(|m| of(m, &rung.form).is_some_and(|rung| rung.matters));
    let size = |rung: &RungCost| rung.cost.ratio.ln().abs();
    let (mut some, none): (Vec<&RungCost>, Vec<&RungCost>) = first.rungs.iter().partition(matters);
    // A bound may be any larger one: it has no rank among the others.
    let is_bound = |rung: &RungCost| rung.cost.bound.is_some();
    let by_rank = |a: &&RungCost, b: &&RungCost| {
        b.matters.cmp(&a.matters).then(is_bound(a).cmp(&is_bound(b))).then(size(b).total_cmp(&size(a)))
    };
    some.sort_by(by_rank);
    let count = some.len();
    let row = |rung: &RungCost| {
        let cell = |metric: &MetricRungCosts| of(metric, &rung.form).map(|rung| cell(&rung, metric, analysis));
        Row { form: rung.form.clone(), adds: rung.adds.join("; "), cells: ladder.metrics.iter().map(cell).collect() }
    };
    (some.into_iter().chain(none).map(row).collect(), count)
}

/// What each rung costs that matters, the largest first: `Adding seccomp filter: throughput 0.90 [0.83, 0.97] times.
/// 8 % of the difference in throughput.`
pub(crate) fn headlines(ladder: &LadderCosts, analysis: &Analysis) -> Vec<Headline> {
    let (rows, count) = rows(ladder, analysis);
    let Some(first) = ladder.metrics.first() else { return Vec::new() };
    let line = |row: &Row| {
        let rung = |metric: &MetricRungCosts| metric.rungs.iter().find(|rung| rung.form == row.form).cloned();
        // A part of what is only a bound is none, nor is a bound a part.
        let own = rung(first).filter(|rung| rung.matters && rung.cost.bound.or(first.bound).is_none());
        let share = own.map(|rung| rung.cost.ratio.ln() / first.together.ln() * 100.0);
        let share = share.filter(|share| share.is_finite() && (1.0..=100.0).contains(share));
        let figures = ladder.metrics.iter().filter_map(|metric| {
            let rung = rung(metric).filter(|rung| rung.matters)?;
            Some(format!("{} {} times", metric.title, cost_text(rung.cost)))
        });
        let rest = match share {
            Some(share) if count > 1 => format!("{share:.0} % of the difference in {}.", first.title),
            _ => String::new(),
        };
        Headline { sentence: format!("Adding {}: {}.", row.adds, figures.collect::<Vec<_>>().join(", ")), rest }
    };
    let mut lines: Vec<Headline> = rows.iter().take(count).map(line).collect();
    if lines.is_empty() {
        let withheld = withheld(ladder).map(|why| format!("The costs of rungs are withheld: {why}."));
        let none = || "No rung makes a detectable difference.".to_owned();
        lines.push(Headline { sentence: withheld.unwrap_or_else(none), rest: String::new() });
    }
    lines
}

/// Why nothing is said of any rung by the first metric; none where something is said of one.
fn withheld(ladder: &LadderCosts) -> Option<&'static str> {
    let mut reasons = ladder.metrics.first()?.rungs.iter().map(unsaid);
    let first = reasons.next()??;
    reasons.all(|reason| reason.is_some()).then_some(first)
}

fn unsaid(rung: &RungCost) -> Option<&'static str> {
    verdict::unsaid(rung.withheld, rung.matters, rung.cost.bound)
}

/// `<=0.85 [0.80, 0.90]`.
fn cost_text(cost: Cost) -> String {
    ratio_figure(cost.bound, cost.ratio, cost.interval)
}

fn cell(rung: &RungCost, metric: &MetricRungCosts, analysis: &Analysis) -> Cell {
    let more_is_better = analysis.metrics.iter().any(|known| known.name == metric.name && known.more_is_better);
    let (verdict, class) = match (rung.matters, (rung.cost.ratio > 1.0) == more_is_better) {
        (false, _) => (Verdict::NoDifference, ""),
        (true, true) => (Verdict::Better, "better"),
        (true, false) => (Verdict::Worse, "worse"),
    };
    let (ratio, interval) = parts(rung.cost);
    Cell { ratio, interval, class, verdict }
}

/// `0.85` and `[0.80, 0.90]`.
fn parts(cost: Cost) -> (String, String) {
    let text = cost_text(cost);
    let (ratio, interval) = text.split_once(' ').unwrap_or((&text, ""));
    (ratio.to_owned(), interval.to_owned())
}

/// What the rungs come to by the first metric, and the whole measured once more: `together the
/// rungs make 0.69 of the throughput; measured independently, container against native (A/A) is 0.70 [0.66, 0.74],
/// which agrees`.
pub(crate) fn sum(ladder: &LadderCosts, analysis: &Analysis) -> Option<String> {
    let first = ladder.metrics.first()?;
    let together =
        format!("together the rungs make {} of the {}", ratio_figure(first.bound, first.together, None), first.title);
    let Some(whole) = first.whole else { return Some(together) };
    let verdict = match first.adds_up {
        Some(true) => ", which agrees",
        Some(false) => ", which does NOT agree: something other than the rungs changed",
        None => &first.bound.or(whole.bound).map(|why| format!("; {}", verdict::bound(why))).unwrap_or_default(),
    };
    let whole = cost_text(whole);
    Some(format!("{together}; measured independently, {} against {} is {whole}{verdict}", ladder.to, analysis.control))
}

/// What rungs cost in other places, by the first metric: a line for each that was measured in any, or that nothing is
/// known of it. `seccomp filter: 6 to 11 % of the whole, depending on its place; last 0.94 [0.92, 0.96] times as
/// much as first, so it depends on the others`.
pub(crate) fn orders(ladder: &LadderCosts) -> Vec<String> {
    let Some(first) = ladder.metrics.first() else { return Vec::new() };
    let known: Vec<(&RungCost, &Orders)> =
        first.rungs.iter().filter_map(|rung| Some((rung, rung.orders.as_ref()?))).collect();
    if known.is_empty() {
        return vec![
            "a rung's cost holds for its place in this ladder; other orders were not measured (`tare explain --orders` does)"
                .to_owned(),
        ];
    }
    known.into_iter().map(|(rung, orders)| format!("{}: {}", rung.adds.join("; "), elsewhere(orders))).collect()
}

/// What a feature costs in several places.
fn elsewhere(orders: &Orders) -> String {
    let share = orders.share.map(|share| {
        let [low, high] = [share.low, share.high].map(|share| format!("{:.0}", 100.0 * share));
        let range = if low == high { low } else { format!("{low} to {high}") };
        format!("{range} % of the whole, depending on its place")
    });
    let interaction = orders.interaction.map(|cost| {
        let so = match cost.bound.filter(|_| !orders.depends) {
            _ if orders.depends => "so it depends on the others",
            Some(why) => verdict::bound(why),
            None => "no detectable difference",
        };
        let (later, earlier) = match (orders.last.is_some(), orders.first.is_some()) {
            (true, true) => ("last", "first"),
            (true, false) => ("last", "in its own place"),
            _ => ("in its own place", "first"),
        };
        format!("{later} {} times as much as {earlier}, {so}", cost_text(cost))
    });
    share.into_iter().chain(interaction).collect::<Vec<_>>().join("; ")
}

/// What was left out, in words; nothing where nothing was.
pub(crate) fn left_out(ladder: &LadderCosts) -> Option<String> {
    let some = (!ladder.left_out.is_empty()).then(|| ladder.left_out.join(", "))?;
    Some(format!("not measured: {some}; what they add is in the cost of the next rung"))
}

/// Why nothing can be said of a rung whose cost by a metric is only a bound.
fn of_bound(metric: &MetricRungCosts, form: &str) -> Option<&'static str> {
    let rung = metric.rungs.iter().find(|rung| rung.form == form && rung.withheld.is_none())?;
    unsaid(rung)
}

/// The ladder's part of a page for the terminal.
pub(crate) fn show(page: &mut Page, analysis: &Analysis, columns: usize) {
    let Some(ladder) = &analysis.ladder else { return };
    let (rows, matter) = rows(ladder, analysis);
    page.blank();
    let text = format!("ladder from {} to {}: each rung relative to the one before it", analysis.baseline, ladder.to);
    page.paragraph(0, 2, &text, Ink::Bold);
    let titles: Vec<(String, Ink)> =
        ladder.metrics.iter().take(columns).map(|metric| (metric.title.clone(), Ink::Dim)).collect();
    page.row("rung", Ink::Dim, &titles);
    for (at, row) in rows.iter().enumerate() {
        if at == matter {
            let why = withheld(ladder).map(|why| format!("withheld, {why}:"));
            page.paragraph(0, 2, why.as_deref().unwrap_or("no detectable difference:"), Ink::Dim);
        }
        let shown = || row.cells.iter().take(columns);
        let missing = || ("-".to_owned(), Ink::Dim);
        let upper =
            shown().map(|cell| cell.as_ref().map_or_else(missing, |c| (c.ratio.clone(), verdict_ink(c.verdict))));
        page.row(&row.form, if at < matter { Ink::Bold } else { Ink::Plain }, &upper.collect::<Vec<_>>());
        let lower: Vec<(String, Ink)> =
            shown().map(|cell| (cell.as_ref().map_or_else(String::new, |c| c.interval.clone()), Ink::Dim)).collect();
        if lower.iter().any(|(text, _)| !text.is_empty()) {
            page.row("", Ink::Plain, &lower);
        }
        page.paragraph(2, 2, &format!("adds {}", row.adds), Ink::Plain);
        if let Some(why) = ladder.metrics.iter().find_map(|metric| of_bound(metric, &row.form)) {
            page.paragraph(2, 4, &format!("no verdict: {why}"), Ink::Dim);
        }
        let finding = finding::of_rung(analysis, &row.form).map(|finding| format!("finding: {finding}"));
        let others = || contrast::of(analysis, &row.form).map(|with| format!("also differs: {with}"));
        if let Some(text) = finding.or_else(others) {
            page.paragraph(2, 4, &text, Ink::Dim);
        }
    }
    for text in sum(ladder, analysis).into_iter().chain(orders(ladder)).chain(left_out(ladder)) {
        page.paragraph(0, 2, &text, Ink::Plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_stats::{Bound, BoundCause, Interval, Side};

    #[test]
    fn a_feature_s_share_is_a_range_over_its_places() {
        let cost = |ratio: f64, bound| Cost {
            ratio,
            bound,
            interval: Some(Interval { low: 0.98 * ratio, high: 1.02 * ratio }),
        };
        let mut orders = Orders {
            first: Some(cost(0.9, None)),
            last: Some(cost(0.8, None)),
            interaction: Some(cost(0.88, None)),
            depends: true,
            share: Some(Interval { low: 0.104, high: 0.22 }),
        };
        let share = "10 to 22 % of the whole, depending on its place";
        let told = format!("{share}; last 0.88 [0.86, 0.90] times as much as first, so it depends on the others");
        assert_eq!(elsewhere(&orders), told);
        orders.depends = false;
        assert!(elsewhere(&orders).ends_with("as much as first, no detectable difference"));
        let bound = Some(Bound { side: Side::AtMost, cause: BoundCause::Generator });
        orders = Orders { interaction: Some(cost(0.88, bound)), share: None, ..orders };
        let told = elsewhere(&orders);
        assert!(told.starts_with("last <=0.88") && told.ends_with("the generator was the limit"), "{told}");
    }
}
