//! When the samplers rest while a trial is measured, so that the report can say what they cost.

use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::load::{LoadOrigin, LoadProfile};
use tare_core::plan::PlannedTrial;
use tare_core::study::Study;
use tare_core::telemetry::{RESTS_FROM, Rest};

/// How long a rest lasts: so long that whole seconds of load lie within.
const LASTS: Duration = Duration::from_secs(2);

/// One rest in each so long: an eighth of the time, for which counters are read at either end.
const EVERY: Duration = Duration::from_secs(16);

/// The same where forms take turns, each of which has but a part of the time: one rest in each so long.
const EVERY_BY_TURNS: Duration = Duration::from_secs(5);

/// How long such a rest comes after the beginning of its part of the time, at least; by up to so much later, it is in
/// step with nothing. Two rests have more than their own length between them.
const COMES_AFTER: (Duration, Duration) = (Duration::from_millis(1100), Duration::from_millis(800));

/// Until all loads are connected.
const CONNECTING: Duration = Duration::from_millis(1500);

/// So many such rests at most: of longer trials the first part says what sampling costs.
const MOST_BY_TURNS: u32 = 100;

/// The rests of a trial, spread evenly over what is measured and none at its ends, counted from the moment at which the
/// load is started. None where the throughput says nothing of the cost, because the load does not wait for answers or
/// does not stay at one level; where forms take turns; and of a trial that is watched closely.
pub(crate) fn probe_rests(study: &Study, planned: &PlannedTrial) -> Vec<Rest> {
    let closed = matches!(study.load, LoadProfile::Closed { .. }) && study.from != LoadOrigin::Inside;
    let alone = study.design.arrangement == Arrangement::Blocks && study.peak.is_none() && !planned.profiled;
    if !closed || !alone || study.measure < RESTS_FROM {
        return Vec::new();
    }
    let count = (study.measure.as_secs() / EVERY.as_secs()).max(1) as u32;
    let middle = |at: u32| study.settle + study.measure * (2 * at + 1) / (2 * count);
    (0..count).map(|at| Rest { after: middle(at) - LASTS / 2, lasts: LASTS }).collect()
}

/// The rests of a block of so many `loads` that take turns, of which each settles and is measured for so long: of all
/// their samplers at once, counted from when they are told, right before the loads connect. At which moment of its part
/// of the time each begins the seed decides.
pub(crate) fn rests_by_turns(settle: Duration, measure: Duration, loads: u32, seed: u64) -> Vec<Rest> {
    let (settle, measure) = (settle * loads, measure * loads);
    if measure < RESTS_FROM {
        return Vec::new();
    }
    let count = (measure.saturating_sub(CONNECTING).as_secs() / EVERY_BY_TURNS.as_secs()) as u32;
    let (least, spread) = COMES_AFTER;
    // Xorshift, as turns have it, from a seed that may be small.
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut later = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        least + spread * ((random >> 32) & 0xff) as u32 / 0x100
    };
    let begins = settle + CONNECTING;
    let rest = |at: u32| Rest { after: begins + EVERY_BY_TURNS * at + later(), lasts: LASTS };
    (0..count.min(MOST_BY_TURNS)).map(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_turns_samplers_rest_often_and_with_as_much_time_on_either_side() {
        let (settle, measure) = (Duration::from_millis(500), Duration::from_secs(3));
        assert_eq!(rests_by_turns(settle, measure, 3, 7), [], "that is too short");
        let rests = rests_by_turns(settle, measure, 6, 7);
        // 18 s from the third on, of which the first and a half are for connecting.
        assert_eq!(rests.len(), 3);
        assert!(
            rests[0].after - LASTS >= settle * 6 && rests[2].after + 2 * LASTS <= (settle + measure) * 6,
            "{rests:?}"
        );
        for seed in 0..100 {
            let rests = rests_by_turns(settle, Duration::from_secs(60), 6, seed);
            assert_eq!(rests.len(), 71);
            assert!(rests.windows(2).all(|pair| pair[1].after - pair[0].after > 2 * LASTS), "{rests:?}");
        }
        assert_ne!(rests_by_turns(settle, measure, 6, 8), rests, "they are in step with nothing");
        assert_eq!(rests_by_turns(settle, Duration::from_secs(600), 2, 7).len(), 100);
    }
}
