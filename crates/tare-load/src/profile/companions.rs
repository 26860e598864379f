//! Companions of users, compiled to flat tables: their kinds, and the operations that start and end them.

use super::behaviour::{Path, Spoken};
use crate::script::Slot;
use std::collections::BTreeMap;
use std::ops::Range;
use tare_core::fault::Fault;
use tare_core::load::{Companion, Ending, Pause};

/// Places for companions beside one user: as many as may be active, and as many again that are still ending, because
/// what they wait for may take longer than the user takes to start the next ones.
fn places(companion: &Companion) -> u32 {
    2 * companion.at_most
}

/// How many places for companions are needed beside each user.
pub(crate) fn places_beside(companions: &BTreeMap<String, Companion>) -> u32 {
    companions.values().map(places).sum()
}

/// A kind of companion.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    /// Its path through the operations.
    pub path: Path,
    /// How long it pauses.
    pub pause: Pause,
    /// The most that are active beside one user.
    pub at_most: usize,
    /// The places of this kind among those beside a user.
    pub places: Range<u32>,
    /// What its user learns from it: the user's slot, and the companion's.
    pub tells: Vec<(Slot, Slot)>,
    // By operation of the user: whether it starts one, and which ones it ends.
    after: Vec<bool>,
    until: Vec<Option<Ending>>,
}

impl Kind {
    /// Compiles all kinds, in the order of their names.
    ///
    /// # Errors
    /// When one names something unknown.
    pub(crate) fn all(companions: &BTreeMap<String, Companion>, spoken: Spoken<'_>) -> Result<Vec<Kind>, Fault> {
        let names: Vec<&str> = companions.keys().map(String::as_str).collect();
        let mut first = 0;
        let mut kinds = Vec::new();
        for companion in companions.values() {
            let mut after = vec![false; spoken.operations.len()];
            for name in &companion.after {
                after[usize::from(spoken.operation(name)?)] = true;
            }
            let mut until = vec![None; spoken.operations.len()];
            for (name, ending) in &companion.until {
                until[usize::from(spoken.operation(name)?)] = Some(*ending);
            }
            let tells = companion.tells.iter().map(|(user, own)| Ok((spoken.slot(user)?, spoken.slot(own)?)));
            kinds.push(Kind {
                path: Path::markov(&companion.start, &companion.next, &names, spoken)?,
                pause: companion.pause,
                at_most: companion.at_most as usize,
                places: first..first + places(companion),
                tells: tells.collect::<Result<_, Fault>>()?,
                after,
                until,
            });
            first += places(companion);
        }
        Ok(kinds)
    }

    /// Whether a right answer to this operation of the user starts one.
    #[inline]
    pub(crate) fn starts_after(&self, operation: u16) -> bool {
        self.after[usize::from(operation)]
    }

    /// Which of them end when the user begins this operation.
    #[inline]
    pub(crate) fn ended_by(&self, operation: u16) -> Option<Ending> {
        self.until[usize::from(operation)]
    }
}
