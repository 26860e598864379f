//! The terminal, for several parts: a heading for each panel, a line for each form.

use super::AnalysedPart;
use super::reference::references;
use super::shown::{Row, ShownPart, panels, published_sources, shown, warnings};
use super::words::headline;
use crate::costs;
use crate::page::{Ink, Page, WIDTH_MIN, verdict_ink};
use crate::quantity::plain_quantity;
use crate::response;
use crate::{Style, words};
use std::collections::BTreeSet;
use tare_core::fault::Fault;
use tare_core::record::SuiteHeader;
use tare_stats::{Analysis, MetricAnalysis};

/// Columns of a form's name.
const NAME: usize = 22;
/// Columns of its ratio.
const RATIO: usize = 22;
/// Where fewer columns are left for words, they get lines of their own.
const WORDS: usize = 34;
/// Columns of the labels below.
const LABEL: usize = 11;

/// By form, why it has no figure: said in full once.
type Said<'a> = BTreeSet<(&'a str, String)>;

/// Renders for a terminal.
pub(crate) fn render(header: &SuiteHeader, parts: &[AnalysedPart<'_>], style: &Style) -> Result<String, Fault> {
    let mut page = Page { text: String::new(), style: Style { width: style.width.max(WIDTH_MIN), ..*style } };
    let shown = shown(parts);
    let mut said = Said::new();
    heading(&mut page, header, &shown);
    for (panel, parts) in panels(&shown) {
        page.blank();
        page.paragraph(0, 2, panel, Ink::Bold);
        for part in &parts {
            for metric in &part.metrics {
                metric_lines(&mut page, &mut said, part, metric, parts.len());
            }
            for line in references(part).iter().flat_map(|found| found.lines()) {
                page.paragraph(2, 4, &line, Ink::Dim);
            }
            response::show(&mut page, part.analysis, &part.wanted);
            costs::show(&mut page, part.analysis);
        }
        sources(&mut page, &parts);
    }
    footing(&mut page, header, &shown);
    Ok(page.text)
}

fn heading(page: &mut Page, header: &SuiteHeader, parts: &[ShownPart<'_>]) {
    page.paragraph(0, 2, &format!("{}: {}", header.study, header.question), Ink::Bold);
    if let Some(part) = parts.first() {
        page.paragraph(0, 2, &words::machine(part.record), Ink::Plain);
    }
    let preset = header.preset.as_ref().map(|preset| format!(", preset {preset}")).unwrap_or_default();
    let started = header.started.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ");
    let count = header.parts.len();
    page.paragraph(0, 2, &format!("{count} parts{preset}, {started} UTC, tare {}", header.tare), Ink::Dim);
    page.blank();
    let headline = headline(parts);
    page.paragraph(0, 2, &ascii(&headline.whole()), Ink::Bold);
    for (form, text) in &headline.forms {
        page.paragraph(2, 4, &ascii(&format!("{form}: {text}")), Ink::Plain);
    }
}

/// A metric: the baseline's value, then every form beside it.
fn metric_lines<'a>(
    page: &mut Page,
    said: &mut Said<'a>,
    part: &ShownPart<'a>,
    metric: &'a MetricAnalysis,
    among: usize,
) {
    let analysis: &Analysis = part.analysis;
    let base = part.base(metric).map_or_else(|| "not measured".to_owned(), |value| plain_quantity(value, &metric.unit));
    let better = if metric.more_is_better { "more is better" } else { "less is better" };
    let published = published(part.published(metric, &analysis.baseline));
    let label = part.heading(metric, among);
    let line = format!("{label}: {} {base}, {better}{published}", analysis.baseline);
    page.paragraph(2, 4, &line, Ink::Plain);
    for row in part.rows(metric).iter().filter(|row| !row.arm.control) {
        let again = row.value.is_none() && !said.insert((&row.arm.name, row.verdict.clone()));
        form_line(page, row, metric, again);
    }
}

/// A form beside the baseline; `again` when its reason was said before.
fn form_line(page: &mut Page, row: &Row<'_>, metric: &MetricAnalysis, again: bool) {
    let figure = match (row.ratio, row.value) {
        (Some(ratio), _) => ratio.text(),
        (None, Some(value)) => plain_quantity(value, &metric.unit),
        (None, None) => "-".to_owned(),
    };
    let ink = row.ratio.map_or(Ink::Warning, |ratio| verdict_ink(ratio.verdict));
    let ink = if row.ratio.is_none() && row.value.is_some() { Ink::Dim } else { ink };
    let mut name = row.arm.name.clone();
    if name.chars().count() + 5 > NAME {
        page.paragraph(4, 6, &name, Ink::Plain);
        name = String::new();
    }
    let difference = row.difference.as_ref().map(|text| format!("{}; ", crate::whole(text))).unwrap_or_default();
    let verdict = if again { row.verdict.split(": ").next().unwrap_or_default() } else { &row.verdict };
    let said = ascii(&format!("{difference}{verdict}{}", published(row.published)));
    let left = format!("    {name:width$}", width = NAME - 4);
    if page.style.width < NAME + RATIO + WORDS {
        page.labelled(&left, Ink::Plain, &crate::whole(&figure), ink);
        page.paragraph(6, 6, &said, ink);
    } else {
        page.labelled(&format!("{left}{figure:RATIO$}"), Ink::Plain, &said, ink);
    }
}

fn published(text: Option<&str>) -> String {
    text.map(|text| format!("; published {text}")).unwrap_or_default()
}

/// Where the published figures of a panel stand.
fn sources(page: &mut Page, parts: &[&ShownPart<'_>]) {
    for from in published_sources(parts) {
        page.paragraph(2, 4, &format!("published: {from}; another machine"), Ink::Dim);
    }
}

fn footing(page: &mut Page, header: &SuiteHeader, parts: &[ShownPart<'_>]) {
    page.blank();
    let mut label = "A/A";
    for part in parts {
        let shown = part.metrics.iter().filter(|metric| metric.compared);
        let of: Vec<String> = shown.filter_map(|metric| words::control(metric, &part.analysis.control)).collect();
        let of = if of.is_empty() { "not measured: no noise floor, no verdicts".to_owned() } else { of.join("; ") };
        page.labelled(&format!("{label:LABEL$}"), Ink::Dim, &format!("{}: {of}", part.name), Ink::Plain);
        label = "";
    }
    let mut label = "trials";
    for part in parts {
        page.labelled(&format!("{label:LABEL$}"), Ink::Dim, &format!("{}: {}", part.name, part.counts()), Ink::Plain);
        label = "";
    }
    let mut warn = |text: &str| page.labelled(&format!("{:LABEL$}", "WARNING"), Ink::Warning, text, Ink::Warning);
    warnings(header, parts).iter().for_each(|warning| warn(warning));
    for part in parts {
        crate::warnings::lines(part.analysis).iter().for_each(|warning| warn(&format!("{}: {warning}", part.name)));
    }
}

/// Terminals get ASCII.
fn ascii(text: &str) -> String {
    text.replace('\u{b5}', "u")
}
