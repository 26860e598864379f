//! Whether a load has settled, and whether a trial was steady while it was measured.

use crate::quantile::student_quantile;
use std::time::Duration;
use tare_core::load::SecondRow;

/// A fitted change of throughput over the time measured that is larger than this, as a share, is none of noise's usual.
const CHANGE_MAX: f64 = 0.03;

/// Batches between which a trend is fitted.
const BATCHES: usize = 6;

/// Whether throughput changed by more than 3 % while it was measured. A warning only: noise alone does this now and
/// then, so it matters when one form does it more often than the others.
pub(crate) fn never_steady(seconds: &[SecondRow]) -> bool {
    let counts = |second: &&SecondRow| second.measured && second.seconds > 0.0;
    let measured: Vec<&SecondRow> = seconds.iter().filter(counts).collect();
    fitted_change(&measured).is_some_and(|change| change.abs() > CHANGE_MAX)
}

/// The largest change of throughput, as a share, that may be left when a load counts as settled.
const LEFT_MAX: f64 = 0.05;

/// Batches whose scatter around the line tells how well its slope is known.
const SETTLING_BATCHES: usize = 8;

/// When it is looked first whether a load is steady, and by which factor later each look comes.
const FIRST_LOOK: Duration = Duration::from_secs(18);
const LOOK_FACTOR: f64 = 1.5;

/// After how long it is looked whether a load has settled, of one that may take `within`: seldom, and planned
/// beforehand, for who looks again and again sees a level stretch sooner or later, and noise makes it sooner.
pub fn steady_looks(within: Duration) -> Vec<Duration> {
    let looks = std::iter::successors(Some(FIRST_LOOK), |look| Some(look.mul_f64(LOOK_FACTOR)));
    looks.take_while(|look| *look <= within).collect()
}

/// Whether a load that is still settling, and may do so for `within`, is known to have become steady: in the later half
/// of `seconds`, of which there are sixteen at least, throughput changes so little that at most 5 % of change are left,
/// of a trend that goes on over the `measure` to come (or the same half, if that is longer) and of a warm-up that fades
/// with a time constant of at most `within`: what that has left is its change over the half by e^(half / within) - 1,
/// and more than it changes while it is measured. Not the slope that is seen must be so small but the largest that it
/// may be (Student's t on what batches scatter around the line, 95 % over all looks): noise makes nobody steady.
pub fn has_settled(seconds: &[SecondRow], measure: Duration, within: Duration) -> bool {
    // Rows that lasted no time, which mark where something begins, are no seconds.
    let lasting: Vec<&SecondRow> = seconds.iter().filter(|second| second.seconds > 0.0).collect();
    if lasting.len() < 2 * SETTLING_BATCHES {
        return false;
    }
    let later = &lasting[lasting.len() / 2..];
    let half_s: f64 = later.iter().map(|row| row.seconds).sum();
    let fading = 1.0 / (half_s / within.as_secs_f64().max(half_s)).exp_m1();
    let farther = (measure.as_secs_f64() / half_s).max(fading).max(1.0);
    let level = 1.0 - 0.05 / steady_looks(within).len().max(1) as f64;
    largest_change(later, level).is_some_and(|change| farther * change <= LEFT_MAX)
}

/// The change over these seconds, as a share of their mean, that is exceeded with a probability of 1 - `level` at most.
/// None when nothing was answered.
fn largest_change(seconds: &[&SecondRow], level: f64) -> Option<f64> {
    let line = Line::of::<SETTLING_BATCHES>(seconds)?;
    let degrees = SETTLING_BATCHES as f64 - 2.0;
    Some(line.change.abs() + student_quantile(level, degrees) * line.error)
}

/// A straight line through the means of batches.
struct Line {
    /// Its slope times the time that the batches span, as a share of the mean.
    change: f64,
    /// The standard error of that, by how batches scatter around the line.
    error: f64,
}

impl Line {
    /// Of at least so many seconds as there are batches, and more than two. None when nothing was answered.
    fn of<const BATCHES: usize>(seconds: &[&SecondRow]) -> Option<Line> {
        let rate = |rows: &[&SecondRow]| {
            let operations: u64 = rows.iter().map(|row| row.operations).sum();
            operations as f64 / rows.iter().map(|row| row.seconds).sum::<f64>()
        };
        let mean = rate(seconds);
        let cut = |batch: usize| batch * seconds.len() / BATCHES;
        // Time runs from -1/2 to 1/2.
        let at: [f64; BATCHES] = std::array::from_fn(|batch| (batch as f64 + 0.5) / BATCHES as f64 - 0.5);
        let rates: [f64; BATCHES] = std::array::from_fn(|batch| rate(&seconds[cut(batch)..cut(batch + 1)]) / mean);
        let square: f64 = at.iter().map(|at| at * at).sum();
        let change = at.iter().zip(rates).map(|(at, rate)| at * rate).sum::<f64>() / square;
        let middle = rates.iter().sum::<f64>() / BATCHES as f64;
        let off = at.iter().zip(rates).map(|(at, rate)| (rate - middle - change * at).powi(2)).sum::<f64>();
        let error = (off / (BATCHES as f64 - 2.0) / square).sqrt();
        (change.is_finite() && error.is_finite()).then_some(Line { change, error })
    }
}

