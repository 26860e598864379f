//! When samplers pause during a measurement, so that the report can say what they cost.

use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::draws::draws;
use tare_core::plan::PlannedTrial;
use tare_core::study::Study;
use tare_core::telemetry::Rest;

/// How long a rest lasts: long enough to contain whole seconds of load.
const LASTS: Duration = Duration::from_secs(2);

/// One rest per this time, so that rests take an eighth of it. Counters are read at both ends of a rest.
const EVERY: Duration = Duration::from_secs(16);

/// The same if forms take turns. It is shorter because each form has only a part of the time.
const EVERY_BY_TURNS: Duration = Duration::from_secs(5);

/// When such a rest starts after the beginning of its interval: at least the first, plus a random part of the second,
/// so that it is in step with nothing. The time between two rests is longer than a rest.
const COMES_AFTER: (Duration, Duration) = (Duration::from_millis(1100), Duration::from_millis(800));

/// How long it takes at most until all loads are connected.
const CONNECTING: Duration = Duration::from_millis(1500);

/// The greatest number of such rests: in longer trials the first part shows what sampling costs.
const MOST_BY_TURNS: u32 = 100;

/// The rests of a trial, spread evenly over the measured time but not at its ends, relative to the start of the load.
/// None if the throughput does not show the cost, because the load does not wait for answers or does not stay at one
/// level; if forms stand side by side (see [`rests_by_turns`]); and for profiled trials.
pub(crate) fn probe_rests(study: &Study, planned: &PlannedTrial) -> Vec<Rest> {
    if study.design.arrangement != Arrangement::Blocks || planned.profiled || !study.samplers_rest(1) {
        return Vec::new();
    }
    let count = (study.measure.as_secs() / EVERY.as_secs()).max(1) as u32;
    let middle = |at: u32| study.settle + study.measure * (2 * at + 1) / (2 * count);
    (0..count).map(|at| Rest { after: middle(at) - LASTS / 2, lasts: LASTS }).collect()
}

/// The rests of a block of this many `loads` that take turns, if there are any. All samplers rest at once. Times
/// are relative to when the samplers get them, right before the loads connect. The seed decides when in its interval
/// each rest starts.
pub(crate) fn rests_by_turns(study: &Study, loads: u32, seed: u64) -> Vec<Rest> {
    let (settle, measure) = (study.settle * loads, study.measure * loads);
    if !study.samplers_rest(loads) {
        return Vec::new();
    }
    let count = (measure.saturating_sub(CONNECTING).as_secs() / EVERY_BY_TURNS.as_secs()) as u32;
    let (least, spread) = COMES_AFTER;
    let mut draws = draws(seed, 0);
    let mut later = || least + spread * (draws.draw() & 0xff) as u32 / 0x100;
    let begins = settle + CONNECTING;
    let rest = |at: u32| Rest { after: begins + EVERY_BY_TURNS * at + later(), lasts: LASTS };
    (0..count.min(MOST_BY_TURNS)).map(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::design::Chop;
    use tare_core::load::LoadProfile;

    fn chopped(measure: Duration) -> Study {
        let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
        let settle = Duration::from_millis(500);
        let mut study = Study { settle, measure, ..Study::of("s", "w", closed, Vec::new()) };
        study.design.arrangement = Arrangement::Chop(Chop::default());
        study
    }

    #[test]
    fn by_turns_samplers_rest_often_and_with_as_much_time_on_either_side() {
        let (settle, measure) = (Duration::from_millis(500), Duration::from_secs(3));
        let study = chopped(measure);
        assert_eq!(rests_by_turns(&study, 3, 7), [], "that is too short");
        let rests = rests_by_turns(&study, 6, 7);
        // 18 s from second 3 on, of which the first 1.5 s are for connecting.
        assert_eq!(rests.len(), 3);
        assert!(
            rests[0].after - LASTS >= settle * 6 && rests[2].after + 2 * LASTS <= (settle + measure) * 6,
            "{rests:?}"
        );
        for seed in 0..100 {
            let rests = rests_by_turns(&chopped(Duration::from_secs(60)), 6, seed);
            assert_eq!(rests.len(), 71);
            assert!(rests.windows(2).all(|pair| pair[1].after - pair[0].after > 2 * LASTS), "{rests:?}");
        }
        assert_ne!(rests_by_turns(&study, 6, 8), rests, "they are in step with nothing");
        assert_eq!(rests_by_turns(&chopped(Duration::from_secs(600)), 2, 7).len(), 100);
    }
}
