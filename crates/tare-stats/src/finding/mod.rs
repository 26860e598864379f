//! Findings: what the difference between two forms comes from, by rules over what the kernel counted in each.
//!
//! A rule speaks of a pair whose performance differs, beyond noise or in every trial, and only when the figures that
//! it asks for differ beyond noise and beyond what equals differ by, or in every trial, and by enough to matter. A
//! limit that one of the two ran into in every trial, and the other has not, is told in any case: the kernel counted
//! what it takes. Findings are ranked by the time that is lost to them, and by how surely such figures name a cause.
//! What they say is a correlation, unless the two forms differ in one feature only: then the difference itself was
//! measured by experiment.

mod rule;

pub use rule::Confidence;

use crate::advice::AdviceGains;
use crate::arm::Arm;
use crate::bound::Bound;
use crate::contrast::{Cell, Figure, apart, differences, equals, floor, gap};
use crate::evidence::is_by_operation;
use crate::interval::Interval;
use crate::ladder::{Cost, LadderCosts};
use crate::ratios::MetricAnalysis;
use crate::verdict::{Verdict, is_given};
use rule::{Condition, RULES, Rule};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The probability that a figure of a finding differs, each by itself. With the performance that must differ too, and
/// the least sizes of the rules, equals are explained in far fewer of 100 cases.
const FINDING_CONFIDENCE: f64 = 0.99;

/// The least time lost, s a second, that a finding is ranked by.
const LOST_MIN: f64 = 0.01;

/// Findings that score less than this share of the first one are not worth a reader's time.
const SCORE_MIN: f64 = 0.05;

/// What the difference between two forms comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The form.
    pub form: String,
    /// The one that it is compared with: the baseline, or the rung before it.
    pub against: String,
    /// Which of the two is slower.
    pub slower: String,
    /// How surely they differ in performance.
    pub differs: Differs,
    /// The metric in which they differ, for readers; where they do not, the first one that is compared.
    pub metric: String,
    /// Form by the other one.
    pub ratio: f64,
    /// Where the truth lies, where the ratio is only a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Its interval; where they differ in every trial, from the least to the greatest ratio of any two trials.
    pub interval: Interval,
    /// Whether the two differ in one feature only, so that the ratio is what that feature costs.
    pub one_feature: bool,
    /// The findings, the one that most is lost to first. None is an answer too: no rule fits.
    pub findings: Vec<Finding>,
}

/// How surely two forms differ in performance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Differs {
    /// Beyond the interval that holds for all forms together, and the noise floor.
    BeyondNoise,
    /// Each trial of one was better than each of the other, and of its equal; too few of them for an interval.
    InEveryTrial,
    /// Not detectably: the explanation is told because of a limit that one of the two ran into, `slower`.
    NotDetectably,
    /// Whether they do, this run cannot say, whatever its figures; the explanation is told because of such a limit.
    Withheld,
}

/// A cause that the figures of two forms speak for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// What it says of the slower form.
    pub says: String,
    /// How surely the evidence names this cause.
    pub confidence: Confidence,
    /// Of each second, the seconds that are lost to it, summed over all threads: about, for ranking.
    pub lost: f64,
    /// The figures that say so; `here` is the slower form.
    pub evidence: Vec<Figure>,
    /// What to do about it.
    pub to_do: String,
    /// Variants of a form that would show what that wins back.
    pub variants: Vec<String>,
    /// Where the rule is described: what it asks for, from which counters, and what else may look the same.
    pub method: String,
    /// What the first of them that was measured wins back: then it is no mere correlation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tested: Option<Tested>,
}

/// What a variant without the cause does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    /// What it does otherwise.
    pub changes: String,
    /// The metric, for readers.
    pub metric: String,
    /// The variant by the form.
    pub cost: Cost,
}

/// The variants of forms that rules name, each once.
pub fn variants_of_rules() -> BTreeSet<&'static str> {
    RULES.iter().flat_map(|rule| &rule.variants).map(String::as_str).collect()
}