/// How much throughput changed over these seconds, as a share of its mean: the slope of a straight line through the
/// means of six batches, times the time they span. None when they are fewer than six, or nothing was answered.
fn fitted_change(seconds: &[&SecondRow]) -> Option<f64> {
    if seconds.len() < BATCHES { None } else { Line::of::<BATCHES>(seconds).map(|line| line.change) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::Noise;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn seconds(operations: &[u64]) -> Vec<SecondRow> {
        let row = |operations: &u64| SecondRow {
            measured: true,
            seconds: 1.0,
            operations: *operations,
            ..Default::default()
        };
        operations.iter().map(row).collect()
    }

    #[test]
    fn a_trend_is_noticed_and_settling_does_not_count() {
        assert!(!never_steady(&seconds(&[100, 101, 99, 100, 100, 100])));
        assert!(never_steady(&seconds(&[100, 100, 100, 110, 110, 110])));
        assert!(never_steady(&seconds(&[100, 100, 100, 100, 0, 0])));
        let mut warm = seconds(&[10, 100, 100, 100, 100, 100, 100]);
        warm[0].measured = false;
        assert!(!never_steady(&warm));
        assert!(!never_steady(&seconds(&[1, 9])), "too short to tell");
        assert!(!never_steady(&seconds(&[0; 10])), "nothing to fit");
    }

    #[test]
    fn one_odd_second_in_the_middle_is_no_trend_but_a_slow_leak_is() {
        let mut odd = vec![1000; 60];
        odd[30] = 500;
        assert!(!never_steady(&seconds(&odd)));
        let leak: Vec<u64> = (0..60).map(|second| 1000 - second).collect();
        assert!(never_steady(&seconds(&leak)));
        let change = fitted_change(&seconds(&leak).iter().collect::<Vec<_>>()).unwrap();
        assert!((change + 60.0 / 970.5).abs() < 0.002, "{change}");
    }

    fn settled(rows: &[SecondRow]) -> bool {
        has_settled(rows, Duration::from_secs(10), Duration::from_secs(18))
    }

    #[test]
    fn settling_is_over_when_the_later_half_is_level() {
        let warm = |from: u32| -> Vec<u64> { (from..from + 24).map(|s| 10_000 - (5_000 >> s.min(20))).collect() };
        assert!(settled(&seconds(&[100; 16])) && !settled(&seconds(&[100; 15])), "fifteen are not sixteen");
        assert!(!settled(&seconds(&[0; 24])), "nothing to fit");
        assert!(!settled(&seconds(&(0..24).map(|second| 100 + second).collect::<Vec<_>>())));
        assert!(settled(&seconds(&warm(0))));
    }

    #[test]
    fn a_slow_trend_is_seen_by_what_it_would_come_to_while_measuring() {
        // 2 % in the later half of 40 s: little over 20 s, 12 % over two minutes.
        let leak: Vec<u64> = (0..40).map(|second| 100_000 - 100 * second).collect();
        assert!(has_settled(&seconds(&leak), Duration::from_secs(20), Duration::from_secs(18)));
        assert!(!has_settled(&seconds(&leak), Duration::from_secs(120), Duration::from_secs(18)));
    }

    #[test]
    fn looks_are_planned_and_get_rare() {
        let looks =
            |within| steady_looks(Duration::from_secs(within)).iter().map(Duration::as_secs).collect::<Vec<_>>();
        assert_eq!(looks(120), [18, 27, 40, 60, 91]);
        assert!(looks(17).is_empty());
    }

    #[test]
    fn rows_that_lasted_no_time_are_left_out() {
        // As a tool of others reports: a row where it begins, and one for all of its time.
        let reported = |each: &[u64]| -> Vec<SecondRow> {
            let begin = || SecondRow { measured: true, ..Default::default() };
            seconds(each).into_iter().flat_map(|row| [begin(), row]).collect()
        };
        assert!(!settled(&reported(&[100; 15])));
        assert!(settled(&reported(&[100; 16])));
        let rising: Vec<u64> = (0..16).map(|second| 100 + 5 * second).collect();
        assert!(!settled(&reported(&rising)));
        assert!(!never_steady(&reported(&[100; 6])));
        assert!(never_steady(&reported(&[100, 100, 100, 110, 110, 110])), "what is known is still said");
    }

    /// Warm-ups of 30 % with time constants from 10 to 120 s, seconds that scatter by 0.5, 2 and 5 %, trials of 10 and
    /// of 30 s: of what is called settled, hardly anything has more than 5 % left, however short the time measured is.
    #[test]
    fn noise_settles_nobody() {
        const WARM_UPS: u32 = 100;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(17));
        let within = Duration::from_secs(120);
        let looks = steady_looks(within);
        for (scatter, measure_s) in [(0.005, 10), (0.005, 30), (0.02, 10), (0.05, 10)] {
            let (mut early, mut settled, mut all) = (0, 0, 0);
            for constant_s in [10.0, 30.0, 60.0, 120.0] {
                for _ in 0..WARM_UPS {
                    let left = |second: f64| 0.3 * f64::exp(-second / constant_s);
                    let mut rate =
                        |second: u32| 1e5 * (1.0 - left(f64::from(second))) * (1.0 + scatter * noise.normal());
                    let rows = seconds(&(0..120).map(|second| rate(second) as u64).collect::<Vec<_>>());
                    let first = looks.iter().find(|look| {
                        has_settled(&rows[..look.as_secs() as usize], Duration::from_secs(measure_s), within)
                    });
                    all += 1;
                    settled += u32::from(first.is_some());
                    early += u32::from(first.is_some_and(|look| left(look.as_secs_f64()) > 0.05));
                }
            }
            eprintln!(
                "seconds that scatter by {scatter}, {measure_s} s measured: {settled} of {all} settled, {early} with more \
                 than 5 % left"
            );
            assert!(f64::from(early) <= 0.05 * f64::from(all), "{scatter}, {measure_s} s: {early} of {all}");
            assert!(scatter > 0.005 || settled >= WARM_UPS * 9 / 10, "the fastest settles where there is no noise");
        }
    }
}
