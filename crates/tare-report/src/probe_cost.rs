//! What sampling costs the load, in words.

use crate::verdict::ratio_figure;
use tare_core::design::Arrangement;
use tare_core::load::{LoadOrigin, LoadProfile};
use tare_core::record::Record;
use tare_core::telemetry::{PROBE, RESTS_FROM};
use tare_stats::{Analysis, ProbeCost};

/// The cost that was found, or that it was not measured and where it is; none where nothing was sampled.
pub(crate) fn cost(record: &Record, analysis: &Analysis) -> Option<String> {
    if let Some(cost) = analysis.apparatus.probe_cost {
        return Some(found(cost));
    }
    let is_sampled = record.trials.iter().any(|trial| trial.telemetry.iter().any(|row| row.scope == PROBE));
    is_sampled.then(|| format!("the cost of the probe was not measured{}", why_not(record)))
}

/// `throughput with the probe at work is 0.998 [0.995, 1.001] times that while it rests (24 rests)`.
fn found(cost: ProbeCost) -> String {
    let ratio = ratio_figure(None, cost.ratio, cost.interval);
    let rests = if cost.rests == 1 { "1 rest".to_owned() } else { format!("{} rests", cost.rests) };
    format!("throughput with the probe at work is {ratio} times that while it rests ({rests})")
}

/// Why the sampler never rested, where the study is the reason.
fn why_not(record: &Record) -> &'static str {
    let study = &record.header.study;
    let closed = matches!(study.load, LoadProfile::Closed { .. }) && study.from != LoadOrigin::Inside;
    match () {
        () if study.design.arrangement != Arrangement::Blocks => " in this design (it rests only in design blocks)",
        () if closed && study.peak.is_none() && study.measure >= RESTS_FROM => "",
        () => " (it rests only in closed loops from outside, measured at one level for 10 s or longer)",
    }
}
