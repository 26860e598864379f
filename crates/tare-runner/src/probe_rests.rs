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
