//! What two runs of the same thing differ by, over what their blocks show.
//!
//! Blocks say how exactly a ratio was measured on this occasion. On another one, after another boot and in other
//! memory, equals lie apart in another way, and no number of blocks in one run shows by how much. The A/A controls of
//! many runs do: their ratio is known to be 1, so what they lie off beyond their own errors is the occasions'.
//!
//! Few runs say little of that: three equals that happen to lie together do not make it nothing. So what is learned is
//! not one figure but how likely which are, and an interval of a change is made over all of them.

use crate::analysis::Analysis;
use crate::arm::Arm;
use crate::condition::{Condition, Conditions, OfForm, OfService, baseline_of};
use crate::estimate::block_logs;
use crate::family::CONFIDENCE;
use crate::paired::Differences;
use crate::quantile::{chi_squared_quantile, student_quantile};
use crate::ratios::Ratio;
use crate::verdict::{Verdict, Withheld};
use crate::welch::satterthwaite;
use serde::Serialize;
use statrs::function::erf::erf;
use std::collections::BTreeMap;

/// How many of the latest runs show what occasions add: enough to estimate a variance, but none too old.
pub const OCCASION_RUNS: usize = 40;

/// Runs below which nothing is learned.
pub(crate) const RUNS_MIN: usize = 3;

/// So many equally likely values stand for what is known of a variance.
const LIKELY: usize = 64;

/// So many stand for what is known of the two runs' own.
const LIKELY_OWN: usize = 16;

/// How far apart equals were in one run, in one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equals {
    /// The log of the A/A control's ratio.
    pub log: f64,
    /// Its standard error, by the run's own blocks.
    pub standard_error: f64,
    /// The degrees of freedom of that, one less than there are blocks.
    pub degrees: f64,
}

/// By metric that is compared: how far apart equals were in this run, with the error that their own blocks show. What a
/// run may claim that was ended for the width of its intervals is larger, and makes occasions look smaller. Nothing
/// of equals whose figures are not their own, for that the generator is as fast as itself says nothing of them; and
/// nothing where one of the two is void more often than others, for those that are left are not its usual ones.
pub fn equals(analysis: &Analysis) -> BTreeMap<String, Equals> {
    let arm = |is: fn(&Arm) -> bool| analysis.arms.iter().find(|arm| is(arm));
    let pair = arm(|arm| arm.control).zip(arm(|arm| arm.baseline));
    if pair.is_some_and(|(control, baseline)| Withheld::of(control, baseline, false).is_some()) {
        return BTreeMap::new();
    }
    let of_metric = |metric: &crate::MetricAnalysis| {
        let control = metric.ratios.iter().find(|ratio| ratio.arm == analysis.control)?;
        control.interval.filter(|_| control.bound.is_none())?;
        let logs = |arm: &str| metric.estimates.iter().find(|estimate| estimate.arm == arm).map(block_logs);
        let differences = Differences::of(&logs(&analysis.control)?, &logs(&analysis.baseline)?);
        let (standard_error, degrees) = (differences.standard_error()?, differences.n() as f64 - 1.0);
        Some((metric.name.clone(), Equals { log: differences.mean(), standard_error, degrees }))
    };
    analysis.metrics.iter().filter_map(of_metric).collect()
}

/// What occasions add to the error of a ratio, in one metric, as the A/A controls of past runs show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Occasion {
    /// Out of this many runs.
    pub runs: usize,
    /// The standard deviation from occasion to occasion, log scale: the one with which the controls lie as far off as
    /// should be expected; 0 where they lie no farther off than their blocks explain.
    pub deviation: f64,
    /// It is no larger than this with a probability of 95 %.
    pub deviation_at_most: f64,
    /// Equally likely variances.
    #[serde(skip)]
    likely: Vec<f64>,
}

/// By metric.
pub type Occasions = BTreeMap<String, Occasion>;

