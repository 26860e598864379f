//! Whether trials under a given load kept the QoS. A search for the peak asks that of its windows instead.

use crate::histogram::decode;
use serde::Serialize;
use std::time::Duration;
use tare_core::load::{LoadSummary, OperationSummary};
use tare_core::qos::{Qos, QuantileLimit, Share};

/// How trials under a given load kept the QoS.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QosKept {
    /// So many kept all of it.
    pub kept: u32,
    /// Out of this many that were measured.
    pub of: u32,
    /// What was broken most often, and what was seen instead.
    #[serde(rename = "broken_data")]
    pub broken: Option<Broken>,
}

/// What of a QoS was broken most.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Broken {
    /// Of whole trials.
    InTrials {
        /// What.
        what: Breach,
        /// In how many of them.
        trials: u32,
        /// What was seen in the first of these.
        seen: SeenInstead,
    },
    /// Of a window.
    InWindow {
        /// The criterion, by its name.
        criterion: String,
        /// The share that broke it.
        share: f64,
    },
}

/// A part of a QoS.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Breach {
    /// A quantile of an operation's times.
    Late {
        /// The operation.
        operation: String,
        /// The quantile, of 1.
        quantile: f64,
        /// Where it must lie.
        within: Duration,
    },
    /// The share of operations that may fail.
    Failures,
    /// The share of what was offered that must be answered.
    Achieved,
    /// How far an operation's share of the answers may be from its share of what was asked.
    Mix {
        /// The operation.
        operation: String,
    },
    /// The share of all answers that an operation must have.
    Share {
        /// The operation.
        operation: String,
        /// The share, of 1.
        of: f64,
        /// By how much it may be off, relative to itself.
        within: f64,
    },
}

/// What was there instead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenInstead {
    /// A time.
    Time {
        /// Microseconds.
        us: f64,
    },
    /// A share.
    Share {
        /// Of 1.
        share: f64,
    },
}

/// How many of these trials kept `qos`, and what was broken most often.
pub(crate) fn qos_kept<'a>(qos: &Qos, loads: impl IntoIterator<Item = &'a LoadSummary>) -> QosKept {
    let (mut kept, mut of) = (0, 0);
    let mut times: Vec<(Breach, u32, SeenInstead)> = Vec::new();
    for load in loads {
        let broken = breaches(qos, load);
        (kept, of) = (kept + u32::from(broken.is_empty()), of + 1);
        for (what, seen) in broken {
            match times.iter_mut().find(|(known, ..)| *known == what) {
                Some((_, count, _)) => *count += 1,
                None => times.push((what, 1, seen)),
            }
        }
    }
    let most = times.into_iter().max_by_key(|(_, count, _)| *count);
    QosKept { kept, of, broken: most.map(|(what, trials, seen)| Broken::InTrials { what, trials, seen }) }
}

/// What a trial broke, and what was seen instead. An operation that failed is late as well.
fn breaches(qos: &Qos, load: &LoadSummary) -> Vec<(Breach, SeenInstead)> {
    let mut broken = Vec::new();
    for (name, operation) in &load.operations {
        for limit in qos.limits(name) {
            if let Some(us) = late(load, operation, limit) {
                let what = Breach::Late { operation: name.clone(), quantile: limit.quantile, within: limit.within };
                broken.push((what, SeenInstead::Time { us }));
            }
        }
    }
    let answered: u64 = load.operations.values().map(|operation| operation.count).sum();
    let failed: u64 = load.operations.values().map(|operation| operation.errors).sum();
    let all = (answered + failed).max(1) as f64;
    let mut hold = |what: Breach, share: f64, breaks: bool| {
        if breaks {
            broken.push((what, SeenInstead::Share { share }));
        }
    };
    if let Some(most) = qos.failures {
        let share = failed as f64 / all;
        hold(Breach::Failures, share, share > most);
    }
    if let Some(least) = qos.achieved.filter(|_| load.offered > 0) {
        let share = answered as f64 / load.offered as f64;
        hold(Breach::Achieved, share, share < least);
    }
    for (name, operation) in load.operations.iter().filter(|_| qos.mix.is_some()) {
        let asked = (operation.count + operation.errors) as f64 / all;
        let share = operation.count as f64 / answered.max(1) as f64;
        let off = (share / asked - 1.0).abs();
        let breaks = asked > 0.0 && qos.mix.is_some_and(|most| off > most);
        hold(Breach::Mix { operation: name.clone() }, off, breaks);
    }
    let shares = off_shares(qos, load).into_iter();
    broken.extend(shares.map(|OffShare { operation, asked, had }| {
        (Breach::Share { operation, of: asked.of, within: asked.within }, SeenInstead::Share { share: had })
    }));
    broken
}

/// An operation with another share of all right answers than the QoS asks of it.
#[derive(Debug, Clone, PartialEq)]
pub struct OffShare {
    /// The operation.
    pub operation: String,
    /// What is asked.
    pub asked: Share,
    /// What it had, of 1.
    pub had: f64,
}

/// Which operations had another share of all right answers than the QoS asks of them.
pub fn off_shares(qos: &Qos, load: &LoadSummary) -> Vec<OffShare> {
    let of = |name: &String| load.operations.get(name).map_or(0, |operation| operation.count);
    let all: u64 = load.operations.keys().map(of).sum();
    let off = qos.shares.iter().filter(|(name, share)| share.broken_by(of(name), all));
    let had = |name| of(name) as f64 / all.max(1) as f64;
    off.map(|(name, asked)| OffShare { operation: name.clone(), asked: *asked, had: had(name) }).collect()
}

