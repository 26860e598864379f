//! The terminal: 80 columns, readable without colour, ASCII.

use crate::Style;
use crate::advice;
use crate::brief;
use crate::costs;
use crate::ladder;
use crate::page::{COLUMN, Ink, NAME, Page, WIDTH_MIN, verdict_ink};
use crate::peak::peaks;
use crate::response;
use crate::ruler;
use crate::warnings;
use crate::words::{self, fault_text, outcome};
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_stats::{Analysis, Arm, Interval, MetricAnalysis, ratio_text};

/// Renders for a terminal.
pub(crate) fn render(record: &Record, analysis: &Analysis, style: &Style) -> Result<String, Fault> {
    let mut page = Page { text: String::new(), style: Style { width: style.width.max(WIDTH_MIN), ..*style } };
    if !style.verbose && brief::is_enough(record, analysis) {
        brief::show(&mut page, record, analysis);
        return Ok(page.text);
    }
    brief::heading(&mut page, record);
    if let Some((text, misses)) = ruler::line(analysis) {
        page.paragraph(0, 2, &format!("ruler: {text}"), if misses { Ink::Warning } else { Ink::Plain });
    }
    table(&mut page, analysis);
    let columns = shown(analysis, page.style.width).len();
    ladder::show(&mut page, analysis, columns);
    advice::show(&mut page, analysis, columns);
    peak_loads(&mut page, record, analysis);
    response::show(&mut page, analysis, &[]);
    costs::show(&mut page, analysis);
    footing(&mut page, record, analysis);
    Ok(page.text)
}

fn shown(analysis: &Analysis, width: usize) -> Vec<&MetricAnalysis> {
    words::compared(analysis).take((width - NAME) / COLUMN).collect()
}

fn table(page: &mut Page, analysis: &Analysis) {
    let metrics = shown(analysis, page.style.width);
    page.blank();
    let titles: Vec<(String, Ink)> = metrics.iter().map(|metric| (above(metric).to_owned(), Ink::Dim)).collect();
    page.row("ratio to baseline", Ink::Dim, &titles);
    for arm in analysis.arms.iter().filter(|arm| !arm.control) {
        if arm.baseline {
            baseline_row(page, arm, &metrics);
        } else {
            form_row(page, analysis, arm, &metrics);
        }
    }
}

/// What stands above a metric's column: its title, without what is said of it where that is too long.
fn above(metric: &MetricAnalysis) -> &str {
    let title = metric.title.as_str();
    let short = title.split_once(", ").map_or(title, |(short, _)| short);
    if title.chars().count() < COLUMN { title } else { short }
}

/// The peaks in absolute terms, where they were searched.
fn peak_loads(page: &mut Page, record: &Record, analysis: &Analysis) {
    let found = peaks(record, analysis);
    if found.is_empty() {
        return;
    }
    page.blank();
    page.row("peak load", Ink::Dim, &[]);
    for peaks in found {
        page.paragraph(0, 4, &format!("{}: {}", peaks.arm.name, peaks.words()), Ink::Plain);
        for warning in peaks.warnings() {
            page.paragraph(4, 4, &warning, Ink::Warning);
        }
    }
}

fn baseline_row(page: &mut Page, arm: &Arm, metrics: &[&MetricAnalysis]) {
    let absolute = |metric: &&MetricAnalysis| (words::level(metric, &arm.name), Ink::Plain);
    let cells: Vec<(String, Ink)> = metrics.iter().map(absolute).collect();
    page.row(&arm.name, Ink::Bold, &cells);
    page.paragraph(2, 2, &format!("baseline: {}", facts(arm)), Ink::Dim);
    if let Some(why) = &arm.emulated {
        page.paragraph(2, 2, &format!("emulated: {}", fault_text(why)), Ink::Warning);
    }
    outcomes(page, arm);
}

fn form_row(page: &mut Page, analysis: &Analysis, arm: &Arm, metrics: &[&MetricAnalysis]) {
    let of = |metric: &&MetricAnalysis| metric.ratios.iter().find(|ratio| ratio.arm == arm.name).cloned();
    let ratios: Vec<_> = metrics.iter().map(of).collect();
    if ratios.iter().all(Option::is_none) {
        let word = arm.reasons.first().map_or("not measured".to_owned(), |reason| reason.outcome.to_uppercase());
        page.row(&arm.name, Ink::Bold, &[(word, Ink::Warning)]);
        page.paragraph(2, 2, &arm.describe, Ink::Dim);
        outcomes(page, arm);
        return;
    }
    let upper = ratios.iter().map(|ratio| {
        let Some(ratio) = ratio else { return ("-".to_owned(), Ink::Dim) };
        let text = ratio.text();
        let text = text.split(" [").next().unwrap_or_default().to_owned();
        let mark = if analysis.emulated(arm) { " EMULATED" } else { "" };
        (format!("{text}{mark}"), verdict_ink(ratio.verdict))
    });
    let upper: Vec<(String, Ink)> = upper.collect();
    page.row(&arm.name, Ink::Bold, &upper);
    let lower = ratios.iter().map(|ratio| {
        let interval = ratio.as_ref().and_then(|ratio| ratio.interval.map(|interval| (ratio.ratio, interval)));
        (interval.map_or_else(String::new, |(ratio, interval)| interval_text(ratio, interval)), Ink::Dim)
    });
    let lower: Vec<(String, Ink)> = lower.collect();
    if lower.iter().any(|(text, _)| !text.is_empty()) {
        page.row("", Ink::Plain, &lower);
    }
    page.paragraph(2, 2, &words::verdicts(analysis, &arm.name), Ink::Plain);
    page.paragraph(2, 2, &facts(arm), Ink::Dim);
    if let Some(qos) = &arm.qos {
        page.paragraph(2, 2, &words::qos(qos), if qos.kept < qos.of { Ink::Warning } else { Ink::Dim });
    }
    if let Some(why) = &arm.emulated {
        page.paragraph(2, 2, &format!("emulated: {}", fault_text(why)), Ink::Warning);
    }
    outcomes(page, arm);
}

