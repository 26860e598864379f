//! What sampling takes from the load, in words.

use crate::verdict::ratio_figure;
use tare_core::design::Arrangement;
use tare_core::load::{LoadOrigin, LoadProfile};
use tare_core::record::Record;
use tare_core::telemetry::{PROBE, RESTS_FROM};
use tare_stats::{Analysis, ProbeCost};

/// What it was found to take, or that this was not measured and where it is; none where nothing was sampled.
pub(crate) fn cost(record: &Record, analysis: &Analysis) -> Option<String> {
    if let Some(cost) = analysis.apparatus.probe_cost {
        return Some(found(cost));
    }
    let is_sampled = record.trials.iter().any(|trial| trial.telemetry.iter().any(|row| row.scope == PROBE));
    is_sampled.then(|| format!("what the probe takes from the load was not measured{}", why_not(record)))
}

/// `throughput 0.998 [0.995, 1.001] times with the probe at work as while it rests (24 rests)`.
fn found(cost: ProbeCost) -> String {
    let ratio = ratio_figure(None, cost.ratio, cost.interval);
    let rests = if cost.rests == 1 { "1 rest".to_owned() } else { format!("{} rests", cost.rests) };
    format!("throughput {ratio} times with the probe at work as while it rests ({rests})")
}

/// Why no sampler rested, where the study says so.
fn why_not(record: &Record) -> &'static str {
    let study = &record.header.study;
    let closed = matches!(study.load, LoadProfile::Closed { .. }) && study.from != LoadOrigin::Inside;
    match () {
        () if study.design.arrangement != Arrangement::Blocks => " in this design: it rests in design blocks alone",
        () if closed && study.peak.is_none() && study.measure >= RESTS_FROM => "",
        () => ": it rests in closed loops from outside that are measured at one level, for 10 s or longer",
    }
}
