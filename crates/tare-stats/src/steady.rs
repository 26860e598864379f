//! Whether a trial was steady while it was measured.

use tare_core::load::SecondRow;

/// Halves that differ by more than this in throughput were never steady.
const DIFFERENCE_MAX: f64 = 0.03;

/// Fewer measured seconds than this say nothing about steadiness.
const SECONDS_MIN: usize = 4;

/// Whether throughput differed by more than 3 % between the two halves of the measured seconds. A warning only: noise
/// alone does this now and then, so it matters when one form does it more often than the others.
pub(crate) fn never_steady(seconds: &[SecondRow]) -> bool {
    let measured: Vec<&SecondRow> = seconds.iter().filter(|second| second.measured).collect();
    if measured.len() < SECONDS_MIN {
        return false;
    }
    let rate = |rows: &[&SecondRow]| {
        let operations: u64 = rows.iter().map(|row| row.operations).sum();
        operations as f64 / rows.iter().map(|row| row.seconds).sum::<f64>()
    };
    let (first, second) = measured.split_at(measured.len() / 2);
    let (first, second) = (rate(first), rate(second));
    let change = (second / first).ln().abs();
    // Also when one half has no operation at all: the logarithm is then infinite.
    change > DIFFERENCE_MAX.ln_1p()
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
    fn halves_that_differ_are_noticed_and_settling_does_not_count() {
        assert!(!never_steady(&seconds(&[100, 101, 99, 100, 100, 100])));
        assert!(never_steady(&seconds(&[100, 100, 100, 110, 110, 110])));
        assert!(never_steady(&seconds(&[100, 100, 0, 0])));
        let mut warm = seconds(&[10, 100, 100, 100, 100]);
        warm[0].measured = false;
        assert!(!never_steady(&warm));
        assert!(!never_steady(&seconds(&[1, 9])), "too short to tell");
    }
}
