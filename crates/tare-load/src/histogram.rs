//! Times by count, cheap to record.
//!
//! Log-linear: below 2048 ns every value has a bucket of its own; above, each power of two is divided into 1024. So a
//! bucket is at most 1/1024 of its value wide: three significant digits, from 1 ns to an hour and beyond.

use base64::Engine as _;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

/// log2 of the number of buckets per power of two.
const FINE_BITS: u32 = 10;
const FINE: u64 = 1 << FINE_BITS;
/// The largest time that is distinguished, ns: an hour. Longer ones count as this.
pub(crate) const LONGEST_NS: u64 = 3_600_000_000_000;
const BUCKETS: usize = index(LONGEST_NS) + 1;

/// The bucket of a value.
#[inline]
const fn index(value: u64) -> usize {
    if value < 2 * FINE {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - FINE_BITS;
    ((shift as u64) * FINE + (value >> shift)) as usize
}

/// The smallest value of a bucket, and how many values share it.
fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < 2 * FINE {
        return (index, 1);
    }
    let shift = index / FINE - 1;
    ((index - shift * FINE) << shift, 1 << shift)
}

/// A histogram of times in ns.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    // The used part, so that clearing and merging once a second touch only a few KiB.
    low: usize,
    high: usize,
    longest: u64,
}

impl Histogram {
    /// An empty histogram.
    pub(crate) fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0, low: BUCKETS, high: 0, longest: 0 }
    }

    /// Counts one time.
    #[inline]
    pub(crate) fn record(&mut self, value_ns: u64) {
        self.record_many(value_ns, 1);
    }

    /// Counts one time `count` times.
    #[inline]
    pub(crate) fn record_many(&mut self, value_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        let value = value_ns.min(LONGEST_NS);
        let index = index(value);
        self.counts[index] += count;
        self.total += count;
        self.low = self.low.min(index);
        self.high = self.high.max(index);
        self.longest = self.longest.max(value);
    }

    /// How many times were counted.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// How many times are above `value_ns`, without those in its bucket.
    pub(crate) fn above(&self, value_ns: u64) -> u64 {
        let from = (index(value_ns.min(LONGEST_NS)) + 1).max(self.low);
        self.counts.get(from..=self.high).map_or(0, |counts| counts.iter().sum())
    }

    /// The longest time, ns, exactly; 0 when there is none.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// Adds what another histogram counted.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        if other.total == 0 {
            return;
        }
        for index in other.low..=other.high {
            self.counts[index] += other.counts[index];
        }
        self.total += other.total;
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.longest = self.longest.max(other.longest);
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        if self.total > 0 {
            self.counts[self.low..=self.high].fill(0);
        }
        (self.total, self.low, self.high, self.longest) = (0, BUCKETS, 0, 0);
    }

    /// The time that a share `quantile` of all times does not exceed, ns, as the middle of its bucket; 0 if there are
    /// none.
    pub(crate) fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for index in self.low..=self.high.min(BUCKETS - 1) {
            seen += self.counts[index];
            if seen >= rank {
                let (first, width) = bounds(index);
                return (first + width / 2).min(self.longest);
            }
        }
        0
    }

    /// The mean, ns, with each time taken as the middle of its bucket; 0 if there are none.
    pub(crate) fn mean_ns(&self) -> f64 {
        let used = self.low..=self.high.min(BUCKETS - 1);
        let middle = |(first, width): (u64, u64)| first as f64 + 0.5 * (width - 1) as f64;
        let sum: f64 = used.map(|index| self.counts[index] as f64 * middle(bounds(index))).sum();
        sum / self.total.max(1) as f64
    }

    /// As an HdrHistogram (V2, deflate, base64) of nanoseconds.
    pub(crate) fn export(&self) -> String {
        let mut full = hdrhistogram::Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds");
        if self.total > 0 {
            for index in self.low..=self.high {
                let count = self.counts[index];
                if count > 0 {
                    let (first, width) = bounds(index);
                    full.saturating_record_n((first + width / 2).max(1), count);
                }
            }
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&full, &mut bytes).expect("a vector takes every byte");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tare_testkit::histogram::decode;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    #[test]
    fn the_mean_is_that_of_the_values() {
        assert_eq!(Histogram::new().mean_ns(), 0.0);
        assert_eq!(of(&[100, 200, 600]).mean_ns(), 300.0);
        let mean = of(&[5_000_000, 7_000_000, 18_000_000]).mean_ns();
        assert!((mean / 10_000_000.0 - 1.0).abs() < 1e-3, "{mean}");
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_and_buckets_are_narrow(value in 0..=LONGEST_NS) {
            let (first, width) = bounds(index(value));
            prop_assert!(first <= value && value < first + width);
            prop_assert!(width == 1 || width <= first / FINE);
        }

        #[test]
        fn merging_equals_recording_it_all(
            one in prop::collection::vec(0..10_000_000_000u64, 0..50),
            two in prop::collection::vec(0..10_000_000_000u64, 0..50),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&two));
            let all = of(&[one, two].concat());
            prop_assert_eq!(&merged.counts, &all.counts);
            prop_assert_eq!((merged.total, merged.longest), (all.total, all.longest));
            prop_assert_eq!(merged.export(), all.export());
            merged.clear();
            prop_assert!(merged.counts.iter().all(|count| *count == 0) && merged.total() == 0);
        }

        #[test]
        fn quantiles_survive_the_export(values in prop::collection::vec(1..10_000_000_000u64, 1..200)) {
            let histogram = of(&values);
            let exported = decode(&histogram.export());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for quantile in [0.01, 0.5, 0.9, 0.99, 1.0] {
                let exact = sorted[((quantile * values.len() as f64).ceil() as usize).max(1) - 1] as f64;
                for found in [histogram.quantile(quantile), exported.value_at_quantile(quantile)] {
                    prop_assert!((found as f64 - exact).abs() <= 1.0 + exact * 0.002, "{found} for {exact}");
                }
            }
            prop_assert_eq!(exported.len(), values.len() as u64);
        }
    }

    #[test]
    fn times_above_a_bound_are_counted() {
        let times = of(&[10, 1_000_000, 1_000_000_000]);
        assert_eq!([9, 10, 2_000_000, 2_000_000_000].map(|bound| times.above(bound)), [3, 2, 1, 0]);
        assert_eq!(Histogram::new().above(0), 0);
    }

    #[test]
    fn an_empty_one_and_a_very_long_time_are_no_trouble() {
        assert_eq!(Histogram::new().quantile(0.5), 0);
        assert_eq!(decode(&Histogram::new().export()).len(), 0);
        assert_eq!(of(&[u64::MAX]).longest(), LONGEST_NS);
    }
}
