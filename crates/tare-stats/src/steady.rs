//! Whether a trial was steady while it was measured.

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

/// Whether a load that is still settling is known to have become steady: throughput changes by at most 3 %
/// over the later half of `seconds`, of which there are at least twelve.
pub fn has_settled(seconds: &[SecondRow]) -> bool {
    steady_so_far(seconds) == Some(true)
}

/// The same; none when there are fewer seconds, or nothing was answered in them, so that nobody knows. Rows that lasted
/// no time, which mark where something begins, are no seconds.
fn steady_so_far(seconds: &[SecondRow]) -> Option<bool> {
    let lasting: Vec<&SecondRow> = seconds.iter().filter(|second| second.seconds > 0.0).collect();
    if lasting.len() < 2 * BATCHES {
        return None;
    }
    fitted_change(&lasting[lasting.len() / 2..]).map(|change| change.abs() <= CHANGE_MAX)
}

/// How much throughput changed over these seconds, as a share of its mean: the slope of a straight line through the
/// means of six batches, times the time they span. None when they are fewer than six, or nothing was answered.
fn fitted_change(seconds: &[&SecondRow]) -> Option<f64> {
    if seconds.len() < BATCHES {
        return None;
    }
    let rate = |rows: &[&SecondRow]| {
        let operations: u64 = rows.iter().map(|row| row.operations).sum();
        operations as f64 / rows.iter().map(|row| row.seconds).sum::<f64>()
    };
    let mean = rate(seconds);
    let cut = |batch: usize| batch * seconds.len() / BATCHES;
    let (mut along, mut square) = (0.0, 0.0);
    for batch in 0..BATCHES {
        // Time runs from -1/2 to 1/2.
        let at = (batch as f64 + 0.5) / BATCHES as f64 - 0.5;
        along += at * rate(&seconds[cut(batch)..cut(batch + 1)]);
        square += at * at;
    }
    let change = along / square / mean;
    change.is_finite().then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn settling_is_over_when_the_later_half_is_level() {
        let warm = |from: u32| -> Vec<u64> { (from..from + 12).map(|s| 10_000 - (5_000 >> s.min(20))).collect() };
        assert_eq!(steady_so_far(&seconds(&warm(0)[..8])), None, "too short to tell");
        assert_eq!(steady_so_far(&seconds(&[100; 11])), None, "eleven are not twelve");
        assert_eq!(steady_so_far(&seconds(&[100; 12])), Some(true));
        assert!(has_settled(&seconds(&[100; 12])) && !has_settled(&seconds(&[100; 11])));
        assert_eq!(steady_so_far(&seconds(&[0; 24])), None, "nothing to fit");
        assert_eq!(steady_so_far(&seconds(&(0..24).map(|second| 100 + second).collect::<Vec<_>>())), Some(false));
        assert_eq!(steady_so_far(&seconds(&warm(0))), Some(true));
    }

    #[test]
    fn rows_that_lasted_no_time_are_left_out() {
        // As a tool of others reports: a row where it begins, and one for all of its time.
        let reported = |each: &[u64]| -> Vec<SecondRow> {
            let begin = || SecondRow { measured: true, ..Default::default() };
            seconds(each).into_iter().flat_map(|row| [begin(), row]).collect()
        };
        assert_eq!(steady_so_far(&reported(&[100; 11])), None);
        assert_eq!(steady_so_far(&reported(&[100; 12])), Some(true));
        let rising: Vec<u64> = (0..12).map(|second| 100 + 5 * second).collect();
        assert_eq!(steady_so_far(&reported(&rising)), Some(false));
        assert!(!never_steady(&reported(&[100; 6])));
        assert!(never_steady(&reported(&[100, 100, 100, 110, 110, 110])), "what is known is still said");
    }
}
