//! What a load that is played comes to by turns.

use std::time::Duration;
use tare_core::load::{TurnLength, TurnUse, Turns, TurnsSummary};

/// By length, the rates of a load that takes turns, in six cycles; one that is `cold` loses a fifth in turns of 10 ms.
pub(crate) fn lengths(turns: &Turns, cold: bool) -> Vec<TurnLength> {
    let Some(longest) = turns.compared_to else { return Vec::new() };
    let row = |slice: Duration| {
        let kept = if cold && slice < Duration::from_millis(20) { 0.8 } else { 1.0 };
        let rate = |cycle: u32| Some(1000.0 * kept * (1.0 + 0.01 * f64::from(cycle % 2)));
        TurnLength { slice_ns: slice.as_nanos() as u64, rates: (0..6).map(rate).collect() }
    };
    [Duration::from_millis(10), Duration::from_millis(20), longest].map(row).into()
}

/// A single turn of this length.
pub(crate) fn one_turn(active_ns: u64) -> TurnsSummary {
    TurnsSummary { turns: 1, slice_ns: active_ns, active_ns, longest_ns: active_ns, ..TurnsSummary::default() }
}

/// What serves the load `at` this place used in each load's turns, where that was to be counted.
pub(crate) fn cpu_by_turn(turns: &Turns, at: usize) -> Vec<TurnUse> {
    let used = |whose| TurnUse { cpu_ns: if whose == at { 900 } else { 10 }, during_ns: 1000 };
    (0..turns.serving.len()).map(used).collect()
}
