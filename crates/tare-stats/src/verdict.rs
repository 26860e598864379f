//! What may be said of a ratio, and how figures are written.

use crate::arm::Arm;
use crate::bound::Bound;
use crate::interval::Interval;
use serde::Serialize;
use tare_core::record::TrialMetric;

/// What may be said of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better than the baseline, beyond interval and noise floor.
    Better,
    /// Worse than the baseline, beyond interval and noise floor.
    Worse,
    /// Whatever difference there may be lies within the margin.
    Equivalent,
    /// The interval holds 1.
    NoDifference,
    /// The interval excludes 1, but the A/A control might lie as far off.
    WithinNoise,
    /// Fewer than 3 blocks.
    TooFewBlocks,
    /// The A/A control differs, or the form's trials are void more often than the others': whatever the interval says,
    /// this run cannot be trusted with it.
    Withheld,
    /// The A/A control was not measured often enough for a noise floor.
    NoNoiseFloor,
    /// The form or the baseline was measured under emulation: not a claim.
    Emulated,
}

/// Why a run says nothing of two arms, whatever their figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Withheld {
    /// The A/A control differs from its equal in this metric: nobody knows what a difference says here.
    ControlDiffers,
    /// The arm's trials are void or failed more often than the others': those that are left are not its usual ones.
    VoidTooOften,
    /// The same of the arm that it is compared with.
    OtherVoidTooOften,
}

impl Withheld {
    /// Of an arm compared with another one, in a metric whose A/A control differs or not.
    pub(crate) fn of(arm: &Arm, against: &Arm, control_differs: bool) -> Option<Withheld> {
        match () {
            () if control_differs => Some(Withheld::ControlDiffers),
            () if arm.void_p.is_some() => Some(Withheld::VoidTooOften),
            () if against.void_p.is_some() => Some(Withheld::OtherVoidTooOften),
            () => None,
        }
    }

    /// Of an arm by the baseline among `arms`. The A/A control is what others are judged by.
    pub(crate) fn by_baseline(arm: &Arm, arms: &[Arm], control_differs: bool) -> Option<Withheld> {
        let baseline = arms.iter().find(|arm| arm.baseline).filter(|_| !arm.control)?;
        Withheld::of(arm, baseline, control_differs)
    }
}

/// What a verdict on a ratio is made of.
pub(crate) struct RatioSummary {
    /// Mean log difference.
    pub(crate) mean: f64,
    pub(crate) interval: Option<Interval>,
    /// Log scale.
    pub(crate) noise_floor: Option<f64>,
    pub(crate) emulated: bool,
    /// Why nothing may be said, whatever the figures.
    pub(crate) withheld: Option<Withheld>,
    /// What is known of the ratio, where it is not the ratio.
    pub(crate) bound: Option<Bound>,
    /// As a share.
    pub(crate) smallest_detectable: Option<f64>,
}

/// A difference needs an interval that excludes 1 and an effect beyond the noise floor; that there is none needs a
/// noise floor, too.
pub(crate) fn judge(metric: &TrialMetric<'_>, summary: &RatioSummary) -> Verdict {
    if summary.emulated {
        return Verdict::Emulated;
    }
    let Some(interval) = summary.interval else { return Verdict::TooFewBlocks };
    if summary.withheld.is_some() {
        return Verdict::Withheld;
    }
    // How small a difference would have been found is not known either.
    let Some(floor) = summary.noise_floor else { return Verdict::NoNoiseFloor };
    let verdict = by_figures(metric, summary, interval, floor);
    match &summary.bound {
        Some(bound) if !leaves(bound, verdict, summary.mean) => Verdict::Withheld,
        _ => verdict,
    }
}

/// Whether a verdict on a ratio that is only a bound, whose log is `mean`, holds for the true one all the more.
fn leaves(bound: &Bound, verdict: Verdict, mean: f64) -> bool {
    bound.carries(mean) && matches!(verdict, Verdict::Better | Verdict::Worse)
}

/// What the figures say by themselves.
fn by_figures(metric: &TrialMetric<'_>, summary: &RatioSummary, interval: Interval, floor: f64) -> Verdict {
    if interval.contains(1.0) {
        return Verdict::NoDifference;
    }
    if summary.mean.abs() <= floor {
        return Verdict::WithinNoise;
    }
    if (summary.mean > 0.0) == metric.more_is_better { Verdict::Better } else { Verdict::Worse }
}

/// Whether a verdict is one that the report gives of the figures: not withheld, not of an emulated form, and not one
/// for want of a noise floor.
pub(crate) fn is_given(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Withheld | Verdict::Emulated | Verdict::NoNoiseFloor)
}

/// `0.87 [0.85, 0.89]`; three decimals when the interval is narrower than 0.01, or when with two an end would look like
/// 1 and so like no difference. An end beyond a thousand is `>999`: how far beyond, says nothing.
pub fn ratio_text(ratio: f64, interval: Option<Interval>) -> String {
    let like_one = |end: f64| end != 1.0 && (end - 1.0).abs() < 0.005;
    let decimals = match interval {
        _ if ratio >= 10.0 => 1,
        Some(Interval { low, high }) if high - low < 0.01 || like_one(low) || like_one(high) => 3,
        _ => 2,
    };
    match interval {
        Some(Interval { low, high }) if high >= 1000.0 => format!("{ratio:.decimals$} [{low:.decimals$}, >999]"),
        Some(Interval { low, high }) => format!("{ratio:.decimals$} [{low:.decimals$}, {high:.decimals$}]"),
        None => format!("{ratio:.decimals$}"),
    }
}

