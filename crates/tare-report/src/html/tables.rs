//! The tables of the page.

use crate::quantity::{digits, quantity};
use crate::svg::Look;
use crate::verdict::VerdictWords;
use crate::words;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tare_core::design::Arrangement;
use tare_core::record::Record;
use tare_stats::{Analysis, Verdict, percent_at_most};

/// The figures shown of a trial where they were measured, behind the load's own.
const TRIAL_COLUMNS: &[&str] =
    &["throughput", "p50_us", "p99_us", "p999_us", "cpu_busy_us_per_op", "cpu_us_per_op", "peak_load"];

/// A column of the table of trials.
pub(super) struct TrialColumn<'a> {
    /// The metric.
    name: &'a str,
    /// What stands above it: metric and unit.
    pub(super) title: String,
}

/// The columns of the table of trials: the load's own metrics, then what every trial has, as far as any trial has it.
pub(super) fn trial_columns<'a>(record: &'a Record, analysis: &'a Analysis) -> Vec<TrialColumn<'a>> {
    let own = record.header.workload.protocol.metrics.iter().map(|metric| metric.name.as_str());
    // By turns, stalls longer than a slice weigh otherwise than in time, and p99.9 is made of little else.
    let by_turns = matches!(record.header.study.design.arrangement, Arrangement::Chop(_));
    let had = |name: &&str| {
        let shown = !(by_turns && *name == "p999_us");
        shown && record.trials.iter().any(|trial| trial.record.metrics.contains_key(*name))
    };
    let columns = own.chain(TRIAL_COLUMNS.iter().copied()).filter(had).filter_map(|name| {
        let metric = analysis.metrics.iter().find(|metric| metric.name == name)?;
        let unit = metric.unit.replace("us", "\u{b5}s");
        Some(TrialColumn { name, title: format!("{}, {unit}", metric.title) })
    });
    columns.collect()
}

/// A row for each arm: the baseline's absolute values, the others' ratios and verdicts.
pub(super) fn ratios(analysis: &Analysis, looks: &[Look]) -> Vec<Value> {
    let rows = analysis.arms.iter().zip(looks).map(|(arm, look)| {
        let cells: Vec<Value> = words::compared(analysis)
            .map(|metric| {
                if arm.baseline {
                    let estimate = metric.estimates.iter().find(|estimate| estimate.arm == arm.name);
                    let value = estimate.map(|estimate| estimate.geometric_mean.unwrap_or(estimate.mean));
                    let text = value.map_or_else(|| "\u{2013}".to_owned(), |value| quantity(value, &metric.unit));
                    let sign = if estimate.is_some_and(|estimate| !estimate.at_least.is_empty()) { ">=" } else { "" };
                    return json!({ "ratio": format!("{sign}{text}"), "class": "absolute" });
                }
                let Some(ratio) = metric.ratios.iter().find(|ratio| ratio.arm == arm.name) else {
                    return json!({ "ratio": "\u{2013}" });
                };
                let text = ratio.text();
                let (figure, interval) = text.split_once(' ').unwrap_or((&text, ""));
                let class = match ratio.verdict {
                    Verdict::Better => "better",
                    Verdict::Worse => "worse",
                    _ => "",
                };
                let said = VerdictWords::of(analysis, metric, ratio);
                let words = match ratio.verdict {
                    Verdict::Better | Verdict::Worse => said.beside_figures(),
                    // The row is marked as a whole.
                    Verdict::Emulated => String::new(),
                    // A line below the table says it once.
                    _ if said.is_missing() => String::new(),
                    _ => said.whole(),
                };
                let difference = words::difference(analysis, metric, &arm.name);
                json!({
                    "ratio": figure,
                    "interval": interval,
                    "difference": difference,
                    "words": words,
                    "missing": said.is_missing().then(|| said.verdict()),
                    "class": class,
                })
            })
            .collect();
        json!({
            "arm": arm.name,
            "class": look.class(),
            "hollow": look.hollow,
            "hatched": look.hatched,
            "baseline": arm.baseline,
            "control": arm.control,
            "emulated": analysis.emulated(arm),
            "measured": arm.measured,
            "reason": arm.reasons.first().filter(|_| arm.measured == 0),
            "cells": cells,
        })
    });
    rows.collect()
}

/// Why ratios of the table have no verdict because too little was measured, each reason once.
pub(super) fn missing_verdicts(analysis: &Analysis) -> Vec<String> {
    let ratios = words::compared(analysis).flat_map(|metric| metric.ratios.iter().map(move |ratio| (metric, ratio)));
    let said = ratios.map(|(metric, ratio)| VerdictWords::of(analysis, metric, ratio));
    let reasons: BTreeSet<String> = said.filter(|said| said.is_missing()).map(VerdictWords::verdict).collect();
    reasons.into_iter().collect()
}

