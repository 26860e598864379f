//! Sums over things that come and go, such as network interfaces: the sum must not fall when one of them goes.

use std::collections::HashMap;

/// Counters of named parts, and their sums over all parts that ever existed.
#[derive(Debug)]
pub(crate) struct Parts<const N: usize> {
    round: u64,
    parts: HashMap<Box<[u8]>, (u64, [f64; N])>,
    carried: [f64; N],
}

impl<const N: usize> Default for Parts<N> {
    fn default() -> Self {
        Parts { round: 0, parts: HashMap::new(), carried: [0.0; N] }
    }
}

impl<const N: usize> Parts<N> {
    /// Starts another reading.
    pub(crate) fn start(&mut self) {
        self.round += 1;
    }

    /// Puts a part's counters. If a counter fell, this is a new part with an old name.
    pub(crate) fn put(&mut self, name: &[u8], counters: [f64; N]) {
        let Some((round, last)) = self.parts.get_mut(name) else {
            self.parts.insert(name.into(), (self.round, counters));
            return;
        };
        if last.iter().zip(&counters).any(|(last, now)| now < last) {
            self.carried.iter_mut().zip(&*last).for_each(|(carried, last)| *carried += last);
        }
        (*round, *last) = (self.round, counters);
    }

    /// The sums. Parts that were not put since the start are gone, but their last counts remain in the sums.
    pub(crate) fn sums(&mut self) -> [f64; N] {
        let (now, carried) = (self.round, &mut self.carried);
        self.parts.retain(|_, (round, last)| {
            if *round != now {
                carried.iter_mut().zip(&*last).for_each(|(carried, last)| *carried += last);
            }
            *round == now
        });
        let mut sums = self.carried;
        for (_, counters) in self.parts.values() {
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_that_goes_or_starts_anew_takes_nothing_away() {
        let mut parts = Parts::<1>::default();
        for (given, wanted) in [
            (vec![("a", 5.0), ("b", 2.0)], 7.0),
            (vec![("b", 3.0)], 8.0),
            (vec![("a", 1.0), ("b", 3.0)], 9.0),
            (vec![("a", 0.0)], 9.0),
        ] {
            parts.start();
            given.iter().for_each(|(name, value)| parts.put(name.as_bytes(), [*value]));
            assert_eq!(parts.sums(), [wanted]);
        }
    }

    proptest! {
        #[test]
        fn sums_never_fall(
            rounds in proptest::collection::vec(proptest::collection::vec((0_u8..4, 0_u32..100), 0..6), 1..20),
        ) {
            let mut parts = Parts::<1>::default();
            let mut last = 0.0;
            for round in rounds {
                parts.start();
                round.iter().for_each(|(name, value)| parts.put(&[*name], [f64::from(*value)]));
                let [sum] = parts.sums();
                prop_assert!(sum >= last);
                last = sum;
            }
        }
    }
}
