//! Pulling in the odd value before a test that believes in normal noise.

/// Values that the bounds come from.
const HISTORY: usize = 30;

/// Values below which nothing is pulled in: their spread is not known yet.
const HISTORY_MIN: usize = 8;

/// How many robust standard deviations from the median a value may lie.
const REACH: f64 = 3.5;

/// How far a value may lie in any case, log scale: on a machine that hardly shows any noise, a change of a per cent
/// must not be pulled in until it is none.
const REACH_MIN: f64 = 0.01;

/// The standard deviation of normal noise by its median absolute deviation.
const NORMAL_BY_MAD: f64 = 1.4826;

/// Each value, pulled in to median -/+ 3.5 robust standard deviations (at least 1 %) of the (up to) 30 values before
/// it. What comes later has no influence, so a value says the same whenever the series is looked at.
pub(super) fn winsorised(values: &[f64]) -> Vec<f64> {
    let pulled = values.iter().enumerate().map(|(at, value)| {
        let before = &values[at.saturating_sub(HISTORY)..at];
        if before.len() < HISTORY_MIN {
            return *value;
        }
        let middle = median(before);
        let deviations: Vec<f64> = before.iter().map(|other| (other - middle).abs()).collect();
        let reach = (REACH * NORMAL_BY_MAD * median(&deviations)).max(REACH_MIN);
        value.clamp(middle - reach, middle + reach)
    });
    pulled.collect()
}

/// The median of at least one value.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { 0.5 * (sorted[middle - 1] + sorted[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_value_is_pulled_in_and_the_others_stay() {
        let mut values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        values.push(1000.0);
        values.push(5.0);
        let pulled = winsorised(&values);
        // Median 5, median absolute deviation 2: 5 + 3.5 * 1.4826 * 2.
        assert!((pulled[9] - 15.378_2).abs() < 1e-9, "{pulled:?}");
        assert_eq!(pulled[..9], values[..9]);
        assert_eq!(pulled[10], 5.0);
    }

    #[test]
    fn the_first_values_are_taken_as_they_are() {
        let values = [1.0, 1.1, 0.9, 50.0, 1.0];
        assert_eq!(winsorised(&values), values);
    }
}
