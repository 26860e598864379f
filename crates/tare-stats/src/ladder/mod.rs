//! What each rung of a ladder costs, and whether the rungs add up to the whole.

mod orders;

pub use orders::Orders;

use crate::arm::Arm;
use crate::bound::Bound;
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::pair::Pair;
use crate::ratios::MetricAnalysis;
use crate::verdict::Withheld;
use orders::orders;
use serde::Serialize;
use tare_core::ladder::Ladder;

/// What each rung costs on the way from the baseline to a form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LadderCosts {
    /// The form that was climbed to.
    pub to: String,
    /// By metric that is compared.
    pub metrics: Vec<MetricRungCosts>,
    /// Rungs of which nothing was measured, so that what they add is in the cost of the next.
    pub left_out: Vec<String>,
}

/// What the rungs cost by one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRungCosts {
    /// The metric's name.
    pub name: String,
    /// For readers.
    pub title: String,
    /// The rungs, in their order.
    pub rungs: Vec<RungCost>,
    /// The product of their ratios.
    pub together: f64,
    /// Where the truth of that lies, where it is only a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// The form by the second copy of the baseline, the A/A control, with which no rung has anything to do: the whole,
    /// measured once more. None where it was not measured.
    pub whole: Option<Cost>,
    /// Whether the rungs together lie in the interval of the whole; none where there is no interval, and where either
    /// is only a bound: two bounds that are alike say nothing of what they bound. The product of rungs is the whole by
    /// arithmetic, so this says whether the whole is the same measured again, and nothing of how rungs depend on each
    /// other: that is in [`RungCost::orders`].
    pub adds_up: Option<bool>,
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Paired within blocks, geometric mean.
    pub ratio: f64,
    /// Where the truth lies, where the ratio is only a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
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
    /// Whether its interval excludes 1, the ratio is beyond the noise floor, nothing withholds it, and where it is only
    /// a bound the truth lies farther off still.
    pub matters: bool,
    /// Why nothing is said of it, whatever its figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// What its feature costs in other places, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orders: Option<Orders>,
}

/// The cost of each rung, by every metric that is compared.
pub(crate) fn ladder_costs(ladder: &Ladder, baseline: &str, arms: &[Arm], metrics: &[MetricAnalysis]) -> LadderCosts {
    let measured = |form: &str| arms.iter().any(|arm| arm.name == form && arm.measured > 0);
    let left_out = ladder.rungs.iter().filter(|rung| !measured(&rung.form)).map(|rung| rung.form.clone()).collect();
    let compared = metrics.iter().filter(|metric| metric.compared);
    let metrics = compared.filter_map(|metric| metric_rung_costs(ladder, baseline, arms, metric)).collect();
    LadderCosts { to: ladder.to.clone(), metrics, left_out }
}

fn metric_rung_costs(
    ladder: &Ladder,
    baseline: &str,
    arms: &[Arm],
    metric: &MetricAnalysis,
) -> Option<MetricRungCosts> {
    let has = |form: &str| metric.estimates.iter().any(|estimate| estimate.arm == form);
    let count = ladder.rungs.iter().filter(|rung| has(&rung.form)).count();
    let (mut before, mut adds, mut rungs) = (baseline.to_owned(), Vec::new(), Vec::new());
    for rung in &ladder.rungs {
        adds.push(rung.adds.clone());
        let Some(pair) = Pair::of(&rung.form, &before, arms, metric) else { continue };
        let cost = Cost::of(&pair, count);
        let against = std::mem::replace(&mut before, rung.form.clone());
        rungs.push(RungCost {
            form: rung.form.clone(),
            adds: std::mem::take(&mut adds),
            against,
            cost,
            matters: pair.stands(cost.interval),
            withheld: pair.withheld,
            orders: None,
        });
    }
    let found = orders(ladder, baseline, &rungs, arms, metric);
    rungs.iter_mut().zip(found).for_each(|(rung, orders)| rung.orders = orders);
    let together = rungs.iter().map(|rung| rung.cost.ratio).product();
    let control = arms.iter().find(|arm| arm.control).map(|arm| arm.name.as_str());
    let whole = control.and_then(|control| Pair::of(&ladder.to, control, arms, metric));
    let whole = whole.map(|pair| Cost::of(&pair, 1));
    let bound = metric.bound(&before, baseline);
    let known = whole.filter(|whole| bound.is_none() && whole.bound.is_none());
    let adds_up = known.and_then(|whole| whole.interval).map(|interval| interval.contains(together));
    let (name, title) = (metric.name.clone(), metric.title.clone());
    (!rungs.is_empty()).then_some(MetricRungCosts { name, title, rungs, together, bound, whole, adds_up })
}

impl Cost {
    /// Of two arms, with an interval that holds together with those of `family` such costs.
    pub(crate) fn of(pair: &Pair<'_>, family: usize) -> Cost {
        let level = 1.0 - 0.5 * (1.0 - CONFIDENCE) / family.max(1) as f64;
        Cost { ratio: pair.log().exp(), bound: pair.bound, interval: pair.interval(level) }
    }
}
