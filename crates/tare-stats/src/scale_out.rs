//! How much more several instances do than fewer.

use crate::arm::Arm;
use crate::bound::Bound;
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::pair::Pair;
use crate::ratios::MetricAnalysis;
use crate::verdict::Withheld;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::form::Form;
use tare_core::record::{FAIRNESS, Record};
use tare_core::study::Study;
use tare_core::workload::Workload;

/// A form against one of the same layers with fewer instances, and perhaps another number of guests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScaleOut {
    /// The form with more.
    pub form: String,
    /// The form with fewer.
    pub against: String,
    /// What there is more of.
    #[serde(rename = "what_data")]
    pub what: Growth,
    /// How many times as many instances.
    pub times: f64,
    /// The form's throughput, or peak load, by the other's; paired within blocks, geometric mean.
    pub speed_up: f64,
    /// Where the truth of it and of the efficiency lies, where they are only bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// 95 % interval of it, by Student's t, for this pair alone; none below 3 blocks and of what ran emulated.
    pub speed_up_interval: Option<Interval>,
    /// The speed-up by [`ScaleOut::times`]: 1 is linear.
    pub efficiency: f64,
    /// 95 % interval of it.
    pub efficiency_interval: Option<Interval>,
    /// Why nothing is said of the two, whatever their figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Throughput of the slowest instance by the mean of all, mean of the trials; where several are loaded.
    pub fairness: Option<f64>,
}

/// What there is more of in one form than in another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// The services of which there are more instances.
    pub services: Vec<Grown>,
    /// Guests of the one and of the other, where that is another number.
    pub guests: Option<(u64, u64)>,
}

/// A service of which there are more instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// The service.
    pub service: String,
    /// Number of instances.
    pub instances: u32,
    /// For this many in the other form.
    pub of: u32,
}

/// By service: how many instances of it a form has.
fn counts(study: &Study, workload: &Workload, form: &Form) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for service in study.deployed(workload, form).services {
        *counts.entry(service.role().to_owned()).or_default() += 1;
    }
    counts
}

/// What there is more of in the first, and how many times; none unless there is more of something and less of nothing.
fn growth(more: &BTreeMap<String, u32>, fewer: &BTreeMap<String, u32>) -> Option<(Vec<Grown>, f64)> {
    let pairs = || more.iter().filter_map(|(service, n)| Some((service, *n, *fewer.get(service)?)));
    let grown: Vec<(&String, u32, u32)> = pairs().filter(|(_, n, of)| n > of).collect();
    if grown.is_empty() || pairs().any(|(_, n, of)| n < of) {
        return None;
    }
    let times = grown.iter().map(|(_, n, of)| f64::from(*n) / f64::from(*of)).fold(1.0, f64::max);
    let grown = grown.into_iter().map(|(service, instances, of)| Grown { service: service.clone(), instances, of });
    Some((grown.collect(), times))
}

/// Each form that has more instances than another one of the same layers, against the one with the fewest: of those,
/// one with as many guests and the same placement, where there is one. By the metric that decides.
pub(crate) fn scale_out(record: &Record, arms: &[Arm], metrics: &[MetricAnalysis]) -> Vec<ScaleOut> {
    let (study, workload) = (&record.header.study, &record.header.workload);
    let metric = metrics.iter().find(|metric| metric.name == record.header.deciding_metric());
    let Some(metric) = metric.filter(|metric| metric.more_is_better) else { return Vec::new() };
    let mut found = Vec::new();
    for form in &study.forms {
        let own = counts(study, workload, form);
        let fewer = study.forms.iter().filter(|other| other.is_like(form)).filter_map(|other| {
            let (services, times) = growth(&own, &counts(study, workload, other))?;
            let guests = Some((form.guests(), other.guests())).filter(|(own, other)| own != other);
            Some((other, Growth { services, guests }, times))
        });
        let best = fewer.max_by(|(one, _, a), (other, _, b)| {
            let alike = |other: &Form| (other.guests() == form.guests(), other.placement == form.placement);
            a.total_cmp(b).then(alike(one).cmp(&alike(other)))
        });
        let Some((against, what, times)) = best else { continue };
        let Some(pair) = Pair::of(&form.name, &against.name, arms, metric) else { continue };
        let interval = pair.interval(0.5 * (1.0 + CONFIDENCE));
        let fairness = metrics.iter().find(|metric| metric.name == FAIRNESS);
        let fairness = fairness.and_then(|metric| metric.estimates.iter().find(|estimate| estimate.arm == form.name));
        let speed_up = pair.log().exp();
        found.push(ScaleOut {
            form: form.name.clone(),
            against: against.name.clone(),
            what,
            times,
            speed_up,
            bound: pair.bound,
            speed_up_interval: interval,
            efficiency: speed_up / times,
            efficiency_interval: interval.map(|i| Interval { low: i.low / times, high: i.high / times }),
            withheld: pair.withheld,
            fairness: fairness.map(|estimate| estimate.mean),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_of_one_and_less_of_none_is_growth() {
        let counts = |text: &str| -> BTreeMap<String, u32> {
            text.split(' ')
                .map(|part| part.split_once('=').unwrap())
                .map(|(s, n)| (s.into(), n.parse().unwrap()))
                .collect()
        };
        let grown = growth(&counts("redis=8 proxy=8 balancer=1"), &counts("redis=1 proxy=1 balancer=1")).unwrap();
        let eight = |service: &str| Grown { service: service.into(), instances: 8, of: 1 };
        assert_eq!(grown, (vec![eight("proxy"), eight("redis")], 8.0));
        assert_eq!(growth(&counts("redis=4 proxy=1"), &counts("redis=2 proxy=1")).unwrap().1, 2.0);
        assert_eq!(growth(&counts("redis=4 proxy=1"), &counts("redis=2 proxy=2")), None);
        assert_eq!(growth(&counts("redis=4"), &counts("redis=4")), None);
    }
}
