//! Whether a record keeps a bound: for pipelines. The interval decides, not the estimate: a bound is broken when the
//! whole interval lies beyond it, kept when the whole interval lies within, and otherwise nobody knows yet.

use crate::analysis::{Analysis, Interval, MetricAnalysis, Ratio, Verdict};
use crate::compare::{Change, changes};
use crate::occasion::Occasions;
use crate::paired::blocks_needed;
use crate::verdict::percent_text;
use serde::Serialize;

/// The bounds, as shares: 0.05 allows a throughput of 0.95 times and a time of 1.05 times what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Bounds {
    /// How much worse than its own baseline a form may be.
    pub max_overhead: Option<f64>,
    /// How much worse than in the other record a form's ratio to its baseline may be.
    pub max_regression: Option<f64>,
}

/// What a bound is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounded {
    /// A form against the baseline of its own record.
    Overhead,
    /// A form's ratio to its baseline against the same in the other record.
    Regression,
}

impl Bounded {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Bounded::Overhead => "overhead",
            Bounded::Regression => "regression",
        }
    }
}

/// What became of a bound. The order is that of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// Kept for certain.
    Pass,
    /// Not certain either way.
    Inconclusive,
    /// Broken for certain.
    Fail,
}

impl GateOutcome {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            GateOutcome::Pass => "pass",
            GateOutcome::Inconclusive => "inconclusive",
            GateOutcome::Fail => "fail",
        }
    }
}

/// One bound on one form and metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateCheck {
    /// The form.
    pub form: String,
    /// The metric's name.
    pub metric: String,
    /// The metric's title.
    pub title: String,
    /// What is bounded.
    pub bounded: Bounded,
    /// The bound, as a share.
    pub bound: f64,
    /// By how much it is worse, as a share; negative when it is better. None when there is no ratio, or none that may
    /// be used.
    pub worse_by: Option<f64>,
    /// The interval of that.
    pub interval: Option<Interval>,
    /// Blocks behind it, of the new record.
    pub blocks: usize,
    /// Blocks of the new record that would probably tell, when these do not.
    pub blocks_needed: Option<u32>,
    /// What became of it.
    pub outcome: GateOutcome,
    /// Why, in words.
    pub why: String,
}

/// Judges every bound that is set on the given forms and metrics (by name), form by form, against the other record with
/// what occasions add to the error between two. A form that `new` does not
/// compare is inconclusive; a metric that it does not have is passed over.
pub fn gate(
    new: &Analysis,
    other: Option<(&Analysis, &Occasions)>,
    forms: &[String],
    metrics: &[String],
    bounds: &Bounds,
) -> Vec<GateCheck> {
    let changed = other.map(|(other, occasions)| changes(other, new, occasions)).unwrap_or_default();
    let mut checks = Vec::new();
    for form in forms {
        for name in metrics {
            let Some(metric) = new.metrics.iter().find(|metric| metric.name == *name) else { continue };
            let ratio = metric.ratios.iter().find(|ratio| ratio.arm == *form);
            if let Some(bound) = bounds.max_overhead {
                checks.push(overhead(new, metric, form, ratio, bound));
            }
            if let (Some(bound), Some((other, _))) = (bounds.max_regression, other) {
                let change = changed.iter().find(|change| change.form == *form && change.metric == *name);
                checks.push(regression(new, other, metric, form, change, bound));
            }
        }
    }
    checks
}

/// The gravest outcome; inconclusive when nothing was checked.
pub fn gate_outcome(checks: &[GateCheck]) -> GateOutcome {
    checks.iter().map(|check| check.outcome).max().unwrap_or(GateOutcome::Inconclusive)
}

/// What is known of a bounded quantity, as the log of a ratio.
struct Known {
    log: f64,
    half_width: f64,
    /// The part of the variance that more blocks would not make smaller, of 1.
    fixed: f64,
    /// Below this, log scale, an effect may be the machine's.
    floor: f64,
}

