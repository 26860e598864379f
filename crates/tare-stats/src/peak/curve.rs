//! The pass probability over the level.

use tare_core::peak::{PassRate, PeakPhase, PeakWindow};

/// Windows to a point of the curve, at least.
const WINDOWS_MIN: usize = 5;
/// The normal quantile of a 95 % interval.
const Z: f64 = 1.959_964;

/// The share of windows that passed, over the level: windows of the staircase (or probes) sorted by level, in groups of
/// at least `WINDOWS_MIN`, pooled until the share falls with the level (pool-adjacent-violators, Ayer et al. 1955).
/// The intervals are Wilson's (1927) for the group's own count.
pub fn pass_curve(windows: &[PeakWindow]) -> Vec<PassRate> {
    let judged = |window: &&PeakWindow| matches!(window.phase, PeakPhase::Staircase | PeakPhase::Probe);
    let mut sorted: Vec<&PeakWindow> = windows.iter().filter(judged).collect();
    sorted.sort_by(|a, b| a.level.total_cmp(&b.level));
    let mut groups: Vec<Vec<&PeakWindow>> = Vec::new();
    for window in sorted {
        match groups.last_mut() {
            // Equal levels are never split.
            Some(group) if group.len() < WINDOWS_MIN || group[0].level == window.level => group.push(window),
            _ => groups.push(vec![window]),
        }
    }
    if groups.len() > 1 && groups.last().is_some_and(|group| group.len() < WINDOWS_MIN) {
        let rest = groups.pop().unwrap_or_default();
        groups.last_mut().expect("there was more than one").extend(rest);
    }
    let mut points: Vec<PassRate> = groups.iter().map(|group| point(group)).collect();
    monotone(&mut points);
    points
}

fn point(group: &[&PeakWindow]) -> PassRate {
    let n = group.len() as f64;
    let passed = group.iter().filter(|window| window.passed).count() as u32;
    let level = group.iter().map(|window| window.level).sum::<f64>() / n;
    let rate = f64::from(passed) / n;
    let (low, high) = wilson(rate, n);
    PassRate { level, windows: group.len() as u32, passed, rate, low, high }
}

fn wilson(rate: f64, n: f64) -> (f64, f64) {
    let z2 = Z * Z;
    let middle = (rate + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (rate * (1.0 - rate) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// Makes the rates fall with the level, each run of violators set to its weighted mean.
fn monotone(points: &mut [PassRate]) {
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for point in points.iter() {
        pools.push((point.rate, f64::from(point.windows), 1));
        while pools.len() > 1 && pools[pools.len() - 2].0 < pools[pools.len() - 1].0 {
            let (rate, weight, count) = pools.pop().expect("there are two");
            let last = pools.last_mut().expect("there are two");
            let total = last.1 + weight;
            *last = ((last.0 * last.1 + rate * weight) / total, total, last.2 + count);
        }
    }
    let rates = pools.iter().flat_map(|(rate, _, count)| std::iter::repeat_n(*rate, *count));
    for (point, rate) in points.iter_mut().zip(rates) {
        point.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(level: f64, passed: bool) -> PeakWindow {
        let score = if passed { -1.0 } else { 1.0 };
        let phase = PeakPhase::Staircase;
        PeakWindow { phase, level, at_s: 0.0, counts: Vec::new(), score, passed, used: true }
    }

    #[test]
    fn groups_are_shares_with_wilson_intervals() {
        let windows: Vec<PeakWindow> = (0..5).map(|n| window(10.0, n < 4)).collect();
        let curve = pass_curve(&windows);
        assert_eq!((curve.len(), curve[0].passed, curve[0].windows), (1, 4, 5));
        // Wilson for 4 of 5: 0.3755 to 0.9638.
        assert!((curve[0].low - 0.3755).abs() < 1e-3 && (curve[0].high - 0.9638).abs() < 1e-3, "{curve:?}");
    }

    proptest! {
        #[test]
        fn the_curve_falls_and_loses_no_window(seen in proptest::collection::vec((1u32..200, any::<bool>()), 0..60)) {
            let windows = seen.iter().map(|(level, passed)| window(f64::from(*level), *passed));
            let windows: Vec<PeakWindow> = windows.collect();
            let curve = pass_curve(&windows);
            prop_assert_eq!(curve.iter().map(|point| point.windows as usize).sum::<usize>(), windows.len());
            for pair in curve.windows(2) {
                prop_assert!(pair[0].level < pair[1].level && pair[0].rate >= pair[1].rate - 1e-12);
            }
        }
    }
}
