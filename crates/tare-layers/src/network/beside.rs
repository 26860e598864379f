//! The networks of forms that stand side by side: each place has its own pair, for all forms that stand there one after
//! another, and each pair is kept private like that of the load.

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
    /// The networks of a run, which has none yet.
    pub fn of(run: &str) -> Networks {
        Networks { run: run.to_owned(), by_place: BTreeMap::new() }
    }

    /// The pair for a place, taken when it is first asked for: a process keeps a pair until it ends, and there are not
    /// enough for each block to have a new one.
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

    /// Keeps a pair that was taken for a place, and closes it to other machines.
    pub fn keep(&mut self, place: u8, subnets: (u8, u8)) {
        let private = Private::open(&self.run, subnets);
        self.by_place.insert(place, Pair { subnets, private });
    }

    /// Why other machines can also reach what is in one of these networks, if they can or could for a while.
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