fn overhead(analysis: &Analysis, metric: &MetricAnalysis, form: &str, ratio: Option<&Ratio>, bound: f64) -> GateCheck {
    let check = blank(metric, form, Bounded::Overhead, bound, ratio.map_or(0, |ratio| ratio.blocks.len()));
    let Some(ratio) = ratio else { return GateCheck { why: unmeasured(analysis, form), ..check } };
    if let Some(why) = unusable(metric, ratio, "this record") {
        return GateCheck { why, ..check };
    }
    let check = with_ratio(check, metric, ratio.ratio, ratio.interval);
    let Some(interval) = ratio.interval else { return GateCheck { why: too_few(ratio), ..check } };
    let floor = metric.noise_floor.unwrap_or_default().ln_1p();
    let half_width = 0.5 * (interval.high / interval.low).ln();
    judge(check, metric, &Known { log: ratio.ratio.ln(), half_width, fixed: 0.0, floor })
}

fn regression(
    new: &Analysis,
    other: &Analysis,
    metric: &MetricAnalysis,
    form: &str,
    change: Option<&Change>,
    bound: f64,
) -> GateCheck {
    let blocks = change.map_or(0, |change| change.after.blocks.len());
    let check = blank(metric, form, Bounded::Regression, bound, blocks);
    let Some(change) = change else {
        let here = metric.ratios.iter().any(|ratio| ratio.arm == form);
        let why = if here { format!("in the other record {}", unmeasured(other, form)) } else { unmeasured(new, form) };
        return GateCheck { why, ..check };
    };
    let before = other.metrics.iter().find(|before| before.name == metric.name);
    let doubt = unusable(metric, &change.after, "this record")
        .or_else(|| unusable(before?, &change.before, "the other record"))
        .or_else(|| [&change.after, &change.before].into_iter().find(|r| r.interval.is_none()).map(too_few));
    if let Some(why) = doubt {
        return GateCheck { why, ..check };
    }
    let check = with_ratio(check, metric, change.change, change.interval);
    let (Some(interval), Some(error), Some(before)) =
        (change.interval, change.standard_error, change.before.standard_error)
    else {
        return GateCheck { why: "there is no interval".into(), ..check };
    };
    let fixed = if error > 0.0 { (before / error).powi(2) } else { 0.0 };
    let half_width = 0.5 * (interval.high / interval.low).ln();
    judge(check, metric, &Known { log: change.change.ln(), half_width, fixed, floor: 0.0 })
}

fn blank(metric: &MetricAnalysis, form: &str, bounded: Bounded, bound: f64, blocks: usize) -> GateCheck {
    GateCheck {
        form: form.to_owned(),
        metric: metric.name.clone(),
        title: metric.title.clone(),
        bounded,
        bound,
        worse_by: None,
        interval: None,
        blocks,
        blocks_needed: None,
        outcome: GateOutcome::Inconclusive,
        why: String::new(),
    }
}

/// A ratio as a loss: 0.95 times the throughput and 1.05 times the time are both 5 % worse.
fn worse_by(metric: &MetricAnalysis, ratio: f64) -> f64 {
    if metric.more_is_better { 1.0 - ratio } else { ratio - 1.0 }
}

fn with_ratio(check: GateCheck, metric: &MetricAnalysis, ratio: f64, interval: Option<Interval>) -> GateCheck {
    let interval = interval.map(|Interval { low, high }| {
        let ends = [worse_by(metric, low), worse_by(metric, high)];
        Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
    });
    GateCheck { worse_by: Some(worse_by(metric, ratio)), interval, ..check }
}

