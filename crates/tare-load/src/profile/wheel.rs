//! Finds who is due next among a million: a wheel of slots about a millisecond wide, and a heap for the slots that have
//! come up.
//!
//! The entries of a slot form a list through a flat table, so an entry takes 12 bytes and nothing is allocated after
//! the start. An entry further ahead than the length of the wheel stays in its slot for another revolution. The heap
//! keeps the order within the slots that have come up, so moments are exact, not rounded to slots. (Varghese & Lauck:
//! Hashed and hierarchical timing wheels, 1987, scheme 6.)

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// log2 of the length of a slot, ns: 1.05 ms.
const SLOT_BITS: u32 = 20;
/// The number of slots: 69 s.
const SLOTS: usize = 1 << 16;
const NONE: u32 = u32::MAX;

/// The moments of entries numbered from 0, each present at most once.
pub(crate) struct Wheel {
    heads: Box<[u32]>,
    // A bit for each slot that is not empty.
    occupied: Box<[u64]>,
    // By entry: the next one in its slot, and its moment.
    next: Vec<u32>,
    times: Vec<u64>,
    // Entries of slots below this one are in the heap.
    edge: u64,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    waiting: usize,
}

impl Wheel {
    /// An empty wheel with room for `entries`, none of which is due before `now_ns`.
    pub(crate) fn new(entries: usize, now_ns: u64) -> Self {
        Wheel {
            heads: vec![NONE; SLOTS].into_boxed_slice(),
            occupied: vec![0; SLOTS / 64].into_boxed_slice(),
            next: vec![NONE; entries],
            times: vec![0; entries],
            edge: now_ns >> SLOT_BITS,
            due: BinaryHeap::new(),
            waiting: 0,
        }
    }

    /// Adds an entry that is not present.
    #[inline]
    pub(crate) fn insert(&mut self, entry: u32, at_ns: u64) {
        self.times[entry as usize] = at_ns;
        if at_ns >> SLOT_BITS < self.edge {
            self.due.push(Reverse((at_ns, entry)));
        } else {
            self.link(entry, at_ns >> SLOT_BITS);
            self.waiting += 1;
        }
    }

    #[inline]
    fn link(&mut self, entry: u32, slot: u64) {
        let at = slot as usize % SLOTS;
        self.next[entry as usize] = std::mem::replace(&mut self.heads[at], entry);
        self.occupied[at / 64] |= 1 << (at % 64);
    }

    /// The moment at which the entry is, or was last, due.
    #[inline]
    pub(crate) fn time(&self, entry: u32) -> u64 {
        self.times[entry as usize]
    }

    /// When the next entry is due; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn peek(&mut self) -> u64 {
        if self.due.is_empty() {
            self.come_up();
        }
        self.due.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns)
    }

    /// Removes the next entry, if it is due at `now_ns`.
    #[inline]
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<u32> {
        if self.peek() > now_ns {
            return None;
        }
        self.due.pop().map(|Reverse((_, entry))| entry)
    }

    /// Moves the next slot with entries for this revolution into the heap.
    fn come_up(&mut self) {
        while self.waiting > 0 && self.due.is_empty() {
            let slot = self.next_occupied();
            let at = slot as usize % SLOTS;
            let mut entry = std::mem::replace(&mut self.heads[at], NONE);
            self.occupied[at / 64] &= !(1 << (at % 64));
            while entry != NONE {
                let following = self.next[entry as usize];
                let at_ns = self.times[entry as usize];
                if at_ns >> SLOT_BITS == slot {
                    self.due.push(Reverse((at_ns, entry)));
                    self.waiting -= 1;
                } else {
                    self.link(entry, slot);
                }
                entry = following;
            }
            self.edge = slot + 1;
        }
    }

    /// The first slot from the edge on that is not empty. There must be one.
    fn next_occupied(&self) -> u64 {
        let from = self.edge as usize % SLOTS;
        let words = self.occupied.len();
        for step in 0..=words {
            let at = (from / 64 + step) % words;
            let below = if step == 0 { u64::MAX << (from % 64) } else { u64::MAX };
            let bits = self.occupied[at] & below;
            if bits != 0 {
                let found = at * 64 + bits.trailing_zeros() as usize;
                return self.edge + ((found + SLOTS - from) % SLOTS) as u64;
            }
        }
        unreachable!("something is waiting")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn entries_come_out_in_the_order_of_their_moments(
            begin in 0..u64::MAX / 4,
            moves in prop::collection::vec((0..200_000_000_000u64, 0..3_000_000_000u64, any::<bool>()), 1..200),
        ) {
            let mut wheel = Wheel::new(moves.len(), begin);
            let mut model: BTreeMap<(u64, u32), ()> = BTreeMap::new();
            let mut now_ns = begin;
            for (entry, (ahead_ns, step_ns, pop)) in moves.iter().enumerate() {
                wheel.insert(entry as u32, now_ns + ahead_ns);
                model.insert((now_ns + ahead_ns, entry as u32), ());
                if *pop {
                    now_ns += step_ns;
                    prop_assert_eq!(wheel.peek(), model.keys().next().map_or(u64::MAX, |(at, _)| *at));
                    let expected = model.keys().next().copied().filter(|(at, _)| *at <= now_ns);
                    let found = wheel.pop(now_ns);
                    prop_assert_eq!(found, expected.map(|(_, entry)| entry));
                    if let Some(key) = expected {
                        prop_assert_eq!(wheel.time(key.1), key.0);
                        model.remove(&key);
                    }
                }
            }
            for (at_ns, entry) in model.into_keys() {
                prop_assert_eq!((wheel.peek(), wheel.pop(u64::MAX)), (at_ns, Some(entry)));
            }
            prop_assert_eq!(wheel.peek(), u64::MAX);
        }
    }
}
