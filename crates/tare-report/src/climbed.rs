//! The ladder in words: what each rung costs, those that matter first.

use crate::contrasted;
use crate::explained;
use crate::terminal::{Ink, Page, verdict_ink};
use crate::verdict::{self, ratio_figure};
use crate::words::Headline;
use serde::Serialize;
use tare_stats::{Analysis, Climb, Cost, MetricClimb, Orders, RungCost, Verdict};

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
pub(crate) fn rows(climb: &Climb, analysis: &Analysis) -> (Vec<Row>, usize) {
    let Some(first) = climb.metrics.first() else { return (Vec::new(), 0) };
    let of = |metric: &MetricClimb, form: &str| metric.rungs.iter().find(|rung| rung.form == form).cloned();
    let matters = |rung: &&RungCost| climb.metrics.iter().any(|m| of(m, &rung.form).is_some_and(|rung| rung.matters));
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
        let cell = |metric: &MetricClimb| of(metric, &rung.form).map(|rung| cell(&rung, metric, analysis));
        Row { form: rung.form.clone(), adds: rung.adds.join("; "), cells: climb.metrics.iter().map(cell).collect() }
    };
    (some.into_iter().chain(none).map(row).collect(), count)
}

/// What each rung costs that matters, the largest first: `Adding seccomp filter: throughput 0.90 [0.83, 0.97] times.
/// 8 % of the difference in throughput.`
pub(crate) fn headlines(climb: &Climb, analysis: &Analysis) -> Vec<Headline> {
    let (rows, count) = rows(climb, analysis);
    let Some(first) = climb.metrics.first() else { return Vec::new() };
    let line = |row: &Row| {
        let rung = |metric: &MetricClimb| metric.rungs.iter().find(|rung| rung.form == row.form).cloned();
        // A part of what is only a bound is none, nor is a bound a part.
        let own = rung(first).filter(|rung| rung.matters && rung.cost.bound.or(first.bound).is_none());
        let share = own.map(|rung| rung.cost.ratio.ln() / first.together.ln() * 100.0);
        let share = share.filter(|share| share.is_finite() && (1.0..=100.0).contains(share));
        let figures = climb.metrics.iter().filter_map(|metric| {
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
        let withheld = withheld(climb).map(|why| format!("What rungs cost is withheld: {why}."));
        let none = || "No rung shows a difference of its own.".to_owned();
        lines.push(Headline { sentence: withheld.unwrap_or_else(none), rest: String::new() });
    }
    lines
}

/// Why nothing is said of any rung by the first metric; none where something is said of one.
fn withheld(climb: &Climb) -> Option<&'static str> {
    let mut reasons = climb.metrics.first()?.rungs.iter().map(unsaid);
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

fn cell(rung: &RungCost, metric: &MetricClimb, analysis: &Analysis) -> Cell {
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

/// What the rungs come to by the first metric, and the whole measured once more: `together 0.69; container by native
/// again 0.70 [0.66, 0.74], the same again`.
pub(crate) fn sum(climb: &Climb, analysis: &Analysis) -> Option<String> {
    let first = climb.metrics.first()?;
    let together =
        format!("together the rungs make {} of the {}", ratio_figure(first.bound, first.together, None), first.title);
    let Some(whole) = first.whole else { return Some(together) };
    let verdict = match first.adds_up {
        Some(true) => ", the same again",
        Some(false) => ": NOT the same, something besides the rungs changed",
        None => &first.bound.or(whole.bound).map(|why| format!("; {}", verdict::bound(why))).unwrap_or_default(),
    };
    let whole = cost_text(whole);
    Some(format!("{together}; measured apart from them, {} by {}, it is {whole}{verdict}", climb.to, analysis.control))
}

/// Whether rungs cost the same in another order, by the first metric: a line for each of which it is known that they do
/// not, with its share as a range, or that nothing is known of it.
pub(crate) fn orders(climb: &Climb) -> Vec<String> {
    let Some(first) = climb.metrics.first() else { return Vec::new() };
    let known: Vec<(&RungCost, &Orders)> =
        first.rungs.iter().filter_map(|rung| Some((rung, rung.orders.as_ref()?))).collect();
    if known.is_empty() {
        return vec!["what a rung costs is what it adds where it stands; no other order was measured".to_owned()];
    }
    let of_bounds = |orders: &Orders| orders.interaction.is_some_and(|cost| cost.bound.is_some()) && !orders.depends;
    let (unsaid, known): (Vec<_>, Vec<_>) = known.into_iter().partition(|(_, orders)| of_bounds(orders));
    let depends = known.iter().filter(|(_, orders)| orders.depends).filter_map(|(rung, orders)| {
        let (ratio, adds) = (cost_text(orders.interaction?), rung.adds.join("; "));
        let share = orders.share.map(|share| {
            let [low, high] = [share.low, share.high].map(|share| format!("{:.0}", 100.0 * share));
            format!("; {low} to {high} % of the whole by the order")
        });
        Some(format!("{adds}: {ratio} times as much when it comes last{}", share.unwrap_or_default()))
    });
    let mut lines: Vec<String> = depends.collect();
    if let Some((_, Orders { interaction: Some(Cost { bound: Some(bound), .. }), .. })) = unsaid.first() {
        let (count, why) = (unsaid.len(), verdict::bound(*bound));
        lines.push(format!("whether {count} of the rungs cost the same in another order cannot be said: {why}"));
    }
    if lines.is_empty() {
        let none = "in another order shows a cost that is another than on the ladder";
        lines.push(format!("none of the {} rungs that were measured {none}", known.len()));
    }
    lines
}

/// What was left out, in words; nothing where nothing was.
pub(crate) fn left_out(climb: &Climb) -> Option<String> {
    let some = (!climb.left_out.is_empty()).then(|| climb.left_out.join(", "))?;
    Some(format!("not measured: {some}; what they add is in the rung that follows"))
}

/// Why nothing can be said of a rung whose cost by a metric is only a bound.
fn of_bound(metric: &MetricClimb, form: &str) -> Option<&'static str> {
    let rung = metric.rungs.iter().find(|rung| rung.form == form && rung.withheld.is_none())?;
    unsaid(rung)
}

/// The ladder's part of a page for the terminal.
pub(crate) fn show(page: &mut Page, analysis: &Analysis, columns: usize) {
    let Some(climb) = &analysis.ladder else { return };
    let (rows, matter) = rows(climb, analysis);
    page.blank();
    let text = format!("the ladder from {} to {}: each rung by the one before it", analysis.baseline, climb.to);
    page.paragraph(0, 2, &text, Ink::Bold);
    let titles: Vec<(String, Ink)> =
        climb.metrics.iter().take(columns).map(|metric| (metric.title.clone(), Ink::Dim)).collect();
    page.row("rung", Ink::Dim, &titles);
    for (at, row) in rows.iter().enumerate() {
        if at == matter {
            let why = withheld(climb).map(|why| format!("withheld, {why}:"));
            page.paragraph(0, 2, why.as_deref().unwrap_or("no difference that shows:"), Ink::Dim);
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
        if let Some(why) = climb.metrics.iter().find_map(|metric| of_bound(metric, &row.form)) {
            page.paragraph(2, 4, &format!("nothing is said of it: {why}"), Ink::Dim);
        }
        let finding = explained::of_rung(analysis, &row.form).map(|finding| format!("finding: {finding}"));
        let besides = || contrasted::of(analysis, &row.form).map(|with| format!("with it: {with}"));
        if let Some(text) = finding.or_else(besides) {
            page.paragraph(2, 4, &text, Ink::Dim);
        }
    }
    for text in sum(climb, analysis).into_iter().chain(orders(climb)).chain(left_out(climb)) {
        page.paragraph(0, 2, &text, Ink::Plain);
    }
}
