//! What each rung of a ladder costs, and whether the rungs add up to the whole.

use crate::analyse::block_logs;
use crate::analysis::{Arm, Interval, MetricAnalysis};
use crate::family::CONFIDENCE;
use crate::paired::Differences;
use serde::Serialize;
use tare_core::ladder::Ladder;

/// From the baseline to a form in rungs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Climb {
    /// The form that was climbed to.
    pub to: String,
    /// By metric that is compared.
    pub metrics: Vec<MetricClimb>,
    /// Rungs of which nothing was measured, so that what they add is in the cost of the next.
    pub left_out: Vec<String>,
}

/// A [`Climb`] by one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricClimb {
    /// The metric's name.
    pub name: String,
    /// For readers.
    pub title: String,
    /// The rungs, in their order.
    pub rungs: Vec<RungCost>,
    /// The product of their ratios.
    pub together: f64,
    /// The form by the second copy of the baseline, the A/A control, with which no rung has anything to do: the whole,
    /// measured once more. None where it was not measured.
    pub whole: Option<Cost>,
    /// Whether the rungs together lie in the interval of the whole; none where there is no interval.
    pub adds_up: Option<bool>,
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Paired within blocks, geometric mean.
    pub ratio: f64,
    /// 95 % interval by Student's t; of rungs, all of a metric hold together (Bonferroni). None below 3 blocks and of
    /// what ran emulated.
    pub interval: Option<Interval>,
}

/// What a rung costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RungCost {
    /// The rung's form.
    pub form: String,
    /// What it has that `against` has not.
    pub adds: Vec<String>,
    /// The form of the rung before it that was measured.
    pub against: String,
    /// This form by that one.
    pub cost: Cost,
    /// Whether its interval excludes 1 and the ratio is beyond the noise floor.
    pub matters: bool,
}

/// The cost of each rung, by every metric that is compared.
pub(crate) fn climb(ladder: &Ladder, baseline: &str, arms: &[Arm], metrics: &[MetricAnalysis]) -> Climb {
    let measured = |form: &str| arms.iter().any(|arm| arm.name == form && arm.measured > 0);
    let left_out = ladder.rungs.iter().filter(|rung| !measured(&rung.form)).map(|rung| rung.form.clone()).collect();
    let compared = metrics.iter().filter(|metric| metric.compared);
    let metrics = compared.filter_map(|metric| metric_climb(ladder, baseline, arms, metric)).collect();
    Climb { to: ladder.to.clone(), metrics, left_out }
}

fn metric_climb(ladder: &Ladder, baseline: &str, arms: &[Arm], metric: &MetricAnalysis) -> Option<MetricClimb> {
    let has = |form: &str| metric.estimates.iter().any(|estimate| estimate.arm == form);
    let count = ladder.rungs.iter().filter(|rung| has(&rung.form)).count();
    let (mut before, mut adds, mut rungs) = (baseline.to_owned(), Vec::new(), Vec::new());
    for rung in &ladder.rungs {
        adds.push(rung.adds.clone());
        let Some(cost) = cost(&rung.form, &before, count, arms, metric) else { continue };
        let floor = metric.noise_floor.unwrap_or(0.0).ln_1p();
        let excludes = cost.interval.is_some_and(|interval| !interval.contains(1.0));
        // When equals differ, nobody knows what a difference says.
        let matters = excludes && cost.ratio.ln().abs() > floor && !metric.control_differs;
        let against = std::mem::replace(&mut before, rung.form.clone());
        rungs.push(RungCost { form: rung.form.clone(), adds: std::mem::take(&mut adds), against, cost, matters });
    }
    let together = rungs.iter().map(|rung| rung.cost.ratio).product();
    let control = arms.iter().find(|arm| arm.control).map(|arm| arm.name.as_str());
    let whole = control.and_then(|control| cost(&ladder.to, control, 1, arms, metric));
    let adds_up = whole.and_then(|whole| whole.interval).map(|interval| interval.contains(together));
    let (name, title) = (metric.name.clone(), metric.title.clone());
    (!rungs.is_empty()).then_some(MetricClimb { name, title, rungs, together, whole, adds_up })
}

/// One form by another, with an interval that holds together with those of `family` such costs; none where they were
/// never measured in one block.
pub(crate) fn cost(form: &str, against: &str, family: usize, arms: &[Arm], metric: &MetricAnalysis) -> Option<Cost> {
    let logs = |name: &str| metric.estimates.iter().find(|estimate| estimate.arm == name).map(block_logs);
    let differences = Differences::of(&logs(form)?, &logs(against)?);
    if differences.n() == 0 {
        return None;
    }
    let emulated = arms.iter().any(|arm| (arm.name == form || arm.name == against) && arm.emulated.is_some());
    let mean = differences.mean();
    let level = 1.0 - 0.5 * (1.0 - CONFIDENCE) / family.max(1) as f64;
    let precision = differences.precision(level).filter(|_| !emulated);
    Some(Cost { ratio: mean.exp(), interval: precision.map(|precision| precision.interval(mean)) })
}