impl Occasion {
    /// From the A/A controls of past runs; none when they are fewer than three.
    ///
    /// With m the log of a control's ratio, whose truth is 0, and e² its variance by its own blocks, the sum of
    /// m² / (tau² + e²) is chi-squared with a degree of freedom a run. Solved for tau² at its expectation, that is the
    /// estimate of R. C. Paule and J. Mandel, J. Research of the NBS 87 (1982); at each of its quantiles, the
    /// generalised pivotal quantity of S. Weerahandi, JASA 88 (1993).
    ///
    /// Each run has its own e², for days differ: shared, that of a noisy day takes from what calm ones show of tau².
    /// How badly few blocks know theirs is not drawn: a large e² among the draws explains away what lies apart, so
    /// tau² comes out too small the oftener the shorter runs are.
    pub fn learn(runs: &[Equals]) -> Option<Occasion> {
        if runs.len() < RUNS_MIN {
            return None;
        }
        let terms: Vec<(f64, f64)> = runs.iter().map(|run| (run.log.powi(2), run.standard_error.powi(2))).collect();
        let count = runs.len() as f64;
        let at = |at| solved(&terms, chi_squared_quantile(middle(at, LIKELY), count));
        let mut likely: Vec<f64> = (0..LIKELY).map(at).collect();
        likely.sort_by(f64::total_cmp);
        Some(Occasion {
            runs: runs.len(),
            deviation: solved(&terms, count).sqrt(),
            deviation_at_most: likely[(CONFIDENCE * LIKELY as f64) as usize].sqrt(),
            likely,
        })
    }

    /// How well the difference of two runs' log ratios is known by their own variances, each with its degrees, and by
    /// what occasions add to both.
    fn of_difference(&self, own: [(f64, f64); 2], confidence: f64) -> ChangeError {
        let (variance, degrees) = satterthwaite(own);
        let spread = Spread::of(variance, degrees, &self.likely);
        // What occasions add makes no interval narrower.
        let alone = reach(confidence, degrees) * variance.sqrt();
        let half_width = spread.half_width(confidence).max(alone);
        let standard_error = (variance + 2.0 * self.deviation.powi(2)).sqrt();
        ChangeError::reaching(half_width, standard_error, confidence)
    }
}

/// By how many standard errors an interval reaches, after Student.
fn reach(confidence: f64, degrees: f64) -> f64 {
    student_quantile(0.5 * (1.0 + confidence), degrees)
}

/// The middle of one of so many equal parts of 0 to 1.
fn middle(at: usize, parts: usize) -> f64 {
    (at as f64 + 0.5) / parts as f64
}

/// The t >= 0 at which the sum of m² / (t + v) comes down to `sum`; 0 where it is no larger there. Newton's steps come
/// from the left and never go too far: the sum falls ever more slowly. They begin where the largest term alone comes
/// down to it, for beside a term without an error of its own they would be small for ever.
fn solved(terms: &[(f64, f64)], sum: f64) -> f64 {
    let mut t = terms.iter().map(|(square, own)| square / sum - own).fold(0.0, f64::max);
    for _ in 0..60 {
        let at = |&(square, own): &(f64, f64)| {
            // Equals without any error of their own.
            let below = (t + own).max(f64::MIN_POSITIVE.sqrt());
            (square / below, square / (below * below))
        };
        let (value, slope) = terms.iter().map(at).fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        if value <= sum * (1.0 + 1e-9) {
            break;
        }
        t += (value - sum) / slope;
    }
    t
}

/// Equally likely variances of a difference.
struct Spread(Vec<f64>);

impl Spread {
    /// Of the runs' own variance with its degrees, and twice what occasions add.
    fn of(own: f64, degrees: f64, likely: &[f64]) -> Spread {
        let own = (0..LIKELY_OWN)
            .map(|at| own * degrees / chi_squared_quantile(middle(at, LIKELY_OWN), degrees))
            .collect::<Vec<f64>>();
        Spread(own.iter().flat_map(|own| likely.iter().map(move |tau2| own + 2.0 * tau2)).collect())
    }

    /// The probability that the difference is off by at most so much.
    fn within(&self, half_width: f64) -> f64 {
        let share = |variance: &f64| if *variance > 0.0 { erf(half_width / (2.0 * variance).sqrt()) } else { 1.0 };
        self.0.iter().map(share).sum::<f64>() / self.0.len() as f64
    }

    /// How far the difference is off with this probability at most, found by halving.
    fn half_width(&self, confidence: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1e-3);
        while self.within(high) < confidence && high < 1e3 {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..40 {
            let half = 0.5 * (low + high);
            if self.within(half) < confidence { low = half } else { high = half }
        }
        if self.0.iter().all(|variance| *variance == 0.0) { 0.0 } else { high }
    }
}

/// How well a change is known, log scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ChangeError {
    pub(crate) standard_error: f64,
    /// Student's t with so many makes the interval of it.
    pub(crate) degrees: f64,
    pub(crate) half_width: f64,
}

