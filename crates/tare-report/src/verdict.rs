//! Verdicts in words. Only here do data become sentences about ratios; nothing reads them back.

use tare_core::record::PEAK_LOAD;
use tare_stats::{
    Bound, BoundCause, Interval, MetricAnalysis, Ratio, Verdict, Withheld, percent_at_most, percent_text, ratio_text,
};

/// A ratio's verdict, to be put into words.
#[derive(Clone, Copy)]
pub(crate) struct VerdictWords<'a> {
    metric: &'a MetricAnalysis,
    ratio: &'a Ratio,
    control: bool,
    margin: f64,
}

impl<'a> VerdictWords<'a> {
    /// Of a ratio in a metric of an analysis.
    pub(crate) fn of(
        analysis: &tare_stats::Analysis,
        metric: &'a MetricAnalysis,
        ratio: &'a Ratio,
    ) -> VerdictWords<'a> {
        VerdictWords { metric, ratio, control: ratio.arm == analysis.control, margin: analysis.margin }
    }

    /// Whether a difference is certain, so that figures belong beside it.
    pub(crate) fn is_certain(self) -> bool {
        matches!(self.ratio.verdict, Verdict::Better | Verdict::Worse)
    }

    /// Whether there is no verdict because too little was measured, which is the same for many ratios of a record.
    pub(crate) fn is_missing(self) -> bool {
        matches!(self.ratio.verdict, Verdict::TooFewBlocks | Verdict::NoNoiseFloor)
    }

    /// What it differs in, where a difference is certain.
    pub(crate) fn way(self) -> Option<Way> {
        self.is_certain().then(|| way(self.metric, self.ratio.ratio > 1.0))
    }

    /// The verdict without the ratio's figures and without what to do: `slower`, `no difference detectable; smallest
    /// detectable 1.8 %`.
    pub(crate) fn verdict(self) -> String {
        let (metric, ratio) = (self.metric, self.ratio);
        let margin = percent_text(self.margin);
        match ratio.verdict {
            Verdict::Better | Verdict::Worse => direction(metric, ratio.ratio > 1.0).to_owned(),
            Verdict::Equivalent => format!("equivalent: within {margin} of the baseline"),
            Verdict::NoDifference => {
                let smallest = ratio.smallest_detectable.map(percent_text);
                let smallest = smallest.map(|share| format!("; smallest detectable {share}")).unwrap_or_default();
                let equals = format!("; identical forms may differ by more than the margin of {margin}");
                let equals = if ratio.equals_beyond_margin { &equals } else { "" };
                let cold = ratio.cold.filter(|cold| cold.decides).map(|cold| match cold.share {
                    Some(_) => format!("; short slices may hide a difference beyond the margin of {margin}"),
                    None => "; how much short slices hide is not known".to_owned(),
                });
                let still = ratio
                    .still
                    .filter(|still| still.decides)
                    .map(|_| format!("; without stalls it might be beyond the margin of {margin}"));
                let left = cold.or(still).unwrap_or_default();
                format!("no difference detectable{smallest}{equals}{left}")
            }
            // It cannot be within the floor that it sets.
            Verdict::WithinNoise if self.control => {
                "differs from the baseline, which raises the noise floor".to_owned()
            }
            Verdict::WithinNoise => {
                format!("within the noise floor of {}", percent_at_most(metric.noise_floor.unwrap_or(f64::NAN)))
            }
            Verdict::Withheld => {
                let why = ratio.withheld.map(withheld).or(ratio.bound.map(bound));
                let why = why.unwrap_or("the run is not sound");
                format!("verdict withheld: {why}")
            }
            Verdict::TooFewBlocks => {
                let blocks = ratio.blocks.len();
                let blocks = if blocks == 1 { "1 block" } else { &format!("{blocks} blocks") };
                format!("no verdict: {blocks} measured, 3 needed")
            }
            Verdict::NoNoiseFloor => "no verdict: the A/A control was not measured in 3 blocks".to_owned(),
            Verdict::Emulated => "EMULATED: not a claim about the real thing".to_owned(),
        }
    }

    /// What is to be added of a difference that is certain: `, within the margin of 1.0 %`; else nothing.
    pub(crate) fn negligible(self) -> String {
        let is = self.is_certain() && self.ratio.equivalent == Some(true);
        if is { format!(", within the margin of {}", percent_text(self.margin)) } else { String::new() }
    }

    /// Both, for where the figures stand beside it.
    pub(crate) fn beside_figures(self) -> String {
        self.verdict() + &self.negligible()
    }

    /// All of it: `slower: 0.87 [0.85, 0.89]`, `no difference detectable; ...; about 20 blocks for an interval of +-1.0
    /// %`.
    pub(crate) fn whole(self) -> String {
        let figures = self.ratio.text();
        let figures = if self.is_certain() { format!(": {figures}") } else { String::new() };
        let margin = percent_text(self.margin);
        let more = self.ratio.blocks_needed.map(|n| format!("; about {n} blocks for an interval of +-{margin}"));
        format!("{}{figures}{}{}", self.verdict(), self.negligible(), more.unwrap_or_default())
    }
}