/// The noise floor of each compared metric.
pub(super) fn floors(analysis: &Analysis) -> Vec<Value> {
    let rows = words::compared(analysis).map(|metric| {
        let ratio = metric.ratios.iter().find(|ratio| ratio.arm == analysis.control);
        json!({
            "title": metric.title,
            "ratio": ratio.map(tare_stats::Ratio::text),
            "floor": metric.noise_floor.map(percent_at_most),
            "differs": metric.control_differs,
        })
    });
    rows.collect()
}

/// How the intervals were made: method and the metrics it holds for.
pub(super) fn methods(analysis: &Analysis) -> Vec<Value> {
    words::methods(analysis)
        .into_iter()
        .map(|(text, metrics)| json!({ "text": text, "metrics": metrics.join(", ") }))
        .collect()
}

/// Whether the bits were the same, by service.
pub(super) fn bits(analysis: &Analysis) -> Vec<Value> {
    let rows = analysis.bits.iter().map(|bits| {
        json!({
            "service": bits.service,
            "same": bits.same,
            "words": words::same_bits(bits),
            "digest": bits.digest,
            "differences": bits.differences,
        })
    });
    rows.collect()
}

/// What the layers, the hosts and the server of a form said of themselves.
pub(crate) fn form_facts(record: &Record, form: &str) -> Vec<(String, String)> {
    let state = record.header.forms.get(form);
    let mut facts: Vec<(String, String)> = Vec::new();
    facts.extend(state.iter().flat_map(|state| state.facts.clone()));
    // What the hosts of a trial said of themselves, where the environment does not say the same.
    let trial = record.trials.iter().find(|t| t.record.trial.form == form && !t.record.facts.is_empty());
    for (key, value) in trial.iter().flat_map(|trial| &trial.record.facts) {
        let known = record.header.environment.get(key) == Some(value);
        if !known && !facts.iter().any(|(name, _)| name == key) {
            facts.push((key.clone(), value.clone()));
        }
    }
    let server = record.trials.iter().find(|t| t.record.trial.form == form && t.record.load.is_some());
    let server = server.and_then(|trial| trial.record.load.as_ref());
    facts.extend(server.iter().flat_map(|load| load.facts.clone()));
    facts
}

/// What each form is and how its trials ended.
pub(super) fn arms(record: &Record, analysis: &Analysis, looks: &[Look]) -> Vec<Value> {
    let rows = analysis.arms.iter().zip(looks).filter(|(arm, _)| !arm.control).map(|(arm, look)| {
        let facts = form_facts(record, &arm.form);
        json!({
            "name": arm.name,
            "class": look.class(),
            "hatched": look.hatched,
            "describe": arm.describe,
            "path": arm.path,
            "emulated": arm.emulated,
            "measured": arm.measured,
            "planned": arm.planned,
            "qos": arm.qos.as_ref().map(words::qos),
            "reasons": arm.reasons,
            "facts": facts,
        })
    });
    rows.collect()
}

/// Every trial in its order, with its figures or why it has none.
pub(super) fn trials(record: &Record, columns: &[TrialColumn<'_>]) -> Vec<Value> {
    let mut trials: Vec<_> = record.trials.iter().map(|trial| &trial.record).collect();
    trials.sort_by_key(|trial| trial.trial.index);
    let rows = trials.into_iter().map(|trial| {
        let value = |name: &str| trial.metrics.get(name).map_or_else(|| "\u{2013}".to_owned(), |value| digits(*value));
        let stage = match &trial.outcome {
            tare_core::trial::Outcome::Failed { stage, .. } => Some(stage.to_string()),
            _ => None,
        };
        let failed_checks = trial.load.iter().flat_map(|load| &load.checks).filter(|check| !check.passed);
        json!({
            "index": trial.trial.index,
            "block": trial.trial.block + 1,
            "arm": trial.trial.arm(),
            "outcome": trial.outcome.word(),
            "stage": stage,
            "why": trial.outcome.why(),
            "logs": trial.logs.iter().collect::<Vec<_>>(),
            "warnings": trial.warnings,
            "checks": failed_checks.map(|check| format!("{}: {}", check.name, check.detail)).collect::<Vec<_>>(),
            "seconds": digits(trial.stages.values().sum()),
            "figures": columns.iter().map(|column| value(column.name)).collect::<Vec<_>>(),
        })
    });
    rows.collect()
}
