//! CSV in the long form: one row for each trial and metric, of a load in steps for each level too (`throughput@100`),
//! and for each figure of the kernel's counters; a trial without figures has one row that says why.

use crate::Style;
use tare_core::fault::Fault;
use tare_core::record::{CPU_PER_OP, Record};
use tare_core::trial::Outcome;
use tare_stats::{Analysis, evidence, level_figures};

/// What stands before the name of a figure that the kernel's counters make, beside the metrics of every trial.
const EVIDENCE: &str = "evidence.";

/// The names of the columns.
pub(crate) const COLUMNS: &str = "run,trial,block,arm,form,control,emulated,outcome,metric,unit,value,why\n";

/// Renders rows of RFC 4180 under a header.
pub(crate) fn render(record: &Record, analysis: &Analysis, _: &Style) -> Result<String, Fault> {
    Ok(COLUMNS.to_owned() + &rows(record, analysis, ""))
}

/// The rows of a record, each behind `before`, which is whole cells with their commas.
pub(crate) fn rows(record: &Record, analysis: &Analysis, before: &str) -> String {
    let mut text = String::new();
    let mut trials: Vec<_> = record.trials.iter().collect();
    trials.sort_by_key(|trial| trial.record.trial.index);
    for data in trials {
        let trial = &data.record;
        let planned = &trial.trial;
        let arm = analysis.arms.iter().find(|arm| arm.name == planned.arm());
        let emulated = trial.emulated || arm.is_some_and(|arm| arm.emulated.is_some());
        let mut row = |metric: &str, unit: &str, value: &str| {
            let why = trial.outcome.why().map(|why| why.message.as_str()).unwrap_or_default();
            let cells = [
                record.header.run.as_str(),
                &planned.index.to_string(),
                &planned.block.to_string(),
                &planned.arm(),
                &planned.form,
                &planned.control.to_string(),
                &emulated.to_string(),
                trial.outcome.word(),
                metric,
                unit,
                value,
                why,
            ];
            text.push_str(before);
            text.push_str(&cells.map(quoted).join(","));
            text.push('\n');
        };
        if trial.metrics.is_empty() {
            row("", "", "");
        }
        for metric in &analysis.metrics {
            if let Some(value) = trial.metrics.get(&metric.name) {
                row(&metric.name, &metric.unit, &value.to_string());
            }
        }
        let by_level = analysis.response.iter().flat_map(|response| level_figures(data, response));
        for (name, unit, value) in by_level.filter(|_| trial.outcome == Outcome::Measured) {
            row(&name, &unit, &value.to_string());
        }
        for (name, value) in service_costs(analysis, planned.index) {
            row(&name, "us", &value.to_string());
        }
        if trial.outcome == Outcome::Measured {
            for (name, found) in evidence(data) {
                row(&format!("{EVIDENCE}{name}"), found.unit, &found.value.to_string());
            }
        }
    }
    text
}

/// What each service cost in a trial, level by level: `cpu_us_per_op:web@100`.
fn service_costs(analysis: &Analysis, trial: u32) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for (level, costs) in analysis.costs.iter().filter_map(|costs| Some((costs.level?, costs))) {
        for part in costs.arms.iter().flat_map(|arm| &arm.parts) {
            let value = part.estimate.values.iter().find(|value| value.trial == trial);
            let name = format!("{CPU_PER_OP}:{}@{level}", crate::costs::label(part));
            all.extend(value.map(|value| (name, value.value)));
        }
    }
    all
}

/// Quoted when it must be. A cell that a spreadsheet would take for a formula gets an apostrophe.
pub(crate) fn quoted(cell: &str) -> String {
    let risky = cell.starts_with(['=', '@', '+', '-']) && cell.parse::<f64>().is_err();
    let cell = if risky { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn cells_are_quoted_when_they_must_be_and_never_formulas() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(quoted("=cmd()"), "'=cmd()");
        assert_eq!(quoted("-1.5"), "-1.5");
    }
}
