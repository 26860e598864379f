//! What a reader must be told before the figures.

use crate::analysis::{Analysis, Sameness, Verdict};
use crate::stalls::{Counted, Stall, Stalls};
use crate::voids::oftener;
use std::collections::BTreeSet;
use tare_core::record::{DECIDED, Record, TrialData};
use tare_core::trial::Outcome;

/// Below this p a form's trend is its own: noise alone flags some trials of every form.
const UNSTEADY_P: f64 = 0.01;

/// What a reader must know before believing a figure; gravest first.
pub(crate) fn warnings(record: &Record, analysis: &Analysis) -> Vec<String> {
    let mut warnings = Vec::new();
    if analysis.emulated_baseline().is_some() {
        let baseline = &analysis.baseline;
        warnings.push(format!("the baseline {baseline} ran EMULATED: no ratio to it is a claim about the real thing"));
    }
    for metric in analysis.metrics.iter().filter(|metric| metric.control_differs) {
        let (floor, title) = (metric.noise_floor.unwrap_or_default() * 100.0, &metric.title);
        warnings.push(format!(
            "the A/A arm differs from the baseline in {title} (by chance alone in at most 1 of 20 runs): {} treats equals \
             differently. Verdicts on {title} are withheld; treat effects below {floor:.1} % as noise",
            host(record)
        ));
    }
    warnings.extend(void_warnings(record, analysis));
    for bits in &analysis.bits {
        if let Some(first) = bits.differences.first() {
            let more = bits.differences.len() - 1;
            let others = if more == 0 { String::new() } else { format!(" and {more} more") };
            warnings.push(format!("not the same bits: service {} has another {}{others}", bits.service, first.path));
        }
    }
    for service in &analysis.resources {
        // An emulated form makes no claim that could be biased.
        let emulated = |form: &String| analysis.arms.iter().any(|arm| arm.form == *form && analysis.emulated(arm));
        let unequal = service.rows.iter().filter(|row| {
            let mut cells = row.cells.iter().zip(&service.forms);
            row.matters && cells.any(|(cell, form)| cell.sameness == Sameness::Differs && !emulated(form))
        });
        let names: Vec<&str> = unequal.map(|row| row.property.as_str()).collect();
        if !names.is_empty() {
            let (service, names) = (&service.service, names.join(", "));
            warnings.push(format!("unequal resources of service {service} may bias the comparison: {names}"));
        }
    }
    warnings.extend(trimming_warnings(analysis));
    warnings.extend(unsteady_warning(analysis));
    for metric in &analysis.metrics {
        let odd = metric.ratios.iter().filter(|ratio| ratio.sensitive && ratio.verdict != Verdict::Emulated);
        for ratio in odd {
            let (arm, title) = (&ratio.arm, &metric.title);
            warnings.push(format!("{arm}, {title}: blocks are not near-normal; look at the trials, not at the mean"));
        }
    }
    if record.end.as_ref().is_some_and(|end| end.how == DECIDED) {
        warnings.push(
            "the run ended because of what it had found: its ratios lean away from 1, and their intervals do not allow \
             for the looks that were taken; the search's own comparison does"
                .to_owned(),
        );
    }
    let mut all = missing(record);
    all.append(&mut warnings);
    all
}

/// What of a run is not in its record: trials that were never run, and what was measured and is gone. A comparison of
/// several records says it of each.
pub fn missing(record: &Record) -> Vec<String> {
    let seconds = emptied(record, "seconds.jsonl", |trial| trial.seconds.is_empty());
    let telemetry = emptied(record, "telemetry.jsonl", |trial| trial.telemetry.is_empty());
    [incomplete(record), lost(record), seconds, telemetry].into_iter().flatten().collect()
}

/// Trials that were run and are gone: a ratio from what is left may be another one, above all if somebody chose what
/// to remove.
fn lost(record: &Record) -> Option<String> {
    let lost = record.lost();
    let (of, count) = (record.header.plan.len(), lost.len());
    let (trials, are) = if count == 1 { ("trial", "is") } else { ("trials", "are") };
    (count > 0).then(|| {
        format!(
            "the record is not whole: {count} {trials} that the run carried out {are} gone from it ({} of the {of} planned). \
             Put their folders below 'trials' back, or let `tare resume` run them again",
            numbers(&lost)
        )
    })
}

/// Measured trials without any row of what the others have rows of.
fn emptied(record: &Record, file: &str, is_empty: fn(&TrialData) -> bool) -> Option<String> {
    let measured = record.trials.iter().filter(|trial| trial.record.outcome == Outcome::Measured);
    let (without, with): (Vec<&TrialData>, Vec<&TrialData>) = measured.partition(|trial| is_empty(trial));
    let without: Vec<u32> = without.iter().map(|trial| trial.record.trial.index).collect();
    (!with.is_empty() && !without.is_empty()).then(|| {
        format!(
            "the record is not whole: {file} is empty in {}, which measured something; only what trial.json says of it is \
             left",
            numbers(&without)
        )
    })
}

/// `trial 3`, `trials 3, 4 and 17`, `trials 3, 4, 17 and 9 more`.
fn numbers(trials: &[u32]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> = trials.iter().take(SHOWN).map(u32::to_string).collect();
    let last = match trials.len() {
        0 | 1 => None,
        2..=SHOWN => shown.pop(),
        all => Some(format!("{} more", all - SHOWN)),
    };
    let word = if trials.len() == 1 { "trial" } else { "trials" };
    format!("{word} {}{}", shown.join(", "), last.map(|last| format!(" and {last}")).unwrap_or_default())
}

