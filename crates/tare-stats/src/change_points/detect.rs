//! The detector: Welch's test at every split of a window that ends at the newest value, with what neighbouring values
//! have in common taken off their number.

use super::kinship::{Kinship, Side};
use super::winsor::{median, winsorised};
use crate::welch::satterthwaite;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// How unlikely a split must be by chance. It is far below 5 % because every value is an occasion, and every split of
/// the window another one.
pub const CHANGE_P: f64 = 1e-4;

/// The smallest shift that is called a change, as a share.
pub const CHANGE_SHARE: f64 = 0.005;

/// How many values back the window reaches.
pub const CHANGE_WINDOW: usize = 50;

/// Values since the last change point below which nothing is said.
pub const CHANGE_VALUES_MIN: usize = 12;

/// Values that a split leaves on each side at least.
const BEFORE_MIN: usize = 8;
const AFTER_MIN: usize = 3;

/// How far from where it was noticed a change point may finally be placed.
const NEAR: usize = 8;

/// With fewer values after the split than this, their own spread says too little yet: that of the values before is
/// taken. Simulated alarms in 100 values of noise: 0.17 when it is 5, 0.10 when it is 8; steps are found as fast.
const OWN_SPREAD_MIN: usize = 8;

/// A place in a series from which on the values are others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangePoint {
    /// The index of the first value that is different.
    pub at: usize,
    /// The index of the value with which it was noticed; not before `at`.
    pub noticed: usize,
    /// What the values changed by, log scale: the median difference between a value after and one before.
    pub shift: f64,
    /// How likely noise alone is to split the series like this here, for one look at one split.
    pub p: f64,
}

/// The change points of a series of log ratios, oldest first, as they would have been noticed one after the other by
/// someone who looked at every new value. Noise alone raises about one alarm in a thousand values (simulated; see the
/// tests).
pub fn change_points(logs: &[f64]) -> Vec<ChangePoint> {
    let mut found = alarms(logs);
    settle(&mut found, logs);
    found
}

/// The change points as they stood when they were noticed.
fn alarms(logs: &[f64]) -> Vec<ChangePoint> {
    let mut found: Vec<ChangePoint> = Vec::new();
    let mut start = 0;
    let mut pulled = winsorised(logs);
    for newest in 0..logs.len() {
        let from = start.max((newest + 1).saturating_sub(CHANGE_WINDOW));
        // `pulled` begins at the last change point: what was usual before it is no measure for what came after.
        let window = &pulled[from - start..=newest - start];
        let likely = best_split(window, Kinship::NONE).filter(Split::is_change);
        // What has nothing in common has changed; have they?
        let kinship = |split: Split| Kinship::of(&pulled[..=newest - start], from - start + split.before);
        let split = likely.and_then(|split| best_split(window, kinship(split)));
        let Some(split) = split.filter(Split::is_change) else { continue };
        let at = from + split.before;
        found.push(ChangePoint { at, noticed: newest, shift: split.shift, p: split.p });
        start = at;
        pulled = winsorised(&logs[start..]);
    }
    found
}

/// With all values known, each change point is placed where the values between its neighbours part best, and its shift
/// is that of the values as they were, not pulled in. One that later values place after the
/// alarm counts as noticed where it is: what raised the alarm was an odd value before it.
fn settle(found: &mut [ChangePoint], logs: &[f64]) {
    for n in 0..found.len() {
        let from = n.checked_sub(1).map_or(0, |before| found[before].at);
        let to = found.get(n + 1).map_or(logs.len(), |after| after.at);
        let point = &mut found[n];
        let first = from.max(point.at.saturating_sub(CHANGE_WINDOW));
        let last = to.min(point.at + CHANGE_WINDOW);
        let near = (point.at.saturating_sub(NEAR).max(first + 1)..=(point.at + NEAR).min(last - 1)).min_by(|a, b| {
            let unlike = |at: &usize| spread(&logs[first..*at]) + spread(&logs[*at..last]);
            unlike(a).total_cmp(&unlike(b))
        });
        point.at = near.unwrap_or(point.at);
        point.noticed = point.noticed.max(point.at);
        point.shift = median_difference(&logs[first..point.at], &logs[point.at..last]);
    }
}

