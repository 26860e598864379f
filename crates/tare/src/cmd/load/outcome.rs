//! The figures of a load, from its summary, or from its rows if it was cut short.

use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary, OperationSummary, SecondRow};
use tare_core::units::exact_duration;
use tare_report::plain_quantity;
use tare_stats::{Percentiles, percentiles};

/// With more failed operations than this share of all, the load counts as failed.
const FAILED_SHARE_MAX: f64 = 0.01;
/// If more than this share of the answers to an operation were empty, the intended work was not measured.
const EMPTY_SHARE_MAX: f64 = 0.5;
/// Below this share of the planned rate, the rate was missed.
const RATE_SHARE_MIN: f64 = 0.99;

/// The figures of a load.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Measured time, s.
    pub(super) seconds: f64,
    /// Operations answered correctly.
    pub(super) operations: u64,
    /// Operations not answered correctly, or not at all.
    pub(super) errors: u64,
    /// Correct answers per second.
    pub(super) throughput: f64,
    /// Planned starts per second, if starts were planned.
    pub(super) offered: Option<f64>,
    /// Operations planned but never started.
    pub(super) dropped: u64,
    /// Number of failures by name.
    pub(super) failures: BTreeMap<String, u64>,
    /// From the planned start to the answer; operations that failed rank last.
    pub(super) response: Percentiles,
    /// From the actual start to the answer.
    pub(super) service: Percentiles,
    /// Response and service times of each operation.
    pub(super) by_operation: BTreeMap<String, (Percentiles, Percentiles)>,
    /// CPU time of the generator, s, and how many CPUs it had.
    pub(super) generator: Option<(f64, u32)>,
    /// Reasons to distrust the figures: a word and a sentence each.
    pub(super) trouble: Vec<(&'static str, String)>,
    /// Whether the generator was the limit, or did not keep its rate.
    pub(super) limited: bool,
    /// Whether the service failed.
    pub(super) failed: bool,
}

/// The planned rate, per second, if starts are planned.
fn planned(profile: &LoadProfile) -> Option<f64> {
    match profile {
        LoadProfile::Open { rate, .. } => Some(*rate),
        LoadProfile::Guided { of, .. } => planned(of),
        _ => None,
    }
}

impl Measured {
    /// From a summary.
    ///
    /// # Errors
    /// When a histogram of it cannot be read.
    pub(super) fn new(plan: &LoadPlan, summary: &LoadSummary) -> Result<Self, Fault> {
        let seconds = summary.measure_end_ns.saturating_sub(summary.measure_start_ns) as f64 / 1e9;
        let all = || summary.operations.values();
        let read = |texts: Vec<&str>, failed| percentiles(texts, failed).map_err(Fault::new);
        let failed = all().map(|operation| operation.errors).sum::<u64>() + summary.dropped;
        let mut measured = Measured {
            seconds,
            operations: all().map(|operation| operation.count).sum(),
            errors: all().map(|operation| operation.errors).sum(),
            dropped: summary.dropped,
            failures: summary.failures.clone(),
            response: read(all().map(|operation| operation.response_time.as_str()).collect(), failed)?,
            service: read(all().map(|operation| operation.service_time.as_str()).collect(), failed)?,
            generator: Some((summary.generator_cpu_s, summary.generator_cpus)),
            ..Measured::default()
        };
        for (name, OperationSummary { response_time, service_time, errors, .. }) in &summary.operations {
            let both = (read(vec![response_time], *errors)?, read(vec![service_time], *errors)?);
            measured.by_operation.insert(name.clone(), both);
        }
        measured.throughput = if seconds > 0.0 { measured.operations as f64 / seconds } else { 0.0 };
        measured.take_reported(&summary.reported);
        measured.offered = planned(&plan.profile).map(|_| summary.offered as f64 / seconds.max(1e-9));
        measured.judge(plan, summary);
        Ok(measured)
    }

    /// Takes a tool's own figures, where it has no histogram.
    fn take_reported(&mut self, reported: &BTreeMap<String, f64>) {
        let figure = |name: &str| reported.get(name).copied();
        if reported.is_empty() {
            return;
        }
        self.throughput = figure("throughput").unwrap_or(self.throughput);
        self.response = Percentiles {
            p50_us: figure("p50_us"),
            p90_us: figure("p90_us"),
            p99_us: figure("p99_us"),
            p999_us: figure("p999_us"),
            max_us: figure("max_us"),
            mean_us: figure("mean_us"),
        };
        self.service = self.response;
    }