fn judge(check: GateCheck, metric: &MetricAnalysis, known: &Known) -> GateCheck {
    // A loss, log scale: positive is worse.
    let (loss, limit) =
        if metric.more_is_better { (-known.log, -(-check.bound).ln_1p()) } else { (known.log, check.bound.ln_1p()) };
    let bound = percent_text(check.bound);
    if loss - known.half_width > limit {
        if loss <= known.floor {
            let floor = percent_text(known.floor.exp_m1());
            let why = format!("beyond the bound of {bound}, but within this machine's noise floor of {floor}");
            return GateCheck { why, ..check };
        }
        return GateCheck {
            outcome: GateOutcome::Fail,
            why: format!("certainly beyond the bound of {bound}"),
            ..check
        };
    }
    if loss + known.half_width <= limit {
        let why = format!("certainly within the bound of {bound}");
        return GateCheck { outcome: GateOutcome::Pass, why, ..check };
    }
    let blocks_needed = blocks_needed(check.blocks, known.half_width, (loss - limit).abs(), known.fixed);
    let advice = match blocks_needed {
        Some(blocks) => format!("about {blocks} blocks would tell, there are {}", check.blocks),
        None if known.fixed > 0.0 => "more blocks of both records would tell, or another bound".to_owned(),
        None => "it lies so near the bound that no reasonable number of blocks would tell".to_owned(),
    };
    GateCheck { blocks_needed, why: format!("the interval holds the bound of {bound}; {advice}"), ..check }
}

fn unmeasured(analysis: &Analysis, form: &str) -> String {
    let arm = analysis.arms.iter().find(|arm| arm.name == form);
    let reason = arm.and_then(|arm| arm.reasons.first());
    let why = reason.map_or("no trial was measured beside the baseline", |reason| reason.why.message.as_str());
    format!("not measured: {why}")
}

/// Why a ratio that is there must not be used: a gate judges nothing that the report refuses to judge. A report may
/// find no difference without a noise floor, a gate that lets a form pass vouches for it.
fn unusable(metric: &MetricAnalysis, ratio: &Ratio, which: &str) -> Option<String> {
    match ratio.verdict {
        Verdict::Emulated => Some(format!("EMULATED in {which}: not a claim about the real thing")),
        _ if metric.control_differs => {
            Some(format!("the A/A control of {which} differs from its equal: the machine is not sound"))
        }
        Verdict::Withheld => Some(format!("{} (in {which})", ratio.words)),
        // Too few blocks for an interval say so themselves.
        verdict if verdict == Verdict::NoNoiseFloor || metric.noise_floor.is_none() && ratio.interval.is_some() => {
            Some(format!(
                "the A/A control of {which} was not measured in 3 blocks: without a noise floor nobody knows what this \
                 machine makes of equals"
            ))
        }
        _ => None,
    }
}

