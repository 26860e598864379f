//! What else differs between two forms: what the kernel counted while both served the same load, per operation.
//!
//! Where a difference in throughput comes from is not measured here; what goes with it is. Counters of a trial become
//! figures per operation or per second, and two forms are compared inside blocks, on the plain scale, for many of these
//! figures are zero in one of the two.

use crate::arm::Arm;
use crate::evidence::{Evidence, evidence};
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::ladder::LadderCosts;
use crate::paired::{BLOCKS_MIN, sd};
use crate::quantile::student_quantile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::advice::Advice;
use tare_core::design::Arrangement;
use tare_core::record::{Record, TrialData};

/// Smaller than this share of what the other form has, a difference explains nothing.
const SHARE_MIN: f64 = 0.05;

/// What rules look at per second, and readers are told per operation.
const TOLD_BY_OPERATION: &str = "run_queue_share";

/// What only a form with a limit counts: who has none never runs into it.
const OF_A_LIMIT: &[&str] =
    &["throttled_share", "quota_periods_share", "quota_share", "limit_hits_per_s", "reclaimed_per_s", "refaults_per_s"];

/// What nobody counts whom no quota holds back: one such trial is no chance.
const OF_A_QUOTA: [&str; 2] = ["throttled_share", "quota_periods_share"];

/// Of at least so many orders in which trials of equals may lie, one has all of one side above all of the other, where
/// that is to say something. Three stand so over six in 1 of 84, four over four in 1 of 70; three over three in 1 of
/// 20.
const ORDERS_MIN: f64 = 70.0;

/// What else differs between two forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contrast {
    /// The form.
    pub form: String,
    /// The one that it is compared with: the baseline, or the rung before it.
    pub against: String,
    /// Figures that differ beyond chance and beyond what equals differ by, the clearest first.
    pub figures: Vec<Figure>,
}

/// A figure of two forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name; of one scope's CPU time with the scope's name.
    pub name: String,
    /// For readers.
    pub title: String,
    /// `us`, `share`, or nothing.
    pub unit: String,
    /// Its mean in the form.
    pub here: f64,
    /// Its mean in the other one.
    pub there: f64,
    /// The mean difference inside blocks.
    pub difference: f64,
    /// Its interval by Student's t: in a [`Contrast`] those of all figures and forms of a record hold together
    /// (Bonferroni, 95 %), in a finding each holds by itself (99 %), and of one that stands apart it goes from the
    /// least to the greatest difference of any two trials.
    pub interval: Interval,
    /// Whether every trial of one side had more of it than every trial of the other and of its equal.
    pub apart: bool,
    /// The mean difference by the standard deviation of the differences, between two runs by its own error; none where
    /// there is no spread at all.
    pub standardised: Option<f64>,
}

/// An arm's figures by block.
pub(crate) type Cell = BTreeMap<u32, BTreeMap<String, Evidence>>;

/// The figures of every arm from when it had the machine to itself; nothing where none ever had.
pub(crate) fn cells(record: &Record, counted: &[&TrialData]) -> BTreeMap<String, Cell> {
    let study = &record.header.study;
    if !matches!(study.design.arrangement, Arrangement::Blocks | Arrangement::Chop(_)) || study.peak.is_some() {
        return BTreeMap::new();
    }
    let mut cells: BTreeMap<String, Cell> = BTreeMap::new();
    for trial in counted {
        let (planned, figures) = (&trial.record.trial, evidence(trial));
        if !figures.is_empty() {
            cells.entry(planned.arm()).or_default().insert(planned.block, figures);
        }
    }
    cells
}

