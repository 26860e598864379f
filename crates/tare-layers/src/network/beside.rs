//! The networks of forms that stand side by side: each place has a pair of its own, for all that stand there one after
//! the other, and each pair is kept private as that of the load is.

use super::private::{Private, reached_by_others};
use super::subnets::free_subnets;
use std::collections::BTreeMap;
use std::io;
use tare_core::fault::Fault;

/// The networks of a run by place.
#[derive(Debug)]
pub struct Networks {
    run: String,
    by_place: BTreeMap<u8, Pair>,
}

#[derive(Debug)]
struct Pair {
    subnets: (u8, u8),
    private: io::Result<Private>,
}

impl Networks {
    /// Of a run, which has none yet.
    pub fn of(run: &str) -> Networks {
        Networks { run: run.to_owned(), by_place: BTreeMap::new() }
    }

    /// Those at a place, which are taken when they are asked for first: a process has a pair until its end, and there
    /// are not so many that each block could have others.
    ///
    /// # Errors
    /// When all of this machine's are taken.
    pub fn at(&mut self, place: u8) -> Result<(u8, u8), Fault> {
        if let Some(pair) = self.by_place.get(&place) {
            return Ok(pair.subnets);
        }
        let subnets = free_subnets()?;
        self.keep(place, subnets);
        Ok(subnets)
    }

    /// Keeps a pair that was taken at a place, and closes it to other machines.
    pub fn keep(&mut self, place: u8, subnets: (u8, u8)) {
        let private = Private::open(&self.run, subnets);
        self.by_place.insert(place, Pair { subnets, private });
    }

    /// Why other machines reach what stands in one of these networks too, where they do or did for a while.
    pub fn reached_by_others(&self) -> Option<String> {
        self.by_place.values().find_map(|pair| reached_by_others(&pair.private))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::in_own_network;

    #[test]
    fn a_place_has_one_pair_for_as_long_as_the_run_stands() {
        in_own_network(|| {
            let mut networks = Networks::of("none00");
            let [one, other] = [1, 2].map(|place| networks.at(place).unwrap());
            assert_ne!(one, other);
            // More blocks than there are pairs.
            for _ in 0..200 {
                assert_eq!([1, 2].map(|place| networks.at(place).unwrap()), [one, other]);
            }
        });
    }
}
