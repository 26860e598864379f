//! Two arms in one metric: how they compare, with which error, and whether the report stands by what comes of it.
//!
//! Verdicts are not all that a report says of two arms. What a rung costs, what a variant wins back, what more
//! instances do and what a difference comes from rest on ratios, too, and a reason that withholds a verdict withholds
//! these. All of them ask here.

use crate::arm::Arm;
use crate::bound::Bound;
use crate::estimate::block_logs;
use crate::interval::Interval;
use crate::paired::{Differences, Precision};
use crate::ratios::MetricAnalysis;
use crate::verdict::Withheld;

/// Two arms that were measured in one block at least, in one metric.
pub(crate) struct Pair<'a> {
    metric: &'a MetricAnalysis,
    differences: Differences,
    emulated: bool,
    /// What is known of their ratio, where it is not the ratio.
    pub(crate) bound: Option<Bound>,
    /// Why nothing is said of the two.
    pub(crate) withheld: Option<Withheld>,
}

impl<'a> Pair<'a> {
    /// Of two arms by name. None where there is no such arm, or no block in which both were measured.
    pub(crate) fn of(arm: &str, against: &str, arms: &[Arm], metric: &'a MetricAnalysis) -> Option<Pair<'a>> {
        let logs = |name: &str| metric.estimates.iter().find(|estimate| estimate.arm == name).map(block_logs);
        let differences = Differences::of(&logs(arm)?, &logs(against)?);
        let known = |name: &str| arms.iter().find(|known| known.name == name);
        let (arm, against) = (known(arm)?, known(against)?);
        (differences.n() > 0).then(|| Pair {
            emulated: arm.emulated.is_some() || against.emulated.is_some(),
            withheld: Withheld::of(arm, against, metric.control_differs),
            bound: metric.bound(&arm.name, &against.name),
            differences,
            metric,
        })
    }

    /// By how much this difference is another one than `other`, in the blocks that have both; none where none has. It
    /// is withheld where either is.
    pub(crate) fn less(&self, other: &Pair<'a>) -> Option<Pair<'a>> {
        let differences = self.differences.less(&other.differences);
        (differences.n() > 0).then(|| Pair {
            metric: self.metric,
            differences,
            emulated: self.emulated || other.emulated,
            withheld: self.withheld.or(other.withheld),
            bound: Bound::of_quotient(self.bound, other.bound),
        })
    }

    /// Whether their ratio is one that the report stands by, and no bound.
    pub(crate) fn is_known(&self) -> bool {
        self.bound.is_none() && self.withheld.is_none() && !self.emulated
    }

    /// The mean of the differences inside blocks, log scale.
    pub(crate) fn log(&self) -> f64 {
        self.differences.mean()
    }

    /// How exactly that is known, at a one-sided `level` of Student's t, as far as the run may claim it; none below
    /// three blocks and of what ran emulated.
    pub(crate) fn precision(&self, level: f64) -> Option<Precision> {
        let precision = self.differences.precision(level).filter(|_| !self.emulated)?;
        Some(self.metric.claim.elsewhere(precision))
    }

    /// The interval of the ratio that comes of it.
    pub(crate) fn interval(&self, level: f64) -> Option<Interval> {
        Some(self.precision(level)?.interval(self.log()))
    }

    /// Whether the report stands by the difference: the interval excludes 1, the ratio is beyond a noise floor that is
    /// known, nothing withholds it, and where it is only a bound the truth lies farther off still.
    pub(crate) fn stands(&self, interval: Option<Interval>) -> bool {
        let excludes = interval.is_some_and(|interval| !interval.contains(1.0));
        let beyond = self.metric.noise_floor.is_some_and(|floor| self.log().abs() > floor.ln_1p());
        let carried = self.bound.is_none_or(|bound| bound.carries(self.log()));
        excludes && beyond && carried && self.withheld.is_none()
    }
}
