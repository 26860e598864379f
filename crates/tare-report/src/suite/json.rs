//! JSON of several parts: of each what its own report would say, and what is shown of it beside the others.

use super::AnalysedPart;
use super::reference::{Reference, references};
use super::shown::{ShownPart, shown, warnings};
use super::words::headline;
use crate::Style;
use crate::json::{REPORT_SCHEMA, analysed, facts, finite, headlines, written};
use serde_json::{Value, json};
use tare_core::fault::Fault;
use tare_core::record::SuiteHeader;
use tare_stats::absolute_difference;

/// Renders JSON, indented, with a line feed at its end.
pub(crate) fn render(header: &SuiteHeader, parts: &[AnalysedPart<'_>], _: &Style) -> Result<String, Fault> {
    let shown = shown(parts);
    let headline = headline(&shown);
    let of_parts = shown.iter().map(part).collect::<Result<Vec<Value>, Fault>>()?;
    written(&json!({
        "report_schema": REPORT_SCHEMA,
        "suite": header,
        "headlines": headline.lines(),
        "warnings": warnings(header, &shown),
        "parts": of_parts,
    }))
}

fn part(part: &ShownPart<'_>) -> Result<Value, Fault> {
    Ok(json!({
        "part": part.name,
        "panel": part.panel,
        "shows": part.metrics.iter().map(|metric| &metric.name).collect::<Vec<_>>(),
        "published": part.published,
        "beside_published": finite(references(part).iter().map(Reference::json).collect()),
        "header": facts(part.record),
        "headlines": headlines(part.analysis),
        "analysis": analysed(part.analysis)?,
        "differences": differences(part),
    }))
}

/// Every ratio of the part as a difference in its metric's unit.
fn differences(part: &ShownPart<'_>) -> Value {
    let of = |metric: &tare_stats::MetricAnalysis| -> Vec<Value> {
        let difference = |ratio: &tare_stats::Ratio| {
            let found = absolute_difference(metric, &part.analysis.baseline, &ratio.arm)?;
            Some(json!({
                "metric": metric.name,
                "arm": ratio.arm,
                "unit": metric.unit,
                "difference": found.value,
                "interval": found.interval,
            }))
        };
        metric.ratios.iter().filter_map(difference).collect()
    };
    finite(part.analysis.metrics.iter().flat_map(of).collect())
}
