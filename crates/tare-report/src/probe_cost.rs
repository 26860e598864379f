//! What sampling costs the load, in words.

use std::collections::{BTreeMap, BTreeSet};
use tare_core::design::Arrangement;
use tare_core::record::Record;
use tare_core::telemetry::{PROBE, RestHalf};
use tare_stats::{Analysis, FormProbeCost, ProbeCost, ProbeEffect, ProbeRatio};

/// The cost that was found, or that it was not measured and where it is; none where nothing was sampled.
pub(crate) fn cost(record: &Record, analysis: &Analysis) -> Option<String> {
    if let Some(cost) = &analysis.apparatus.probe_cost {
        return Some(found(cost));
    }
    let is_sampled = record.trials.iter().any(|trial| trial.telemetry.iter().any(|row| row.scope == PROBE));
    is_sampled.then(|| format!("the cost of the probe was not measured{}", why_not(record)))
}

/// `the probe: 0.1 % fewer operations [-0.2, 0.4] than while it rests (24 rests)`.
fn found(cost: &ProbeCost) -> String {
    let all = ProbeRatio { ratio: cost.ratio, interval: cost.interval };
    let rests = if cost.rests == 1 { "1 rest".to_owned() } else { format!("{} rests", cost.rests) };
    format!("the probe: {} than while it rests ({rests})", change(ProbeEffect::Throughput, all))
}

/// `native 0.1 % fewer operations [-0.2, 0.4], 0.3 % more CPU per op [0.1, 0.5]; container ...`; none where that was
/// not measured.
pub(crate) fn by_form(analysis: &Analysis) -> Option<String> {
    let form = |found: &FormProbeCost| {
        let operations = change(ProbeEffect::Throughput, found.throughput);
        let cpu = found.cpu_per_op.map(|cost| format!(", {}", change(ProbeEffect::CpuPerOp, cost)));
        format!("{} {operations}{}", found.form, cpu.unwrap_or_default())
    };
    let forms: Vec<String> = analysis.apparatus.probe_cost.iter().flat_map(|cost| &cost.forms).map(form).collect();
    (!forms.is_empty()).then(|| forms.join("; "))
}

/// `0.1 % fewer operations [-0.2, 0.4]`: with the probe at work, by what they are without it.
fn change(changes: ProbeEffect, cost: ProbeRatio) -> String {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    // No negative zero.
    let rounded = |percent: f64| (10.0 * percent).round() / 10.0 + 0.0;
    let value = rounded(percent(cost.ratio));
    // None at all is called what a cost would be.
    let is_less = value < 0.0 || (value == 0.0 && changes == ProbeEffect::Throughput);
    let way = match (changes, is_less) {
        (ProbeEffect::Throughput, true) => "fewer operations",
        (ProbeEffect::Throughput, false) => "more operations",
        (ProbeEffect::CpuPerOp, true) => "less CPU per op",
        (ProbeEffect::CpuPerOp, false) => "more CPU per op",
    };
    let interval = cost.interval.map(|interval| {
        let (low, high) = (percent(interval.low), percent(interval.high));
        let (low, high) = if is_less { (-high, -low) } else { (low, high) };
        format!(" [{:.1}, {:.1}]", rounded(low), rounded(high))
    });
    format!("{:.1} % {way}{}", value.abs(), interval.unwrap_or_default())
}

/// That it takes too much from a form.
pub(crate) fn weighs(form: &str, changes: ProbeEffect, cost: ProbeRatio) -> String {
    format!(
        "the probe slows {form} down: {} than while it rests, and the figures of {form} include most of that. To do: leave the machine, and each \
         guest, a CPU that no service is bound to",
        change(changes, cost)
    )
}

/// Why the sampler never rested, where the study is the reason.
fn why_not(record: &Record) -> &'static str {
    let study = &record.header.study;
    let is_there = |form: &str| record.header.forms.get(form).is_none_or(|state| state.unavailable.is_none());
    let loads = record.header.plan.iter().filter(|trial| trial.block == 0 && is_there(&trial.form)).count() as u32;
    let mut halves: BTreeMap<&str, BTreeSet<RestHalf>> = BTreeMap::new();
    for (trial, half) in record.trials.iter().filter_map(|trial| Some((&trial.record.trial, trial.record.rest_half?))) {
        halves.entry(&trial.form).or_default().insert(half);
    }
    match study.design.arrangement {
        _ if !halves.is_empty() && halves.values().all(|halves| halves.len() == 1) => {
            " (that takes a second block, in which it rests at other moments)"
        }
        _ if study.samplers_rest(loads) => "",
        Arrangement::Blocks => {
            " (it rests only in closed loops from outside, measured at one level for 10 s or longer)"
        }
        Arrangement::Chop(_) => " (it rests only where all forms of a block together are measured for 10 s or longer)",
        Arrangement::Alternate(_) | Arrangement::Duet => " in this design (it rests only in designs blocks and chop)",
    }
}
