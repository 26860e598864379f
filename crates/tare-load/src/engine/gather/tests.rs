//! The results of made-up windows and turns.

use super::super::layout::Layout;
use super::super::timeline::Span;
use super::*;
use crate::profile::Share;
use tare_core::load::{Arrivals, LoadProfile};

/// The verdict on one second at a level, for a worker that never rested and found `crowd` replies at once.
fn verdict(of: LoadProfile, level: f64, crowd: u64) -> Option<String> {
    let steps = LoadProfile::Steps {
        of: Box::new(of),
        levels: vec![level],
        warm: None,
        ramp: Duration::ZERO,
        settle: Duration::ZERO,
        measure: Duration::from_secs(1),
    };
    let plan = LoadPlan {
        timeout: Duration::from_secs(1),
        ..LoadPlan::of("null", serde_json::Value::Null, ([127, 0, 0, 1], 1).into(), steps)
    };
    let layout = Layout::new(&plan, &[], false).unwrap();
    let mut gather = Gather::new(&[OperationRow { name: "x".into(), weight: 1, lingers: false }], true, None);
    let _spares = gather.worker(layout.closed_loop(Share { worker: 0, workers: 1 }));
    let mut window = Window::new(Span { number: 0, level, from_ns: 0, to_ns: SECOND_NS }, 1);
    window.effort = Effort { cpu_ns: SECOND_NS, idle_ns: 0, replies: 1000, crowd: 1000 * crowd };
    gather.take_window(0, window).unwrap().saturated
}

#[test]
fn a_level_is_judged_by_its_own_operations() {
    let closed = LoadProfile::Closed { connections: 50, pipeline: 2 };
    assert!(verdict(closed.clone(), 10.0, 19).is_some(), "19 of 20 wait for the generator");
    assert!(verdict(closed.clone(), 10.0, 10).is_none());
    assert!(verdict(closed, 50.0, 19).is_none(), "19 of 100");
    let open = LoadProfile::Open { rate: 10.0, arrivals: Arrivals::Constant, connections: 1, in_flight: 10 };
    assert!(verdict(open, 10.0, 1).is_none(), "a plan is judged by its starts");
}

/// The check on the length of a load that was at work for `active_s` of the requested 10 s, if an operation of its own
/// was lost, or one of any load that took turns with it.
fn shortness(active_s: u64, own_lost: bool, lost_by_any: bool) -> Option<Check> {
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let plan = LoadPlan {
        measure: Duration::from_secs(10),
        ..LoadPlan::of("null", serde_json::Value::Null, ([127, 0, 0, 1], 1).into(), closed)
    };
    let mut gather = Gather::new(&[OperationRow { name: "x".into(), weight: 1, lingers: false }], false, None);
    gather.ledger.lost = vec![u64::from(own_lost)];
    let turns = TurnsSummary { active_ns: active_s * SECOND_NS, ..TurnsSummary::default() };
    let checks = gather.finish(&plan, Verified::default(), Some((turns, lost_by_any))).checks;
    checks.into_iter().find(|check| check.name == "the load was at work for as long as was asked")
}

#[test]
fn a_load_without_its_time_is_void_unless_any_of_those_that_take_turns_lost_operations() {
    let outcome = |active_s, own_lost, lost_by_any| {
        shortness(active_s, own_lost, lost_by_any).map(|check| {
            assert!(!check.passed && check.always);
            check.outcome
        })
    };
    assert_eq!(outcome(4, false, false), Some(false), "nobody knows who took the time");
    assert_eq!(outcome(4, false, true), Some(true), "another one's service has failed");
    assert_eq!(outcome(4, true, false), Some(true));
    assert_eq!(outcome(5, true, true), None, "half of the time is enough");
}
