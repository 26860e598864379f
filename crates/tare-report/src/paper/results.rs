//! What was measured: every form in every metric, drawn and in a table, each figure with its interval.

use super::document::{Piece, Table};
use super::study::{NO_FIGURE, Study, estimate_text, ratio_words};
use crate::html::levels_line;
use crate::response::{arms, notes, shown, title};
use crate::scale_out::what;
use crate::svg::{self, Line, Look};
use crate::verdict::{self, VerdictWords, ratio_figure};
use crate::{costs, peak, words};
use tare_core::peak::level_text;
use tare_stats::{Analysis, Arm, LevelMetric, LoadResponse, MetricAnalysis, ScaleOut, percent_at_most, ratio_text};

/// The chapter of a study.
pub(super) fn pieces(study: &Study<'_>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = words::compared(study.analysis).flat_map(|metric| of_metric(study, metric)).collect();
    pieces.extend(of_levels(study));
    pieces.extend(of_services(study.analysis));
    pieces.extend(of_instances(study.analysis));
    pieces.extend(of_peaks(study));
    pieces
}

/// A metric: its ratios as a drawing, and a table of its figures, ratios and verdicts.
fn of_metric(study: &Study<'_>, metric: &MetricAnalysis) -> Vec<Piece> {
    if metric.estimates.is_empty() {
        return Vec::new();
    }
    let (title, baseline) = (&metric.title, &study.analysis.baseline);
    let better = if metric.more_is_better { "more is better" } else { "less is better" };
    let mut pieces = Vec::new();
    if !metric.ratios.is_empty() {
        let floor = metric.noise_floor.map(|floor| {
            format!("; shaded is the noise floor, {}: so far may identical forms lie apart", percent_at_most(floor))
        });
        let floor = floor.unwrap_or_default();
        let caption = format!("{title}, ratios to {baseline} with their 95 % intervals, {better}{floor}");
        pieces.push(Piece::figure("ratios", caption, svg::forest(metric, &study.looks)));
    }
    let rows = study.analysis.arms.iter().map(|arm| row(study, metric, arm)).collect();
    let unit = format!("Geometric mean of {title}");
    let head = ["Form", unit.as_str(), "Ratio to the baseline", "Difference", "Verdict"];
    pieces.push(Piece::table(format!("{title} of each form, {better}"), &head, rows));
    pieces
}

fn row(study: &Study<'_>, metric: &MetricAnalysis, arm: &Arm) -> Vec<String> {
    let analysis = study.analysis;
    let estimate = metric.estimates.iter().find(|estimate| estimate.arm == arm.name);
    let figure = estimate.map_or_else(|| NO_FIGURE.to_owned(), |estimate| estimate_text(estimate, &metric.unit));
    let ratio = metric.ratios.iter().find(|ratio| ratio.arm == arm.name);
    let verdict = match ratio {
        Some(ratio) => VerdictWords::of(analysis, metric, ratio).beside_figures(),
        None if arm.baseline => String::new(),
        None => arm.reasons.first().map_or_else(|| "no ratio".to_owned(), words::outcome),
    };
    let difference = words::difference(analysis, metric, &arm.name).filter(|_| ratio.is_some());
    let ratio = ratio.map_or_else(|| NO_FIGURE.to_owned(), |ratio| ratio_words(&ratio.text()));
    let difference = difference.map_or_else(|| NO_FIGURE.to_owned(), |text| ratio_words(&text));
    vec![study.named(arm), figure, ratio, difference, verdict]
}

/// A load in steps, level by level.
fn of_levels(study: &Study<'_>) -> Vec<Piece> {
    let analysis = study.analysis;
    let Some(response) = &analysis.response else { return Vec::new() };
    let metrics = shown(response, &[]);
    let arms = arms(analysis);
    let looks: Vec<Look> =
        study.looks.iter().filter(|look| arms.iter().any(|arm| arm.name == look.name)).cloned().collect();
    let mut pieces = vec![Piece::figure("legend", "The forms in the following figures", svg::legend(&looks))];
    for metric in &metrics {
        let lines: Vec<Line> = looks.iter().map(|look| levels_line(response, metric, look)).collect();
        let drawing = svg::response(&metric.title, &metric.unit, &response.of, &lines);
        let caption = format!("{} over {}, with 95 % intervals of each figure alone", title(metric), response.of);
        pieces.push(Piece::figure("levels", caption, drawing));
        pieces.push(levels_table(study, response, metric, &arms));
    }
    let notes = notes(response, analysis, &metrics);
    if !notes.is_empty() {
        pieces.push(Piece::List(notes));
    }
    pieces
}