fn interval_text(ratio: f64, interval: Interval) -> String {
    let text = ratio_text(ratio, Some(interval));
    text.find('[').map_or(text.clone(), |at| text[at..].to_owned())
}

/// What it is, how a request reaches it, how many trials count.
fn facts(arm: &Arm) -> String {
    let path = if arm.path.is_empty() { String::new() } else { format!("reached by {}; ", arm.path) };
    format!("{}; {path}{} of {} trials measured", arm.describe, arm.measured, arm.planned)
}

/// A line for each reason why trials were not measured.
fn outcomes(page: &mut Page, arm: &Arm) {
    for reason in &arm.reasons {
        page.paragraph(2, 4, &outcome(reason), Ink::Warning);
    }
}

fn footing(page: &mut Page, record: &Record, analysis: &Analysis) {
    const LABEL: usize = 11;
    page.blank();
    let mut line = |label: &str, text: &str, ink| page.labelled(&format!("{label:LABEL$}"), Ink::Dim, text, ink);
    let control: Vec<String> =
        words::compared(analysis).filter_map(|metric| words::control(metric, &analysis.control)).collect();
    let control =
        if control.is_empty() { "not measured: no noise floor, no verdicts".to_owned() } else { control.join("; ") };
    line("A/A", &control, Ink::Plain);
    if let Some(missed) = words::missed_aim(analysis) {
        line("precision", &missed, Ink::Plain);
    }
    for reason in analysis.arms.iter().filter(|arm| arm.control).flat_map(|arm| &arm.reasons) {
        line("", &outcome(reason), Ink::Warning);
    }
    for (number, (text, certain)) in crate::failures::lines(analysis).iter().enumerate() {
        let ink = if *certain { Ink::Warning } else { Ink::Plain };
        line(if number == 0 { "failed" } else { "" }, text, ink);
    }
    for (number, text) in crate::account::lines(record, analysis).iter().enumerate() {
        line(if number == 0 { "CPU" } else { "" }, text, Ink::Plain);
    }
    let why = if analysis.ladder.is_some() { Vec::new() } else { crate::finding::lines(analysis) };
    for (number, text) in why.iter().enumerate() {
        line(if number == 0 { "why" } else { "" }, text, Ink::Plain);
    }
    if let Some(text) = crate::finding::next(record, analysis) {
        line("", &text, Ink::Plain);
    }
    let others = if analysis.ladder.is_some() { Vec::new() } else { crate::contrast::lines(analysis) };
    for (number, text) in others.iter().enumerate() {
        line(if number == 0 { "counters" } else { "" }, text, Ink::Plain);
    }
    for (number, text) in crate::profile::lines(analysis).iter().enumerate() {
        line(if number == 0 { "profile" } else { "" }, text, Ink::Plain);
    }
    for (number, text) in crate::scale_out::lines(analysis).iter().enumerate() {
        line(if number == 0 { "scale-out" } else { "" }, text, Ink::Plain);
    }
    for bits in &analysis.bits {
        line("same bits", &format!("{}: {}", bits.service, words::same_bits(bits)), Ink::Plain);
    }
    for service in &analysis.resources {
        line("resources", &format!("{}: {}", service.service, words::resources(service)), Ink::Plain);
    }
    for (number, text) in crate::turns::lines(record, analysis).iter().enumerate() {
        line(if number == 0 { "turns" } else { "" }, text, Ink::Plain);
    }
    for (number, text) in crate::components::lines(analysis).iter().enumerate() {
        line(if number == 0 { "spread" } else { "" }, text, Ink::Plain);
    }
    for (number, text) in crate::components::by_speed(analysis).iter().enumerate() {
        line(if number == 0 { "speed" } else { "" }, text, Ink::Plain);
    }
    for (number, text) in crate::placement::lines(record).iter().enumerate() {
        line(if number == 0 { "placement" } else { "" }, text, Ink::Plain);
    }
    line("apparatus", &words::apparatus(record, analysis), Ink::Plain);
    if let Some(text) = crate::probe_cost::by_form(analysis) {
        line("probe", &text, Ink::Plain);
    }
    let methods = words::methods(analysis);
    let single = methods.len() == 1;
    for (number, (method, metrics)) in methods.into_iter().enumerate() {
        let label = if number == 0 { "intervals" } else { "" };
        let text = if single { method } else { format!("{}: {method}", metrics.join(", ")) };
        line(label, &text, Ink::Dim);
    }
    for warning in warnings::all(analysis) {
        line("WARNING", &warning, Ink::Warning);
    }
}
