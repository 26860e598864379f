//! What each variant of a form wins back of what the form costs.

use crate::arm::Arm;
use crate::ladder::Cost;
use crate::pair::Pair;
use crate::ratios::MetricAnalysis;
use crate::verdict::{Verdict, Withheld};
use serde::Serialize;
use tare_core::advice::{Advice, Variant};

/// What each variant of a form wins back of its cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceGains {
    /// The form that is varied.
    pub of: String,
    /// By metric that is compared.
    pub metrics: Vec<MetricGains>,
    /// Variants of which nothing was measured.
    pub left_out: Vec<String>,
}

/// What the variants win back by one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricGains {
    /// The metric's name.
    pub name: String,
    /// For readers.
    pub title: String,
    /// The variants, those first that win back most; behind them those of which only a bound is known, for a bound has
    /// no rank.
    pub variants: Vec<VariantGain>,
}

/// What a variant wins back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantGain {
    /// The variant's form.
    pub form: String,
    /// What the variant is called in every study.
    pub variant: String,
    /// What it does otherwise.
    pub changes: String,
    /// What is given up for it; empty where nothing is.
    pub trades: String,
    /// The variant by the form, its interval together with those of the metric's other variants.
    pub cost: Cost,
    /// How much of the way from the form to the baseline it goes, on the log scale: 1 is all of it, more is beyond.
    /// None where the form and the baseline do not differ beyond interval and noise floor, nothing is said of it, or
    /// either is only a bound.
    pub share: Option<f64>,
    /// Whether the interval excludes 1, the ratio is beyond the noise floor, nothing withholds it, and where it is only
    /// a bound the truth lies farther off still.
    pub matters: bool,
    /// Why nothing is said of it, whatever its figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Whether the variant does better than the form, by the ratio alone.
    pub better: bool,
}

/// What each variant wins back, by every metric that is compared.
pub(crate) fn advice_gains(advice: &Advice, arms: &[Arm], metrics: &[MetricAnalysis]) -> AdviceGains {
    let measured = |form: &str| arms.iter().any(|arm| arm.name == form && arm.measured > 0);
    let left_out = advice.variants.iter().map(|variant| &variant.form).filter(|form| !measured(form)).cloned();
    let compared = metrics.iter().filter(|metric| metric.compared);
    let metrics = compared.map(|metric| of_metric(advice, arms, metric)).filter(|metric| !metric.variants.is_empty());
    AdviceGains { of: advice.of.clone(), metrics: metrics.collect(), left_out: left_out.collect() }
}

fn of_metric(advice: &Advice, arms: &[Arm], metric: &MetricAnalysis) -> MetricGains {
    let has = |variant: &&Variant| metric.estimates.iter().any(|estimate| estimate.arm == variant.form);
    let family = advice.variants.iter().filter(has).count();
    // What a variant goes a part of must itself be certain.
    let whole = metric.ratios.iter().find(|ratio| ratio.arm == advice.of);
    let whole = whole.filter(|whole| matches!(whole.verdict, Verdict::Better | Verdict::Worse));
    let gain = |variant: &Variant| {
        let pair = Pair::of(&variant.form, &advice.of, arms, metric)?;
        let cost = Cost::of(&pair, family);
        Some(VariantGain {
            form: variant.form.clone(),
            variant: variant.name.clone(),
            changes: variant.changes.clone(),
            trades: variant.trades.clone(),
            cost,
            share: whole
                .filter(|whole| pair.withheld.is_none() && pair.bound.or(whole.bound).is_none())
                .map(|whole| -cost.ratio.ln() / whole.ratio.ln()),
            matters: pair.stands(cost.interval),
            withheld: pair.withheld,
            better: (cost.ratio > 1.0) == metric.more_is_better,
        })
    };
    let mut variants: Vec<VariantGain> = advice.variants.iter().filter_map(gain).collect();
    let won = |gain: &VariantGain| if metric.more_is_better { gain.cost.ratio.ln() } else { -gain.cost.ratio.ln() };
    let is_bound = |gain: &VariantGain| gain.cost.bound.is_some();
    variants.sort_by(|a, b| is_bound(a).cmp(&is_bound(b)).then(won(b).total_cmp(&won(a))));
    MetricGains { name: metric.name.clone(), title: metric.title.clone(), variants }
}
