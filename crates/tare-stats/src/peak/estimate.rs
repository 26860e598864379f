//! From the windows of a staircase to the peak and its interval.
//!
//! With x the logarithm of a window's level and f its score, the share over the limit in multiples of what is allowed,
//! less one, the peak is where the mean of f is nought: x - f / slope, averaged over the windows. Each window is so
//! carried along the slope to where it would have just met the QoS; so windows that stood a percent off inform as well.

use super::window::score;
use crate::quantile::student_quantile;
use tare_core::peak::{Criterion, PeakWindow};

/// The slope that is expected at the peak: by how many times its allowance a share over the limit rises for a relative
/// change of the load by 1. A station that is 0.93 busy has about 40.
const SLOPE_PRIOR: f64 = 40.0;
/// The spread of levels, log scale, at which the windows weigh as much as the expectation.
const SLOPE_SPREAD: f64 = 0.01;
/// The slopes that are believed.
const SLOPES: (f64, f64) = (4.0, 150.0);
/// Over the number of windows, by how many standard errors the slope may be gentler than it was found: windows whose
/// levels follow from the scores before them say less of it than as many that were placed beforehand. By simulation of
/// systems whose slope is gentle: 91 to 96 % of intervals from nineteen windows then hold the mean of all searches.
const SLOPE_UNSURE: f64 = 40.0;
/// Batches of consecutive windows for the interval: their means are nearly independent, single windows are not.
/// The fewer and longer they are, the more of a host's slow changes shows between them, and the wider is Student's t.
const BATCHES: usize = 5;
/// Nearly: by simulation, intervals from the batches alone are too narrow by this factor. Two things are left out of
/// them: that neighbouring batches are still a little alike, for which 1.15 would do (95 % of the intervals of an
/// undisturbed system then hold its peak); and what sets deployments on a host apart for as long as a search takes, its
/// luck and the hour's drift, of which no batch sees anything. With it, by the batches alone, 97 % hold the truth on an
/// undisturbed system, 96 % on a quiet host and 94 % on a shared one; with eight batches it was 92 % there.
const BATCHES_DEPEND: f64 = 1.4;
/// Fewer windows make no estimate.
const WINDOWS_MIN: usize = 16;

/// A fitted peak, on the log scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Logarithm of the peak.
    pub log_peak: f64,
    /// Half the 95 % interval's width, log scale. Within this deployment.
    pub half_width: f64,
    /// Rise of the deciding criterion's share, in multiples of its allowance, by log level.
    pub slope: f64,
    /// Which criterion decides: the one whose mean score is highest.
    pub binding: usize,
    /// Its mean score over the windows: near 0 when the staircase stood around the peak.
    pub mean_score: f64,
}

/// Fits the peak to windows; none for too few of them.
///
/// The interval is the jackknife's over five batches of consecutive windows [Quenouille 1956; batch means: Schmeiser
/// 1982], with Student's t for 4 degrees of freedom: it holds what the slope's own uncertainty adds. It is no narrower
/// than the windows' own scatter makes it.
pub fn fit(windows: &[PeakWindow], criteria: &[Criterion]) -> Option<Fit> {
    if windows.len() < WINDOWS_MIN {
        return None;
    }
    let scores = |k: usize| -> Vec<Option<f64>> { windows.iter().map(|w| score(&w.counts[k], &criteria[k])).collect() };
    let mean_of = |k: usize| {
        let known: Vec<f64> = scores(k).into_iter().flatten().collect();
        if known.is_empty() { -1.0 } else { known.iter().sum::<f64>() / known.len() as f64 }
    };
    let binding = (0..criteria.len()).max_by(|a, b| mean_of(*a).total_cmp(&mean_of(*b)))?;
    let mean_score = mean_of(binding);
    // A window without an operation of this kind says nothing about it; it stands at the mean.
    let scores: Vec<f64> = scores(binding).into_iter().map(|score| score.unwrap_or(mean_score)).collect();
    let points: Vec<(f64, f64)> = windows.iter().map(|window| window.level.ln()).zip(scores).collect();
    let (log_peak, slope) = root(&points);
    Some(Fit { log_peak, half_width: half_width(&points, log_peak), slope, binding, mean_score })
}

/// The root of the scores, and their slope. The slope is a ridge estimate, drawn towards the expected one when the
/// levels hardly differ.
fn root(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (x_mean, sxx) = spread(points);
    let f_sum: f64 = points.iter().map(|(_, f)| f).sum();
    let sxf: f64 = points.iter().map(|(x, f)| (x - x_mean) * f).sum();
    let ridge = n * SLOPE_SPREAD.powi(2);
    let slope = ((sxf + ridge * SLOPE_PRIOR) / (sxx + ridge)).clamp(SLOPES.0, SLOPES.1);
    (x_mean - f_sum / n / slope, slope)
}

