//! Tare's own format of a tool's report, for tools written for Tare.
//!
//! One JSON document, the last thing that the tool prints:
//!
//! ```json
//! {"seconds": 1.93,
//!  "operations": {"solve": {"count": 3, "errors": 0}},
//!  "metrics": {"gflops": 61.2},
//!  "checks": [{"name": "residual", "passed": true, "detail": "0.0031 < 16"}],
//!  "facts": {"size": "2000"}}
//! ```
//! `operations` is required. A check that did not pass makes the trial invalid, with its `detail` as the reason.

use super::figure::Concluded;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tare_core::fault::{Doing, Fault};
use tare_core::load::{Check, OperationSummary};

/// A tool's report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolReport {
    /// How long it measured, s; none is as long as it ran.
    seconds: Option<f64>,
    /// By operation.
    operations: BTreeMap<String, Counts>,
    /// By name of the metric. The workload says which of them count; see [`super::options::Metric`].
    #[serde(default, rename = "metrics")]
    _metrics: BTreeMap<String, f64>,
    #[serde(default)]
    checks: Vec<Check>,
    #[serde(default)]
    facts: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    /// Done correctly.
    count: u64,
    /// Done wrongly, or not at all.
    #[serde(default)]
    errors: u64,
}

/// The result in a tool's report. `wall_s` is how long the tool ran.
///
/// # Errors
/// When the document is not such a report, its time is not above 0, or its counts do not fit into 64 bits.
pub(super) fn concluded(document: Value, wall_s: f64) -> Result<Concluded, Fault> {
    let report = ToolReport::deserialize(document).doing("read the tool's result as a report for Tare")?;
    let seconds = report.seconds.unwrap_or(wall_s);
    if !(seconds.is_finite() && seconds > 0.0) {
        return Err(Fault::new(format!("the tool says that it measured for {seconds} s")));
    }
    let sum = |of: fn(&Counts) -> u64| report.operations.values().map(of).try_fold(0, u64::checked_add);
    let sums = sum(|counts| counts.count).zip(sum(|counts| counts.errors));
    let (operations, errors) = sums.ok_or_else(|| Fault::new("the tool counts more than 64 bits can hold"))?;
    let by_operation = report.operations.into_iter().map(|(name, counts)| {
        let summary = OperationSummary { count: counts.count, errors: counts.errors, ..OperationSummary::default() };
        (name, summary)
    });
    Ok(Concluded {
        operations,
        errors,
        reported: BTreeMap::from([("throughput".to_owned(), operations as f64 / seconds)]),
        by_operation: by_operation.collect(),
        checks: report.checks,
        facts: report.facts,
        unmeasured: std::time::Duration::ZERO,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_taken_as_it_is() {
        let report = json!({
            "seconds": 2.0,
            "operations": {"copy": {"count": 3}, "scale": {"count": 5, "errors": 1}},
            "metrics": {"copy": 1e4},
            "checks": [{"name": "results", "passed": false, "detail": "off by 3"}],
            "facts": {"size": "5"},
        });
        let found = concluded(report, 9.0).unwrap();
        assert_eq!((found.operations, found.errors, found.reported["throughput"]), (8, 1, 4.0));
        assert_eq!((found.by_operation["scale"].count, found.by_operation["scale"].errors), (5, 1));
        assert!(!found.checks[0].passed && found.facts["size"] == "5");
        let brief = concluded(json!({"operations": {"solve": {"count": 4}}}), 8.0).unwrap();
        assert_eq!(brief.reported["throughput"], 0.5);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for wrong in [json!({}), json!({"operations": {}, "metric": {}}), json!({"operations": {}, "seconds": 0.0})] {
            assert!(concluded(wrong.clone(), 1.0).is_err(), "{wrong}");
        }
    }
}