/// What is known of a pair whose performance differs.
struct Difference {
    differs: Differs,
    metric: String,
    ratio: f64,
    bound: Option<Bound>,
    interval: Interval,
    slower: bool,
}

/// What the trials of all arms counted, and what equals differ by in it.
struct Counted<'a> {
    cells: &'a BTreeMap<String, Cell>,
    baseline: &'a str,
    control: Option<&'a str>,
    equal: Vec<Figure>,
}

impl Counted<'_> {
    /// The trials of an arm, and of its equal.
    fn of(&self, arm: &str) -> Vec<&Cell> {
        let equal = self.control.filter(|_| arm == self.baseline);
        [Some(arm), equal].into_iter().flatten().filter_map(|name| self.cells.get(name)).collect()
    }

    /// The figures that differ beyond chance, `here` being the slower arm.
    fn clear(&self, slower: &str, faster: &str) -> Option<Vec<Figure>> {
        let figures = differences(self.cells.get(slower)?, self.cells.get(faster)?, level);
        let clear = |mut figure: Figure| {
            if is_clear(&figure, &self.equal) {
                return Some(figure);
            }
            figure.interval = apart(&figure.name, &self.of(slower), &self.of(faster))?;
            figure.apart = true;
            Some(figure)
        };
        Some(figures.into_iter().filter_map(clear).collect())
    }
}

/// An explanation for every pair whose performance differs, or of which one ran into a limit.
pub(crate) fn explanations(
    cells: &BTreeMap<String, Cell>,
    pairs: &[(String, String)],
    baseline: &str,
    arms: &[Arm],
    metrics: &[MetricAnalysis],
    by_experiment: (Option<&LadderCosts>, Option<&AdviceGains>),
) -> Vec<Explanation> {
    let control = arms.iter().find(|arm| arm.control).map(|arm| arm.name.as_str());
    let counted = Counted { cells, baseline, control, equal: equals(cells, baseline, arms, level) };
    let (ladder, advice) = by_experiment;
    let explanation = |(form, against): &(String, String)| {
        let varies = advice.filter(|advice| *against == advice.of);
        let differences = match (ladder, varies) {
            (Some(ladder), _) => Vec::from_iter(differs_on_rung(ladder, metrics, form, against)),
            (None, Some(advice)) => Vec::from_iter(differs_by_variant(advice, metrics, form)),
            (None, None) => differs_from_baseline(metrics, form, &counted),
        };
        // What a variant wins back stands with the form's own findings.
        let differences = differences.into_iter().filter(|difference| varies.is_none() || difference.slower);
        let explained = differences.filter_map(|difference| {
            let (slower, faster) = if difference.slower { (form, against) } else { (against, form) };
            let mut findings = findings(&counted.clear(slower, faster)?, throughput(metrics, slower));
            let of_form = advice.filter(|advice| *form == advice.of && form == slower);
            findings.iter_mut().for_each(|finding| finding.tested = of_form.and_then(|of| tested(finding, of)));
            let (form, against, slower) = (form.clone(), against.clone(), slower.clone());
            let Difference { differs, metric, ratio, bound, interval, .. } = difference;
            let one_feature = ladder.is_some() || varies.is_some();
            Some(Explanation { form, against, slower, differs, metric, ratio, bound, interval, one_feature, findings })
        });
        // The first difference that is explained; else a limit; else that no rule fits, which within the noise is no
        // news.
        let (told, untold): (Vec<_>, Vec<_>) = explained.partition(|explanation| !explanation.findings.is_empty());
        let limit = || limited(&counted, metrics, form, against).filter(|_| varies.is_none());
        let unfit = || untold.into_iter().find(|explanation| explanation.differs == Differs::BeyondNoise);
        told.into_iter().next().or_else(limit).or_else(unfit)
    };
    pairs.iter().filter_map(explanation).collect()
}