    fn judge(&mut self, plan: &LoadPlan, summary: &LoadSummary) {
        if let Some(why) = &summary.saturated {
            self.trouble.push(("saturated", why.clone()));
            self.limited = true;
        }
        let wanted = planned(&plan.profile).map(|rate| rate * self.seconds).filter(|wanted| *wanted > 0.0);
        if let Some(wanted) = wanted.filter(|wanted| (summary.started as f64) < wanted * RATE_SHARE_MIN) {
            let share = summary.started as f64 / wanted * 100.0;
            let dropped = if summary.dropped > 0 { "; too many were in flight, so others were dropped" } else { "" };
            self.trouble.push(("rate missed", format!("only {share:.1} % of the operations were started{dropped}")));
            self.limited = true;
        }
        self.trouble.extend(nothing_found(summary).map(|text| ("nothing found", text)));
        if plan.hdr_log.is_some() && !summary.reported.is_empty() {
            self.trouble.push(("no log", "an external tool reports figures but no histogram".to_owned()));
        }
        for check in summary.checks.iter().filter(|check| !check.passed) {
            self.trouble.push(("failed check", format!("{}: {}", check.name, check.detail)));
            self.failed = true;
        }
        let all = (self.operations + self.errors) as f64;
        if self.operations == 0 || self.errors as f64 > all * FAILED_SHARE_MAX {
            let text = if self.operations == 0 {
                "no operation was answered correctly"
            } else {
                "more than 1 % of the operations failed"
            };
            self.trouble.push(("failed", text.to_owned()));
            self.failed = true;
        }
    }

    /// Whether nothing was measured, so that no figure means anything.
    pub(super) fn nothing(&self) -> bool {
        self.seconds <= 0.0
    }

    /// Notes that the user interrupted it; `planned` is the planned measuring time.
    pub(super) fn interrupted(&mut self, planned: Duration) {
        let text = format!("ended after {:.1} s of {}", self.seconds, exact_duration(planned));
        self.trouble.push(("interrupted", text));
    }

    /// From the rows of a load that was cut short. Percentiles of different seconds cannot be combined, so only the
    /// maximum is known.
    pub(super) fn of_rows(rows: &[SecondRow]) -> Self {
        let rows = || rows.iter().filter(|row| row.measured);
        let seconds: f64 = rows().map(|row| row.seconds).sum();
        let operations = rows().map(|row| row.operations).sum();
        let max_us = rows().map(|row| row.max_us).filter(|us| *us > 0.0).reduce(f64::max);
        let times = Percentiles { max_us, ..Percentiles::default() };
        Measured {
            seconds,
            operations,
            errors: rows().map(|row| row.errors).sum(),
            throughput: if seconds > 0.0 { operations as f64 / seconds } else { 0.0 },
            dropped: rows().map(|row| row.dropped).sum(),
            response: times,
            service: times,
            trouble: vec![("interrupted", cut_short(rows().map(|row| row.p99_us).filter(|us| *us > 0.0)))],
            ..Measured::default()
        }
    }

    /// For programs: the figures, and the summary that they come from.
    pub(super) fn json(&self, plan: &LoadPlan, target: &str, summary: Option<&LoadSummary>) -> serde_json::Value {
        let times = |times: &Percentiles| {
            json!({
                "p50_us": times.p50_us, "p90_us": times.p90_us, "p99_us": times.p99_us, "p999_us": times.p999_us,
                "mean_us": times.mean_us, "max_us": times.max_us,
            })
        };
        let by_operation: serde_json::Map<_, _> = self
            .by_operation
            .iter()
            .map(|(name, (response, service))| {
                (name.clone(), json!({"response_time": times(response), "service_time": times(service)}))
            })
            .collect();
        json!({
            "protocol": plan.protocol,
            "target": target,
            "profile": plan.profile,
            "seconds": self.seconds,
            "operations": self.operations,
            "errors": self.errors,
            "failures": self.failures,
            "throughput": self.throughput,
            "offered": self.offered,
            "dropped": self.dropped,
            "response_time": times(&self.response),
            "service_time": times(&self.service),
            "by_operation": by_operation,
            "generator_cpu_s": self.generator.map(|(cpu_s, _)| cpu_s),
            "limited": self.limited,
            "failed": self.failed,
            "trouble": self.trouble.iter().map(|(name, why)| json!({"what": name, "why": why})).collect::<Vec<_>>(),
            "summary": summary,
        })
    }
}

