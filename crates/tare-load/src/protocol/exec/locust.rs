//! Reads the statistics that Locust prints with `--json` (Locust 2.15 and later): a list with one entry for each kind
//! of request.
//!
//! `num_requests` includes those that failed. Response times are counted in milliseconds, rounded to two digits.

use super::figure::Concluded;
use super::samples::Samples;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tare_core::fault::{Doing, Fault};

/// One kind of request.
#[derive(Debug, Deserialize)]
struct Entry {
    num_requests: u64,
    #[serde(default)]
    num_failures: u64,
    /// When the first request of this kind was made, s since 1970.
    start_time: f64,
    /// When the last one ended.
    last_request_timestamp: Option<f64>,
    /// The count of each time in ms.
    #[serde(default)]
    response_times: BTreeMap<String, u64>,
}

/// Reads what Locust printed as JSON. `wall_s` is how long it ran.
///
/// # Errors
/// When that is not such a list, or has no request.
pub(super) fn conclude(document: Value, wall_s: f64) -> Result<Concluded, Fault> {
    let entries = Vec::<Entry>::deserialize(document).doing("read Locust's statistics")?;
    let (mut samples, mut answered, mut failed) = (Samples::default(), 0_u64, 0_u64);
    let (mut began, mut ended) = (f64::INFINITY, f64::NEG_INFINITY);
    for entry in &entries {
        answered = answered.saturating_add(entry.num_requests);
        failed = failed.saturating_add(entry.num_failures);
        began = began.min(entry.start_time);
        ended = ended.max(entry.last_request_timestamp.unwrap_or(entry.start_time));
        for (ms, count) in &entry.response_times {
            let ms = ms.parse::<f64>().doing(format_args!("read the response time '{ms}' of Locust's statistics"))?;
            // A number that is none, or below zero, becomes 0.
            samples.add((ms * 1e3).round() as u64, *count);
        }
    }
    samples.conclude(answered, failed, ended - began, wall_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_requests_are_added_up() {
        let found = conclude(serde_json::from_str(include_str!("fixtures/locust.json")).unwrap(), 4.2).unwrap();
        assert_eq!((found.operations, found.errors), (148, 2));
        assert!((found.reported["throughput"] - 148.0 / 1.721_214).abs() < 1e-3, "{found:?}");
        assert_eq!((found.reported["p50_us"], found.reported["p99_us"]), (44_000.0, 73_000.0));
        assert_eq!(found.reported["max_us"], 81_000.0);
        assert!((found.unmeasured.as_secs_f64() - (4.2 - 1.721_214)).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_has_no_request_is_refused() {
        assert!(conclude(serde_json::json!([]), 2.0).unwrap_err().message.contains("no request"));
        assert!(conclude(serde_json::json!({"num_requests": 5}), 2.0).is_err());
    }
}