/// Why a verdict is withheld, whatever the figures.
pub(crate) fn withheld(why: Withheld) -> &'static str {
    match why {
        Withheld::ControlDiffers => "the A/A control differs",
        Withheld::VoidTooOften => "its trials are void more often than the others'",
        Withheld::OtherVoidTooOften => "the trials it is compared with are void more often than the others'",
    }
}

/// `0.87 [0.85, 0.89]`, with `<=` or `>=` before it where it is a bound.
pub fn ratio_figure(bound: Option<Bound>, ratio: f64, interval: Option<Interval>) -> String {
    let sign = bound.map_or("", |bound| bound.side.sign());
    format!("{sign}{}", ratio_text(ratio, interval))
}

/// Why there is no verdict on a cost, where there is none: it is withheld, or it is a bound and the truth may be no
/// difference, or the opposite one.
pub(crate) fn unsaid(why: Option<Withheld>, matters: bool, only: Option<Bound>) -> Option<&'static str> {
    why.map(withheld).or(only.filter(|_| !matters).map(bound))
}

/// Why no more than a bound is known.
pub(crate) fn bound(bound: Bound) -> &'static str {
    match bound.cause {
        BoundCause::Failures => "only a bound is known, because operations failed",
        BoundCause::Generator => "only a bound is known, because the generator was the limit",
    }
}

/// What a metric is about, and so which words fit a difference in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Operations a second.
    Rate,
    /// The peak load.
    Load,
    /// CPU time.
    Cost {
        /// Whether there is more of it.
        more: bool,
    },
    /// A time.
    Time,
    /// Anything else.
    Other,
}

/// By metric, for a difference upwards or not.
fn way(metric: &MetricAnalysis, up: bool) -> Way {
    match metric.name.as_str() {
        "throughput" => Way::Rate,
        PEAK_LOAD => Way::Load,
        name if name.starts_with("cpu") => Way::Cost { more: up },
        _ if metric.unit == "op/s" => Way::Rate,
        _ if metric.unit == "us" => Way::Time,
        _ => Way::Other,
    }
}

/// Which way, in a word that fits the metric.
fn direction(metric: &MetricAnalysis, up: bool) -> &'static str {
    match (way(metric, up), up) {
        (Way::Rate, true) => "faster",
        (Way::Rate, false) => "slower",
        (Way::Load, true) => "carries more",
        (Way::Load, false) => "carries less",
        (Way::Cost { .. }, true) => "costs more",
        (Way::Cost { .. }, false) => "costs less",
        (Way::Time, true) => "longer",
        (Way::Time, false) => "shorter",
        (Way::Other, up) if up == metric.more_is_better => "better",
        (Way::Other, _) => "worse",
    }
}