/// Which forms are compared with which: every one that is no emulation against the baseline; of a ladder, the rungs
/// that matter against the rung before; and variants against the form that is varied.
pub(crate) fn pairs(
    baseline: &str,
    arms: &[Arm],
    ladder: Option<&LadderCosts>,
    advice: Option<&Advice>,
) -> Vec<(String, String)> {
    let varied = |form: &str| {
        let is_variant = |advice: &&Advice| advice.variants.iter().any(|variant| variant.form == form);
        advice.filter(is_variant).map_or(baseline, |advice| &advice.of).to_owned()
    };
    let real = |name: &str| arms.iter().any(|arm| arm.name == name && arm.emulated.is_none());
    let pairs: Vec<(String, String)> = match ladder {
        Some(ladder) => {
            let rungs = ladder.metrics.iter().flat_map(|metric| &metric.rungs).filter(|rung| rung.matters);
            let pairs: BTreeSet<_> = rungs.map(|rung| (rung.form.clone(), rung.against.clone())).collect();
            pairs.into_iter().collect()
        }
        None => {
            let forms = arms.iter().filter(|arm| !arm.baseline && !arm.control && arm.weight.is_none());
            forms.map(|arm| (arm.name.clone(), varied(&arm.name))).collect()
        }
    };
    pairs.into_iter().filter(|(a, b)| real(a) && real(b)).collect()
}

/// Of every pair, what differs beyond chance and beyond what equals differ by: those that equals differ in too are
/// nobody's.
pub(crate) fn contrasts(
    cells: &BTreeMap<String, Cell>,
    pairs: &[(String, String)],
    baseline: &str,
    arms: &[Arm],
) -> Vec<Contrast> {
    let family = pairs.len().max(1);
    let level = |names: usize| 1.0 - 0.5 * (1.0 - CONFIDENCE) / (names * family) as f64;
    let of = |name: &str| cells.get(name);
    let equals = equals(cells, baseline, arms, level);
    let contrast = |(form, against): &(String, String)| {
        let mut figures = differences(of(form)?, of(against)?, level);
        figures.retain(|figure| {
            let clear = !figure.interval.contains(0.0) && figure.difference.abs() > floor(&equals, &figure.name);
            clear && figure.difference.abs() > SHARE_MIN * figure.there.abs() && figure.name != TOLD_BY_OPERATION
        });
        // Who works here and does not even run there says more than any counter.
        let is_new = |figure: &Figure| figure.name.contains(':') && figure.there == 0.0;
        let size = |figure: &Figure| figure.standardised.map_or(f64::INFINITY, f64::abs);
        figures.sort_by(|a, b| is_new(b).cmp(&is_new(a)).then(size(b).total_cmp(&size(a))));
        let (form, against) = (form.clone(), against.clone());
        (!figures.is_empty()).then_some(Contrast { form, against, figures })
    };
    pairs.iter().filter_map(contrast).collect()
}

/// What the baseline's second copy differs from it by.
pub(crate) fn equals(
    cells: &BTreeMap<String, Cell>,
    baseline: &str,
    arms: &[Arm],
    level: impl Fn(usize) -> f64,
) -> Vec<Figure> {
    let control = arms.iter().find(|arm| arm.control).and_then(|arm| cells.get(&arm.name));
    let (Some(control), Some(baseline)) = (control, cells.get(baseline)) else { return Vec::new() };
    differences(control, baseline, level)
}

/// How far equals may differ in a figure.
pub(crate) fn floor(equals: &[Figure], name: &str) -> f64 {
    let equal = equals.iter().find(|figure| figure.name == name);
    equal.map_or(0.0, |figure| figure.interval.low.abs().max(figure.interval.high.abs()))
}

/// The difference of a figure of two forms, and how sure it is.
pub(crate) struct Estimate {
    pub(crate) here: f64,
    pub(crate) there: f64,
    pub(crate) difference: f64,
    /// Half the width of its interval.
    pub(crate) half_width: f64,
    /// What the difference is compared with: a standard deviation, or an error.
    pub(crate) spread: f64,
}

/// Every figure that both arms have in three blocks, compared inside them, with intervals by Student's t at the
/// one-sided probability that `level` gives for so many figures.
pub(crate) fn differences(here: &Cell, there: &Cell, level: impl Fn(usize) -> f64) -> Vec<Figure> {
    compared(here, there, |here, there, names| {
        let pairs: Vec<(f64, f64)> =
            here.iter().filter_map(|(block, value)| Some((*value, *there.get(block)?))).collect();
        let n = pairs.len() as f64;
        let gaps: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
        let spread = sd(&gaps).filter(|_| pairs.len() >= BLOCKS_MIN)?;
        Some(Estimate {
            here: pairs.iter().map(|(a, _)| a).sum::<f64>() / n,
            there: pairs.iter().map(|(_, b)| b).sum::<f64>() / n,
            difference: gaps.iter().sum::<f64>() / n,
            half_width: student_quantile(level(names), n - 1.0) * spread / n.sqrt(),
            spread,
        })
    })
}

