//! What changed from one run to another, and what the change comes from.

use super::{Explanation, findings, is_clear, level};
use crate::analyse::{analyse, counted};
use crate::analysis::{Analysis, Interval, MetricAnalysis};
use crate::contrast::{Cell, Figure, cells, equals};
use crate::paired::{BLOCKS_MIN, sd};
use crate::quantile::student_quantile;
use std::collections::BTreeMap;
use tare_core::record::Record;

/// An explanation for every form, the baselines too, that was measured in three trials of both runs and whose
/// performance differs between them: beyond the interval (Welch, 99 %) and the noise floors of both. The runs are
/// not interleaved, so whatever else changed on the machine is in it. The slower one is called `before` or `after`.
pub fn changes_explained(before: &Record, after: &Record) -> Vec<Explanation> {
    let runs = [before, after].map(Run::of);
    let [before, after] = &runs;
    let arms = after.analysis.arms.iter().filter(|arm| !arm.control && arm.emulated.is_none());
    let both =
        arms.filter(|arm| before.analysis.arms.iter().any(|other| other.name == arm.name && other.emulated.is_none()));
    both.filter_map(|arm| explained(&arm.name, before, after)).collect()
}

/// A run's analysis, what each of its trials counted, and what equals differ by in it.
struct Run {
    analysis: Analysis,
    cells: BTreeMap<String, Cell>,
    equal: Vec<Figure>,
}

impl Run {
    fn of(record: &Record) -> Run {
        let analysis = analyse(record);
        let cells = cells(record, &counted(record));
        let equal = equals(&cells, &analysis.baseline, &analysis.arms, level);
        Run { analysis, cells, equal }
    }

    fn metric(&self, name: &str) -> Option<&MetricAnalysis> {
        self.analysis.metrics.iter().find(|metric| metric.name == name)
    }
}

fn explained(arm: &str, before: &Run, after: &Run) -> Option<Explanation> {
    let compared = after.analysis.metrics.iter().filter(|metric| metric.compared);
    let (metric, ratio, interval) =
        compared.filter_map(|metric| differs(arm, before.metric(&metric.name)?, metric)).next()?;
    let slower = metric.more_is_better == (ratio < 1.0);
    let (here, there) = if slower { (after, before) } else { (before, after) };
    let mut figures = unpaired(here.cells.get(arm)?, there.cells.get(arm)?);
    figures.retain(|figure| is_clear(figure, &before.equal) && is_clear(figure, &after.equal));
    let throughput = here.metric("throughput").and_then(|metric| metric.estimates.iter().find(|e| e.arm == arm));
    Some(Explanation {
        form: arm.to_owned(),
        against: arm.to_owned(),
        slower: if slower { "after" } else { "before" }.to_owned(),
        metric: metric.title.clone(),
        ratio,
        interval,
        one_feature: false,
        findings: findings(&figures, throughput.map_or(1.0, |estimate| estimate.mean)),
    })
}

/// A metric in which an arm of one run differs from the same arm of another.
fn differs<'m>(
    arm: &str,
    before: &MetricAnalysis,
    after: &'m MetricAnalysis,
) -> Option<(&'m MetricAnalysis, f64, Interval)> {
    let logs = |metric: &MetricAnalysis| -> Option<Vec<f64>> {
        let estimate = metric.estimates.iter().find(|estimate| estimate.arm == arm)?;
        Some(estimate.values.iter().map(|value| value.value.ln()).collect())
    };
    let welch = Welch::of(&logs(after)?, &logs(before)?)?;
    let floor = before.noise_floor?.max(after.noise_floor?).ln_1p();
    let Interval { low, high } = welch.interval;
    let interval = Interval { low: low.exp(), high: high.exp() };
    let is_clear = welch.difference.is_finite() && !interval.contains(1.0) && welch.difference.abs() > floor;
    is_clear.then(|| (after, welch.difference.exp(), interval))
}

/// The difference of two independent means.
struct Welch {
    difference: f64,
    interval: Interval,
    standardised: Option<f64>,
}

impl Welch {
    /// None below three values on a side.
    fn of(here: &[f64], there: &[f64]) -> Option<Welch> {
        if here.len().min(there.len()) < BLOCKS_MIN {
            return None;
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let error = |values: &[f64]| Some(sd(values)?.powi(2) / values.len() as f64);
        let (a, b) = (error(here)?, error(there)?);
        let degrees =
            (a + b).powi(2) / (a.powi(2) / (here.len() as f64 - 1.0) + b.powi(2) / (there.len() as f64 - 1.0));
        let difference = mean(here) - mean(there);
        // Without any noise there is nothing to take degrees of freedom from.
        let half = if a + b > 0.0 { student_quantile(level(1), degrees) * (a + b).sqrt() } else { 0.0 };
        let interval = Interval { low: difference - half, high: difference + half };
        let standardised = (a + b > 0.0).then(|| difference / (a + b).sqrt());
        Some(Welch { difference, interval, standardised })
    }
}

/// Every figure that both sides have in three trials.
fn unpaired(here: &Cell, there: &Cell) -> Vec<Figure> {
    let names = here.values().chain(there.values()).flat_map(BTreeMap::keys).collect::<std::collections::BTreeSet<_>>();
    let values = |side: &Cell, name: &str| -> Vec<f64> {
        let filled = side.values().filter(|figures| !figures.is_empty());
        let known = side.values().any(|figures| figures.contains_key(name));
        let absent = (!known && crate::contrast::may_be_absent(name)).then_some(0.0);
        filled.filter_map(|figures| figures.get(name).map(|found| found.value).or(absent)).collect()
    };
    let figure = |name: &String| {
        let (a, b) = (values(here, name), values(there, name));
        let Welch { difference, interval, standardised } = Welch::of(&a, &b)?;
        let of = here.values().chain(there.values()).find_map(|figures| figures.get(name))?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Some(Figure {
            name: name.clone(),
            title: of.title.clone(),
            unit: of.unit.to_owned(),
            here: mean(&a),
            there: mean(&b),
            difference,
            interval,
            standardised,
        })
    };
    names.into_iter().filter_map(figure).collect()
}