/// The sum of distances from the median: one odd value counts no more than it is off.
fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    values.iter().map(|value| (value - middle).abs()).sum()
}

/// Hodges and Lehmann's estimate of a shift.
fn median_difference(before: &[f64], after: &[f64]) -> f64 {
    let differences: Vec<f64> = after.iter().flat_map(|b| before.iter().map(move |a| b - a)).collect();
    median(&differences)
}

#[derive(Debug, Clone, Copy)]
struct Split {
    before: usize,
    shift: f64,
    p: f64,
}

impl Split {
    fn is_change(&self) -> bool {
        self.p < CHANGE_P && self.shift.abs() >= CHANGE_SHARE.ln_1p()
    }
}

/// The split of `values` whose sides differ most surely. None when there are too few.
fn best_split(values: &[f64], kinship: Kinship) -> Option<Split> {
    let n = values.len();
    if n < CHANGE_VALUES_MIN {
        return None;
    }
    let splits = (BEFORE_MIN..=n - AFTER_MIN).map(|before| welch(values, before, kinship));
    splits.min_by(|a, b| a.p.total_cmp(&b.p).then(b.shift.abs().total_cmp(&a.shift.abs())))
}

/// Welch's test of equal means, two-sided.
fn welch(values: &[f64], before: usize, kinship: Kinship) -> Split {
    let (a, b) = values.split_at(before);
    let (a, b) = (kinship.side(a), kinship.side(b));
    let (variance, degrees) = if values.len() - before < OWN_SPREAD_MIN {
        (a.variance * (1.0 / a.count + 1.0 / b.count), a.degrees())
    } else {
        let own = |side: &Side| (side.variance / side.count, side.degrees());
        satterthwaite([own(&a), own(&b)])
    };
    let shift = b.mean - a.mean;
    Split { before, shift, p: p_value(shift, variance, degrees) }
}