/// Of a pair whose performance does not differ detectably, the limit that one of the two ran into and the other not
/// even once. It may cost less than the noise of performance hides, or others may gain by it, but the kernel counted
/// it.
fn limited(counted: &Counted, metrics: &[MetricAnalysis], form: &str, against: &str) -> Option<Explanation> {
    let metric = metrics.iter().find(|metric| metric.compared)?;
    let ratio = metric.ratios.iter().find(|ratio| ratio.arm == form)?;
    [(form, against), (against, form)].into_iter().find_map(|(slower, faster)| {
        let mut figures = counted.clear(slower, faster)?;
        figures.retain(|figure| figure.there == 0.0);
        let operations_per_s = throughput(metrics, slower);
        let limits = RULES.iter().filter(|rule| rule.by_itself);
        let findings: Vec<Finding> = limits.filter_map(|rule| apply(rule, &figures, operations_per_s)).collect();
        if findings.is_empty() {
            return None;
        }
        Some(Explanation {
            form: form.to_owned(),
            against: against.to_owned(),
            slower: slower.to_owned(),
            differs: if is_given(ratio.verdict) { Differs::NotDetectably } else { Differs::Withheld },
            metric: metric.title.clone(),
            ratio: ratio.ratio,
            bound: ratio.bound,
            interval: ratio.interval?,
            one_feature: false,
            findings,
        })
    })
}

/// Operations a second of an arm, 1 where they are not known.
pub(crate) fn throughput(metrics: &[MetricAnalysis], arm: &str) -> f64 {
    let metric = metrics.iter().find(|metric| metric.name == "throughput");
    let estimate = metric.and_then(|metric| metric.estimates.iter().find(|estimate| estimate.arm == arm));
    estimate.map_or(1.0, |estimate| estimate.mean)
}

/// The one-sided probability of a figure's interval, however many there are.
pub(crate) fn level(_: usize) -> f64 {
    1.0 - 0.5 * (1.0 - FINDING_CONFIDENCE)
}

/// Whether a figure differs beyond chance and beyond what equals differ by.
pub(crate) fn is_clear(figure: &Figure, equal: &[Figure]) -> bool {
    !figure.interval.contains(0.0) && figure.difference.abs() > floor(equal, &figure.name)
}

/// The metrics in which the form differs from the baseline, beyond interval and noise floor or in every trial. None in
/// which the report gives no verdict: it must not name a cause of what it does not stand by.
fn differs_from_baseline(metrics: &[MetricAnalysis], form: &str, counted: &Counted) -> Vec<Difference> {
    let compared = metrics.iter().filter(|metric| metric.compared);
    let difference = |metric: &MetricAnalysis| {
        let ratio = metric.ratios.iter().find(|ratio| ratio.arm == form).filter(|ratio| is_given(ratio.verdict))?;
        let beyond = ratio.interval.filter(|_| matches!(ratio.verdict, Verdict::Better | Verdict::Worse));
        let (differs, interval) = match beyond {
            Some(interval) => (Differs::BeyondNoise, interval),
            None => (Differs::InEveryTrial, in_every_trial(metric, form, counted)?),
        };
        let slower = metric.more_is_better == (ratio.ratio < 1.0);
        Some(Difference {
            differs,
            metric: metric.title.clone(),
            ratio: ratio.ratio,
            bound: ratio.bound,
            interval,
            slower,
        })
    };
    compared.filter_map(difference).collect()
}

/// From the least to the greatest ratio of any two trials, where each trial of the form was better, or worse, than each
/// of the baseline and of its equal.
fn in_every_trial(metric: &MetricAnalysis, form: &str, counted: &Counted) -> Option<Interval> {
    let logs = |arm: &str| -> Vec<f64> {
        let of = metric.estimates.iter().filter(|estimate| estimate.arm == arm);
        of.flat_map(|estimate| &estimate.values).map(|value| value.value.ln()).collect()
    };
    let apart = gap(&logs(form), &[logs(counted.baseline), logs(counted.control?)].concat())?;
    Some(Interval { low: apart.low.exp(), high: apart.high.exp() })
}

