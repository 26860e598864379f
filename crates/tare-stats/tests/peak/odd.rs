//! Systems that have no peak, or an odd one: the search ends, and says what it saw.

use crate::peak::noise::{BAD, NEIGHBOUR, NONE, Noise, QUIET, SHARED};
use crate::peak::searches::{many, search, staircase, thorough};
use crate::peak::system::{Kind, Make};
use tare_core::peak::{PeakEnding, PeakNote, PeakOutcome, PeakPlan};

fn of(kind: Kind) -> Make {
    Make { kind, ..Make::reference() }
}

fn noted(outcome: &PeakOutcome, is: fn(&PeakNote) -> bool) -> bool {
    outcome.notes.iter().any(is)
}

/// Of ten searches, how many say so.
fn say_so(make: &Make, of_ten: impl Fn(&PeakOutcome) -> bool) -> usize {
    let outcomes = (0..10).map(|seed| search(make, &SHARED, 900 + seed, staircase(make, 200.0), None));
    outcomes.filter(of_ten).count()
}

#[test]
fn a_system_that_always_fails_is_given_up() {
    for seed in 1..=5 {
        let outcome = search(&of(Kind::Always { share: 0.3 }), &NONE, seed, staircase(&Make::reference(), 200.0), None);
        assert!(matches!(outcome.ending, PeakEnding::AlwaysFails { .. }), "{:?}", outcome.ending);
        assert_eq!(outcome.peak, None);
        assert!(outcome.load_s < 10.0 * 60.0, "{}", outcome.load_s);
    }
}

#[test]
fn a_system_that_just_fails_everywhere_is_given_up_too() {
    let plan = PeakPlan { at_least: 50.0, ..staircase(&Make::reference(), 200.0) };
    let outcome = search(&of(Kind::Always { share: 0.05 }), &NONE, 1, plan, None);
    assert!(matches!(outcome.ending, PeakEnding::AlwaysFails { .. }), "{:?} {:?}", outcome.ending, outcome.peak);
}

#[test]
fn a_system_that_never_fails_is_tried_up_to_the_bound() {
    let make = Make::reference();
    let mut plan = staircase(&make, 200.0);
    plan.at_most = 900.0;
    let outcome = search(&make, &SHARED, 1, plan, None);
    assert_eq!(outcome.ending, PeakEnding::NeverFails { up_to: 900.0 });
    assert_eq!(outcome.peak, None);
}

/// Of how many searches how many name a memory, and how many say nothing at all.
fn memories(make: &Make, noise: &Noise, start: f64) -> (u64, u64, u64) {
    let n = if thorough() { 100 } else { 10 };
    let found = many(n, |seed| search(make, noise, 9_000 + seed, staircase(make, start), None));
    let named = |o: &&PeakOutcome| matches!(o.ending, PeakEnding::Hysteresis { tips, recovers } if recovers < tips);
    let silent = found.0.iter().filter(|outcome| outcome.notes.is_empty()).count();
    (n, found.0.iter().filter(named).count() as u64, silent as u64)
}

/// One that meets the memory once only cannot tell it from a disturbance. Then the interval is wide, and it is that
/// which is said.
#[test]
fn a_memory_is_named_or_at_least_not_passed_over() {
    let make = of(Kind::Hysteresis { limit: 0.3, slower: 1.6 });
    for (name, noise) in [("quiet", QUIET), ("shared", SHARED), ("bad", BAD)] {
        let (n, named, silent) = memories(&make, &noise, 200.0);
        println!("{name}: {named} of {n}");
        assert!(named * 10 >= n * 9, "{name}: {named} of {n}");
        assert_eq!(silent, 0, "{name}");
    }
}

#[test]
fn nothing_else_is_taken_for_a_memory() {
    for (system, make, start) in [
        ("reference", Make::reference(), 200.0),
        ("loose limits", Make::loose(), 200.0),
        ("open", Make::open(), 40.0),
        ("one server, open", Make::single(), 100.0),
        ("cliff", of(Kind::Cliff { at: 1000.0 }), 200.0),
        ("slope", of(Kind::Slope { at: 1000.0, power: 4.0 }), 200.0),
    ] {
        let noises = [("quiet", QUIET, 0), ("shared", SHARED, 0), ("bad", BAD, 2), ("neighbour", NEIGHBOUR, 3)];
        for (name, noise, of_ten) in noises {
            let (n, named, _) = memories(&make, &noise, start);
            println!("{system}, {name}: {named} of {n}");
            assert!(named * 10 <= n * of_ten, "{system}, {name}: {named} of {n}");
        }
    }
}

#[test]
fn the_edge_of_a_cliff_is_found() {
    let make = of(Kind::Cliff { at: 1000.0 });
    let near = |o: &PeakOutcome| {
        o.peak.is_some_and(|peak| (peak / 1000.0 - 1.0).abs() < 0.05) && noted(o, |note| *note == PeakNote::Cliff)
    };
    let seen = say_so(&make, near);
    assert!(seen >= 8, "{seen} of 10");
    let plain = say_so(&Make::reference(), |o| !noted(o, |note| *note == PeakNote::Cliff));
    assert!(plain >= 9, "{plain} of 10");
}

#[test]
fn a_gentle_slope_is_called_one() {
    let make = of(Kind::Slope { at: 1000.0, power: 4.0 });
    let seen = say_so(&make, |o| {
        noted(o, |note| matches!(note, PeakNote::GentleSlope { .. }))
            && o.peak.is_some_and(|peak| (peak / 1000.0 - 1.0).abs() < 0.2)
    });
    assert!(seen >= 8, "{seen} of 10");
}

#[test]
fn a_bad_neighbour_is_suspected() {
    let make = Make::reference();
    let outcomes = (0..10).map(|seed| search(&make, &NEIGHBOUR, 900 + seed, staircase(&make, 200.0), None));
    let seen = outcomes.filter(|o| !o.notes.is_empty()).count();
    assert!(seen >= 8, "{seen} of 10");
}