fn p_value(shift: f64, variance: f64, degrees: f64) -> f64 {
    if shift == 0.0 {
        return 1.0;
    }
    let t = shift.abs() / variance.sqrt();
    // Without any spread every shift is certain.
    if !t.is_finite() || !degrees.is_finite() {
        return 0.0;
    }
    StudentsT::new(0.0, 1.0, degrees).map_or(1.0, |distribution| 2.0 * distribution.sf(t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::Noise;
    use proptest::prelude::*;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Nights in a history, and the night of its step.
    const NIGHTS: usize = 140;
    const STEP_AT: usize = 80;

    /// A history of a ratio from ten blocks on a shared host: noise of 0.55 %, and in 3 of 100 nights one of 3 % on
    /// top.
    fn history(noise: &mut Noise, step: f64) -> Vec<f64> {
        let night = |night: usize| {
            let odd = if noise.uniform() < 0.03 { 0.03 * noise.normal() } else { 0.0 };
            0.0055 * noise.normal() + odd + if night >= STEP_AT { step } else { 0.0 }
        };
        (0..NIGHTS).map(night).collect()
    }

    /// A history of an absolute figure: the same, and what the machine does from night to night, its drift, and now and
    /// then a step of its own.
    fn absolute(noise: &mut Noise, step: f64) -> Vec<f64> {
        let (mut drift, mut logs) = (0.0, history(noise, step));
        for log in &mut logs {
            drift += 0.002 * noise.normal() + if noise.uniform() < 0.01 { 0.02 * noise.normal() } else { 0.0 };
            *log += drift + 0.01 * noise.normal();
        }
        logs
    }

    /// A history in which each night has `kinship` of the noise of the one before.
    fn kin(noise: &mut Noise, kinship: f64, step: f64) -> Vec<f64> {
        let mut last = 0.0055 * noise.normal();
        let night = |night: usize| {
            last = kinship * last + (1.0 - kinship * kinship).sqrt() * 0.0055 * noise.normal();
            let odd = if noise.uniform() < 0.03 { 0.03 * noise.normal() } else { 0.0 };
            last + odd + if night >= STEP_AT { step } else { 0.0 }
        };
        (0..NIGHTS).map(night).collect()
    }

    /// Of `histories` histories: false alarms in 100 nights, share of steps noticed within 15 nights, median delay.
    fn simulate(histories: u64, step: f64) -> (f64, f64, usize) {
        simulate_of(history, histories, step)
    }

    fn simulate_of(history: impl Fn(&mut Noise, f64) -> Vec<f64>, histories: u64, step: f64) -> (f64, f64, usize) {
        let (mut false_alarms, mut nights, mut delays, mut in_time) = (0, 0, Vec::new(), 0);
        for seed in 0..histories {
            let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(seed));
            let points = change_points(&history(&mut noise, step));
            let clean = if step == 0.0 { NIGHTS } else { STEP_AT };
            nights += clean;
            false_alarms += points.iter().filter(|point| point.noticed < clean).count();
            if let Some(first) = points.iter().find(|point| point.noticed >= STEP_AT) {
                delays.push(first.noticed - STEP_AT);
                in_time += usize::from(first.noticed - STEP_AT <= 15);
            }
        }
        delays.sort_unstable();
        let median = delays.get(delays.len() / 2).copied().unwrap_or(usize::MAX);
        (100.0 * false_alarms as f64 / nights as f64, in_time as f64 / histories as f64, median)
    }

    // 150 histories of 140 nights are 21000 nights: at 0.1 alarms in 100 nights (1500 histories gave 0.104) the
    // standard error is 0.02.
    #[test]
    fn noise_alone_raises_hardly_an_alarm() {
        let (false_alarms, ..) = simulate(150, 0.0);
        assert!(false_alarms <= 0.2, "{false_alarms} alarms in 100 nights");
    }

    #[test]
    fn nights_that_resemble_each_other_raise_hardly_more() {
        for kinship in [0.2, 0.4, 0.6] {
            let (false_alarms, ..) = simulate_of(|noise, step| kin(noise, kinship, step), 150, 0.0);
            let (_, found, delay) = simulate_of(|noise, step| kin(noise, kinship, step), 60, -0.02);
            eprintln!("kinship {kinship}: {false_alarms} alarms in 100, {found} of steps of 2 % found after {delay}");
            assert!(false_alarms <= 0.3, "{kinship}: {false_alarms} alarms in 100 nights");
            assert!(found >= 0.5, "{kinship}: {found} found");
        }
    }

    // A share of 0.95 of 150 has a standard error of 1.8 %.
    #[test]
    fn a_step_of_one_per_cent_is_noticed_within_days() {
        let (_, found, delay) = simulate(150, -0.01);
        assert!(found >= 0.9, "{found} found");
        assert!(delay <= 6, "median delay {delay}");
        let (_, found, delay) = simulate(100, 0.02);
        assert!(found >= 0.95, "{found} found");
        assert!(delay <= 3, "median delay {delay}");
    }

    #[test]
    fn absolute_figures_raise_more_alarms_and_show_fewer_steps() {
        let (false_alarms, ..) = simulate_of(absolute, 150, 0.0);
        assert!(false_alarms > 0.4, "{false_alarms} alarms in 100 nights");
        let (_, found, _) = simulate_of(absolute, 150, -0.01);
        assert!(found < 0.5, "{found} found");
    }

    #[test]
    fn the_usual_rule_of_three_sigma_would_raise_ten_times_the_alarms() {
        // The negative control: noise and odd nights as above do tempt a detector.
        let (mut alarms, mut nights) = (0, 0);
        for seed in 0..100 {
            let logs = history(&mut Noise(Xoshiro256PlusPlus::seed_from_u64(seed)), 0.0);
            for night in 20..NIGHTS {
                let before = &logs[night - 20..night];
                let middle = median(before);
                let deviations: Vec<f64> = before.iter().map(|value| (value - middle).abs()).collect();
                alarms += u32::from((logs[night] - middle).abs() > 3.0 * 1.4826 * median(&deviations));
                nights += 1;
            }
        }
        let in_100 = 100.0 * f64::from(alarms) / f64::from(nights);
        assert!(in_100 > 1.5, "{in_100} alarms in 100 nights");
    }

    #[test]
    fn a_large_step_is_one_change_point_of_its_full_size() {
        for seed in 0..50 {
            let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(seed));
            let points = change_points(&history(&mut noise, -0.2));
            let near: Vec<&ChangePoint> = points.iter().filter(|point| point.at.abs_diff(STEP_AT) <= 5).collect();
            assert_eq!(near.len(), 1, "seed {seed}: {points:?}");
            assert!(near[0].at.abs_diff(STEP_AT) <= 1, "seed {seed}: {points:?}");
            assert!((near[0].shift + 0.2).abs() < 0.006, "seed {seed}: {points:?}");
            assert!(near[0].noticed <= STEP_AT + 5, "seed {seed}: {points:?}");
        }
    }

    #[test]
    fn a_change_is_noticed_when_it_is_there_and_not_before() {
        // An odd night just before a step raises the alarm, and the nights after it show where the step is.
        let mut later = 0;
        for seed in 0..50 {
            let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(seed));
            let logs = history(&mut noise, -0.2);
            let (alarms, points) = (alarms(&logs), change_points(&logs));
            for (alarm, point) in alarms.iter().zip(&points) {
                assert!(
                    point.at <= point.noticed && alarm.noticed <= point.noticed,
                    "seed {seed}: {alarm:?} {point:?}"
                );
                later += u32::from(alarm.noticed < point.at);
            }
        }
        assert!(later > 0, "no alarm came before its step, so this shows nothing");
    }

    #[test]
    fn a_step_smaller_than_half_a_per_cent_is_none_however_certain() {
        let logs: Vec<f64> = (0..60).map(|n| f64::from(n % 2) * 1e-5 + if n < 30 { 0.0 } else { 0.004 }).collect();
        assert_eq!(change_points(&logs), []);
    }

    #[test]
    fn a_series_without_noise_is_split_where_it_steps() {
        let logs: Vec<f64> = (0..40).map(|n| if n < 20 { 0.0 } else { 0.05 }).collect();
        let points = change_points(&logs);
        assert_eq!(points.len(), 1, "{points:?}");
        assert_eq!(points[0].at, 20);
        assert!(points[0].noticed <= 22, "{points:?}");
        assert!((points[0].shift - 0.05).abs() < 1e-12);
        assert_eq!(change_points(&[0.1; 40]), []);
    }

    proptest! {
        #[test]
        fn what_was_noticed_stays_noticed_when_values_are_added(
            values in proptest::collection::vec(-0.05f64..0.05, 0..60),
            more in proptest::collection::vec(-0.05f64..0.05, 0..20)
        ) {
            let before: Vec<usize> = alarms(&values).iter().map(|point| point.noticed).collect();
            let all: Vec<f64> = values.iter().chain(&more).copied().collect();
            let after: Vec<usize> = alarms(&all).iter().map(|point| point.noticed).collect();
            prop_assert!(after.starts_with(&before), "{before:?} {after:?}");
        }

        #[test]
        fn few_values_make_no_change_point(values in proptest::collection::vec(-1f64..1.0, 0..12)) {
            prop_assert!(values.len() >= CHANGE_VALUES_MIN || change_points(&values).is_empty());
        }
    }
}
