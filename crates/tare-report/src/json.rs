//! JSON: the header's facts and the whole analysis. Its schema is published: `assets/report.schema.json`.

use crate::verdict::VerdictWords;
use crate::words::Headline;
use crate::{Style, qos, scale_out, warnings};
use serde_json::{Value, json};
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_stats::Analysis;

/// The version of the JSON report. Fields may be added within a version.
pub(crate) const REPORT_SCHEMA: u32 = 1;

/// The JSON Schema (draft 2020-12) of the JSON report.
pub fn schema() -> String {
    include_str!("../assets/report.schema.json").to_owned()
}

/// Renders JSON, indented, with a line feed at its end.
pub(crate) fn render(record: &Record, analysis: &Analysis, _: &Style) -> Result<String, Fault> {
    let mut report = json!({ "report_schema": REPORT_SCHEMA });
    if let (Value::Object(report), Value::Object(facts)) = (&mut report, facts(record)) {
        report.extend(facts);
    }
    report["headlines"] = headlines(analysis);
    report["analysis"] = analysed(analysis)?;
    written(&report)
}

/// What the header says of the run.
pub(crate) fn facts(record: &Record) -> Value {
    let header = &record.header;
    json!({
        "record_schema": header.schema,
        "tare": header.tare,
        "run": header.run,
        "started": header.started,
        "end": record.end,
        "command": header.command,
        "study": header.study,
        "workload": { "name": header.workload.name, "about": header.workload.about },
        "seed": header.seed,
        "environment": header.environment,
        "bundles": header.bundles,
        "placement": header.placement,
        "forms": header.forms,
    })
}

/// A sentence or two for each form.
pub(crate) fn headlines(analysis: &Analysis) -> Value {
    crate::headlines::headlines(analysis).iter().map(Headline::line).collect()
}

/// The whole analysis, with words beside the data: verdicts of ratios, warnings, what of a QoS was broken.
pub(crate) fn analysed(analysis: &Analysis) -> Result<Value, Fault> {
    let mut value = serde_json::to_value(analysis).map_err(|error| Fault::from_error("write JSON", &error))?;
    for (at, metric) in analysis.metrics.iter().enumerate() {
        for (number, ratio) in metric.ratios.iter().enumerate() {
            value["metrics"][at]["ratios"][number]["words"] = VerdictWords::of(analysis, metric, ratio).whole().into();
        }
    }
    value["warnings"] = warnings::lines(analysis).into();
    for (at, arm) in analysis.arms.iter().enumerate() {
        if let Some(qos) = &arm.qos {
            value["arms"][at]["qos"]["broken"] = qos.broken.as_ref().map(qos::broken).into();
        }
    }
    for (at, fared) in analysis.response.iter().flat_map(|response| &response.fared).enumerate() {
        for (level, state) in fared.levels.iter().enumerate() {
            if let Some(qos) = &state.qos {
                value["response"]["fared"][at]["levels"][level]["qos"]["broken"] =
                    qos.broken.as_ref().map(qos::broken).into();
            }
        }
    }
    for (at, row) in analysis.scale_out.iter().enumerate() {
        value["scale_out"][at]["what"] = scale_out::what(&row.what).into();
    }
    Ok(finite(value))
}

/// Indented, with a line feed at its end.
pub(crate) fn written(report: &Value) -> Result<String, Fault> {
    let text = serde_json::to_string_pretty(report).map_err(|error| Fault::from_error("write JSON", &error))?;
    Ok(text + "\n")
}

/// Figures carry at most 12 significant digits: more would only differ between builds.
pub(crate) fn finite(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let value = number.as_f64().unwrap_or_default();
            format!("{value:.11e}").parse::<f64>().map_or(Value::Null, Value::from)
        }
        Value::Array(items) => items.into_iter().map(finite).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, finite(value))).collect(),
        other => other,
    }
}