fn too_few(ratio: &Ratio) -> String {
    format!("no interval: {} block(s) measured, 3 needed", ratio.blocks.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Apparatus, Method};
    use crate::family::tests::Noise;
    use crate::nested::Nested;
    use crate::paired::sd;
    use crate::quantile::student_quantile;
    use crate::sequential::Claim;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn ratio(ratio: f64, half: f64, blocks: u32) -> Ratio {
        Ratio {
            arm: "box".into(),
            blocks: (0..blocks).collect(),
            ratio,
            interval: Some(Interval { low: ratio * (-half).exp(), high: ratio * half.exp() }),
            standard_error: Some(half / 2.0),
            degrees: Some(1e6),
            hodges_lehmann: ratio,
            sensitive: false,
            trimmed: None,
            trimming_differs: false,
            smallest_detectable: None,
            equivalent: None,
            blocks_needed: None,
            verdict: Verdict::Worse,
            words: String::new(),
        }
    }

    fn analysis(ratio: Ratio, more_is_better: bool) -> Analysis {
        Analysis {
            confidence: 0.95,
            margin: 0.01,
            baseline: "plain".into(),
            control: "plain (A/A)".into(),
            blocks_planned: 5,
            blocks_measured: 5,
            blocks_replaced: Vec::new(),
            trials_lost: Vec::new(),
            arms: Vec::new(),
            response: None,
            costs: Vec::new(),
            scale_out: Vec::new(),
            ladder: None,
            advice: None,
            contrasts: Vec::new(),
            explanations: Vec::new(),
            profiles: Vec::new(),
            metrics: vec![MetricAnalysis {
                name: "m".into(),
                title: "M".into(),
                unit: "op/s".into(),
                more_is_better,
                compared: true,
                nested: Nested::Whole,
                method: Method::OwnError,
                noise_floor: Some(0.01),
                control_differs: false,
                claim: Claim::AS_IS,
                estimates: Vec::new(),
                ratios: vec![ratio],
            }],
            bits: Vec::new(),
            resources: Vec::new(),
            apparatus: Apparatus::default(),
            stalls: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn one(new: &Analysis, other: Option<&Analysis>, bounds: Bounds) -> GateCheck {
        let none = Occasions::new();
        let other = other.map(|other| (other, &none));
        let mut checks = gate(new, other, &["box".into()], &["m".into()], &bounds);
        assert_eq!(checks.len(), 1);
        checks.remove(0)
    }

    fn overhead_of(value: f64, half: f64) -> GateCheck {
        let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
        one(&analysis(ratio(value, half, 5), true), None, bounds)
    }

    #[test]
    fn the_interval_decides_and_not_the_estimate() {
        assert_eq!(overhead_of(0.97, 0.01).outcome, GateOutcome::Pass);
        assert_eq!(overhead_of(0.90, 0.01).outcome, GateOutcome::Fail);
        let near = overhead_of(0.94, 0.02);
        assert_eq!((near.outcome, near.blocks_needed), (GateOutcome::Inconclusive, Some(18)), "{near:?}");
        assert!(near.why.contains("about 18 blocks would tell, there are 5"), "{}", near.why);
        let (low, high) = (near.interval.unwrap().low, near.interval.unwrap().high);
        assert!(low < near.worse_by.unwrap() && near.worse_by.unwrap() < high, "{near:?}");
        let on_it = overhead_of(0.95, 0.02);
        assert!(on_it.blocks_needed.is_none() && on_it.why.contains("no reasonable number"), "{on_it:?}");
    }

    // 4000 runs at 2.5 % have a standard error of 0.25 %.
    #[test]
    fn a_form_exactly_at_its_bound_rarely_fails_and_rarely_passes() {
        const RUNS: u32 = 4_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(12));
        let (mut failed, mut passed) = (0, 0);
        for _ in 0..RUNS {
            let values: Vec<f64> = (0..5).map(|_| 0.95_f64.ln() + 0.01 * noise.normal()).collect();
            let mean = values.iter().sum::<f64>() / 5.0;
            let half = student_quantile(0.975, 4.0) * sd(&values).unwrap() / 5.0_f64.sqrt();
            let outcome = overhead_of(mean.exp(), half).outcome;
            failed += u32::from(outcome == GateOutcome::Fail);
            passed += u32::from(outcome == GateOutcome::Pass);
        }
        for share in [failed, passed].map(|count| f64::from(count) / f64::from(RUNS)) {
            assert!((0.015..=0.035).contains(&share), "{failed} failed, {passed} passed");
        }
    }

    #[test]
    fn less_can_be_better() {
        let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
        let slower = one(&analysis(ratio(1.2, 0.01, 5), false), None, bounds);
        assert_eq!(slower.outcome, GateOutcome::Fail);
        assert!((slower.worse_by.unwrap() - 0.2).abs() < 1e-12);
        let faster = one(&analysis(ratio(0.8, 0.01, 5), false), None, bounds);
        assert_eq!(faster.outcome, GateOutcome::Pass);
    }

    #[test]
    fn what_must_not_be_used_is_inconclusive_and_says_why() {
        let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
        let mut emulated = ratio(0.1, 0.01, 5);
        emulated.verdict = Verdict::Emulated;
        let check = one(&analysis(emulated, true), None, bounds);
        assert!(check.outcome == GateOutcome::Inconclusive && check.why.starts_with("EMULATED"), "{check:?}");
        // Certain either way by their intervals, and still not to be judged.
        for value in [0.5, 0.99] {
            let words = "verdict withheld: its trials are void more often than the others".to_owned();
            let withheld = Ratio { verdict: Verdict::Withheld, words, ..ratio(value, 0.001, 5) };
            let check = one(&analysis(withheld.clone(), true), None, bounds);
            assert!(
                check.outcome == GateOutcome::Inconclusive && check.why.contains("are void more often"),
                "{check:?}"
            );
            let against = Bounds { max_overhead: None, max_regression: Some(0.03) };
            let (here, there) = (analysis(ratio(0.9, 0.001, 5), true), analysis(withheld, true));
            let check = one(&here, Some(&there), against);
            assert!(check.outcome == GateOutcome::Inconclusive && check.why.contains("the other record"), "{check:?}");
            let floorless = Ratio { verdict: Verdict::NoNoiseFloor, ..ratio(value, 0.001, 5) };
            let check = one(&analysis(floorless, true), None, bounds);
            assert!(check.outcome == GateOutcome::Inconclusive && check.why.contains("noise floor"), "{check:?}");
        }
        // An interval that holds 1, well within the bound: without a noise floor that is no reason to pass.
        let alike = Ratio { verdict: Verdict::NoDifference, ..ratio(1.0, 0.001, 5) };
        let mut floorless = analysis(alike.clone(), true);
        assert_eq!(one(&floorless, None, bounds).outcome, GateOutcome::Pass);
        floorless.metrics[0].noise_floor = None;
        let check = one(&floorless, None, bounds);
        assert!(
            check.outcome == GateOutcome::Inconclusive && check.why.contains("control of this record"),
            "{check:?}"
        );
        let against = Bounds { max_overhead: None, max_regression: Some(0.03) };
        let check = one(&analysis(alike, true), Some(&floorless), against);
        assert!(check.outcome == GateOutcome::Inconclusive && check.why.contains("of the other record"), "{check:?}");
        let mut few = ratio(0.5, 0.01, 2);
        few.interval = None;
        let check = one(&analysis(few, true), None, bounds);
        assert!(check.outcome == GateOutcome::Inconclusive && check.why.contains("2 block(s)"), "{check:?}");
        let mut unsound = analysis(ratio(0.5, 0.01, 5), true);
        unsound.metrics[0].control_differs = true;
        let check = one(&unsound, None, bounds);
        assert!(check.outcome == GateOutcome::Inconclusive && check.why.contains("A/A control"), "{check:?}");
        let mut noisy = analysis(ratio(0.90, 0.01, 5), true);
        noisy.metrics[0].noise_floor = Some(0.2);
        let check = one(&noisy, None, bounds);
        assert!(check.outcome == GateOutcome::Inconclusive && check.why.contains("noise floor"), "{check:?}");
        let mut absent = analysis(ratio(0.90, 0.01, 5), true);
        absent.metrics[0].ratios.clear();
        let check = one(&absent, None, bounds);
        assert!(check.outcome == GateOutcome::Inconclusive && check.why.contains("not measured"), "{check:?}");
    }

    #[test]
    fn a_regression_is_a_change_of_the_ratio_not_the_ratio() {
        let bounds = Bounds { max_overhead: None, max_regression: Some(0.03) };
        let at = |value, half| analysis(ratio(value, half, 5), true);
        let same = one(&at(0.5, 0.005), Some(&at(0.5, 0.005)), bounds);
        assert_eq!(same.outcome, GateOutcome::Pass, "{same:?}");
        let worse = one(&at(0.45, 0.005), Some(&at(0.5, 0.005)), bounds);
        assert_eq!(worse.outcome, GateOutcome::Fail, "{worse:?}");
        // A baseline so vague that no new block helps.
        let vague = one(&at(0.485, 0.005), Some(&at(0.5, 0.1)), bounds);
        assert!(vague.outcome == GateOutcome::Inconclusive && vague.blocks_needed.is_none(), "{vague:?}");
        assert!(vague.why.contains("of both records"), "{}", vague.why);
    }

    #[test]
    fn the_gravest_outcome_is_the_gates() {
        let (pass, fail) = (overhead_of(0.97, 0.01), overhead_of(0.90, 0.01));
        let near = overhead_of(0.94, 0.02);
        assert_eq!(gate_outcome(&[pass.clone(), near.clone()]), GateOutcome::Inconclusive);
        assert_eq!(gate_outcome(&[near, fail, pass.clone()]), GateOutcome::Fail);
        assert_eq!(gate_outcome(&[pass]), GateOutcome::Pass);
        assert_eq!(gate_outcome(&[]), GateOutcome::Inconclusive);
    }
}
