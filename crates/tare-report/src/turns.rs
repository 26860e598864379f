//! Loads that took turns: how many, how long, and what moving from one to the other cost, in words.

use crate::quantity::plain_quantity;
use tare_core::load::TurnsSummary;
use tare_core::record::{Record, TrialRecord};
use tare_core::trial::Outcome;
use tare_core::units::grouped;
use tare_stats::{Analysis, Arm, Loss, Warmth, cpu_share, percent_text, share_in_others_turns};

/// The turns of an arm's deployments: which trial, and what they came to.
fn of<'a>(record: &'a Record, arm: &'a Arm) -> impl Iterator<Item = (u32, TurnsSummary)> + 'a {
    let trials = record.trials.iter().map(|trial| &trial.record).filter(|trial| trial.trial.arm() == arm.name);
    let measured = trials.filter(|trial| trial.outcome == Outcome::Measured);
    measured.filter_map(|trial| Some((trial.trial.index, trial.load.as_ref()?.turns?)))
}

/// `; uses 84 % of a CPU in its own turns and 0.02 % in others'`; nothing where that was not counted.
fn used(record: &Record, arm: &Arm) -> String {
    let trials = record.trials.iter().map(|trial| &trial.record).filter(|trial| trial.trial.arm() == arm.name);
    let measured: Vec<_> = trials.filter(|trial| trial.outcome == Outcome::Measured).collect();
    let mean = |share: &dyn Fn(&TrialRecord) -> Option<f64>| {
        let shares: Vec<f64> = measured.iter().filter_map(|trial| share(trial)).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    };
    let own = mean(&|trial| trial.cpu_by_turn.get(&arm.name).copied().and_then(cpu_share));
    let Some((own, others)) = own.zip(mean(&share_in_others_turns)) else { return String::new() };
    format!("; uses {} of a CPU in its own turns and {:.2} % in others'", percent_text(own), others * 100.0)
}

/// `plain: 2,340 turns of 16.2 ms; a move costs 0.21 ms, 1.3 % of a turn, which is subtracted; second halves of turns
/// are 0.1 % faster`.
pub(crate) fn lines(record: &Record, analysis: &Analysis) -> Vec<String> {
    let line = |arm: &Arm| {
        let all: Vec<TurnsSummary> = of(record, arm).map(|(_, turns)| turns).collect();
        let turns: f64 = all.iter().map(|of| f64::from(of.turns)).sum();
        if turns == 0.0 {
            return None;
        }
        let mean_us = |value: &dyn Fn(&TurnsSummary) -> f64| {
            all.iter().map(|of| value(of) * f64::from(of.turns)).sum::<f64>() / turns / 1e3
        };
        let turn_us = mean_us(&|of| of.active_ns as f64 / f64::from(of.turns.max(1)));
        let told = all.iter().all(|of| of.move_ns.is_some());
        let move_us = mean_us(&|of| of.move_ns.unwrap_or(0) as f64);
        let moves = match (told, move_us > 0.0) {
            (false, _) => "; too short to measure the cost of a move".to_owned(),
            (true, false) => "; moves cost nothing".to_owned(),
            (true, true) => {
                let (cost, share) = (plain_quantity(move_us, "us"), percent_text(move_us / turn_us));
                format!("; a move costs {cost}, {share} of a turn, which is subtracted")
            }
        };
        let told = all.iter().all(|of| of.warming.is_some());
        let warming = mean_us(&|of| of.warming.unwrap_or(0.0) * 1e3);
        let halves = match (told, warming < 0.0) {
            (false, _) => String::new(),
            (true, false) => format!("; second halves of turns are {} faster", percent_text(warming)),
            (true, true) => format!("; second halves of turns are {} slower", percent_text(-warming)),
        };
        let frozen = all.iter().all(|of| of.freeze_ns.is_some());
        let frozen_us = plain_quantity(mean_us(&|of| of.freeze_ns.unwrap_or(0) as f64), "us");
        let freezing = match (record.header.study.design.freezes(), frozen) {
            (false, _) => String::new(),
            (true, true) => {
                format!("; freezing the form before and thawing this one takes {frozen_us}, outside of turns")
            }
            (true, false) => "; not all waiting forms could be frozen".to_owned(),
        };
        Some(format!(
            "{}: {} turns of {}{moves}{freezing}{halves}{}",
            arm.name,
            grouped(turns),
            plain_quantity(turn_us, "us"),
            used(record, arm)
        ))
    };
    analysis.warmth.iter().map(compared).chain(analysis.arms.iter().filter_map(line)).collect()
}

/// `slices last at least 40 ms, found before the first block: compared with turns of 200 ms, those of 10 ms are 12 %
/// slower (+- 1.1 %), of 20 ms are 5.1 % slower (+- 0.9 %), of 40 ms are 0.4 % slower (+- 0.8 %); +- is a standard
/// error`.
fn compared(found: &Warmth) -> String {
    let time = |ns: u64| plain_quantity(ns as f64 / 1e3, "us");
    let loss = |loss: &Loss| {
        let share = percent_text(loss.share.max(0.0));
        format!("of {} are {share} slower (+- {})", time(loss.slice_ns), percent_text(loss.error))
    };
    let losses: Vec<String> = found.losses.iter().map(loss).collect();
    format!(
        "slices last at least {}, found before the first block: compared with turns of {}, those {}; +- is a standard \
         error",
        time(found.slice_ns),
        time(found.longest_ns),
        losses.join(", ")
    )
}