/// Whether trials were never run, and why.
fn incomplete(record: &Record) -> Option<String> {
    let reached = record.end.as_ref().map_or("it has no end: it still runs, or was killed", |end| match &*end.how {
        _ if end.is_whole() => "",
        "interrupted" => "it was interrupted",
        _ => "its time budget was spent",
    });
    // Blocks that were run again come on top of the plan.
    let there = record.trials.iter().filter(|trial| trial.record.trial.again.is_none()).count();
    let planned = record.header.plan.len();
    (!reached.is_empty()).then(|| format!("the run is not complete, {reached}: {there} of {planned} trials"))
}

/// The machine, as far as it says what it is: whose A/A control fails must be named.
fn host(record: &Record) -> String {
    let fact = |key: &str| record.header.environment.get(key).cloned();
    let kernel = fact("kernel").map(|kernel| format!("Linux {kernel}"));
    let known: Vec<String> = [fact("cpu.model"), kernel].into_iter().flatten().collect();
    if known.is_empty() { "this host".to_owned() } else { format!("this host ({})", known.join(", ")) }
}

fn void_warnings(record: &Record, analysis: &Analysis) -> Vec<String> {
    let mut warnings = Vec::new();
    for arm in &analysis.arms {
        if let Some(p) = arm.void_p {
            let (name, void, ran) = (&arm.name, arm.invalid + arm.failed, arm.invalid + arm.failed + arm.measured);
            warnings.push(format!(
                "{name}: {void} of {ran} trials are void or failed, more than in the other forms (Fisher p = {p:.4}): \
                 it makes its own trouble, so its verdicts are withheld"
            ));
        }
    }
    let again: BTreeSet<u32> = record.trials.iter().filter_map(|trial| trial.record.trial.again).collect();
    let kept = again.len() - analysis.blocks_replaced.len();
    if kept > 0 {
        let blocks = if kept == 1 { "1 block".to_owned() } else { format!("{kept} blocks") };
        warnings.push(format!("{blocks} with void trials, run again, did not come out whole either"));
    }
    warnings
}

/// Ratios that are others without the slowest and fastest windows, and when that was.
fn trimming_warnings(analysis: &Analysis) -> Vec<String> {
    let mut warnings = Vec::new();
    for metric in &analysis.metrics {
        let apart = metric.ratios.iter().filter(|ratio| ratio.trimming_differs && ratio.arm != analysis.control);
        for ratio in apart {
            let (arm, title) = (&ratio.arm, &metric.title);
            let all = format!("{arm}, {title}: {:.3} times the baseline over all of the time", ratio.ratio);
            let most = ratio.trimmed.map(|most| format!("{most:.3} without the best and the worst fifth of it"));
            let still = || "and one of the two stood still for more than a fifth of it in a trial".to_owned();
            warnings.push(format!(
                "{all}, {}: a few stalls or bursts make the difference, so the two are not called equivalent",
                most.unwrap_or_else(still)
            ));
        }
    }
    warnings.extend(analysis.stalls.iter().map(stalled));
    warnings
}

fn stalled(stalls: &Stalls) -> String {
    let Stalls { arm, seconds, measured_s, spells, longest } = stalls;
    let told: Vec<String> = longest.iter().map(spell).collect();
    let (most, told) = (if *spells as usize > told.len() { "; the longest: " } else { ": " }, told.join(", "));
    format!("{arm} did less than half of its usual rate for {seconds:.0} of {measured_s:.0} s{most}{told}")
}

/// `trial 3 for 12 s from 84 s on (time held back by a CPU quota 0.90 a second, on average 0.08)`.
fn spell(stall: &Stall) -> String {
    let counted = stall.counted.iter().map(|counted| {
        let Counted { title, then, on_average } = counted;
        format!("{title} {then:.2} a second, on average {on_average:.2}")
    });
    let counted: Vec<String> = counted.collect();
    let counted = if counted.is_empty() { String::new() } else { format!(" ({})", counted.join("; ")) };
    format!("trial {} for {:.0} s from {:.0} s on{counted}", stall.trial, stall.seconds, stall.from_s)
}

/// Which forms have trials that were never steady, in one warning. A trend in a form's trials matters when the other
/// forms show none.
fn unsteady_warning(analysis: &Analysis) -> Option<String> {
    let (mut counts, mut oftener_than_others) = (Vec::new(), String::new());
    for arm in analysis.arms.iter().filter(|arm| !arm.never_steady.is_empty()) {
        let (name, unsteady, measured) = (&arm.name, arm.never_steady.len() as u32, arm.measured);
        counts.push(format!("{name} {unsteady} of {measured}"));
        let others = analysis.arms.iter().filter(|other| other.name != *name);
        let others = others.fold((0, 0), |sum, arm| (sum.0 + arm.never_steady.len() as u32, sum.1 + arm.measured));
        if let Some(p) = oftener((unsteady, measured), others, UNSTEADY_P) {
            oftener_than_others += &format!(
                "; {name} more often than the others (Fisher p = {p:.4}): its ratios depend on how long it ran"
            );
        }
    }
    let counts = (!counts.is_empty()).then(|| counts.join(", "))?;
    Some(format!("never steady (throughput changes by more than 3 %): {counts} trials{oftener_than_others}"))
}
