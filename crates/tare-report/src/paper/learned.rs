//! What was learned: causes of differences, the cost of each rung of a ladder, and what would win a cost back.

use super::document::{Piece, Table};
use super::study::{NO_FIGURE, Study, ratio_words};
use crate::verdict::ratio_figure;
use crate::{advice, contrast, finding, ladder, svg};
use tare_stats::{AdviceGains, Analysis, LadderCosts};

/// Differences of counters that are shown of each form, the clearest first.
const CONTRASTS: usize = 8;

/// The chapter of a study.
pub(super) fn pieces(study: &Study<'_>) -> Vec<Piece> {
    let analysis = study.analysis;
    let mut pieces = Vec::new();
    pieces.extend(analysis.ladder.iter().flat_map(|ladder| rungs(ladder, analysis)));
    pieces.extend(analysis.advice.iter().map(variants));
    pieces.extend(finding::rows(analysis).iter().flat_map(causes));
    pieces.extend(contrast::tables(analysis).iter().flat_map(counters));
    if pieces.is_empty() {
        let nothing =
            "No rule matches the counters of this study, and no counter differs between its forms beyond chance.";
        pieces.push(Piece::Text(nothing.to_owned()));
    }
    pieces
}

/// What each feature between the baseline and a form costs.
fn rungs(ladder: &LadderCosts, analysis: &Analysis) -> Vec<Piece> {
    let better = |name: &str| analysis.metrics.iter().any(|metric| metric.name == name && metric.more_is_better);
    let (to, baseline) = (&ladder.to, &analysis.baseline);
    let drawn = ladder.metrics.iter().map(|metric| {
        let caption = format!(
            "{}, from {baseline} to {to} in rungs, each with its 95 % interval; the last bar is their product, which has none",
            metric.title
        );
        Piece::figure("rungs", caption, svg::waterfall(metric, baseline, better(&metric.name)))
    });
    let mut pieces: Vec<Piece> = drawn.collect();
    let (rows, _) = ladder::rows(ladder, analysis);
    let mut rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| {
            let cells = row.cells.iter().map(|cell| cell.as_ref().map(|cell| [&cell.ratio, &cell.interval]));
            [row.adds, row.form].into_iter().chain(cells.map(figure)).collect()
        })
        .collect();
    let whole = ladder.metrics.iter().map(|metric| {
        let cost = metric.whole.map(|cost| ratio_figure(cost.bound, cost.ratio, cost.interval));
        cost.map_or_else(|| NO_FIGURE.to_owned(), |cost| ratio_words(&cost))
    });
    let named = ["all of them, measured independently".to_owned(), format!("{to} by {}", analysis.control)];
    rows.push(named.into_iter().chain(whole).collect());
    let titles = ladder.metrics.iter().map(|metric| metric.title.clone());
    let caption = format!("What each feature between {baseline} and {to} costs, relative to the rung before it");
    pieces.push(titled(caption, ["Feature added", "Form"], titles, rows));
    let apart = ladder.metrics.iter().filter(|metric| metric.adds_up == Some(false));
    let apart: Vec<&str> = apart.map(|metric| metric.title.as_str()).collect();
    if !apart.is_empty() {
        let text =
            format!("In {} the rungs together do not agree with the whole: something else changed.", apart.join(", "));
        pieces.push(Piece::Text(text));
    }
    pieces
}

/// What each variant of a form wins back.
fn variants(advice: &AdviceGains) -> Piece {
    let (rows, _) = advice::rows(advice);
    let rows = rows.into_iter().map(|row| {
        let cells = row.cells.iter().map(|cell| cell.as_ref().map(|cell| [&cell.ratio, &cell.interval]));
        [row.changes, row.trades].into_iter().chain(cells.map(figure)).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let titles = advice.metrics.iter().map(|metric| metric.title.clone());
    let caption = format!("Variants of {} that change one thing each, relative to {} itself", advice.of, advice.of);
    titled(caption, ["What changes", "What is given up"], titles, rows)
}

/// A ratio and its interval, which is empty where there is none.
fn figure(cell: Option<[&String; 2]>) -> String {
    match cell {
        Some([ratio, interval]) => ratio_words(format!("{ratio} {interval}").trim_end()),
        None => NO_FIGURE.to_owned(),
    }
}

/// A table with two columns of text, and one for each metric.
fn titled(caption: String, text: [&str; 2], metrics: impl Iterator<Item = String>, rows: Vec<Vec<String>>) -> Piece {
    let head = text.map(str::to_owned).into_iter().chain(metrics).collect();
    Piece::Table(Table { number: 0, caption, head, rows })
}

/// A difference between two forms, and what the rules say it comes from.
fn causes(row: &finding::Row) -> Vec<Piece> {
    let one =
        if row.one_feature { ". The two differ in a single feature: this is its cost, by experiment" } else { "" };
    let mut pieces = vec![Piece::Text(format!("{}{one}.", row.title))];
    let items = row.findings.iter().map(|item| {
        let evidence = if item.evidence.is_empty() { String::new() } else { format!(": {}", item.evidence.join("; ")) };
        format!("{} ({}){evidence}. To do: {}. See {}", item.says, item.confidence, item.to_do.concat(), item.method)
    });
    let items: Vec<String> = items.collect();
    pieces.push(if items.is_empty() {
        Piece::Text("No rule matches the counters.".to_owned())
    } else {
        Piece::List(items)
    });
    pieces
}

/// Counters in which two forms differ.
fn counters(table: &contrast::Table) -> Option<Piece> {
    let row = |row: &contrast::Row| Vec::from([&row.title, &row.here, &row.there, &row.difference].map(String::clone));
    let rows: Vec<Vec<String>> = table.rows.iter().take(CONTRASTS).map(row).collect();
    let more = table.rows.len().saturating_sub(CONTRASTS);
    let more = if more > 0 { format!("; {more} more are in the report") } else { String::new() };
    let (form, against) = (table.form.as_str(), table.against.as_str());
    let caption =
        format!("Counters in which {form} differs from {against} beyond chance, which need not be causes{more}");
    let head = ["Counter", form, against, "Difference with its 95 % interval"];
    (!rows.is_empty()).then(|| Piece::table(caption, &head, rows))
}