impl ChangeError {
    /// What has this standard error and reaches so far: of as many degrees of freedom as that takes, one at least.
    fn reaching(half_width: f64, standard_error: f64, confidence: f64) -> ChangeError {
        let (mut low, mut high) = (1.0_f64, 1e6_f64);
        if half_width >= reach(confidence, low) * standard_error {
            let standard_error = half_width / reach(confidence, low);
            return ChangeError { standard_error, degrees: low, half_width };
        }
        for _ in 0..50 {
            let degrees = (low * high).sqrt();
            if reach(confidence, degrees) * standard_error > half_width { low = degrees } else { high = degrees }
        }
        ChangeError { standard_error, degrees: high, half_width }
    }
}

/// How well the difference of two runs' log ratios is known, by their own errors after Welch and Satterthwaite, and by
/// what is known of occasions, with an interval of this probability. None when either has no interval, for then its
/// standard error makes no claim; nor when either is a bound, or is withheld: what is not believed in its own run says
/// nothing of another.
pub(crate) fn error_of_change(
    before: &Ratio,
    after: &Ratio,
    occasion: Option<&Occasion>,
    confidence: f64,
) -> Option<ChangeError> {
    let doubtful =
        |ratio: &Ratio| ratio.bound.is_some() || ratio.withheld.is_some() || ratio.verdict == Verdict::Withheld;
    if doubtful(before) || doubtful(after) {
        return None;
    }
    before.interval.and(after.interval)?;
    let own = |ratio: &Ratio| Some((ratio.standard_error?.powi(2), ratio.degrees?));
    let own = [own(before)?, own(after)?];
    if let Some(occasion) = occasion {
        return Some(occasion.of_difference(own, confidence));
    }
    let (variance, degrees) = satterthwaite(own);
    let standard_error = variance.sqrt();
    // Two runs without any noise differ for certain.
    let half_width = reach(confidence, degrees) * standard_error;
    Some(ChangeError { standard_error, degrees, half_width })
}

/// What the machine is, as far as it decides how far apart equals lie.
const MACHINE: [&str; 3] = ["cpu.model", "cpu.logical", "memory.total"];

/// Whether equals lie apart as they do by a condition, with this baseline, for it is two copies of that one which they
/// compare.
fn decides(condition: &Condition, baseline: &str) -> bool {
    match condition {
        Condition::Workload | Condition::Baseline | Condition::Load | Condition::Origin | Condition::Protocol => true,
        Condition::Design | Condition::Idle | Condition::Settle | Condition::SteadyWithin | Condition::Measure => true,
        Condition::SearchRules | Condition::SearchWindow | Condition::Option(_) => true,
        Condition::Environment(fact) => MACHINE.contains(&fact.as_str()),
        Condition::Service { what, .. } => *what == OfService::Resources,
        Condition::Form { name, what } => name == baseline && !matches!(what, OfForm::Fact(_)),
        _ => false,
    }
}

/// Whether the equals of a run under the conditions `past` say how far those of one under `now` lie apart: the same
/// machine, load and design, and the same baseline. What other forms the study has and how its software is versioned
/// does not matter. A condition that older records do not state is taken for the same.
pub fn are_alike(past: &Conditions, now: &Conditions) -> bool {
    alike_but(|_| false, past, now)
}

/// The same, some conditions aside.
fn alike_but(aside: impl Fn(&Condition) -> bool, past: &Conditions, now: &Conditions) -> bool {
    let Some(baseline) = baseline_of(now) else { return false };
    let deciding = |condition: &&Condition| decides(condition, &baseline) && !aside(condition);
    // What is stated only where it was chosen: who does not state it chose something else.
    let is_choice =
        |condition: &Condition| matches!(condition, Condition::Option(_) | Condition::Form { .. } | Condition::Idle);
    let same = |condition: &Condition| match (past.get(condition), now.get(condition)) {
        (Some(before), Some(value)) => before == value,
        _ => !is_choice(condition),
    };
    past.contains_key(&Condition::Baseline) && now.keys().chain(past.keys()).filter(deciding).all(same)
}

/// Whether deployments of `form` varied under the conditions `past` as they do under those of `now`: the same machine,
/// load, design, baseline and form. For how long they settled and were measured does not matter.
pub fn varies_alike(past: &Conditions, now: &Conditions, form: &str) -> bool {
    let time = |of: &Condition| matches!(of, Condition::Settle | Condition::SteadyWithin | Condition::Measure);
    let mut own = OfForm::OWN.into_iter().map(|what| Condition::of_form(form, what));
    alike_but(time, past, now) && own.all(|condition| past.get(&condition) == now.get(&condition))
}

#[cfg(test)]
mod tests;