/// The first metric in which a rung matters.
fn differs_on_rung(ladder: &LadderCosts, metrics: &[MetricAnalysis], form: &str, against: &str) -> Option<Difference> {
    ladder.metrics.iter().find_map(|of| {
        let rung = of.rungs.iter().find(|rung| rung.form == form && rung.against == against && rung.matters)?;
        let metric = metrics.iter().find(|metric| metric.name == of.name)?;
        let slower = metric.more_is_better == (rung.cost.ratio < 1.0);
        let (metric, Cost { ratio, bound, interval }) = (metric.title.clone(), rung.cost);
        Some(Difference { differs: Differs::BeyondNoise, metric, ratio, bound, interval: interval?, slower })
    })
}

/// The first metric in which a variant does otherwise than the form that is varied.
fn differs_by_variant(advice: &AdviceGains, metrics: &[MetricAnalysis], form: &str) -> Option<Difference> {
    advice.metrics.iter().find_map(|of| {
        let gain = of.variants.iter().find(|gain| gain.form == form && gain.matters)?;
        let metric = metrics.iter().find(|metric| metric.name == of.name)?;
        let Cost { ratio, bound, interval } = gain.cost;
        let (metric, slower) = (metric.title.clone(), !gain.better);
        Some(Difference { differs: Differs::BeyondNoise, metric, ratio, bound, interval: interval?, slower })
    })
}

/// What the first of a finding's variants that was measured wins back.
fn tested(finding: &Finding, advice: &AdviceGains) -> Option<Tested> {
    let of = advice.metrics.first()?;
    let gain = |name: &String| of.variants.iter().find(|gain| gain.variant == *name);
    let gain = finding.variants.iter().find_map(gain).filter(|gain| gain.withheld.is_none())?;
    Some(Tested { changes: gain.changes.clone(), metric: of.title.clone(), cost: gain.cost })
}

/// What the rules say of figures of which each differs beyond chance, `here` being the slower form.
pub(crate) fn findings(figures: &[Figure], operations_per_s: f64) -> Vec<Finding> {
    let mut found: Vec<Finding> = RULES.iter().filter_map(|rule| apply(rule, figures, operations_per_s)).collect();
    found.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let least = found.first().map_or(0.0, |first| SCORE_MIN * score(first));
    found.retain(|finding| score(finding) >= least);
    found
}

fn score(finding: &Finding) -> f64 {
    finding.lost * finding.confidence.weight()
}

fn apply(rule: &Rule, figures: &[Figure], operations_per_s: f64) -> Option<Finding> {
    let holding = |condition: &Condition| figures.iter().find(|figure| condition.holds(figure));
    if rule.unless.iter().any(|condition| holding(condition).is_some()) {
        return None;
    }
    let mut evidence: Vec<&Figure> = rule.when.iter().map(holding).collect::<Option<_>>()?;
    let any: Vec<&Figure> = rule.any.iter().filter_map(holding).collect();
    if !rule.any.is_empty() && any.is_empty() {
        return None;
    }
    let risen = |name: &String| figures.iter().find(|figure| figure.name == *name && figure.difference > 0.0);
    let shown = rule.shows.iter().filter_map(risen);
    evidence.extend(any.into_iter().chain(shown));
    let lost = rule.lost.iter().filter_map(|(name, seconds)| {
        let figure = figures.iter().find(|figure| figure.name == *name)?;
        let often = if is_by_operation(&figure.name) { operations_per_s } else { 1.0 };
        let unit = if figure.unit == "us" { 1e-6 } else { 1.0 };
        Some(figure.difference.abs() * seconds * often * unit)
    });
    Some(Finding {
        rule: rule.name.clone(),
        says: rule.says.clone(),
        confidence: rule.confidence,
        lost: lost.fold(LOST_MIN, f64::max),
        evidence: evidence.into_iter().cloned().collect(),
        to_do: rule.to_do.clone(),
        variants: rule.variants.clone(),
        method: format!("docs/src/findings.md#{}", rule.name),
        tested: None,
    })
}

#[cfg(test)]
mod tests;