/// Names the operations that looked for something and mostly found nothing, which is quickly answered.
fn nothing_found(summary: &LoadSummary) -> Option<String> {
    let share = |operation: &OperationSummary| operation.empty as f64 / operation.count.max(1) as f64;
    let empty = summary.operations.iter().filter(|(_, operation)| share(operation) > EMPTY_SHARE_MAX);
    let named: Vec<String> =
        empty.map(|(name, operation)| format!("{:.1} % of '{name}'", share(operation) * 100.0)).collect();
    let hint = "write the data first with --populate (all of it with --option populate=all)";
    (!named.is_empty()).then(|| format!("{} found nothing: {hint}", named.join(" and ")))
}

/// Percentiles of different seconds cannot be combined, so this gives their range.
fn cut_short(p99_us: impl Iterator<Item = f64>) -> String {
    let range = p99_us.fold(None, |range: Option<(f64, f64)>, us| {
        Some(range.map_or((us, us), |(low, high)| (low.min(us), high.max(us))))
    });
    match range {
        Some((low, high)) => {
            let (low, high) = (plain_quantity(low, "us"), plain_quantity(high, "us"));
            format!("the p99 of each second was between {low} and {high}")
        }
        None => "before a second was measured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::{Arrivals, Check};

    fn plan() -> LoadPlan {
        let open = LoadProfile::Open { rate: 100.0, arrivals: Arrivals::Constant, connections: 1, in_flight: 1 };
        let measure = Duration::from_secs(10);
        LoadPlan { measure, ..LoadPlan::of("x", json!({}), ([127, 0, 0, 1], 1).into(), open) }
    }

    fn summary() -> LoadSummary {
        let operation = OperationSummary { count: 990, errors: 0, ..OperationSummary::default() };
        LoadSummary {
            measure_end_ns: 10_000_000_000,
            operations: BTreeMap::from([("get".to_owned(), operation)]),
            offered: 1000,
            started: 1000,
            ..LoadSummary::default()
        }
    }

    #[test]
    fn a_good_load_has_no_trouble_and_a_bad_one_has() {
        let good = Measured::new(&plan(), &summary()).unwrap();
        assert!(!good.limited && !good.failed && good.trouble.is_empty(), "{good:?}");
        assert_eq!((good.throughput, good.offered), (99.0, Some(100.0)));
        let missed = LoadSummary { started: 980, ..summary() };
        assert!(Measured::new(&plan(), &missed).unwrap().limited);
        let saturated = LoadSummary { saturated: Some("busy".into()), ..summary() };
        assert!(Measured::new(&plan(), &saturated).unwrap().limited);
        let wrong = LoadSummary {
            checks: vec![Check { always: false, outcome: false, name: "a".into(), passed: false, detail: "b".into() }],
            ..summary()
        };
        assert!(Measured::new(&plan(), &wrong).unwrap().failed);
        let mut errors = summary();
        errors.operations.get_mut("get").unwrap().errors = 11;
        assert!(Measured::new(&plan(), &errors).unwrap().failed);
        errors.operations.clear();
        assert!(Measured::new(&plan(), &errors).unwrap().failed, "nothing was answered");
    }

    #[test]
    fn reads_that_find_nothing_are_noted_but_are_no_failure() {
        let found = |empty| {
            let mut summary = summary();
            summary.operations.get_mut("get").unwrap().empty = empty;
            Measured::new(&plan(), &summary).unwrap()
        };
        assert!(found(0).trouble.is_empty() && found(495).trouble.is_empty());
        let measured = found(990);
        let (what, text) = &measured.trouble[0];
        assert_eq!((*what, measured.failed, measured.limited), ("nothing found", false, false));
        assert!(text.contains("100.0 % of 'get'") && text.contains("--populate"), "{text}");
    }

    #[test]
    fn rows_show_what_was_measured_before_it_was_cut_short() {
        let row = |measured, operations, max_us| SecondRow {
            measured,
            seconds: 1.0,
            operations,
            max_us,
            ..SecondRow::default()
        };
        let cut = Measured::of_rows(&[row(false, 9, 9.0), row(true, 10, 5.0), row(true, 20, 7.0)]);
        assert_eq!((cut.operations, cut.throughput, cut.response.max_us), (30, 15.0, Some(7.0)));
        assert!(!cut.nothing() && Measured::of_rows(&[]).nothing());
    }
}
