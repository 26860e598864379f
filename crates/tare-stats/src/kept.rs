//! Whether trials under a given load kept the QoS. A search for the peak asks that of its windows instead.

use crate::analysis::QosKept;
use crate::histogram::decode;
use std::collections::BTreeMap;
use tare_core::load::{LoadSummary, OperationSummary};
use tare_core::qos::{Qos, QuantileLimit};
use tare_core::units::show_duration;

/// How many of these trials kept `qos`, and what was broken most often.
pub(crate) fn qos_kept<'a>(qos: &Qos, loads: impl IntoIterator<Item = &'a LoadSummary>) -> QosKept {
    let (mut kept, mut of) = (0, 0);
    let mut times: BTreeMap<String, (u32, String)> = BTreeMap::new();
    for load in loads {
        let broken = breaches(qos, load);
        (kept, of) = (kept + u32::from(broken.is_empty()), of + 1);
        for (what, seen) in broken {
            let entry = times.entry(what).or_insert((0, seen));
            entry.0 += 1;
        }
    }
    let most = times.into_iter().max_by_key(|(_, (count, _))| *count);
    QosKept { kept, of, broken: most.map(|(what, (count, seen))| format!("{what} in {count}, such as {seen}")) }
}

/// What a trial broke, and what was seen instead. An operation that failed is late as well.
fn breaches(qos: &Qos, load: &LoadSummary) -> Vec<(String, String)> {
    let mut broken = Vec::new();
    for (name, operation) in &load.operations {
        for limit in qos.limits(name) {
            if let Some(seen) = late(load, operation, limit) {
                broken.push((format!("{name} {}", limit.describe()), seen));
            }
        }
    }
    let answered: u64 = load.operations.values().map(|operation| operation.count).sum();
    let failed: u64 = load.operations.values().map(|operation| operation.errors).sum();
    let all = (answered + failed).max(1) as f64;
    let mut hold = |what: String, share: f64, breaks: bool| {
        if breaks {
            broken.push((what, format!("{} %", (share * 1e4).round() / 1e2)));
        }
    };
    if let Some(most) = qos.failures {
        let share = failed as f64 / all;
        hold("failures".to_owned(), share, share > most);
    }
    if let Some(least) = qos.achieved.filter(|_| load.offered > 0) {
        let share = answered as f64 / load.offered as f64;
        hold("answered of what was offered".to_owned(), share, share < least);
    }
    for (name, operation) in load.operations.iter().filter(|_| qos.mix.is_some()) {
        let asked = (operation.count + operation.errors) as f64 / all;
        let share = operation.count as f64 / answered.max(1) as f64;
        let off = (share / asked - 1.0).abs();
        hold(format!("{name}'s part of the mix"), off, asked > 0.0 && qos.mix.is_some_and(|most| off > most));
    }
    broken.extend(off_shares(qos, load));
    broken
}

/// Which operations had another share of all right answers than the QoS asks of them, in words, and which they had.
pub fn off_shares(qos: &Qos, load: &LoadSummary) -> Vec<(String, String)> {
    let of = |name: &String| load.operations.get(name).map_or(0, |operation| operation.count);
    let all: u64 = load.operations.keys().map(of).sum();
    let off = qos.shares.iter().filter(|(name, share)| share.broken_by(of(name), all));
    let told = off.map(|(name, share)| {
        let had = of(name) as f64 / all.max(1) as f64;
        (format!("{name} {} of all", share.describe()), format!("{} %", (had * 1e4).round() / 1e2))
    });
    told.collect()
}

/// What the quantile was, where too many operations took longer than they may.
fn late(load: &LoadSummary, operation: &OperationSummary, limit: &QuantileLimit) -> Option<String> {
    let within_ns = u64::try_from(limit.within.as_nanos()).unwrap_or(u64::MAX);
    if operation.response_time.is_empty() {
        // A tool of others gives a few percentiles of everything together.
        let digits = format!("p{}_us", (limit.quantile * 1e6).round() / 1e4).replace('.', "");
        let us = load.reported.get(&digits)?;
        return (us * 1e3 > within_ns as f64).then(|| show_us(*us));
    }
    let times = decode(&operation.response_time).ok()?;
    let all = times.len() + operation.errors;
    let in_time = times.count_between(0, within_ns);
    let share = (all - in_time) as f64 / all.max(1) as f64;
    (share > limit.allowed()).then(|| show_us(times.value_at_quantile(limit.quantile) as f64 / 1e3))
}

fn show_us(us: f64) -> String {
    show_duration(std::time::Duration::from_micros(us.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::tests::operation;
    use std::time::Duration;

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
        assert_eq!(failing[0].0, "get p99 within 5 ms");
        assert_eq!(breaches(&p99(9), &load(slow(11), 0)), [], "the limit itself is in time");
    }

    #[test]
    fn shares_are_held_against_what_is_asked() {
        let qos = Qos { failures: Some(0.01), achieved: Some(0.95), ..Qos::default() };
        let good = load((0..990).map(|_| 100), 9);
        assert_eq!(breaches(&qos, &good), []);
        let bad = breaches(&qos, &load((0..940).map(|_| 100), 60));
        assert_eq!(
            bad.iter().map(|(what, _)| what.as_str()).collect::<Vec<_>>(),
            ["failures", "answered of what was offered"]
        );
        assert_eq!(bad[0].1, "6 %");
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
        assert_eq!(mixed(149, 1_000), [("get 10 % give or take 20 % of all".to_owned(), "14.9 %".to_owned())]);
        assert_eq!(mixed(130, 10_000).len(), 1, "too few");
        assert_eq!(mixed(1_250, 10_000), []);
        assert_eq!(mixed(1_300, 10_000).len(), 1);
    }

    #[test]
    fn what_was_broken_most_is_named() {
        let (good, bad) = (load((0..1_000).map(|_| 100), 0), load((0..1_000).map(|_| 9_000), 0));
        let all = qos_kept(&p99(5), [&good, &bad, &bad]);
        assert_eq!((all.kept, all.of), (1, 3));
        assert!(all.broken.unwrap().starts_with("get p99 within 5 ms in 2, such as 9"));
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
