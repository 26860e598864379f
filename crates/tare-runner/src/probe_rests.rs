//! When samplers pause during a measurement, so that the report can say what they cost.

use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::draws::draws;
use tare_core::plan::PlannedTrial;
use tare_core::study::Study;
use tare_core::telemetry::{Rest, RestHalf};

/// How long a rest lasts: long enough to contain whole seconds of load.
const LASTS: Duration = Duration::from_secs(2);

/// One rest per this time, so that rests take an eighth of it. Counters are read at both ends of a rest.
const EVERY: Duration = Duration::from_secs(16);

/// The same if forms take turns. It is shorter because each form has only a part of the time.
const EVERY_BY_TURNS: Duration = Duration::from_secs(5);

/// Such a stretch starts after a random part of this time, so that rests are in step with nothing. What is left of the
/// interval is more than by how much the samplers of several forms differ in when they rest.
const COMES_AFTER: Duration = Duration::from_millis(500);

/// How long it takes at most until all loads are connected.
const CONNECTING: Duration = Duration::from_millis(1500);

/// The greatest number of such rests: in longer trials the first part shows what sampling costs.
const MOST_BY_TURNS: u32 = 100;

/// Draws for rests are others than those for the order of forms.
const DRAWS_FOR_RESTS: u64 = 0x7265_7374;

/// The loads of a block that take turns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loads {
    /// Of the arms of the block that this machine can have.
    pub(crate) planned: u32,
    /// Those whose deployment stands.
    pub(crate) stand: u32,
}

/// In which half of each stretch of time the samplers of the `nth` block of its kind rest, from 0. Two such blocks
/// together have rests in both halves, so that each moment of a deployment is as often sampled as not, and a trend
/// within deployments is no cost of sampling. The seed of the run decides which of the two begins.
pub(crate) fn rest_half(seed: u64, nth: u32) -> RestHalf {
    let begins = draws(seed ^ DRAWS_FOR_RESTS, nth / 2).draw() & 1;
    if (u64::from(nth) + begins).is_multiple_of(2) { RestHalf::First } else { RestHalf::Second }
}

/// The rest in a stretch of time that starts at this moment and lasts twice as long.
fn rest_in(stretch: Duration, half: RestHalf) -> Rest {
    let after = match half {
        RestHalf::First => stretch,
        RestHalf::Second => stretch + LASTS,
    };
    Rest { after, lasts: LASTS }
}

/// The rests of a trial, spread evenly over the measured time but not at its ends, relative to the start of the load.
/// None if the throughput does not show the cost, because the load does not wait for answers or does not stay at one
/// level; if forms stand side by side (see [`rests_by_turns`]); and for profiled trials.
pub(crate) fn probe_rests(study: &Study, planned: &PlannedTrial, half: RestHalf) -> Vec<Rest> {
    if study.design.arrangement != Arrangement::Blocks || planned.profiled || !study.samplers_rest(1) {
        return Vec::new();
    }
    let count = (study.measure.as_secs() / EVERY.as_secs()).max(1) as u32;
    let middle = |at: u32| study.settle + study.measure * (2 * at + 1) / (2 * count);
    (0..count).map(|at| rest_in(middle(at) - LASTS, half)).collect()
}