/// Half the interval's width. Two errors are known, and the larger one counts: five batches see what varies slowly, but
/// of few windows, most of which were all well or all late, they are alike by luck; the windows' own scatter is not.
fn half_width(points: &[(f64, f64)], whole: f64) -> f64 {
    let batches = student_quantile(0.975, (BATCHES - 1) as f64) * batch_error(points, whole);
    let windows = student_quantile(0.975, (points.len() - 2) as f64) * window_error(points);
    BATCHES_DEPEND * batches.max(windows)
}

/// The standard error of the peak by the windows' scatter around the fitted line, were they independent: what the mean
/// score is unsure by, over the slope, or over a gentler one that it may as well be.
fn window_error(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (peak, slope) = root(points);
    let left: f64 = points.iter().map(|(x, f)| (f - slope * (x - peak)).powi(2)).sum();
    let deviation = (left / (n - 2.0)).sqrt();
    let slope_error = deviation / (spread(points).1 + n * SLOPE_SPREAD.powi(2)).sqrt();
    deviation / n.sqrt() / (slope - SLOPE_UNSURE / n * slope_error).max(SLOPES.0)
}

/// The mean of the log levels, and the sum of their squared distances from it.
fn spread(points: &[(f64, f64)]) -> (f64, f64) {
    let mean = points.iter().map(|(x, _)| x).sum::<f64>() / points.len() as f64;
    (mean, points.iter().map(|(x, _)| (x - mean).powi(2)).sum())
}

/// The standard error of the peak by the jackknife over batches of consecutive windows.
fn batch_error(points: &[(f64, f64)], whole: f64) -> f64 {
    let n = points.len();
    let edge = |batch: usize| batch * n / BATCHES;
    let pseudo: Vec<f64> = (0..BATCHES)
        .map(|batch| {
            let kept = [&points[..edge(batch)], &points[edge(batch + 1)..]].concat();
            let share = n as f64 / (edge(batch + 1) - edge(batch)) as f64;
            share * whole - (share - 1.0) * root(&kept).0
        })
        .collect();
    let mean = pseudo.iter().sum::<f64>() / BATCHES as f64;
    let variance = pseudo.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
    (variance / BATCHES as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tare_core::peak::{Count, PeakPhase};

    /// Windows whose share over the limit follows a line through the peak exactly.
    fn line(peak: f64, slope: f64, offsets: &[f64]) -> Vec<PeakWindow> {
        let window = |offset: &f64| {
            let share = 0.01 * (1.0 + slope * offset).max(0.0);
            let count = Count { of: 1e6, over: 1e6 * share };
            let (level, phase) = (peak * offset.exp(), PeakPhase::Staircase);
            PeakWindow { phase, level, at_s: 0.0, counts: vec![count], score: 0.0, passed: true, used: true }
        };
        offsets.iter().map(window).collect()
    }

    fn criteria() -> Vec<Criterion> {
        vec![Criterion { name: "get within 5ms".into(), allowed: 0.01, late: true }]
    }

    proptest! {
        #[test]
        fn a_line_gives_its_root_whatever_the_unit(peak in 1.0f64..1e7, slope in 10.0f64..40.0) {
            let offsets: Vec<f64> = (0..40).map(|n| f64::from(n % 9 - 4) * 0.005).collect();
            let fit = fit(&line(peak, slope, &offsets), &criteria()).unwrap();
            prop_assert!((fit.log_peak - peak.ln()).abs() < 2e-3, "{:?}", fit);
            prop_assert!(fit.half_width < 5e-3, "{:?}", fit);
        }
    }

    #[test]
    fn few_windows_make_no_estimate() {
        assert!(fit(&line(100.0, 40.0, &[0.0; 15]), &criteria()).is_none());
    }

    #[test]
    fn the_criterion_that_is_broken_most_decides() {
        let mut windows = line(100.0, 40.0, &[0.0; 16]);
        windows.iter_mut().for_each(|window| window.counts.push(Count { of: 1000.0, over: 30.0 }));
        let criteria = [criteria(), vec![Criterion { name: "set".into(), allowed: 0.01, late: true }]].concat();
        assert_eq!(fit(&windows, &criteria).unwrap().binding, 1);
    }
}