/// What the quantile was, us, where too many operations took longer than they may.
fn late(load: &LoadSummary, operation: &OperationSummary, limit: &QuantileLimit) -> Option<f64> {
    let within_ns = u64::try_from(limit.within.as_nanos()).unwrap_or(u64::MAX);
    if operation.response_time.is_empty() {
        // A tool of others gives a few percentiles of everything together.
        let digits = format!("p{}_us", (limit.quantile * 1e6).round() / 1e4).replace('.', "");
        let us = load.reported.get(&digits)?;
        return (us * 1e3 > within_ns as f64).then_some(*us);
    }
    let times = decode(&operation.response_time).ok()?;
    let all = times.len() + operation.errors;
    let in_time = times.count_between(0, within_ns);
    let share = (all - in_time) as f64 / all.max(1) as f64;
    (share > limit.allowed()).then(|| times.value_at_quantile(limit.quantile) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::tests::operation;

    fn load(times_us: impl IntoIterator<Item = u64>, errors: u64) -> LoadSummary {
        let operation = OperationSummary { errors, ..operation(times_us.into_iter().map(|us| us * 1_000)) };
        LoadSummary { operations: [("get".to_owned(), operation)].into(), offered: 1_000, ..LoadSummary::default() }
    }

    fn p99(within_ms: u64) -> Qos {
        let limit = QuantileLimit { quantile: 0.99, within: Duration::from_millis(within_ms) };
        Qos { operations: [("*".to_owned(), vec![limit])].into(), ..Qos::default() }
    }

    #[test]
    fn a_limit_is_kept_by_a_share_of_all_and_a_failure_is_late() {
        let slow = |count: usize| (0..1_000).map(move |n| if n < count { 9_000 } else { 1_000 });
        assert_eq!(breaches(&p99(5), &load(slow(10), 0)), []);
        assert_eq!(breaches(&p99(5), &load(slow(11), 0)).len(), 1);
        let failing = breaches(&p99(5), &load(slow(10), 5));
        let late = Breach::Late { operation: "get".into(), quantile: 0.99, within: Duration::from_millis(5) };
        assert_eq!(failing[0].0, late);
        assert_eq!(breaches(&p99(9), &load(slow(11), 0)), [], "the limit itself is in time");
    }

    #[test]
    fn shares_are_held_against_what_is_asked() {
        let qos = Qos { failures: Some(0.01), achieved: Some(0.95), ..Qos::default() };
        let good = load((0..990).map(|_| 100), 9);
        assert_eq!(breaches(&qos, &good), []);
        let bad = breaches(&qos, &load((0..940).map(|_| 100), 60));
        let shares = [(Breach::Failures, 0.06), (Breach::Achieved, 0.94)];
        assert_eq!(bad, shares.map(|(what, share)| (what, SeenInstead::Share { share })));
    }

    #[test]
    fn a_mix_is_off_where_chance_does_not_explain_it() {
        let share = tare_core::qos::Share { of: 0.10, within: 0.20 };
        let qos = Qos { shares: [("get".to_owned(), share)].into(), ..Qos::default() };
        let mixed = |gets: u64, all: u64| {
            let mut load = load((0..gets).map(|_| 100), 0);
            load.operations.insert("set".into(), operation((0..all - gets).map(|_| 100_000)));
            breaches(&qos, &load)
        };
        assert_eq!(mixed(118, 1_000), [], "within 20 %");
        // 3 deviations of 100 expected are 28: beside the 20 that are allowed.
        assert_eq!(mixed(148, 1_000), []);
        assert_eq!(
            mixed(149, 1_000),
            [(Breach::Share { operation: "get".into(), of: 0.10, within: 0.20 }, SeenInstead::Share { share: 0.149 })]
        );
        assert_eq!(mixed(130, 10_000).len(), 1, "too few");
        assert_eq!(mixed(1_250, 10_000), []);
        assert_eq!(mixed(1_300, 10_000).len(), 1);
    }

    #[test]
    fn what_was_broken_most_is_named() {
        let (good, bad) = (load((0..1_000).map(|_| 100), 0), load((0..1_000).map(|_| 9_000), 0));
        let all = qos_kept(&p99(5), [&good, &bad, &bad]);
        assert_eq!((all.kept, all.of), (1, 3));
        let Some(Broken::InTrials { what: Breach::Late { operation, .. }, trials: 2, seen: SeenInstead::Time { us } }) =
            all.broken
        else {
            panic!("{all:?}")
        };
        assert!(operation == "get" && (9_000.0..9_100.0).contains(&us), "{us}");
        assert_eq!(qos_kept(&p99(5), [&good]), QosKept { kept: 1, of: 1, broken: None });
    }

    #[test]
    fn a_tool_s_own_percentiles_are_held_against_the_limit_too() {
        let mut load = load([], 0);
        load.operations.insert("get".into(), OperationSummary { count: 10, ..OperationSummary::default() });
        load.reported.insert("p99_us".into(), 7_000.0);
        assert_eq!(breaches(&p99(5), &load).len(), 1);
        assert_eq!(breaches(&p99(8), &load).len(), 0);
    }
}