fn levels_table(study: &Study<'_>, response: &LoadResponse, metric: &LevelMetric, arms: &[&Arm]) -> Piece {
    let cell = |number: usize, arm: &str| {
        let estimate = metric.estimate(arm, number);
        estimate.map_or_else(|| NO_FIGURE.to_owned(), |estimate| estimate_text(estimate, &metric.unit))
    };
    let row = |(number, level): (usize, &f64)| {
        let cells = arms.iter().map(|arm| cell(number, &arm.name));
        [level_text(*level)].into_iter().chain(cells).collect::<Vec<String>>()
    };
    let names = arms.iter().map(|arm| study.named(arm));
    Piece::Table(Table {
        number: 0,
        caption: format!("{} by {}", metric.title, response.of),
        head: [response.of.clone()].into_iter().chain(names).collect(),
        rows: response.levels.iter().enumerate().map(row).collect(),
    })
}

/// CPU time per operation by service.
fn of_services(analysis: &Analysis) -> Option<Piece> {
    let costs = costs::chosen(analysis)?;
    let arms = costs.arms.iter().filter(|arm| arm.arm != analysis.control);
    let rows = arms.flat_map(|arm| {
        arm.parts.iter().map(move |part| {
            let ratio = part.ratio.map_or_else(|| NO_FIGURE.to_owned(), |of| ratio_text(of.ratio, of.interval));
            let figure = estimate_text(&part.estimate, "us");
            vec![arm.arm.clone(), costs::label(part), figure, ratio_words(&ratio)]
        })
    });
    let at = costs::at(analysis, costs);
    let caption = format!("CPU time per operation by service {at}");
    let head = ["Form", "Service", "CPU time per operation", "Ratio to the baseline"];
    Some(Piece::table(caption.trim_end(), &head, rows.collect()))
}

/// How throughput grows with instances.
fn of_instances(analysis: &Analysis) -> Option<Piece> {
    let row = |of: &ScaleOut| {
        let ratio = |ratio, interval| ratio_words(&ratio_figure(of.bound, ratio, interval));
        let withheld = of.withheld.map(verdict::withheld).or(of.bound.map(verdict::bound)).unwrap_or_default();
        vec![
            of.form.clone(),
            of.against.clone(),
            what(&of.what),
            ratio(of.speed_up, of.speed_up_interval),
            ratio(of.efficiency, of.efficiency_interval),
            withheld.to_owned(),
        ]
    };
    let head = ["Form", "Against", "Instances", "Speed-up", "Efficiency", "No verdict because"];
    let rows: Vec<Vec<String>> = analysis.scale_out.iter().map(row).collect();
    (!rows.is_empty()).then(|| Piece::table("Several instances; efficiency 1 is linear", &head, rows))
}

/// What searches for the peak load found.
fn of_peaks(study: &Study<'_>) -> Vec<Piece> {
    let found = peak::peaks(study.record, study.analysis);
    if found.is_empty() {
        return Vec::new();
    }
    let rows = found.iter().map(|of| vec![study.named(of.arm), of.words()]).collect();
    let mut pieces = vec![Piece::table("Peak load of each form", &["Form", "Peak load"], rows)];
    for of in &found {
        let look = study.looks.iter().find(|look| look.name == of.arm.name);
        let drawing = look.and_then(|look| svg::peak(look, &of.searches));
        let caption = format!("Share of windows that kept the QoS in {}, by load, with 95 % intervals", of.arm.name);
        pieces.extend(drawing.map(|drawing| Piece::figure("peak", caption, drawing)));
    }
    pieces
}
