//! Whether a ratio follows the speed of the machine.
//!
//! A machine that others use too, or whose clock changes, serves faster in one block than in the next. Forms of a block
//! share that, so that it cancels in their ratio, unless what a form costs is itself of another speed: a wake-up takes
//! as long on a faster clock. Then the ratio has no single value here: its interval is as wide as the speeds that the
//! run met, and says what they average to.
//!
//! By ordinary least squares of the ratio's log on that of the A/A control's throughput, over blocks. The control
//! shares no trial with the ratio. By the baseline's own throughput, which is in the ratio, its noise would follow
//! itself. The control's own noise makes the slope flatter than it is, never steeper.

use crate::estimate::block_logs;
use crate::paired::Differences;
use crate::quantile::student_quantile;
use crate::ratios::{AtSpeed, Follows, MetricAnalysis};
use crate::verdict::Verdict;
use std::collections::BTreeMap;
use tare_core::design::Arrangement;
use tare_core::load::LoadProfile;
use tare_core::record::Record;

/// With fewer blocks a few of them make a line by chance.
const BLOCKS: usize = 8;
/// The probability that any ratio of a run is found to follow a speed that it does not follow.
const LEVEL: f64 = 0.01;
/// A ratio that changes by less over the speeds of a run has one value for its readers.
const SHARE_MIN: f64 = 0.01;
/// Speeds that lie nearer to each other, log scale, are one.
const SPEED_MIN: f64 = 0.01;

/// Adds to each ratio of forms how it follows the machine's speed, where it does: of closed loops, for the throughput
/// of others is what they were asked for, and not in duets, whose pairs each have a time of their own. Nor of a ratio
/// that is a bound, as the generator's speed makes it, or is withheld.
pub(crate) fn add(record: &Record, metrics: &mut [MetricAnalysis], control: &str) {
    let baseline = record.header.study.baseline.as_str();
    let study = &record.header.study;
    if study.design.arrangement == Arrangement::Duet || !matches!(study.load, LoadProfile::Closed { .. }) {
        return;
    }
    let throughput = metrics.iter().find(|metric| metric.name == "throughput");
    let of_control = throughput.and_then(|metric| metric.estimates.iter().find(|estimate| estimate.arm == control));
    let Some(speeds) = of_control.map(block_logs) else { return };
    let asked = |metric: &MetricAnalysis, arm: &str| metric.compared && arm != control && arm != baseline;
    let count = |metric: &MetricAnalysis| metric.ratios.iter().filter(|ratio| asked(metric, &ratio.arm)).count();
    let all: usize = metrics.iter().map(count).sum();
    for metric in metrics {
        let logs: BTreeMap<String, _> =
            metric.estimates.iter().map(|estimate| (estimate.arm.clone(), block_logs(estimate))).collect();
        let compared = metric.compared;
        for ratio in metric.ratios.iter_mut().filter(|ratio| compared && ratio.arm != control && ratio.arm != baseline)
        {
            if ratio.verdict == Verdict::Emulated || ratio.bound.is_some() || ratio.withheld.is_some() {
                continue;
            }
            let (Some(own), Some(other)) = (logs.get(&ratio.arm), logs.get(baseline)) else { continue };
            let differences = Differences::of(own, other);
            let blocks = differences.blocks.iter().zip(&differences.values);
            let points: Vec<(f64, f64)> =
                blocks.filter_map(|(block, value)| Some((*speeds.get(block)?, *value))).collect();
            ratio.follows = follows(&points, LEVEL / all as f64);
        }
    }
}