/// A share as `1.8 %`; tenfold and more, where digits say nothing, as `over 1000 %`.
pub fn percent_text(share: f64) -> String {
    match share * 100.0 {
        value if value > 1000.0 => "over 1000 %".to_owned(),
        value if value >= 10.0 => format!("{value:.0} %"),
        value => format!("{value:.1} %"),
    }
}

/// An upper limit of a share, as [`percent_text`] but rounded up: what is said to be smaller, is.
pub fn percent_at_most(share: f64) -> String {
    let percent = share * 100.0;
    let step = if percent > 9.9 { 1.0 } else { 0.1 };
    // A tenth has no exact double, and a limit that lies on a step is not the next one.
    percent_text((percent / step - 1e-6).ceil().max(1.0) * step / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{BoundCause, Side};
    use tare_core::record::TRIAL_METRICS;

    #[test]
    fn a_limit_is_rounded_up_and_never_nothing() {
        for (share, said) in [
            (0.0094, "1.0 %"),
            (0.009, "0.9 %"),
            (0.0004, "0.1 %"),
            (0.0, "0.1 %"),
            (0.0991, "10 %"),
            (0.1205, "13 %"),
            (0.12, "12 %"),
            (20.0, "over 1000 %"),
        ] {
            assert_eq!(percent_at_most(share), said, "{share}");
        }
    }

    fn summary(ratio: f64, half: f64, noise_floor: Option<f64>) -> RatioSummary {
        let mean = ratio.ln();
        let interval = Some(Interval { low: (mean - half).exp(), high: (mean + half).exp() });
        let (emulated, withheld, bound) = (false, None, None);
        RatioSummary { mean, interval, noise_floor, emulated, withheld, bound, smallest_detectable: Some(0.018) }
    }

    fn said(metric: usize, summary: &RatioSummary) -> Verdict {
        judge(&TRIAL_METRICS[metric], summary)
    }

    #[test]
    fn a_verdict_needs_the_interval_and_the_floor() {
        assert_eq!(said(0, &summary(0.87, 0.023, Some(0.02))), Verdict::Worse);
        assert_eq!(said(2, &summary(1.4, 0.1, Some(0.02))), Verdict::Worse);
        assert_eq!(said(3, &summary(0.9, 0.02, Some(0.02))), Verdict::Better);
        assert_eq!(said(0, &summary(0.995, 0.01, Some(0.02))), Verdict::NoDifference);
        assert_eq!(said(0, &summary(0.98, 0.004, Some(0.021))), Verdict::WithinNoise);
        assert_eq!(said(0, &summary(0.98, 0.004, Some(0.01))), Verdict::Worse);
        assert_eq!(said(0, &summary(0.5, 0.01, None)), Verdict::NoNoiseFloor);
        let holds_one = summary(0.995, 0.01, None);
        assert_eq!(said(0, &holds_one), Verdict::NoNoiseFloor, "nobody knows what would have been found");
    }

    #[test]
    fn what_is_withheld_emulated_or_too_short_makes_no_claim() {
        let clear = || summary(0.5, 0.01, Some(0.01));
        let withheld = RatioSummary { withheld: Some(Withheld::ControlDiffers), ..clear() };
        assert_eq!(said(0, &withheld), Verdict::Withheld);
        assert_eq!(said(0, &RatioSummary { emulated: true, ..withheld }), Verdict::Emulated);
        assert_eq!(said(0, &RatioSummary { interval: None, ..clear() }), Verdict::TooFewBlocks);
    }

    #[test]
    fn only_what_holds_all_the_more_is_left_of_a_verdict() {
        let bound = |side| Bound { side, cause: BoundCause::Failures };
        assert!(leaves(&bound(Side::AtLeast), Verdict::Worse, 0.3));
        assert!(!leaves(&bound(Side::AtLeast), Verdict::Better, -0.3));
        assert!(!leaves(&bound(Side::AtLeast), Verdict::NoDifference, 0.01));
        assert!(!leaves(&bound(Side::Either), Verdict::Worse, 0.3));
    }

    #[test]
    fn an_end_that_would_look_like_one_has_three_decimals() {
        let text = |low, high| ratio_text(0.98, Some(Interval { low, high }));
        assert_eq!(text(0.976, 0.984), "0.980 [0.976, 0.984]");
        assert_eq!(text(0.96, 0.997), "0.980 [0.960, 0.997]");
        assert_eq!(text(0.95, 0.99), "0.98 [0.95, 0.99]");
        assert_eq!(ratio_text(23.4, None), "23.4");
        assert_eq!(text(0.0, 13_991_611.5), "0.98 [0.00, >999]");
        assert_eq!([0.0178, 0.178, 10.0, 10.001].map(percent_text), ["1.8 %", "18 %", "1000 %", "over 1000 %"]);
    }
}
