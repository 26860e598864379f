//! What a series came to from one change point to the next.

use super::kinship::Kinship;
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::quantile::student_quantile;

/// Values below which there is no interval: they say too little of their spread.
const INTERVAL_MIN: usize = 3;

/// The records from one change point to the next, which share a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// The place of its first record in the series.
    pub first: usize,
    /// The place of its last.
    pub last: usize,
    /// The ratio: the geometric mean of the records'.
    pub ratio: f64,
    /// Its interval, from how far apart the records lie, what occasions add included. None of fewer than 3 records.
    pub interval: Option<Interval>,
}

/// The segments of a series of log ratios, oldest first. `starts` are the places of its change points, in order.
pub(super) fn segments(logs: &[f64], starts: &[usize]) -> Vec<Segment> {
    let ends = starts.iter().copied().chain([logs.len()]);
    let starts = [0].into_iter().chain(starts.iter().copied());
    starts.zip(ends).filter(|(from, to)| from < to).map(|(from, to)| segment(logs, from, to)).collect()
}

fn segment(logs: &[f64], from: usize, to: usize) -> Segment {
    let values = &logs[from..to];
    let side = Kinship::of(values, 0).side(values);
    let interval = (values.len() >= INTERVAL_MIN).then(|| {
        let reach = student_quantile(0.5 * (1.0 + CONFIDENCE), side.degrees());
        let half_width = reach * (side.variance / side.count).sqrt();
        Interval { low: (side.mean - half_width).exp(), high: (side.mean + half_width).exp() }
    });
    Segment { first: from, last: to - 1, ratio: side.mean.exp(), interval }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_a_mean_with_the_interval_of_student() {
        // By hand: mean 0.02, standard deviation 0.01, t of 2 degrees 4.3027.
        let all = segments(&[0.01, 0.02, 0.03, 0.5, 0.6], &[3]);
        let [before, after] = all[..] else { panic!("{all:?}") };
        assert_eq!((before.first, before.last, after.first, after.last), (0, 2, 3, 4));
        let interval = before.interval.unwrap();
        let half_width = 4.3027 * 0.01 / 3_f64.sqrt();
        assert!((before.ratio.ln() - 0.02).abs() < 1e-12);
        assert!((interval.high.ln() - 0.02 - half_width).abs() < 1e-5, "{interval:?}");
        assert!((interval.low.ln() - 0.02 + half_width).abs() < 1e-5, "{interval:?}");
        assert_eq!(after.interval, None, "two records say nothing of their spread");
    }

    #[test]
    fn records_that_resemble_each_other_make_a_wider_interval() {
        let slow: Vec<f64> = (0..40).map(|n| 0.01 * (0.3 * f64::from(n)).sin()).collect();
        let turns: Vec<f64> = (0..40).map(|n| slow[(n * 7) % 40]).collect();
        let width = |logs: &[f64]| {
            let interval = segments(logs, &[])[0].interval.unwrap();
            interval.high - interval.low
        };
        assert!(width(&slow) > 1.4 * width(&turns), "{} {}", width(&slow), width(&turns));
        assert_eq!(segments(&[], &[]), []);
    }
}