/// The line through points of log speed and log ratio, where it is none by chance at a two-sided `level`.
fn follows(points: &[(f64, f64)], level: f64) -> Option<Follows> {
    let n = points.len();
    if n < BLOCKS {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n as f64;
    let (middle, height) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|(x, _)| (x - middle).powi(2)).sum();
    let slope = points.iter().map(|(x, y)| (x - middle) * (y - height)).sum::<f64>() / across;
    let left: f64 = points.iter().map(|(x, y)| (y - height - slope * (x - middle)).powi(2)).sum();
    let degrees = n as f64 - 2.0;
    let error = (left / degrees / across).sqrt();
    let at = |x: f64| AtSpeed { throughput: x.exp(), ratio: (height + slope * (x - middle)).exp() };
    let slow = at(points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min));
    let fast = at(points.iter().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max));
    // Of speeds that are all the same nothing is a number.
    let certain = slope.abs() > student_quantile(1.0 - 0.5 * level, degrees) * error;
    let varied = (fast.throughput / slow.throughput).ln() >= SPEED_MIN;
    let matters = varied && (fast.ratio / slow.ratio).ln().abs() >= SHARE_MIN;
    (certain && matters).then_some(Follows { slow, fast })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Bound, BoundCause, Side};
    use crate::estimate::{BlockValue, Estimate};
    use crate::family::tests::Noise;
    use crate::ratios::Ratio;
    use crate::verdict::Withheld;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use serde_json::json;
    use tare_core::load::Arrivals;

    #[test]
    fn a_ratio_that_changes_with_the_speed_is_seen_and_told_at_both_ends() {
        // Speeds as of a machine that others use half of the time, and a median 5 % longer where it is fast.
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(1));
        let points: Vec<(f64, f64)> = (0..11)
            .map(|block| {
                let fast = if block % 2 == 0 { 0.15 } else { 0.0 };
                (100_000_f64.ln() + fast + 0.004 * noise.normal(), 0.4 + fast / 3.0 + 0.004 * noise.normal())
            })
            .collect();
        let Follows { slow, fast } = follows(&points, LEVEL / 8.0).unwrap();
        assert!((slow.ratio.ln() - 0.4).abs() < 0.01 && (fast.ratio.ln() - 0.45).abs() < 0.01, "{slow:?} {fast:?}");
        assert!((slow.throughput / 100_000.0).ln().abs() < 0.02 && fast.throughput > 115_000.0, "{slow:?} {fast:?}");
        assert_eq!(follows(&points[..BLOCKS - 1], LEVEL / 8.0), None, "too few");
    }

    #[test]
    fn of_ratios_that_follow_nothing_as_few_are_said_to_as_is_promised() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(2));
        let runs = 4000;
        let found = (0..runs)
            .filter(|_| {
                let points: Vec<(f64, f64)> = (0..9).map(|_| (0.1 * noise.normal(), 0.03 * noise.normal())).collect();
                follows(&points, 0.05).is_some()
            })
            .count();
        let share = found as f64 / f64::from(runs);
        assert!((0.04..0.06).contains(&share), "{share}");
    }

    #[test]
    fn a_machine_of_one_speed_has_no_line() {
        let points: Vec<(f64, f64)> = (0..9).map(|block| (11.0, 0.01 * f64::from(block))).collect();
        assert_eq!(follows(&points, LEVEL), None);
        // And a change that nobody would mind is none.
        let points: Vec<(f64, f64)> = (0..9).map(|block| (0.01 * f64::from(block), 0.001 * f64::from(block))).collect();
        assert_eq!(follows(&points, LEVEL), None);
    }

    #[test]
    fn speeds_that_lie_within_a_hundredth_of_each_other_are_one() {
        let points = |each: f64| -> Vec<(f64, f64)> {
            (0..9).map(|block| (each * f64::from(block), 0.01 * f64::from(block))).collect()
        };
        assert_eq!(follows(&points(0.0012), LEVEL), None);
        assert!(follows(&points(0.0013), LEVEL).is_some());
    }

    fn record() -> Record {
        let second = json!({"secs": 1, "nanos": 0});
        let header = json!({
            "schema": 1, "tare": "0", "run": "r", "started": "", "command": "", "seed": 1, "plan": [], "forms": {},
            "environment": {}, "bundles": {}, "placement": {},
            "study": {
                "name": "s", "question": "", "workload": "w", "baseline": "plain", "repeat": 9, "from": "outside",
                "load": {"closed": {"connections": 1, "pipeline": 1}}, "settle": second, "measure": second,
                "timeout": second, "emulated_blocks": 1, "forms": [], "options": {},
            },
            "workload": {
                "name": "w", "about": "", "services": [],
                "protocol": {"protocol": "p", "service": "db", "port": "main", "options": {}},
            },
        });
        let header = serde_json::from_value(header).unwrap();
        Record { header, trials: Vec::new(), profiles: Vec::new(), end: None }
    }

    /// The throughput of a box that loses a third of what the machine, the A/A control and nobody else gains.
    fn throughput() -> MetricAnalysis {
        let estimate = |(arm, gain): (&str, f64)| {
            let value = |block| (gain * f64::from(block % 2)).exp();
            let values = (0..9).map(|block| BlockValue { block, trial: block, value: value(block) }).collect();
            Estimate { arm: arm.into(), values, at_least: Vec::new(), mean: 1.0, geometric_mean: None, interval: None }
        };
        let estimates = [("plain", 0.0), ("plain (A/A)", 0.15), ("box", -0.05)].map(estimate);
        MetricAnalysis::of_throughput(estimates.into(), vec![Ratio::of_box(0.98, 9, Verdict::Worse)])
    }

    #[test]
    fn only_ratios_of_closed_loops_that_the_report_stands_by_are_held_against_the_speed() {
        type Change = fn(&mut Record, &mut MetricAnalysis);
        let is_told = |change: Change| {
            let (mut record, mut metric) = (record(), throughput());
            change(&mut record, &mut metric);
            let mut metrics = [metric];
            add(&record, &mut metrics, "plain (A/A)");
            metrics[0].ratios[0].follows.is_some()
        };
        assert!(is_told(|_, _| {}));
        let changes: [(&str, Change); 8] = [
            ("a metric that is not compared", |_, metric| metric.compared = false),
            ("an open loop", |record, _| {
                let (arrivals, connections, in_flight) = (Arrivals::Constant, 1, 1);
                record.header.study.load = LoadProfile::Open { rate: 1.0, arrivals, connections, in_flight };
            }),
            ("a duet", |record, _| record.header.study.design.arrangement = Arrangement::Duet),
            ("seven blocks with a control", |_, metric| metric.estimates[1].values.truncate(7)),
            ("the control itself", |_, metric| metric.ratios[0].arm = "plain (A/A)".into()),
            ("an emulated form", |_, metric| metric.ratios[0].verdict = Verdict::Emulated),
            ("a bound", |_, metric| {
                metric.ratios[0].bound = Some(Bound { side: Side::AtMost, cause: BoundCause::Generator });
            }),
            ("a ratio that is withheld", |_, metric| metric.ratios[0].withheld = Some(Withheld::VoidTooOften)),
        ];
        let told: Vec<&str> = changes.iter().filter(|(_, it)| is_told(*it)).map(|(what, _)| *what).collect();
        assert!(told.is_empty(), "{told:?}");
    }
}
