//! What may be said of a ratio, and in which words.

use crate::analysis::{Interval, Verdict};
use crate::pair::Withheld;
use tare_core::record::TrialMetric;

/// What decides.
pub(crate) struct Evidence {
    /// Mean log difference.
    pub(crate) mean: f64,
    pub(crate) interval: Option<Interval>,
    /// Log scale.
    pub(crate) noise_floor: Option<f64>,
    pub(crate) emulated: bool,
    /// Why nothing may be said, whatever the figures.
    pub(crate) withheld: Option<Withheld>,
    /// As a share.
    pub(crate) smallest_detectable: Option<f64>,
    pub(crate) blocks: usize,
}

/// A difference needs an interval that excludes 1 and an effect beyond the noise floor; that there is none needs a
/// noise floor, too.
pub(crate) fn judge(metric: &TrialMetric<'_>, evidence: &Evidence) -> Verdict {
    if evidence.emulated {
        return Verdict::Emulated;
    }
    let Some(interval) = evidence.interval else { return Verdict::TooFewBlocks };
    if evidence.withheld.is_some() {
        return Verdict::Withheld;
    }
    // How small a difference would have been found is not known either.
    let Some(floor) = evidence.noise_floor else { return Verdict::NoNoiseFloor };
    if interval.contains(1.0) {
        return Verdict::NoDifference;
    }
    if evidence.mean.abs() <= floor {
        return Verdict::WithinNoise;
    }
    if (evidence.mean > 0.0) == metric.more_is_better { Verdict::Better } else { Verdict::Worse }
}

/// The verdict in words: `slower: 0.87 [0.85, 0.89]`.
pub(crate) fn words(metric: &TrialMetric<'_>, verdict: Verdict, evidence: &Evidence) -> String {
    let figures = || ratio_text(evidence.mean.exp(), evidence.interval);
    let detectable = || match evidence.smallest_detectable {
        Some(share) => format!("; smallest detectable {}", percent_text(share)),
        None => String::new(),
    };
    match verdict {
        Verdict::Better | Verdict::Worse => format!("{}: {}", direction(metric, evidence.mean > 0.0), figures()),
        // What is equivalent is found among these afterwards.
        Verdict::NoDifference | Verdict::Equivalent => format!("no difference detectable{}", detectable()),
        Verdict::WithinNoise => {
            format!("within the noise floor of {}", percent_text(evidence.noise_floor.unwrap_or(f64::NAN).exp_m1()))
        }
        Verdict::Withheld => {
            format!("verdict withheld: {}", evidence.withheld.map_or("the run is not sound", Withheld::words))
        }
        Verdict::TooFewBlocks => {
            let blocks = if evidence.blocks == 1 { "1 block" } else { &format!("{} blocks", evidence.blocks) };
            format!("no verdict: {blocks} measured, 3 needed")
        }
        Verdict::NoNoiseFloor => "no verdict: the A/A control was not measured in 3 blocks".to_owned(),
        Verdict::Emulated => "EMULATED: not a claim about the real thing".to_owned(),
    }
}

/// Which way, in a word that fits the metric.
fn direction(metric: &TrialMetric<'_>, up: bool) -> &'static str {
    match (metric.unit, up) {
        ("op/s", true) => "faster",
        ("op/s", false) => "slower",
        _ if metric.name.starts_with("cpu") => {
            if up {
                "costs more"
            } else {
                "costs less"
            }
        }
        ("load", true) => "carries more",
        ("load", false) => "carries less",
        ("us", true) => "longer",
        ("us", false) => "shorter",
        (_, up) if up == metric.more_is_better => "better",
        _ => "worse",
    }
}

/// `0.87 [0.85, 0.89]`; three decimals when the interval is narrower than 0.01, or when with two an end would look like
/// 1 and so like no difference.
pub fn ratio_text(ratio: f64, interval: Option<Interval>) -> String {
    let like_one = |end: f64| end != 1.0 && (end - 1.0).abs() < 0.005;
    let decimals = match interval {
        _ if ratio >= 10.0 => 1,
        Some(Interval { low, high }) if high - low < 0.01 || like_one(low) || like_one(high) => 3,
        _ => 2,
    };
    match interval {
        Some(Interval { low, high }) => format!("{ratio:.decimals$} [{low:.decimals$}, {high:.decimals$}]"),
        None => format!("{ratio:.decimals$}"),
    }
}

/// A share as `1.8 %`.
pub fn percent_text(share: f64) -> String {
    let value = share * 100.0;
    if value >= 10.0 { format!("{value:.0} %") } else { format!("{value:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::record::TRIAL_METRICS;

    fn evidence(ratio: f64, half: f64, floor: Option<f64>) -> Evidence {
        let mean = ratio.ln();
        let interval = Some(Interval { low: (mean - half).exp(), high: (mean + half).exp() });
        let smallest_detectable = Some(0.018);
        Evidence { mean, interval, noise_floor: floor, emulated: false, withheld: None, smallest_detectable, blocks: 5 }
    }

    fn said(metric: usize, evidence: &Evidence) -> String {
        let metric = &TRIAL_METRICS[metric];
        words(metric, judge(metric, evidence), evidence)
    }

    #[test]
    fn a_verdict_needs_the_interval_and_the_floor() {
        assert_eq!(said(0, &evidence(0.87, 0.023, Some(0.02))), "slower: 0.87 [0.85, 0.89]");
        assert_eq!(said(2, &evidence(1.4, 0.1, Some(0.02))), "longer: 1.40 [1.27, 1.55]");
        assert_eq!(said(3, &evidence(0.9, 0.02, Some(0.02))), "costs less: 0.90 [0.88, 0.92]");
        assert_eq!(said(0, &evidence(0.995, 0.01, Some(0.02))), "no difference detectable; smallest detectable 1.8 %");
        assert_eq!(said(0, &evidence(0.98, 0.004, Some(0.021))), "within the noise floor of 2.1 %");
        assert_eq!(said(0, &evidence(0.98, 0.004, Some(0.01))), "slower: 0.980 [0.976, 0.984]");
        assert!(said(0, &evidence(0.5, 0.01, None)).starts_with("no verdict"));
        let holds_one = judge(&TRIAL_METRICS[0], &evidence(0.995, 0.01, None));
        assert_eq!(holds_one, Verdict::NoNoiseFloor, "nobody knows what would have been found");
    }

    #[test]
    fn what_is_withheld_says_why_and_nothing_else() {
        let mut evidence = evidence(0.5, 0.01, Some(0.01));
        evidence.withheld = Some(Withheld::ControlDiffers);
        assert_eq!(said(0, &evidence), "verdict withheld: the A/A control differs");
    }

    #[test]
    fn emulation_and_few_blocks_make_no_claim() {
        let mut evidence = evidence(0.05, 0.01, Some(0.01));
        evidence.emulated = true;
        assert!(said(0, &evidence).starts_with("EMULATED"));
        evidence.emulated = false;
        evidence.interval = None;
        evidence.blocks = 1;
        assert_eq!(said(0, &evidence), "no verdict: 1 block measured, 3 needed");
    }
}
