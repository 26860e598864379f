//! Response times that a tool lists, or counts by their length, and the result that follows from them.

use super::figure::Concluded;
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::fault::Fault;

/// The quantiles that become figures.
const QUANTILES: [(&str, f64); 4] = [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999)];

/// Response times, counted by their length.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// By length in us.
    counts: BTreeMap<u64, u64>,
    total: u64,
    sum_us: f64,
}

impl Samples {
    /// Adds `count` responses that took `us` microseconds each.
    pub(super) fn add(&mut self, us: u64, count: u64) {
        let slot = self.counts.entry(us).or_default();
        *slot = slot.saturating_add(count);
        self.total = self.total.saturating_add(count);
        self.sum_us += us as f64 * count as f64;
    }

    /// The smallest length that at least this share of the responses does not exceed.
    fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut below: u64 = 0;
        self.counts.iter().find_map(|(us, count)| {
            below = below.saturating_add(*count);
            (below >= rank).then_some(*us)
        })
    }

    /// The result of `answered` operations in `seconds`, of which `wrong` were answered wrongly or not at all. The tool
    /// ran for `wall_s`: what it did before it measured does not count.
    ///
    /// # Errors
    /// When there is no operation, or no time in which it was done.
    pub(super) fn conclude(&self, answered: u64, wrong: u64, seconds: f64, wall_s: f64) -> Result<Concluded, Fault> {
        if answered == 0 {
            return Err(Fault::new("the tool's result has no request"));
        }
        let seconds = if seconds > 0.0 { seconds } else { wall_s };
        if !(seconds.is_finite() && seconds > 0.0) {
            return Err(Fault::new(format!("the tool's result says that it measured for {seconds} s")));
        }
        let operations = answered.saturating_sub(wrong);
        let mut reported = BTreeMap::from([("throughput".to_owned(), operations as f64 / seconds)]);
        let mut tell = |name: &str, us: f64| {
            // A time of 0 is too short for the tool to tell.
            if us > 0.0 {
                reported.insert(name.to_owned(), us);
            }
        };
        for (name, share) in QUANTILES {
            tell(name, self.quantile(share).unwrap_or(0) as f64);
        }
        tell("max_us", self.counts.last_key_value().map_or(0, |(us, _)| *us) as f64);
        tell("mean_us", if self.total > 0 { self.sum_us / self.total as f64 } else { 0.0 });
        let unmeasured = Duration::try_from_secs_f64((wall_s - seconds).max(0.0)).unwrap_or_default();
        Ok(Concluded { operations, errors: wrong, reported, unmeasured, ..Concluded::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_lengths_that_occurred() {
        let mut samples = Samples::default();
        (1..=100).for_each(|ms| samples.add(ms * 1000, 1));
        let found = samples.conclude(100, 10, 2.0, 3.5).unwrap();
        assert_eq!((found.operations, found.errors, found.reported["throughput"]), (90, 10, 45.0));
        assert_eq!((found.reported["p50_us"], found.reported["p99_us"]), (50_000.0, 99_000.0));
        assert_eq!((found.reported["max_us"], found.reported["mean_us"]), (100_000.0, 50_500.0));
        assert_eq!(found.unmeasured, Duration::from_millis(1500));
    }

    #[test]
    fn what_is_too_short_to_tell_is_left_out() {
        let mut samples = Samples::default();
        samples.add(0, 5);
        let found = samples.conclude(5, 0, 0.0, 1.0).unwrap();
        assert_eq!(found.reported.keys().collect::<Vec<_>>(), ["throughput"]);
        assert!(samples.conclude(0, 0, 1.0, 1.0).unwrap_err().message.contains("no request"));
    }
}