/// A figure's values by block.
pub(crate) type Values = BTreeMap<u32, f64>;

/// Every figure for which `estimate` has an answer, from its values on both sides and the number of all figures. A
/// scope that one of the two does not have at all spends nothing there, and a limit that it does not have holds
/// nothing back.
pub(crate) fn compared(
    here: &Cell,
    there: &Cell,
    estimate: impl Fn(&Values, &Values, usize) -> Option<Estimate>,
) -> Vec<Figure> {
    let trials = || here.values().chain(there.values());
    let names: BTreeSet<&String> = trials().flat_map(BTreeMap::keys).collect();
    let figure = |name: &&String| {
        let found = estimate(&values(here, name), &values(there, name), names.len())?;
        let Estimate { here, there, difference, half_width, spread } = found;
        let of = trials().find_map(|figures| figures.get(*name)).expect("one has it");
        Some(Figure {
            name: (*name).clone(),
            title: of.title.clone(),
            unit: of.unit.to_owned(),
            here,
            there,
            difference,
            interval: Interval { low: difference - half_width, high: difference + half_width },
            apart: false,
            standardised: (spread > 0.0).then_some(difference / spread),
        })
    };
    names.iter().filter_map(figure).collect()
}

/// A figure's values in the trials of an arm.
fn values(side: &Cell, name: &str) -> Values {
    let known = side.values().any(|figures| figures.contains_key(name));
    let absent = (!known && may_be_absent(name)).then_some(0.0);
    let counted = side.iter().filter(|(_, figures)| !figures.is_empty());
    let value = |(block, figures): (&u32, &BTreeMap<String, Evidence>)| {
        Some((*block, figures.get(name).map(|evidence| evidence.value).or(absent)?))
    };
    counted.filter_map(value).collect()
}

/// From the least to the greatest difference of any trial `here` to any `there`, where all of one side lie above all of
/// the other and that is no chance. It asks for no spread, so a cause that is there in every trial and never in the
/// others is seen in three blocks, however much its size changes. Where only one side has a quota, it is no chance in
/// however few trials.
pub(crate) fn apart(name: &str, here: &[&Cell], there: &[&Cell]) -> Option<Interval> {
    let of = |side: &[&Cell]| -> Vec<f64> { side.iter().flat_map(|cell| values(cell, name).into_values()).collect() };
    let (here, there) = (of(here), of(there));
    let none = |values: &[f64]| values.iter().all(|value| *value == 0.0);
    if OF_A_QUOTA.contains(&name) && (none(&here) || none(&there)) {
        return between(&here, &there);
    }
    gap(&here, &there)
}

/// The same of plain values.
pub(crate) fn gap(here: &[f64], there: &[f64]) -> Option<Interval> {
    if orders(here.len(), there.len()) < ORDERS_MIN {
        return None;
    }
    between(here, there)
}

/// From the least to the greatest difference of any value of one side to any of the other, where they do not meet.
fn between(here: &[f64], there: &[f64]) -> Option<Interval> {
    if here.is_empty() || there.is_empty() {
        return None;
    }
    let ends = |values: &[f64]| values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    let ((least, greatest), (least_there, greatest_there)) = (ends(here), ends(there));
    let interval = Interval { low: least - greatest_there, high: greatest - least_there };
    (!interval.contains(0.0)).then_some(interval)
}

/// In how many orders the trials of two sides may lie.
fn orders(here: usize, there: usize) -> f64 {
    (1..=here).fold(1.0, |orders: f64, at| orders * (there + at) as f64 / at as f64).round()
}

/// Whether a form that never has this figure has nothing of it: a scope that it has not, or a limit.
fn may_be_absent(name: &str) -> bool {
    name.contains(':') || OF_A_LIMIT.contains(&name)
}