/// The rests of a block whose `loads` take turns, if there are any. All samplers rest at once. Times are relative to
/// when the samplers get them, right before the loads connect. The seed of the run decides when in its interval each
/// stretch starts, for all blocks alike: one in which a deployment is missing rests at the moments of the others, as
/// long as its load lasts.
pub(crate) fn rests_by_turns(study: &Study, loads: Loads, seed: u64, half: RestHalf) -> Vec<Rest> {
    let (settle, measure) = (study.settle * loads.planned, study.measure * loads.planned);
    if !study.samplers_rest(loads.planned) {
        return Vec::new();
    }
    let count = (measure.saturating_sub(CONNECTING).as_secs() / EVERY_BY_TURNS.as_secs()) as u32;
    let mut draws = draws(seed ^ DRAWS_FOR_RESTS, 0);
    let mut later = || COMES_AFTER * (draws.draw() & 0xff) as u32 / 0x100;
    let begins = settle + CONNECTING;
    let ends = (study.settle + study.measure) * loads.stand;
    let stretches = (0..count.min(MOST_BY_TURNS)).map(|at| begins + EVERY_BY_TURNS * at + later());
    stretches.filter(|stretch| *stretch + 2 * LASTS <= ends).map(|stretch| rest_in(stretch, half)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::design::Chop;
    use tare_core::form::Form;
    use tare_core::load::LoadProfile;
    use tare_core::plan::{nth_of_its_kind, plan};

    fn chopped(measure: Duration) -> Study {
        let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
        let settle = Duration::from_millis(500);
        let mut study = Study { settle, measure, ..Study::of("s", "w", closed, Vec::new()) };
        study.design.arrangement = Arrangement::Chop(Chop::default());
        study
    }

    fn all_of(loads: u32) -> Loads {
        Loads { planned: loads, stand: loads }
    }

    #[test]
    fn without_one_of_its_deployments_a_block_rests_at_the_moments_of_the_others() {
        let study = chopped(Duration::from_secs(6));
        for half in [RestHalf::First, RestHalf::Second] {
            let whole = rests_by_turns(&study, all_of(4), 7, half);
            let fewer = rests_by_turns(&study, Loads { planned: 4, stand: 3 }, 7, half);
            // Of 26 s, of which 2 are for settling, the load of three takes 19.5.
            assert_eq!((whole.len(), fewer.as_slice()), (4, &whole[..3]));
            assert_eq!(rests_by_turns(&study, Loads { planned: 4, stand: 1 }, 7, half), []);
        }
    }

    #[test]
    fn by_turns_samplers_rest_often_and_with_as_much_time_beside_it() {
        use RestHalf::{First, Second};
        let rests_by_turns = |study: &Study, loads: u32, seed, half| rests_by_turns(study, all_of(loads), seed, half);
        let (settle, measure) = (Duration::from_millis(500), Duration::from_secs(3));
        let study = chopped(measure);
        assert_eq!(rests_by_turns(&study, 3, 7, First), [], "that is too short");
        let (first, second) = (rests_by_turns(&study, 6, 7, First), rests_by_turns(&study, 6, 7, Second));
        // 18 s from second 3 on, of which the first 1.5 s are for connecting.
        assert_eq!((first.len(), second.len()), (3, 3));
        assert!(first[0].after >= settle * 6 && second[2].after + LASTS <= (settle + measure) * 6, "{second:?}");
        assert!(first.iter().zip(&second).all(|(first, second)| second.after == first.after + LASTS), "{second:?}");
        for seed in 0..100 {
            let rests = rests_by_turns(&chopped(Duration::from_secs(60)), 6, seed, First);
            assert_eq!(rests.len(), 71);
            assert!(rests.windows(2).all(|pair| pair[1].after - pair[0].after > 2 * LASTS), "{rests:?}");
        }
        assert_ne!(rests_by_turns(&study, 6, 8, First), first, "they are in step with nothing");
        assert_eq!(rests_by_turns(&chopped(Duration::from_secs(600)), 2, 7, First).len(), 100);
    }

    #[test]
    fn of_two_blocks_of_a_kind_each_rests_in_another_half() {
        let forms = ["plain", "box", "apart"].map(|name| Form { name: name.to_owned(), ..Form::default() });
        let mut study = chopped(Duration::from_secs(6));
        (study.forms, study.baseline, study.repeat) = (forms.to_vec(), "plain".to_owned(), 8);
        study.design.arrangement = Arrangement::Chop(Chop { apart: vec!["apart".to_owned()], ..Chop::default() });
        let begins_second = (0..100).filter(|seed| {
            let plan = plan(&study, &[], *seed);
            let half = |block: u32| rest_half(*seed, nth_of_its_kind(&plan, "plain", block));
            // One kind has the form box, the other the form apart.
            let of_kind = |form: &str| -> Vec<RestHalf> {
                plan.iter().filter(|trial| trial.form == form).map(|trial| half(trial.block)).collect()
            };
            for form in ["box", "apart"] {
                let halves = of_kind(form);
                assert!(halves.len() == 8 && halves.chunks(2).all(|pair| pair[0] != pair[1]), "{form}: {halves:?}");
            }
            half(0) == RestHalf::Second
        });
        assert!((25..75).contains(&begins_second.count()), "the seed decides");
    }
}
